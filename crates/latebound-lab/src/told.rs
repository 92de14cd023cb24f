// SPDX-License-Identifier: MIT OR Apache-2.0
//! What files and programs of others tell the lab: the header of a kernel image, answers of apt, variables of a package. Pure: bytes
//! and text in, values out, and nothing in them is believed.

use std::collections::BTreeMap;
use std::ops::Range;

/// The header of the boot protocol (Linux 6.12, Documentation/arch/x86/boot.rst).
pub(crate) struct ImageHeader([u8; ImageHeader::SIZE]);

impl ImageHeader {
    /// How many bytes of an image are read.
    pub(crate) const SIZE: usize = 0x268;

    /// `None` where it is no header.
    pub(crate) fn parse(header: [u8; Self::SIZE]) -> Option<ImageHeader> {
        (header.get(0x202..0x206)? == b"HdrS").then_some(ImageHeader(header))
    }

    fn u16(&self, at: usize) -> u64 {
        u64::from(u16::from_le_bytes([self.0[at], self.0[at + 1]]))
    }

    fn u32(&self, at: usize) -> u64 {
        self.u16(at) | self.u16(at + 2) << 16
    }

    /// The bytes of the image that [`release`] reads: the offset of the version's text, less 0x200, stands at 0x20e.
    pub(crate) fn release(&self) -> Range<u64> {
        let start = self.u16(0x20e) + 0x200;
        start..start + 128
    }

    /// The bytes of the image that hold the packed kernel; `None` before protocol 2.08, which has them first.
    pub(crate) fn payload(&self) -> Option<Range<u64>> {
        if self.u16(0x206) < 0x208 {
            return None;
        }
        let set_up = match self.0[0x1f1] {
            0 => 4,
            sectors => u64::from(sectors),
        };
        // payload_offset counts from the end of the set-up code.
        let start = (set_up + 1) * 512 + self.u32(0x248);
        Some(start..start + self.u32(0x24c))
    }
}

/// The release at the beginning of an image's version text. It names files, so that only what may stand in a name is one.
pub(crate) fn release(version: &[u8]) -> Option<String> {
    let end = version.iter().position(|byte| matches!(byte, b' ' | 0))?;
    let release = str::from_utf8(&version[..end]).ok()?;
    let is_name = !release.is_empty() && release.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/');
    is_name.then(|| release.to_owned())
}

/// The series that there are images of: `6.12`.
pub(crate) fn series(names: &[String], rt: bool, architecture: &str) -> Vec<String> {
    let images = names.iter().filter_map(|name| image_name(name, architecture));
    let of_flavour = images.filter(|(_, flavour)| (*flavour == "rt") == rt).map(|(version, _)| version);
    of_flavour
        .filter_map(|version| match numbers(version)[..] {
            [major, minor, ..] => Some(format!("{major}.{minor}{}", if rt { "-rt" } else { "" })),
            _ => None,
        })
        .collect()
}

/// What `apt-cache depends` says that a package cannot be without.
pub(crate) fn depends(answer: &str) -> Vec<String> {
    answer.lines().filter_map(|line| line.trim().strip_prefix("Depends: ")).map(str::to_owned).collect()
}

/// What `apt-cache policy` says that apt would install. A version names a folder.
pub(crate) fn candidate(answer: &str) -> Option<String> {
    let version = answer.lines().find_map(|line| line.trim().strip_prefix("Candidate: "))?;
    (version != "(none)" && !version.contains('/')).then(|| version.to_owned())
}

/// The mirror of the archive with this label, in lines of label and mirror.
pub(crate) fn mirror<'a>(known: &'a str, label: &str) -> Option<&'a str> {
    known.lines().find_map(|line| line.strip_prefix(label)?.strip_prefix(' '))
}

/// The parts of an image package's name: version and flavour (`""`, `rt`), for signed images of this architecture.
pub(crate) fn image_name<'a>(package: &'a str, architecture: &str) -> Option<(&'a str, &'a str)> {
    let rest = package.strip_prefix("linux-image-")?.strip_suffix(architecture)?.strip_suffix('-')?;
    let (version, flavour) = match rest.strip_suffix("-rt") {
        Some(version) => (version, "rt"),
        None => (rest, ""),
    };
    let odd = ["cloud", "unsigned", "dbg", "powerpc", "16k"].iter().any(|word| version.contains(word));
    (version.starts_with(|c: char| c.is_ascii_digit()) && !odd).then_some((version, flavour))
}

