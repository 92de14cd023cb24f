// SPDX-License-Identifier: MIT OR Apache-2.0
//! An instance of tracefs: made, filled by the kernel, read page by page, removed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use latebound_model::{Cpu, CpuSet, Tid};
use latebound_trace::{CpuStats, Decoder, Formats, PageLayout, PrintkStrings};

use crate::error::TracefsError;
use crate::place::{PREFIX, Tracefs};

/// All buffers together take no more than this unless a size is asked for.
const ALL_BUFFERS: u64 = 256 << 20;
/// The usual size of a CPU's buffer, and the least.
const USUAL: u64 = 4 << 20;
const LEAST: u64 = 128 << 10;

/// What an instance records.
#[derive(Clone, Debug, Default)]
pub struct InstanceOptions {
    /// The events: system and name.
    pub events: Vec<(String, String)>,
    /// The buffer of each CPU in bytes. `None`: 4 MiB, and less where all buffers together would have more than 256 MiB.
    pub buffer_bytes: Option<u64>,
    /// The CPUs that are recorded; all where it is `None`. The buffers of others stay as small as the kernel makes them.
    pub cpus: Option<CpuSet>,
}

impl InstanceOptions {
    /// The size of the buffer of each of so many CPUs, where `usual` bytes are enough for one and all of them together are to take no more
    /// than `most`.
    pub fn usual_buffer(cpus: usize, usual: u64, most: u64) -> u64 {
        usual.min(most.min(ALL_BUFFERS) / cpus.max(1) as u64).max(LEAST)
    }
}

/// The systems of events that a thread makes by what it does, and that are left out of its own. None of them shows blocking, which the
/// tool makes too: a bound counts every event of every thread.
const OWN_DOING: [&str; 3] = ["raw_syscalls", "exceptions", "lock"];

/// One CPU's buffer.
#[derive(Debug)]
struct Pipe {
    cpu: Cpu,
    file: File,
}

/// An own instance of tracefs, which is removed with this.
#[derive(Debug)]
pub struct Instance {
    folder: PathBuf,
    pipes: Vec<Pipe>,
    page_size: usize,
    layout: PageLayout,
    decoder: Decoder,
    events: Vec<(String, String)>,
    absent: Vec<(String, String)>,
    buffer_bytes: u64,
}

/// What a read of a CPU gave.
#[derive(Debug)]
pub enum Page {
    /// A page.
    Read(Vec<u8>),
    /// Nothing is there now; the room comes back.
    Nothing(Vec<u8>),
}

/// As many pages are handed over at once: a pipe has room for so many.
const PAGES_AT_ONCE: usize = 16;

/// Where the kernel puts pages that it has filled.
#[derive(Debug)]
pub struct FullPages {
    out: io::PipeReader,
    into: io::PipeWriter,
    /// What is in it.
    bytes: usize,
}

impl FullPages {
    /// Whether nothing is left in it: what is belongs to the CPU that was read last.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

/// Moves so many bytes at most, and none where there are none now.
fn splice(from: &File, into: &io::PipeWriter, bytes: usize) -> io::Result<usize> {
    loop {
        let none = std::ptr::null_mut();
        // SAFETY: both descriptors are open as long as their owners are borrowed, and no offsets are given.
        let moved = unsafe {
            libc::splice(from.as_raw_fd(), none, into.as_raw_fd(), none, bytes, libc::SPLICE_F_NONBLOCK)
        };
        if let Ok(moved) = usize::try_from(moved) {
            return Ok(moved);
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::WouldBlock => return Ok(0),
            io::ErrorKind::Interrupted => {}
            _ => return Err(error),
        }
    }
}

impl Instance {
    /// Makes one that records nothing yet.
    pub fn make(tracefs: &Tracefs, options: &InstanceOptions) -> Result<Instance, TracefsError> {
        // Who removes what ended runs left behind may remove a new instance before its first file is open.
        let mut tries = 3;
        loop {
            tries -= 1;
            let folder = tracefs.folder().join("instances").join(format!("{PREFIX}{}", random()?));
            fs::create_dir(&folder)
                .map_err(|source| TracefsError::of("make the instance", folder.clone(), source))?;
            match Instance::set_up(tracefs, folder.clone(), options) {
                Err(TracefsError::File { source, .. })
                    if source.kind() == io::ErrorKind::NotFound && tries > 0 && !folder.exists() => {}
                other => return other,
            }
        }
    }

