// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the callers of preempt and interrupt on/off events are there for, from a kernel's symbols.
//!
//! Owns the names. They are matched as ranges of addresses, so that whatever of a function's code turns something on or
//! off counts; suffixes that compilers add (`.isra.0`, `.part.0`, `.cold`) do not matter. What is not named here
//! postpones the scheduler. The lookup for probes, and which role makes which class, is in `latebound/callers.h`.
//! Names are those of kernels 5.15 to 6.18 on x86_64 and aarch64 (kernel/sched/core.c,
//! kernel/exit.c, kernel/entry/common.c, arch/x86/entry, arch/x86/kernel/irq.c, arch/arm64/kernel/entry-common.c).
//!
//! `schedule_preempt_disabled()` is not one of those that schedule: it enables preemption, calls `schedule()`, and turns
//! preemption off again *behind* it, for a caller that goes on with preemption off.

use std::cell::Cell;

use crate::thread_model::CallerClass;
use crate::wire::{
    CallerRange, CallerRole as Role, LB_CALLER_GRANULES, LB_CALLER_MANY, LB_CALLER_PLAN, LB_CALLER_RANGES,
};

/// A function of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// Its first address.
    pub start: u64,
    /// Its name.
    pub name: &'a str,
}

/// Why a symbol table cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SymbolsError {
    /// It is not sorted.
    #[error("the symbol {name} at {start:#x} lies below the one before it; sort the symbols by address")]
    Unsorted {
        /// The symbol.
        name: String,
        /// Its address.
        start: u64,
    },
    /// The scheduler is not in it.
    #[error(
        "no function __schedule at a real address among the symbols; save /proc/kallsyms as root with kernel.kptr_restrict below 2"
    )]
    NoScheduler,
    /// More functions than a probe has room for.
    #[error(
        "{found} ranges of functions have a role for the bound, and probes have room for {CALLER_RANGES}; report this kernel's version"
    )]
    TooMany {
        /// Ranges.
        found: usize,
    },
}

/// The functions with a role, as probes look them up.
pub use crate::wire::Callers as CallerTable;

const CALLER_RANGES: usize = LB_CALLER_RANGES as usize;
/// In an entry of the filter: functions of several ranges.
const MANY: u16 = LB_CALLER_MANY as u16;
/// Entries of the filter, and the bytes of text that each of them stands for, as a power of two.
const GRANULES: usize = LB_CALLER_GRANULES as usize;
const GRANULE_SHIFT: u32 = 6;
/// Entries of the plan of special callers, and the same of them.
const PLAN: usize = LB_CALLER_PLAN as usize;
const PLAN_SHIFT: u32 = 3;

fn words_to_entries(word: u64) -> [u16; 4] {
    let bytes = word.to_ne_bytes();
    std::array::from_fn(|at| u16::from_ne_bytes([bytes[2 * at], bytes[2 * at + 1]]))
}

fn entries_to_words(entries: [u16; 4]) -> u64 {
    let mut bytes = [0; 8];
    for (two, entry) in bytes.chunks_exact_mut(2).zip(entries) {
        two.copy_from_slice(&entry.to_ne_bytes());
    }
    u64::from_ne_bytes(bytes)
}

impl Role {
    /// Whether a function of this role makes a difference where preemption goes off, or interrupts do: whether
    /// `lb_caller_preempt` or `lb_caller_irq_off` give anything but "postpones".
    fn matters(self) -> [bool; 2] {
        // Its caller has to be looked up.
        if self == Role::Tells {
            return [false, true];
        }
        // SAFETY: pure functions of numbers.
        let classes =
            unsafe { [latebound_caller_preempt(self.raw()), latebound_caller_irq_off(self.raw(), 0)] };
        classes.map(|number| class(number) != CallerClass::Postpones)
    }
}

impl CallerTable {
    /// A table of no functions.
    fn empty() -> Box<CallerTable> {
        let nothing = CallerRange { start: u64::MAX, end: u64::MAX, role: u64::from(Role::None.raw()) };
        let mut table = Box::new(CallerTable::ZERO);
        table.ranges = [nothing; CALLER_RANGES];
        table
    }

