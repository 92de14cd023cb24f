// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kernel release as a number that can be compared. Never guesses: a text without one gives none.

/// The first two numbers of `uname -r`, which say which kernel source is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Release(pub(crate) u32, pub(crate) u32);

impl Release {
    /// From `6.12.57+deb13-amd64` and its like.
    pub(crate) fn parse(text: &str) -> Option<Release> {
        let (major, rest) = text.trim().split_once('.')?;
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        Some(Release(major.parse().ok()?, rest.get(..end)?.parse().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::Release;

    #[test]
    fn a_release_is_read_from_what_distributions_append_to_it() {
        for (text, release) in [
            ("6.18.44-fc-v657", Some(Release(6, 18))),
            ("5.15.0-1033-realtime\n", Some(Release(5, 15))),
            ("7.0-rc1", Some(Release(7, 0))),
            ("6.12", Some(Release(6, 12))),
            ("linux", None),
            ("6.", None),
            ("", None),
        ] {
            assert_eq!(Release::parse(text), release, "{text:?}");
        }
        assert!(Release(6, 9) < Release(6, 12) && Release(6, 12) < Release(7, 0));
    }
}
