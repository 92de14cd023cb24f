// SPDX-License-Identifier: MIT OR Apache-2.0
//! Journals written by hand, undone on threads that the test itself made.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use latebound_model::Tid;

use super::entry::{Entry, Owner};
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
        let (tell, receiver) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            // SAFETY: no arguments.
            tell.send(Tid(unsafe { libc::gettid() })).unwrap();
            let _ = sleep.recv();
        });
        let identity = ThreadIdentity::of(&Root::live(), receiver.recv().unwrap()).unwrap();
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

/// A process of this id, but of another start: one that is dead.
fn owner(start: u64) -> Owner {
    let this = Owner::this().unwrap();
    Owner { process: ThreadIdentity { start, ..this.process }, ..this }
}

fn written(folder: &tempfile::TempDir, text: &str) -> PathBuf {
    let path = folder.path().join("1.undo");
    fs::write(&path, text).unwrap();
    path
}

fn header(owner: Owner) -> String {
    Entry::Owner(owner).line()
}

/// What came of the only journal in a folder.
fn only(folder: &Path) -> Outcome {
    let mut recovered = recover(folder).unwrap();
    assert_eq!(recovered.len(), 1, "{recovered:?}");
    recovered.remove(0).outcome
}

fn undone(folder: &tempfile::TempDir) -> Undone {
    match only(folder.path()) {
        Outcome::Undone(undone) => undone,
        other => panic!("{other:?}"),
    }
}

#[test]
fn live_a_change_is_written_first_and_undone_to_what_was_before_all() {
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
    let undone = journal.undo();
    assert_eq!((undone.restored, undone.left.len()), (1, 0));
    assert_eq!((sleeper.schedule(), path.exists()), (before, false));
}

#[test]
fn live_permitted_changes_are_undone_and_greater_ones_are_left_alone() {
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
        let undone = journal.undo();
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
        journal.undo();
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
    assert_eq!(journal.undo(), Undone { left: vec![left], ..Undone::default() });
    assert_eq!(sleeper.schedule(), Schedule::fifo(7));
}

/// As the rescuer of a work queue does, which is raised while it is made (kernel/workqueue.c, rescuer_thread).
#[test]
fn live_a_nice_value_that_is_set_while_a_thread_is_raised_stays() {
    let renice = |thread: &Sleeper, nice| {
        // SAFETY: takes integers.
        let answer =
            unsafe { libc::setpriority(libc::PRIO_PROCESS, thread.identity.tid.0.unsigned_abs(), nice) };
        assert_eq!(answer, 0);
    };
    for (given_back_before, expected) in [
        (false, Undone { restored: 1, ..Undone::default() }),
        (true, Undone { untouched: 1, ..Undone::default() }),
    ] {
        let folder = tempfile::TempDir::new().unwrap();
        let sleeper = Sleeper::start();
        let was = sleeper.schedule();
        let mut journal = Journal::create(folder.path()).unwrap();
        journal.change(sleeper.identity, Schedule::fifo(3)).unwrap();
        renice(&sleeper, 7);
        assert_eq!(sleeper.schedule(), Schedule::fifo(3));
        if given_back_before {
            journal.change(sleeper.identity, was).unwrap();
            assert_eq!(sleeper.schedule(), Schedule::other(7));
        }
        assert_eq!(journal.undo(), expected);
        assert_eq!(sleeper.schedule(), Schedule::other(7));
    }
    // What the journal itself has set is told from what somebody else set.
    let folder = tempfile::TempDir::new().unwrap();
    let sleeper = Sleeper::start();
    let mut journal = Journal::create(folder.path()).unwrap();
    journal.change(sleeper.identity, Schedule::other(3)).unwrap();
    renice(&sleeper, 7);
    assert_eq!(journal.undo().left.len(), 1);
}

