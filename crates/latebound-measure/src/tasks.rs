// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real-time tasks on files: what the experiments of the paper behind `tune` are made of (D. Kang, W. Lee, C. Park, "Kernel
//! Thread Scheduling in Real-Time Linux for Wearable Computers", ETRI Journal 29(3), 2007, section V, figures 2, 7 and 12).
//!
//! Each task repeats one piece of work; as in the paper it then sleeps for what is left of its period, and where nothing is left it
//! goes on at once and counts its period from there. Owns the tasks, their words on the command line and their files. Measures
//! nothing: that is for whoever watches.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::str::FromStr;
use std::sync::Barrier;

use latebound_files::Folder;
use latebound_model::{Cpu, CpuSet, Nanos, Policy};
use latebound_syscall::sched::{self, Scheduling};
use latebound_syscall::{clock, memory};

use crate::echo::Echo;

/// What a task does each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// Writes to its file, one piece behind the other, and from the start again.
    Write,
    /// Reads a piece of its file, anywhere.
    Read,
    /// Computes.
    Spin,
    /// Sends bytes to itself through a pseudo terminal, and waits for them: a work item each time.
    Echo,
}

/// What is on the disk when a write has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Nothing: the bytes are in the page cache.
    #[default]
    Cached,
    /// The bytes, and of the file what is needed to read them (`O_DSYNC`).
    Data,
    /// All of the file, its times too (`fsync` after the write): on ext4 that is a commit of the journal.
    File,
}

/// One task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileTask {
    /// What it does.
    pub kind: TaskKind,
    /// The thread's name, at most 15 letters.
    pub name: String,
    /// `SCHED_FIFO`.
    pub priority: u32,
    /// Zero: without pause.
    pub period: Nanos,
    /// Bytes of one piece.
    pub bytes: usize,
    /// The size of its file.
    pub file: u64,
    /// Past the page cache.
    pub direct: bool,
    /// What a write waits for.
    pub durability: Durability,
    /// How long it computes, by the clock.
    pub busy: Nanos,
    /// Where, if not anywhere.
    pub cpu: Option<Cpu>,
    /// Whether what it came too late for is done one after the other, and not left out.
    pub catch_up: bool,
}

/// Words that describe no task.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no task: {problem}; write KIND:key=value,… with the kind write, read, spin or echo, and of name, priority, period, bytes, \
     file, direct, sync, fsync, busy, cpu, catch-up what differs from write:priority=50,period=10ms,bytes=4096,file=16MiB"
)]
pub struct ParseTaskError {
    text: String,
    problem: String,
}

impl FileTask {
    fn has_file(&self) -> bool {
        matches!(self.kind, TaskKind::Write | TaskKind::Read)
    }
}

impl FromStr for FileTask {
    type Err = ParseTaskError;

    fn from_str(text: &str) -> Result<FileTask, ParseTaskError> {
        let wrong = |problem: String| ParseTaskError { text: text.to_owned(), problem };
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let kind = match kind {
            "write" => TaskKind::Write,
            "read" => TaskKind::Read,
            "spin" => TaskKind::Spin,
            "echo" => TaskKind::Echo,
            other => return Err(wrong(format!("{other:?} is no kind"))),
        };
        let mut task = FileTask {
            kind,
            name: String::new(),
            priority: 50,
            period: Nanos::from_millis(10),
            bytes: 4096,
            file: 16 << 20,
            direct: false,
            durability: Durability::Cached,
            busy: Nanos::from_millis(1),
            cpu: None,
            catch_up: false,
        };
        for pair in rest.split(',').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let bad = |what: &str| wrong(format!("{key}={value} is {what}"));
            match key {
                "name" => value.clone_into(&mut task.name),
                "priority" => {
                    task.priority = value
                        .parse()
                        .ok()
                        .filter(|priority| (1..=99).contains(priority))
                        .ok_or_else(|| bad("not 1 to 99"))?;
                }
                "period" => task.period = value.parse().map_err(|_| bad("no time, as 10ms"))?,
                "busy" => task.busy = value.parse().map_err(|_| bad("no time, as 1ms"))?,
                "bytes" => {
                    task.bytes = size(value)
                        .and_then(|bytes| usize::try_from(bytes).ok())
                        .filter(|bytes| (1..=1 << 30).contains(bytes))
                        .ok_or_else(|| bad("no size, as 4096 or 100KiB"))?;
                }
                "file" => task.file = size(value).ok_or_else(|| bad("no size, as 16MiB"))?,
                "cpu" => task.cpu = Some(Cpu(value.parse().map_err(|_| bad("no CPU"))?)),
                "direct" if value.is_empty() => task.direct = true,
                "sync" if value.is_empty() => task.durability = Durability::Data,
                "fsync" if value.is_empty() => task.durability = Durability::File,
                "catch-up" if value.is_empty() => task.catch_up = true,
                _ => return Err(wrong(format!("{pair} is not known"))),
            }
        }
        if task.name.is_empty() {
            let word = match kind {
                TaskKind::Write => "write",
                TaskKind::Read => "read",
                TaskKind::Spin => "spin",
                TaskKind::Echo => "echo",
            };
            task.name = format!("{word}-{}", task.priority);
        }
        // TASK_COMM_LEN is 16 with its zero (include/linux/sched.h); the name is a file's too.
        if task.name.len() > 15 || task.name.contains(['/', '\0']) {
            return Err(wrong(format!("the name {} is longer than 15 letters or has a slash", task.name)));
        }
        if task.direct && !task.bytes.is_multiple_of(PAGE) {
            return Err(wrong(format!(
                "direct needs whole pages of {PAGE} bytes, and {} are none",
                task.bytes
            )));
        }
        // Of what it writes before it reads a terminal keeps 4095 bytes (N_TTY_BUF_SIZE, drivers/tty/n_tty.c).
        if task.kind == TaskKind::Echo && task.bytes > 4095 {
            return Err(wrong(format!("a terminal keeps 4095 bytes, and {} are more", task.bytes)));
        }
        if task.has_file() && task.file < task.bytes as u64 {
            return Err(wrong("the file is smaller than a piece of it".to_owned()));
        }
        Ok(task)
    }
}

