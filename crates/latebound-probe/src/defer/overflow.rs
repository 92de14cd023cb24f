// SPDX-License-Identifier: MIT OR Apache-2.0
//! An event of perf that overflows with each page fault of one thread.
//!
//! Owns the event, the buffer that its samples go to, which nobody reads, and the program that stamps the overflow.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};

use libbpf_rs::libbpf_sys::{self, perf_event_attr};
use libbpf_rs::{Link, PerfEventOpts, ProgramMut};

use super::wire::LB_PROBE_PAGE_SHIFT;
use crate::error::ProbeError;
use crate::mapping::{self, Mapping};

/// The event. Gone when dropped.
#[derive(Debug)]
pub struct DeferOverflow {
    event: OwnedFd,
    _link: Link,
    /// Where samples go: without one nobody is woken. Written over again and again, since it is only mapped for reading.
    _buffer: Mapping,
}

impl DeferOverflow {
    /// What a request by a fault at this address is known by: the number of its page.
    pub const fn mark(address: usize) -> u32 {
        (address >> LB_PROBE_PAGE_SHIFT) as u32
    }

    /// What can be polled: readable after an overflow of the series, hung up after the end of its thread.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    pub(super) fn open(program: &ProgramMut<'_>, series: u32, tid: u32) -> Result<DeferOverflow, ProbeError> {
        let mut attributes = perf_event_attr {
            type_: libbpf_sys::PERF_TYPE_SOFTWARE,
            size: size_of::<perf_event_attr>() as u32,
            // Those that were served without a device, each once, when it was (mm/memory.c, mm_account_fault).
            config: libbpf_sys::PERF_COUNT_SW_PAGE_FAULTS_MIN.into(),
            ..perf_event_attr::default()
        };
        attributes.__bindgen_anon_1.sample_period = 1;
        attributes.__bindgen_anon_2.wakeup_events = 1;
        attributes.set_exclude_kernel(1);
        let (any_cpu, no_group) = (-1, -1);
        // SAFETY: the kernel reads a live structure of the size that it names.
        let opened = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                tid,
                any_cpu,
                no_group,
                libc::c_ulong::from(libbpf_sys::PERF_FLAG_FD_CLOEXEC),
            )
        };
        if opened < 0 {
            return Err(ProbeError::last_os("opening an event of perf that counts page faults"));
        }
        // SAFETY: a descriptor that the kernel just made, which nothing else owns.
        let event = unsafe { OwnedFd::from_raw_fd(opened as i32) };
        // The page that says where the samples end, and one for them.
        let bytes = 2 * mapping::page_bytes();
        let buffer = Mapping::read_only(event.as_fd(), bytes, "samples of an event of perf")?;
        let copy = event.try_clone().map_err(|source| ProbeError::Io {
            step: "keeping an event of perf that counts page faults".to_owned(),
            source,
        })?;
        let options = PerfEventOpts { cookie: u64::from(series), ..PerfEventOpts::default() };
        let link = program
            .attach_perf_event_with_opts(copy.as_raw_fd(), options)
            .map_err(|error| ProbeError::bpf("attaching a program to page faults", error))?;
        // The link closes it (libbpf.c, bpf_link_perf_detach).
        let _ = copy.into_raw_fd();
        Ok(DeferOverflow { event, _link: link, _buffer: buffer })
    }
}
