// SPDX-License-Identifier: MIT OR Apache-2.0
//! What explained jobs say: chains of waits in words, the answer in one sentence, what to change.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use latebound_model::{
    Cause, CauseKind, Cpu, CpuSet, Explanation, IdleMeanwhile, KnownBy, Nanos, Task, ThreadJobs, WaitLink,
    WaitThrough,
};

use super::{Sentence, cause_text, causes};
use crate::text::{listed, name_text, printable, to_nanos, who_text};

/// As many parts of a job are in its sentence.
const PARTS: usize = 3;
/// As many names are in a hint.
const NAMES: usize = 3;

/// Whether the whole job is explained, not only its start.
pub fn is_job(explanation: &Explanation) -> bool {
    explanation.ended_at.is_some()
}

/// Whether any of these is a job.
pub fn any_job(worst: &[Explanation]) -> bool {
    worst.iter().any(is_job)
}

/// The worst one. Explanations stand in that order: jobs that missed their deadline by the most first, then by their length.
pub fn worst(all: &[Explanation]) -> Option<&Explanation> {
    all.first()
}

/// How a thread is written: with its id or without.
type Who = fn(&Task) -> String;

/// One wait: `blocked on a lock (futex) held by logger/123 (nice 0)`. Who only ended the wait is not called its owner.
pub fn link_text(link: &WaitLink) -> String {
    blocked(link, link.through.name(), who_text)
}

fn blocked(link: &WaitLink, through: &str, who: Who) -> String {
    let known = match link.known_by {
        KnownBy::Owner => " held by ",
        KnownBy::Waker => ", ended by ",
    };
    format!("blocked on {through}{known}{}", who(&link.task))
}

/// The waits of a chain, one a piece: the first is the job's own, each other one names who waits.
pub fn chain_texts(via: &[WaitLink]) -> Vec<String> {
    let waits = |place: usize, link: &WaitLink| match place.checked_sub(1).and_then(|before| via.get(before))
    {
        None => link_text(link),
        Some(before) => format!("{} was {}", printable(&before.task.comm), link_text(link)),
    };
    via.iter().enumerate().map(|(place, link)| waits(place, link)).collect()
}

/// What a thread did or met, after its name or its wait: `waited behind backup/456 (nice 0)`.
pub fn predicate(cause: &Cause) -> String {
    predicate_by(cause, who_text)
}

fn predicate_by(cause: &Cause, who: Who) -> String {
    let subject = printable(&cause.subject);
    let other = || cause.task.as_ref().map_or_else(|| subject.clone().into_owned(), who);
    let bracket = || if subject.is_empty() { String::new() } else { format!(" ({subject})") };
    let after = |words: &str| format!("{words} {subject}").trim_end().to_owned();
    match cause.kind {
        CauseKind::TaskFirst => format!("waited behind {}", other()),
        CauseKind::PreemptionOff => format!("waited for {}, with preemption off", other()),
        CauseKind::LazyPreemption => {
            format!("waited for {}, which was told to give way and need not at once", other())
        }
        CauseKind::InterruptDelayed if cause.subject.is_empty() && cause.task.is_none() => {
            "waited for an interrupt that was masked or delayed".to_owned()
        }
        CauseKind::InterruptDelayed => {
            format!("waited for an interrupt that was masked or delayed in {}", other())
        }
        CauseKind::TimerInterrupt | CauseKind::Interrupt => after("was interrupted by"),
        CauseKind::Nmi => "was interrupted by an NMI".to_owned(),
        CauseKind::Softirq => after("was interrupted by softirq"),
        CauseKind::Throttled => format!("was throttled while {} ran", other()),
        CauseKind::Quota => format!("had used up its quota{}", bracket()),
        CauseKind::IdleExit => format!("waited for the CPU to leave idle{}", bracket()),
        CauseKind::Scheduler => "was being scheduled".to_owned(),
        CauseKind::ReturnToUser => "returned to user space".to_owned(),
        CauseKind::TimerSlack => "waited out its timer slack".to_owned(),
        CauseKind::Blocked => "slept again".to_owned(),
        CauseKind::OwnCode => "ran its own code".to_owned(),
        CauseKind::Ran => "ran".to_owned(),
        CauseKind::SystemCall => after("ran the system call"),
        CauseKind::PageFault => format!("had page faults{}", bracket()),
        CauseKind::Reclaim => "freed memory, since the machine had too little free".to_owned(),
        CauseKind::GroupReclaim => "freed memory, since its group was at a limit".to_owned(),
        CauseKind::SignalHandler => "ran a signal handler".to_owned(),
        CauseKind::OwnSleep => format!("slept until a timer of its own{}", bracket()),
        CauseKind::BlockIo => format!("waited for block I/O{}", bracket()),
        CauseKind::WaitedForInterrupt => format!("waited for an interrupt{}", bracket()),
        CauseKind::Stopped => "was stopped by a signal".to_owned(),
        CauseKind::Frozen => "was frozen".to_owned(),
        CauseKind::Circle => format!("waited for {} in a circle (a deadlock)", other()),
        CauseKind::Stolen => "lost its CPU to the hypervisor".to_owned(),
        CauseKind::StoodStill => "stood still with its CPU".to_owned(),
        CauseKind::Unaccounted => "was kept by something not seen".to_owned(),
        kind => kind.name().to_owned(),
    }
}

