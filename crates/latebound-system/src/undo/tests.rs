// SPDX-License-Identifier: MIT OR Apache-2.0
//! Journals written by hand, undone on threads that the test itself made.

use std::fs;
use std::path::PathBuf;
use std::sync::mpsc;

use latebound_model::Tid;

use super::entry::Entry;
use super::*;
use crate::root::Root;

/// A thread that sleeps until it is dropped.
struct Sleeper {
    identity: ThreadIdentity,
    wake: Option<mpsc::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Sleeper {
    fn start() -> Sleeper {
        let (wake, sleep) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            // SAFETY: no arguments.
            tell.send(Tid(unsafe { libc::gettid() })).unwrap();
            let _ = sleep.recv();
        });
        let identity = ThreadIdentity::of(&Root::live(), told.recv().unwrap()).unwrap();
        Sleeper { identity, wake: Some(wake), thread: Some(thread) }
    }

    fn schedule(&self) -> Schedule {
        schedule_of(self.identity.tid).unwrap()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.wake.take();
        self.thread.take().unwrap().join().unwrap();
    }
}

fn boot() -> String {
    Root::live().value("/proc/sys/kernel/random/boot_id").unwrap()
}

fn owner(start: u64) -> Entry {
    let owner = ThreadIdentity { tid: Tid(std::process::id() as i32), start };
    Entry::Owner { boot: boot(), owner }
}

