// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which thread ids may be watched, by their lowest bits: what the programs ask before they ask the table of watched threads. Owns that a place
//! is set as long as a thread of it is watched.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU8, Ordering};

use latebound_model::Tid;

use super::wire::LB_MAY_BE_WATCHED;
use crate::error::ProbeError;
use crate::mapping::Mapping;

const PLACES: usize = LB_MAY_BE_WATCHED as usize;

/// The places, shared with the programs.
#[derive(Debug)]
pub(super) struct Filter(Mapping);

fn place(tid: Tid) -> usize {
    tid.0.cast_unsigned() as usize & (PLACES - 1)
}

impl Filter {
    pub(super) fn map(fd: BorrowedFd<'_>) -> Result<Filter, ProbeError> {
        Mapping::writable(fd, PLACES, "the places of watched threads").map(Filter)
    }

    fn put(&self, tid: Tid, value: u8) {
        // SAFETY: `at` points to a byte inside the mapping, which lives as long as self and is only ever accessed atomically here.
        unsafe { AtomicU8::from_ptr(self.0.at(place(tid))) }.store(value, Ordering::SeqCst);
    }

    /// This thread is watched from now on.
    pub(super) fn set(&self, tid: Tid) {
        self.put(tid, 1);
    }

    /// These are watched no more, and those that `watched` gives are. A program may take up a thread at any moment, so they are asked for once
    /// the places are clear.
    pub(super) fn clear(&self, gone: &[Tid], watched: impl FnOnce() -> Vec<Tid>) {
        gone.iter().for_each(|tid| self.put(*tid, 0));
        watched().iter().for_each(|tid| self.set(*tid));
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_place_stays_set_as_long_as_one_of_its_threads_is_watched() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(PLACES as u64).unwrap();
        let filter = Filter::map(file.as_fd()).unwrap();
        let is_set = |tid| filter.0.words(0, PLACES / 8)[place(Tid(tid)) / 8].load(Ordering::SeqCst) != 0;
        let sharing = 77 + LB_MAY_BE_WATCHED as i32;
        [7, 77, sharing].iter().for_each(|tid| filter.set(Tid(*tid)));
        assert!(is_set(7) && is_set(77) && is_set(sharing) && !is_set(177));
        filter.clear(&[Tid(7), Tid(77)], || vec![Tid(sharing)]);
        assert!(!is_set(7) && is_set(77));
        filter.clear(&[Tid(sharing)], Vec::new);
        assert!(!is_set(77));
    }
}
