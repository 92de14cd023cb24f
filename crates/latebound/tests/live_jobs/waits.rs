// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plants of a real-time thread that need nothing but its own process: its own code and sleeps, locks, pipes, sockets, signals, memory.

use std::cell::UnsafeCell;
use std::fs::File;
use std::io::{Read, Write};
use std::process::Command;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use latebound_model::{CauseKind, WaitThrough};

use crate::plants::{Expected, Plant, Took, calls, plant, runs_first, stretch, via};
use crate::program::{
    Helper, LONG, MS, Other, STOPPED, become_thread, cpus, longest_gap, longest_gap_while_running, nap, now,
    own_cpu_time, pipe, run_undisturbed_for, spin, use_cpu,
};

/// What is to be the cause of each plant's time.
pub(crate) const EXPECTED: &[Expected] = &[
    ("own code", |cause| cause.kind == CauseKind::OwnCode && cause.via.is_empty()),
    ("sleep", |cause| cause.kind == CauseKind::OwnSleep && cause.via.is_empty()),
    ("lock", |cause| via(cause, "holder", &[WaitThrough::Futex]) || calls(cause, &["futex"])),
    ("lent lock", |cause| via(cause, "lent", &[WaitThrough::PiFutex]) || calls(cause, &["futex"])),
    ("rwlock", |cause| via(cause, "rwholder", &[WaitThrough::Futex]) || calls(cause, &["futex"])),
    ("pipe", |cause| via(cause, "server", &[WaitThrough::Pipe]) || calls(cause, &["write", "read"])),
    ("inversion", |cause| via(cause, "slow server", &[WaitThrough::Pipe]) && runs_first(cause, "between")),
    ("socket", |cause| via(cause, "peer", &[WaitThrough::Socket]) || calls(cause, &["sendto", "recvfrom"])),
    ("eventfd", |cause| via(cause, "notifier", &[WaitThrough::EventFd]) || calls(cause, &["write", "read"])),
    ("first", |cause| runs_first(cause, "first") && cause.via.is_empty()),
    ("signal", |cause| cause.kind == CauseKind::SignalHandler),
    ("pause", |cause| via(cause, "collector", &[WaitThrough::Futex])),
    // It has the name of its parent until it runs the other program.
    ("child", |cause| {
        let of_child = |name: &str| name == "sleep" || name == "control";
        let chain = [WaitThrough::Child, WaitThrough::SystemCall, WaitThrough::Pipe];
        via(cause, "sleep", &chain)
            || via(cause, "control", &chain)
            || (cause.kind == CauseKind::TaskFirst && of_child(&cause.subject))
            || calls(cause, &["clone3", "wait4", "pipe2", "read", "close"])
    }),
    ("stop", |cause| cause.kind == CauseKind::Stopped),
    ("fault", |cause| cause.kind == CauseKind::PageFault && cause.subject.starts_with("minor")),
    ("mmap_lock", |cause| via(cause, "mapper", &[WaitThrough::KernelLock])),
    // The kernel lets ordinary threads have a part of each second, by its fair server or by throttling real-time threads.
    ("starved", |cause| cause.kind == CauseKind::Throttled && cause.via.is_empty()),
    ("there", |cause| runs_first(cause, "there") && cause.via.is_empty()),
];

/// A lock of the C library.
struct PthreadMutex(Box<UnsafeCell<libc::pthread_mutex_t>>);

// SAFETY: a pthread mutex is made for several threads.
unsafe impl Sync for PthreadMutex {}
// SAFETY: it stays where it is, in its box.
unsafe impl Send for PthreadMutex {}

impl PthreadMutex {
    fn new(protocol: i32) -> PthreadMutex {
        let mutex = PthreadMutex(Box::new(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER)));
        // SAFETY: the attributes are made before they are used, and the mutex is not in use yet.
        unsafe {
            let mut attributes: libc::pthread_mutexattr_t = std::mem::zeroed();
            assert_eq!(libc::pthread_mutexattr_init(&raw mut attributes), 0);
            assert_eq!(libc::pthread_mutexattr_setprotocol(&raw mut attributes, protocol), 0);
            assert_eq!(libc::pthread_mutex_init(mutex.0.get(), &raw const attributes), 0);
        }
        mutex
    }
}

