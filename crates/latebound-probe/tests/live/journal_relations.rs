// SPDX-License-Identifier: MIT OR Apache-2.0
//! Syncs are planted on a file system with a journal. The probe has to give back each of those of a real-time thread, and each item that the
//! disk's interrupt thread queues for the next step of one, by the kernel's own events.
//!
//! Needs root, real-time threads, and loop devices or a guest's disk.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use latebound_model::{Completer, Dependency, DonatedWaits, Nanos, Priority, RelationKind, Tid, WaitEvent};
use latebound_probe::{RelationOptions, RelationProbe};

use crate::plant;
use crate::relations::{alone, assert_nothing_lost, at_priority};

/// An ext4 file system with a journal: the disk of a guest, or a small one in a file, which is unmounted when dropped.
struct Journalled {
    folder: tempfile::TempDir,
    mounted: Option<PathBuf>,
}

impl Journalled {
    fn mount() -> Journalled {
        let folder = plant::folder();
        if std::env::var_os(plant::DISK).is_some() {
            return Journalled { folder, mounted: None };
        }
        let (image, place) = (folder.path().join("image"), folder.path().join("mounted"));
        File::create(&image).unwrap().set_len(32 << 20).unwrap();
        fs::create_dir(&place).unwrap();
        succeed(Command::new("/usr/sbin/mke2fs").args(["-q", "-t", "ext4"]).arg(image.as_os_str()));
        succeed(Command::new("mount").args(["-o", "loop"]).args([&image, &place]));
        Journalled { folder, mounted: Some(place) }
    }

    fn place(&self) -> &Path {
        self.mounted.as_deref().unwrap_or(self.folder.path())
    }
}

impl Drop for Journalled {
    fn drop(&mut self) {
        if let Some(place) = &self.mounted {
            let _ = Command::new("umount").arg(place).status();
        }
    }
}

fn succeed(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}

#[test]
fn live_a_task_that_syncs_is_blocked_on_the_journal_s_thread_each_time() {
    const PLANTED: usize = 11;
    let _alone = alone();
    let mounted = Journalled::mount();
    let path = mounted.place().join("log");
    let mut probe = RelationProbe::start(RelationOptions::default()).unwrap();
    // Whether programs are let into the function is asked of ftrace, not of what the probe asks.
    let functions = fs::read_to_string("/sys/kernel/tracing/available_filter_functions").unwrap_or_default();
    let is_hooked = functions.lines().any(|line| line.starts_with("jbd2_log_wait_commit"));
    let is_missing =
        probe.missing().iter().any(|missing| missing.what.contains("the journal of a file system"));
    assert_eq!(is_missing, !is_hooked, "{:?}", probe.missing());
    if is_missing {
        return;
    }
    let normal = File::create(mounted.place().join("normal")).unwrap();
    normal.sync_all().unwrap();
    let (task, ()) = at_priority(43, move || {
        let mut file = File::create(path).unwrap();
        for _ in 0..PLANTED {
            file.write_all(&[4; 100]).unwrap();
            file.sync_all().unwrap();
        }
    });
    let (mut threads, mut begun, mut done, mut others) = (BTreeSet::new(), 0, 0, 0);
    for event in probe.poll().unwrap() {
        match event {
            WaitEvent::Begin { object, task: who, priority, thread, dependency, .. }
                if object.kind == RelationKind::JournalCommit =>
            {
                others += usize::from(who != task);
                begun += 1;
                assert_eq!((priority.get(), dependency), (43, Dependency::Hard), "{event:?}");
                threads.insert(thread.unwrap());
            }
            WaitEvent::Done { object, by: Completer::Thread(thread), .. }
                if object.kind == RelationKind::JournalCommit =>
            {
                done += 1;
                assert_eq!(done, begun, "{event:?}");
                threads.insert(thread);
            }
            _ => {}
        }
    }
    assert_eq!((begun, done, others), (PLANTED, PLANTED, 0), "{:?}", probe.missing());
    let names: Vec<String> =
        threads.iter().map(|one| fs::read_to_string(format!("/proc/{}/comm", one.0)).unwrap()).collect();
    assert!(matches!(names.as_slice(), [one] if one.starts_with("jbd2/")), "{names:?}");
    assert_nothing_lost(&probe);
}