    fn set_up(
        tracefs: &Tracefs,
        folder: PathBuf,
        options: &InstanceOptions,
    ) -> Result<Instance, TracefsError> {
        // From here on every way out removes the folder.
        let mut instance = Instance {
            folder,
            pipes: Vec::new(),
            page_size: 0,
            layout: PageLayout { commit_size: 8, data_offset: 16 },
            decoder: Decoder::new(&Formats::default(), false, &PrintkStrings::parse(b"")),
            events: Vec::new(),
            absent: Vec::new(),
            buffer_bytes: 0,
        };
        instance.pipes = instance.open_pipes()?;
        instance.write("tracing_on", "0")?;
        instance.write("trace_clock", "mono")?;
        let clocks = instance.text("trace_clock")?;
        if !clocks.contains("[mono]") {
            return Err(TracefsError::Clock { found: clocks.trim().to_owned() });
        }
        // An instance begins with the options of the top buffer, which are somebody else's.
        for (option, value) in [
            ("overwrite", "1"),
            ("record-cmd", "0"),
            ("record-tgid", "0"),
            ("stacktrace", "0"),
            ("userstacktrace", "0"),
        ] {
            match instance.write(&format!("options/{option}"), value) {
                Err(TracefsError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                other => other?,
            }
        }
        let count = options.cpus.as_ref().map_or(instance.pipes.len(), CpuSet::len);
        let usual = || InstanceOptions::usual_buffer(count, USUAL, ALL_BUFFERS);
        let bytes = options.buffer_bytes.unwrap_or_else(usual);
        instance.buffer_bytes = bytes;
        let kib = bytes.div_ceil(1024).max(1).to_string();
        match &options.cpus {
            Some(cpus) => {
                instance.write("tracing_cpumask", &mask(cpus))?;
                for cpu in cpus.iter() {
                    instance.write(&format!("per_cpu/cpu{cpu}/buffer_size_kb"), &kib)?;
                }
            }
            None => instance.write("buffer_size_kb", &kib)?,
        }
        let header = instance.text("events/header_page")?;
        let format = |why| TracefsError::Format { path: instance.folder.join("events/header_page"), why };
        instance.layout = PageLayout::parse(&header).map_err(format)?;
        instance.page_size = PageLayout::page_size(&header).map_err(format)?;
        instance.enable(tracefs, options)?;
        Ok(instance)
    }

    fn open_pipes(&self) -> Result<Vec<Pipe>, TracefsError> {
        let folder = self.folder.join("per_cpu");
        let entries =
            fs::read_dir(&folder).map_err(|source| TracefsError::of("read", folder.clone(), source))?;
        let number = |entry: fs::DirEntry| -> Option<u32> {
            entry.file_name().to_str()?.strip_prefix("cpu")?.parse().ok()
        };
        let mut cpus: Vec<Cpu> = entries.filter_map(|entry| number(entry.ok()?).map(Cpu)).collect();
        cpus.sort();
        let open = |cpu: Cpu| {
            let path = folder.join(format!("cpu{cpu}/trace_pipe_raw"));
            let file = OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW)
                .open(&path)
                .map_err(|source| TracefsError::of("read", path, source))?;
            Ok(Pipe { cpu, file })
        };
        cpus.into_iter().map(open).collect()
    }

    fn enable(&mut self, tracefs: &Tracefs, options: &InstanceOptions) -> Result<(), TracefsError> {
        for (system, name) in &options.events {
            let event = format!("events/{system}/{name}/enable");
            match self.write(&event, "1") {
                Err(TracefsError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                    self.absent.push((system.clone(), name.clone()));
                }
                other => other?,
            }
        }
        if self.absent.len() == options.events.len() {
            let names = options.events.iter().map(|(system, name)| format!("{system}:{name}"));
            return Err(TracefsError::NoEvents(names.collect::<Vec<_>>().join(", ")));
        }
        let mut formats = Formats::default();
        let there = options.events.iter().filter(|event| !self.absent.contains(event)).cloned();
        self.events = there.collect();
        for (system, name) in &self.events {
            formats.add(system, self.text(&format!("events/{system}/{name}/format"))?.as_bytes());
        }
        formats.finish();
        if let Some(why) = formats.problems().first() {
            let path = self.folder.join("events");
            return Err(TracefsError::Format { path, why: why.clone() });
        }
        // Inter-processor interrupts are named by addresses of texts.
        let texts = match formats.by_name("ipi", "ipi_entry") {
            Some(_) => fs::read(tracefs.folder().join("printk_formats")).unwrap_or_default(),
            None => Vec::new(),
        };
        let strings = PrintkStrings::parse(&texts);
        self.decoder = Decoder::new(&formats, cfg!(target_endian = "big"), &strings);
        match self.decoder.problems().first() {
            Some(why) => Err(TracefsError::Format { path: self.folder.join("events"), why: why.clone() }),
            None => Ok(()),
        }
    }

