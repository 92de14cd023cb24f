// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the running kernel offers to probes, read once from its type information (BTF).
//!
//! A `tp_btf` program can be loaded where the kernel has a typedef `btf_trace_<tracepoint>`
//! (include/trace/bpf_probe.h, 5.5 and later). Owns that question and nothing else.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, OnceLock, PoisonError};

use latebound_model::kernel_version;
use libbpf_rs::btf::types::{Enum, FuncProto, Struct, Typedef};
use libbpf_rs::btf::{Btf, BtfKind, BtfType, ReferencesType};
use libbpf_rs::libbpf_sys;

use crate::error::ProbeError;
use crate::log;

/// What a program requires of the kernel, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need<'a> {
    /// A trace point to attach to.
    Tracepoint(&'a str),
    /// A function to attach to the entry of.
    Entry(&'a str),
    /// A function to know of.
    Function(&'a str),
}

/// Why a kernel does not have what a program requires.
#[derive(Debug)]
pub(crate) enum Lack {
    /// Its type information does not name it.
    Absent,
    /// A program there may call itself without end.
    CallsItself,
    /// It lets no program in.
    NoEntry(io::Error),
}

/// A member of a structure, by which kernels that do one thing in two ways are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelField {
    /// Quotas by runqueue (`CONFIG_CFS_BANDWIDTH`, kernel/sched/sched.h).
    CfsRqThrottleCount,
    /// A fair thread may choose its slice (include/linux/sched.h, 6.12).
    EntityCustomSlice,
    /// What a kernel thread is to do (kernel/kthread.c).
    KthreadThreadfn,
    /// RCU defers its quiescent states (kernel/rcu/tree.h, 7.0).
    RcuDataDeferQsPending,
    /// A task counts its sections without softirqs itself (`CONFIG_PREEMPT_RT`, include/linux/sched.h).
    TaskSoftirqDisableCnt,
    /// The structure that says so of a kernel thread (include/linux/sched.h, 5.17).
    TaskWorkerPrivate,
    /// A task is held by a quota where it returns to user space (include/linux/sched.h, 6.18).
    TaskThrottled,
}

impl KernelField {
    /// Each with its structure and its own name there.
    const ALL: [(KernelField, &str, &str); 7] = [
        (KernelField::CfsRqThrottleCount, "cfs_rq", "throttle_count"),
        (KernelField::EntityCustomSlice, "sched_entity", "custom_slice"),
        (KernelField::KthreadThreadfn, "kthread", "threadfn"),
        (KernelField::RcuDataDeferQsPending, "rcu_data", "defer_qs_pending"),
        (KernelField::TaskSoftirqDisableCnt, "task_struct", "softirq_disable_cnt"),
        (KernelField::TaskWorkerPrivate, "task_struct", "worker_private"),
        (KernelField::TaskThrottled, "task_struct", "throttled"),
    ];
}

/// The trace points and functions that the running kernel's type information names.
#[derive(Debug, Default)]
pub struct KernelBtf {
    /// Each with how many arguments a `tp_btf` program gets there, where that can be read.
    tracepoints: HashMap<Vec<u8>, Option<u32>>,
    /// Some 60,000 names, one after the other, of which a handful is ever asked for.
    function_names: Vec<u8>,
    /// Where each name ends, and its type.
    functions: Vec<(usize, u32)>,
    /// How the words of a work item are laid out (include/linux/workqueue.h): `WORK_…` of enumerations that have no name in most kernels.
    work_constants: HashMap<String, i64>,
    /// Those that are there.
    fields: Vec<KernelField>,
}

impl KernelBtf {
    /// What `/sys/kernel/btf/vmlinux` says. It is the kernel's own, so it does not change while this process runs, and is read once.
    pub fn load() -> Result<&'static KernelBtf, ProbeError> {
        static LOADED: OnceLock<KernelBtf> = OnceLock::new();
        // Probes start side by side; the second waits for what the first reads.
        static READING: Mutex<()> = Mutex::new(());
        let _reading = READING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = LOADED.get() {
            return Ok(loaded);
        }
        log::take_over();
        let btf = Btf::from_vmlinux().map_err(|error| ProbeError::NoBtf(error.to_string()))?;
        let read = KernelBtf::of(&btf);
        Ok(LOADED.get_or_init(|| read))
    }

    pub(crate) fn of(btf: &Btf<'_>) -> KernelBtf {
        let mut kernel = KernelBtf::default();
        for id in 1..u32::try_from(btf.len()).unwrap_or(u32::MAX) {
            let Some(found) = btf.type_by_id::<BtfType<'_>>(id.into()) else { continue };
            // Most types are of other kinds, whose names nobody asks for.
            match found.kind() {
                BtfKind::Enum => {
                    let Ok(constants) = Enum::try_from(found) else { continue };
                    let constant = |one: libbpf_rs::btf::types::EnumMember<'_>| {
                        let name = one.name?.to_str()?;
                        name.starts_with("WORK_").then(|| (name.to_owned(), one.value))
                    };
                    kernel.work_constants.extend(constants.iter().filter_map(constant));
                }
                BtfKind::Typedef => {
                    let name = found.name().map_or(&[][..], OsStrExt::as_bytes);
                    if let Some(tracepoint) = name.strip_prefix(b"btf_trace_") {
                        kernel.tracepoints.insert(tracepoint.to_vec(), arguments(found));
                    }
                }
                BtfKind::Struct => {
                    let Some(name) = found.name() else { continue };
                    let asked = KernelField::ALL.iter().filter(|(_, structure, _)| *structure == name);
                    for &(field, _, member) in asked {
                        let has = Struct::try_from(found).is_ok_and(|found| {
                            found.iter().any(|one| one.name.is_some_and(|name| name == member))
                        });
                        if has {
                            kernel.fields.push(field);
                        }
                    }
                }
                BtfKind::Func => {
                    let Some(name) = found.name() else { continue };
                    kernel.function_names.extend_from_slice(name.as_bytes());
                    kernel.functions.push((kernel.function_names.len(), id));
                }
                _ => {}
            }
        }
        kernel
    }

    /// Whether a `tp_btf` program can attach to this trace point.
    pub fn has_tracepoint(&self, name: &str) -> bool {
        self.tracepoints.contains_key(name.as_bytes())
    }

    /// Why this kernel does not have what a program requires; `None` where it has it.
    pub(crate) fn lacks(&self, need: Need<'_>) -> Option<Lack> {
        match need {
            Need::Tracepoint(name) if !self.has_tracepoint(name) => Some(Lack::Absent),
            Need::Tracepoint(name) => self.is_deadly(name).then_some(Lack::CallsItself),
            Need::Entry(name) | Need::Function(name) if !self.has_function(name) => Some(Lack::Absent),
            Need::Entry(name) => self.try_enter(name).err().map(Lack::NoEntry),
            Need::Function(_) => None,
        }
    }

    /// How many arguments a `tp_btf` program gets at this trace point.
    pub(crate) fn tracepoint_arguments(&self, name: &str) -> Option<u32> {
        self.tracepoints.get(name.as_bytes()).copied().flatten()
    }

    /// Whether no program may be attached to this trace point of the running kernel. A kernel whose version is not known counts as one from
    /// 7.0 on.
    fn is_deadly(&self, tracepoint: &str) -> bool {
        let from_7_0 = || may_be_from_7_0_on(&release());
        calls_itself(tracepoint, from_7_0, || self.has_field(KernelField::RcuDataDeferQsPending))
    }

    /// Whether the running kernel has this member.
    pub fn has_field(&self, field: KernelField) -> bool {
        self.fields.contains(&field)
    }

    /// A constant of work items, `WORK_…`.
    pub(crate) fn work_constant(&self, name: &str) -> Option<i64> {
        self.work_constants.get(name).copied()
    }

    /// Whether the kernel has a function of this name that BTF describes. Whether tracing programs may attach to it
    /// is another matter, which only attaching answers.
    pub fn has_function(&self, name: &str) -> bool {
        self.function(name).is_some()
    }

    fn function(&self, name: &str) -> Option<u32> {
        let mut start = 0;
        self.functions.iter().find_map(|&(end, id)| {
            let found = &self.function_names[start..end] == name.as_bytes();
            start = end;
            found.then_some(id)
        })
    }

    /// Whether a tracing program may be loaded for and attached to the entry of a function: by doing so with one that
    /// does nothing, for a moment.
    fn try_enter(&self, function: &str) -> io::Result<()> {
        let id = self.function(function).ok_or(io::ErrorKind::NotFound)?;
        // mov r0, 0; exit (include/uapi/linux/bpf.h).
        let mut instructions = [libbpf_sys::bpf_insn::default(); 2];
        instructions[0].code = 0xb7;
        instructions[1].code = 0x95;
        let mut options = libbpf_sys::bpf_prog_load_opts {
            sz: size_of::<libbpf_sys::bpf_prog_load_opts>() as libbpf_sys::size_t,
            expected_attach_type: libbpf_sys::BPF_TRACE_FENTRY,
            attach_btf_id: id,
            ..Default::default()
        };
        // SAFETY: the texts end in a zero byte, the instructions and options live through the call.
        let program = own(unsafe {
            libbpf_sys::bpf_prog_load(
                libbpf_sys::BPF_PROG_TYPE_TRACING,
                c"try_enter".as_ptr(),
                c"Dual BSD/GPL".as_ptr(),
                instructions.as_ptr(),
                instructions.len() as libbpf_sys::size_t,
                &mut options,
            )
        })?;
        // SAFETY: a tracing program's target is in the program, so there is no name; the descriptor is open.
        own(unsafe { libbpf_sys::bpf_raw_tracepoint_open(std::ptr::null(), program.as_raw_fd()) }).map(drop)
    }
}

