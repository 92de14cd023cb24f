// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every thread of the system with its scheduling policy, from `/proc`. Owns the parsing of `stat`; threads that
//! vanish while they are read are left out, for they are gone.

use latebound_model::{Policy, Task, Tid};

use crate::root::{ReadError, Root};

/// `PF_KTHREAD` of `task_struct::flags` (include/linux/sched.h, the same value since 2.6.27).
const PF_KTHREAD: u64 = 0x0020_0000;

/// A thread and what the scheduler holds it for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its id.
    pub tid: Tid,
    /// Its name.
    pub comm: String,
    /// Whether it is a kernel thread.
    pub kernel: bool,
    /// Its policy.
    pub policy: Policy,
    /// 1 to 99 for FIFO and RR, else 0 (`rt_priority`).
    pub rt_priority: u32,
    /// The kernel's priority, as in [`Task::prio`]; includes what priority inheritance gives.
    pub prio: i32,
}

impl Thread {
    /// From one line of `/proc/PID/stat` (proc_pid_stat(5)). The name may hold anything, also `) `: it ends at the
    /// last parenthesis.
    pub(crate) fn parse(stat: &str) -> Option<Thread> {
        let open = stat.find('(')?;
        let close = stat.rfind(')')?;
        let tid = Tid(stat.get(..open)?.trim().parse().ok()?);
        let comm = stat.get(open + 1..close)?.to_owned();
        // The first field behind the name is number 3.
        let fields: Vec<&str> = stat.get(close + 1..)?.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).copied();
        Some(Thread {
            tid,
            comm,
            kernel: field(9)?.parse::<u64>().ok()? & PF_KTHREAD != 0,
            policy: Policy::from_number(field(41)?.parse().ok()?)?,
            rt_priority: field(40)?.parse().ok()?,
            // task_prio() takes MAX_RT_PRIO off (fs/proc/array.c, do_task_stat).
            prio: field(18)?.parse::<i32>().ok()?.checked_add(100)?,
        })
    }

    /// The same as events name it. `/proc` writes behind the name of a worker what it works for (wq_worker_comm); the name itself
    /// ends before, but of a rescuer, whose name has a dash of its own.
    pub fn task(&self) -> Task {
        let name = self.comm.as_str();
        let worker = self.kernel && name.starts_with("kworker/") && !name.starts_with("kworker/R-");
        let end = if worker { name.find(['-', '+']).unwrap_or(name.len()) } else { name.len() };
        Task {
            tid: self.tid,
            comm: name[..end].into(),
            policy: Some(self.policy),
            prio: Some(self.prio),
            kernel: self.kernel,
        }
    }

    /// Which thread goes first: the higher the sooner. Deadline above real time above fair.
    pub(crate) fn rank(&self) -> u32 {
        match self.policy {
            Policy::Deadline => 100,
            Policy::Fifo | Policy::RoundRobin => self.rt_priority,
            _ => 0,
        }
    }

    /// Whether it is in a class above the fair one.
    pub(crate) fn is_real_time(&self) -> bool {
        self.rank() > 0
    }

    /// `FIFO 50`, `OTHER`: what it was set to, without an inherited priority.
    pub(crate) fn priority_text(&self) -> String {
        match self.policy {
            Policy::Fifo | Policy::RoundRobin => format!("{} {}", self.policy, self.rt_priority),
            policy => policy.to_string(),
        }
    }

    /// The name without the CPU or device behind the slash: `ksoftirqd`, `irq`.
    pub(crate) fn family(&self) -> &str {
        self.comm.split_once('/').map_or(self.comm.as_str(), |(family, _)| family)
    }
}

/// One thread; `None` where there is none of this id.
pub fn thread(root: &Root, tid: Tid) -> Option<Thread> {
    Thread::parse(&root.text(&format!("/proc/{tid}/stat")).ok()?)
}

/// Every thread that may be seen, in the order of process ids.
pub fn threads(root: &Root) -> Result<Vec<Thread>, ReadError> {
    let mut processes: Vec<i32> = numbers(root.names("/proc")?);
    processes.sort_unstable();
    let read = |path: String| root.text(&path).ok().as_deref().and_then(Thread::parse);
    let mut threads = Vec::new();
    for process in processes {
        let Some(leader) = read(format!("/proc/{process}/stat")) else { continue };
        let kernel = leader.kernel;
        threads.push(leader);
        if kernel {
            continue;
        }
        let others = threads_of_process(root, Tid(process)).into_iter().filter(|tid| tid.0 != process);
        threads.extend(others.filter_map(|tid| read(format!("/proc/{process}/task/{tid}/stat"))));
    }
    Ok(threads)
}

/// The threads that a process has now; none where it is gone.
pub fn threads_of_process(root: &Root, process: Tid) -> Vec<Tid> {
    let names = root.names(&format!("/proc/{process}/task"));
    names.map(numbers).unwrap_or_default().into_iter().map(Tid).collect()
}

fn numbers(names: Vec<String>) -> Vec<i32> {
    names.iter().filter_map(|name| name.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, flags: u64, rt_priority: u32, policy: u32) -> String {
        format!(
            "17 ({name}) S 2 0 0 0 -1 {flags} 0 0 0 0 0 0 0 0 -51 0 1 0 3 0 0 18446744073709551615 0 0 0 0 0 0 0 \
             2147483647 0 0 0 0 17 3 {rt_priority} {policy} 0 0 0 0 0 0 0 0 0 0 0\n"
        )
    }

    #[test]
    fn policy_and_priority_are_read_behind_any_name() {
        for name in ["irq/24-ahci", "a) S 1 (b", "", " ) ", "tab\there", "\u{fffd}\u{fffd}"] {
            let thread = Thread::parse(&line(name, PF_KTHREAD | 0x40, 50, 1)).unwrap();
            assert_eq!((thread.comm.as_str(), thread.tid), (name, Tid(17)));
            assert_eq!((thread.policy, thread.rt_priority, thread.kernel), (Policy::Fifo, 50, true));
            assert_eq!(thread.task().priority_text(), "FIFO 50");
        }
        assert!(!Thread::parse(&line("bash", 0x40_0000, 0, 0)).unwrap().kernel);
    }

    #[test]
    fn a_worker_is_named_without_what_it_works_for() {
        let name = |name, flags| Thread::parse(&line(name, flags, 0, 0)).unwrap().task().comm;
        assert_eq!(name("kworker/u4:1-events_unbound", PF_KTHREAD), "kworker/u4:1");
        assert_eq!(name("kworker/0:1H+kblockd", PF_KTHREAD), "kworker/0:1H");
        assert_eq!(name("kworker/R-mm_percpu_wq", PF_KTHREAD), "kworker/R-mm_percpu_wq");
        assert_eq!(name("kworker/x-y", 0), "kworker/x-y");
    }

    #[test]
    fn a_line_that_is_cut_off_gives_no_thread() {
        let whole = line("ksoftirqd/0", PF_KTHREAD, 0, 0);
        let end = whole.find(" 17 3 0 0").unwrap() + " 17 3 0 ".len();
        for cut in 0..end {
            assert_eq!(Thread::parse(&whole[..cut]), None, "{}", &whole[..cut]);
        }
    }
}
