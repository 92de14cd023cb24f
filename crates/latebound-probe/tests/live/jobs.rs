// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs of watched threads on the running kernel: the wait between them, their responses, and what they wait for.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

use latebound_model::{Activation, CallObject, Event, EventKind, FileKind, Nanos, Quantity, SleepKind, Tid};
use latebound_probe::{Recorder, RecorderOptions, ThreadSite, Watch};

use crate::plant::{self, Class, MS, US};

fn recorder() -> Recorder {
    let own = Tid(i32::try_from(std::process::id()).unwrap());
    let options =
        RecorderOptions { watch: Watch::Process(own), keep: 5, jobs: true, ..RecorderOptions::default() };
    Recorder::start(options).unwrap()
}

/// A mutex of the C library, which says who holds it.
struct Mutex(Box<std::cell::UnsafeCell<libc::pthread_mutex_t>>);

// SAFETY: a pthread mutex is made for several threads.
unsafe impl Sync for Mutex {}
// SAFETY: it stays where it is, in its box.
unsafe impl Send for Mutex {}

impl Mutex {
    fn new(inherits: bool) -> Mutex {
        let mutex = Mutex(Box::new(std::cell::UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER)));
        // SAFETY: the attributes are made before they are used, and the mutex is not in use yet.
        unsafe {
            let mut attributes: libc::pthread_mutexattr_t = std::mem::zeroed();
            assert_eq!(libc::pthread_mutexattr_init(&raw mut attributes), 0);
            let protocol = if inherits { libc::PTHREAD_PRIO_INHERIT } else { libc::PTHREAD_PRIO_NONE };
            assert_eq!(libc::pthread_mutexattr_setprotocol(&raw mut attributes, protocol), 0);
            assert_eq!(libc::pthread_mutex_init(mutex.0.get(), &raw const attributes), 0);
        }
        mutex
    }

    fn lock(&self) {
        // SAFETY: the mutex was made and is never destroyed while it is used.
        assert_eq!(unsafe { libc::pthread_mutex_lock(self.0.get()) }, 0);
    }

    fn unlock(&self) {
        // SAFETY: this thread holds it.
        assert_eq!(unsafe { libc::pthread_mutex_unlock(self.0.get()) }, 0);
    }
}

/// A loop with a period of 2 ms that spins 200 us in each job, and 5 ms in the one of that number; a lock every 8 jobs. Ends with `stop`.
struct Loop {
    tid: Tid,
    stop: Arc<AtomicBool>,
    overrun: Arc<AtomicU64>,
    thread: std::thread::JoinHandle<()>,
}

impl Loop {
    fn start() -> Loop {
        let (stop, overrun) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(u64::MAX)));
        let (send, receive) = mpsc::channel();
        let thread = {
            let (stop, overrun) = (stop.clone(), overrun.clone());
            std::thread::spawn(move || {
                send.send(plant::become_thread("lb-loop", Class::Fifo(40))).unwrap();
                let mut due = plant::now() + 2 * MS;
                let mut job = 0;
                while !stop.load(Ordering::Relaxed) {
                    plant::sleep_until(due);
                    let work = if job == overrun.load(Ordering::Relaxed) { 5 * MS } else { 200 * US };
                    plant::spin_until(plant::now() + work);
                    job += 1;
                    due += 2 * MS;
                    if overrun.load(Ordering::Relaxed) == u64::MAX - 1 {
                        overrun.store(job + 10, Ordering::Relaxed);
                    }
                }
            })
        };
        Loop { tid: receive.recv().unwrap(), stop, overrun, thread }
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
    }
}

fn pause(millis: u64) {
    std::thread::sleep(std::time::Duration::from_millis(millis));
}

