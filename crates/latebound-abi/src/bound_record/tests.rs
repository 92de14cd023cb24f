// SPDX-License-Identifier: MIT OR Apache-2.0
//! The glue in C, played through with a clock of its own, against the thread model fed with the same events.

use proptest::prelude::*;

use super::*;
use crate::callers::{CallerClasses, CallerTable, Symbol};
use crate::thread_model::{CallerClass, Resched, ThreadModel, ThreadModelEvent, ThreadModelEventKind};
use crate::wire::TmSource;

#[allow(dead_code, unreachable_pub, reason = "generated whole")]
mod native {
    include!(concat!(env!("OUT_DIR"), "/native_world_wire.rs"));
}

use native::World;

unsafe extern "C" {
    fn latebound_bound_event(
        memory: *mut Memory,
        callers: *const CallerTable,
        world: *mut World,
        kind: u32,
        caller: u64,
        parent: u64,
        arg: u64,
    );
}

const SCHEDULE_INNER: u64 = 0x1010;
const SCHEDULE: u64 = 0x1110;
const DO_EXIT: u64 = 0x1210;
const ELSEWHERE: u64 = 0x1310;
const IRQ_ENTER: u64 = 0x1410;
const IRQ_EXIT: u64 = 0x1510;
const SYSVEC: u64 = 0x1610;
const PAGE_FAULT: u64 = 0x1710;
const TELLS: u64 = 0x1810;

fn classes() -> CallerClasses {
    let names = [
        (0x1000, "__schedule"),
        (0x1100, "schedule"),
        (0x1200, "do_exit"),
        (0x1300, "vfs_write"),
        (0x1400, "irqentry_enter"),
        (0x1500, "irqentry_exit"),
        (0x1600, "sysvec_apic_timer_interrupt"),
        (0x1700, "exc_page_fault"),
        (0x1800, "trace_hardirqs_off"),
        (0x1900, "end"),
    ];
    CallerClasses::from_symbols(names.map(|(start, name)| Symbol { start, name })).unwrap()
}

struct Played {
    memory: Box<Memory>,
    callers: Box<CallerTable>,
    world: World,
    reader: RingReader,
}

impl Played {
    fn new(features: ModelFeatures) -> Played {
        // SAFETY: the struct consists of integers, which may be zero.
        let mut memory: Box<Memory> = unsafe { Box::new_zeroed().assume_init() };
        memory.cpu = *BoundCpu::from_bytes(&BoundCpu::initial(features)).unwrap().0;
        memory.cpu.running = 1;
        Played {
            memory,
            callers: classes().table().unwrap(),
            world: World::default(),
            reader: RingReader::default(),
        }
    }

    /// An event with its caller, that one's caller, and its argument.
    fn event(&mut self, at: u64, (tid, resched): (i32, bool), kind: TmKind, words: [u64; 3]) {
        self.event_in(
            World { clock_ns: at, tid, resched: u32::from(resched), ..World::default() },
            kind,
            words,
        );
    }

    /// An event at which the clock is read so many times.
    fn readings(&mut self, at: u64, kind: TmKind, words: [u64; 3]) -> u64 {
        self.event_in(World { clock_ns: at, tick_ns: 1, tid: 7, ..World::default() }, kind, words);
        self.world.clock_ns - at
    }

    /// An event within which an interrupt comes, behind the first reading of the clock.
    fn interrupted(&mut self, at: u64, kind: TmKind, words: [u64; 3], interrupt_ns: u64, asks: bool) {
        let (entry, exit, function) = (IRQ_ENTER, IRQ_EXIT, SYSVEC);
        let world = World {
            clock_ns: at,
            tid: 7,
            interrupt_ns,
            entry,
            exit,
            function,
            asks: u64::from(asks),
            ..World::default()
        };
        self.event_in(world, kind, words);
    }

    fn event_in(&mut self, world: World, kind: TmKind, [caller, parent, arg]: [u64; 3]) {
        self.world = world;
        // SAFETY: every pointer is to live memory of the layout that the header gives, held by us alone.
        unsafe {
            latebound_bound_event(
                &mut *self.memory,
                &*self.callers,
                &mut self.world,
                kind.raw(),
                caller,
                parent,
                arg,
            );
        }
    }

    fn counts(&self) -> ModelCounts {
        BoundCpu(Box::new(self.memory.cpu)).counts().model
    }

    fn take(&mut self) -> Vec<BoundRecord> {
        let mut records = Vec::new();
        self.reader.take(ring(&mut self.memory), usize::MAX, |record| records.push(record));
        records
    }
}

/// As the reader sees it.
fn ring(memory: &mut Memory) -> &[AtomicU64] {
    let first = (&raw mut memory.ring).cast::<AtomicU64>();
    // SAFETY: words of the struct, borrowed for as long as they are looked at.
    unsafe { std::slice::from_raw_parts(first, BOUND_RING_TOTAL_WORDS) }
}

fn interrupt(played: &mut Played, start: u64, duration: u64, source: u64) {
    played.event(start, (7, false), IRQS_OFF, [IRQ_ENTER, SYSVEC, 0]);
    played.event(start, (7, false), ENTRY, [0, 0, source]);
    played.event(start + duration, (7, false), EXIT, [0, 0, source]);
    played.event(start + duration, (7, false), IRQS_ON, [IRQ_EXIT, 0, 0]);
}

