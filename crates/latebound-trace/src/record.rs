// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records to typed records, by the places that the trace's own `format` texts give.
//!
//! Owns the list of events that are understood. Everything that depends on a format is worked out once, when the
//! decoder is made; decoding is a table look-up by event number and a few loads, without allocation. A format that
//! lacks a field that is needed makes its event unknown, and says so; it is never guessed.

mod comm;
mod turn;
mod usual;

use std::fmt;

use latebound_model::{BlockStep, Cpu, SwitchReason, Tid};

pub use self::comm::Comm;
pub use self::turn::{Turn, Turned};

use crate::format::{EventFormat, Field, FieldKind, Formats};
use crate::symbols::{PrintkStrings, TextOffset};

/// Which processor vector or inter-processor interrupt: its name is [`Decoder::vector_name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VectorId(pub u16);

/// A thread as a record names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskRef<'a> {
    /// Its id.
    pub tid: Tid,
    /// The kernel's priority, as in [`latebound_model::Task::prio`].
    pub prio: i32,
    /// Its name.
    pub comm: Comm<'a>,
}

/// What interrupted the osnoise or timerlat workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoiseKind<'a> {
    /// A non-maskable interrupt.
    Nmi,
    /// An interrupt: its number and what the kernel calls it.
    Irq {
        /// The Linux interrupt number or vector.
        vector: i32,
        /// `local_timer`.
        name: Comm<'a>,
    },
    /// A softirq.
    Softirq {
        /// The vector.
        vector: i32,
    },
    /// A thread.
    Thread {
        /// Its id.
        tid: Tid,
        /// Its name.
        comm: Comm<'a>,
    },
}

/// The return addresses of a kernel stack, innermost first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Frames<'a> {
    bytes: &'a [u8],
    size: u8,
    big_endian: bool,
}

impl<'a> Frames<'a> {
    /// The addresses.
    pub fn iter(self) -> impl Iterator<Item = u64> + 'a {
        let place = Place { offset: 0, size: self.size, signed: false };
        // Unused entries of the fixed array are 0 or all ones (`ULONG_MAX` ended a stack until 5.2).
        let none = u64::MAX >> (64 - 8 * u32::from(self.size));
        self.bytes
            .chunks_exact(usize::from(self.size))
            .map(move |word| place.read(word, self.big_endian) as u64 & none)
            .take_while(move |&address| address != 0 && address != none)
    }
}

