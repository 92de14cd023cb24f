// SPDX-License-Identifier: MIT OR Apache-2.0
//! One job in one machine: from the kernel and the command to what came out of it.
//!
//! Everything that the guest writes comes through a folder shared with it, and the guest is believed to be done only when
//! its init has written the status there, last of all. What is in that folder is the guest's word (docs/src/reference/lab-trust.md): the host opens
//! regular files in it, no links and no pipes, reads no more than limits allow, and writes results itself.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use latebound_files::Folder;
use latebound_report::html;

use crate::arch::Architecture;
use crate::console::{self, GuestEnd, GuestOutcome};
use crate::context::{Event, Lab};
use crate::error::LabError;
use crate::folder::JobFolder;
use crate::foreign;
use crate::kernel::Kernel;
use crate::machine::{self, Clock, Machine};
use crate::module::{self, Module};
use crate::program::Group;
use crate::shell;
use crate::virtme::{self, Request};

const INIT: &str = include_str!("../guest/init.sh");

/// How long a kernel may take on KVM until its first process runs; when it takes longer, KVM does not work here.
const KVM_BOOT: Duration = Duration::from_secs(20);

/// The folder shared with the guest, and the script that it runs in there.
const SHARE: &str = "share";
const JOB: &str = "job";

/// How often a machine is started again after the emulator's own fault.
const TRIPS: u32 = 4;

/// How long a job that was interrupted may take to say what it has, by the host's clock.
const LAST_WORDS: Duration = Duration::from_secs(60);

/// The most of the console that is kept: its end.
const MAX_CONSOLE: u64 = 64 << 20;

/// The most that is read at once of what the guest's job writes.
const MAX_TAIL: u64 = 1 << 20;

/// The largest file of a Run that is taken from a guest.
const MAX_FILE: u64 = 1 << 30;

/// A verb that writes a Run of its own is told to write it here, and it is brought back from here.
const GUEST_FOLDER: &str = "/run/latebound";

/// In the environment of a verb in a guest: where its Run will lie on the host.
pub const SHOWN_AS: &str = "LATEBOUND_RUN_SHOWN_AS";

/// Verbs that write a Run.
const RUN_VERBS: [&str; 6] = ["bound", "check", "defer", "measure", "explain", "observe"];

/// What runs in the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// A verb of this latebound binary, with its arguments.
    Verb {
        /// The binary, in the host's file system.
        binary: PathBuf,
        /// `check --duration 10s`.
        arguments: Vec<String>,
    },
    /// Verbs that write Runs, one after the other in one machine.
    Verbs {
        /// The binary, in the host's file system.
        binary: PathBuf,
        /// The arguments of each, and the place of its Run; the folder that it is to lie in is there.
        each: Vec<(Vec<String>, PathBuf)>,
    },
    /// Any command.
    Command(Vec<String>),
}

/// A job.
#[derive(Clone, Debug)]
pub struct Job {
    /// The machine.
    pub machine: Machine,
    /// What runs in it.
    pub payload: Payload,
    /// How long the machine may run in all, by the host's clock.
    pub timeout: Duration,
    /// Built for the kernel and loaded before the payload runs.
    pub module: Option<Module>,
    /// The folder that the payload starts in. A machine of another architecture than the host's sees it, and nothing else of the host's files.
    pub directory: PathBuf,
    /// The static latebound that a machine of another architecture has as `/bin/latebound`; others have the host's files.
    pub program: Option<PathBuf>,
    /// Where the lab is told to stop while the payload runs: whether that is interrupted, as by Ctrl-C, and says what it has.
    pub interrupt: bool,
}

/// What came out of a job.
#[derive(Debug)]
pub struct Outcome {
    /// The payload's exit status.
    pub status: i32,
    /// The folder of the Run, in the place asked for; of several verbs that of the last.
    pub run: Option<PathBuf>,
    /// The whole console log, in the place asked for.
    pub console: PathBuf,
    /// From the start of the machine until the payload began.
    pub boot: Duration,
    /// From the start of the machine until its result was there.
    pub total: Duration,
    /// Whether KVM ran it.
    pub kvm: bool,
}

