// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs in words: chains of waits, the answer at first sight, and what to change.

use latebound_analysis::Culprit;
use latebound_model::{
    Cause, CauseKind, Explanation, KnownBy, Nanos, Run, Task, ThreadJobs, WaitLink, WaitThrough,
};

use crate::digest::{Sentence, cause_text};
use crate::text::{printable, task_text};

/// Whom a thread waited for: `a lock (futex) held by logger (tid 9, nice 0)`.
fn link_text(link: &WaitLink) -> String {
    let how = match link.known_by {
        KnownBy::Owner => "held by",
        KnownBy::Waker => "until woken by",
    };
    format!("{} {how} {}", link.through.name(), printable(&task_text(&link.task)))
}

/// Whom a thread waited for, in few words.
pub(crate) fn waits_for(link: &WaitLink) -> String {
    format!("waits for {}", printable(&task_text(&link.task)))
}

/// A cause without the chain of waits before it.
pub(crate) fn last_text(cause: &Cause) -> String {
    match (cause.kind, cause.via.is_empty()) {
        // Whose code it was stands just before.
        (CauseKind::Ran | CauseKind::OwnCode, false) => "it ran".to_owned(),
        _ => cause_text(&Cause { via: Vec::new(), ..cause.clone() }),
    }
}

/// Through what, and how that is known, of each link of an explanation's chains: a sentence each.
pub(crate) fn links(explanation: &Explanation) -> Vec<String> {
    let mut found: Vec<&WaitLink> = Vec::new();
    for link in explanation.causes.iter().flat_map(|cause| &cause.via) {
        if !found.contains(&link) {
            found.push(link);
        }
    }
    let text = |link: &WaitLink| format!("{}: blocked on {}", waits_for(link), link_text(link));
    found.into_iter().map(text).collect()
}

/// A cause behind a chain of waits: `blocked on a lock (futex) held by logger (tid 9, nice 0): backup (tid 7, nice 0) ran first`.
pub(crate) fn chain_text(cause: &Cause) -> String {
    let links: Vec<String> = cause.via.iter().map(link_text).collect();
    format!("blocked on {}: {}", links.join(", itself blocked on "), last_text(cause))
}

/// Who took time of jobs, in words.
pub(crate) fn culprit_text(culprit: &Culprit) -> String {
    let named = |what: &str, name: &String| match name.as_str() {
        "" => what.to_owned(),
        name => format!("{what} {}", printable(name)),
    };
    match culprit {
        Culprit::Itself => "the thread itself".to_owned(),
        Culprit::Thread(task) => printable(&task_text(task)).into_owned(),
        Culprit::KernelThread(task) => format!("kernel thread {}", printable(&task_text(task))),
        Culprit::Interrupt(name) => named("interrupt", name),
        Culprit::Softirq(name) => named("softirq", name),
        Culprit::Quota(name) => named("the limit of group", name),
        Culprit::Processor(name) => named("the idle processor", name),
        Culprit::Hypervisor => "the hypervisor".to_owned(),
        Culprit::Device(name) => named("device", name),
        _ => "nobody who is known".to_owned(),
    }
}

/// The time that causes with some property took.
pub(crate) fn sum<'c>(causes: impl Iterator<Item = &'c Cause>) -> Nanos {
    Nanos(causes.fold(0, |sum, cause| sum.saturating_add(cause.duration.0)))
}

/// The parts of causes that share the first `depth` links of their chains: each cause without a further link by itself, and those together
/// that share the next one. Longest first, what is unaccounted last.
pub(crate) fn parts<'c>(causes: &[&'c Cause], depth: usize) -> Vec<Vec<&'c Cause>> {
    let mut parts: Vec<Vec<&'c Cause>> = Vec::new();
    for &cause in causes {
        let next = cause.via.get(depth);
        let same = |part: &&mut Vec<&Cause>| next.is_some() && part[0].via.get(depth) == next;
        match parts.iter_mut().find(same) {
            Some(part) => part.push(cause),
            None => parts.push(vec![cause]),
        }
    }
    let unknown = |part: &[&Cause]| part[0].kind == CauseKind::Unaccounted && part[0].via.len() <= depth;
    parts.sort_by_key(|part| (unknown(part), std::cmp::Reverse(sum(part.iter().copied()))));
    parts
}

/// The jobs of a thread, as the Run knows them.
fn jobs_of<'r>(run: &'r Run, task: &Task) -> Option<&'r ThreadJobs> {
    run.jobs.iter().find(|thread| thread.task.tid == task.tid)
}