/// A lock for readers and a writer of the C library.
struct PthreadRwlock(Box<UnsafeCell<libc::pthread_rwlock_t>>);

// SAFETY: as a mutex.
unsafe impl Sync for PthreadRwlock {}
// SAFETY: as a mutex.
unsafe impl Send for PthreadRwlock {}

/// What is held while something is done.
trait Held: Send + Sync + 'static {
    fn held(&self, work: impl FnOnce());
}

impl Held for PthreadMutex {
    fn held(&self, work: impl FnOnce()) {
        // SAFETY: the mutex was made and is never destroyed.
        assert_eq!(unsafe { libc::pthread_mutex_lock(self.0.get()) }, 0);
        work();
        // SAFETY: this thread holds it.
        assert_eq!(unsafe { libc::pthread_mutex_unlock(self.0.get()) }, 0);
    }
}

impl Held for PthreadRwlock {
    fn held(&self, work: impl FnOnce()) {
        // SAFETY: the lock is whole from the start and is never destroyed.
        assert_eq!(unsafe { libc::pthread_rwlock_wrlock(self.0.get()) }, 0);
        work();
        // SAFETY: this thread holds it.
        assert_eq!(unsafe { libc::pthread_rwlock_unlock(self.0.get()) }, 0);
    }
}

/// Somebody of low priority who holds a lock when it is asked for, and works for half of the time that a plant takes; the other half is
/// that of who runs before it, where there is one.
fn holder<L: Held>(
    name: &'static str,
    lock: &Arc<L>,
    hog: Option<Helper>,
) -> impl FnMut() -> (u64, u64) + 'static {
    let (theirs, own, (send, receive)) = (Arc::clone(lock), Arc::clone(lock), mpsc::channel());
    let helper = Helper::start(name, 0, move || {
        theirs.held(|| {
            send.send(()).unwrap();
            // It gives its CPU up until the one that it holds up waits for it.
            nap(MS);
            if let Some(hog) = &hog {
                hog.go();
            }
            spin(if hog.is_some() { LONG / 2 } else { LONG });
        });
    });
    move || {
        helper.go();
        receive.recv().unwrap();
        let from = now();
        own.held(|| {});
        (from, now())
    }
}

/// A thread that answers a byte with a byte.
fn server<S: Read + Write + Send + 'static>(
    name: &'static str,
    mut ends: S,
    mut work: impl FnMut() + Send + 'static,
) {
    std::thread::spawn(move || {
        become_thread(name, 0);
        let mut byte = [0];
        while ends.read_exact(&mut byte).is_ok() {
            work();
            ends.write_all(&byte).unwrap();
        }
    });
}

/// Two pipes.
struct Pipes(File, File);

impl Pipes {
    /// Both ends.
    fn pair() -> (Pipes, Pipes) {
        let ((ask, asked), (answer, answered)) = (pipe(), pipe());
        (Pipes(answer, asked), Pipes(ask, answered))
    }

    fn exchange(&mut self) {
        self.1.write_all(&[1]).unwrap();
        self.0.read_exact(&mut [0]).unwrap();
    }
}

impl Read for Pipes {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(bytes)
    }
}

