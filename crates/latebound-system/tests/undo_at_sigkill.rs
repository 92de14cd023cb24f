// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process that changes priorities is killed at random moments: every one is as it was, soon.
//!
//! The threads that are changed are the test's own. `LATEBOUND_KILLS=1000` asks for more rounds than the usual few.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says why and panics")]

use std::io::{Read, Write};
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use latebound_model::{Policy, Tid};
use latebound_system::Root;
use latebound_system::undo::{
    Journal, Outcome, Schedule, ThreadIdentity, UndoError, Watchdog, recover, schedule_of,
};

/// Within this everything has to be as it was.
const SOON: Duration = Duration::from_millis(100);
/// What the tests allow to priorities: below the watchdog, and below this thread, which reads the clock.
const WATCHDOG: u32 = 98;

/// For a process that hangs.
const PATIENCE: Duration = Duration::from_secs(1);

fn watchdog(journal: &Journal) -> Result<Watchdog, UndoError> {
    Watchdog::start(journal, None, WATCHDOG, PATIENCE, || {}, |_| {})
}

fn set_own(schedule: Schedule) {
    // SAFETY: sched_attr is plain data; all zero is a valid value.
    let mut attr: libc::sched_attr = unsafe { std::mem::zeroed() };
    attr.size = size_of::<libc::sched_attr>() as u32;
    attr.sched_policy = schedule.policy.number();
    attr.sched_flags = schedule.flags;
    attr.sched_nice = schedule.nice;
    attr.sched_priority = schedule.priority;
    // SAFETY: the pointer is to a live sched_attr that says its own size.
    let answer = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
    assert_eq!(answer, 0, "{schedule}: {}", std::io::Error::last_os_error());
}

/// Threads with these schedules that sleep until the sender is dropped.
fn sleepers(schedules: &[Schedule]) -> (Vec<ThreadIdentity>, Vec<mpsc::Sender<()>>) {
    let mut senders = Vec::new();
    let mut identities = Vec::new();
    for &schedule in schedules {
        let (wake, sleep) = mpsc::channel::<()>();
        let (tell, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            set_own(schedule);
            // SAFETY: no arguments.
            tell.send(Tid(unsafe { libc::gettid() })).unwrap();
            let _ = sleep.recv();
        });
        identities.push(ThreadIdentity::of(&Root::live(), receiver.recv().unwrap()).unwrap());
        senders.push(wake);
    }
    (identities, senders)
}

/// The process that is killed: changes priorities without pause. Never returns; ends by its own clock if nobody kills it.
fn change_without_pause(folder: &Path, threads: &[ThreadIdentity], seed: u64) -> ! {
    // Above whatever else the machine does, so that most kills meet it at work.
    set_own(Schedule::fifo(50));
    let life = || -> Option<()> {
        let mut journal = Journal::create(folder).ok()?;
        let _watchdog = watchdog(&journal).ok()?;
        let mut random = seed;
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(2) {
            random = next(random);
            let thread = threads[(random >> 33) as usize % threads.len()];
            let priority = (random >> 40) as u32 % 12;
            let to = if priority == 0 { Schedule::other(0) } else { Schedule::fifo(priority) };
            journal.change(thread, to).ok()?;
        }
        None
    };
    life();
    // SAFETY: ends the child without what the harness does at its end.
    unsafe { libc::_exit(3) }
}

fn next(random: u64) -> u64 {
    // Knuth, The Art of Computer Programming, volume 2, section 3.3.4, table 1, line 26.
    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
}

