// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names that are near to one that is not there.

/// As many are said.
const MOST: usize = 4;

/// `; near it: a, b`, nearest first; nothing where none is near.
pub(super) fn said<'n>(wanted: &str, names: impl Iterator<Item = &'n str>) -> String {
    let limit = (wanted.chars().count() / 3).max(2);
    let mut near: Vec<(usize, &str)> =
        names.filter_map(|name| Some((distance(wanted, name, limit)?, name))).collect();
    near.sort_unstable();
    near.dedup();
    let names: Vec<String> =
        near.iter().take(MOST).map(|(_, name)| name.escape_debug().to_string()).collect();
    if names.is_empty() { String::new() } else { format!("; near it: {}", names.join(", ")) }
}

/// How many characters differ, where not more than `limit` do; a name that has the wanted one in it counts as one that differs by as many.
fn distance(wanted: &str, name: &str, limit: usize) -> Option<usize> {
    let (wanted_count, count) = (wanted.chars().count(), name.chars().count());
    let contains = (wanted_count > 2 && name.contains(wanted)).then_some(limit);
    // Most names differ in length alone by too much.
    let differ = (wanted_count.abs_diff(count) <= limit).then(|| strsim::levenshtein(wanted, name));
    differ.filter(|differ| *differ <= limit).or(contains)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_come_first_and_far_ones_not_at_all() {
        let names = ["frame_end", "frame_begin", "frame_begim", "main", "on_frame_begin_late_now", "malloc"];
        assert_eq!(
            said("frame_begin", names.into_iter()),
            "; near it: frame_begin, frame_begim, on_frame_begin_late_now"
        );
        assert_eq!(said("qqqqqq", names.into_iter()), "");
        assert_eq!(distance("kitten", "sitting", 3), Some(3));
        assert_eq!(distance("kitten", "sitting", 2), None);
        assert_eq!(said("a", ["\u{1b}"].into_iter()), "; near it: \\u{1b}");
    }
}
