// SPDX-License-Identifier: MIT OR Apache-2.0
//! File systems are mounted that have a kernel thread of their own. The probe has to give back each wait of the task for kthreadd and for the new
//! thread, which it has to know as /proc does.
//!
//! Needs root, real-time threads, and loop devices.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use latebound_model::{
    Completer, Dependency, NewThread, Object, Priority, RelationKind, Scheduling, Tid, WaitEvent,
};
use latebound_probe::{RelationOptions, RelationProbe};
use latebound_system::Root;
use latebound_system::undo::ThreadIdentity;

use crate::plant;
use crate::relations::{alone, assert_nothing_lost, at_priority};

/// The PID of kthreadd (init/main.c, rest_init).
const KTHREADD: Tid = Tid(2);

/// A file with ext4 and its journal, behind a loop device, which is detached when dropped.
struct Image {
    device: String,
    _folder: tempfile::TempDir,
}

impl Image {
    fn make() -> Image {
        let folder = plant::folder();
        let image = folder.path().join("image");
        File::create(&image).unwrap().set_len(32 << 20).unwrap();
        said(Command::new("/usr/sbin/mke2fs").args(["-q", "-t", "ext4"]).arg(&image));
        // Where it is a module; elsewhere there is none to load.
        let _ = Command::new("/sbin/modprobe").arg("loop").output();
        let device = said(Command::new("losetup").args(["--find", "--show"]).arg(&image));
        Image { device: device.trim().to_owned(), _folder: folder }
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.device]).status();
    }
}

fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn mount(device: &str, place: &Path) {
    let [device, place] = [device, place.to_str().unwrap()].map(|text| CString::new(text).unwrap());
    // SAFETY: the texts end in a zero byte and live through the call; no data is given.
    let answer =
        unsafe { libc::mount(device.as_ptr(), place.as_ptr(), c"ext4".as_ptr(), 0, std::ptr::null()) };
    assert_eq!(answer, 0, "{}", std::io::Error::last_os_error());
}

fn unmount(place: &Path) {
    let place = CString::new(place.to_str().unwrap()).unwrap();
    // SAFETY: the text ends in a zero byte and lives through the call.
    let answer = unsafe { libc::umount2(place.as_ptr(), 0) };
    assert_eq!(answer, 0, "{}", std::io::Error::last_os_error());
}

/// The thread of the journal on this device, which is there as long as that is mounted.
fn journal_of(device: &str) -> ThreadIdentity {
    let name = format!("jbd2/{}-8", device.trim_start_matches("/dev/"));
    let threads = latebound_system::threads(&Root::live()).unwrap();
    let thread = threads.iter().find(|thread| thread.comm == name).unwrap_or_else(|| panic!("no {name}"));
    ThreadIdentity::of(&Root::live(), thread.tid).unwrap()
}

/// Whether it is to be seen: from 6.12 on, where programs are let into the functions, as ftrace has it. `None` where that does not say.
fn is_to_be_seen() -> Option<bool> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    if latebound_model::kernel_version(&release).unwrap() < (6, 12) {
        return Some(false);
    }
    let functions = fs::read_to_string("/sys/kernel/tracing/available_filter_functions").ok()?;
    let has = |name: &str| functions.lines().any(|line| line == name);
    Some(has("__kthread_create_on_node") && has("rt_mutex_adjust_pi"))
}

#[test]
fn live_a_task_is_blocked_on_kthreadd_and_on_each_thread_that_it_creates() {
    const MOUNTS: usize = 5;
    let _alone = alone();
    let image = Image::make();
    let folder = tempfile::tempdir().unwrap();
    let place: PathBuf = folder.path().to_owned();
    let mut probe = RelationProbe::start(RelationOptions::default()).unwrap();
    let is_missing =
        probe.missing().iter().any(|missing| missing.what.contains("a kernel thread is created"));
    if let Some(is_to_be_seen) = is_to_be_seen() {
        assert_eq!(is_missing, !is_to_be_seen, "{:?}", probe.missing());
    }
    if is_missing {
        println!("{:?}", probe.missing());
        return;
    }
    // By a task of ordinary priority, which is nobody's affair.
    mount(&image.device, &place);
    unmount(&place);
    let device = image.device.clone();
    let (task, journals) = at_priority(44, move || {
        let once = |_| {
            mount(&device, &place);
            let journal = journal_of(&device);
            unmount(&place);
            journal
        };
        (0..MOUNTS).map(once).collect::<Vec<ThreadIdentity>>()
    });
    let (mut begun, mut done, mut open) = (0, 0, None);
    let mut created: BTreeMap<Tid, (NewThread, bool)> = BTreeMap::new();
    for event in probe.poll().unwrap() {
        match event {
            WaitEvent::Begin { object, task: who, priority, thread, dependency, .. }
                if object.kind == RelationKind::ThreadCreation =>
            {
                assert_eq!((who, priority.get(), dependency), (task, 44, Dependency::Hard), "{event:?}");
                assert_eq!((thread, object.of), (Some(KTHREADD), 2), "{event:?}");
                assert!(open.replace(object).is_none(), "{event:?}");
                begun += 1;
            }
            WaitEvent::Created { object, task: who, priority, thread, .. } => {
                let is_of = Object { of: thread.tid.0 as u64, ..open.unwrap() };
                assert_eq!((object, who, Some(priority)), (is_of, task, Priority::new(44)), "{event:?}");
                assert_eq!(thread.scheduling, Scheduling::other(0), "{event:?}");
                assert!(created.insert(thread.tid, (thread, false)).is_none(), "{event:?}");
            }
            WaitEvent::Done { object, by, .. } if object.kind == RelationKind::ThreadCreation => {
                assert_eq!((open.take(), by), (Some(object), Completer::Thread(KTHREADD)), "{event:?}");
                done += 1;
            }
            WaitEvent::Left { object, task: who, .. } if object.kind == RelationKind::ThreadCreation => {
                let (_, left) = created.get_mut(&Tid(object.of as i32)).unwrap();
                assert!(who == task && !std::mem::replace(left, true), "{event:?}");
            }
            _ => {}
        }
    }
    assert!(begun >= MOUNTS && open.is_none(), "{begun} {open:?}");
    assert_eq!((done, created.len()), (begun, begun), "{created:?}");
    assert!(created.values().all(|&(_, left)| left), "{created:?}");
    for journal in journals {
        let (thread, _) = created[&journal.tid];
        assert_eq!(thread.started.0 / 10_000_000, journal.start, "{thread:?}");
        assert!(thread.name().starts_with("jbd2/"), "{thread:?}");
    }
    assert_nothing_lost(&probe);
}