#[test]
fn interrupts_come_back_to_the_nanosecond_in_a_word_each_where_they_fit() {
    let mut played = Played::new(ModelFeatures::default());
    let device = |number| InterruptSource::Device(number).raw();
    let (timer, far_device) = (VECTOR_236, device(70_000));
    let all = [
        (5_000_000_000_123, 4_321, timer, InterruptSource::Vector(236)),
        (5_000_000_900_001, 12_345, timer, InterruptSource::Vector(236)),
        (5_000_500_000_000, 4_194_303, device(11), InterruptSource::Device(11)),
        (5_000_900_000_000, 4_194_304, timer, InterruptSource::Vector(236)),
        (5_000_990_000_000, 10, far_device, InterruptSource::Device(70_000)),
        (9_000_990_000_000, 10, timer, InterruptSource::Vector(236)),
        (9_000_990_000_900, 1 << 40, timer, InterruptSource::Vector(236)),
    ];
    for (start, duration, source, _) in all {
        interrupt(&mut played, start, duration, source);
    }
    let words = played.memory.cpu.position;
    let expected = all.map(|(start, duration, _, source)| BoundRecord::Interrupt {
        source,
        start_ns: start,
        duration_ns: duration,
    });
    assert_eq!(played.take(), expected);
    // Short: the second and the third.
    assert_eq!(words, 2 + 5 * 4);
    assert_eq!(played.take(), []);
    assert!(ring(&mut played.memory).iter().skip(RING_HEAD).all(|word| word.load(Ordering::Relaxed) == 0));
}

#[test]
fn an_nmi_within_an_interrupt_stands_before_it_and_is_not_part_of_it() {
    let mut played = Played::new(ModelFeatures::default());
    played.event(1_000, (7, false), IRQS_OFF, [IRQ_ENTER, SYSVEC, 0]);
    played.event(1_000, (7, false), ENTRY, [0, 0, VECTOR_236]);
    played.event(1_600, (7, false), NMI, [0, 0, 500]);
    played.event(2_000, (7, false), IRQS_ON, [IRQ_EXIT, 0, 0]);
    let nmi = BoundRecord::Interrupt { source: InterruptSource::Nmi, start_ns: 1_100, duration_ns: 500 };
    let timer =
        BoundRecord::Interrupt { source: InterruptSource::Vector(236), start_ns: 1_000, duration_ns: 500 };
    assert_eq!(played.take(), [nmi, timer]);
}

#[test]
fn a_full_ring_counts_what_it_refuses_and_overwrites_nothing() {
    let mut played = Played::new(ModelFeatures::default());
    for n in 0..40_000u64 {
        interrupt(&mut played, 1_000_000 + n * 1_000, n % 900, VECTOR_236);
    }
    let records = played.take();
    assert_eq!(records.len() as u64 + played.memory.cpu.refused, 40_000);
    assert!(records.len() > 32_000 && played.memory.cpu.refused > 7_000);
    for (n, record) in records.iter().enumerate() {
        let (start, duration) = (1_000_000 + n as u64 * 1_000, n as u64 % 900);
        assert_eq!(
            *record,
            BoundRecord::Interrupt {
                source: InterruptSource::Vector(236),
                start_ns: start,
                duration_ns: duration
            }
        );
    }
    // And it goes on where there is room again.
    interrupt(&mut played, 90_000_000_000, 5, VECTOR_236);
    let last = BoundRecord::Interrupt {
        source: InterruptSource::Vector(236),
        start_ns: 90_000_000_000,
        duration_ns: 5,
    };
    assert_eq!(played.take(), [last]);
}

#[test]
fn a_window_is_written_when_it_is_the_longest_with_both_ends_and_names() {
    let mut played = Played::new(ModelFeatures::default());
    played.event(100, (7, false), IRQS_OFF, [ELSEWHERE, 0, 0]);
    played.event(110, (7, false), IRQS_ON, [ELSEWHERE, 0, 0]);
    for (at, until) in [(1_000, 1_500), (2_000, 2_400), (3_000, 3_500), (4_000, 4_501)] {
        played.event(at, (7, false), OFF, [ELSEWHERE, 0, 0]);
        played.event(until, (7, false), ON, [ELSEWHERE + 4, 0, 0]);
    }
    let durations: Vec<u64> = played
        .take()
        .into_iter()
        .map(|record| {
            let BoundRecord::Window(BoundWindow { window, begin_comm, end_comm }) = record else { panic!() };
            assert_eq!((window.kind, window.begin_tid, window.end_tid), (WindowKind::Poid, 7, 7));
            assert_eq!((window.begin_caller, window.end_caller), (ELSEWHERE, ELSEWHERE + 4));
            assert_eq!((begin_comm.as_str(), end_comm.as_str()), ("oope", "oope"));
            window.duration_ns
        })
        .collect();
    assert_eq!(durations, [500, 501]);
    assert_eq!(played.counts().windows, 4);
}

