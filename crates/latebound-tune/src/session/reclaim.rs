// SPDX-License-Identifier: MIT OR Apache-2.0
//! Equation (3): the share of the pages that belong to the tasks that waited for reclaim, and the account of its measurements. Reads nothing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Pages that the kernel may reclaim, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReclaimPages {
    /// Those in the memory cgroups of the tasks that waited.
    pub of_tasks: u64,
    /// All.
    pub all: u64,
}

/// What was read of the pages of some tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReclaimShare {
    /// All of these tasks ended before.
    TasksEnded,
    /// One of them has no memory cgroup of its own: nobody keeps an account of its pages.
    Unknown,
    /// The pages.
    Pages(ReclaimPages),
}

/// The account of the shares that were measured in one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PageShares {
    /// How often the share was asked for.
    pub asked: u64,
    /// How often it was measured; the rest was read too late or not at all, or is unknown.
    pub measured: u64,
    /// How often nobody keeps an account of one of these tasks, so that it counted as 1.
    pub unknown: u64,
    /// The minimum that was measured, from 0 to 1.
    #[serde(alias = "least")]
    pub min: Option<f64>,
    /// The maximum.
    #[serde(rename = "most", alias = "max")]
    pub max: Option<f64>,
    /// The last.
    pub last: Option<f64>,
}

impl PageShares {
    /// With one more answer; `None`, and no pages at all: it is unknown.
    pub(super) fn and(self, pages: Option<ReclaimPages>) -> PageShares {
        let Some(ReclaimPages { of_tasks, all: all @ 1.. }) = pages else {
            return PageShares { unknown: self.unknown + 1, ..self };
        };
        let share = (of_tasks as f64 / all as f64).min(1.0);
        PageShares {
            measured: self.measured + 1,
            min: Some(self.min.map_or(share, |min| min.min(share))),
            max: Some(self.max.map_or(share, |max| max.max(share))),
            last: Some(share),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_shares_keep_the_minimum_maximum_and_last() {
        let pages = |of_tasks, all| Some(ReclaimPages { of_tasks, all });
        let shares = [pages(1, 4), pages(9, 4), None, pages(0, 0), pages(2, 4)]
            .into_iter()
            .fold(PageShares::default(), PageShares::and);
        assert_eq!((shares.measured, shares.unknown), (3, 2));
        assert_eq!((shares.min, shares.max, shares.last), (Some(0.25), Some(1.0), Some(0.5)));
    }

    #[test]
    fn page_shares_of_older_documents_are_read() {
        let text = r#"{"asked":1,"measured":1,"unknown":0,"least":0.5,"most":0.75,"last":0.5}"#;
        let shares: PageShares = serde_json::from_str(text).unwrap();
        assert_eq!((shares.min, shares.max), (Some(0.5), Some(0.75)));
        assert!(serde_json::to_string(&shares).unwrap().contains(r#""most":0.75"#));
    }
}