    fn write(&self, file: &str, text: &str) -> Result<(), TracefsError> {
        let path = self.folder.join(file);
        OpenOptions::new()
            .write(true)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|source| TracefsError::of("write", path, source))
    }

    fn text(&self, file: &str) -> Result<String, TracefsError> {
        let path = self.folder.join(file);
        whole(&path).map_err(|source| TracefsError::of("read", path, source))
    }

    /// Records nothing of what these threads themselves do: their system calls, page faults and waits for locks. Whoever reads the buffers
    /// makes such events by reading, and would never be done.
    pub fn leave_out(&self, threads: impl IntoIterator<Item = Tid>) -> Result<(), TracefsError> {
        let others: Vec<String> = threads.into_iter().map(|tid| format!("common_pid != {tid}")).collect();
        if others.is_empty() {
            return Ok(());
        }
        for (system, name) in self.events.iter().filter(|(system, _)| OWN_DOING.contains(&system.as_str())) {
            self.write(&format!("events/{system}/{name}/filter"), &others.join(" && "))?;
        }
        Ok(())
    }

    /// Begins to record.
    pub fn start(&self) -> Result<(), TracefsError> {
        self.write("tracing_on", "1")
    }

    /// Ends to record; what is in the buffers can be read.
    pub fn stop(&self) -> Result<(), TracefsError> {
        self.write("tracing_on", "0")
    }

    /// The CPUs, in the order by which [`Instance::read`] counts them.
    pub fn cpus(&self) -> impl Iterator<Item = Cpu> + '_ {
        self.pipes.iter().map(|pipe| pipe.cpu)
    }

    /// How a page is laid out.
    pub fn layout(&self) -> PageLayout {
        self.layout
    }

    /// As many pages a CPU's buffer has at most, so that whoever reads as many has read what was there at the beginning.
    pub fn pages(&self) -> usize {
        // The kernel counts the bytes without the heads of pages, rounds up, and has one page more for the reader
        // (ring_buffer_resize(), kernel/trace/ring_buffer.c); that one may be read in two parts.
        let data = self.page_size.saturating_sub(self.layout.data_offset).max(1);
        usize::try_from(self.buffer_bytes).unwrap_or(usize::MAX).div_ceil(data) + 3
    }

    /// What types the records.
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// Events that the kernel does not have.
    pub fn absent(&self) -> &[(String, String)] {
        &self.absent
    }

    /// The instance's name.
    pub fn name(&self) -> String {
        self.folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Reads the next page of a CPU, as far as it is filled; `room` is used for it.
    pub fn read(&self, place: usize, mut room: Vec<u8>) -> Result<Page, TracefsError> {
        let Some(pipe) = self.pipes.get(place) else { return Ok(Page::Nothing(room)) };
        room.resize(self.page_size, 0);
        loop {
            match (&pipe.file).read(&mut room) {
                Ok(0) => return Ok(Page::Nothing(room)),
                Ok(count) => {
                    room.truncate(count);
                    return Ok(Page::Read(room));
                }
                Err(source) if source.kind() == io::ErrorKind::WouldBlock => return Ok(Page::Nothing(room)),
                Err(source) if source.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => {
                    let path = self.folder.join(format!("per_cpu/cpu{}/trace_pipe_raw", pipe.cpu));
                    return Err(TracefsError::of("read", path, source));
                }
            }
        }
    }

    /// Gets ready for [`Instance::read_full`].
    pub fn full_pages(&self) -> Result<FullPages, TracefsError> {
        let (out, into) =
            io::pipe().map_err(|source| TracefsError::of("make a pipe for", self.folder.clone(), source))?;
        Ok(FullPages { out, into, bytes: 0 })
    }

    /// The same as [`Instance::read`], but for the page that the kernel still writes. The kernel hands such pages over as they are;
    /// one that it writes it copies event by event with interrupts off, for a time that nobody else would take.
    pub fn read_full(
        &self,
        full: &mut FullPages,
        place: usize,
        mut room: Vec<u8>,
    ) -> Result<Page, TracefsError> {
        let Some(pipe) = self.pipes.get(place) else { return Ok(Page::Nothing(room)) };
        let failed = |source| {
            let path = self.folder.join(format!("per_cpu/cpu{}/trace_pipe_raw", pipe.cpu));
            TracefsError::of("read", path, source)
        };
        if full.bytes < self.page_size {
            full.bytes += splice(&pipe.file, &full.into, PAGES_AT_ONCE * self.page_size).map_err(failed)?;
        }
        if full.bytes < self.page_size {
            return Ok(Page::Nothing(room));
        }
        room.resize(self.page_size, 0);
        full.out.read_exact(&mut room).map_err(failed)?;
        full.bytes -= self.page_size;
        Ok(Page::Read(room))
    }

    /// What the kernel counted for a CPU.
    pub fn stats(&self, place: usize) -> Result<CpuStats, TracefsError> {
        let cpu = self.pipes.get(place).map_or(Cpu(0), |pipe| pipe.cpu);
        Ok(CpuStats::of_cpu(cpu, &self.text(&format!("per_cpu/cpu{cpu}/stats"))?))
    }

    /// Removes it, and says where that fails; without this, it is removed when it is dropped.
    pub fn remove(mut self) -> Result<(), TracefsError> {
        let removed = self.take_away();
        self.folder = PathBuf::new();
        removed
    }

    fn take_away(&mut self) -> Result<(), TracefsError> {
        if self.folder.as_os_str().is_empty() {
            return Ok(());
        }
        // The kernel removes no instance of which a file is open.
        self.pipes.clear();
        match fs::remove_dir(&self.folder) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(TracefsError::of("remove the instance", self.folder.clone(), source))
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Whatever is left, the next run removes.
        let _ = self.take_away();
    }
}

