// SPDX-License-Identifier: MIT OR Apache-2.0
//! Syncs of known number are planted by a real-time thread on a file system with a journal, and the probe has to give back each of them.
//!
//! Needs root, real-time threads, and loop devices or a guest's disk.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use latebound_model::{Completer, Dependency, RelationKind, WaitEvent};
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