impl fmt::Debug for Frames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|address| format!("{address:#x}"))).finish()
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceRecord<'a> {
    /// `preemptirq:preempt_disable`: the preemption count left 0.
    PreemptDisable {
        /// Who did it.
        caller: TextOffset,
        /// Who called that.
        parent: TextOffset,
    },
    /// `preemptirq:preempt_enable`: the preemption count came back to 0.
    PreemptEnable {
        /// Who did it.
        caller: TextOffset,
        /// Who called that.
        parent: TextOffset,
    },
    /// `preemptirq:irq_disable`.
    IrqDisable {
        /// Who did it.
        caller: TextOffset,
        /// Who called that.
        parent: TextOffset,
    },
    /// `preemptirq:irq_enable`.
    IrqEnable {
        /// Who did it.
        caller: TextOffset,
        /// Who called that.
        parent: TextOffset,
    },
    /// `irq_vectors:*_entry` (x86) or `ipi:ipi_entry` (arm64 and others): a vector's handler begins.
    VectorEntry {
        /// Which, by name.
        vector: VectorId,
        /// The processor's number of it; `None` for an inter-processor interrupt without one.
        number: Option<u32>,
    },
    /// `irq_vectors:*_exit` or `ipi:ipi_exit`.
    VectorExit {
        /// Which, by name.
        vector: VectorId,
        /// The processor's number of it.
        number: Option<u32>,
    },
    /// `irq:irq_handler_entry`: a device's handler begins.
    IrqHandlerEntry {
        /// The Linux interrupt number.
        irq: u32,
        /// The handler's name.
        name: Comm<'a>,
    },
    /// `irq:irq_handler_exit`.
    IrqHandlerExit {
        /// The Linux interrupt number.
        irq: u32,
        /// Whether the handler found work to do.
        handled: bool,
        /// Whether it asked for its thread (`IRQ_WAKE_THREAD`, include/linux/irqreturn.h); a text does not say.
        wakes_thread: bool,
    },
    /// `nmi:nmi_handler`: one handler of a non-maskable interrupt ended.
    Nmi {
        /// How long it took, in nanoseconds; negative where the clock ran backwards.
        duration_ns: i64,
        /// The handler's address.
        handler: u64,
    },
    /// `sched:sched_switch`.
    Switch {
        /// Who ran.
        prev: TaskRef<'a>,
        /// The state that it is left in; bits as [`is_runnable`] reads them.
        prev_state: u64,
        /// Who runs from now on.
        next: TaskRef<'a>,
    },
    /// `sched:sched_waking`: the current thread is about to wake another.
    Waking {
        /// Who is woken.
        task: TaskRef<'a>,
        /// The CPU that it last ran on.
        target_cpu: u32,
    },
    /// `sched:sched_wakeup`: it is on a run queue.
    Wakeup {
        /// Who.
        task: TaskRef<'a>,
        /// The CPU of the queue.
        target_cpu: u32,
    },
    /// `sched:sched_wakeup_new`: a new thread is on a run queue.
    WakeupNew {
        /// Who.
        task: TaskRef<'a>,
        /// The CPU of the queue.
        target_cpu: u32,
    },
    /// `irq:softirq_raise`.
    SoftirqRaise {
        /// The vector.
        vector: u32,
    },
    /// `irq:softirq_entry`.
    SoftirqEntry {
        /// The vector.
        vector: u32,
    },
    /// `irq:softirq_exit`.
    SoftirqExit {
        /// The vector.
        vector: u32,
    },
    /// `timer:hrtimer_start`.
    HrtimerStart {
        /// The timer's address.
        timer: u64,
        /// The callback's address.
        function: u64,
        /// The last time that the caller allows.
        expires_ns: i64,
        /// The earliest time.
        soft_expires_ns: i64,
    },
    /// `timer:hrtimer_cancel`.
    HrtimerCancel {
        /// The timer's address.
        timer: u64,
    },
    /// `timer:hrtimer_expire_entry`: the callback begins.
    HrtimerExpireEntry {
        /// The timer's address.
        timer: u64,
        /// The time that the kernel took for now, on the timer's clock.
        now_ns: i64,
        /// The callback's address.
        function: u64,
    },
    /// `timer:hrtimer_expire_exit`.
    HrtimerExpireExit {
        /// The timer's address.
        timer: u64,
    },
    /// `irq:tasklet_entry`: its function begins (6.4 and later).
    TaskletEntry {
        /// The tasklet's address.
        tasklet: u64,
        /// The function's address.
        function: u64,
    },
    /// `irq:tasklet_exit`.
    TaskletExit {
        /// The tasklet's address.
        tasklet: u64,
    },
    /// `workqueue:workqueue_queue_work`: an item is asked for.
    WorkQueue {
        /// The item's address.
        work: u64,
    },
    /// `workqueue:workqueue_activate_work`: its queue lets it through.
    WorkActivate {
        /// The item's address.
        work: u64,
    },
    /// `workqueue:workqueue_execute_start`.
    WorkStart {
        /// The item's address.
        work: u64,
        /// The function's address.
        function: u64,
    },
    /// `workqueue:workqueue_execute_end`.
    WorkEnd {
        /// The item's address.
        work: u64,
    },
    /// `raw_syscalls:sys_enter` or `syscalls:sys_enter_*`: the current thread enters a system call.
    CallEntry {
        /// Its number on the traced machine; negative where the thread tried one that there is not.
        number: i64,
        /// Its first two arguments.
        arguments: [u64; 2],
    },
    /// `raw_syscalls:sys_exit` or `syscalls:sys_exit_*`.
    CallExit,
    /// `exceptions:page_fault_user`: the current thread's own code met a page that is not accessible.
    PageFault {
        /// The address.
        address: u64,
    },
    /// `block:block_rq_insert`, `block_rq_issue` or `block_rq_complete`.
    Block {
        /// How far the request has come.
        step: BlockStep,
        /// The device (`dev_t` of the kernel).
        device: u32,
        /// The first sector.
        sector: u64,
        /// Its length.
        bytes: u32,
        /// Whether it writes or discards.
        write: bool,
    },
    /// `block:block_io_start`: the block layer begins to account a request (6.5 and later).
    BlockStart {
        /// The device (`dev_t` of the kernel).
        device: u32,
        /// The first sector; 0 for a request without one.
        sector: u64,
    },
    /// `block:block_io_done`.
    BlockDone {
        /// The device (`dev_t` of the kernel).
        device: u32,
        /// The first sector; 0 for a request without one.
        sector: u64,
    },
    /// `sched:sched_migrate_task`: a thread that does not run is moved to the queue of another CPU.
    Migrate {
        /// Who.
        tid: Tid,
        /// To where.
        to: Cpu,
    },
    /// `sched:sched_process_fork`: a thread is made.
    Fork {
        /// By whom.
        parent: Tid,
        /// The new one.
        child: Tid,
    },
    /// `lock:contention_begin`.
    ContentionBegin {
        /// The lock's address.
        lock: u64,
        /// Whether it spins, so that it does not sleep.
        spins: bool,
    },
    /// `lock:contention_end`.
    ContentionEnd {
        /// The lock's address.
        lock: u64,
    },
    /// `vmscan:mm_vmscan_direct_reclaim_begin` or `mm_vmscan_memcg_reclaim_begin`.
    ReclaimBegin {
        /// Whether it is the second.
        of_group: bool,
    },
    /// Its end.
    ReclaimEnd,
    /// `signal:signal_deliver`.
    SignalDeliver {
        /// The signal.
        signal: u32,
        /// The address of the handler; 0 for the default action and 1 where it is ignored.
        handler: u64,
    },
    /// `ftrace:kernel_stack`: the stack at the event before it on this CPU.
    KernelStack {
        /// The return addresses.
        frames: Frames<'a>,
    },
    /// `osnoise:*_noise`: net of what interrupted it.
    Noise {
        /// By what.
        kind: NoiseKind<'a>,
        /// When it began.
        start_ns: u64,
        /// How long it took.
        duration_ns: u64,
    },
    /// An event that is described but not typed here.
    Other,
    /// An event that the trace does not describe, or whose description lacks what is needed.
    Unknown,
    /// A record shorter than its own description: damage.
    Short,
}

