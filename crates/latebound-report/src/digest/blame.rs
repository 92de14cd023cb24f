// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whom the time of jobs belongs to, in words.

use latebound_analysis::{Blame, Culprit, blame};
use latebound_model::Explanation;

use super::job;
use crate::text::{printable, who_text};

/// What holds real-time threads back. Which of the two it was, the account does not say.
pub(super) const THROTTLING: &str = "RT throttling or the fair server";

/// Whom the time of the jobs among these belongs to, most time first; nothing where none is a job.
pub fn blamed(worst: &[Explanation]) -> Vec<Blame> {
    let jobs: Vec<Explanation> = worst.iter().filter(|one| job::is_job(one)).cloned().collect();
    blame(&jobs)
}

/// Who took the time of jobs, in words.
pub fn culprit_text(culprit: &Culprit) -> String {
    let named = |kind: &str, name: &str| format!("{kind} {}", printable(name)).trim_end().to_owned();
    match culprit {
        Culprit::Itself => "the job itself".to_owned(),
        Culprit::Thread(task) => who_text(task),
        Culprit::KernelThread(task) => format!("kernel thread {}", who_text(task)),
        Culprit::Interrupt(name) => named("interrupt", name),
        Culprit::Softirq(name) => named("softirq", name),
        Culprit::Quota(group) if group.is_empty() => "a CPU limit".to_owned(),
        Culprit::Quota(group) => named("CPU limit of", group),
        Culprit::Throttling => THROTTLING.to_owned(),
        Culprit::Processor(state) => named("processor that left idle", state),
        Culprit::Hypervisor => "the hypervisor".to_owned(),
        Culprit::Device(name) => named("device", name),
        _ => "not known".to_owned(),
    }
}