/// The kernel's own events of items that some threads queue, until it is dropped.
struct Queued {
    instance: PathBuf,
}

impl Queued {
    fn by(threads: &BTreeSet<Tid>) -> Queued {
        let name = format!("latebound-test-queued-{}", std::process::id());
        let queued = Queued { instance: Path::new("/sys/kernel/tracing/instances").join(name) };
        fs::create_dir(&queued.instance).unwrap();
        let pids: Vec<String> = threads.iter().map(|thread| thread.0.to_string()).collect();
        let set = |file: &str, text: &str| fs::write(queued.instance.join(file), text).unwrap();
        set("trace_clock", "mono");
        set("set_event_pid", &pids.join(" "));
        set("events/workqueue/workqueue_queue_work/enable", "1");
        queued
    }

    /// How many there were in this time, leaving out what an interrupt queued that came while such a thread ran.
    fn number(&self, from: Nanos, to: Nanos) -> usize {
        let text = fs::read_to_string(self.instance.join("trace")).unwrap();
        let lines = text.lines().filter_map(|line| line.split_once(": workqueue_queue_work:"));
        let mine = lines.filter(|(before, _)| {
            // `irq/24-virtio0-123 [000] ...11 12.345678`; the third sign of the flags is the context.
            let mut words = before.split_whitespace().rev();
            let (seconds, micros) = words.next().unwrap().split_once('.').unwrap();
            let micros = seconds.parse::<u64>().unwrap() * 1_000_000 + micros.parse::<u64>().unwrap();
            let at = Nanos(micros * plant::US);
            let context = words.next().unwrap().chars().nth(2).unwrap();
            (from..to).contains(&at) && !matches!(context, 'h' | 'H' | 'z' | 'Z')
        });
        mine.count()
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.instance);
    }
}

/// A sync flushes the disk before and after the record of its transaction, and each step of a flush is an item (block/blk-flush.c).
#[test]
fn live_items_that_an_interrupt_thread_queues_count_for_its_waiters() {
    const SYNCS: usize = 7;
    // Nobody else asks for the disk at the borders of the time that is looked at.
    const QUIET: Duration = Duration::from_millis(200);
    let _alone = alone();
    let mounted = Journalled::mount();
    let mut probe = RelationProbe::start(RelationOptions::default()).unwrap();
    let threads = latebound_system::threads(&latebound_system::Root::live()).unwrap();
    let interrupts = threads.iter().filter(|thread| thread.kernel && thread.comm.starts_with("irq/"));
    let interrupts: BTreeSet<Tid> = interrupts.map(|thread| thread.tid).collect();
    for &thread in &interrupts {
        probe.donate(thread, Priority::new(37), DonatedWaits::QueuedItems).unwrap();
    }
    let queued = Queued::by(&interrupts);
    std::thread::sleep(QUIET);
    let from = Nanos(plant::now());
    let mut file = File::create(mounted.place().join("normal")).unwrap();
    for _ in 0..SYNCS {
        file.write_all(&[4; 100]).unwrap();
        file.sync_all().unwrap();
    }
    std::thread::sleep(QUIET);
    let to = Nanos(plant::now());
    let mut begun = 0;
    for event in probe.poll().unwrap() {
        if let WaitEvent::Begin { at, object, task, priority, thread, dependency } = event
            && interrupts.contains(&task)
            && (from..to).contains(&at)
        {
            let what = (object.kind, priority.get(), dependency);
            assert_eq!(what, (RelationKind::WorkItem, 37, Dependency::Soft), "{event:?}");
            assert!(thread.is_some(), "{event:?}");
            begun += 1;
        }
    }
    let number = if interrupts.is_empty() { 0 } else { queued.number(from, to) };
    assert_eq!(begun, number);
    // The disk of a guest of PREEMPT_RT has a thread for its interrupt, and flushes.
    let has_threads = fs::read_to_string("/sys/kernel/realtime").is_ok_and(|text| text.trim() == "1");
    assert!(!has_threads || number >= SYNCS, "{number} of {SYNCS}");
    for &thread in &interrupts {
        probe.donate(thread, None, DonatedWaits::QueuedItems).unwrap();
    }
    assert_nothing_lost(&probe);
}