/// Whether a thread switched out with this `prev_state` is still runnable: it was preempted, or yielded.
///
/// `__trace_sched_switch_state` in include/trace/events/sched.h: 0 for running; `TASK_REPORT_MAX`, 0x100 since 4.14,
/// for preempted.
pub fn is_runnable(prev_state: u64) -> bool {
    prev_state & 0xff == 0
}

/// Whether a thread that is switched out is stopped by a signal or a tracer: `__TASK_STOPPED` and `__TASK_TRACED`, as sched_switch reports them
/// (include/linux/sched.h, 5.15 to 6.18).
pub(crate) fn is_stopped(prev_state: u64) -> bool {
    prev_state & 0x0c != 0 && prev_state & 0x03 == 0
}

/// Why a thread switched out with this `prev_state` stopped. `TASK_UNINTERRUPTIBLE` is 2 (include/linux/sched.h); waits for the locks of
/// PREEMPT_RT are reported as that (`__task_state_index`, since 5.17).
pub(crate) fn switch_reason(prev_state: u64) -> SwitchReason {
    match prev_state & 0xff {
        0 => SwitchReason::Preempted,
        state if state & 2 != 0 => SwitchReason::Uninterruptible,
        _ => SwitchReason::Blocked,
    }
}

/// Bits of `common_flags` (`enum trace_flag_type`, include/linux/trace_events.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// Interrupts were masked (`TRACE_FLAG_IRQS_OFF`).
    pub fn irqs_off(self) -> bool {
        self.0 & 0x01 != 0
    }

    /// The thread had to give way at once (`TRACE_FLAG_NEED_RESCHED`); the lazy flag is not meant.
    pub fn need_resched(self) -> bool {
        self.0 & 0x04 != 0
    }

    /// In a hard interrupt (`TRACE_FLAG_HARDIRQ`).
    pub fn hardirq(self) -> bool {
        self.0 & 0x08 != 0
    }

    /// In a softirq (`TRACE_FLAG_SOFTIRQ`).
    pub fn softirq(self) -> bool {
        self.0 & 0x10 != 0
    }

    /// In a non-maskable interrupt (`TRACE_FLAG_NMI`).
    pub fn nmi(self) -> bool {
        self.0 & 0x40 != 0
    }
}

/// A record with what all records have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded<'a> {
    /// The event's number in its trace.
    pub id: u16,
    /// The thread that was current.
    pub tid: Tid,
    /// The state of the CPU.
    pub flags: Flags,
    /// `common_preempt_count`: the low four bits are the preemption depth, the high four the migrate-disable depth
    /// (`tracing_gen_ctx_irq_test`, kernel/trace/trace.c).
    pub preempt_count: u8,
    /// What happened.
    pub record: TraceRecord<'a>,
}

/// Where a value stands in a record.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    offset: u16,
    size: u8,
    signed: bool,
}

impl Place {
    fn of(field: &Field) -> Option<Place> {
        let fits = match field.kind {
            FieldKind::Number => matches!(field.size, 1 | 2 | 4 | 8),
            FieldKind::DataLocation | FieldKind::RelativeLocation => field.size == 4,
            // Of an array the offset is used, and the size as far as it fits.
            FieldKind::Array => true,
        };
        if !fits {
            return None;
        }
        Some(Place {
            offset: u16::try_from(field.offset).ok()?,
            size: u8::try_from(field.size).unwrap_or(u8::MAX),
            signed: field.signed,
        })
    }

    /// A word of 64 bits in an array, so many bytes behind its beginning.
    fn of_word(field: &Field, behind: u32) -> Option<Place> {
        let inside = behind + 8 <= field.size && field.size.is_multiple_of(8);
        let offset = u16::try_from(field.offset.checked_add(behind)?).ok()?;
        inside.then_some(Place { offset, size: 8, signed: false })
    }

    fn end(self) -> usize {
        usize::from(self.offset) + usize::from(self.size)
    }

    #[inline(always)]
    fn bytes(self, data: &[u8]) -> &[u8] {
        data.get(usize::from(self.offset)..self.end()).unwrap_or_default()
    }