#[test]
fn a_broken_rule_comes_with_the_events_that_led_there() {
    let mut played = Played::new(ModelFeatures::default());
    played.event(100, (7, false), IRQS_OFF, [ELSEWHERE, 0, 0]);
    played.event(110, (7, false), IRQS_ON, [ELSEWHERE, 0, 0]);
    played.event(120, (7, false), OFF, [ELSEWHERE, 0, 0]);
    played.event(130, (7, false), SWITCH, [0, 0, 9]);
    let records = played.take();
    let [BoundRecord::Violation { rule, tid, events, .. }] = records.as_slice() else {
        panic!("{records:?}")
    };
    assert_eq!((*rule, *tid), (Rule::R9, 7));
    let kinds: Vec<ViolationKind> = events.iter().map(|event| event.kind).collect();
    use ViolationKind::{IrqDisable, IrqEnable, PreemptDisable, Switch};
    assert_eq!(kinds, [IrqDisable, IrqEnable, PreemptDisable, Switch]);
    assert_eq!((events[2].caller, events[2].at_ns), (ELSEWHERE, Some(120)));
    assert_eq!(events[0].at_ns, Some(100));
}

#[test]
fn an_ordinary_section_stands_at_its_start_in_the_events_of_a_violation() {
    use ViolationKind::{IrqDisable, IrqEnable, PreemptDisable, PreemptEnable, Switch};
    let mut played = begun(1_000);
    let elsewhere = |n: u64| [ELSEWHERE + n, 0, 0];
    // One that interrupts begin and preemption ends, one the other way about, and one that is still open.
    for (at, kind) in [(5_000, IRQS_OFF), (5_010, OFF), (5_020, IRQS_ON), (5_030, ON)]
        .into_iter()
        .chain([(6_000, OFF), (6_010, IRQS_OFF), (6_020, ON), (6_030, IRQS_ON)])
        .chain([(7_000, OFF), (7_010, IRQS_OFF), (7_020, IRQS_ON)])
    {
        played.event(at, (7, false), kind, elsewhere(at % 100));
    }
    played.event(7_100, (7, false), SWITCH, [0, 0, 9]);
    let records = played.take();
    let [BoundRecord::Violation { rule: Rule::R9, events, .. }] = records.as_slice() else {
        panic!("{records:?}")
    };
    let listed: Vec<_> = events.iter().map(|event| (event.kind, event.caller, event.at_ns)).collect();
    let expected = [
        (IrqDisable, 0, Some(5_000)),
        (PreemptDisable, 10, None),
        (IrqEnable, 20, None),
        (PreemptEnable, 30, Some(5_030)),
        (PreemptDisable, 0, Some(6_000)),
        (IrqDisable, 10, None),
        (PreemptEnable, 20, None),
        (IrqEnable, 30, Some(6_030)),
        (PreemptDisable, 0, Some(7_000)),
        (IrqDisable, 10, None),
        (IrqEnable, 20, None),
        (Switch, 0, Some(7_100)),
    ]
    .map(|(kind, n, at)| (kind, if kind == Switch { 0 } else { ELSEWHERE + n }, at));
    assert_eq!(listed[listed.len() - expected.len()..], expected);
}

#[test]
fn no_more_events_are_reported_before_a_violation_than_have_places() {
    let mut played = begun(1_000);
    for n in 0..100 {
        let at = 10_000 + n * 100;
        played.event(at, (7, false), OFF, [ELSEWHERE, 0, 0]);
        played.event(at + 50, (7, false), ON, [ELSEWHERE, 0, 0]);
    }
    played.event(30_000, (7, false), SWITCH, [0, 0, 9]);
    let records = played.take();
    let [BoundRecord::Violation { events, .. }] = records.as_slice() else { panic!("{records:?}") };
    assert_eq!(events.len(), RECENT);
    let times: Vec<u64> = events.iter().filter_map(|event| event.at_ns).collect();
    assert_eq!(times.last(), Some(&30_000));
    assert!(times[..RECENT - 1].windows(2).all(|two| two[0] + 50 == two[1]), "{times:?}");
    assert_eq!(played.counts().events, 4 + 200 + 1);
}

const OFF: TmKind = TmKind::PreemptDisable;
const ON: TmKind = TmKind::PreemptEnable;
const IRQS_OFF: TmKind = TmKind::IrqDisable;
const IRQS_ON: TmKind = TmKind::IrqEnable;
const ENTRY: TmKind = TmKind::HandlerEntry;
const EXIT: TmKind = TmKind::HandlerExit;
const NMI: TmKind = TmKind::Nmi;
const SCHED_ENTRY: TmKind = TmKind::SchedEntry;
const SCHED_EXIT: TmKind = TmKind::SchedExit;
const SWITCH: TmKind = TmKind::Switch;
const WAKING: TmKind = TmKind::Waking;
const NEED_RESCHED: TmKind = TmKind::NeedResched;

/// A timer's vector, as the argument of an event.
const VECTOR_236: u64 = (TmSource::Vector as u64) << 32 | 236;

/// The state is known, and a window of so many nanoseconds is the longest POID.
fn begun(longest: u64) -> Played {
    let mut played = Played::new(ModelFeatures::default());
    played.event(10, (7, false), IRQS_OFF, [ELSEWHERE, 0, 0]);
    played.event(20, (7, false), IRQS_ON, [ELSEWHERE, 0, 0]);
    played.event(100, (7, false), OFF, [ELSEWHERE, 0, 0]);
    played.event(100 + longest, (7, false), ON, [ELSEWHERE, 0, 0]);
    played.take();
    played
}

