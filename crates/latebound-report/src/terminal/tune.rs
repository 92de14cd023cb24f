// SPDX-License-Identifier: MIT OR Apache-2.0
//! The documents of `tune` as text. Owns their words; what they hold is for `latebound-tune`.

use std::fmt::Write;

use latebound_model::{Nanos, Tid};
use latebound_tune::document::{JournalAccount, TuneFit, TuneMap, TuneRecord, TuneRun, TuneUndo, Waiter};
use latebound_tune::trial::{Trial, TunerAccount};
use latebound_tune::{PageShares, ThreadClass};

use super::{Style, comparison};
use crate::text::{grouped, loss_text, printable, shell_words};

/// A thread or task by name and id.
pub(crate) fn who(tid: Tid, comm: Option<&str>) -> String {
    comm.map_or_else(|| format!("thread {tid}"), |comm| format!("{} ({tid})", printable(comm)))
}

fn list(text: &mut String, waiters: &[Waiter]) {
    for waiter in waiters {
        let name = who(waiter.tid, waiter.comm.as_deref());
        let Waiter { priority, times, over, hard, .. } = waiter;
        let _ = write!(text, "    {name:<28} priority {priority:>2}  {:<15} {times:>8} times", over.name());
        if *hard > 0 {
            let _ = write!(text, ", blocked {hard} times");
        }
        text.push('\n');
    }
}

/// Who waited for which kernel thread, for people.
pub fn tune_map(map: &TuneMap) -> String {
    let mut text = String::new();
    if map.threads.is_empty() {
        let _ = writeln!(
            text,
            "No kernel thread was seen that a real-time task waited for, in {}.",
            map.duration
        );
    } else {
        let _ = writeln!(text, "Kernel threads that real-time tasks waited for, in {}:", map.duration);
    }
    for thread in &map.threads {
        let name = who(thread.tid, Some(&thread.comm));
        let change = match thread.by_policy == thread.runs_at {
            true => "as the policy wants it".to_owned(),
            false => format!("the policy wanted {} at most", thread.by_policy),
        };
        let _ = writeln!(text, "\n  {name}: runs at {}, {change}", thread.runs_at);
        list(&mut text, &thread.waiters);
        if let Some(waits) = thread.waits.as_ref().filter(|waits| waits.number > 0) {
            let _ = write!(
                text,
                "    was ready and did not run {} times, {} in all, {} at most",
                waits.number, waits.total, waits.longest
            );
            if waits.inversions > 0 {
                let by = waits.longest_inversion_by.as_deref().unwrap_or("another");
                let _ = write!(
                    text,
                    ";\n    {} of them behind a thread below priority {}, {} in all, {} at most ({})",
                    waits.inversions,
                    waits.inversions_below,
                    waits.inversions_total,
                    waits.longest_inversion,
                    printable(by)
                );
            }
            text.push('\n');
        }
        if thread.class == ThreadClass::Kswapd {
            let _ = match thread.pages {
                Some((of_tasks, all)) => writeln!(
                    text,
                    "    {} KiB of the {} KiB that can be reclaimed belong to the cgroups of these tasks",
                    of_tasks / 1024,
                    all / 1024
                ),
                None => writeln!(
                    text,
                    "    these tasks have no memory cgroup of their own, so that all pages count as theirs"
                ),
            };
        }
        if let Some(held) = &thread.held {
            let _ = writeln!(text, "    held: {held}");
        }
    }
    for (title, waiters) in [
        ("Served by a softirq on top of other threads: no thread to tune", &map.softirq),
        ("Served by an interrupt: no thread to tune", &map.interrupt),
        ("Served by user tasks", &map.task),
    ] {
        if !waiters.is_empty() {
            let _ = writeln!(text, "\n{title}:");
            list(&mut text, waiters);
        }
    }
    let open: Vec<String> = map.open.iter().map(|(kind, count)| format!("{} {count}", kind.name())).collect();
    if !open.is_empty() {
        let _ = writeln!(text, "\nNot done at the end: {}", open.join(", "));
    }
    if map.expired > 0 {
        let _ = writeln!(text, "Waits given up after a minute without an end: {}", map.expired);
    }
    if map.forgotten > 0 {
        let _ = writeln!(
            text,
            "Not shown, because the number of accounts is bounded: {} pairs of a kernel thread and a task",
            map.forgotten
        );
    }
    for loss in &map.losses {
        let count = loss.count.map_or_else(|| "unknown".to_owned(), |count| count.to_string());
        let _ = writeln!(text, "Lost: {} ({}): {count}", loss.place, loss.kind.name());
    }
    for missing in &map.missing {
        let _ = writeln!(text, "Not seen: {missing}");
    }
    text
}