    /// The value, sign-extended where the field is signed; records are checked for length before.
    #[inline(always)]
    fn read(self, data: &[u8], big_endian: bool) -> i64 {
        macro_rules! load {
            ($unsigned:ty, $signed:ty) => {{
                let value = match self.bytes(data).try_into() {
                    Ok(bytes) if big_endian => <$unsigned>::from_be_bytes(bytes),
                    Ok(bytes) => <$unsigned>::from_le_bytes(bytes),
                    Err(_) => 0,
                };
                if self.signed { i64::from(value as $signed) } else { value as i64 }
            }};
        }
        match self.size {
            4 => load!(u32, i32),
            8 => load!(u64, i64),
            2 => load!(u16, i16),
            1 => load!(u8, i8),
            _ => 0,
        }
    }

    /// The bytes that a `__data_loc` or `__rel_loc` word points to.
    fn located(self, data: &[u8], relative: bool, big_endian: bool) -> &[u8] {
        let word = self.read(data, big_endian) as u32;
        let start = (word & 0xffff) as usize + if relative { self.end() } else { 0 };
        data.get(start..start + (word >> 16) as usize).unwrap_or_default()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    PreemptDisable,
    PreemptEnable,
    IrqDisable,
    IrqEnable,
    VectorEntry,
    VectorExit,
    IpiEntry,
    IpiExit,
    IrqHandlerEntry,
    IrqHandlerExit,
    Nmi,
    Switch,
    Waking,
    Wakeup,
    WakeupNew,
    SoftirqRaise,
    SoftirqEntry,
    SoftirqExit,
    HrtimerStart,
    HrtimerCancel,
    HrtimerExpireEntry,
    HrtimerExpireExit,
    TaskletEntry,
    TaskletExit,
    WorkQueue,
    WorkActivate,
    WorkStart,
    WorkEnd,
    BlockStart,
    BlockDone,
    Fork,
    Migrate,
    CallEntry,
    CallExit,
    PageFault,
    BlockInsert,
    BlockIssue,
    BlockComplete,
    ContentionBegin,
    ContentionEnd,
    ReclaimBegin,
    GroupReclaimBegin,
    ReclaimEnd,
    SignalDeliver,
    KernelStack,
    IrqNoise,
    NmiNoise,
    SoftirqNoise,
    ThreadNoise,
    Other,
    Unknown,
}

/// The events that are understood, and the fields that each needs, in the order in which `decode` takes them.
const KNOWN: &[(&str, &str, Kind, &[&str])] = &[
    ("preemptirq", "preempt_disable", Kind::PreemptDisable, &["caller_offs", "parent_offs"]),
    ("preemptirq", "preempt_enable", Kind::PreemptEnable, &["caller_offs", "parent_offs"]),
    ("preemptirq", "irq_disable", Kind::IrqDisable, &["caller_offs", "parent_offs"]),
    ("preemptirq", "irq_enable", Kind::IrqEnable, &["caller_offs", "parent_offs"]),
    ("ipi", "ipi_entry", Kind::IpiEntry, &["reason"]),
    ("ipi", "ipi_exit", Kind::IpiExit, &["reason"]),
    ("irq", "irq_handler_entry", Kind::IrqHandlerEntry, &["irq", "name"]),
    ("irq", "irq_handler_exit", Kind::IrqHandlerExit, &["irq", "ret"]),
    ("nmi", "nmi_handler", Kind::Nmi, &["delta_ns", "handler"]),
    (
        "sched",
        "sched_switch",
        Kind::Switch,
        &["prev_comm", "prev_pid", "prev_prio", "prev_state", "next_comm", "next_pid", "next_prio"],
    ),
    ("sched", "sched_waking", Kind::Waking, &["comm", "pid", "prio", "target_cpu"]),
    ("sched", "sched_wakeup", Kind::Wakeup, &["comm", "pid", "prio", "target_cpu"]),
    ("sched", "sched_wakeup_new", Kind::WakeupNew, &["comm", "pid", "prio", "target_cpu"]),
    ("irq", "softirq_raise", Kind::SoftirqRaise, &["vec"]),
    ("irq", "softirq_entry", Kind::SoftirqEntry, &["vec"]),
    ("irq", "softirq_exit", Kind::SoftirqExit, &["vec"]),
    ("timer", "hrtimer_start", Kind::HrtimerStart, &["hrtimer", "expires", "softexpires", "function"]),
    ("timer", "hrtimer_cancel", Kind::HrtimerCancel, &["hrtimer"]),
    ("timer", "hrtimer_expire_entry", Kind::HrtimerExpireEntry, &["hrtimer", "now", "function"]),
    ("timer", "hrtimer_expire_exit", Kind::HrtimerExpireExit, &["hrtimer"]),
    ("irq", "tasklet_entry", Kind::TaskletEntry, &["tasklet", "func"]),
    ("irq", "tasklet_exit", Kind::TaskletExit, &["tasklet"]),
    ("workqueue", "workqueue_queue_work", Kind::WorkQueue, &["work"]),
    ("workqueue", "workqueue_activate_work", Kind::WorkActivate, &["work"]),
    ("block", "block_io_start", Kind::BlockStart, &["dev", "sector"]),
    ("block", "block_io_done", Kind::BlockDone, &["dev", "sector"]),
    ("sched", "sched_process_fork", Kind::Fork, &["parent_pid", "child_pid"]),
    ("sched", "sched_migrate_task", Kind::Migrate, &["pid", "dest_cpu"]),
    ("workqueue", "workqueue_execute_start", Kind::WorkStart, &["work", "function"]),
    ("workqueue", "workqueue_execute_end", Kind::WorkEnd, &["work"]),
    ("raw_syscalls", "sys_enter", Kind::CallEntry, &["id", "args", "args+8"]),
    ("raw_syscalls", "sys_exit", Kind::CallExit, &["id"]),
    ("exceptions", "page_fault_user", Kind::PageFault, &["address"]),
    ("block", "block_rq_insert", Kind::BlockInsert, &["dev", "sector", "bytes", "rwbs"]),
    ("block", "block_rq_issue", Kind::BlockIssue, &["dev", "sector", "bytes", "rwbs"]),
    ("block", "block_rq_complete", Kind::BlockComplete, &["dev", "sector", "nr_sector", "rwbs"]),
    ("lock", "contention_begin", Kind::ContentionBegin, &["lock_addr", "flags"]),
    ("lock", "contention_end", Kind::ContentionEnd, &["lock_addr"]),
    ("vmscan", "mm_vmscan_direct_reclaim_begin", Kind::ReclaimBegin, &["gfp_flags"]),
    ("vmscan", "mm_vmscan_direct_reclaim_end", Kind::ReclaimEnd, &["nr_reclaimed"]),
    ("vmscan", "mm_vmscan_memcg_reclaim_begin", Kind::GroupReclaimBegin, &["gfp_flags"]),
    ("vmscan", "mm_vmscan_memcg_reclaim_end", Kind::ReclaimEnd, &["nr_reclaimed"]),
    ("signal", "signal_deliver", Kind::SignalDeliver, &["sig", "sa_handler"]),
    ("ftrace", "kernel_stack", Kind::KernelStack, &["caller"]),
    ("osnoise", "irq_noise", Kind::IrqNoise, &["start", "duration", "vector", "desc"]),
    ("osnoise", "nmi_noise", Kind::NmiNoise, &["start", "duration"]),
    ("osnoise", "softirq_noise", Kind::SoftirqNoise, &["start", "duration", "vector"]),
    ("osnoise", "thread_noise", Kind::ThreadNoise, &["start", "duration", "pid", "comm"]),
];

/// The most fields that one event needs.
const FIELDS: usize = 7;

/// How the records of one event number are read.
#[derive(Clone, Copy, Debug)]
struct Slot {
    kind: Kind,
    /// The vector of a vector event.
    vector: u16,
    /// The minimum length of a record.
    length: u16,
    /// Whether a located text counts from the end of its word.
    relative: bool,
    /// Whether the places are those of [`usual`], which are read without looking at them.
    usual: bool,
    /// Whether the first two places are 32 bits in the order of minimum significant bytes first: almost every record of a
    /// trace with preempt and irq events is such a pair.
    pair: bool,
    places: [Place; FIELDS],
}

impl Slot {
    const UNKNOWN: Slot = Slot {
        kind: Kind::Unknown,
        vector: 0,
        length: 0,
        relative: false,
        usual: false,
        pair: false,
        places: [PLACE_NONE; FIELDS],
    };
}

const PLACE_NONE: Place = Place { offset: 0, size: 0, signed: false };

/// What every record begins with: `struct trace_entry` (include/linux/trace_events.h), type, flags, preemption count
/// and thread, the same in all kernels from 5.15 to 6.18; what some add stands behind it.
const COMMON: [(&str, u32, u32); 4] =
    [("common_type", 0, 2), ("common_flags", 2, 1), ("common_preempt_count", 3, 1), ("common_pid", 4, 4)];
const COMMON_LENGTH: usize = 8;

/// The number and the first two arguments of a `syscalls:sys_enter_*` event, by the names of their fields.
fn own_call_fields(event: &EventFormat) -> Vec<String> {
    let own = event.fields.iter().filter(|field| !field.name.starts_with("common_"));
    own.take(3).map(|field| field.name.clone()).collect()
}

fn has_common_fields(event: &EventFormat) -> bool {
    COMMON.iter().all(|&(name, offset, size)| {
        event.field(name).is_some_and(|field| (field.offset, field.size) == (offset, size))
    })
}

/// Turns the records of one trace into typed ones.
#[derive(Clone, Debug)]
pub struct Decoder {
    big_endian: bool,
    slots: Vec<Slot>,
    vectors: Vec<String>,
    /// Reasons of inter-processor interrupts: the address of the text, and its vector.
    ipis: Vec<(u64, u16)>,
    long_size: u8,
    problems: Vec<String>,
}

impl Decoder {
    /// The decoder for records described by `formats`, of a machine of this byte order.
    pub fn new(formats: &Formats, big_endian: bool, strings: &PrintkStrings) -> Decoder {
        let mut decoder = Decoder {
            big_endian,
            slots: Vec::new(),
            vectors: Vec::new(),
            ipis: Vec::new(),
            long_size: 8,
            problems: Vec::new(),
        };
        if formats.by_name("ipi", "ipi_entry").is_some() {
            let unnamed = decoder.vector("ipi");
            debug_assert_eq!(unnamed, UNNAMED_IPI);
            for (address, string) in strings.iter().take(usize::from(u16::MAX) / 2) {
                let vector = decoder.vector(string);
                decoder.ipis.push((address, vector));
            }
        }
        for event in formats.events() {
            let slot = decoder.slot(event);
            let at = usize::from(event.id);
            if decoder.slots.len() <= at {
                decoder.slots.resize(at + 1, Slot::UNKNOWN);
            }
            decoder.slots[at] = slot;
        }
        decoder
    }