impl Write for Pipes {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.1.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

extern "C" fn works_long(_: i32) {
    spin(LONG);
}

/// 1 while a collector has all threads stand still.
static PAUSED: AtomicU32 = AtomicU32::new(0);
/// The thread that is to stand still.
static CONTROL: AtomicI32 = AtomicI32::new(0);

fn futex(operation: i32, value: u32) {
    // SAFETY: the word is static, and no other arguments are read for these operations.
    unsafe { libc::syscall(libc::SYS_futex, PAUSED.as_ptr(), operation, value, 0, 0, 0) };
}

/// A safepoint as runtimes with a garbage collector have it.
extern "C" fn stands_still(_: i32) {
    while PAUSED.load(Ordering::SeqCst) == 1 {
        futex(libc::FUTEX_WAIT, 1);
    }
}

fn on_signal(number: i32, handler: extern "C" fn(i32)) {
    // SAFETY: the handlers only read the clock, and wait on a word.
    assert_ne!(unsafe { libc::signal(number, handler as libc::sighandler_t) }, libc::SIG_ERR);
}

/// Memory of this many bytes with pages of 4 KiB in it: pages of its own, or the page of zeros many times, which takes no memory.
fn mapped(bytes: usize, populate: i32) -> usize {
    // SAFETY: new memory, and calls on that.
    unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let memory = libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0);
        assert_ne!(memory, libc::MAP_FAILED);
        // Pages of 2 MiB would make one fault of five hundred.
        libc::madvise(memory, bytes, libc::MADV_NOHUGEPAGE);
        assert_eq!(libc::madvise(memory, bytes, populate), 0);
        memory as usize
    }
}

/// Sets the protection of memory that nothing uses, which takes its time by the page while all of the address space is locked.
fn protect(memory: usize, bytes: usize, protection: i32) {
    // SAFETY: nothing uses that memory.
    assert_eq!(unsafe { libc::mprotect(memory as *mut libc::c_void, bytes, protection) }, 0);
}

/// A process that has all of this one's memory, for as long as it sleeps; the pages that are written to meanwhile are copied.
fn fork_for_a_while() -> i32 {
    // SAFETY: the child calls nothing but functions that a signal handler may call.
    match unsafe { libc::fork() } {
        0 => loop {
            // SAFETY: sleeps until it is killed.
            unsafe { libc::pause() };
        },
        child => child,
    }
}