/// The account of `tune run` for people.
pub fn tune_run(document: &TuneRun) -> String {
    let mut text = String::new();
    for change in &document.first_changes {
        let name = who(change.tid, change.comm.as_deref());
        let _ = write!(text, "{:>10}  {name:<28} {} -> {}", change.at.to_string(), change.from, change.to);
        match change.highest {
            Some(highest) => {
                let _ = write!(text, "  ({} waiting, highest {highest})", change.waiters);
            }
            None if change.to.rank() > change.from.rank() => text.push_str("  (it wakes the tuner)"),
            None => text.push_str("  (nobody waits)"),
        }
        if let Some(by) = &change.by_module {
            let _ = write!(text, "  by the module, {} after the wait began", by.reaction);
        }
        if let Some(error) = &change.error {
            let _ = write!(text, "  not made: {error}");
        }
        text.push('\n');
    }
    let kept = document.first_changes.len() as u64;
    if document.changes > kept {
        let _ = writeln!(text, "… and {} more", document.changes - kept);
    }
    let verb = if document.dry_run { "would have been made" } else { "made" };
    let _ = writeln!(text, "\n{} changes {verb}, {} failed.", document.changes, document.failed);
    if let (Some(median), Some(worst)) = (document.reaction_median, document.reaction_max) {
        let _ = writeln!(
            text,
            "From a wait to the priority that follows, by the daemon: median {median}, worst {worst}, n {}.",
            document.reactions
        );
    }
    if let Some(overruns @ 1..) = document.overruns {
        let _ = writeln!(
            text,
            "The reservation of processor time was used up {overruns} times: changes waited for the next period. Give a larger \
             `runtime` in [daemon]."
        );
    }
    if let Some(by) = &document.by_module {
        let _ = write!(text, "By the module: {} raised", by.raised);
        if let (Some(median), Some(p99), Some(worst)) = (by.reaction_median, by.reaction_p99, by.reaction_max)
        {
            let n = by.reactions;
            let _ = write!(
                text,
                ", from a wait to the priority median {median}, p99 {p99}, worst {worst}, n {n}"
            );
        }
        for (count, what) in [
            (by.failed, "failed"),
            (by.needless, "as high already"),
            (by.records_lost, "not reported for want of room"),
            (by.refused, "threads that it does not take"),
        ] {
            if count > 0 {
                let _ = write!(text, "; {count} {what}");
            }
        }
        text.push_str(".\n");
    }
    if let (Some(restored), Some(untouched), Some(gone)) =
        (document.restored, document.untouched, document.gone)
    {
        let _ = writeln!(
            text,
            "Given back at the end: {restored}; {untouched} were as before already, {gone} threads are gone."
        );
    }
    for left in &document.left {
        let _ = writeln!(text, "Not as before: {left}");
    }
    text.push('\n');
    text + &tune_map(&document.map)
}