fn written(folder: &tempfile::TempDir, text: &str) -> PathBuf {
    let path = folder.path().join("1.undo");
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn live_a_change_is_written_first_and_undone_to_what_was_before_the_first() {
    let folder = tempfile::TempDir::new().unwrap();
    let sleeper = Sleeper::start();
    let before = sleeper.schedule();
    let mut journal = Journal::create(folder.path()).unwrap();
    let path = journal.path().to_owned();
    assert_eq!(journal.change(sleeper.identity, Schedule::fifo(3)).unwrap(), before);
    assert_eq!(journal.change(sleeper.identity, Schedule::fifo(4)).unwrap(), Schedule::fifo(3));
    let length = fs::metadata(&path).unwrap().len();
    for priority in [3, 4, 3, 4] {
        journal.change(sleeper.identity, Schedule::fifo(priority)).unwrap();
    }
    assert_eq!(fs::metadata(&path).unwrap().len(), length, "what is known already is not written again");
    assert_eq!(sleeper.schedule(), Schedule::fifo(4));
    let undone = journal.undo().unwrap();
    assert_eq!((undone.restored, undone.left.len()), (1, 0));
    assert_eq!((sleeper.schedule(), path.exists()), (before, false));
}

#[test]
fn live_what_somebody_did_by_permission_is_undone_and_what_goes_beyond_is_left_alone() {
    for (set, left) in [(3, 0), (8, 0), (9, 1)] {
        let folder = tempfile::TempDir::new().unwrap();
        let sleeper = Sleeper::start();
        let before = sleeper.schedule();
        let mut journal = Journal::create(folder.path()).unwrap();
        journal.permit(sleeper.identity, 5).unwrap();
        // A change of one's own between the two does not change what was there at first.
        journal.change(sleeper.identity, Schedule::fifo(2)).unwrap();
        journal.permit(sleeper.identity, 8).unwrap();
        let length = fs::metadata(journal.path()).unwrap().len();
        journal.permit(sleeper.identity, 7).unwrap();
        assert_eq!(fs::metadata(journal.path()).unwrap().len(), length, "less than permitted is permitted");
        Schedule::fifo(set).apply(sleeper.identity.tid).unwrap();
        let undone = journal.undo().unwrap();
        assert_eq!((undone.left.len(), undone.restored), (left, 1 - left), "{set}");
        assert_eq!(sleeper.schedule(), if left == 0 { before } else { Schedule::fifo(9) });
    }
}

#[test]
fn live_every_policy_is_given_back_as_it_was() {
    for was in [
        Schedule::other(7),
        Schedule::fifo(5),
        Schedule { policy: latebound_model::Policy::RoundRobin, ..Schedule::fifo(6) },
        Schedule { policy: latebound_model::Policy::Batch, ..Schedule::other(3) },
        Schedule { flags: 1, ..Schedule::fifo(7) },
    ] {
        let folder = tempfile::TempDir::new().unwrap();
        let sleeper = Sleeper::start();
        was.apply(sleeper.identity.tid).unwrap();
        assert_eq!(sleeper.schedule(), was);
        let mut journal = Journal::create(folder.path()).unwrap();
        journal.change(sleeper.identity, Schedule::fifo(9)).unwrap();
        journal.undo().unwrap();
        assert_eq!(sleeper.schedule(), was);
    }
}

#[test]
fn live_what_somebody_else_changed_since_is_left_alone_and_named() {
    let folder = tempfile::TempDir::new().unwrap();
    let sleeper = Sleeper::start();
    let was = sleeper.schedule();
    let mut journal = Journal::create(folder.path()).unwrap();
    journal.change(sleeper.identity, Schedule::fifo(3)).unwrap();
    Schedule::fifo(7).apply(sleeper.identity.tid).unwrap();
    let left = Left::Foreign { thread: sleeper.identity.tid, is: Schedule::fifo(7), was };
    assert_eq!(journal.undo().unwrap(), Undone { left: vec![left], ..Undone::default() });
    assert_eq!(sleeper.schedule(), Schedule::fifo(7));
}

#[test]
fn live_another_thread_with_the_same_id_is_not_touched() {
    let folder = tempfile::TempDir::new().unwrap();
    let sleeper = Sleeper::start();
    let (is, was) = (sleeper.schedule(), Schedule::fifo(9));
    let earlier = ThreadIdentity { start: sleeper.identity.start - 1, ..sleeper.identity };
    let text = owner(1).line() + &Entry::Thread { thread: earlier, was, set: is }.line();
    assert_eq!(undo_file(&written(&folder, &text)).unwrap(), Undone { gone: 1, ..Undone::default() });
    assert_eq!(sleeper.schedule(), is);
    let mut journal = Journal::create(folder.path()).unwrap();
    assert!(matches!(journal.change(earlier, was), Err(UndoError::Gone(_))));
    assert_eq!(sleeper.schedule(), is);
}

#[test]
fn live_a_thread_that_is_held_is_changed_until_it_is_gone_and_then_no_more() {
    let folder = tempfile::TempDir::new().unwrap();
    let mut journal = Journal::create(folder.path()).unwrap();
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let handle = ThreadHandle::of(Tid(child.id() as i32)).unwrap();
    let before = schedule_of(handle.identity().tid).unwrap();
    assert_eq!(journal.change_held(&handle, Schedule::fifo(3)).unwrap(), before);
    assert_eq!(schedule_of(handle.identity().tid).unwrap(), Schedule::fifo(3));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(matches!(journal.change_held(&handle, before), Err(UndoError::Gone(_))));
    assert_eq!(journal.undo().unwrap(), Undone { gone: 1, ..Undone::default() });
}

#[test]
fn live_a_line_that_was_cut_off_is_counted_and_the_others_are_undone() {
    let folder = tempfile::TempDir::new().unwrap();
    let sleeper = Sleeper::start();
    let was = sleeper.schedule();
    Schedule::fifo(3).apply(sleeper.identity.tid).unwrap();
    let entry = Entry::Thread { thread: sleeper.identity, was, set: Schedule::fifo(3) }.line();
    let text = owner(1).line() + &entry + &entry[..entry.len() / 2];
    let undone = undo_file(&written(&folder, &text)).unwrap();
    assert_eq!(undone, Undone { restored: 1, unreadable: 1, ..Undone::default() });
    assert_eq!(sleeper.schedule(), was);
}

#[test]
fn live_a_journal_of_another_boot_speaks_of_nobody_here() {
    let folder = tempfile::TempDir::new().unwrap();
    let sleeper = Sleeper::start();
    let is = sleeper.schedule();
    let Entry::Owner { owner, .. } = owner(1) else { unreachable!() };
    let text = Entry::Owner { boot: "another".to_owned(), owner }.line()
        + &Entry::Thread { thread: sleeper.identity, was: Schedule::fifo(9), set: is }.line();
    let path = written(&folder, &text);
    assert_eq!(undo_file(&path).unwrap(), Undone::default());
    assert_eq!((sleeper.schedule(), path.exists()), (is, false));
}

#[test]
fn live_the_next_start_undoes_what_the_dead_left_and_spares_the_living() {
    let folder = tempfile::TempDir::new().unwrap();
    let sleeper = Sleeper::start();
    let was = sleeper.schedule();
    Schedule::fifo(3).apply(sleeper.identity.tid).unwrap();
    // This process's id, but not its start: an earlier one that is dead.
    let text =
        owner(1).line() + &Entry::Thread { thread: sleeper.identity, was, set: Schedule::fifo(3) }.line();
    let dead = written(&folder, &text);
    let living = Journal::create(folder.path()).unwrap();
    let recovered = recover(folder.path());
    assert_eq!(recovered.len(), 1);
    assert_eq!((&recovered[0].0, recovered[0].1.as_ref().unwrap().restored), (&dead, 1));
    assert_eq!(sleeper.schedule(), was);
    assert!(living.path().exists() && !dead.exists());
}

#[test]
fn a_file_that_is_no_journal_is_neither_acted_upon_nor_removed() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = written(&folder, "something\nelse\n");
    assert!(matches!(undo_file(&path), Err(UndoError::Foreign(_))));
    assert!(path.exists());
    let path = written(&folder, "");
    assert_eq!(undo_file(&path).unwrap(), Undone::default());
}

#[test]
fn live_without_a_place_for_the_journal_nothing_is_changed() {
    let error = Journal::create(std::path::Path::new("/proc/latebound")).unwrap_err().to_string();
    assert!(error.contains("nothing is changed without one"), "{error}");
}

#[test]
fn who_may_not_write_the_journal_or_finds_no_room_for_it_is_told_what_to_do() {
    let said = |kind: std::io::ErrorKind| {
        UndoError::Journal { path: "a".into(), step: "writing", source: kind.into() }.to_string()
    };
    assert!(
        said(std::io::ErrorKind::PermissionDenied).ends_with("nothing is changed without one; run as root")
    );
    assert!(said(std::io::ErrorKind::StorageFull).ends_with("; give a folder with room (--journal)"));
    assert!(said(std::io::ErrorKind::NotFound).ends_with("nothing is changed without one"));
}
