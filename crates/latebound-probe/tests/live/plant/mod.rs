// SPDX-License-Identifier: MIT OR Apache-2.0
//! Helpers to plant delays: threads on a CPU with a policy, clocks, and a watched sleeper. Raw libc, nothing clever: every
//! loop ends by its own clock.

use std::sync::mpsc;
use std::thread::JoinHandle;

use latebound_analysis::{KernelFacts, explain};
use latebound_model::{
    Activation, CauseKind, Cpu, Explanation, FairServer, Loss, LossKind, Mechanism, Nanos, Task, Tid,
};
use latebound_probe::Recorder;

/// The CPU that is planted on: CPU 0 stays free for everybody else, unless it is the only one.
pub(crate) fn cpu() -> Cpu {
    Cpu(u32::from(possible_cpus() > 1))
}

/// How many CPUs the kernel is made ready for.
pub(crate) fn possible_cpus() -> usize {
    // SAFETY: asks for a number.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }).unwrap()
}

/// Where [`folder`] makes folders in a guest, whose other file systems have no disk.
pub(crate) const DISK: &str = "LATEBOUND_TEST_DISK";

/// Whether this is a guest of the lab.
pub(crate) fn is_in_guest() -> bool {
    std::env::var_os(DISK).is_some()
}

/// On a file system with a disk, which that of /tmp need not be: below the build folder.
pub(crate) fn folder() -> tempfile::TempDir {
    let place = std::env::var_os(DISK).unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into());
    tempfile::TempDir::new_in(place).unwrap()
}

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const US: u64 = 1_000;

/// `CLOCK_MONOTONIC` now.
pub(crate) fn now() -> u64 {
    latebound_syscall::clock::now().0
}

/// Sleeps until this moment of `CLOCK_MONOTONIC`.
pub(crate) fn sleep_until(at: u64) {
    let time = libc::timespec { tv_sec: (at / 1_000_000_000) as i64, tv_nsec: (at % 1_000_000_000) as i64 };
    // SAFETY: reads a timespec that is ours; no remainder is asked for.
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &time, std::ptr::null_mut()) };
}

/// Keeps the CPU busy until this moment.
pub(crate) fn spin_until(at: u64) {
    while now() < at {
        std::hint::spin_loop();
    }
}

/// How a planted thread is scheduled.
#[derive(Clone, Copy)]
pub(crate) enum Class {
    Fifo(i32),
    Nice(i32),
}

/// Turns the calling thread into one of this name and class on [`cpu`]; gives its thread id.
pub(crate) fn become_thread(name: &str, class: Class) -> Tid {
    let mut comm = [0u8; 16];
    comm[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: sched and prctl calls on the calling thread with values that are ours; each result is checked.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NAME, comm.as_ptr()), 0);
        assert_eq!(libc::prctl(libc::PR_SET_TIMERSLACK, 1), 0);
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu().0 as usize, &mut set);
        let pinned = libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
        assert_eq!(pinned, 0, "CPU {} is needed: {}", cpu(), std::io::Error::last_os_error());
        match class {
            Class::Fifo(sched_priority) => {
                let param = libc::sched_param { sched_priority };
                let set = libc::sched_setscheduler(0, libc::SCHED_FIFO, &param);
                assert_eq!(set, 0, "SCHED_FIFO is needed, run as root: {}", std::io::Error::last_os_error());
            }
            Class::Nice(nice) => assert_eq!(libc::setpriority(libc::PRIO_PROCESS, 0, nice), 0),
        }
        Tid(libc::gettid())
    }
}

/// Raises the limit of open files as far as this process may; gives it.
pub(crate) fn raise_open_files() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes to and reads a limit that is ours.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
        limit.rlim_cur = limit.rlim_max.min(1 << 20);
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0, "{}", std::io::Error::last_os_error());
    }
    usize::try_from(limit.rlim_cur).unwrap()
}

/// A descriptor that is always ready to be read. It lives as long as the process.
pub(crate) fn ready_descriptor() -> i32 {
    // SAFETY: makes a descriptor of its own.
    let event = unsafe { libc::eventfd(1, libc::EFD_CLOEXEC) };
    assert!(event >= 0, "{}", std::io::Error::last_os_error());
    event
}

/// An epoll descriptor that waits for another one.
pub(crate) fn epoll_of(other: i32) -> i32 {
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
    // SAFETY: makes a descriptor of its own and reads an event that is ours.
    unsafe {
        let epoll = libc::epoll_create1(libc::EPOLL_CLOEXEC);
        assert!(epoll >= 0, "{}", std::io::Error::last_os_error());
        let added = libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, other, &mut event);
        assert_eq!(added, 0, "{}", std::io::Error::last_os_error());
        epoll
    }
}

/// Requests and starts of a sleeper, by its own clock.
pub(crate) type Wakeups = Vec<(u64, u64)>;