    /// The words of the struct, in order.
    pub fn words(&self) -> impl Iterator<Item = u64> + '_ {
        let ranges = self.ranges.iter().flat_map(|range| [range.start, range.end, range.role]);
        self.plan.iter().chain(&self.filter).copied().chain(ranges)
    }

    /// What the plan says of this part of the text: whether preemption going off there is special, and interrupts.
    #[cfg(test)]
    fn special(&self, part: u64) -> [bool; 2] {
        let place = part as usize % PLAN;
        words_to_entries(self.plan[place / 4])[place % 4].to_ne_bytes().map(|byte| byte != 0)
    }
}

/// Changes one of the 16-bit entries that words are made of.
fn change_entry(words: &mut [u64], place: usize, change: impl FnOnce(u16) -> u16) {
    let mut entries = words_to_entries(words[place / 4]);
    entries[place % 4] = change(entries[place % 4]);
    words[place / 4] = entries_to_words(entries);
}

unsafe extern "C" {
    #[cfg(test)]
    fn latebound_caller_role(callers: *const CallerTable, caller: u64) -> u32;
    fn latebound_caller_preempt(role: u32) -> u8;
    fn latebound_caller_irq_off(role: u32, parent: u32) -> u8;
    fn latebound_caller_irq_on(role: u32) -> u8;
}

fn class(number: u8) -> CallerClass {
    CallerClass::from_raw(u32::from(number)).unwrap_or_default()
}

/// What a function's name says of the scheduler or an interrupt's way in and out.
#[derive(Clone, Copy, Debug)]
pub struct CallerRole(Role);

/// Functions with a role, by what is before the first dot of their names.
const NAMES: [(&str, Role); 16] = [
    ("__schedule", Role::Scheduler),
    ("schedule", Role::Schedules),
    ("schedule_idle", Role::Schedules),
    ("schedule_rtlock", Role::Schedules),
    ("schedule_user", Role::Schedules),
    ("__schedule_loop", Role::Schedules),
    ("rt_mutex_schedule", Role::Schedules),
    ("__cond_resched", Role::Schedules),
    ("dynamic_cond_resched", Role::Schedules),
    ("el1_preemption", Role::Schedules),
    ("do_exit", Role::MaySchedule),
    ("do_task_dead", Role::MaySchedule),
    ("make_task_dead", Role::MaySchedule),
    ("schedule_preempt_disabled", Role::MaySchedule),
    ("trace_hardirqs_off", Role::Tells),
    ("trace_hardirqs_off_finish", Role::Tells),
];

/// The same by what their names begin with, where the whole name says nothing; the first that fits counts.
const BEGINNINGS: [(&str, Role); 29] = [
    ("preempt_schedule", Role::Schedules),
    ("dynamic_preempt_schedule", Role::Schedules),
    ("arm64_preempt_schedule", Role::Schedules),
    ("__preempt_schedule", Role::Schedules),
    ("irqentry_exit", Role::Exit),
    ("arm64_exit_to_", Role::Exit),
    ("exit_to_kernel_mode", Role::Exit),
    ("__exit_to_kernel_mode", Role::Exit),
    ("irqentry_enter", Role::Entry),
    ("sysvec_", Role::Entry),
    ("__sysvec_", Role::Entry),
    ("common_interrupt", Role::Entry),
    ("__common_interrupt", Role::Entry),
    ("spurious_interrupt", Role::Entry),
    ("fred_extint", Role::Entry),
    ("enter_from_kernel_mode", Role::Entry),
    ("__enter_from_kernel_mode", Role::Entry),
    ("enter_from_user_mode", Role::Entry),
    ("arm64_enter_from_", Role::Entry),
    ("el1_interrupt", Role::Entry),
    ("el0_interrupt", Role::Entry),
    ("__el1_irq", Role::Entry),
    ("__el0_irq", Role::Entry),
    ("exc_", Role::Exception),
    ("el0_", Role::Exception),
    ("el1_", Role::Exception),
    ("el0t_", Role::Exception),
    ("el1h_", Role::Exception),
    ("el1t_", Role::Exception),
];