#[test]
fn the_clock_is_read_where_a_poid_begins_or_ends_and_not_in_between() {
    let elsewhere = [ELSEWHERE, 0, 0];
    let nested = [
        // raw_spin_lock_irqsave ... irqrestore, in both orders.
        [(IRQS_OFF, 1), (OFF, 0), (IRQS_ON, 0), (ON, 1)],
        [(IRQS_OFF, 1), (OFF, 0), (ON, 0), (IRQS_ON, 1)],
        [(OFF, 1), (IRQS_OFF, 0), (IRQS_ON, 0), (ON, 1)],
        [(OFF, 1), (IRQS_OFF, 0), (ON, 0), (IRQS_ON, 1)],
    ];
    let mut played = begun(1_000_000);
    let windows = played.counts().windows;
    let mut at = 2_000_000;
    for (kind, times) in nested.into_iter().flatten() {
        at += 100;
        assert_eq!(played.readings(at, kind, elsewhere), times, "event {kind:?} at {at}");
    }
    assert_eq!(played.counts().windows, windows + 4);
    assert_eq!(played.take(), []);
    // Within an interrupt neither way.
    played.event(at + 100, (7, false), IRQS_OFF, [IRQ_ENTER, SYSVEC, 0]);
    assert_eq!(played.readings(at + 200, OFF, elsewhere), 0);
    assert_eq!(played.readings(at + 300, ON, elsewhere), 0);
    // Behind a switch neither.
    let mut played = begun(1_000_000);
    assert_eq!(played.readings(2_000_000, OFF, [SCHEDULE, 0, 0]), 1);
    assert_eq!(played.readings(2_000_100, IRQS_OFF, [SCHEDULE_INNER, 0, 0]), 1);
    assert_eq!(played.readings(2_000_200, SWITCH, [0, 0, 9]), 0);
    assert_eq!(played.readings(2_000_300, IRQS_ON, elsewhere), 0);
    assert_eq!(played.readings(2_000_400, ON, [SCHEDULE, 0, 0]), 1);
    assert_eq!(played.memory.cpu.violations, 0);
}

/// The CPU has turned to idle, whose scheduler has ended at this moment.
fn idle(longest: u64, at: u64) -> Played {
    let mut played = begun(longest);
    for (before, kind, words) in
        [(40, OFF, [SCHEDULE, 0, 0]), (30, IRQS_OFF, [SCHEDULE_INNER, 0, 0]), (20, SWITCH, [0, 0, 0])]
    {
        played.event(at - before, (7, false), kind, words);
    }
    played.event(at, (0, false), IRQS_ON, [ELSEWHERE, 0, 0]);
    played.take();
    played
}

#[test]
fn idle_s_scheduler_begins_with_what_came_last_before_it() {
    let elsewhere = [ELSEWHERE, 0, 0];
    // An interrupt; with a section of idle behind it; with an interrupt behind that.
    let interrupt = [
        (IRQS_OFF, [IRQ_ENTER, SYSVEC, 0]),
        (ENTRY, [0, 0, VECTOR_236]),
        (EXIT, [0, 0, 0]),
        (IRQS_ON, [IRQ_EXIT, 0, 0]),
    ];
    let section = [(IRQS_OFF, elsewhere), (IRQS_ON, elsewhere)];
    for (came, last) in [
        (interrupt.to_vec(), 1_003_000),
        ([&interrupt[..], &section].concat(), 1_005_000),
        ([&interrupt[..], &section, &interrupt].concat(), 1_009_000),
    ] {
        let mut played = idle(50, 999_000);
        let mut at = 1_000_000;
        for (kind, words) in came {
            played.event(at, (0, false), kind, words);
            at += 1_000;
        }
        played.event(1_020_000, (0, false), IRQS_OFF, [SCHEDULE_INNER, 0, 0]);
        played.event(1_020_100, (0, false), SWITCH, [0, 0, 7]);
        played.event(1_020_200, (7, false), IRQS_ON, elsewhere);
        played.event(1_021_000, (7, false), ON, [SCHEDULE, 0, 0]);
        let windows: Vec<Plain> = played.take().into_iter().filter_map(plain).collect();
        let expected = [
            (WindowKind::Dst, 1_020_000, 1_021_000, 1_000),
            (WindowKind::Psd, last, 1_021_000, 1_021_000 - last),
        ];
        assert_eq!(windows, expected);
        // And what the next thread does is that thread's.
        played.event(1_030_000, (7, false), OFF, elsewhere);
        played.event(1_032_000, (7, false), ON, elsewhere);
        let windows: Vec<Plain> = played.take().into_iter().filter_map(plain).collect();
        assert_eq!(windows, [(WindowKind::Poid, 1_030_000, 1_032_000, 2_000)]);
        assert_eq!(played.memory.cpu.violations, 0);
    }
}