    /// Events whose description lacks a field that is needed.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// The name of a vector without `_entry`: `local_timer`.
    pub fn vector_name(&self, vector: VectorId) -> &str {
        self.vectors.get(usize::from(vector.0)).map_or("vector", String::as_str)
    }

    /// The names of all vectors that this trace can name, by [`VectorId`].
    pub fn vector_names(&self) -> &[String] {
        &self.vectors
    }

    fn vector(&mut self, name: &str) -> u16 {
        let known = self.vectors.iter().position(|vector| vector == name);
        let at = known.unwrap_or_else(|| {
            self.vectors.push(name.to_owned());
            self.vectors.len() - 1
        });
        u16::try_from(at).unwrap_or(u16::MAX)
    }

    fn slot(&mut self, event: &EventFormat) -> Slot {
        let (kind, vector, fields): (Kind, u16, &[&str]) = if event.system == "irq_vectors" {
            match (event.name.strip_suffix("_entry"), event.name.strip_suffix("_exit")) {
                (Some(name), _) => (Kind::VectorEntry, self.vector(name), &["vector"]),
                (_, Some(name)) => (Kind::VectorExit, self.vector(name), &["vector"]),
                _ => (Kind::Other, 0, &[]),
            }
        } else {
            let known = KNOWN.iter().find(|known| (known.0, known.1) == (&event.system, &event.name));
            known.map_or((Kind::Other, 0, &[]), |known| (known.2, 0, known.3))
        };
        // Each system call's own event has its number first, and then its arguments by their names, a word each.
        let arguments = own_call_fields(event);
        let named: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let (kind, fields) = match event.name.as_str() {
            _ if event.system != "syscalls" => (kind, fields),
            name if name.starts_with("sys_enter_") => (Kind::CallEntry, named.as_slice()),
            name if name.starts_with("sys_exit_") => (Kind::CallExit, &named[..named.len().min(1)]),
            _ => (kind, fields),
        };
        if !has_common_fields(event) {
            self.problems
                .push(format!("{}:{} does not begin with struct trace_entry", event.system, event.name));
            return Slot::UNKNOWN;
        }
        let mut slot = Slot { kind, vector, ..Slot::UNKNOWN };
        let mut length = COMMON_LENGTH;
        for (place, name) in slot.places.iter_mut().zip(fields) {
            let (name, element) = name.split_once('+').unwrap_or((name, ""));
            let field = event.field(name);
            let found = match field {
                Some(field) if kind == Kind::CallEntry && field.kind == FieldKind::Array => {
                    Place::of_word(field, element.parse().unwrap_or(0))
                }
                Some(_) if !element.is_empty() => None,
                field => field.and_then(Place::of),
            };
            let Some(found) = found else {
                self.problems.push(format!("{}:{} has no usable field {name}", event.system, event.name));
                return Slot::UNKNOWN;
            };
            slot.relative |= field.is_some_and(|field| field.kind == FieldKind::RelativeLocation);
            *place = found;
            // The stack's array is as long as the record; the format only names the minimum.
            length =
                length.max(if kind == Kind::KernelStack { usize::from(found.offset) } else { found.end() });
        }
        if kind == Kind::KernelStack {
            self.long_size = match event.field("caller").map(|field| field.type_name.as_str()) {
                // An array of `unsigned long`: what does not divide by 8 has words of 4.
                Some(_)
                    if event
                        .field("caller")
                        .is_some_and(|field| field.size % 8 != 0 || field.offset % 8 != 0) =>
                {
                    4
                }
                _ => 8,
            };
        }
        slot.length = u16::try_from(length).unwrap_or(u16::MAX);
        slot.usual = !self.big_endian && usual::is(kind, &slot.places);
        slot.pair = !self.big_endian && slot.places[..2].iter().all(|place| place.size == 4);
        slot
    }