/// A thread that sleeps until each of these moments in turn. Its id is known when this returns.
pub(crate) fn sleeper(class: Class, expiries: Vec<u64>) -> (Tid, JoinHandle<Wakeups>) {
    let (send, receive) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        send.send(become_thread("lb-sleeper", class)).unwrap();
        let mut wakeups = Vec::with_capacity(expiries.len());
        for expiry in expiries {
            sleep_until(expiry);
            wakeups.push((expiry, now()));
        }
        wakeups
    });
    (receive.recv().unwrap(), thread)
}

/// A thread that sleeps again and again for so long, until this moment.
pub(crate) fn restless_sleeper(class: Class, nap: u64, until: u64) -> (Tid, JoinHandle<Wakeups>) {
    let (send, receive) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        send.send(become_thread("lb-sleeper", class)).unwrap();
        let mut wakeups = Vec::new();
        while now() < until {
            let expiry = now() + nap;
            sleep_until(expiry);
            wakeups.push((expiry, now()));
        }
        wakeups
    });
    (receive.recv().unwrap(), thread)
}

/// What is known of this kernel without asking anything that may be denied.
pub(crate) fn facts() -> KernelFacts {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|word| word.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    let server = FairServer { runtime: Nanos::from_millis(50), period: Nanos::from_secs(1), read: false };
    KernelFacts { fair_server: (version >= (6, 12)).then_some(server), ..KernelFacts::default() }
}

/// Explains one wake-up of a watched thread from the recorder's events.
pub(crate) fn explained(recorder: &Recorder, tid: Tid, wakeup: (u64, u64)) -> Explanation {
    let (requested_at, started_at) = (Nanos(wakeup.0), Nanos(wakeup.1));
    let events =
        recorder.events_of_all(requested_at.saturating_sub(Nanos::from_millis(10)), started_at).unwrap();
    let late = Activation::of_thread(
        "planted".into(),
        Mechanism::TimerWakeup,
        Task { tid, comm: "lb-sleeper".into(), ..Task::default() },
        cpu(),
        requested_at,
        started_at,
    );
    let explanation = explain(&late, &events, &facts());
    assert!(explanation.adds_up());
    explanation
}

/// How much of an explanation goes to what a shared machine adds anywhere: handlers, a virtual CPU that stood still, the
/// ways in and out of the kernel.
pub(crate) fn machine_share(explanation: &Explanation) -> u64 {
    use CauseKind::{
        IdleExit, Interrupt, InterruptDelayed, Nmi, ReturnToUser, Scheduler, Softirq, Stolen, TimerInterrupt,
    };
    [Interrupt, Softirq, Nmi, Stolen, ReturnToUser, Scheduler, IdleExit, InterruptDelayed, TimerInterrupt]
        .into_iter()
        .map(|kind| kind_share(explanation, kind))
        .sum()
}

/// How much of an explanation goes to a cause of this kind and name; 0 where it has none.
pub(crate) fn share(explanation: &Explanation, kind: CauseKind, subject: &str) -> u64 {
    let matching = explanation.causes.iter().filter(|cause| cause.kind == kind && cause.subject == subject);
    matching.map(|cause| cause.duration.0).sum()
}

/// How much goes to this kind, whatever the name.
pub(crate) fn kind_share(explanation: &Explanation, kind: CauseKind) -> u64 {
    explanation.causes.iter().filter(|cause| cause.kind == kind).map(|cause| cause.duration.0).sum()
}

/// The table of an explanation, for failures.
pub(crate) fn table(explanation: &Explanation) -> String {
    let mut out = format!("latency {} {:?}\n", explanation.latency(), explanation.task);
    for cause in &explanation.causes {
        let task = cause.task.as_ref().map(Task::priority_text).unwrap_or_default();
        let name = cause.kind.name();
        out += &format!("  {:>9}  {name} {} {task} {:?}\n", cause.duration, cause.subject, cause.detail);
        for frame in cause.stack.iter().flat_map(|stack| &stack.0) {
            out += &format!("               {frame}\n");
        }
    }
    out + &format!("  {:?} {:?}\n", explanation.signatures, explanation.losses)
}

/// Fails where more than 2 % of what these explanations explain is unaccounted.
pub(crate) fn assert_accounted(explanations: &[Explanation]) {
    let total: u64 = explanations.iter().map(|explanation| explanation.latency().0).sum();
    let unaccounted: u64 = explanations.iter().map(|explanation| explanation.unaccounted().0).sum();
    let shown: String = explanations.iter().take(3).map(table).collect();
    assert!(unaccounted * 50 < total, "{unaccounted} of {total} ns are unaccounted\n{shown}");
    println!("{} explained, {unaccounted} of {total} ns unaccounted", explanations.len());
}