#[test]
fn live_sigkill_at_random_moments_leaves_every_priority_as_it_was() {
    let rounds: u32 = std::env::var("LATEBOUND_KILLS").map_or(50, |text| text.parse().unwrap());
    let were = [
        Schedule::other(0),
        Schedule::other(5),
        Schedule::fifo(20),
        Schedule { policy: Policy::RoundRobin, ..Schedule::fifo(30) },
        Schedule { policy: Policy::Batch, ..Schedule::other(-3) },
    ];
    let (threads, _senders) = sleepers(&were);
    // So that the time read is that of the watchdog, and not of this thread's turn to look.
    let own = schedule_of(Tid(0)).unwrap();
    set_own(Schedule::fifo(97));
    let folder = tempfile::TempDir::new().unwrap();
    let mut random = u64::from(std::process::id()) ^ 0x9E37_79B9_7F4A_7C15;
    let (mut changed, mut worst, mut left_over) = (0, Duration::ZERO, 0);
    for round in 0..rounds {
        random = next(random);
        let wait = Duration::from_micros((random >> 40) % 40_000);
        // SAFETY: the child has this thread alone, and calls nothing that another one's lock could hold up but malloc,
        // which glibc makes usable again in a child.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            change_without_pause(folder.path(), &threads, random);
        }
        std::thread::sleep(wait);
        let as_they_were =
            || threads.iter().zip(were).all(|(thread, was)| schedule_of(thread.tid).unwrap() == was);
        changed += u32::from(!as_they_were());
        // SAFETY: a child that is not reaped yet.
        unsafe { libc::kill(child, libc::SIGKILL) };
        let killed = Instant::now();
        // SAFETY: no status is asked for.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        let journal = folder.path().join(format!("{child}.undo"));
        while !as_they_were() && killed.elapsed() < 20 * SOON {
            std::thread::sleep(Duration::from_micros(100));
        }
        let took = killed.elapsed();
        assert!(
            as_they_were(),
            "round {round}, killed after {wait:?}, seed {random}: not restored in {took:?}"
        );
        assert!(took <= SOON, "round {round}, killed after {wait:?}, seed {random}: restored after {took:?}");
        worst = worst.max(took);
        // Killed between the journal and its watchdog: nothing was changed yet, and the next start removes it.
        if journal.exists() {
            left_over += 1;
            let recovered = recover(folder.path()).unwrap();
            let is_empty =
                |outcome: &Outcome| matches!(outcome, Outcome::Undone(undone) if undone.restored == 0);
            assert!(recovered.iter().all(|one| is_empty(&one.outcome)), "{recovered:?}");
        }
        assert!(!journal.exists());
    }
    set_own(own);
    println!(
        "{rounds} kills, {changed} with priorities changed at that moment; all as they were after at most {worst:?}; {left_over} \
         journals without a watchdog"
    );
    assert!(changed * 4 > rounds, "only {changed} of {rounds} kills met a change: the test tests nothing");
}

#[test]
fn live_the_watchdog_outlives_ctrl_c_and_ends_with_a_clean_end() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().to_owned();
    let (threads, _senders) = sleepers(&[Schedule::other(0)]);
    // SAFETY: as above.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let life = || -> Option<()> {
            let mut journal = Journal::create(&path).ok()?;
            let watchdog = watchdog(&journal).ok()?;
            // SAFETY: a child that is not reaped yet.
            unsafe { libc::kill(watchdog.pid() as i32, libc::SIGINT) };
            journal.change(threads[0], Schedule::fifo(5)).ok()?;
            std::thread::sleep(Duration::from_millis(20));
            let alive = watchdog.is_alive();
            let undone = journal.undo();
            watchdog.end();
            (alive && undone.restored == 1).then_some(())
        };
        let status = i32::from(life().is_none());
        // SAFETY: ends the child without what the harness does at its end.
        unsafe { libc::_exit(status) }
    }
    let mut status = 0;
    // SAFETY: the pointer is to a live integer.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0);
    assert_eq!(schedule_of(threads[0].tid).unwrap(), Schedule::other(0));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn live_a_watchdog_is_refused_where_other_threads_run() {
    let folder = tempfile::TempDir::new().unwrap();
    let journal = Journal::create(folder.path()).unwrap();
    let (_threads, _senders) = sleepers(&[Schedule::other(0)]);
    let error = watchdog(&journal).unwrap_err().to_string();
    assert!(error.contains("start it first"), "{error}");
    journal.undo();
}