/// Why a job gave no outcome.
#[derive(Debug)]
pub struct Failure {
    /// The error for people.
    pub error: LabError,
    /// Whether the kernel never came as far as running the payload.
    pub boot_failure: bool,
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Failure {
        Failure { error, boot_failure: false }
    }
}

impl From<Failure> for LabError {
    fn from(failure: Failure) -> LabError {
        failure.error
    }
}

/// The name of the console log beside a Run: `fast.run` has `fast.console.log`.
pub fn console_beside(run: &Path) -> PathBuf {
    let name = run.file_name().unwrap_or_default().as_bytes();
    let mut console = name.strip_suffix(b".run").unwrap_or(name).to_vec();
    console.extend(b".console.log");
    run.with_file_name(OsString::from_vec(console))
}

/// The host's folders that a guest cannot see, because it has its own there.
const HIDDEN: [&str; 4] = ["/run/", "/dev/", "/proc/", "/sys/"];

fn visible(path: &Path, what: &str) -> Result<(), LabError> {
    if HIDDEN.iter().any(|hidden| path.starts_with(hidden)) {
        return Err(LabError::Machine(format!(
            "{what} {} cannot be seen in the guest, which has a folder of its own there; put it elsewhere",
            path.display()
        )));
    }
    Ok(())
}

/// Whether the arguments ask for a Run, and the arguments with the place for it.
fn with_output(arguments: &[String], place: &str) -> Result<(Vec<String>, bool), LabError> {
    let Some(at) = arguments.iter().position(|word| RUN_VERBS.contains(&word.as_str())) else {
        return Ok((arguments.to_vec(), false));
    };
    // `defer run` has its options behind the second word; `defer advise` reads a Run and writes none.
    let second = arguments.get(at + 1).map(String::as_str);
    if arguments[at] == "defer" && second == Some("advise") {
        return Ok((arguments.to_vec(), false));
    }
    let at =
        at + usize::from(arguments[at] == "defer" && matches!(second, Some("run" | "lost" | "timeline")));
    let own = arguments.iter().take_while(|word| *word != "--");
    if let Some(word) =
        own.into_iter().find(|word| *word == "-o" || *word == "--output" || word.starts_with("--output="))
    {
        return Err(LabError::Machine(format!(
            "{word} belongs before the two dashes: the Run is brought back to the host; type: latebound lab run --output FOLDER … -- {}",
            arguments[at]
        )));
    }
    let mut words = arguments.to_vec();
    words.splice(at + 1..at + 1, ["--output".to_owned(), place.to_owned()]);
    Ok((words, true))
}

/// On the kernel's command line: the job takes the place of the guest's first process (guest/init.sh).
const IS_FIRST: &str = "latebound_first=1";

