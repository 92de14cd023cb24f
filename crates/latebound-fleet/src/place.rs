// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where things lie in a store: the paths that are made of days and hosts.
//!
//! Owns that no name from a Run or from a commit reaches beyond its partition.

use object_store::path::Path;
use percent_encoding::percent_decode_str;

use crate::error::FleetError;
use crate::partition::{Day, Partition};
use crate::tables::Table;

/// A name of a file system has up to 255 bytes, and `host=` stands before it.
const MOST_HOST_BYTES: usize = 240;

impl Partition {
    /// The partition of this host; an error where the name makes no path.
    pub fn new(day: Day, host: &str) -> Result<Partition, FleetError> {
        let partition = Partition { day, host: host.to_owned() };
        if host.is_empty() || partition.encoded_host().len() > MOST_HOST_BYTES {
            return Err(FleetError::Host { host: host.chars().take(80).collect(), bytes: host.len() });
        }
        Ok(partition)
    }

    /// The folder of its log.
    pub(crate) fn log(&self) -> Path {
        Path::from_iter(format!("{COMMITS}/{}", self.name()).split('/').map(raw))
    }

    /// The commit of this number.
    pub(crate) fn commit(&self, number: u64) -> Path {
        Path::from_iter(format!("{COMMITS}/{}/{number:0DIGITS$}.json", self.name()).split('/').map(raw))
    }

    /// A data file of this table, by its name without `.parquet`.
    pub(crate) fn data(&self, table: Table, name: &str) -> String {
        format!("{DATA}/{table}/{}/{name}.parquet", self.name())
    }

    /// The table of a data file, if the path is one of this partition and nothing else.
    pub(crate) fn table_of(&self, file: &str) -> Option<Table> {
        let (table, rest) = file.strip_prefix(DATA)?.strip_prefix('/')?.split_once('/')?;
        let name = rest.strip_prefix(&self.name())?.strip_prefix('/')?.strip_suffix(".parquet")?;
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        (!name.is_empty() && name.len() <= 64 && name.bytes().all(plain)).then(|| table.parse().ok())?
    }

    /// Whether a path is one that a data file of any partition may have.
    pub(crate) fn is_data(file: &str) -> bool {
        let parts: Vec<_> = file.split('/').collect();
        let [_, _, day, host, _] = parts[..] else { return false };
        let commit = path(&format!("{COMMITS}/{day}/{host}/{:0DIGITS$}.json", 0));
        Partition::of_commit(&commit).is_some_and(|(partition, _)| partition.table_of(file).is_some())
    }

    /// The partition and the number of a commit, by its path.
    pub(crate) fn of_commit(path: &Path) -> Option<(Partition, u64)> {
        let parts: Vec<_> = path.as_ref().split('/').collect();
        let [COMMITS, day, host, file] = parts[..] else { return None };
        let day = day.strip_prefix("day=")?.parse().ok()?;
        let host = percent_decode_str(host.strip_prefix("host=")?).decode_utf8().ok()?;
        let partition = Partition::new(day, &host).ok()?;
        let number = file.strip_suffix(".json")?;
        let number = (number.len() >= DIGITS).then(|| number.parse().ok())??;
        // Nothing has two names.
        (partition.commit(number) == *path).then_some((partition, number))
    }
}

/// The folder of the logs.
pub(crate) const COMMITS: &str = "commits";
/// The folder of the data files.
pub(crate) const DATA: &str = "data";
/// The digits of a commit's number in its name.
const DIGITS: usize = 10;

/// A part of a path that is encoded already.
fn raw(part: &str) -> object_store::path::PathPart<'_> {
    object_store::path::PathPart::parse(part).unwrap_or_default()
}

/// The path of an object, from a text that is one already.
pub(crate) fn path(text: &str) -> Path {
    Path::from_iter(text.split('/').map(raw))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

    use super::*;

    #[test]
    fn a_hostile_host_stays_within_its_partition() {
        let day = Day::of(0).unwrap();
        for host in ["../x", "a\nb", "a/b", "..", "%2e", "hôte", " ", "a=b", "x#1", "*"] {
            let partition = Partition::new(day, host).unwrap();
            let commit = partition.commit(7);
            assert_eq!(commit.as_ref().split('/').count(), 4, "{commit}");
            assert!(commit.as_ref().bytes().all(|byte| byte.is_ascii_graphic()), "{commit}");
            assert_eq!(Partition::of_commit(&commit), Some((partition.clone(), 7)), "{host}");
            let file = partition.data(Table::Series, "0a");
            assert_eq!(partition.table_of(&file), Some(Table::Series));
            assert_eq!(path(&file).as_ref(), file);
        }
        for host in ["", &"x".repeat(300), &"/".repeat(100)] {
            assert!(Partition::new(day, host).unwrap_err().to_string().contains("--host"), "{host}");
        }
    }

    #[test]
    fn a_file_of_another_partition_is_none_of_its_own() {
        let partition = Partition::new(Day::of(0).unwrap(), "a").unwrap();
        let good = partition.data(Table::Worst, "0a");
        for (from, to) in
            [("host=a", "host=b"), ("worst", "other"), ("0a", "../0a"), ("0a", "0A"), ("data/", "/data/")]
        {
            assert_eq!(partition.table_of(&good.replacen(from, to, 1)), None, "{to}");
        }
    }
}
