// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs that have not ended: what their threads' places say of them at one moment.
//!
//! Owns the step from the state of a job in the kernel to an activation. Never waits for its end.

use latebound_model::{Activation, Cpu, Nanos, Tid};
use latebound_syscall::clock;

use super::Recorder;
use super::late_ring::late_activation;
use super::wire::{FlightLate, FlightWatched, Wakeup};

impl Recorder {
    /// The jobs that are on, of those of these threads that have not ended: each ends now for this purpose ([`Activation::open`]).
    ///
    /// Of a thread that was released and has not started there is none.
    pub fn open_jobs(&self, threads: &[Tid]) -> Vec<Activation> {
        if !self.options.jobs {
            return Vec::new();
        }
        let of = |&tid: &Tid| {
            let thread = self.watched_thread(tid).filter(|thread| !self.shares(thread))?;
            // By the clock after the look: what was seen was before.
            open_job(tid, &thread, clock::now(), last_cpu(tid)?)
        };
        threads.iter().filter_map(of).collect()
    }
}

/// The job that a thread is at; `None` where it is at none. The kernel may write while it is read: what does not belong together is none.
fn open_job(tid: Tid, thread: &FlightWatched, now: Nanos, cpu: Cpu) -> Option<Activation> {
    let job = &thread.job;
    let (released, started) = (job.released_at_ns, job.started_at_ns);
    if thread.ended_at_ns != 0 || started == 0 || released > started || started > now.0 {
        return None;
    }
    let late = FlightLate {
        soft_expires_ns: if job.by_timer != 0 { released } else { 0 },
        waking_at_ns: released,
        running_at_ns: started,
        completed_at_ns: now.0,
        tid: tid.0,
        cpu: cpu.0,
        prio: thread.prio,
        policy: thread.policy,
        kernel: thread.kernel,
        wakeup: Wakeup::Job.raw(),
        comm: thread.comm,
    };
    Some(Activation { open: true, ..late_activation(&late) })
}

/// On which CPU a thread is, or was last (proc_pid_stat(5), field 39); `None` where it is gone.
fn last_cpu(tid: Tid) -> Option<Cpu> {
    let stat = std::fs::read_to_string(format!("/proc/{tid}/stat")).ok()?;
    // The name before it may have blanks and brackets; field 3 follows.
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(39 - 3)?.parse().ok().map(Cpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_open_from_its_start_to_its_completion() {
        let mut thread = FlightWatched { prio: 19, ..FlightWatched::default() };
        thread.job.released_at_ns = 100;
        let now = Nanos(900);
        assert_eq!(open_job(Tid(7), &thread, now, Cpu(1)), None, "it has not started, or is over");
        thread.job.started_at_ns = 150;
        let job = open_job(Tid(7), &thread, now, Cpu(1)).unwrap();
        assert!(job.open && job.started_cpu == Cpu(1));
        assert_eq!((job.requested_at, job.started_at, job.ended_at), (Nanos(100), Nanos(150), Some(now)));
        assert_eq!(job.length(), Nanos(800));
        let torn =
            FlightWatched { job: super::super::wire::Job { released_at_ns: 200, ..thread.job }, ..thread };
        assert_eq!(open_job(Tid(7), &torn, now, Cpu(1)), None, "the kernel wrote meanwhile");
        let ended = FlightWatched { ended_at_ns: 800, ..thread };
        assert_eq!(open_job(Tid(7), &ended, now, Cpu(1)), None);
    }

    #[test]
    fn the_cpu_of_a_thread_is_the_one_that_it_runs_on() {
        let online = super::super::online_cpus().unwrap();
        // SAFETY: no arguments.
        let cpu = last_cpu(Tid(unsafe { libc::gettid() })).unwrap();
        assert!(online.contains(&cpu), "{cpu} {online:?}");
        assert_eq!(last_cpu(Tid(-1)), None);
    }
}