#[test]
fn live_jobs_of_a_loop_are_counted_and_its_overrun_is_reported() {
    let mut recorder = recorder();
    let from = plant::now();
    // A pause may take longer than it is asked to.
    let periods = |from: u64| (plant::now() - from) / (2 * MS) + 1;
    let looping = Loop::start();
    pause(600);
    let sites = recorder.sites().unwrap();
    let most = periods(from);
    let mine: Vec<&ThreadSite> = sites.iter().filter(|site| site.tid == looping.tid).collect();
    let site = mine.iter().max_by_key(|site| site.waits).unwrap_or_else(|| panic!("{sites:?}"));
    assert_eq!(site.site.call.as_deref(), Some("clock_nanosleep"), "{mine:?}");
    assert_eq!(site.site.object, Some(CallObject::Sleep { absolute: true }));
    assert!((150..=most).contains(&site.waits), "{site:?}");
    assert!(site.ended_by_timer * 10 >= site.waits * 9, "{site:?}");
    let (count, mean, deviation) = site.intervals;
    // The times that it asks for have exactly the period between them, however late it is.
    assert!(deviation < Nanos(10 * US), "{site:?}");
    assert!(count + 1 >= site.waits && (1_900_000..2_300_000).contains(&mean.0), "{site:?}");
    assert!(site.slept.0 > site.waits * MS, "{site:?}");
    let most_slept = site.slept_most.0;
    assert!(most_slept * site.waits >= site.slept.0 && most_slept < site.slept.0, "{site:?}");

    let followed = plant::now();
    recorder.follow_jobs(site.tid, &site.site).unwrap();
    recorder.late().unwrap();
    looping.overrun.store(u64::MAX - 1, Ordering::Relaxed);
    pause(600);
    let late = recorder.late().unwrap();
    let tid = looping.tid;
    // Histograms are exact once nothing is counted any more.
    looping.end();
    let most = periods(followed);
    let series = recorder.series();
    assert!(
        recorder.sites().unwrap().iter().all(|site| site.tid != tid),
        "its waits are not counted any more"
    );

    let own: Vec<&Activation> = late.iter().filter(|late| late.runner_tid() == tid).collect();
    assert!(!own.is_empty() && own.iter().all(|late| late.ended_at.is_some()), "{own:?}");
    for job in &own {
        assert!(job.requested_at <= job.started_at && Some(job.started_at) <= job.ended_at, "{job:?}");
    }
    let response = |job: &&&Activation| job.ended_at.unwrap().saturating_sub(job.requested_at);
    let worst = own.iter().max_by_key(response).unwrap();
    assert!(response(&worst) >= Nanos(5 * MS), "{worst:?}");
    // The two jobs behind it were due while it still ran: the kernel's timer did not wake them, their own times say when they were due.
    let behind = own
        .iter()
        .filter(|job| job.requested_at > worst.requested_at && Some(job.requested_at) < worst.ended_at);
    assert!(behind.count() >= 1, "{own:?}");

    let of_thread = |series: &&latebound_model::Series| {
        series.subject.task.as_ref().is_some_and(|task| task.tid == tid)
            && series.quantity == Quantity::Response
    };
    let responses = series.iter().find(of_thread).unwrap();
    assert!((200..=most).contains(&responses.summary.count), "{:?}", responses.summary);
    let median = responses.histogram.quantile(0.5).unwrap();
    assert!((200 * US..MS).contains(&median.0), "{median}");
    assert_eq!(responses.summary.max, Some(response(&worst)));
    assert_eq!(worst.series, responses.id);
    plant::assert_nothing_lost(&recorder.losses());
}

#[test]
fn live_releases_that_a_loop_leaves_out_are_missed_and_late_ones_not() {
    let mut recorder = recorder();
    let (send, receive) = mpsc::channel();
    let (go, told) = mpsc::channel();
    let looping = std::thread::spawn(move || {
        send.send(plant::become_thread("lb-loop", Class::Fifo(40))).unwrap();
        let mut due = plant::now() + 2 * MS;
        let mut left = u64::MAX;
        while left > 0 {
            plant::sleep_until(due);
            if told.try_recv().is_ok() {
                left = 100;
            }
            // One job of three periods, which later ones make up for; and three releases that have none.
            plant::spin_until(plant::now() + if left == 80 { 6 * MS } else { 100 * US });
            due += if left == 40 { 4 } else { 1 } * 2 * MS;
            left -= 1;
        }
    });
    let tid = receive.recv().unwrap();
    pause(300);
    let sites = recorder.sites().unwrap();
    let site = sites.iter().filter(|site| site.tid == tid).max_by_key(|site| site.waits).unwrap();
    recorder.follow_jobs(tid, &site.site).unwrap();
    assert_eq!(recorder.missed(tid), None, "no period is known");
    recorder.count_missed(tid, Nanos(2 * MS)).unwrap();
    go.send(()).unwrap();
    looping.join().unwrap();
    assert_eq!((recorder.missed(tid), recorder.missed(Tid(1))), (Some(3), None));
    plant::assert_nothing_lost(&recorder.losses());
}