/// The shell script that the guest runs, and whether a Run comes out.
fn script(
    job: &Job,
    of: Architecture,
    modules: &[PathBuf],
    output: &Path,
) -> Result<(String, bool), LabError> {
    // By instructions, anything that waits for the host takes as long as the next timer: so the job does not meet the
    // host between its first and its last line. One that takes the place of the guest's first process sees to that itself.
    let is_first = job.machine.append.iter().any(|option| option == IS_FIRST);
    let staged = job.machine.clock.counts_instructions() && !is_first;
    let place = if staged { "/run/stage/run".to_owned() } else { format!("{GUEST_FOLDER}/run") };
    let verb = |binary: &Path, arguments: &[String], place: &str| -> Result<(Vec<String>, bool), LabError> {
        let (arguments, has_run) = with_output(arguments, place)?;
        let binary = match (of.is_host(), staged) {
            (false, _) => foreign::PROGRAM.to_owned(),
            (true, true) => "/run/stage/latebound".to_owned(),
            (true, false) => binary.display().to_string(),
        };
        Ok((std::iter::once(binary).chain(arguments).collect(), has_run))
    };
    if let Payload::Verb { binary, .. } | Payload::Verbs { binary, .. } = &job.payload
        && of.is_host()
    {
        visible(binary, "the program")?;
    }
    // Each command, and where its Run will lie in the guest.
    let commands: Vec<(Vec<String>, Option<String>)> = match &job.payload {
        Payload::Command(words) => vec![(words.clone(), None)],
        Payload::Verb { binary, arguments } => {
            let (words, has_run) = verb(binary, arguments, &place)?;
            vec![(words, has_run.then_some(place))]
        }
        Payload::Verbs { binary, each } => {
            let words = |(at, (arguments, _)): (usize, &(Vec<String>, PathBuf))| {
                let place = numbered(&place, at);
                let (words, has_run) = verb(binary, arguments, &place)?;
                Ok((words, has_run.then_some(place)))
            };
            each.iter().enumerate().map(words).collect::<Result<_, LabError>>()?
        }
    };
    let has_run = commands.iter().any(|(_, place)| place.is_some());
    // The verb says where its Run lies: not here, where it is gone with the machine.
    let shown = std::path::absolute(output).unwrap_or_else(|_| output.to_owned());
    let mut text = format!("export {SHOWN_AS}={}\n", shell::quote_bytes(shown.as_os_str()));
    for module in modules {
        text += &format!(
            "insmod {} || {{ echo 'the module could not be loaded' >&2; exit 1; }}\n",
            shell::quote(&module.display().to_string())
        );
    }
    let directory = if of.is_host() { job.directory.as_path() } else { Path::new(foreign::DIRECTORY) };
    text += &format!("cd {} || exit 1\n", shell::quote_bytes(directory.as_os_str()));
    if !staged {
        if let [(command, _)] = commands.as_slice() {
            text += &format!("exec {}\n", shell::join(command));
            return Ok((text, has_run));
        }
        text += "status=0\n";
        for (command, _) in &commands {
            text += &format!("{} || status=$?\n", shell::join(command));
        }
        text += "exit $status\n";
        return Ok((text, has_run));
    }
    text += "mkdir -p /run/stage || exit 1\n";
    if let Payload::Verb { binary, .. } | Payload::Verbs { binary, .. } = &job.payload
        && of.is_host()
    {
        text +=
            &format!("cp {} /run/stage/latebound || exit 1\n", shell::quote(&binary.display().to_string()));
    }
    // An interrupt is for the command; this shell brings back what it says then.
    text += "trap : INT\n";
    // Let what the boot left behind come to an end; this takes no time of the host's.
    text += "sleep 3\n";
    let several = commands.len() > 1;
    let (into, keep) = if several { (">>", " || status=$?") } else { (">", "\nstatus=$?") };
    if several {
        text += "status=0\n";
    }
    for (command, _) in &commands {
        text += &format!("{} {into}/run/stage/stdout 2{into}/run/stage/stderr{keep}\n", shell::join(command));
    }
    text += "cat /run/stage/stdout\ncat /run/stage/stderr >&2\n";
    for place in commands.iter().filter_map(|(_, place)| place.as_ref()) {
        let name = place.rsplit('/').next().unwrap_or_default();
        text += &format!("[ ! -d {place} ] || cp -r {place} {GUEST_FOLDER}/{name} || exit 1\n");
    }
    text += "exit $status\n";
    Ok((text, has_run))
}

/// The place of one of several Runs.
fn numbered(place: &str, at: usize) -> String {
    format!("{place}-{at}")
}

/// A file that the guest writes to, read as it grows.
struct Tail<'a> {
    folder: &'a Folder,
    name: &'a OsStr,
    at: u64,
}

impl<'a> Tail<'a> {
    fn new(folder: &'a Folder, name: &'a str) -> Tail<'a> {
        Tail { folder, name: name.as_ref(), at: 0 }
    }

    /// What was added, or a part of it where that is much.
    fn more(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Ok(mut file) = self.folder.open_file(self.name)
            && file.seek(SeekFrom::Start(self.at)).is_ok()
        {
            let _ = file.take(MAX_TAIL).read_to_end(&mut bytes);
            self.at += bytes.len() as u64;
        }
        bytes
    }

    /// All that is left; a guest that wrote without end has `most` of it told.
    fn rest(&mut self, most: u64, mut tell: impl FnMut(&[u8])) {
        let end = self.at.saturating_add(most);
        while self.at < end {
            let bytes = self.more();
            if bytes.is_empty() {
                break;
            }
            tell(&bytes);
        }
    }
}