/// A part of a wait that is too small to be worth a word: so many of it make the whole.
const WORTH_A_WORD: u64 = 10;

/// What more is known of a cause of what kept this thread, in a sentence without a full stop: its detail, and CPUs that were idle while it was waited
/// for one.
pub fn more_text(cause: &Cause, own: &Task) -> Option<String> {
    let detail = cause.detail.as_deref().map(|detail| printable(detail).into_owned());
    let all: Vec<String> = [detail, idle_text(cause, own)].into_iter().flatten().collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// The CPUs that were idle for a good part of a wait behind another thread.
fn idle_meanwhile(cause: &Cause) -> Option<&IdleMeanwhile> {
    cause.idle_meanwhile.as_ref().filter(|idle| idle.time.0.saturating_mul(WORTH_A_WORD) >= cause.duration.0)
}

/// Whether the affinity of who waited leaves all of these CPUs out.
fn are_forbidden(idle: &IdleMeanwhile) -> bool {
    idle.allowed.as_ref().is_some_and(Vec::is_empty)
}

fn idle_text(cause: &Cause, own: &Task) -> Option<String> {
    let idle = idle_meanwhile(cause)?;
    let kept = who_text(cause.via.last().map_or(own, |link| &link.task));
    let cpus = cpus_text(&idle.cpus);
    let were = if idle.cpus.len() == 1 { "was" } else { "were" };
    let affinity = match &idle.allowed {
        None => String::new(),
        Some(_) if are_forbidden(idle) => format!(", and the affinity of {kept} has no such CPU"),
        Some(allowed) => format!(", and the affinity of {kept} has {}", cpus_text(allowed)),
    };
    Some(format!("{cpus} {were} idle for {} of it{affinity}", idle.time))
}

/// `CPU 3`, `CPUs 1-3`.
fn cpus_text(cpus: &[Cpu]) -> String {
    let set = CpuSet::new(cpus.iter().copied());
    if cpus.len() == 1 { format!("CPU {set}") } else { format!("CPUs {set}") }
}

/// Causes behind one chain of waits.
#[derive(Clone, Debug)]
pub struct Chain<'e> {
    /// The chain; empty of what kept the thread itself.
    pub via: &'e [WaitLink],
    /// Their time, in nanoseconds.
    pub total: u128,
    /// The causes, longest first.
    pub causes: Vec<&'e Cause>,
}

impl Chain<'_> {
    /// What stands above the causes, a line each; nothing where the chain is empty and stands alone.
    pub fn head(&self) -> Vec<String> {
        let sum = to_nanos(self.total);
        let mut lines = chain_texts(self.via);
        match lines.first_mut() {
            Some(first) => *first = format!("{sum} {first}"),
            None => lines.push(format!("{sum} by itself")),
        }
        if let Some(last) = lines.last_mut() {
            last.push(':');
        }
        lines
    }
}

