// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lines of a journal: text, each with a checksum before it. Owns their form; a line that was cut off or damaged is
//! told, never guessed at.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use latebound_model::{Policy, Tid};

use super::schedule::{Schedule, ThreadIdentity};
use crate::root::Root;

/// Whose journal it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Which boot: a journal of another one speaks of threads that are gone with it.
    pub(super) boot: String,
    /// The PID namespace in which its thread ids mean something, by its inode.
    pub(super) namespace: u64,
    /// Who writes it.
    pub process: ThreadIdentity,
}

impl Owner {
    /// This process.
    pub(super) fn this() -> io::Result<Owner> {
        let root = Root::live();
        let own = std::process::id();
        // Where /proc is that of another PID namespace, the ids in it are not those that system calls take.
        let shown = fs::read_link("/proc/self")?;
        if shown.to_str() != Some(own.to_string().as_str()) {
            return Err(io::Error::other(format!(
                "/proc/self is {}, but this process is {own}: /proc shows another PID namespace; mount its own, as unshare --mount-proc does",
                shown.display()
            )));
        }
        Ok(Owner {
            boot: root.value("/proc/sys/kernel/random/boot_id").map_err(io::Error::other)?,
            namespace: fs::metadata("/proc/self/ns/pid")?.ino(),
            process: ThreadIdentity::of(&root, Tid(own as i32)).map_err(io::Error::other)?,
        })
    }
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// The first line: whose journal it is.
    Owner(Owner),
    /// A thread is about to be set.
    Thread { thread: ThreadIdentity, was: Schedule, set: Schedule },
    /// From now on somebody may set a thread to any FIFO priority up to this.
    Raises { thread: ThreadIdentity, was: Schedule, up_to: u32 },
}

impl Entry {
    /// With its newline, to be written in one piece.
    pub(super) fn line(&self) -> String {
        let body = match self {
            Entry::Owner(Owner { boot, namespace, process }) => {
                format!("latebound-undo-2 {boot} {namespace} {} {}", process.tid, process.start)
            }
            Entry::Thread { thread, was, set } => {
                format!("thread {} {} {} {}", thread.tid, thread.start, words(*was), words(*set))
            }
            Entry::Raises { thread, was, up_to } => {
                format!("raises {} {} {} {up_to}", thread.tid, thread.start, words(*was))
            }
        };
        format!("{:08x} {body}\n", checksum(&body))
    }

    /// From a line without its newline; `None` for one that is not whole.
    pub(super) fn parse(line: &str) -> Option<Entry> {
        let (sum, body) = line.split_once(' ')?;
        if sum.len() != 8 || u32::from_str_radix(sum, 16).ok()? != checksum(body) {
            return None;
        }
        let words: Vec<&str> = body.split(' ').collect();
        let identity = |tid: &str, start: &str| {
            Some(ThreadIdentity { tid: Tid(tid.parse().ok()?), start: start.parse().ok()? })
        };
        match words.as_slice() {
            ["latebound-undo-2", boot, namespace, tid, start] => Some(Entry::Owner(Owner {
                boot: (*boot).to_owned(),
                namespace: namespace.parse().ok()?,
                process: identity(tid, start)?,
            })),
            ["thread", tid, start, schedules @ ..] if schedules.len() == 14 => Some(Entry::Thread {
                thread: identity(tid, start)?,
                was: schedule(&schedules[..7])?,
                set: schedule(&schedules[7..])?,
            }),
            ["raises", tid, start, was @ .., up_to] if was.len() == 7 => Some(Entry::Raises {
                thread: identity(tid, start)?,
                was: schedule(was)?,
                up_to: up_to.parse().ok()?,
            }),
            _ => None,
        }
    }
}

fn checksum(body: &str) -> u32 {
    let mut sum = flate2::Crc::new();
    sum.update(body.as_bytes());
    sum.sum()
}

fn words(schedule: Schedule) -> String {
    let Schedule { policy, flags, nice, priority, reservation: [runtime, deadline, period] } = schedule;
    format!("{} {flags} {nice} {priority} {runtime} {deadline} {period}", policy.number())
}

fn schedule(words: &[&str]) -> Option<Schedule> {
    let [policy, flags, nice, priority, reservation @ ..] = words else { return None };
    let reservation: Vec<u64> = reservation.iter().map_while(|word| word.parse().ok()).collect();
    Some(Schedule {
        policy: Policy::from_number(policy.parse().ok()?)?,
        flags: flags.parse().ok()?,
        nice: nice.parse().ok()?,
        priority: priority.parse().ok()?,
        reservation: reservation.try_into().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_schedule() -> impl Strategy<Value = Schedule> {
        (0_usize..7, any::<u64>(), -20_i32..20, 0_u32..100, any::<[u64; 3]>()).prop_map(
            |(policy, flags, nice, priority, reservation)| {
                let policy = Policy::from_number([0, 1, 2, 3, 5, 6, 7][policy]).unwrap();
                Schedule { policy, flags, nice, priority, reservation }
            },
        )
    }

    #[test]
    fn a_journal_is_read_by_its_text_alone() {
        use super::super::{JournalText, read_journal};
        let thread = ThreadIdentity { tid: Tid(5), start: 7 };
        let owner = Owner { boot: "b0-07".to_owned(), namespace: 4, process: thread };
        let fifo = Schedule::fifo(50);
        let first = Entry::Owner(owner.clone()).line();
        let set = Entry::Thread { thread, was: fifo, set: Schedule::fifo(60) }.line();
        let text = format!(
            "{first}{set}{}00000000 thread 5\n",
            Entry::Raises { thread, was: fifo, up_to: 70 }.line()
        );
        let journal = JournalText { owner: Some(owner), threads: 1, unreadable: 1 };
        assert_eq!(read_journal(&text), Some(journal));
        assert_eq!(read_journal(""), Some(JournalText::default()));
        assert_eq!(read_journal(&set), None, "its first line is nobody's");
    }

    proptest! {
        #[test]
        fn a_line_is_read_as_it_was_written(tid in 1_i32.., start: u64, was in any_schedule(), set in any_schedule()) {
            let entry = Entry::Thread { thread: ThreadIdentity { tid: Tid(tid), start }, was, set };
            let raises = Entry::Raises { thread: ThreadIdentity { tid: Tid(tid), start }, was, up_to: set.priority };
            for entry in [entry, raises] {
                let line = entry.line();
                prop_assert_eq!(Entry::parse(line.trim_end_matches('\n')), Some(entry));
            }
        }

        #[test]
        fn a_line_cut_off_or_with_another_byte_is_no_entry(was in any_schedule(), cut in 0_usize..60, flip in 0_usize..60) {
            let entry = Entry::Thread { thread: ThreadIdentity { tid: Tid(5), start: 7 }, was, set: Schedule::fifo(50) };
            let line = entry.line();
            let whole = line.trim_end_matches('\n');
            prop_assert_eq!(Entry::parse(&whole[..cut.min(whole.len() - 1)]), None);
            let mut bytes = whole.as_bytes().to_vec();
            let place = flip % bytes.len();
            bytes[place] = if bytes[place] == b'3' { b'4' } else { b'3' };
            prop_assert_eq!(Entry::parse(std::str::from_utf8(&bytes).unwrap()), None);
        }
    }
}