/// Reads a text with large reads: what a second read of some of these files gives does not go on where the first ended
/// (show_header_page_file(), tracing_stats_read(), kernel/trace, 6.18).
fn whole(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let (mut text, mut part) = (Vec::new(), vec![0; TEXT]);
    loop {
        match file.read(&mut part)? {
            0 => return Ok(String::from_utf8_lossy(&text).into_owned()),
            count => text.extend_from_slice(&part[..count]),
        }
    }
}

/// More than any text of one event or CPU.
const TEXT: usize = 64 << 10;

/// A set of CPUs as the kernel reads it: words of 32 bits in hexadecimal digits with commas, the highest first (bitmap_parse_user(),
/// lib/bitmap-str.c, 6.18).
fn mask(cpus: &CpuSet) -> String {
    let mut words = Vec::new();
    for cpu in cpus.iter() {
        let (word, bit) = (cpu.0 as usize / 32, cpu.0 % 32);
        words.resize(words.len().max(word + 1), 0u32);
        words[word] |= 1 << bit;
    }
    words.iter().rev().map(|word| format!("{word:08x}")).collect::<Vec<_>>().join(",")
}

/// 32 hexadecimal digits that nobody can guess.
fn random() -> Result<String, TracefsError> {
    let mut bytes = [0u8; 16];
    // SAFETY: the pointer and the length are those of a live array.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if usize::try_from(got) != Ok(bytes.len()) {
        let source = io::Error::last_os_error();
        return Err(TracefsError::File {
            what: "ask for random bytes with",
            path: "getrandom(2)".into(),
            source,
        });
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_cpus_is_written_in_words_the_highest_first() {
        let of = |cpus: &[u32]| mask(&CpuSet::new(cpus.iter().copied().map(Cpu)));
        assert_eq!(of(&[0, 1, 5]), "00000023");
        assert_eq!(of(&[31, 64, 65]), "00000003,00000000,80000000");
    }

    #[test]
    fn buffers_of_many_cpus_are_smaller_and_never_too_small() {
        let of = |cpus| InstanceOptions::usual_buffer(cpus, 32 << 20, 128 << 20);
        assert_eq!([of(0), of(4), of(8), of(1 << 20)], [32 << 20, 32 << 20, 16 << 20, LEAST]);
        assert_eq!(InstanceOptions::usual_buffer(1, u64::MAX, u64::MAX), ALL_BUFFERS);
    }

    /// A section with preemption off that a filter took one end of would be a broken rule, and one without both would be no section.
    #[test]
    fn no_event_that_shows_blocking_is_left_out() {
        for system in ["preemptirq", "irq_vectors", "ipi", "irq", "nmi", "sched"] {
            assert!(!OWN_DOING.contains(&system), "{system}");
        }
    }
}