/// The causes, those behind the same chain together, most time first; what nothing accounts for is last. One part without a chain where
/// nobody was waited for.
pub fn chains(explanation: &Explanation) -> Vec<Chain<'_>> {
    let is_rest = |cause: &Cause| cause.kind == CauseKind::Unaccounted && cause.via.is_empty();
    let all = causes(explanation);
    let mut chains: Vec<Chain<'_>> = Vec::new();
    let is_chained = all.iter().any(|cause| !cause.via.is_empty());
    for cause in all.iter().copied().filter(|cause| !(is_chained && is_rest(cause))) {
        // Of a chain that took no time there is nothing to say.
        if !cause.via.is_empty() && cause.duration == Nanos::ZERO {
            continue;
        }
        let time = u128::from(cause.duration.0);
        match chains.iter_mut().find(|chain| chain.via == cause.via) {
            Some(chain) => {
                chain.total += time;
                chain.causes.push(cause);
            }
            None => chains.push(Chain { via: &cause.via, total: time, causes: vec![cause] }),
        }
    }
    chains.sort_by_key(|chain| Reverse(chain.total));
    chains
}

/// The causes that [`chains`] leaves for the end: what nothing accounts for, where others have a chain.
pub fn rest(explanation: &Explanation) -> Vec<&Cause> {
    let all = causes(explanation);
    if all.iter().all(|cause| cause.via.is_empty()) {
        return Vec::new();
    }
    all.into_iter().filter(|cause| cause.kind == CauseKind::Unaccounted && cause.via.is_empty()).collect()
}

/// A part of a job: one cause, or all that is behind one wait.
struct JobPart<'e> {
    link: Option<&'e WaitLink>,
    total: u128,
    causes: Vec<&'e Cause>,
}

/// The parts at this depth of the chains, most time first.
fn job_parts<'e>(causes: &[&'e Cause], depth: usize) -> Vec<JobPart<'e>> {
    let mut parts: Vec<JobPart<'e>> = Vec::new();
    for &cause in causes {
        let link = cause.via.get(depth);
        let time = u128::from(cause.duration.0);
        match parts.iter_mut().find(|part| link.is_some() && part.link == link) {
            Some(part) => {
                part.total += time;
                part.causes.push(cause);
            }
            None => parts.push(JobPart { link, total: time, causes: vec![cause] }),
        }
    }
    parts.sort_by_key(|part| Reverse(part.total));
    parts
}

/// The answer at first sight: `worst job 6.02 ms: 5.10 ms blocked on a lock held by logger (nice 0), of which 4.80 ms logger waited behind
/// backup (nice 0)`.
///
/// With the period, where the jobs of that thread are regular: `worst job 6.02 ms of a 1.00 ms period: …`.
pub fn job_answer(job: &Explanation, threads: &[ThreadJobs]) -> Sentence {
    let own = threads.iter().find(|thread| thread.task.tid == job.task.tid);
    let period = own.and_then(ThreadJobs::period);
    let mut of = period.map_or_else(String::new, |period| format!(" of a {period} period"));
    if job.open {
        of.push_str(", not over");
    }
    let sentence =
        Sentence::default().say("worst job ").stress(job.length().to_string()).say(format!("{of}: "));
    if super::does_not_add_up(job).is_some() {
        return sentence.say("its causes do not add up to its response, so they are not to be trusted");
    }
    let mut sentence = sentence;
    let mut all = causes(job);
    all.retain(|cause| cause.duration > Nanos::ZERO);
    if all.is_empty() {
        return sentence.say("nothing took any time");
    }
    for (place, part) in job_parts(&all, 0).iter().take(PARTS).enumerate() {
        // Small parts after a dominating one are for the table.
        if place > 0 && part.total * 10 < u128::from(job.length().0) {
            break;
        }
        sentence = say_part(sentence.say(if place > 0 { "; " } else { "" }), part, 0, None);
    }
    sentence
}

