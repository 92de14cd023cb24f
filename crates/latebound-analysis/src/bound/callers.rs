// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the callers of preempt and interrupt on/off events are there for, from a kernel's symbols.
//!
//! Owns the names. They are matched as ranges of addresses, so that whatever of a function's code turns something on or
//! off counts; suffixes that compilers add (`.isra.0`, `.part.0`, `.cold`) do not matter. What is not named here
//! postpones the scheduler. Names are those of kernels 5.15 to 6.18 on x86_64 and aarch64 (kernel/sched/core.c,
//! kernel/exit.c, kernel/entry/common.c, arch/x86/entry, arch/x86/kernel/irq.c, arch/arm64/kernel/entry-common.c).
//!
//! `schedule_preempt_disabled()` is not one of those that schedule: it enables preemption, calls `schedule()`, and turns
//! preemption off again *behind* it, for a caller that goes on with preemption off.

use latebound_abi::CallerClass;

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
}

/// What a function does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// `__schedule()`.
    Scheduler,
    /// Turns preemption off to call the scheduler.
    Schedules,
    /// May call the scheduler with preemption off for another reason.
    MaySchedule,
    /// The way into an interrupt or exception: hardware has masked interrupts.
    Entry,
    /// The way out. It turns interrupts off as well, for the thread that it goes back to: that postpones.
    Exit,
    /// The way into what is an exception for certain.
    Exception,
}

impl Role {
    const ALL: [Role; 6] =
        [Role::Scheduler, Role::Schedules, Role::MaySchedule, Role::Entry, Role::Exit, Role::Exception];
}

fn role(name: &str) -> Option<Role> {
    let name = name.split('.').next().unwrap_or(name);
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    Some(match name {
        "__schedule" => Role::Scheduler,
        "schedule"
        | "schedule_idle"
        | "schedule_rtlock"
        | "schedule_user"
        | "__schedule_loop"
        | "rt_mutex_schedule"
        | "__cond_resched"
        | "dynamic_cond_resched"
        | "el1_preemption" => Role::Schedules,
        "do_exit" | "do_task_dead" | "make_task_dead" | "schedule_preempt_disabled" => Role::MaySchedule,
        _ if starts(&[
            "preempt_schedule",
            "dynamic_preempt_schedule",
            "arm64_preempt_schedule",
            "__preempt_schedule",
        ]) =>
        {
            Role::Schedules
        }
        _ if starts(&["irqentry_exit", "arm64_exit_to_", "exit_to_kernel_mode", "__exit_to_kernel_mode"]) => {
            Role::Exit
        }
        _ if starts(&[
            "irqentry_enter",
            "sysvec_",
            "__sysvec_",
            "common_interrupt",
            "__common_interrupt",
            "spurious_interrupt",
            "fred_extint",
            "enter_from_kernel_mode",
            "__enter_from_kernel_mode",
            "enter_from_user_mode",
            "arm64_enter_from_",
            "el1_interrupt",
            "el0_interrupt",
            "__el1_irq",
            "__el0_irq",
        ]) || (name.starts_with("el")
            && (name.ends_with("_irq_handler") || name.ends_with("_fiq_handler"))) =>
        {
            Role::Entry
        }
        _ if starts(&["exc_", "el0_", "el1_", "el0t_", "el1h_", "el1t_"]) => Role::Exception,
        _ => return None,
    })
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
}

impl CallerClasses {
    /// From the kernel's functions in ascending order of address. A function ends where the next one begins.
    pub fn from_symbols<'a>(
        symbols: impl IntoIterator<Item = Symbol<'a>>,
    ) -> Result<CallerClasses, SymbolsError> {
        let mut ranges: Vec<Range> = Vec::new();
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
            // Of several names for one address the one with a role decides.
            open = role(name).or(open);
        }
        ranges.extend(open.map(|role| Range { start: at, end: u64::MAX, role }));
        CallerClasses::new(ranges)
    }

    /// From a table that can be asked for the ranges `[start, end)` of the functions whose names are wanted.
    pub fn from_ranges(
        mut ranges_of: impl FnMut(&dyn Fn(&str) -> bool) -> Vec<(u64, u64)>,
    ) -> Result<CallerClasses, SymbolsError> {
        let mut ranges = Vec::new();
        for wanted in Role::ALL {
            let found = ranges_of(&|name| role(name) == Some(wanted));
            ranges.extend(found.into_iter().map(|(start, end)| Range { start, end, role: wanted }));
        }
        ranges.sort_by_key(|range| range.start);
        CallerClasses::new(ranges)
    }

    fn new(mut ranges: Vec<Range>) -> Result<CallerClasses, SymbolsError> {
        // The kernel shows every address as 0 to those who may not see them.
        ranges.retain(|range| range.start != 0);
        if ranges.iter().any(|range| range.role == Role::Scheduler) {
            Ok(CallerClasses { ranges })
        } else {
            Err(SymbolsError::NoScheduler)
        }
    }

    fn role(&self, address: u64) -> Option<Role> {
        // A return address may be the first of the next function, where a call is the last that a function does.
        let address = address.checked_sub(1)?;
        let place = self.ranges.partition_point(|range| range.start <= address).checked_sub(1)?;
        let range = &self.ranges[place];
        (address < range.end).then_some(range.role)
    }

    /// The class of a caller that turns preemption off or on.
    pub fn preempt(&self, caller: u64) -> CallerClass {
        match self.role(caller) {
            Some(Role::Schedules) => CallerClass::Schedules,
            Some(Role::MaySchedule) => CallerClass::MaySchedule,
            _ => CallerClass::Postpones,
        }
    }

    /// The class of a caller that turns interrupts off; the caller's own caller tells exceptions from interrupts.
    /// An exception is the thread's own doing: it postpones.
    pub fn irq_off(&self, caller: u64, parent: u64) -> CallerClass {
        match self.role(caller) {
            Some(Role::Scheduler) => CallerClass::Scheduler,
            Some(Role::Entry) if self.role(parent) != Some(Role::Exception) => CallerClass::Hardware,
            _ => CallerClass::Postpones,
        }
    }

    /// The class of a caller that turns interrupts on.
    pub fn irq_on(&self, caller: u64) -> CallerClass {
        match self.role(caller) {
            Some(Role::Entry | Role::Exit) => CallerClass::Hardware,
            Some(Role::Schedules) => CallerClass::Schedules,
            Some(Role::Scheduler) => CallerClass::Scheduler,
            _ => CallerClass::Postpones,
        }
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
                (0x1b00, "end"),
            ]
            .map(|(start, name)| Symbol { start, name }),
        )
        .unwrap()
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
}