#[test]
fn live_programs_of_jobs_are_loaded_for_jobs_alone() {
    let programs = |jobs: bool| -> Vec<String> {
        let recorder = Recorder::start(RecorderOptions { jobs, ..RecorderOptions::default() }).unwrap();
        recorder.cost().programs.into_iter().map(|program| program.program).collect()
    };
    let (with, without) = (programs(true), programs(false));
    let of_jobs = |name: &&String| {
        [
            "on_call_entry",
            "on_call_exit",
            "on_fault_",
            "on_contention_",
            "on_reclaim_",
            "on_group_reclaim_",
            "on_signal",
            "on_block_",
        ]
        .iter()
        .any(|of| name.starts_with(of))
    };
    assert!(with.iter().filter(of_jobs).count() >= 2, "{with:?}");
    assert_eq!(without.iter().find(of_jobs), None);
    let others: Vec<&String> = with.iter().filter(|name| !of_jobs(name)).collect();
    assert_eq!(others.len(), without.len(), "{with:?} {without:?}");
}

#[test]
fn live_jobs_end_with_the_name_that_a_thread_is_watched_by() {
    let options =
        RecorderOptions { watch: Watch::Comm("lb-loop".into()), jobs: true, ..RecorderOptions::default() };
    let recorder = Recorder::start(options).unwrap();
    let sleeps = |name: &str| {
        let tid = plant::become_thread(name, Class::Nice(0));
        let from = plant::now();
        (0..5).for_each(|_| plant::sleep_until(plant::now() + MS));
        (tid, from, plant::now())
    };
    let thread = std::thread::spawn(move || [sleeps("lb-loop"), sleeps("lb-loops"), sleeps("lb-loop")]);
    let times = thread.join().unwrap();
    let calls = |(tid, from, to): (Tid, u64, u64)| {
        let events = recorder.events_of_all(Nanos(from), Nanos(to)).unwrap();
        let is_sleep = |event: &&Event| {
            event.current == Some(tid)
                && matches!(&event.kind, EventKind::SystemCallEntry { call, .. } if call == "clock_nanosleep")
        };
        events.iter().filter(is_sleep).count()
    };
    assert_eq!(times.map(calls), [5, 0, 5]);
    // Those between are not counted as waits either.
    let sites = recorder.sites().unwrap();
    let is_sleep = |site: &&ThreadSite| {
        site.tid == times[0].0 && site.site.object == Some(CallObject::Sleep { absolute: true })
    };
    let site = sites.iter().find(is_sleep).unwrap_or_else(|| panic!("{sites:?}"));
    assert!((1..=10).contains(&site.waits), "{sites:?}");
}