/// The worst job in one sentence: how long, of which period, and what most of it was.
pub(crate) fn at_first_sight(worst: &Explanation, run: &Run) -> Sentence {
    let sentence = Sentence::default().say("The worst job of ").stress(printable(&task_text(&worst.task)));
    let sentence = sentence.say(" took ").stress(worst.length().to_string());
    let period = jobs_of(run, &worst.task).and_then(|thread| thread.cycle.as_ref()?.period);
    let mut sentence = match period {
        Some(period) => sentence.say(format!(" of a {period} period: ")),
        None => sentence.say(": "),
    };
    let causes: Vec<&Cause> = worst.causes.iter().collect();
    for (place, part) in parts(&causes, 0).into_iter().take(3).enumerate() {
        let took = sum(part.iter().copied());
        // Small parts after a dominating one are for the table.
        if took == Nanos::ZERO || (place > 0 && u128::from(took.0) * 10 < u128::from(worst.length().0)) {
            break;
        }
        sentence = sentence.say(if place > 0 { "; " } else { "" }).stress(took.to_string());
        let Some(link) = part[0].via.first() else {
            sentence = sentence.say(format!(" {}", cause_text(part[0])));
            continue;
        };
        sentence = sentence.say(format!(" blocked on {}", link_text(link)));
        if let Some(longest) = part.iter().max_by_key(|cause| cause.duration)
            && !matches!(longest.kind, CauseKind::Ran | CauseKind::OwnCode)
        {
            let inner = Cause { via: longest.via[1..].to_vec(), ..(*longest).clone() };
            sentence = sentence.say(format!(", of which {} {}", longest.duration, cause_text(&inner)));
        }
    }
    sentence.say(".")
}

/// What to change about jobs, each only where its cause was seen, that of the longest time first.
pub(crate) fn hints(worst: &[Explanation]) -> Vec<String> {
    let jobs = || worst.iter().filter(|explanation| explanation.ended_at.is_some());
    let of = |fits: &dyn Fn(&Explanation, &Cause) -> bool| {
        let causes = jobs().flat_map(|job| job.causes.iter().filter(move |cause| fits(job, cause)));
        sum(causes)
    };
    let inverted = |job: &Explanation, cause: &Cause| {
        let Some(link) = cause.via.iter().find(|link| link.through == WaitThrough::Futex) else {
            return false;
        };
        let kept = matches!(
            cause.kind,
            CauseKind::TaskFirst | CauseKind::PreemptionOff | CauseKind::Throttled | CauseKind::Quota
        );
        link.known_by == KnownBy::Owner
            && kept
            && link.task.prio.zip(job.task.prio).is_some_and(|(a, b)| a > b)
    };
    let own =
        |kind: CauseKind| move |_: &Explanation, cause: &Cause| cause.kind == kind && cause.via.is_empty();
    let hints: [(Nanos, &str); 9] = [
        (
            of(&inverted),
            "give the mutex priority inheritance (pthread_mutexattr_setprotocol, PTHREAD_PRIO_INHERIT): its holder has a lower \
             priority than the thread that waits, and others kept the holder from running",
        ),
        (
            of(&own(CauseKind::PageFault)),
            "lock the memory (mlockall) and touch it before the first job: page faults are within the jobs",
        ),
        (of(&own(CauseKind::BlockIo)), "move the file operation to another thread: the job waits for a disk"),
        (
            of(&own(CauseKind::Quota)),
            "raise the group's quota (cpu.max), or move the thread to a group without one",
        ),
        (of(&own(CauseKind::OwnSleep)), "take the sleep out of the job"),
        (
            of(&|_, cause| cause.kind == CauseKind::TaskFirst && cause.via.is_empty()),
            "give the thread the higher priority, or keep the threads that ran first off its CPU (affinity, cpusets)",
        ),
        (of(&own(CauseKind::Stopped)), "find who sends SIGSTOP or traces the process"),
        (
            of(&own(CauseKind::Frozen)),
            "find who freezes the cgroup (cgroup.freeze; a container's pause does so)",
        ),
        (of(&own(CauseKind::SignalHandler)), "block the signal in this thread (pthread_sigmask)"),
    ];
    let mut hints: Vec<(Nanos, &str)> = hints.into_iter().filter(|(took, _)| *took > Nanos::ZERO).collect();
    hints.sort_by_key(|(took, _)| std::cmp::Reverse(*took));
    hints.into_iter().map(|(took, hint)| format!("{hint} ({took} of the jobs below)")).collect()
}