#[test]
fn what_idle_masks_is_counted_and_takes_one_reading_of_the_clock() {
    let elsewhere = [ELSEWHERE, 0, 0];
    let mut played = idle(50, 2_000_000);
    let counts = played.counts();
    let readings = |played: &mut Played, at, kind, words| {
        let world = World { clock_ns: at, tick_ns: 1, tid: 0, ..World::default() };
        played.event_in(world, kind, words);
        played.world.clock_ns - at
    };
    assert_eq!(readings(&mut played, 2_001_000, IRQS_OFF, elsewhere), 0);
    assert_eq!(readings(&mut played, 2_900_000, IRQS_ON, elsewhere), 1);
    assert_eq!(played.counts().idle_windows, counts.idle_windows + 1);
    assert_eq!(played.counts().windows, counts.windows);
    assert_eq!(played.take(), []);
    // Nobody is to be woken there: both stand before the violation.
    played.event(2_901_000, (0, false), IRQS_OFF, elsewhere);
    played.event(2_902_000, (0, false), SWITCH, [0, 0, 9]);
    let records = played.take();
    let [BoundRecord::Violation { rule: Rule::R9, events, .. }] = records.as_slice() else {
        panic!("{records:?}")
    };
    let listed: Vec<_> = events.iter().rev().take(4).map(|event| (event.kind, event.at_ns)).collect();
    let expected = [
        (ViolationKind::Switch, Some(2_902_000)),
        (ViolationKind::IrqDisable, None),
        (ViolationKind::IrqEnable, Some(2_900_000)),
        (ViolationKind::IrqDisable, None),
    ];
    assert_eq!(listed, expected);
}

#[test]
fn behind_a_switch_that_breaks_a_rule_nobody_is_taken_for_idle() {
    let elsewhere = [ELSEWHERE, 0, 0];
    let mut played = idle(50, 2_000_000);
    played.event(2_001_000, (0, false), SWITCH, [0, 0, 9]);
    assert!(matches!(played.take().as_slice(), [BoundRecord::Violation { rule: Rule::R9, .. }]));
    played.event(2_002_000, (9, false), IRQS_OFF, elsewhere);
    played.event(2_003_000, (9, false), IRQS_ON, elsewhere);
    let windows: Vec<Plain> = played.take().into_iter().filter_map(plain).collect();
    assert_eq!(windows, [(WindowKind::Poid, 2_002_000, 2_003_000, 1_000)]);
}

#[test]
fn an_exception_is_that_of_the_thread_that_ran() {
    let mut played = begun(50);
    for (tid, at) in [(7, 1_000), (8, 10_000)] {
        played.event(at, (tid, false), IRQS_OFF, [IRQ_ENTER, ELSEWHERE, 0]);
        played.event(at + at / 2, (tid, false), IRQS_ON, [ELSEWHERE, 0, 0]);
        let records = played.take();
        let [BoundRecord::Window(BoundWindow { window, .. })] = records.as_slice() else {
            panic!("{records:?}")
        };
        assert_eq!((window.kind, window.start_ns, window.duration_ns), (WindowKind::Poid, at, at / 2));
        assert_eq!((window.begin_tid, window.end_tid), (tid, tid));
    }
    assert_eq!(played.counts().exceptions, 2);
}

/// What a window is, its beginning, its end and its duration.
type Plain = (WindowKind, u64, u64, u64);

fn plain(record: BoundRecord) -> Option<Plain> {
    match record {
        BoundRecord::Window(BoundWindow { window, .. }) => {
            Some((window.kind, window.start_ns, window.end_ns, window.duration_ns))
        }
        _ => None,
    }
}

#[test]
fn an_interrupt_during_a_clock_reading_is_never_part_of_a_window() {
    let (timer, elsewhere) = (InterruptSource::Vector(236), [ELSEWHERE, 0, 0]);
    let interrupt =
        |start, duration| BoundRecord::Interrupt { source: timer, start_ns: start, duration_ns: duration };
    let windows = |played: &mut Played| -> (Vec<BoundRecord>, Vec<Plain>) {
        let (of_interrupts, of_windows): (Vec<_>, Vec<_>) =
            played.take().into_iter().partition(|record| matches!(record, BoundRecord::Interrupt { .. }));
        (of_interrupts, of_windows.into_iter().filter_map(plain).collect())
    };
    for asks in [false, true] {
        // Where it begins: the reading is taken again, and preemption is off already.
        let mut played = begun(50);
        played.interrupted(1_000, OFF, elsewhere, 500, asks);
        played.event(3_000, (7, false), ON, elsewhere);
        let found = windows(&mut played);
        assert_eq!(found, (vec![interrupt(1_000, 500)], vec![(WindowKind::Poid, 1_500, 3_000, 1_500)]));
        // Where it ends.
        let mut played = begun(50);
        played.event(1_000, (7, false), OFF, elsewhere);
        played.interrupted(3_000, ON, elsewhere, 500, asks);
        played.event(4_100, (7, asks), OFF, [SCHEDULE, 0, 0]);
        let (of_interrupts, of_windows) = windows(&mut played);
        assert_eq!(of_interrupts, [interrupt(3_000, 500)]);
        let mut expected = vec![(WindowKind::Poid, 1_000, 3_500, 2_000)];
        expected.extend(asks.then_some((WindowKind::Paie, 3_500, 4_100, 600)));
        assert_eq!(of_windows, expected);
        // Where one that is not the longest ends.
        let mut played = begun(50_000);
        played.event(101_000, (7, false), OFF, elsewhere);
        played.interrupted(103_000, ON, elsewhere, 500, asks);
        assert_eq!(windows(&mut played), (vec![interrupt(103_000, 500)], vec![]));
        assert_eq!(played.counts().windows, 2);
    }
}