/// The events from the moment at which a thread waits for a lock that another one holds for 5 ms, until it has it.
fn wait_for_a_lock(inherits: bool) -> (Vec<Event>, Tid, Tid) {
    let recorder = recorder();
    let mutex = Arc::new(Mutex::new(inherits));
    let (send, receive) = mpsc::channel();
    let (about_to_wait, waits) = mpsc::channel();
    let holder = {
        let mutex = mutex.clone();
        std::thread::spawn(move || {
            let tid = plant::become_thread("lb-holder", Class::Nice(0));
            // Once, so that the recorder knows the thread.
            plant::sleep_until(plant::now() + MS);
            mutex.lock();
            send.send(tid).unwrap();
            // In an emulated machine the waiter can take longer than the 5 ms to start.
            waits.recv().unwrap();
            plant::sleep_until(plant::now() + 5 * MS);
            mutex.unlock();
        })
    };
    let holder_tid = receive.recv().unwrap();
    let waiter = std::thread::spawn(move || {
        let tid = plant::become_thread("lb-waiter", Class::Fifo(40));
        about_to_wait.send(()).unwrap();
        let from = plant::now();
        mutex.lock();
        let to = plant::now();
        mutex.unlock();
        (tid, from, to)
    });
    let (tid, from, to) = waiter.join().unwrap();
    holder.join().unwrap();
    let events = recorder.events_of_all(Nanos(from), Nanos(to)).unwrap();
    (events, tid, holder_tid)
}

#[test]
fn live_the_holder_of_a_lock_is_known_with_and_without_inheritance() {
    for inherits in [false, true] {
        let (events, waiter, holder) = wait_for_a_lock(inherits);
        let waits = |event: &&Event| {
            event.current == Some(waiter)
                && matches!(&event.kind, EventKind::SystemCallEntry { call, object: Some(CallObject::Futex { .. }) } if call == "futex")
        };
        let entry = events.iter().find(waits).unwrap_or_else(|| panic!("{events:#?}"));
        let EventKind::SystemCallEntry { object: Some(object), .. } = &entry.kind else { unreachable!() };
        let CallObject::Futex { inherits: seen, owner, .. } = *object else { unreachable!() };
        assert_eq!((seen, owner), (inherits, Some(holder)));
        let sleeps = |event: &&Event| matches!(&event.kind, EventKind::SwitchedOut { tid, sleep: SleepKind::Plain, call } if *tid == waiter && call.as_deref() == Some("futex"));
        assert!(events.iter().any(|event| sleeps(&event)), "{events:#?}");
    }
}

#[test]
fn live_waits_for_a_pipe_and_a_page_fault_are_seen_with_what_they_are_of() {
    let recorder = recorder();
    let mut ends = [0; 2];
    // SAFETY: the array takes two descriptors.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    let reader = std::thread::spawn(move || {
        let tid = plant::become_thread("lb-reader", Class::Nice(0));
        let from = plant::now();
        let mut byte = [0u8];
        // SAFETY: the buffer has the byte that is asked for.
        assert_eq!(unsafe { libc::read(ends[0], byte.as_mut_ptr().cast(), 1) }, 1);
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        // SAFETY: a new mapping of one page, of which one byte is read and which is given back.
        unsafe {
            let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
            let page = libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, libc::MAP_PRIVATE, fd, 0);
            assert_ne!(page, libc::MAP_FAILED);
            std::hint::black_box(page.cast::<u8>().read_volatile());
            libc::munmap(page, 4096);
        }
        (tid, from, plant::now())
    });
    pause(20);
    // SAFETY: one byte is written.
    assert_eq!(unsafe { libc::write(ends[1], [1u8].as_ptr().cast(), 1) }, 1);
    let (tid, from, to) = reader.join().unwrap();
    let events = recorder.events_of_all(Nanos(from), Nanos(to)).unwrap();
    let own = || events.iter().filter(|event| event.current == Some(tid));
    let entry = own().find_map(|event| match &event.kind {
        EventKind::SystemCallEntry { call, object } if call == "read" => *object,
        _ => None,
    });
    assert_eq!(entry, Some(CallObject::File { fd: ends[0], kind: FileKind::Pipe }));
    let slept = own().any(|event| {
        matches!(&event.kind, EventKind::SwitchedOut { tid: whose, call: Some(call), .. } if *whose == tid && call == "read")
    });
    assert!(slept, "{events:#?}");
    // A kernel without function tracing lets no program in there, and says so.
    if recorder.missing().iter().any(|missing| missing.what.starts_with("page faults")) {
        let is_fault = |event: &&Event| matches!(event.kind, EventKind::PageFaultEntry { .. });
        assert!(!own().any(|event| is_fault(&event)));
        return;
    }
    let exe = std::fs::read_link("/proc/self/exe").unwrap();
    let name: String = exe.file_name().unwrap().to_string_lossy().chars().take(23).collect();
    let fault = own().any(
        |event| matches!(&event.kind, EventKind::PageFaultEntry { mapping, .. } if name.starts_with(mapping) && !mapping.is_empty()),
    );
    assert!(fault, "no fault of {name}: {events:#?}");
    assert!(own().any(|event| matches!(event.kind, EventKind::PageFaultExit { .. })));
}