/// The newest image whose version begins with this one: `6.1` finds `6.1.0-56`.
pub(crate) fn choose_image(names: &[String], version: &str, rt: bool, architecture: &str) -> Option<String> {
    let fits = |name: &&String| {
        image_name(name, architecture).is_some_and(|(found, flavour)| {
            (flavour == "rt") == rt
                && found.strip_prefix(version).is_some_and(|rest| rest.starts_with(['.', '-', '+']))
        })
    };
    names.iter().filter(fits).max_by_key(|name| numbers(name)).cloned()
}

/// The numbers in a version, to compare by.
pub(crate) fn numbers(text: &str) -> Vec<u64> {
    text.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

/// For each version and flavour the shortest name and the newest package: a metapackage `linux-image-6.12-amd64`
/// stands for its series; where there is none, the first two numbers do.
pub(crate) fn newest_images(names: &[String], architecture: &str) -> BTreeMap<String, String> {
    let mut newest: BTreeMap<String, String> = BTreeMap::new();
    for package in names {
        let Some((version, flavour)) = image_name(package, architecture) else { continue };
        let mut parts = version.split('.');
        let (Some(major), Some(minor)) = (parts.next(), parts.next()) else { continue };
        // A metapackage has no third part; the packages that it stands for are in the list themselves.
        if parts.next().is_none() {
            continue;
        }
        let minor: String = minor.chars().take_while(char::is_ascii_digit).collect();
        let name = format!("debian:{major}.{minor}{}", if flavour == "rt" { "-rt" } else { "" });
        let best = newest.entry(name).or_insert_with(|| package.clone());
        if numbers(package) > numbers(best) {
            *best = package.clone();
        }
    }
    newest
}

/// The compiler in `CC = … $(CROSS_COMPILE)gcc-14`, as this machine would name it.
pub(crate) fn named_compiler(variables: &str) -> Option<String> {
    let line = variables.lines().find(|line| line.starts_with("CC = "))?;
    let (_, name) = line.rsplit_once("$(CROSS_COMPILE)")?;
    let name = name.trim();
    name.starts_with("gcc-").then(|| name.to_owned())
}

pub(crate) fn without_line(text: &str, line: &str) -> String {
    text.lines().filter(|found| *found != line).map(|found| format!("{found}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        [
            "linux-image-6.1.0-9-amd64",
            "linux-image-6.1.0-56-amd64",
            "linux-image-6.1.0-57-amd64-unsigned",
            "linux-image-6.1.0-56-rt-amd64",
            "linux-image-6.1.0-56-cloud-amd64",
            "linux-image-6.12.117+deb12-amd64",
            "linux-image-6.12.9+deb12-amd64",
            "linux-image-amd64",
        ]
        .map(str::to_owned)
        .to_vec()
    }

    #[test]
    fn a_short_version_means_the_newest_image_that_begins_with_it() {
        let choose = |version, rt| choose_image(&names(), version, rt, "amd64");
        assert_eq!(choose("6.1", false).as_deref(), Some("linux-image-6.1.0-56-amd64"));
        assert_eq!(choose("6.1", true).as_deref(), Some("linux-image-6.1.0-56-rt-amd64"));
        assert_eq!(choose("6.12", false).as_deref(), Some("linux-image-6.12.117+deb12-amd64"));
        assert_eq!(choose("6.12", true), None);
        assert_eq!(choose("6", false).as_deref(), Some("linux-image-6.12.117+deb12-amd64"));
    }

    #[test]
    fn series_that_can_be_had_are_named_by_flavour() {
        assert_eq!(series(&names(), true, "amd64"), ["6.1-rt"]);
        assert_eq!(series(&names(), false, "amd64"), ["6.1", "6.1", "6.12", "6.12"]);
    }

    #[test]
    fn cloud_debug_and_unsigned_images_are_not_kernels_to_choose() {
        assert_eq!(image_name("linux-image-6.1.0-56-cloud-amd64", "amd64"), None);
        assert_eq!(image_name("linux-image-6.1.0-57-amd64-unsigned", "amd64"), None);
        assert_eq!(image_name("linux-image-amd64", "amd64"), None);
        assert_eq!(image_name("linux-image-6.12-rt-amd64", "amd64"), Some(("6.12", "rt")));
    }

    #[test]
    fn the_newest_image_of_each_series_and_flavour_is_listed() {
        let names = [
            "linux-image-6.1.0-9-amd64",
            "linux-image-6.1.0-56-amd64",
            "linux-image-6.1.0-56-rt-amd64",
            "linux-image-6.12-amd64",
            "linux-image-6.12.117+deb12-amd64",
            "linux-image-6.12.117+deb12-cloud-amd64",
        ]
        .map(str::to_owned);
        let found = newest_images(&names, "amd64");
        let found: Vec<(&str, &str)> =
            found.iter().map(|(name, package)| (name.as_str(), package.as_str())).collect();
        assert_eq!(
            found,
            [
                ("debian:6.1", "linux-image-6.1.0-56-amd64"),
                ("debian:6.1-rt", "linux-image-6.1.0-56-rt-amd64"),
                ("debian:6.12", "linux-image-6.12.117+deb12-amd64"),
            ]
        );
    }

    #[test]
    fn the_compiler_of_a_kernel_is_read_from_its_variables() {
        let text =
            "override ARCH = x86\nCC = $(if $(DEBIAN_KERNEL_USE_CCACHE),$(CCACHE)) $(CROSS_COMPILE)gcc-14\n";
        assert_eq!(named_compiler(text).as_deref(), Some("gcc-14"));
        assert_eq!(named_compiler("CC = $(CROSS_COMPILE)clang\n"), None);
        assert_eq!(named_compiler(""), None);
    }

    #[test]
    fn an_image_tells_where_its_release_and_its_kernel_are() {
        let mut header = [0; ImageHeader::SIZE];
        assert!(ImageHeader::parse(header).is_none());
        header[0x202..0x206].copy_from_slice(b"HdrS");
        header[0x206..0x208].copy_from_slice(&0x207_u16.to_le_bytes());
        header[0x20e..0x210].copy_from_slice(&[0xff; 2]);
        let old = ImageHeader::parse(header).unwrap();
        assert_eq!((old.release(), old.payload()), (0x101ff..0x1027f, None));
        header[0x206..0x208].copy_from_slice(&0x208_u16.to_le_bytes());
        header[0x248..0x250].copy_from_slice(&[0xff; 8]);
        let most = u64::from(u32::MAX);
        assert_eq!(ImageHeader::parse(header).unwrap().payload(), Some(2560 + most..2560 + 2 * most));
    }

    #[test]
    fn only_what_may_stand_in_a_file_name_is_a_release() {
        assert_eq!(release(b"6.1.0-9 (x)").as_deref(), Some("6.1.0-9"));
        assert_eq!(release(b"6.12.117+deb12-amd64\0\xff").as_deref(), Some("6.12.117+deb12-amd64"));
        for odd in [&b"../../etc/x y"[..], b" ", b"", b"6.1\x1b[2J x", b"6.1\xff x", b"6.1.0"] {
            assert_eq!(release(odd), None, "{odd:?}");
        }
    }

    #[test]
    fn answers_of_apt_are_read() {
        let policy = "linux-image-6.1:\n  Installed: (none)\n  Candidate: 6.1.1-1~deb12u1\n";
        assert_eq!(candidate(policy).as_deref(), Some("6.1.1-1~deb12u1"));
        assert_eq!(candidate("  Candidate: (none)\n"), None);
        assert_eq!(candidate("  Candidate: ../../1\n"), None);
        assert_eq!(depends("a\n  Depends: b\n |Depends: c\n  Depends: d\n"), ["b", "d"]);
        assert_eq!(mirror("Debian-Security http://a\nDebian http://b", "Debian"), Some("http://b"));
    }
}