/// Whether a program may be preempted, and then be skipped where it would begin on that CPU meanwhile: with PREEMPT_RT a thread expires
/// timers of normal tasks, and an interrupt begins the same programs (kernel/trace/bpf_trace.c, `__bpf_trace_run`, 6.12); from 7.0 on a
/// trace point leaves preemption on.
fn may_be_preempted() -> bool {
    let real_time = std::fs::read_to_string("/sys/kernel/realtime").is_ok_and(|text| text.trim() == "1");
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    real_time || release.split('.').next().unwrap().parse::<u32>().unwrap() >= 7
}

/// How often programs were skipped, which the probe counts; and that nothing else was lost.
pub(crate) fn skipped(losses: &[Loss]) -> u64 {
    let (skipped, lost): (Vec<_>, Vec<_>) =
        losses.iter().partition(|loss| loss.kind == LossKind::ProgramSkipped && loss.count.is_some());
    assert!(lost.is_empty(), "{lost:#?}");
    skipped.iter().filter_map(|loss| loss.count).sum()
}

/// So many wake-ups of watched threads may have no event in a test: a kernel below a hypervisor agent shows up to 0.4 % of its switches neither
/// to BPF nor to ftrace, and a test has some thousand wake-ups at most.
const UNSEEN: u64 = 10;

/// So many programs may be skipped in a test where programs may be preempted, of thousands that run: a guest of 7.3 with one CPU had 19.
const SKIPPED: u64 = 40;

/// That nothing was lost, but for a few programs where they may be preempted, and a few wake-ups that the kernel does not show.
pub(crate) fn assert_nothing_lost(losses: &[Loss]) {
    let is_unseen = |loss: &&Loss| {
        loss.kind == LossKind::Unpaired
            && loss.place.starts_with("flight recorder, wake-ups of watched threads")
    };
    let unseen: u64 = losses.iter().filter(is_unseen).filter_map(|loss| loss.count).sum();
    assert!(unseen <= UNSEEN, "{losses:#?}");
    let others: Vec<Loss> = losses.iter().filter(|loss| !is_unseen(loss)).cloned().collect();
    let skips = skipped(&others);
    assert!(skips == 0 || skips <= SKIPPED && may_be_preempted(), "{losses:#?}");
}

/// A sender and a crowd of UDP receivers on loopback, all of one port, that hear every broadcast.
pub(crate) struct Crowd {
    sender: std::net::UdpSocket,
    port: u16,
    receivers: std::sync::Mutex<Vec<i32>>,
}

impl Crowd {
    pub(crate) fn new() -> Crowd {
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.set_broadcast(true).unwrap();
        let crowd = Crowd { sender, port: 0, receivers: Vec::new().into() };
        // The first receiver's port is everybody's.
        let first = Crowd::receiver(0);
        let mut address: libc::sockaddr_in = unsafe_zeroed();
        let mut length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        // SAFETY: writes to an address that is ours.
        let got = unsafe { libc::getsockname(first, std::ptr::from_mut(&mut address).cast(), &mut length) };
        assert_eq!(got, 0);
        crowd.receivers.lock().unwrap().push(first);
        Crowd { port: u16::from_be(address.sin_port), ..crowd }
    }

    fn receiver(port: u16) -> i32 {
        let mut address: libc::sockaddr_in = unsafe_zeroed();
        address.sin_family = libc::AF_INET as libc::sa_family_t;
        address.sin_port = port.to_be();
        let on = 1i32;
        let small = 1i32;
        // SAFETY: socket calls with values that are ours, each checked. The descriptors live as long as the process.
        unsafe {
            let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
            assert!(socket >= 0, "a socket: {}", std::io::Error::last_os_error());
            for (option, value) in [(libc::SO_REUSEADDR, &on), (libc::SO_RCVBUF, &small)] {
                let set =
                    libc::setsockopt(socket, libc::SOL_SOCKET, option, std::ptr::from_ref(value).cast(), 4);
                assert_eq!(set, 0);
            }
            let bound = libc::bind(
                socket,
                std::ptr::from_ref(&address).cast(),
                size_of::<libc::sockaddr_in>() as libc::socklen_t,
            );
            assert_eq!(bound, 0, "binding: {}", std::io::Error::last_os_error());
            socket
        }
    }

    /// Makes it so many.
    pub(crate) fn grow(&self, receivers: usize) {
        let mut all = self.receivers.lock().unwrap();
        while all.len() < receivers {
            all.push(Crowd::receiver(self.port));
        }
    }

    /// Sends one datagram to all, and tells how long that took.
    pub(crate) fn shout_for(&self) -> u64 {
        let from = now();
        self.sender.send_to(b"x", ("127.255.255.255", self.port)).unwrap();
        now() - from
    }
}

fn unsafe_zeroed() -> libc::sockaddr_in {
    // SAFETY: an address of zeros is a valid one.
    unsafe { std::mem::zeroed() }
}