/// Runs a job. The Run, where there is one, comes to `output`, the console log beside it, also where the guest failed.
///
/// With `overwrite` a Run that is there is replaced.
pub fn run(
    lab: &Lab<'_>,
    kernel: &Kernel,
    job: &Job,
    output: &Path,
    overwrite: bool,
) -> Result<Outcome, Failure> {
    job.machine.check()?;
    // Before anything takes time: the same refusals that the Run's writer has.
    drop(latebound_store::RunFolder::create(output, overwrite).map_err(LabError::from)?);
    let of = kernel.architecture;
    if of.is_host() {
        virtme::require()?
    } else {
        foreign::require(of)?
    }
    let mut machine = job.machine.clone();
    let mut tripped = 0;
    loop {
        let refused = machine::kvm_refused(lab, &machine, of);
        match attempt(lab, kernel, job, output, overwrite, refused.is_none()) {
            Err(failure) if refused.is_none() && failed_without_guest(&failure) => {
                let why = match &failure.error {
                    LabError::Guest { end, .. } => end.to_string(),
                    other => other.to_string(),
                };
                lab.note(&format!(
                    "/dev/kvm is there but did not run the machine ({why}); going on in software"
                ));
                machine::refuse_kvm(lab, &why);
                lab.tell(Event::StartsAgain);
                machine.accelerator = machine::Accelerator::Emulation;
            }
            Err(failure) if refused.is_some() && tripped < TRIPS && tripped_over_patching(&failure) => {
                tripped += 1;
                lab.note("the emulator tripped over kernel code that changed under another CPU; starting the machine again");
                lab.tell(Event::StartsAgain);
            }
            result => return result,
        }
    }
}

/// Whether the guest died of the emulator, not of its kernel: QEMU's parallel emulation (7.2) can let a CPU run into the
/// breakpoint that stands for an instruction while another CPU changes it (Linux 6.12, arch/x86/kernel/alternative.c,
/// `text_poke_bp_batch`), after the kernel has forgotten the breakpoint. Met in two of some fifty machines here, at
/// boot and where BPF programs were attached.
fn tripped_over_patching(failure: &Failure) -> bool {
    let panic = |end: &GuestEnd| matches!(end, GuestEnd::Panic { message } if message.contains("Oops: int3"));
    matches!(&failure.error, LabError::Guest { end, .. } if panic(end))
}

fn failed_without_guest(failure: &Failure) -> bool {
    failure.boot_failure || matches!(&failure.error, LabError::Guest { end: GuestEnd::Emulator { .. }, .. })
}