#[test]
fn words_that_make_no_sense_are_said_to_and_taken() {
    let ring: Vec<AtomicU64> = (0..BOUND_RING_TOTAL_WORDS).map(|_| AtomicU64::new(0)).collect();
    for (n, word) in [5, 3, 12 << 12 | 3].into_iter().enumerate() {
        ring[RING_HEAD + n].store(word, Ordering::Relaxed);
    }
    let mut records = Vec::new();
    RingReader::default().take(&ring, usize::MAX, |record| records.push(record));
    assert_eq!(records, [BoundRecord::Senseless, BoundRecord::Senseless, BoundRecord::Senseless]);
}

#[derive(Clone, Copy, Debug)]
struct Step {
    gap: u64,
    tid: i32,
    resched: bool,
    kind: TmKind,
    caller: u64,
    parent: u64,
    arg: u64,
}

/// A vector or a device, as the argument of an event.
fn named(which: u64, number: u64) -> u64 {
    let source = if which == 0 { InterruptSource::Vector } else { InterruptSource::Device };
    source(number as u32).raw()
}

/// Events of a CPU that mostly behaves: pairs that nest, in any depth, with nonsense thrown in.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let callers = prop::sample::select(vec![
        ELSEWHERE,
        ELSEWHERE,
        ELSEWHERE,
        SCHEDULE,
        SCHEDULE_INNER,
        DO_EXIT,
        IRQ_ENTER,
        IRQ_ENTER,
        IRQ_EXIT,
        TELLS,
    ]);
    let parents = prop::sample::select(vec![SYSVEC, SYSVEC, PAGE_FAULT, SCHEDULE_INNER, ELSEWHERE]);
    let kinds = prop::sample::select(vec![
        OFF,
        OFF,
        ON,
        ON,
        IRQS_OFF,
        IRQS_OFF,
        IRQS_OFF,
        IRQS_ON,
        IRQS_ON,
        IRQS_ON,
        ENTRY,
        EXIT,
        NMI,
        SCHED_ENTRY,
        SCHED_EXIT,
        SWITCH,
        WAKING,
        NEED_RESCHED,
    ]);
    let one = (1u64..2_000, any::<bool>(), kinds, callers, parents, 0u64..4).prop_map(
        |(gap, resched, kind, caller, parent, number)| {
            let arg = match kind {
                ENTRY | EXIT => named(number % 2, 230 + number),
                NMI => number * 100,
                NEED_RESCHED => 3,
                _ => number,
            };
            Step { gap, tid: 0, resched, kind, caller, parent, arg }
        },
    );
    (0..3i32, prop::collection::vec(one, 0..300)).prop_map(|(mut current, mut steps)| {
        for step in &mut steps {
            step.tid = current;
            if step.kind == SWITCH {
                current = step.arg as i32;
            }
        }
        steps
    })
}

/// A CPU that follows the rules: sections that nest, interrupts and NMIs wherever they may come, runs of the scheduler.
struct Behaved<'a> {
    choices: &'a mut dyn Iterator<Item = u8>,
    steps: Vec<Step>,
    tid: i32,
    features: ModelFeatures,
}