/// The arguments of the function that a typedef `btf_trace_…` points to, but for the first, which is the trace point's own.
fn arguments(typedef: BtfType<'_>) -> Option<u32> {
    let typedef = Typedef::try_from(typedef).ok()?;
    let prototype: FuncProto<'_> = typedef.referenced_type().next_type()?.try_into().ok()?;
    u32::try_from(prototype.len()).ok()?.checked_sub(1)
}

/// A trace point at which a program ends in the kernel's panic from 7.0 on, where it runs preemptibly (a46023d5616e): the end of its own RCU
/// section asks for a switch, which is this event again, until the stack is full (met on 7.3.4, rcu_read_unlock_special).
pub(crate) const CALLS_ITSELF: &str = "sched_set_need_resched_tp";

/// The running kernel's version and patch level, as in 6.12; `None` where its release does not begin with them.
pub(crate) fn version() -> Option<(u32, u32)> {
    kernel_version(&release())
}

fn release() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default()
}

/// Where the version is not known, it may be.
fn may_be_from_7_0_on(release: &str) -> bool {
    kernel_version(release).is_none_or(|version| version >= (7, 0))
}

/// Whether a program at this trace point may call itself without end, which only a kernel from 7.0 on lets it. `raises_once`: whether the end of
/// an RCU section that finds its quiescent state due raises the softirq of RCU once and not each time (rcu_data::defer_qs_pending;
/// d41e37f26b31, 7.0, and in the stable kernels of early 2026): without that `softirq_raise` is the same trap, wherever an interrupt raises a
/// softirq. Neither is asked where it does not matter.
fn calls_itself(
    tracepoint: &str,
    from_7_0: impl FnOnce() -> bool,
    raises_once: impl FnOnce() -> bool,
) -> bool {
    match tracepoint {
        CALLS_ITSELF => from_7_0(),
        "softirq_raise" => from_7_0() && !raises_once(),
        _ => false,
    }
}