#[test]
fn live_another_thread_with_the_same_id_is_not_touched() {
    let folder = tempfile::TempDir::new().unwrap();
    let sleeper = Sleeper::start();
    let (is, was) = (sleeper.schedule(), Schedule::fifo(9));
    let earlier = ThreadIdentity { start: sleeper.identity.start - 1, ..sleeper.identity };
    let text = header(owner(1)) + &Entry::Thread { thread: earlier, was, set: is }.line();
    assert_eq!(
        {
            written(&folder, &text);
            undone(&folder)
        },
        Undone { gone: 1, ..Undone::default() }
    );
    assert_eq!(sleeper.schedule(), is);
    let mut journal = Journal::create(folder.path()).unwrap();
    assert!(matches!(journal.change(earlier, was), Err(UndoError::Gone(_))));
    assert_eq!(sleeper.schedule(), is);
}

#[test]
fn live_a_held_thread_can_be_changed_until_it_is_gone() {
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
    assert_eq!(journal.undo(), Undone { gone: 1, ..Undone::default() });
}

#[test]
fn live_a_line_that_was_cut_off_is_counted_and_the_others_are_undone() {
    let folder = tempfile::TempDir::new().unwrap();
    let sleeper = Sleeper::start();
    let was = sleeper.schedule();
    Schedule::fifo(3).apply(sleeper.identity.tid).unwrap();
    let entry = Entry::Thread { thread: sleeper.identity, was, set: Schedule::fifo(3) }.line();
    let text = header(owner(1)) + &entry + &entry[..entry.len() / 2];
    written(&folder, &text);
    assert_eq!(undone(&folder), Undone { restored: 1, unreadable: 1, ..Undone::default() });
    assert_eq!(sleeper.schedule(), was);
}

#[test]
fn live_a_journal_of_another_boot_speaks_of_nobody_here() {
    let folder = tempfile::TempDir::new().unwrap();
    let sleeper = Sleeper::start();
    let is = sleeper.schedule();
    let text = header(Owner { boot: "another".to_owned(), ..owner(1) })
        + &Entry::Thread { thread: sleeper.identity, was: Schedule::fifo(9), set: is }.line();
    let path = written(&folder, &text);
    assert!(left_over(folder.path()).is_empty());
    assert_eq!(undone(&folder), Undone::default());
    assert_eq!((sleeper.schedule(), path.exists()), (is, false));
}

#[test]
fn live_a_journal_of_another_pid_namespace_is_not_acted_upon() {
    let folder = tempfile::TempDir::new().unwrap();
    let sleeper = Sleeper::start();
    let is = sleeper.schedule();
    let elsewhere = || Owner { namespace: owner(1).namespace + 1, ..owner(1) };
    let text = header(elsewhere())
        + &Entry::Thread { thread: sleeper.identity, was: Schedule::fifo(9), set: is }.line();
    let path = written(&folder, &text);
    assert!(matches!(only(folder.path()), Outcome::Elsewhere(owner) if owner == elsewhere()));
    assert_eq!((sleeper.schedule(), path.exists()), (is, true));
    let left = left_over(folder.path()).remove(0);
    assert!(left.unknown.as_ref().is_some_and(|why| why.contains("another PID namespace")), "{left:?}");
    // Nothing was changed by this one.
    written(&folder, &header(elsewhere()));
    assert_eq!((undone(&folder), path.exists()), (Undone::default(), false));
}

#[test]
fn live_the_next_start_undoes_what_the_dead_left_and_spares_the_living() {
    let folder = tempfile::TempDir::new().unwrap();
    let sleeper = Sleeper::start();
    let was = sleeper.schedule();
    Schedule::fifo(3).apply(sleeper.identity.tid).unwrap();
    let living = Journal::create(folder.path()).unwrap();
    let text =
        header(owner(1)) + &Entry::Thread { thread: sleeper.identity, was, set: Schedule::fifo(3) }.line();
    // Before that of the living one, whatever its id is.
    let dead = folder.path().join("0.undo");
    fs::write(&dead, text).unwrap();
    let left = LeftOver { path: dead.clone(), raised: 1, unknown: None };
    assert_eq!(left_over(folder.path()), [left]);
    let recovered = recover(folder.path()).unwrap();
    assert_eq!(recovered.iter().map(|one| &one.path).collect::<Vec<_>>(), [&dead, living.path()]);
    let Outcome::Undone(undone) = &recovered[0].outcome else { panic!("{recovered:?}") };
    let Outcome::AtWork(Some(owner)) = &recovered[1].outcome else { panic!("{recovered:?}") };
    assert_eq!((undone.restored, owner.process.tid.0), (1, std::process::id() as i32));
    assert_eq!(sleeper.schedule(), was);
    assert!(living.is_there() && !dead.exists() && left_over(folder.path()).is_empty());
}