/// One part; `waiter` is the thread that it kept, where that is not the job's own.
fn say_part(sentence: Sentence, part: &JobPart<'_>, depth: usize, waiter: Option<&Task>) -> Sentence {
    let sentence = sentence.stress(to_nanos(part.total).to_string()).say(" ");
    say_what(sentence, part, depth, waiter)
}

fn say_what(sentence: Sentence, part: &JobPart<'_>, depth: usize, waiter: Option<&Task>) -> Sentence {
    let name = waiter.map(|task| printable(&task.comm));
    let Some(link) = part.link else {
        let Some(cause) = part.causes.first() else { return sentence };
        return sentence.say(match name {
            Some(name) => format!("{name} {}", predicate_by(cause, name_text)),
            None => cause_text(cause),
        });
    };
    let was = name.map(|name| format!("{name} was ")).unwrap_or_default();
    let sentence = sentence.say(format!("{was}{}", blocked(link, short_name(link), name_text)));
    match job_parts(&part.causes, depth + 1).as_slice() {
        [] => sentence,
        [all] => say_what(sentence.say(": "), all, depth + 1, Some(&link.task)),
        [largest, ..] => say_part(sentence.say(", of which "), largest, depth + 1, Some(&link.task)),
    }
}

/// Through what a thread waits, without the name of the kernel's mechanism.
fn short_name(link: &WaitLink) -> &'static str {
    match link.through {
        WaitThrough::Futex => "a lock",
        WaitThrough::PiFutex => "a lock with priority inheritance",
        through => through.name(),
    }
}

/// What can be changed about a kind of cause that jobs met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum HintKind {
    /// A lock that lends its owner no priority.
    PriorityInheritance,
    /// Memory that is not there yet.
    PageFaults,
    /// Too little free memory in the machine.
    Reclaim,
    /// A limit on the memory of a control group.
    GroupReclaim,
    /// A CPU quota.
    Quota,
    /// A limit on real-time threads.
    Throttling,
    /// Block I/O within a job.
    BlockIo,
    /// A sleep within a job.
    OwnSleep,
    /// A CPU that was idle, and that an affinity leaves out.
    Affinity,
    /// A thread of equal priority, or the kernel moving threads to another CPU.
    RanFirst,
    /// The freezer.
    Frozen,
    /// A stop.
    Stopped,
    /// A kernel that is lazy to preempt.
    LazyPreemption,
}

/// One change that would shorten jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// About what.
    pub kind: HintKind,
    /// The time of all jobs that it concerns, in nanoseconds.
    pub time: u128,
    /// What to do, as sentences.
    pub text: String,
}

/// What to change, by what the jobs met: one hint a kind, the one that concerns most time first. Wake-ups give none.
pub fn hints(worst: &[Explanation]) -> Vec<Hint> {
    let mut kinds: BTreeMap<HintKind, BTreeMap<String, u128>> = BTreeMap::new();
    for job in worst.iter().filter(|one| is_job(one)) {
        for cause in job.causes.iter().filter(|cause| cause.duration > Nanos::ZERO) {
            if let Some((kind, name)) = hint(cause, &job.task) {
                *kinds.entry(kind).or_default().entry(name).or_default() += u128::from(cause.duration.0);
            }
        }
    }
    let mut hints: Vec<Hint> = kinds
        .into_iter()
        .map(|(kind, names)| {
            let time = names.values().sum();
            let mut names: Vec<(String, u128)> = names.into_iter().collect();
            names.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
            let more = names.len().saturating_sub(NAMES);
            let mut shown: Vec<String> = names.into_iter().take(NAMES).map(|(name, _)| name).collect();
            if more > 0 {
                shown.push(format!("{more} more"));
            }
            Hint { kind, time, text: hint_text(kind, &listed(&shown)) }
        })
        .collect();
    hints.sort_by_key(|hint| (Reverse(hint.time), hint.kind));
    hints
}