impl Behaved<'_> {
    fn choose(&mut self, of: u8) -> u8 {
        self.choices.next().unwrap_or(0) % of
    }

    fn event(&mut self, kind: TmKind, caller: u64, parent: u64, arg: u64) {
        let (gap, resched) = (1 + u64::from(self.choose(255)) * 7, self.choose(4) == 0);
        self.steps.push(Step { gap, tid: self.tid, resched, kind, caller, parent, arg });
    }

    fn nmi(&mut self) {
        if self.choose(12) == 0 {
            let took = u64::from(self.choose(200));
            // It ends with its event, and began behind the event before.
            self.event(NMI, 0, 0, 0);
            let last = self.steps.last_mut().unwrap();
            (last.arg, last.gap) = (took, took + 1);
        }
    }

    /// Where interrupts are on.
    fn interrupt(&mut self, one_in: u8) {
        self.nmi();
        if self.choose(one_in) != 0 {
            return;
        }
        self.event(IRQS_OFF, IRQ_ENTER, SYSVEC, 0);
        self.nmi();
        for _ in 0..=self.choose(2) {
            let source = named(u64::from(self.choose(2)), 230 + u64::from(self.choose(3)));
            self.event(ENTRY, 0, 0, source);
            if self.choose(2) == 0 {
                let woken = 1 + u64::from(self.choose(3));
                self.event(WAKING, 0, 0, woken);
            }
            self.event(EXIT, 0, 0, source);
            self.nmi();
        }
        self.event(IRQS_ON, IRQ_EXIT, SYSVEC, 0);
    }

    fn section(&mut self) {
        let (off, on) = ((OFF, IRQS_OFF), (ON, IRQS_ON));
        let (first, second) = if self.choose(2) == 0 { (off.0, off.1) } else { (off.1, off.0) };
        let ends = |kind| if kind == off.0 { on.0 } else { on.1 };
        // Idle's preemption is off anyway.
        let first = if self.tid == 0 { IRQS_OFF } else { first };
        self.event(first, ELSEWHERE, 0, 0);
        if first == OFF {
            self.interrupt(6);
        }
        if self.tid != 0 && self.choose(2) == 0 {
            self.event(second, ELSEWHERE, 0, 0);
            if self.choose(4) == 0 {
                self.event(WAKING, 0, 0, 9);
            }
            self.nmi();
            let inner_first = self.choose(2) == 0;
            let (a, b) = if inner_first { (second, first) } else { (first, second) };
            self.event(ends(a), ELSEWHERE + 8, 0, 0);
            if b == OFF {
                self.interrupt(6);
            }
            self.event(ends(b), ELSEWHERE + 8, 0, 0);
        } else {
            self.event(ends(first), ELSEWHERE + 8, 0, 0);
        }
    }

    fn exception(&mut self) {
        self.event(IRQS_OFF, IRQ_ENTER, PAGE_FAULT, 0);
        self.nmi();
        self.event(IRQS_ON, ELSEWHERE, 0, 0);
    }

    fn schedule(&mut self) {
        // The address of preempt_schedule()'s caller, where nothing is in between.
        let by = if self.features.calls_scheduler && self.choose(2) == 0 { ELSEWHERE } else { SCHEDULE };
        if self.tid != 0 {
            self.event(OFF, by, 0, 0);
            self.interrupt(6);
        }
        if self.features.has_sched_exit {
            self.event(SCHED_ENTRY, 0, 0, 0);
        }
        let (caller, parent) =
            if self.choose(2) == 0 { (SCHEDULE_INNER, 0) } else { (TELLS, SCHEDULE_INNER) };
        self.event(IRQS_OFF, caller, parent, 0);
        self.nmi();
        if self.choose(4) != 0 {
            let next = (self.tid + 1 + i32::from(self.choose(2))) % 3;
            self.event(SWITCH, 0, 0, next as u64);
            self.tid = next;
            self.nmi();
        }
        self.event(IRQS_ON, SCHEDULE_INNER, 0, 0);
        if self.features.has_sched_exit {
            self.event(SCHED_EXIT, 0, 0, 0);
        }
        if self.tid != 0 {
            self.interrupt(6);
            self.event(ON, by, 0, 0);
        }
    }
}

fn behaved(choices: &[u8], features: ModelFeatures) -> Vec<Step> {
    let mut choices = choices.iter().copied().chain(std::iter::repeat_n(0, 64));
    let mut of = Behaved { choices: &mut choices, steps: Vec::new(), tid: 1, features };
    // From here on the state is known.
    of.event(IRQS_OFF, ELSEWHERE, 0, 0);
    of.event(IRQS_ON, ELSEWHERE, 0, 0);
    of.event(OFF, ELSEWHERE, 0, 0);
    of.event(ON, ELSEWHERE, 0, 0);
    while of.choices.size_hint().0 > 64 {
        match of.choose(8) {
            0..3 => of.section(),
            3..5 => of.interrupt(1),
            5 => of.exception(),
            _ => of.schedule(),
        }
    }
    of.steps
}

fn has_caller(kind: TmKind) -> bool {
    [OFF, ON, IRQS_OFF, IRQS_ON].contains(&kind)
}

/// What the glue makes of these events.
fn play(steps: &[Step], features: ModelFeatures) -> Played {
    let mut played = Played::new(features);
    let mut at = 1_000_000;
    for step in steps {
        at += step.gap;
        let caller = if has_caller(step.kind) { step.caller } else { 0 };
        played.event(at, (step.tid, step.resched), step.kind, [caller, step.parent, step.arg]);
    }
    played
}