/// The policies of `tune fit` and the weights found, for people.
pub fn tune_fit(document: &TuneFit) -> String {
    let mut text = String::new();
    match &document.agreement {
        Some(found) => {
            let _ = writeln!(
                text,
                "The simulation beside what was recorded, with the policy off: median error {} ({:.1} %), worst {}; n {}, \
                 {} did not end.",
                found.median_error,
                found.share * 100.0,
                found.worst_error,
                found.compared,
                found.unfinished
            );
        }
        None => text.push_str(
            "No recorded response times: nothing says how far the simulation is from the system.\n",
        ),
    }
    let _ = writeln!(
        text,
        "\n  {:<16} {:<18} {:>9} {:>9} {:>9} {:>7} {:>10}",
        "policy", "task", "worst", "p99", "mean", "n", "unfinished"
    );
    for policy in &document.policies {
        // Who only starts kernel threads takes no time, and nothing is to be said of it.
        for task in policy.tasks.iter().filter(|task| task.max != Some(Nanos::ZERO)) {
            let time = |time: Option<Nanos>| time.map_or_else(|| "-".to_owned(), |time| time.to_string());
            let _ = writeln!(
                text,
                "  {:<16} {:<18} {:>9} {:>9} {:>9} {:>7} {:>10}",
                policy.policy,
                printable(&task.name),
                time(task.max),
                time(task.p99),
                time(task.mean),
                task.n,
                task.unfinished
            );
        }
    }
    let how = if document.exhaustive { "every combination tried" } else { "one at a time until none helped" };
    let _ = writeln!(text, "\nWeights found ({} simulations, {how}):", document.simulations);
    for (name, weight) in document.weights.iter().filter(|(name, _)| document.searched.contains(name)) {
        let _ = writeln!(text, "  {:<18} {weight}", printable(name));
    }
    if !document.within_loss {
        text.push_str("No weights keep the loss allowed; these come nearest. Allow more with --loss.\n");
    }
    text
}

/// A trial for people.
pub fn trial(trial: &Trial, style: &Style) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "  {:<17} {:<22} {:>9} {:>10} {:>10} {:>10} {:>10}",
        "policy", "task (priority)", "n", "p50", "p99", "p99.9", "max"
    );
    for policy in &trial.policies {
        for task in &policy.tasks {
            let time = |value: Option<Nanos>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
            let other = if task.other { ", other" } else { "" };
            let name = format!("{} ({}{other})", printable(&task.name), task.priority);
            let h = &task.responses;
            let _ = writeln!(
                text,
                "  {:<17} {name:<22} {:>9} {:>10} {:>10} {:>10} {:>10}",
                policy.policy.name(),
                grouped(h.count()),
                time(h.quantile(0.5)),
                time(h.quantile(0.99)),
                time(h.quantile(0.999)),
                time(h.max())
            );
        }
    }
    for policy in trial.policies.iter().filter(|policy| !policy.tuned.is_empty()) {
        let sum = |of: fn(&TunerAccount) -> u64| policy.tuned.iter().map(of).fold(0, u64::saturating_add);
        let medians: Vec<Nanos> = policy.tuned.iter().filter_map(|one| one.reaction_median).collect();
        let range = match (medians.iter().min(), medians.iter().max()) {
            (Some(lowest), Some(highest)) => {
                format!(
                    "; from wait to priority {lowest} to {highest} (medians of the rounds, n {})",
                    sum(|one| one.reactions)
                )
            }
            _ => String::new(),
        };
        let _ = writeln!(
            text,
            "\n  {}: {} changes of priority in {} rounds, {} failed{range}",
            policy.policy.name(),
            grouped(sum(|one| one.changes)),
            policy.rounds,
            sum(|one| one.failed)
        );
        let medians: Vec<Nanos> = policy.tuned.iter().filter_map(|one| one.poll_median).collect();
        if let (Some(lowest), Some(highest), Some(max)) = (
            medians.iter().min(),
            medians.iter().max(),
            policy.tuned.iter().filter_map(|one| one.poll_max).max(),
        ) {
            let _ = writeln!(
                text,
                "  {} poll passes of the tuner took {lowest} to {highest} of processor time (medians of the rounds), {max} at most",
                grouped(sum(|one| one.polls))
            );
        }
        text.push_str(&page_shares(&policy.tuned));
        for left in policy.tuned.iter().flat_map(|one| &one.left) {
            let _ = writeln!(text, "  Not as before: {left}");
        }
    }
    for policy in &trial.policies {
        // A task that computes or reads without pause is always in one; only those that are held up matter.
        for task in policy.tasks.iter().filter(|task| task.unfinished > 0) {
            let _ = writeln!(
                text,
                "\n  {}: {} responses of {} were not over at the end of a round, and count with the time until then",
                policy.policy.name(),
                task.unfinished,
                printable(&task.name)
            );
        }
    }
    for policy in trial.policies.iter().filter(|policy| policy.lost > 0) {
        let _ = writeln!(text, "  Lost with {}: {} responses", policy.policy.name(), policy.lost);
    }
    for missing in &trial.missing {
        let _ = writeln!(text, "\n  Not seen: {missing}");
    }
    text + &comparison(&trial.comparison, false, style)
}