/// The plants, but for those that this machine cannot have.
pub(crate) fn plants() -> Vec<Plant> {
    let plain = Arc::new(PthreadMutex::new(libc::PTHREAD_PRIO_NONE));
    let inheriting = Arc::new(PthreadMutex::new(libc::PTHREAD_PRIO_INHERIT));
    let readers = Arc::new(PthreadRwlock(Box::new(UnsafeCell::new(libc::PTHREAD_RWLOCK_INITIALIZER))));
    let hog = || Helper::start("hog", 20, || spin(LONG / 2));
    let (mut near, far) = Pipes::pair();
    server("server", far, || spin(LONG));
    let (mut slow, far) = Pipes::pair();
    let ran = Arc::new(AtomicU64::new(0));
    let between_ran = Arc::clone(&ran);
    let between = Helper::start("between", 20, move || {
        let had = own_cpu_time();
        run_undisturbed_for(LONG);
        between_ran.store(own_cpu_time() - had, Ordering::SeqCst);
    });
    server("slow server", far, move || {
        between.go();
        spin(LONG / 2);
    });
    let (mut socket, far) = std::os::unix::net::UnixStream::pair().unwrap();
    server("peer", far, || spin(LONG));
    // SAFETY: makes a descriptor.
    let event = unsafe { libc::eventfd(0, 0) };
    assert!(event >= 0);
    static ONE: u64 = 1;
    let notifier = Helper::start("notifier", 0, move || {
        spin(LONG);
        // SAFETY: eight bytes are written.
        assert_eq!(unsafe { libc::write(event, (&raw const ONE).cast(), 8) }, 8);
    });
    let first = Helper::start("first", 60, || spin(LONG));
    on_signal(libc::SIGUSR1, works_long);
    on_signal(libc::SIGURG, stands_still);
    // SAFETY: has no arguments.
    CONTROL.store(unsafe { libc::gettid() }, Ordering::SeqCst);
    let collector = Helper::start("collector", 0, || {
        PAUSED.store(1, Ordering::SeqCst);
        let control = CONTROL.load(Ordering::SeqCst);
        // SAFETY: a signal to a thread of this process.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), control, libc::SIGURG) };
        spin(2 * LONG);
        PAUSED.store(0, Ordering::SeqCst);
        futex(libc::FUTEX_WAKE, 1);
    });
    let starved = Helper::start("starved", 0, || spin(LONG));
    let mut stopper = Other::start("stopper", None);
    let own = std::process::id();
    const BYTES: usize = 3 << 20;
    let copied = mapped(BYTES, libc::MADV_POPULATE_WRITE);
    // As much memory as takes so long to protect.
    let bytes = {
        const SAMPLE: usize = 32 << 20;
        let sample = mapped(SAMPLE, libc::MADV_POPULATE_READ);
        let from = now();
        protect(sample, SAMPLE, libc::PROT_READ);
        let took = usize::try_from(now() - from).unwrap().max(1);
        SAMPLE * (usize::try_from(2 * LONG).unwrap() / took + 1).min(256)
    };
    let guarded = mapped(bytes, libc::MADV_POPULATE_READ);
    let mapper = Helper::start("mapper", 0, move || {
        for protection in [libc::PROT_READ, libc::PROT_READ | libc::PROT_WRITE] {
            protect(guarded, bytes, protection);
        }
    });
    let mut all = vec![
        plant("own code", || spin(LONG)),
        plant("sleep", || std::thread::sleep(Duration::from_nanos(LONG))),
        stretch("lock", holder("holder", &plain, Some(hog()))),
        stretch("lent lock", holder("lent", &inheriting, None)),
        stretch("rwlock", holder("rwholder", &readers, None)),
        plant("pipe", move || near.exchange()),
        Plant {
            name: "inversion",
            prepare: None,
            work: Box::new(move |_| {
                let from = now();
                slow.exchange();
                // As with a twin: an account has interrupts and switches in it.
                Took { from, to: now(), of_it: Some((LONG, ran.load(Ordering::SeqCst))) }
            }),
        },
        plant("socket", move || {
            socket.write_all(&[1]).unwrap();
            socket.read_exact(&mut [0]).unwrap();
        }),
        plant("eventfd", move || {
            notifier.go();
            let mut count = [0u8; 8];
            // SAFETY: eight bytes are read.
            assert_eq!(unsafe { libc::read(event, count.as_mut_ptr().cast(), 8) }, 8);
        }),
        plant("first", move || {
            first.go();
            // It runs at once, on this CPU.
            spin(MS / 10);
        }),
        // SAFETY: the handler is set.
        plant("signal", || assert_eq!(unsafe { libc::raise(libc::SIGUSR1) }, 0)),
        stretch("pause", move || longest_gap(LONG * 2 / 10 * 9, || collector.go())),
        plant("child", || {
            let status = Command::new("sleep").arg("0.02").status();
            assert!(status.unwrap().success());
        }),
        stretch("starved", move || longest_gap_while_running(LONG / 10 * 9, || starved.go())),
        stretch("stop", move || longest_gap(STOPPED / 10 * 9, || stopper.tell(&format!("stop {own}")))),
        stretch("fault", move || {
            let child = fork_for_a_while();
            let from = now();
            for page in (0..BYTES).step_by(4096) {
                // SAFETY: the memory is this one's.
                unsafe { (copied as *mut u8).add(page).write_volatile(1) };
            }
            let to = now();
            // SAFETY: this process' own child.
            unsafe {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, std::ptr::null_mut(), 0);
            }
            (from, to)
        }),
        stretch("mmap_lock", move || {
            mapper.go();
            // It has begun by then.
            nap(5 * MS);
            let from = now();
            let page = mapped(4096, libc::MADV_NORMAL);
            let to = now();
            // SAFETY: this function's own page.
            unsafe { libc::munmap(page as *mut libc::c_void, 4096) };
            (from, to)
        }),
    ];
    // It moves itself to where somebody more urgent runs.
    if let [own, other, ..] = cpus()[..] {
        let there = Helper::start("there", 60, move || {
            use_cpu(other);
            spin(LONG + MS);
        });
        all.push(stretch("there", move || {
            there.go();
            nap(MS);
            let from = now();
            use_cpu(other);
            let to = now();
            use_cpu(own);
            (from, to)
        }));
    }
    all
}