/// Names that begin with this and end with one of these are those of interrupts, whatever else they begin with.
const HANDLER: (&str, [&str; 2]) = ("el", ["_irq_handler", "_fiq_handler"]);

fn role(name: &str) -> Option<Role> {
    let name = name.split('.').next().unwrap_or(name);
    let of = |(_, role): &(_, Role)| *role;
    let whole = NAMES.iter().find(|(whole, _)| *whole == name);
    whole.map(of).or_else(|| {
        let is_handler = name.starts_with(HANDLER.0) && HANDLER.1.iter().any(|end| name.ends_with(end));
        let begin = BEGINNINGS.iter().find(|(begin, _)| name.starts_with(begin));
        if is_handler { Some(Role::Entry) } else { begin.map(of) }
    })
}

/// What the name of every function with a role begins with.
fn beginnings() -> Vec<&'static str> {
    NAMES.iter().chain(&BEGINNINGS).map(|(begin, _)| *begin).chain([HANDLER.0]).collect()
}

#[derive(Clone, Debug)]
struct Range {
    start: u64,
    end: u64,
    role: Role,
}

/// The classes of a kernel's addresses.
#[derive(Clone, Debug)]
pub struct CallerClasses {
    ranges: Vec<Range>,
    calls_scheduler: bool,
}

/// Calls `preempt_schedule()` for code that turns preemption on (arch/x86/entry/thunk.S): kernels that have it do not call it themselves.
const SCHEDULES_FOR_OTHERS: &str = "preempt_schedule_thunk";
/// Calls the scheduler where preemption goes on; kernels that are not preemptible have no such function.
const PREEMPT_SCHEDULE: &str = "preempt_schedule";

/// Which of the two functions were among the symbols.
#[derive(Debug, Default)]
struct WaysToSchedule {
    for_others: Cell<bool>,
    by_itself: Cell<bool>,
}

impl WaysToSchedule {
    fn see(&self, name: &str) {
        if name.starts_with(SCHEDULES_FOR_OTHERS) {
            self.for_others.set(true);
        } else if name == PREEMPT_SCHEDULE {
            self.by_itself.set(true);
        }
    }

    fn calls_scheduler(&self) -> bool {
        self.by_itself.get() && !self.for_others.get()
    }
}