#[test]
fn live_a_second_journal_in_the_folder_is_refused_while_the_first_lives() {
    let folder = tempfile::TempDir::new().unwrap();
    let first = Journal::create(folder.path()).unwrap();
    let error = Journal::create(folder.path()).unwrap_err();
    assert!(matches!(&error, UndoError::InUse { process, .. } if process.0 == std::process::id() as i32));
    first.undo();
    Journal::create(folder.path()).unwrap();
}

#[test]
fn live_a_journal_whose_name_was_taken_away_is_undone_all_the_same() {
    let folder = tempfile::TempDir::new().unwrap();
    let sleeper = Sleeper::start();
    let was = sleeper.schedule();
    for by_file in [false, true] {
        let mut journal = Journal::create(folder.path()).unwrap();
        journal.change(sleeper.identity, Schedule::fifo(3)).unwrap();
        assert!(journal.is_there());
        fs::remove_file(journal.path()).unwrap();
        assert!(!journal.is_there());
        let undone = if by_file { journal.undo_by_file().unwrap() } else { journal.undo() };
        assert_eq!(undone, Undone { restored: 1, ..Undone::default() });
        assert_eq!(sleeper.schedule(), was);
    }
}

#[test]
fn live_another_file_of_the_journals_name_is_neither_read_nor_removed() {
    let folder = tempfile::TempDir::new().unwrap();
    let journal = Journal::create(folder.path()).unwrap();
    let path = journal.path().to_owned();
    fs::remove_file(&path).unwrap();
    fs::write(&path, "mine").unwrap();
    assert!(!journal.is_there());
    journal.undo();
    assert_eq!(fs::read_to_string(path).unwrap(), "mine");
}

/// Runs this in a process of its own with this umask, as this user where one is given.
fn elsewhere(umask: u32, user: Option<u32>, run: impl FnOnce() -> bool) -> bool {
    // SAFETY: glibc makes malloc usable again in the child, which calls nothing else that another thread's lock could hold up.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: these take integers, and _exit ends the child without what the harness does at its end.
        unsafe {
            libc::umask(umask);
            if user.is_some_and(|user| libc::setresuid(user, user, user) != 0) {
                libc::_exit(2);
            }
            libc::_exit(i32::from(!run()))
        }
    }
    let mut status = 0;
    // SAFETY: the pointer is to a live integer.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    status == 0
}

#[test]
fn live_whatever_the_umask_is_nobody_else_can_reach_a_journal() {
    let folder = tempfile::TempDir::new().unwrap();
    let journals = folder.path().join("a/b");
    assert!(elsewhere(0, None, || {
        let Ok(journal) = Journal::create(&journals) else { return false };
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
        mode(&journals) == 0o700 && mode(journals.parent().unwrap()) == 0o700 && mode(journal.path()) == 0o600
    }));
}