/// One call of futex(2) with a word of this process.
fn futex(word: &AtomicU32, operation: i32, value: u32) {
    // SAFETY: the word outlives the call, which reads no other memory: there is no time to wait until.
    unsafe {
        let none = std::ptr::null::<libc::timespec>();
        libc::syscall(libc::SYS_futex, word.as_ptr(), operation | libc::FUTEX_PRIVATE_FLAG, value, none);
    }
}

#[test]
fn live_a_thread_that_wakes_where_it_waits_completes_one_job_a_wait() {
    const JOBS: u64 = 100;
    let mut recorder = recorder();
    let (word, stop) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
    let (send, receive) = mpsc::channel();
    let worker = {
        let (word, stop) = (word.clone(), stop.clone());
        std::thread::spawn(move || {
            send.send(plant::become_thread("lb-worker", Class::Fifo(40))).unwrap();
            while !stop.load(Ordering::Relaxed) {
                futex(&word, libc::FUTEX_WAIT, 0);
                word.store(0, Ordering::Relaxed);
                plant::spin_until(plant::now() + 100 * US);
                // Nobody else waits there, as in a program that says that there is room again.
                futex(&word, libc::FUTEX_WAKE, 1);
            }
        })
    };
    let tid = receive.recv().unwrap();
    let release = || {
        pause(2);
        word.store(1, Ordering::Relaxed);
        futex(&word, libc::FUTEX_WAKE, 1);
    };
    (0..50).for_each(|_| release());
    let sites = recorder.sites().unwrap();
    let mine = sites.iter().filter(|site| site.tid == tid).max_by_key(|site| site.waits);
    let site = mine.unwrap_or_else(|| panic!("{sites:?}"));
    let address = word.as_ptr() as u64;
    let object = CallObject::Futex { address, inherits: false, owner: None };
    assert_eq!((site.site.call.as_deref(), site.site.object), (Some("futex"), Some(object)));
    recorder.follow_jobs(site.tid, &site.site).unwrap();
    (0..JOBS).for_each(|_| release());
    stop.store(true, Ordering::Relaxed);
    release();
    worker.join().unwrap();
    let of_thread = |series: &&latebound_model::Series| {
        series.subject.task.as_ref().is_some_and(|task| task.tid == tid)
            && series.quantity == Quantity::Response
    };
    let series = recorder.series();
    let count = series.iter().find(of_thread).unwrap().summary.count;
    assert!((JOBS - 10..=JOBS + 5).contains(&count), "{count} jobs");
}