fn attempt(
    lab: &Lab<'_>,
    kernel: &Kernel,
    job: &Job,
    output: &Path,
    overwrite: bool,
    kvm: bool,
) -> Result<Outcome, Failure> {
    let folder = JobFolder::make(lab)?;
    visible(&folder.place, "the lab's cache (XDG_CACHE_HOME)")?;
    let share = folder.path(SHARE);
    let shared =
        folder.folder.make(SHARE.as_ref(), 0o700).map_err(LabError::io("make the folder", &share))?;
    let modules = match &job.module {
        Some(module) => module::build(lab, kernel, module, &folder.place)?,
        None => Vec::new(),
    };
    let places: Vec<PathBuf> = match kernel.architecture.is_host() {
        true => modules.clone(),
        false => modules.iter().map(|module| foreign::module_place(module)).collect(),
    };
    for module in &places {
        visible(module, "the module")?;
    }
    let (text, has_run) = script(job, kernel.architecture, &places, output)?;
    shared
        .replace(JOB.as_ref(), |file| io::Write::write_all(file, text.as_bytes()))
        .map_err(LabError::io("write the job to", &share))?;
    let init = folder.write("init", INIT)?;
    set_executable(&init)?;
    let disk = job.machine.disk_bytes.map(|bytes| scratch_disk(&folder, bytes)).transpose()?;

    let initramfs = folder.path("initramfs");
    if !kernel.architecture.is_host() {
        lab.progress("packing the guest's files");
        foreign::initramfs(lab, kernel, job.program.as_deref(), &modules, &init, &folder.place, &initramfs)?;
    }
    let words = compose(lab, kernel, job, kvm, &share, &init, &initramfs, disk.as_deref())?;
    let console = folder.path("console");
    let emulator = folder.path("qemu.stderr");
    let open = |path: &Path| File::create_new(path).map_err(LabError::io("make", path));
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(open(&console)?)
        .stderr(open(&emulator)?);
    let started_at = Instant::now();
    let mut qemu = Group::start("start a machine", &mut command)?;
    let (mut stdout, mut stderr) = (Tail::new(&shared, "stdout"), Tail::new(&shared, "stderr"));
    let (begun, status): (&OsStr, &OsStr) = ("started".as_ref(), "status".as_ref());
    let mut boot = None;
    let mut timed_out = None;
    let mut interrupted: Option<Instant> = None;
    let ended = loop {
        let finished = qemu.finished();
        let done = shared.has_file(status);
        if boot.is_none() && shared.has_file(begun) {
            boot = Some(started_at.elapsed());
        }
        let (new_stdout, new_stderr) = (stdout.more(), stderr.more());
        if !new_stdout.is_empty() {
            lab.tell(Event::Stdout(&new_stdout));
        }
        if !new_stderr.is_empty() {
            lab.tell(Event::Stderr(&new_stderr));
        }
        if done || finished.is_some() {
            stdout.rest(MAX_CONSOLE, |bytes| lab.tell(Event::Stdout(bytes)));
            stderr.rest(MAX_CONSOLE, |bytes| lab.tell(Event::Stderr(bytes)));
            break finished;
        }
        if lab.stopped() {
            match interrupted {
                None if job.interrupt && boot.is_some() && qemu.write_line("interrupt") => {
                    interrupted = Some(Instant::now());
                    lab.note("interrupted: waiting for what the job has; once more ends the machine at once");
                }
                Some(since) if since.elapsed() < LAST_WORDS => {}
                _ => return Err(LabError::Stopped.into()),
            }
        }
        let limit = if kvm && boot.is_none() { job.timeout.min(KVM_BOOT) } else { job.timeout };
        if started_at.elapsed() >= limit {
            timed_out = Some(limit);
            break None;
        }
        if boot.is_none() {
            lab.progress(&format!("booting {}: {} s", kernel.name, started_at.elapsed().as_secs()));
        } else {
            lab.progress(&format!("running in {}: {} s", kernel.name, started_at.elapsed().as_secs()));
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let total = started_at.elapsed();
    qemu.kill();

    let console_bytes = end_of(&console).unwrap_or_default();
    let kept = console_beside(output);
    latebound_files::write(&kept, &console_bytes).map_err(LabError::io("write the console log to", &kept))?;
    let console_text = String::from_utf8_lossy(&console_bytes).into_owned();
    let emulator_text = String::from_utf8_lossy(&end_of(&emulator).unwrap_or_default()).into_owned();
    let seen = GuestOutcome {
        console: &console_text,
        emulator: &emulator_text,
        started: boot.is_some(),
        timed_out,
        emulator_failed: ended.is_some_and(|status| !status.success()),
        memory_mib: job.machine.memory_mib,
    };
    let failure = |end: GuestEnd| Failure {
        boot_failure: end.is_boot_failure(boot.is_some()),
        error: LabError::Guest { end, lines: console::excerpt(&console_text, 12), console: kept.clone() },
    };
    let status =
        shared.read(status, 64).ok().and_then(|text| str::from_utf8(&text).ok()?.trim().parse().ok());
    let Some(status) = status else { return Err(failure(console::diagnose(&seen))) };
    // 128 + SIGKILL: what a shell says of a job that the kernel killed.
    if let Some(message) = console::out_of_memory(&console_text).filter(|_| status == 137) {
        return Err(failure(GuestEnd::OutOfMemory { message, memory_mib: job.machine.memory_mib }));
    }
    let places: Vec<(String, &Path)> = match &job.payload {
        Payload::Verbs { each, .. } => {
            each.iter().enumerate().map(|(at, (_, to))| (numbered("run", at), to.as_path())).collect()
        }
        _ => vec![("run".to_owned(), output)],
    };
    let mut run = None;
    for (from, to) in places.into_iter().filter(|(from, _)| has_run && shared.is_folder(from.as_ref())) {
        let from = shared.child(from.as_ref()).map_err(LabError::io("open the Run in", &share))?;
        run = Some(put_in_place(&from, to, overwrite)?);
    }
    Ok(Outcome { status, run, console: kept, boot: boot.unwrap_or(total), total, kvm })
}

#[allow(clippy::too_many_arguments, reason = "each is a different thing of one machine, used once")]
fn compose(
    lab: &Lab<'_>,
    kernel: &Kernel,
    job: &Job,
    kvm: bool,
    share: &Path,
    init: &Path,
    initramfs: &Path,
    disk: Option<&Path>,
) -> Result<Vec<String>, LabError> {
    let machine = &job.machine;
    let mut append = vec![
        format!("console={}", kernel.architecture.console()),
        // Panics, oopses and the words of the memory killer go to the log; a boot's chatter does not, it costs time.
        "loglevel=5".to_owned(),
        "panic=-1".to_owned(),
        "net.ifnames=0".to_owned(),
        format!("latebound.clock={}", machine.clock),
        // Three seconds of instructions that the kernel's cryptography spends on testing itself.
        "cryptomgr.notests".to_owned(),
    ];
    // What happens before the console is up.
    append.extend(kernel.architecture.early_console().map(str::to_owned));
    if machine.clock.counts_instructions() {
        // The emulator counts an instruction for each eight bytes that `rep stosq` clears (clear_page_rep, arch/x86/lib/clear_page_64.S), so
        // one huge page takes 2.1 ms at 8 ns. khugepaged clears one now and then, and a kernel that does not preempt itself runs nothing
        // meanwhile.
        append.push("transparent_hugepage=never".to_owned());
    }
    append.extend(kernel.name.boot_option());
    append.extend(machine.append.iter().cloned());
    let request = Request {
        image: &kernel.image,
        modules: kernel.build.is_none(),
        kvm,
        cpus: machine.cpus,
        memory_mib: machine.memory_mib,
        share,
        initramfs,
        disk,
        net_pairs: machine.net / 2,
        append: &append,
    };
    let mut words = match kernel.architecture.is_host() {
        true => virtme::compose(lab, &request, init)?,
        false => foreign::compose(kernel, &request, &job.directory)?,
    };
    // The same kernel, unpacked here and not by the emulated processor. KVM gets the image: it unpacks fast, and the
    // entry for hypervisors (CONFIG_PVH) is one more thing that could be missing.
    if let (false, Some(unpacked)) = (kvm, &kernel.unpacked)
        && let Some(at) = words.iter().position(|word| word == "-kernel")
        && let Some(image) = words.get_mut(at + 1)
    {
        *image = unpacked.display().to_string();
    }
    if !kvm && kernel.architecture == Architecture::Amd64 {
        hide_byte_strings(&mut words);
    }
    if let Clock::Instructions { shift } = machine.clock {
        let count = format!("shift={shift},sleep=off");
        let more = ["-icount", &count, "-rtc", "base=2026-01-01,clock=vm", "-seed", "1"];
        words.extend(more.map(str::to_owned));
    }
    Ok(words)
}

/// The processor without fast strings of bytes (ERMS, FSRM). With them kernel and C library clear and copy by `rep stosb` and `rep movsb`, and the
/// emulator takes a step for each byte: up to a fourth of the time of a guest that loads BPF programs.
fn hide_byte_strings(words: &mut [String]) {
    if let Some(at) = words.iter().position(|word| word == "-cpu")
        && let Some(processor) = words.get_mut(at + 1)
    {
        processor.push_str(",erms=off,fsrm=off");
    }
}

/// Writes the guest's Run to its place. The page is made here, of the figures: the guest's could hold anything.
fn put_in_place(run: &Folder, output: &Path, overwrite: bool) -> Result<PathBuf, LabError> {
    let place = latebound_store::RunFolder::create(output, overwrite)?;
    place.take_over(run, MAX_FILE, html::page)?;
    Ok(output.to_owned())
}

/// The last of a file of this process's that the guest made as long as it liked.
fn end_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = latebound_files::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MAX_CONSOLE)))?;
    let mut bytes = Vec::new();
    file.take(MAX_CONSOLE).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn set_executable(path: &Path) -> Result<(), LabError> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        .map_err(LabError::io("make executable", path))
}

