// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel accounts for a program: one reader for every probe.

use libbpf_rs::libbpf_sys;

/// The kernel's account of a program; none for one that was not loaded, whose descriptor is negative. A field that an
/// old kernel does not fill is zero.
pub(crate) fn program_info(fd: i32) -> Option<libbpf_sys::bpf_prog_info> {
    if fd < 0 {
        return None;
    }
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut length = u32::try_from(size_of_val(&info)).ok()?;
    // SAFETY: info is as large as said, all zero, and thus holds no pointers that the kernel would follow.
    let result = unsafe { libbpf_sys::bpf_prog_get_info_by_fd(fd, &mut info, &mut length) };
    (result == 0).then_some(info)
}