/// Starts a process with a journal, a watchdog and a thread that is changed, which then does this, and waits for ever. Gives the pids of both.
fn changed_by_another(
    folder: &Path,
    thread: ThreadIdentity,
    then: impl FnOnce(&Journal, &Watchdog),
) -> (libc::pid_t, libc::pid_t) {
    let (mut receiver, tell) = std::io::pipe().unwrap();
    // SAFETY: as above.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let life = || -> Option<()> {
            let mut journal = Journal::create(folder).ok()?;
            let watchdog = watchdog(&journal).ok()?;
            watchdog.beat();
            journal.change(thread, Schedule::fifo(5)).ok()?;
            (&tell).write_all(&watchdog.pid().to_ne_bytes()).ok()?;
            then(&journal, &watchdog);
            None
        };
        life();
        // SAFETY: ends the child without what the harness does at its end.
        unsafe { libc::_exit(0) }
    }
    drop(tell);
    let mut pid = [0; 4];
    receiver.read_exact(&mut pid).unwrap();
    (child, i32::from_ne_bytes(pid))
}

fn for_ever() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn signal(process: libc::pid_t, signal: i32) {
    // SAFETY: takes integers.
    assert_eq!(unsafe { libc::kill(process, signal) }, 0);
}

fn await_so(what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
    started.elapsed()
}

#[test]
fn live_a_process_that_gives_no_beat_is_killed_and_undone() {
    let folder = tempfile::TempDir::new().unwrap();
    let (threads, _senders) = sleepers(&[Schedule::other(0)]);
    let (child, _) = changed_by_another(folder.path(), threads[0], |_, watchdog| {
        // Twice as long as it may be silent.
        for _ in 0..20 {
            watchdog.beat();
            std::thread::sleep(PATIENCE / 10);
        }
        // SAFETY: takes an integer.
        unsafe { libc::raise(libc::SIGSTOP) };
    });
    let is_stopped = || {
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('T')
    };
    await_so("stopped by itself", is_stopped);
    assert_eq!(schedule_of(threads[0].tid).unwrap(), Schedule::fifo(5), "while it gave beats");
    let took = await_so("undone", || schedule_of(threads[0].tid).unwrap() == Schedule::other(0));
    let mut status = 0;
    // SAFETY: the pointer is to a live integer.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL, "{status}");
    assert!(took > PATIENCE / 2, "{took:?}");
    await_so("the journal removed", || std::fs::read_dir(folder.path()).unwrap().count() == 0);
}

#[test]
fn live_the_watchdog_undoes_a_journal_whose_name_was_taken_away() {
    let folder = tempfile::TempDir::new().unwrap();
    let (threads, _senders) = sleepers(&[Schedule::other(0)]);
    let (child, _) = changed_by_another(folder.path(), threads[0], |_, _| for_ever());
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    assert!(recover(folder.path()).unwrap().is_empty());
    assert_eq!(schedule_of(threads[0].tid).unwrap(), Schedule::fifo(5));
    signal(child, libc::SIGKILL);
    await_so("undone", || schedule_of(threads[0].tid).unwrap() == Schedule::other(0));
    // SAFETY: no status is asked for.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
}

#[test]
fn live_a_journal_is_held_until_process_and_watchdog_end_then_undone() {
    let folder = tempfile::TempDir::new().unwrap();
    let (threads, _senders) = sleepers(&[Schedule::other(0)]);
    let (child, watchdog) = changed_by_another(folder.path(), threads[0], |_, _| for_ever());
    let held = || {
        let found = recover(folder.path()).unwrap();
        matches!(&found[..], [one] if matches!(&one.outcome, Outcome::AtWork(Some(owner)) if owner.process.tid.0 == child))
    };
    assert!(held());
    // The watchdog alone holds it as well: stopped, it does not come to undo.
    signal(watchdog, libc::SIGSTOP);
    signal(child, libc::SIGSTOP);
    assert!(held());
    signal(watchdog, libc::SIGKILL);
    await_so("without a watchdog", || {
        let stat = std::fs::read_to_string(format!("/proc/{watchdog}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with('Z'))
    });
    assert!(held());
    signal(child, libc::SIGKILL);
    // SAFETY: no status is asked for.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    assert_eq!(schedule_of(threads[0].tid).unwrap(), Schedule::fifo(5), "nobody is left to undo it");
    let found = recover(folder.path()).unwrap();
    assert!(
        matches!(&found[..], [one] if matches!(&one.outcome, Outcome::Undone(undone) if undone.restored == 1)),
        "{found:?}"
    );
    assert_eq!(schedule_of(threads[0].tid).unwrap(), Schedule::other(0));
}