fn scratch_disk(folder: &JobFolder, bytes: u64) -> Result<PathBuf, LabError> {
    let path = folder.path("disk");
    let file = File::create_new(&path).map_err(LabError::io("make", &path))?;
    file.set_len(bytes).map_err(LabError::io("make", &path))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    fn job(payload: Payload, clock: Clock) -> Job {
        Job {
            machine: Machine { clock, cpus: 1, ..Machine::default() },
            payload,
            timeout: Duration::from_secs(1),
            module: None,
            directory: "/home/a b".into(),
            program: None,
            interrupt: false,
        }
    }

    #[test]
    fn a_measuring_verb_gets_the_place_of_its_run_before_its_own_arguments() {
        let (line, has_run) =
            with_output(&words("--format json check --duration 3s -- stress-ng -o x"), "/r").unwrap();
        assert_eq!(line, words("--format json check --output /r --duration 3s -- stress-ng -o x"));
        assert!(has_run);
        assert_eq!(with_output(&words("doctor --all"), "/r").unwrap(), (words("doctor --all"), false));
        assert_eq!(
            with_output(&words("defer run --count 3"), "/r").unwrap(),
            (words("defer run --output /r --count 3"), true),
            "its options belong to the second word"
        );
    }

    #[test]
    fn an_emulated_processor_has_no_strings_of_bytes() {
        let mut line = words("qemu -cpu max -smp 1");
        hide_byte_strings(&mut line);
        assert_eq!(line, words("qemu -cpu max,erms=off,fsrm=off -smp 1"));
    }

    #[test]
    fn an_output_in_the_guest_is_refused_with_what_to_type() {
        let error = with_output(&words("check --output x"), "/r").unwrap_err().to_string();
        assert!(error.contains("lab run --output FOLDER"), "{error}");
    }

    #[test]
    fn a_job_for_another_architecture_runs_the_program_of_the_guest() {
        let other = [Architecture::Amd64, Architecture::Arm64].into_iter().find(|of| !of.is_host()).unwrap();
        for (clock, line) in [
            (Clock::Host, "exec /bin/latebound check --output /run/latebound/run\n"),
            (Clock::INSTRUCTIONS, "/bin/latebound check --output /run/stage/run >/run/stage/stdout"),
        ] {
            let payload = Payload::Verb { binary: "/run/x".into(), arguments: words("check") };
            let (text, has_run) = script(&job(payload, clock), other, &[], Path::new("x")).unwrap();
            assert!(has_run && text.contains(line) && text.contains("cd /host ||"), "{text}");
            assert!(!text.contains("cp /"), "{text}");
        }
    }

    #[test]
    fn a_job_by_the_hosts_clock_writes_straight_to_the_shared_folder() {
        let payload =
            Payload::Verb { binary: "/opt/late bound".into(), arguments: words("check --load ipc") };
        let (text, has_run) = script(
            &job(payload, Clock::Host),
            Architecture::host(),
            &["/m/a.ko".into()],
            Path::new("/h/a b.run"),
        )
        .unwrap();
        assert_eq!(
            text,
            "export LATEBOUND_RUN_SHOWN_AS='/h/a b.run'\ninsmod /m/a.ko || { echo 'the module could not be loaded' >&2; exit 1; }\ncd '/home/a b' || exit 1\n\
             exec '/opt/late bound' check --output /run/latebound/run --load ipc\n"
        );
        assert!(has_run);
    }

    #[test]
    fn a_job_by_instructions_meets_the_host_only_before_and_after() {
        let payload = Payload::Verb { binary: "/opt/latebound".into(), arguments: words("check") };
        let (text, _) =
            script(&job(payload, Clock::INSTRUCTIONS), Architecture::host(), &[], Path::new("x")).unwrap();
        let during: Vec<&str> = text.lines().filter(|line| line.contains(" check ")).collect();
        assert_eq!(
            during,
            ["/run/stage/latebound check --output /run/stage/run >/run/stage/stdout 2>/run/stage/stderr"]
        );
        assert!(
            text.contains("[ ! -d /run/stage/run ] || cp -r /run/stage/run /run/latebound/run"),
            "{text}"
        );
    }

    #[test]
    fn several_verbs_have_a_run_each_and_the_last_failure_is_the_status() {
        let each = vec![(words("measure --load ipc"), "a.run".into()), (words("measure"), "b.run".into())];
        let payload = Payload::Verbs { binary: "/opt/latebound".into(), each };
        let (text, has_run) =
            script(&job(payload.clone(), Clock::INSTRUCTIONS), Architecture::host(), &[], Path::new("x"))
                .unwrap();
        assert!(has_run);
        for line in [
            "/run/stage/latebound measure --output /run/stage/run-0 --load ipc >>/run/stage/stdout 2>>/run/stage/stderr || status=$?",
            "[ ! -d /run/stage/run-1 ] || cp -r /run/stage/run-1 /run/latebound/run-1 || exit 1",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}: {text}");
        }
        let (text, _) =
            script(&job(payload, Clock::Host), Architecture::host(), &[], Path::new("x")).unwrap();
        assert!(
            text.ends_with(
                "/opt/latebound measure --output /run/latebound/run-1 || status=$?\nexit $status\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn a_program_where_the_guest_has_its_own_folder_is_refused() {
        let payload = Payload::Verb { binary: "/run/latebound-test".into(), arguments: words("check") };
        assert!(
            script(&job(payload, Clock::Host), Architecture::host(), &[], Path::new("x"))
                .unwrap_err()
                .to_string()
                .contains("put it elsewhere")
        );
    }

    #[test]
    fn what_a_guest_plants_is_neither_followed_nor_waited_for() {
        let place = tempfile::tempdir().unwrap();
        let shared = Folder::open(place.path()).unwrap();
        let path = |name: &str| place.path().join(name);
        fs::write(path("secret"), "of the host").unwrap();
        std::os::unix::fs::symlink(path("secret"), path("stdout")).unwrap();
        assert!(Command::new("mkfifo").arg(path("stderr")).status().unwrap().success());
        std::os::unix::fs::symlink(path("secret"), path("status")).unwrap();
        assert!(Tail::new(&shared, "stdout").more().is_empty());
        assert!(Tail::new(&shared, "stderr").more().is_empty());
        assert!(!shared.has_file("status".as_ref()));
        assert!(shared.read("status".as_ref(), 64).is_err());
        fs::create_dir(path("run")).unwrap();
        assert!(Command::new("mkfifo").arg(path("run/run.json")).status().unwrap().success());
        let to = path("a:b,c.run");
        let error = put_in_place(&shared.child("run".as_ref()).unwrap(), &to, false).unwrap_err();
        assert!(error.to_string().contains("a pipe"), "{error}");
        assert!(!to.exists());
        // An endless file is read in parts, and only so much of it.
        fs::write(path("long"), vec![b'x'; 3 << 20]).unwrap();
        let (mut tail, mut read) = (Tail::new(&shared, "long"), 0);
        assert_eq!(tail.more().len(), 1 << 20);
        tail.rest(1 << 20, |bytes| read += bytes.len());
        assert_eq!(read, 1 << 20);
    }

    #[test]
    fn the_console_log_lies_beside_the_run() {
        let strange = Path::new(OsStr::from_bytes(b"/h/\xff:a.run"));
        assert_eq!(console_beside(strange), Path::new(OsStr::from_bytes(b"/h/\xff:a.console.log")));
        assert_eq!(console_beside(Path::new("a/fast.run")), Path::new("a/fast.console.log"));
        assert_eq!(console_beside(Path::new("fast")), Path::new("fast.console.log"));
    }
}