impl CallerClasses {
    /// From the kernel's functions in ascending order of address. A function ends where the next one begins.
    pub fn from_symbols<'a>(
        symbols: impl IntoIterator<Item = Symbol<'a>>,
    ) -> Result<CallerClasses, SymbolsError> {
        let mut ranges: Vec<Range> = Vec::new();
        let ways = WaysToSchedule::default();
        let mut at = 0;
        // The function that began at `at`, where it has a role.
        let mut open: Option<Role> = None;
        for Symbol { start, name } in symbols {
            if start < at {
                return Err(SymbolsError::Unsorted { name: name.to_owned(), start });
            }
            if start > at {
                ranges.extend(open.take().map(|role| Range { start: at, end: start, role }));
                at = start;
            }
            ways.see(name);
            // Of several names for one address the one with a role decides.
            open = role(name).or(open);
        }
        ranges.extend(open.map(|role| Range { start: at, end: u64::MAX, role }));
        CallerClasses::new(ranges, &ways)
    }

    /// From a table that can be asked once for the ranges `[start, end)` of the functions whose names have a role; it is
    /// told with what such names begin.
    pub fn from_ranges(
        ranges_of: impl FnOnce(
            &[&'static str],
            &dyn Fn(&str) -> Option<CallerRole>,
        ) -> Vec<(u64, u64, CallerRole)>,
    ) -> Result<CallerClasses, SymbolsError> {
        let ways = WaysToSchedule::default();
        let found = ranges_of(&beginnings(), &|name| {
            ways.see(name);
            role(name).map(CallerRole)
        });
        let range = |(start, end, CallerRole(role))| Range { start, end, role };
        let mut ranges: Vec<Range> = found.into_iter().map(range).collect();
        // Of several names for one address the last role decides, whatever the order of the names.
        ranges.sort_by_key(|range| (range.start, range.role));
        CallerClasses::new(ranges, &ways)
    }

    fn new(mut ranges: Vec<Range>, ways: &WaysToSchedule) -> Result<CallerClasses, SymbolsError> {
        // The kernel shows every address as 0 to those who may not see them.
        ranges.retain(|range| range.start != 0);
        if ranges.iter().any(|range| range.role == Role::Scheduler) {
            Ok(CallerClasses { ranges, calls_scheduler: ways.calls_scheduler() })
        } else {
            Err(SymbolsError::NoScheduler)
        }
    }

    /// Whether the kernel's code calls `preempt_schedule()` itself wherever it turns preemption on, as on arm64: what turns preemption off to
    /// schedule then has the address of that place, and is known by the scheduler alone that follows.
    pub fn calls_scheduler(&self) -> bool {
        self.calls_scheduler
    }

    /// The table for a probe.
    pub fn table(&self) -> Result<Box<CallerTable>, SymbolsError> {
        let mut merged: Vec<Range> = Vec::new();
        for range in &self.ranges {
            match merged.last_mut() {
                Some(last) if last.end == range.start && last.role == range.role => last.end = range.end,
                _ => merged.push(range.clone()),
            }
        }
        if merged.len() > CALLER_RANGES {
            return Err(SymbolsError::TooMany { found: merged.len() });
        }
        let mut table = CallerTable::empty();
        for (number, (at, range)) in (1u16..).zip(merged.iter().enumerate()) {
            table.ranges[at] =
                CallerRange { start: range.start, end: range.end, role: u64::from(range.role.raw()) };
            // Return addresses: behind the first byte, and the one behind the last.
            let parts = |shift: u32| (range.start + 1) >> shift..=range.end >> shift;
            for granule in parts(GRANULE_SHIFT).take(GRANULES) {
                let place = granule as usize % GRANULES;
                change_entry(&mut table.filter, place, |entry| if entry == 0 { number } else { MANY });
            }
            let matters = u16::from_ne_bytes(range.role.matters().map(u8::from));
            for part in parts(PLAN_SHIFT).take(PLAN) {
                change_entry(&mut table.plan, part as usize % PLAN, |entry| entry | matters);
            }
        }
        Ok(table)
    }

    /// The role of the function that an address lies in, as a number; 0 for none.
    fn role(&self, address: u64) -> u32 {
        // A return address may be the first of the next function, where a call is the last that a function does.
        let found = address.checked_sub(1).and_then(|address| {
            let place = self.ranges.partition_point(|range| range.start <= address).checked_sub(1)?;
            let range = &self.ranges[place];
            (address < range.end).then_some(range.role)
        });
        found.unwrap_or(Role::None).raw()
    }

    /// The class of a caller that turns preemption off or on.
    pub fn preempt(&self, caller: u64) -> CallerClass {
        // SAFETY: a pure function of a number.
        class(unsafe { latebound_caller_preempt(self.role(caller)) })
    }

    /// Who turns interrupts off, and that one's own caller: what the event says, or, where that is a function that only tells of it, its caller
    /// and nobody.
    pub fn who_turns_irqs_off(&self, caller: u64, parent: u64) -> (u64, u64) {
        if self.role(caller) == Role::Tells.raw() { (parent, 0) } else { (caller, parent) }
    }

    /// The class of a caller that turns interrupts off; the caller's own caller tells exceptions from interrupts.
    pub fn irq_off(&self, caller: u64, parent: u64) -> CallerClass {
        let (caller, parent) = self.who_turns_irqs_off(caller, parent);
        let role = self.role(caller);
        let parent = if role == Role::Entry.raw() { self.role(parent) } else { Role::None.raw() };
        // SAFETY: a pure function of two numbers.
        class(unsafe { latebound_caller_irq_off(role, parent) })
    }

    /// The class of a caller that turns interrupts on.
    pub fn irq_on(&self, caller: u64) -> CallerClass {
        // SAFETY: a pure function of a number.
        class(unsafe { latebound_caller_irq_on(self.role(caller)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes() -> CallerClasses {
        CallerClasses::from_symbols(
            [
                (0x1000, "__schedule"),
                (0x1100, "schedule"),
                (0x1200, "schedule_preempt_disabled"),
                (0x1300, "preempt_schedule_irq"),
                (0x1400, "vfs_write"),
                (0x1500, "irqentry_enter"),
                (0x1500, "an_alias"),
                (0x1600, "irqentry_exit"),
                (0x1700, "exc_page_fault"),
                (0x1800, "sysvec_apic_timer_interrupt"),
                (0x1900, "schedule_tail"),
                (0x1a00, "__schedule.cold"),
                (0x1b00, "trace_hardirqs_off"),
                (0x1c00, "end"),
            ]
            .map(|(start, name)| Symbol { start, name }),
        )
        .unwrap()
    }

    #[test]
    fn who_only_tells_that_interrupts_are_off_stands_for_its_caller() {
        let classes = classes();
        assert_eq!(classes.irq_off(0x1b60, 0x1010), CallerClass::Scheduler);
        assert_eq!(classes.irq_off(0x1b60, 0x1510), CallerClass::Hardware);
        assert_eq!(classes.irq_off(0x1b60, 0x1403), CallerClass::Postpones);
        assert_eq!(classes.who_turns_irqs_off(0x1b60, 0x1010), (0x1010, 0));
        assert_eq!(classes.who_turns_irqs_off(0x1510, 0x1810), (0x1510, 0x1810));
        assert!(classes.table().unwrap().special(0x1b60 >> PLAN_SHIFT)[1], "probes look its caller up");
    }

    #[test]
    fn a_kernel_calls_the_scheduler_itself_where_nothing_does_it_for_others() {
        let calls = |names: &[&'static str]| {
            let symbols = (0x1000..).step_by(0x100).zip([&["__schedule"], names].concat());
            let symbols = symbols.map(|(start, name)| Symbol { start, name });
            CallerClasses::from_symbols(symbols).unwrap().calls_scheduler()
        };
        assert!(calls(&["preempt_schedule", "preempt_schedule_irq"]));
        assert!(!calls(&["preempt_schedule", "preempt_schedule_thunk"]));
        assert!(!calls(&["schedule"]), "a kernel that is not preemptible");
    }

    #[test]
    fn to_schedule_is_told_from_to_postpone_by_address() {
        let classes = classes();
        assert_eq!(classes.preempt(0x1127), CallerClass::Schedules);
        assert_eq!(classes.preempt(0x1334), CallerClass::Schedules);
        assert_eq!(classes.preempt(0x1210), CallerClass::MaySchedule);
        assert_eq!(classes.preempt(0x1403), CallerClass::Postpones);
        assert_eq!(classes.preempt(0x1910), CallerClass::Postpones, "schedule_tail only enables");
        assert_eq!(classes.preempt(0x10), CallerClass::Postpones);
        assert_eq!(classes.preempt(0), CallerClass::Postpones);
        assert_eq!(classes.preempt(0x1200), CallerClass::Schedules, "a return address behind the last call");
    }

    #[test]
    fn interrupts_masked_by_hardware_are_told_from_those_masked_by_software() {
        let classes = classes();
        assert_eq!(classes.irq_off(0x1524, 0x1813), CallerClass::Hardware);
        assert_eq!(classes.irq_off(0x1524, 0x1741), CallerClass::Postpones, "a page fault");
        assert_eq!(
            classes.irq_off(0x1619, 0x1813),
            CallerClass::Postpones,
            "the way out masks for the thread"
        );
        assert_eq!(classes.irq_off(0x1050, 0x1127), CallerClass::Scheduler);
        assert_eq!(classes.irq_off(0x1a50, 0x1127), CallerClass::Scheduler, "a part that was moved away");
        assert_eq!(classes.irq_on(0x1640), CallerClass::Hardware);
        assert_eq!(classes.irq_on(0x1339), CallerClass::Schedules);
        assert_eq!(classes.irq_on(0x1403), CallerClass::Postpones);
    }

    #[test]
    fn a_symbol_table_without_use_is_refused() {
        let table = |symbols: &[(u64, &'static str)]| {
            let symbols: Vec<_> = symbols.iter().map(|&(start, name)| Symbol { start, name }).collect();
            CallerClasses::from_symbols(symbols).map(|_| ()).unwrap_err().to_string()
        };
        assert!(table(&[(0, "__schedule"), (0, "schedule")]).contains("kptr_restrict"));
        assert!(table(&[]).contains("kptr_restrict"));
        assert!(table(&[(5, "__schedule"), (4, "schedule")]).contains("sort"));
    }

    #[test]
    fn functions_that_share_a_byte_of_the_filter_keep_their_roles() {
        // A mebibyte apart, and next to each other within 64 bytes.
        let names = [
            (0x1000, "__schedule"),
            (0x1100, "vfs_write"),
            (0x10_1000, "schedule"),
            (0x10_1020, "do_exit"),
            (0x10_1090, "irqentry_enter"),
            (0x10_10d0, "vfs_read"),
            (0x10_1200, "end"),
        ];
        let classes = CallerClasses::from_symbols(names.map(|(start, name)| Symbol { start, name })).unwrap();
        let table = classes.table().unwrap();
        for address in (0xf00..0x1200u64).chain(0x10_0f00..0x10_1200).chain(0x20_0f00..0x20_1200) {
            // SAFETY: the table is a live struct of the layout that the header gives.
            let role = unsafe { latebound_caller_role(&*table, address) };
            assert_eq!(role, classes.role(address), "{address:#x}");
        }
    }

    #[test]
    fn the_plan_holds_every_special_caller_and_tells_its_neighbours_apart() {
        let classes = classes();
        let table = classes.table().unwrap();
        for address in 0xf00..0x1d00u64 {
            let [preempt, irq_off] = table.special(address >> PLAN_SHIFT);
            assert!(preempt || classes.preempt(address) == CallerClass::Postpones, "{address:#x}");
            assert!(irq_off || classes.irq_off(address, 0) == CallerClass::Postpones, "{address:#x}");
        }
        // A call that is the last of a function returns to the first byte behind it; eight bytes on, nothing is left of it.
        assert_eq!(
            [0x1400 >> 3, 0x1408 >> 3].map(|part| table.special(part)),
            [[true, false], [false, false]]
        );
        assert_eq!([0x1100 >> 3, 0x1108 >> 3].map(|part| table.special(part)), [[true, true], [true, false]]);
    }

    #[test]
    fn the_table_for_probes_gives_every_address_the_same_role() {
        let classes = classes();
        let table = classes.table().unwrap();
        for address in 0xf00..0x1d00u64 {
            // SAFETY: the table is a live struct of the layout that the header gives.
            let role = unsafe { latebound_caller_role(&*table, address) };
            assert_eq!(role, classes.role(address), "{address:#x}");
        }
    }

    #[test]
    fn the_running_kernels_functions_fit_the_table() {
        let Ok(text) = std::fs::read_to_string("/proc/kallsyms") else { return };
        let mut symbols: Vec<(u64, &str)> = text
            .lines()
            .filter_map(|line| {
                let mut words = line.split_ascii_whitespace();
                let start = u64::from_str_radix(words.next()?, 16).ok()?;
                let kind = words.next()?;
                matches!(kind, "t" | "T").then_some((start, words.next()?))
            })
            .collect();
        symbols.sort_unstable();
        let symbols = symbols.into_iter().map(|(start, name)| Symbol { start, name });
        match CallerClasses::from_symbols(symbols) {
            Ok(classes) => assert!(classes.table().is_ok()),
            // Addresses are hidden from those who are not root.
            Err(error) => assert_eq!(error, SymbolsError::NoScheduler),
        }
    }

    #[test]
    fn more_ranges_than_a_probe_has_room_for_are_refused() {
        let names: Vec<(u64, String)> = (0..600).map(|n| (0x1000 + n * 16, format!("exc_{n}"))).collect();
        let between = |n: usize| if n.is_multiple_of(2) { "__schedule" } else { "vfs_write" };
        let symbols = names.iter().enumerate().map(|(n, &(start, _))| Symbol { start, name: between(n) });
        let error = CallerClasses::from_symbols(symbols).unwrap().table().unwrap_err();
        assert_eq!(error, SymbolsError::TooMany { found: 300 });
    }
}