    /// The number of a record's event.
    #[inline(always)]
    pub fn id(&self, data: &[u8]) -> u16 {
        match data {
            [a, b, ..] if self.big_endian => u16::from_be_bytes([*a, *b]),
            [a, b, ..] => u16::from_le_bytes([*a, *b]),
            _ => 0,
        }
    }

    /// Types a record.
    #[inline(always)]
    pub fn decode<'a>(&self, data: &'a [u8]) -> Decoded<'a> {
        let Some(&[_, _, flags, preempt_count, a, b, c, d]) = data.first_chunk::<COMMON_LENGTH>() else {
            return Decoded {
                id: self.id(data),
                tid: Tid(0),
                flags: Flags(0),
                preempt_count: 0,
                record: TraceRecord::Short,
            };
        };
        let id = self.id(data);
        let tid = [a, b, c, d];
        let tid = Tid(if self.big_endian { i32::from_be_bytes(tid) } else { i32::from_le_bytes(tid) });
        let record = match self.slots.get(usize::from(id)) {
            None => TraceRecord::Unknown,
            Some(slot) if data.len() < usize::from(slot.length) => TraceRecord::Short,
            Some(slot) if slot.usual => usual::record(slot.kind, data),
            Some(slot) => self.record(slot, data),
        };
        Decoded { id, tid, flags: Flags(flags), preempt_count, record }
    }

    #[inline(always)]
    fn record<'a>(&self, slot: &Slot, data: &'a [u8]) -> TraceRecord<'a> {
        let number = |at: usize| slot.places[at].read(data, self.big_endian);
        let text = |at: usize| Comm(slot.places[at].located(data, slot.relative, self.big_endian));
        let task = |comm: usize, tid: usize, prio: usize| TaskRef {
            tid: Tid(number(tid) as i32),
            prio: number(prio) as i32,
            comm: Comm(slot.places[comm].bytes(data)),
        };
        let vector = VectorId(slot.vector);
        match slot.kind {
            Kind::IrqDisable | Kind::IrqEnable | Kind::PreemptDisable | Kind::PreemptEnable => {
                let (caller, parent) = (TextOffset(number(0) as i32), TextOffset(number(1) as i32));
                match slot.kind {
                    Kind::IrqDisable => TraceRecord::IrqDisable { caller, parent },
                    Kind::IrqEnable => TraceRecord::IrqEnable { caller, parent },
                    Kind::PreemptDisable => TraceRecord::PreemptDisable { caller, parent },
                    _ => TraceRecord::PreemptEnable { caller, parent },
                }
            }
            Kind::VectorEntry => TraceRecord::VectorEntry { vector, number: Some(number(0) as u32) },
            Kind::VectorExit => TraceRecord::VectorExit { vector, number: Some(number(0) as u32) },
            Kind::IpiEntry => TraceRecord::VectorEntry { vector: self.ipi(number(0) as u64), number: None },
            Kind::IpiExit => TraceRecord::VectorExit { vector: self.ipi(number(0) as u64), number: None },
            Kind::IrqHandlerEntry => TraceRecord::IrqHandlerEntry { irq: number(0) as u32, name: text(1) },
            Kind::IrqHandlerExit => {
                let result = number(1);
                TraceRecord::IrqHandlerExit {
                    irq: number(0) as u32,
                    handled: result != 0,
                    wakes_thread: result & IRQ_WAKE_THREAD != 0,
                }
            }
            Kind::Nmi => TraceRecord::Nmi { duration_ns: number(0), handler: number(1) as u64 },
            Kind::Switch => {
                TraceRecord::Switch { prev: task(0, 1, 2), prev_state: number(3) as u64, next: task(4, 5, 6) }
            }
            Kind::Waking => TraceRecord::Waking { task: task(0, 1, 2), target_cpu: number(3) as u32 },
            Kind::Wakeup => TraceRecord::Wakeup { task: task(0, 1, 2), target_cpu: number(3) as u32 },
            Kind::WakeupNew => TraceRecord::WakeupNew { task: task(0, 1, 2), target_cpu: number(3) as u32 },
            Kind::SoftirqRaise => TraceRecord::SoftirqRaise { vector: number(0) as u32 },
            Kind::SoftirqEntry => TraceRecord::SoftirqEntry { vector: number(0) as u32 },
            Kind::SoftirqExit => TraceRecord::SoftirqExit { vector: number(0) as u32 },
            Kind::HrtimerStart => TraceRecord::HrtimerStart {
                timer: number(0) as u64,
                function: number(3) as u64,
                expires_ns: number(1),
                soft_expires_ns: number(2),
            },
            Kind::HrtimerCancel => TraceRecord::HrtimerCancel { timer: number(0) as u64 },
            Kind::HrtimerExpireEntry => TraceRecord::HrtimerExpireEntry {
                timer: number(0) as u64,
                now_ns: number(1),
                function: number(2) as u64,
            },
            Kind::HrtimerExpireExit => TraceRecord::HrtimerExpireExit { timer: number(0) as u64 },
            Kind::TaskletEntry => {
                TraceRecord::TaskletEntry { tasklet: number(0) as u64, function: number(1) as u64 }
            }
            Kind::TaskletExit => TraceRecord::TaskletExit { tasklet: number(0) as u64 },
            Kind::WorkQueue => TraceRecord::WorkQueue { work: number(0) as u64 },
            Kind::WorkActivate => TraceRecord::WorkActivate { work: number(0) as u64 },
            Kind::BlockStart => {
                TraceRecord::BlockStart { device: number(0) as u32, sector: number(1) as u64 }
            }
            Kind::BlockDone => TraceRecord::BlockDone { device: number(0) as u32, sector: number(1) as u64 },
            Kind::Fork => TraceRecord::Fork { parent: Tid(number(0) as i32), child: Tid(number(1) as i32) },
            Kind::Migrate => TraceRecord::Migrate { tid: Tid(number(0) as i32), to: Cpu(number(1) as u32) },
            Kind::WorkStart => TraceRecord::WorkStart { work: number(0) as u64, function: number(1) as u64 },
            Kind::WorkEnd => TraceRecord::WorkEnd { work: number(0) as u64 },
            Kind::CallEntry => {
                TraceRecord::CallEntry { number: number(0), arguments: [number(1) as u64, number(2) as u64] }
            }
            Kind::CallExit => TraceRecord::CallExit,
            Kind::PageFault => TraceRecord::PageFault { address: number(0) as u64 },
            Kind::BlockInsert | Kind::BlockIssue | Kind::BlockComplete => {
                let (step, length) = match slot.kind {
                    Kind::BlockInsert => (BlockStep::Queued, number(2) as u32),
                    Kind::BlockIssue => (BlockStep::Issued, number(2) as u32),
                    _ => (BlockStep::Completed, (number(2) as u32).saturating_mul(SECTOR)),
                };
                TraceRecord::Block {
                    step,
                    device: number(0) as u32,
                    sector: number(1) as u64,
                    bytes: length,
                    write: writes(slot.places[3].bytes(data)),
                }
            }
            Kind::ContentionBegin => {
                TraceRecord::ContentionBegin { lock: number(0) as u64, spins: number(1) & LCB_F_SPIN != 0 }
            }
            Kind::ContentionEnd => TraceRecord::ContentionEnd { lock: number(0) as u64 },
            Kind::ReclaimBegin => TraceRecord::ReclaimBegin { of_group: false },
            Kind::GroupReclaimBegin => TraceRecord::ReclaimBegin { of_group: true },
            Kind::ReclaimEnd => TraceRecord::ReclaimEnd,
            Kind::SignalDeliver => {
                TraceRecord::SignalDeliver { signal: number(0) as u32, handler: number(1) as u64 }
            }
            Kind::KernelStack => TraceRecord::KernelStack {
                frames: Frames {
                    bytes: data.get(usize::from(slot.places[0].offset)..).unwrap_or_default(),
                    size: self.long_size,
                    big_endian: self.big_endian,
                },
            },
            Kind::IrqNoise => {
                self.noise(slot, data, NoiseKind::Irq { vector: number(2) as i32, name: text(3) })
            }
            Kind::NmiNoise => self.noise(slot, data, NoiseKind::Nmi),
            Kind::SoftirqNoise => self.noise(slot, data, NoiseKind::Softirq { vector: number(2) as i32 }),
            Kind::ThreadNoise => {
                let comm = Comm(slot.places[3].bytes(data));
                self.noise(slot, data, NoiseKind::Thread { tid: Tid(number(2) as i32), comm })
            }
            Kind::Other => TraceRecord::Other,
            Kind::Unknown => TraceRecord::Unknown,
        }
    }

    fn noise<'a>(&self, slot: &Slot, data: &[u8], kind: NoiseKind<'a>) -> TraceRecord<'a> {
        let number = |at: usize| slot.places[at].read(data, self.big_endian) as u64;
        TraceRecord::Noise { kind, start_ns: number(0), duration_ns: number(1) }
    }

    fn ipi(&self, reason: u64) -> VectorId {
        let found = self.ipis.binary_search_by_key(&reason, |entry| entry.0);
        VectorId(found.map_or(UNNAMED_IPI, |at| self.ipis[at].1))
    }
}

/// A sector of the block layer (include/linux/blk_types.h, SECTOR_SHIFT).
pub(crate) const SECTOR: u32 = 512;

/// The handler asks for its thread (include/linux/irqreturn.h).
const IRQ_WAKE_THREAD: i64 = 2;

/// Somebody spins for the lock (include/trace/events/lock.h).
const LCB_F_SPIN: i64 = 1;

/// Whether a request writes, by its letters: `W`, or `D` of a discard, which the kernel counts as one (`op_is_write`,
/// include/linux/blk_types.h; blk_fill_rwbs, kernel/trace/blktrace.c).
pub(crate) fn writes(letters: &[u8]) -> bool {
    letters.iter().take_while(|&&letter| letter != 0).any(|letter| matches!(letter, b'W' | b'D'))
}

/// The vector of an inter-processor interrupt whose reason the trace does not spell out: always the first.
const UNNAMED_IPI: u16 = 0;

#[cfg(test)]
mod tests;