/// The hint that a cause gives, and whom it names.
fn hint(cause: &Cause, own: &Task) -> Option<(HintKind, String)> {
    let kept = cause.via.last().map_or(own, |link| &link.task);
    match cause.kind {
        CauseKind::Quota => return Some((HintKind::Quota, printable(&cause.subject).into_owned())),
        CauseKind::Throttled if kept.has_rt_priority() => {
            return Some((HintKind::Throttling, who_text(kept)));
        }
        CauseKind::PageFault => return Some((HintKind::PageFaults, who_text(kept))),
        CauseKind::Reclaim => return Some((HintKind::Reclaim, who_text(kept))),
        CauseKind::GroupReclaim => return Some((HintKind::GroupReclaim, who_text(kept))),
        CauseKind::BlockIo => return Some((HintKind::BlockIo, who_text(kept))),
        CauseKind::OwnSleep => return Some((HintKind::OwnSleep, who_text(kept))),
        CauseKind::Frozen => return Some((HintKind::Frozen, who_text(kept))),
        CauseKind::Stopped => return Some((HintKind::Stopped, who_text(kept))),
        CauseKind::LazyPreemption => return Some((HintKind::LazyPreemption, who_text(kept))),
        _ => {}
    }
    let first = cause.task.as_ref().filter(|_| cause.kind == CauseKind::TaskFirst)?;
    if first.tid == kept.tid {
        return None;
    }
    if is_inversion(cause, own, first) {
        return Some((HintKind::PriorityInheritance, who_text(kept)));
    }
    if idle_meanwhile(cause).is_some_and(are_forbidden) {
        return Some((HintKind::Affinity, who_text(kept)));
    }
    let moved = first.kernel && first.comm.starts_with("migration/");
    let equal = match (kept.prio, first.prio) {
        (Some(kept), Some(first)) => kept == first || (!is_real_time(kept) && !is_real_time(first)),
        _ => false,
    };
    (moved || equal).then(|| (HintKind::RanFirst, who_text(first)))
}

/// Whether the owner of a lock without priority inheritance had to wait for a thread that comes after the one that waits for the lock. A
/// lock lends real-time priorities alone (kernel/locking/rtmutex.c, `waiter_prio`).
fn is_inversion(cause: &Cause, own: &Task, first: &Task) -> bool {
    let [before @ .., link] = cause.via.as_slice() else { return false };
    let waiter = before.last().map_or(own, |link| &link.task);
    let (Some(waiter), Some(owner), Some(first)) = (waiter.prio, link.task.prio, first.prio) else {
        return false;
    };
    link.through == WaitThrough::Futex
        && link.known_by == KnownBy::Owner
        && is_real_time(waiter)
        && waiter < owner
        && waiter < first
}

/// Whether a priority of the kernel is of a real-time or deadline thread.
const fn is_real_time(prio: i32) -> bool {
    prio < 100
}

fn hint_text(kind: HintKind, names: &str) -> String {
    match kind {
        HintKind::PriorityInheritance => format!(
            "Use PTHREAD_PRIO_INHERIT (pthread_mutexattr_setprotocol) for the lock that {names} held: its owner then runs with the \
             priority of who waits for it."
        ),
        HintKind::Affinity => format!(
            "Let {names} run on more CPUs (taskset -pc, AllowedCPUs= of a unit, cpuset.cpus of a group): a CPU that the affinity leaves out \
             was idle while it waited behind another thread."
        ),
        HintKind::PageFaults => format!(
            "Lock the memory of {names} (mlockall with MCL_CURRENT and MCL_FUTURE), and touch it before the first job: each page that is \
             not there yet stops the job."
        ),
        HintKind::Reclaim => format!(
            "Have {names} allocate its memory before the first job (mlockall with MCL_CURRENT and MCL_FUTURE), and keep more of the machine's \
             free: limits for the others (memory.max), a higher vm.min_free_kbytes."
        ),
        HintKind::GroupReclaim => format!(
            "Raise the limits on the memory of the group of {names} (memory.high, memory.max), or have it allocate before the first job: an \
             allocation at a limit frees memory first."
        ),
        HintKind::Quota => {
            let group = if names.is_empty() { "the group" } else { names };
            format!("Raise the CPU quota of {group} (cpu.max), or remove it.")
        }
        HintKind::Throttling => format!(
            "Leave time to ordinary threads on the CPU of {names}, or set sched_rt_runtime_us and the fair server's runtime knowing that \
             nothing then saves the system from real-time threads."
        ),
        HintKind::BlockIo => {
            format!("Move the file access of {names} to another thread, which no job waits for.")
        }
        HintKind::OwnSleep => {
            format!(
                "Take the sleep of {names} out of the job: it ends by a timer that the thread set itself."
            )
        }
        HintKind::RanFirst => format!(
            "Keep {names} off the CPU of the job (affinity, isolated CPUs), or give the job the higher priority: neither goes first by \
             priority now, or the kernel moved threads."
        ),
        HintKind::Frozen => {
            format!("Find out who froze {names}: its cgroup (cgroup.freeze) or a suspend of the system.")
        }
        HintKind::Stopped => {
            format!("Find out who stopped {names}: SIGSTOP, the job control of a shell, or a debugger.")
        }
        HintKind::LazyPreemption => format!(
            "Boot with preempt=full, or give {names} a real-time priority: this kernel is lazy, and lets an ordinary thread finish its \
             system call before another ordinary one, until the next tick at most."
        ),
    }
}