/// Equation (3), of all rounds: whether the share was measured, and what it was.
fn page_shares(tuners: &[TunerAccount]) -> String {
    let shares: Vec<PageShares> = tuners.iter().filter_map(|one| one.page_shares).collect();
    if shares.is_empty() {
        return String::new();
    }
    let sum = |of: fn(&PageShares) -> u64| shares.iter().map(of).fold(0, u64::saturating_add);
    let (asked, measured, unknown) = (sum(|one| one.asked), sum(|one| one.measured), sum(|one| one.unknown));
    let lowest = shares.iter().filter_map(|one| one.min).reduce(f64::min);
    let highest = shares.iter().filter_map(|one| one.max).reduce(f64::max);
    let range = match (lowest, highest) {
        (Some(lowest), Some(highest)) => format!(", {:.1} to {:.1} %", 100.0 * lowest, 100.0 * highest),
        _ => String::new(),
    };
    let unknown = match unknown {
        0 => String::new(),
        times => format!("; {times} times nobody kept an account of it, and it counted as all"),
    };
    format!(
        "  the share of the pages that belonged to the tasks that waited for reclaim was asked for {asked} times in {} of {} \
         rounds and measured {measured} times{range}{unknown}\n",
        shares.len(),
        tuners.len()
    )
}

/// What `tune record` recorded, for people.
pub fn tune_record(record: &TuneRecord) -> String {
    let mut text = format!(
        "{} recorded, {} switches and wake-ups, {} kernel threads, and\n\n  {:<22} {:>8} {:>4} {:>12} {:>12}\n",
        record.duration,
        record.events,
        record.kernel_threads,
        "task",
        "priority",
        "CPU",
        "activations",
        "longest"
    );
    for task in &record.tasks {
        let dash = || "-".to_owned();
        let priority = task.priority.map_or_else(dash, |priority| priority.to_string());
        let worst = task.longest.map_or_else(dash, |worst| worst.to_string());
        let _ = writeln!(
            text,
            "  {:<22} {priority:>8} {:>4} {:>12} {worst:>12}",
            printable(&task.name),
            task.cpu,
            task.activations
        );
    }
    let _ = writeln!(
        text,
        "\n{} activations were cut off by the begin, the end or a loss; {}. {:.1} % of the run time was on \
         other CPUs than the workload says.",
        record.cut_off,
        lost_events(record.lost, record.lost_events),
        record.elsewhere * 100.0
    );
    for (name, why) in &record.left_out {
        let _ = writeln!(text, "Left out: {}: {why}.", printable(name));
    }
    for loss in &record.losses {
        let _ = writeln!(text, "Lost: {}", loss_text(loss));
    }
    for missing in &record.missing {
        let _ = writeln!(text, "Missing: {missing}");
    }
    let _ =
        writeln!(text, "Next: latebound tune fit {}", shell_words(std::slice::from_ref(&record.workload)));
    text
}

/// Lost events in words.
pub fn lost_events(times: u64, events: u64) -> String {
    match times {
        0 => "no event was lost".to_owned(),
        1 => format!("events were lost once, {events} at least"),
        times => format!("events were lost {times} times, {events} at least"),
    }
}

/// What `tune undo` did, for people.
pub fn tune_undo(document: &TuneUndo) -> String {
    if document.journals.is_empty() {
        return format!("No tuner left a journal in {}.", printable(&document.folder));
    }
    let mut text = String::new();
    for one in &document.journals {
        let JournalAccount { restored, untouched, gone, unreadable, .. } = one;
        let name = printable(&one.journal);
        match (&one.why, one.process) {
            (None, _) => {
                let _ = writeln!(
                    text,
                    "{name}: given back: {restored}; {untouched} were as before already, {gone} threads are gone."
                );
            }
            (Some(why), Some(process)) => {
                let _ = writeln!(text, "{name}, process {process}: {}", printable(why));
            }
            (Some(why), None) => {
                let _ = writeln!(text, "{name}: {}", printable(why));
            }
        }
        if *unreadable > 0 {
            let _ = writeln!(text, "{unreadable} of its lines could not be read.");
        }
        for left in &one.left {
            let _ = writeln!(text, "Not as before: {left}");
        }
    }
    text
}