#[test]
fn live_jobs_that_did_not_have_to_wait_are_released_at_a_time_unknown() {
    const AT_ONCE: u64 = 20;
    let mut recorder = recorder();
    let mut ends = [0; 2];
    // SAFETY: the array takes two descriptors.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    let write = |bytes: &[u8]| {
        // SAFETY: as many bytes are written as there are.
        let written = unsafe { libc::write(ends[1], bytes.as_ptr().cast(), bytes.len()) };
        assert_eq!(usize::try_from(written).unwrap(), bytes.len());
    };
    let (send, receive) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        send.send(plant::become_thread("lb-reader", Class::Fifo(40))).unwrap();
        let mut byte = [1u8];
        while byte[0] != 0 {
            // SAFETY: the buffer has the byte that is asked for.
            assert_eq!(unsafe { libc::read(ends[0], byte.as_mut_ptr().cast(), 1) }, 1);
        }
    });
    let tid = receive.recv().unwrap();
    for _ in 0..10 {
        pause(2);
        write(&[1]);
    }
    pause(2);
    let sites = recorder.sites().unwrap();
    let is_pipe = |site: &&ThreadSite| site.tid == tid && site.site.call.as_deref() == Some("read");
    let site = sites.iter().find(is_pipe).unwrap_or_else(|| panic!("{sites:?}"));
    recorder.follow_jobs(site.tid, &site.site).unwrap();
    // One that waits, so that the place is met; then many at once: the first of them wakes, the others are there.
    write(&[1]);
    pause(5);
    let before = recorder.unknown_releases(tid);
    let mut burst = vec![1u8; 1 + usize::try_from(AT_ONCE).unwrap()];
    burst.push(0);
    write(&burst);
    reader.join().unwrap();
    // The last byte is read without a wait as well.
    assert_eq!((before, recorder.unknown_releases(tid)), (0, AT_ONCE + 1));
    assert_eq!(recorder.unknown_releases(Tid(1)), 0);
    plant::assert_nothing_lost(&recorder.losses());
}

/// From 7.0 on who makes calls can be preempted within the programs at them, and the kernel does not begin those anew on that CPU.
#[test]
fn live_jobs_that_preempt_who_makes_calls_are_all_counted() {
    const JOBS: u64 = 1_000;
    let mut recorder = recorder();
    let stop = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..2)
        .map(|_| {
            let stop = stop.clone();
            std::thread::spawn(move || {
                plant::become_thread("lb-caller", Class::Nice(0));
                while !stop.load(Ordering::Relaxed) {
                    // SAFETY: takes nothing and changes nothing.
                    unsafe { libc::syscall(libc::SYS_getppid) };
                }
            })
        })
        .collect();
    let (send, receive) = mpsc::channel();
    let (go, told) = mpsc::channel();
    let looping = std::thread::spawn(move || {
        send.send(plant::become_thread("lb-loop", Class::Fifo(40))).unwrap();
        let mut due = plant::now() + MS;
        let mut left = u64::MAX;
        while left > 0 {
            plant::sleep_until(due);
            if told.try_recv().is_ok() {
                left = JOBS;
            }
            plant::spin_until(plant::now() + 20 * US);
            due += MS;
            left -= 1;
        }
        plant::now()
    });
    let tid = receive.recv().unwrap();
    pause(300);
    let sites = recorder.sites().unwrap();
    let site = sites.iter().filter(|site| site.tid == tid).max_by_key(|site| site.waits).unwrap();
    recorder.follow_jobs(tid, &site.site).unwrap();
    go.send(()).unwrap();
    // As a tool does that looks at once, and is preempted in calls that touch maps.
    while !looping.is_finished() {
        recorder.sites().unwrap();
        pause(1);
    }
    let ended = looping.join().unwrap();
    stop.store(true, Ordering::Relaxed);
    callers.into_iter().for_each(|caller| caller.join().unwrap());
    let of_thread = |series: &&latebound_model::Series| {
        series.subject.task.as_ref().is_some_and(|task| task.tid == tid)
            && series.quantity == Quantity::Response
    };
    let count = recorder.series().iter().find(of_thread).unwrap().summary.count;
    println!("{count} of {JOBS} jobs; {:?}", recorder.losses());
    // The first one that counts is the next, and the last one ends with the thread.
    assert!((JOBS - 2..JOBS + 50).contains(&count), "{count} jobs");
    // Each call is there once, whichever of two programs saw it.
    let events = recorder.events_of_all(Nanos(ended - 10 * MS), Nanos(ended)).unwrap();
    let sleeps = |event: &&Event| {
        event.current == Some(tid)
            && matches!(&event.kind, EventKind::SystemCallEntry { call, .. } if call == "clock_nanosleep")
    };
    let calls = events.iter().filter(sleeps).count();
    println!("{calls} calls in the last 10 ms");
    assert!((5..=11).contains(&calls), "{calls} calls");
    assert!(recorder.missing().iter().all(|missing| !missing.what.contains("system calls")));
}