/// What direct input and output come in.
const PAGE: usize = 4096;

/// `4096`, `100KiB`, `64MiB`.
fn size(text: &str) -> Option<u64> {
    for (unit, shift) in [("KiB", 10), ("MiB", 20), ("GiB", 30)] {
        if let Some(number) = text.strip_suffix(unit) {
            return number.parse::<u64>().ok()?.checked_mul(1 << shift);
        }
    }
    text.parse().ok()
}

/// Runs the tasks in this folder for so long, each on a thread of its own. Their files are made where they are not there or too
/// small, before any task begins; `begun` is called then.
///
/// Their memory is locked, as of every program that has to answer in time: the kernel moves pages that are not, to have larger pieces together, and who
/// touches one meanwhile waits for `kcompactd`. The tasks end by their own clocks. How often each did its work, in their order.
pub fn run_tasks(
    folder: &Path,
    tasks: &[FileTask],
    duration: Nanos,
    begun: impl FnOnce(),
) -> io::Result<Vec<u64>> {
    for task in tasks.iter().filter(|task| task.has_file()) {
        prepare(&folder.join(&task.name), task.file)?;
    }
    memory::lock_touched()?;
    begun();
    // A task that computes would keep the others of its processor from ever getting a real-time priority.
    let all_ready = Barrier::new(tasks.len());
    let all_ready = &all_ready;
    std::thread::scope(|scope| {
        let threads: Vec<_> = tasks
            .iter()
            .map(|task| {
                std::thread::Builder::new().name(task.name.clone()).spawn_scoped(scope, move || {
                    let begun = begin(task, folder);
                    all_ready.wait();
                    begun.and_then(|(tool, pages)| life(task, tool, pages, clock::now() + duration))
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread?.join().map_err(|_| io::Error::other("a task panicked"))?)
            .collect()
    })
}

/// The whole file on the disk, so that a task allocates nothing.
fn prepare(path: &Path, bytes: u64) -> io::Result<()> {
    let (folder, name) = Folder::above(path)?;
    let found = folder.open_file(&name).and_then(|file| file.metadata());
    if found.is_ok_and(|found| found.len() >= bytes) {
        return Ok(());
    }
    let block = vec![0x5a; 1 << 20];
    folder.replace(&name, |file| {
        let mut at = 0;
        while at < bytes {
            let piece = block.len().min((bytes - at) as usize);
            file.write_all_at(&block[..piece], at)?;
            at += piece as u64;
        }
        Ok(())
    })
}

#[repr(C, align(4096))]
#[derive(Clone, Copy)]
struct Page([u8; PAGE]);

/// What a task does its work on.
enum Tool {
    File(File),
    Echo(Echo),
    Nothing,
}

/// All that a task needs, its priority last.
fn begin(task: &FileTask, folder: &Path) -> io::Result<(Tool, Vec<Page>)> {
    if let Some(cpu) = task.cpu {
        sched::set_affinity(&CpuSet::new([cpu]))?;
    }
    let tool = match task.kind {
        TaskKind::Spin => Tool::Nothing,
        TaskKind::Echo => Tool::Echo(Echo::open()?),
        kind => {
            let is_data_synced = task.durability == Durability::Data;
            let flags =
                if task.direct { libc::O_DIRECT } else { 0 } | if is_data_synced { libc::O_DSYNC } else { 0 };
            let mut options = OpenOptions::new();
            // The folder may be another user's: not a link that was put in the file's place.
            let flags = flags | libc::O_NOFOLLOW | libc::O_NONBLOCK;
            options.read(kind == TaskKind::Read).write(kind == TaskKind::Write).custom_flags(flags);
            let file = options.open(folder.join(&task.name))?;
            if !file.metadata()?.is_file() {
                return Err(io::Error::other(format!("{} is not a regular file", task.name)));
            }
            Tool::File(file)
        }
    };
    let pages = vec![Page([0x33; PAGE]); task.bytes.div_ceil(PAGE)];
    sched::set_scheduling(Scheduling::RealTime { policy: Policy::Fifo, priority: task.priority })?;
    Ok((tool, pages))
}

fn life(task: &FileTask, mut tool: Tool, mut pages: Vec<Page>, end: Nanos) -> io::Result<u64> {
    // SAFETY: pages are bytes without gaps, and there are at least so many of them.
    let buffer = unsafe { std::slice::from_raw_parts_mut(pages.as_mut_ptr().cast::<u8>(), task.bytes) };
    let pieces = (task.file / task.bytes as u64).max(1);
    let mut due = clock::now();
    // Another start each time: the same pieces again would be in the page cache.
    let (mut done, mut random) = (0_u64, 0x9E37_79B9_7F4A_7C15_u64 ^ due.0);
    while clock::now() < end {
        match (task.kind, &mut tool) {
            (TaskKind::Write, Tool::File(file)) => {
                file.write_all_at(buffer, done % pieces * task.bytes as u64)?;
                if task.durability == Durability::File {
                    file.sync_all()?;
                }
            }
            (_, Tool::Echo(echo)) => echo.exchange(buffer)?,
            (TaskKind::Read, Tool::File(file)) => {
                // Knuth, The Art of Computer Programming, volume 2, section 3.3.4, table 1, line 26.
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                file.read_exact_at(buffer, (random >> 33) % pieces * task.bytes as u64)?;
            }
            _ => {
                let until = clock::now() + task.busy;
                while clock::now() < until {
                    std::hint::spin_loop();
                }
            }
        }
        done += 1;
        if task.period == Nanos::ZERO {
            due = clock::now();
            continue;
        }
        due += task.period;
        if !task.catch_up {
            due = due.max(clock::now());
        }
        clock::sleep_until(due);
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_read_from_words_and_what_is_left_out_has_its_default() {
        let task: FileTask =
            "read:name=low,priority=40,bytes=100KiB,period=0us,direct,file=64MiB,cpu=1".parse().unwrap();
        assert_eq!(
            task,
            FileTask {
                kind: TaskKind::Read,
                name: "low".to_owned(),
                priority: 40,
                period: Nanos::ZERO,
                bytes: 102_400,
                file: 64 << 20,
                direct: true,
                durability: Durability::Cached,
                busy: Nanos::from_millis(1),
                cpu: Some(Cpu(1)),
                catch_up: false,
            }
        );
        let durability = |words: &str| words.parse::<FileTask>().unwrap().durability;
        assert_eq!(
            ["write", "write:sync", "write:fsync"].map(durability),
            [Durability::Cached, Durability::Data, Durability::File]
        );
        assert_eq!("spin:priority=7".parse::<FileTask>().unwrap().name, "spin-7");
    }

    #[test]
    fn words_that_make_no_task_are_refused_with_the_word() {
        for (words, said) in [
            ("sleep", "\"sleep\" is no kind"),
            ("write:priority=100", "priority=100 is not 1 to 99"),
            ("write:bytes=0", "bytes=0 is no size"),
            ("write:direct,bytes=16", "whole pages"),
            ("write:name=a/b", "slash"),
            ("write:file=1,bytes=2", "smaller than a piece"),
            ("spin:fast", "fast is not known"),
            ("echo:bytes=4096", "a terminal keeps 4095 bytes"),
        ] {
            let error = words.parse::<FileTask>().unwrap_err().to_string();
            assert!(error.contains(said), "{words}: {error}");
        }
    }

    #[test]
    fn live_tasks_do_their_work_at_their_period_and_end_by_their_clock() {
        let folder = tempfile::tempdir().unwrap();
        let tasks: Vec<FileTask> = [
            "write:name=w,priority=2,period=10ms,bytes=16,file=64KiB",
            "spin:priority=1",
            "echo:priority=3,bytes=16",
        ]
        .iter()
        .map(|text| text.parse().unwrap())
        .collect();
        let started = clock::now();
        let done = run_tasks(folder.path(), &tasks, Nanos::from_millis(200), || {}).unwrap();
        let took = clock::now().saturating_sub(started);
        assert!((Nanos::from_millis(200)..Nanos::from_millis(1_200)).contains(&took), "{took}");
        // Never more than one each 10 ms and the first; fewer where the machine was late.
        assert!((2..=21).contains(&done[0]) && (2..=21).contains(&done[1]), "{done:?}");
        assert!((2..=21).contains(&done[2]), "{done:?}");
        assert_eq!(folder.path().join("w").metadata().unwrap().len(), 65_536);
    }
}