#[test]
fn live_a_journal_that_another_user_made_or_could_have_is_not_obeyed() {
    const USER: u32 = 12_345;
    let sleeper = Sleeper::start();
    let is = sleeper.schedule();
    let text = header(owner(1))
        + &Entry::Thread { thread: sleeper.identity, was: Schedule::fifo(99), set: is }.line();
    let refused = |folder: &Path, why: &str| {
        let found = match recover(folder) {
            Err(error) => error,
            Ok(mut recovered) => match recovered.remove(0).outcome {
                Outcome::Failed(error) => error,
                other => panic!("{other:?}"),
            },
        };
        assert!(matches!(&found, UndoError::Untrusted { .. }) && found.to_string().contains(why), "{found}");
        let left = left_over(folder).remove(0);
        assert!(left.unknown.as_ref().is_some_and(|said| said.contains(why)), "{left:?}");
        assert_eq!(sleeper.schedule(), is);
    };
    let base = tempfile::TempDir::new().unwrap();
    fs::set_permissions(base.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let folder = base.path().join("of-another");
    // That one's folder, which is loose, with a journal in it: by root or by itself.
    let made = || fs::create_dir(&folder).is_ok() && fs::write(folder.join("1.undo"), &text).is_ok();
    assert!(elsewhere(0, Some(USER), made));
    refused(&folder, "belongs to the user with id 12345");
    assert!(matches!(Journal::create(&folder), Err(UndoError::Untrusted { .. })));
    // A folder of root that others may write to.
    std::os::unix::fs::chown(&folder, Some(0), Some(0)).unwrap();
    refused(&folder, "others may write to it (mode 0777)");
    assert!(matches!(Journal::create(&folder), Err(UndoError::Untrusted { .. })));
    // It was loose once.
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    refused(&folder, "belongs to the user with id 12345");
    let journal = folder.join("1.undo");
    std::os::unix::fs::chown(&journal, Some(0), Some(0)).unwrap();
    fs::set_permissions(&journal, fs::Permissions::from_mode(0o620)).unwrap();
    refused(&folder, "others may write to it (mode 0620)");
    fs::set_permissions(&journal, fs::Permissions::from_mode(0o600)).unwrap();
    fs::hard_link(&journal, base.path().join("another-name")).unwrap();
    refused(&folder, "more than one name");
    fs::remove_file(&journal).unwrap();
    std::os::unix::net::UnixListener::bind(&journal).unwrap();
    assert!(matches!(only(&folder), Outcome::Failed(_)));
    fs::remove_file(&journal).unwrap();
    let fifo = std::ffi::CString::new(journal.to_str().unwrap()).unwrap();
    // SAFETY: the name ends with a zero and lives through the call.
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
    refused(&folder, "no regular file");
    // Links are not followed, to folders or files.
    fs::remove_file(&journal).unwrap();
    std::os::unix::fs::symlink(base.path().join("another-name"), &journal).unwrap();
    assert!(matches!(only(&folder), Outcome::Failed(_)));
    let link = base.path().join("link");
    std::os::unix::fs::symlink(&folder, &link).unwrap();
    assert!(recover(&link).is_err() && Journal::create(&link).is_err());
    assert_eq!(sleeper.schedule(), is);
}

#[test]
fn a_file_that_is_no_journal_is_neither_acted_upon_nor_removed() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = written(&folder, "something\nelse\n");
    assert!(matches!(only(folder.path()), Outcome::Failed(UndoError::Foreign(_))));
    assert!(path.exists());
    written(&folder, "");
    assert_eq!((undone(&folder), path.exists()), (Undone::default(), false));
}

#[test]
fn live_without_a_place_for_the_journal_nothing_is_changed() {
    let error = Journal::create(std::path::Path::new("/proc/latebound")).unwrap_err().to_string();
    assert!(error.contains("nothing is changed without one"), "{error}");
}

#[test]
fn a_journal_without_permission_or_without_room_says_what_to_do() {
    let said = |kind: std::io::ErrorKind| {
        UndoError::Journal { path: "a".into(), step: "writing", source: kind.into() }.to_string()
    };
    assert!(
        said(std::io::ErrorKind::PermissionDenied).ends_with("nothing is changed without one; run as root")
    );
    assert!(said(std::io::ErrorKind::StorageFull).ends_with("; give a folder with room (--journal)"));
    assert!(said(std::io::ErrorKind::NotFound).ends_with("nothing is changed without one"));
}