/// What the plain model says: every window that is longer than those before, and every interrupt.
fn by_the_model(steps: &[Step], features: ModelFeatures) -> (Vec<BoundRecord>, ModelCounts) {
    let classes = classes();
    let mut model = ThreadModel::new(features);
    let mut longest = std::collections::HashMap::new();
    let (mut at, mut records) = (1_000_000, Vec::new());
    for step in steps {
        at += step.gap;
        let source = InterruptSource::from_raw((step.arg >> 32) as u32, step.arg as u32);
        let (class, kind) = match step.kind {
            OFF => (classes.preempt(step.caller), ThreadModelEventKind::PreemptDisable),
            ON => (classes.preempt(step.caller), ThreadModelEventKind::PreemptEnable),
            IRQS_OFF => (classes.irq_off(step.caller, step.parent), ThreadModelEventKind::IrqDisable),
            IRQS_ON => (classes.irq_on(step.caller), ThreadModelEventKind::IrqEnable),
            ENTRY => (CallerClass::Postpones, ThreadModelEventKind::HandlerEntry(source)),
            EXIT => (CallerClass::Postpones, ThreadModelEventKind::HandlerExit(source)),
            NMI => (CallerClass::Postpones, ThreadModelEventKind::Nmi(step.arg)),
            SCHED_ENTRY => (CallerClass::Postpones, ThreadModelEventKind::SchedEntry),
            SCHED_EXIT => (CallerClass::Postpones, ThreadModelEventKind::SchedExit),
            SWITCH => (CallerClass::Postpones, ThreadModelEventKind::Switch(step.arg as i32)),
            WAKING => (CallerClass::Postpones, ThreadModelEventKind::Waking(step.arg as i32)),
            NEED_RESCHED => (CallerClass::Postpones, ThreadModelEventKind::NeedResched),
            TmKind::NmiEntry | TmKind::NmiExit | TmKind::Lost => panic!("{:?} has no place here", step.kind),
        };
        let resched = if step.resched { Resched::GiveWay } else { Resched::Stay };
        let caller = match step.kind {
            IRQS_OFF => classes.who_turns_irqs_off(step.caller, step.parent).0,
            kind if has_caller(kind) => step.caller,
            _ => 0,
        };
        let said = model.step(&ThreadModelEvent { at_ns: at, tid: step.tid, caller, class, resched, kind });
        for window in said.windows() {
            match window.kind {
                WindowKind::Interrupt(source) => records.push(BoundRecord::Interrupt {
                    source,
                    start_ns: window.start_ns,
                    duration_ns: window.duration_ns,
                }),
                kind => {
                    let known = longest.get(&kind).copied();
                    if known.is_none_or(|known| window.duration_ns > known) {
                        longest.insert(kind, window.duration_ns);
                        records.push(BoundRecord::Window(BoundWindow {
                            window,
                            begin_comm: String::new(),
                            end_comm: String::new(),
                        }));
                    }
                }
            }
        }
    }
    (records, model.counts())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// Where the glue does not look at the clock, nothing depends on it as long as the rules are followed, but for the
    /// beginning of idle's PSD: that may be an earlier moment, and the window longer.
    #[test]
    fn the_glue_gives_what_the_model_gives_and_never_less(steps in steps(), has_sched_exit: bool, calls_scheduler: bool) {
        let features = ModelFeatures { has_sched_exit, calls_scheduler };
        let mut played = play(&steps, features);
        let (expected, counts) = by_the_model(&steps, features);
        let longest = |records: &[BoundRecord], kind| records.iter().filter_map(|record| match record {
            BoundRecord::Window(found) if found.window.kind == kind => Some(found.window.duration_ns),
            _ => None,
        }).max();
        let interrupts = |records: &[BoundRecord]| -> Vec<BoundRecord> {
            records.iter().filter(|record| matches!(record, BoundRecord::Interrupt { .. })).cloned().collect()
        };
        let records = played.take();
        let followed = Rule::ALL.into_iter().all(|rule| played.memory.cpu.tm.broken(rule) == 0);
        // Where the kernel broke a rule the result is no bound, and which of its interrupts are still seen is not promised.
        if followed {
            prop_assert_eq!(interrupts(&records), interrupts(&expected));
        }
        for kind in [WindowKind::Poid, WindowKind::Dst, WindowKind::Paie, WindowKind::Psd] {
            let (seen, expected) = (longest(&records, kind), longest(&expected, kind));
            prop_assert!(!followed || seen >= expected, "{:?}: {:?} and {:?}", kind, seen, expected);
            if followed && kind != WindowKind::Psd {
                prop_assert_eq!(seen, expected, "{:?}", kind);
            }
        }
        let mut seen = played.counts();
        // What the glue does not count, or not time.
        (seen.events, seen.idle_longest) = (counts.events, counts.idle_longest);
        if followed {
            prop_assert_eq!(seen, counts);
        }
    }

    /// Everything to the nanosecond, but for idle's PSD as above.
    #[test]
    fn a_cpu_that_follows_the_rules_gives_what_the_model_gives(
        choices in prop::collection::vec(any::<u8>(), 0..2_000),
        has_sched_exit: bool,
        calls_scheduler: bool,
    ) {
        let features = ModelFeatures { has_sched_exit, calls_scheduler };
        let steps = behaved(&choices, features);
        let mut played = play(&steps, features);
        let (expected, counts) = by_the_model(&steps, features);
        let records = played.take();
        prop_assert_eq!(Rule::ALL.into_iter().find(|rule| played.memory.cpu.tm.broken(*rule) != 0), None);
        let plain = |records: &[BoundRecord]| -> Vec<BoundRecord> {
            let nameless = |record: &BoundRecord| match record {
                BoundRecord::Window(found) if found.window.kind != WindowKind::Psd => {
                    let window = found.window;
                    let (begin_comm, end_comm) = (String::new(), String::new());
                    Some(BoundRecord::Window(BoundWindow { window, begin_comm, end_comm }))
                }
                BoundRecord::Window(_) => None,
                other => Some(other.clone()),
            };
            records.iter().filter_map(nameless).collect()
        };
        prop_assert_eq!(plain(&records), plain(&expected));
        let longest = |records: &[BoundRecord]| records.iter().filter_map(|record| match record {
            BoundRecord::Window(found) if found.window.kind == WindowKind::Psd => Some(found.window.duration_ns),
            _ => None,
        }).max();
        prop_assert!(longest(&records) >= longest(&expected));
        let mut seen = played.counts();
        // What the glue does not count, or not time.
        (seen.events, seen.idle_longest) = (counts.events, counts.idle_longest);
        prop_assert_eq!(seen, counts);
    }
}