/// Whether another thread can come between two instructions of a trace point's program, which then may find what it left on its CPU
/// changed: from 7.0 on (a46023d5616e). One that was preempted comes back to its own CPU.
pub(crate) fn runs_programs_preemptibly() -> bool {
    may_be_from_7_0_on(&release())
}

fn own(fd: i32) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: a descriptor that the kernel just made, which nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_point_that_calls_itself_is_left_alone_from_7_0_on() {
        assert!(["7.0-rc1", "7.3.4+deb13-amd64", "10.1", ""].into_iter().all(may_be_from_7_0_on));
        assert!(!["6.18.44-fc", "6.19.14+deb13", "5.15.0"].into_iter().any(may_be_from_7_0_on));
        let unasked = || -> bool { panic!("nothing is to be read for this trace point") };
        for from_7_0 in [true, false] {
            let deadly = |raises_once| calls_itself("softirq_raise", || from_7_0, || raises_once);
            assert_eq!([deadly(false), deadly(true)], [from_7_0, false]);
            assert_eq!(calls_itself("sched_set_need_resched_tp", || from_7_0, unasked), from_7_0);
        }
        assert!(!calls_itself("softirq_raise", || false, unasked));
        assert!(!calls_itself("sched_switch", unasked, unasked));
    }

    #[test]
    fn live_the_running_kernel_names_its_trace_points_and_functions() {
        let kernel = KernelBtf::load().unwrap();
        assert!(kernel.has_tracepoint("sched_switch") && kernel.has_tracepoint("softirq_raise"));
        assert!(kernel.has_function("irq_work_queue"));
        assert!(!kernel.has_tracepoint("no_such_event") && !kernel.has_function("no_such_function"));
    }
}