#[cfg(test)]
mod tests {
    use latebound_model::{Mechanism, Policy, Span, Tid};

    use super::*;

    fn task(tid: i32, comm: &str, prio: i32) -> Task {
        let policy = if prio < 100 { Policy::Fifo } else { Policy::Other };
        Task { tid: Tid(tid), comm: comm.into(), policy: Some(policy), prio: Some(prio), kernel: false }
    }

    fn app() -> Task {
        task(7, "app", 19)
    }

    fn link(through: WaitThrough, task: &Task, known_by: KnownBy) -> WaitLink {
        WaitLink { through, task: task.clone(), known_by }
    }

    fn cause(kind: CauseKind, subject: &str, us: u64, via: &[WaitLink]) -> Cause {
        Cause {
            kind,
            subject: subject.into(),
            irq: None,
            via: via.to_vec(),
            duration: Nanos::from_micros(us),
            spans: 1,
            task: None,
            group: None,
            stack: None,
            detail: None,
            idle_meanwhile: None,
        }
    }

    fn by(task: &Task, us: u64, via: &[WaitLink]) -> Cause {
        Cause { task: Some(task.clone()), ..cause(CauseKind::TaskFirst, &task.comm, us, via) }
    }

    fn job(of: Task, causes: Vec<Cause>) -> Explanation {
        let mut at = Nanos::ZERO;
        let mut spans = Vec::new();
        for (place, cause) in causes.iter().enumerate() {
            spans.push(Span { start: at, end: at + cause.duration, cause: place });
            at += cause.duration;
        }
        Explanation {
            series: String::new(),
            mechanism: Mechanism::TimerWakeup,
            task: of,
            cpu: Cpu(0),
            requested_at: Nanos::ZERO,
            started_at: Nanos::ZERO,
            ended_at: Some(at),
            open: false,
            causes,
            spans,
            signatures: Vec::new(),
            standstills: Vec::new(),
            members: Vec::new(),
            losses: Vec::new(),
        }
    }

    #[test]
    fn a_job_is_answered_by_its_largest_part_and_what_that_waited_behind() {
        let (logger, backup) = (task(123, "logger", 120), task(456, "backup", 120));
        let held = [link(WaitThrough::Futex, &logger, KnownBy::Owner)];
        let causes = vec![
            by(&backup, 4_800, &held),
            cause(CauseKind::OwnCode, "logger", 300, &held),
            cause(CauseKind::OwnCode, "app", 900, &[]),
            cause(CauseKind::Scheduler, "", 20, &[]),
        ];
        assert_eq!(
            job_answer(&job(app(), causes), &[]).plain(),
            "worst job 6.02 ms: 5.10 ms blocked on a lock held by logger (nice 0), of which 4.80 ms logger waited behind backup \
             (nice 0); 900 us own code of app"
        );
    }

    #[test]
    fn cpus_that_were_idle_are_named_with_what_the_affinity_has_of_them() {
        let (logger, backup) = (task(123, "logger", 120), task(456, "backup", 120));
        let held = [link(WaitThrough::Futex, &logger, KnownBy::Owner)];
        let waited = |us: u64, cpus: &[u32], allowed: Option<&[u32]>| {
            let of = |cpus: &[u32]| cpus.iter().copied().map(Cpu).collect::<Vec<_>>();
            let (time, allowed) = (Nanos::from_micros(us), allowed.map(of));
            let idle_meanwhile = Some(IdleMeanwhile { time, cpus: of(cpus), allowed });
            Cause { idle_meanwhile, ..by(&backup, 4_800, &held) }
        };
        let said = |cause: &Cause| more_text(cause, &app());
        assert_eq!(said(&waited(479, &[1], None)), None, "less than a tenth");
        assert_eq!(said(&waited(4_000, &[1], None)).unwrap(), "CPU 1 was idle for 4.00 ms of it");
        let forbidden = waited(4_000, &[1], Some(&[]));
        assert_eq!(
            said(&forbidden).unwrap(),
            "CPU 1 was idle for 4.00 ms of it, and the affinity of logger/123 (nice 0) has no such CPU"
        );
        assert_eq!(
            said(&waited(4_000, &[1, 2, 3], Some(&[2]))).unwrap(),
            "CPUs 1-3 were idle for 4.00 ms of it, and the affinity of logger/123 (nice 0) has CPU 2"
        );
        let hints = |cause: Cause| hints(&[job(task(7, "app", 120), vec![cause])]);
        assert_eq!(hints(forbidden)[0].kind, HintKind::Affinity);
        assert_eq!(hints(waited(4_000, &[1], Some(&[1])))[0].kind, HintKind::RanFirst);
    }

    #[test]
    fn a_longer_chain_is_answered_link_by_link() {
        let (server, worker) = (task(3, "server", 120), task(4, "worker", 120));
        let asked = [link(WaitThrough::Pipe, &server, KnownBy::Waker)];
        let deep = [asked[0].clone(), link(WaitThrough::KernelLock, &worker, KnownBy::Owner)];
        let causes =
            vec![cause(CauseKind::Ran, "worker", 44, &deep), cause(CauseKind::Ran, "server", 21, &asked)];
        assert_eq!(
            job_answer(&job(app(), causes.clone()), &[]).plain(),
            "worst job 65.0 us: 65.0 us blocked on a pipe, ended by server (nice 0), of which 44.0 us server was blocked on a lock \
             of the kernel held by worker (nice 0): worker ran"
        );
        assert_eq!(
            cause_text(&causes[0]),
            "blocked on a pipe, ended by server/3 (nice 0); server was blocked on a lock of the kernel held by worker/4 (nice 0): ran"
        );
    }

    #[test]
    fn a_job_that_does_not_add_up_or_took_no_time_is_answered_so() {
        let mut torn = job(app(), vec![cause(CauseKind::OwnCode, "app", 9, &[])]);
        torn.causes[0].duration = Nanos(1);
        assert!(job_answer(&torn, &[]).plain().ends_with("not to be trusted"));
        assert_eq!(job_answer(&job(app(), Vec::new()), &[]).plain(), "worst job 0 ns: nothing took any time");
    }

    #[test]
    fn a_cause_with_a_chain_reads_like_a_sentence_and_its_names_do_not_steer() {
        let logger = task(123, "log\u{1b}[2J", 120);
        let held = [link(WaitThrough::Futex, &logger, KnownBy::Owner)];
        assert_eq!(
            cause_text(&by(&task(456, "back\nup", 120), 1, &held)),
            "blocked on a lock (futex) held by log\\x1b[2J/123 (nice 0): waited behind back\\x0aup/456 (nice 0)"
        );
    }

    #[test]
    fn causes_of_one_chain_stand_together_and_the_longest_chain_first() {
        let logger = task(123, "logger", 120);
        let held = [link(WaitThrough::Futex, &logger, KnownBy::Owner)];
        let causes = vec![
            cause(CauseKind::OwnCode, "app", 50, &[]),
            cause(CauseKind::OwnCode, "logger", 40, &held),
            cause(CauseKind::Softirq, "NET_RX", 30, &held),
            cause(CauseKind::Unaccounted, "", 0, &[]),
        ];
        let job = job(app(), causes);
        let shown: Vec<(Vec<String>, usize)> =
            chains(&job).iter().map(|chain| (chain.head(), chain.causes.len())).collect();
        let held = "70.0 us blocked on a lock (futex) held by logger/123 (nice 0):";
        assert_eq!(shown, [(vec![held.to_owned()], 2), (vec!["50.0 us by itself:".to_owned()], 1)]);
        assert_eq!(rest(&job).len(), 1);
    }

    /// Kinds of the hints, with the time in microseconds.
    fn hinted(of: Task, causes: Vec<Cause>) -> Vec<(HintKind, u128)> {
        hints(&[job(of, causes)]).iter().map(|hint| (hint.kind, hint.time / 1_000)).collect()
    }

    #[test]
    fn priority_inheritance_is_advised_only_where_it_would_help() {
        let (logger, backup) = (task(123, "logger", 120), task(456, "backup", 115));
        let held = |through, known_by| [link(through, &logger, known_by)];
        let plain = held(WaitThrough::Futex, KnownBy::Owner);
        let inversion = [(HintKind::PriorityInheritance, 9)];
        assert_eq!(hinted(app(), vec![by(&backup, 9, &plain)]), inversion);
        // The waiter is no real-time thread: a lock lends no nice value. What is left is that two fair threads share a CPU.
        assert_eq!(hinted(task(7, "app", 110), vec![by(&backup, 9, &plain)]), [(HintKind::RanFirst, 9)]);
        // Whoever ran first goes before the waiter as well, or it is not known.
        assert_eq!(hinted(app(), vec![by(&task(9, "rt", 9), 9, &plain)]), []);
        let unknown = Task { prio: None, ..backup.clone() };
        assert_eq!(hinted(app(), vec![by(&unknown, 9, &plain)]), []);
        // The lock inherits already; or the one who ended the wait may not be the owner.
        for (through, known_by) in
            [(WaitThrough::PiFutex, KnownBy::Owner), (WaitThrough::Futex, KnownBy::Waker)]
        {
            assert_eq!(
                hinted(app(), vec![by(&backup, 9, &held(through, known_by))]),
                [(HintKind::RanFirst, 9)]
            );
        }
        // The owner ran, and did not wait.
        assert_eq!(hinted(app(), vec![cause(CauseKind::OwnCode, "logger", 9, &plain)]), []);
    }

    #[test]
    fn one_hint_a_kind_the_most_expensive_first() {
        let causes = vec![
            cause(CauseKind::PageFault, "minor", 5, &[]),
            cause(CauseKind::PageFault, "major, x", 20, &[]),
            cause(CauseKind::Quota, "/pods/a", 30, &[]),
            cause(CauseKind::BlockIo, "254:3 write", 24, &[]),
            cause(CauseKind::OwnSleep, "nanosleep", 3, &[]),
            cause(CauseKind::Reclaim, "", 12, &[]),
            cause(CauseKind::GroupReclaim, "", 9, &[]),
            cause(CauseKind::Frozen, "", 2, &[]),
            cause(CauseKind::Stopped, "", 1, &[]),
            by(&task(8, "twin", 19), 4, &[]),
            by(&Task { kernel: true, ..task(9, "migration/0", 0) }, 2, &[]),
            by(&task(10, "higher", 9), 90, &[]),
            cause(CauseKind::OwnCode, "app", 99, &[]),
        ];
        assert_eq!(
            hinted(app(), causes.clone()),
            [
                (HintKind::Quota, 30),
                (HintKind::PageFaults, 25),
                (HintKind::BlockIo, 24),
                (HintKind::Reclaim, 12),
                (HintKind::GroupReclaim, 9),
                (HintKind::RanFirst, 6),
                (HintKind::OwnSleep, 3),
                (HintKind::Frozen, 2),
                (HintKind::Stopped, 1),
            ]
        );
        let wakeup = Explanation { ended_at: None, ..job(app(), causes) };
        assert_eq!(hints(&[wakeup]), [], "a wake-up has other advice");
    }
}
