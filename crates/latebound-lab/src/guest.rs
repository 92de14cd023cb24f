// SPDX-License-Identifier: MIT OR Apache-2.0
//! One job in one machine: from the kernel and the command to what came out of it.
//!
//! Everything that the guest writes comes through a folder shared with it, and the guest is believed to be done only when
//! its init has written the status there, last of all.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::console::{self, GuestEnd, Seen};
use crate::context::{Event, Lab};
use crate::error::LabError;
use crate::folder::JobFolder;
use crate::kernel::Kernel;
use crate::machine::{self, Clock, Machine};
use crate::module::{self, Module};
use crate::program::Group;
use crate::shell;
use crate::virtme::{self, Request};

const INIT: &str = include_str!("../guest/init.sh");

/// How long a kernel may take on KVM until its first process runs; when it takes longer, KVM does not work here.
const KVM_BOOT: Duration = Duration::from_secs(20);

/// How often a machine is started again after the emulator's own fault.
const TRIPS: u32 = 2;

/// How long a job that was interrupted may take to say what it has, by the host's clock.
const LAST_WORDS: Duration = Duration::from_secs(60);

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
    /// The folder that the payload starts in.
    pub directory: PathBuf,
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
    let name = run.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    run.with_file_name(format!("{}.console.log", name.strip_suffix(".run").unwrap_or(&name)))
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

/// The shell script that the guest runs, and whether a Run comes out.
fn script(job: &Job, modules: &[PathBuf], output: &Path) -> Result<(String, bool), LabError> {
    // By instructions, anything that waits for the host takes as long as the next timer: so the job does not meet the
    // host between its first and its last line.
    let staged = job.machine.clock.counts_instructions();
    let place = if staged { "/run/stage/run".to_owned() } else { format!("{GUEST_FOLDER}/run") };
    let verb = |binary: &Path, arguments: &[String], place: &str| -> Result<(Vec<String>, bool), LabError> {
        visible(binary, "the program")?;
        let (arguments, has_run) = with_output(arguments, place)?;
        let binary = if staged { "/run/stage/latebound".to_owned() } else { binary.display().to_string() };
        Ok((std::iter::once(binary).chain(arguments).collect(), has_run))
    };
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
    let mut text = format!("export {SHOWN_AS}={}\n", shell::quote(&shown.display().to_string()));
    for module in modules {
        text += &format!(
            "insmod {} || {{ echo 'the module could not be loaded' >&2; exit 1; }}\n",
            shell::quote(&module.display().to_string())
        );
    }
    text += &format!("cd {} || exit 1\n", shell::quote(&job.directory.display().to_string()));
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
    if let Payload::Verb { binary, .. } | Payload::Verbs { binary, .. } = &job.payload {
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
struct Tail {
    path: PathBuf,
    at: u64,
}

impl Tail {
    fn new(path: PathBuf) -> Tail {
        Tail { path, at: 0 }
    }

    fn more(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Ok(mut file) = File::open(&self.path)
            && file.seek(SeekFrom::Start(self.at)).is_ok()
        {
            let _ = file.read_to_end(&mut bytes);
            self.at += bytes.len() as u64;
        }
        bytes
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
    virtme::require()?;
    let mut machine = job.machine.clone();
    let mut tripped = 0;
    loop {
        let refused = machine::kvm_refused(lab, &machine);
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
    let folder = JobFolder::make(output)?;
    visible(&folder.place, "the folder")?;
    let share = folder.path("share");
    fs::create_dir(&share).map_err(LabError::io("make the folder", &share))?;
    let modules = match &job.module {
        Some(module) => module::build(lab, kernel, module, &folder.place)?,
        None => Vec::new(),
    };
    for module in &modules {
        visible(module, "the module")?;
    }
    let (text, has_run) = script(job, &modules, output)?;
    folder.write("share/job", &text)?;
    let init = folder.write("init", INIT)?;
    set_executable(&init)?;
    let disk = job.machine.disk_bytes.map(|bytes| scratch_disk(&folder, bytes)).transpose()?;

    let words =
        compose(lab, kernel, &job.machine, kvm, &share, &init, &folder.path("initramfs"), disk.as_deref())?;
    let console = folder.path("console");
    let emulator = folder.path("qemu.stderr");
    let open = |path: &Path| File::create(path).map_err(LabError::io("make", path));
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(open(&console)?)
        .stderr(open(&emulator)?);
    let started_at = Instant::now();
    let mut qemu = Group::start("start a machine", &mut command)?;
    let (mut stdout, mut stderr) = (Tail::new(share.join("stdout")), Tail::new(share.join("stderr")));
    let (begun, done) = (share.join("started"), share.join("status"));
    let mut boot = None;
    let mut timed_out = None;
    let mut interrupted: Option<Instant> = None;
    let ended = loop {
        let finished = qemu.finished();
        let done = done.is_file();
        if boot.is_none() && begun.is_file() {
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

    let console_text = String::from_utf8_lossy(&fs::read(&console).unwrap_or_default()).into_owned();
    let kept = console_beside(output);
    fs::copy(&console, &kept).map_err(LabError::io("write the console log to", &kept))?;
    let emulator_text = fs::read_to_string(&emulator).unwrap_or_default();
    let seen = Seen {
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
    let status = fs::read_to_string(&done).ok().and_then(|text| text.trim().parse::<i32>().ok());
    let Some(status) = status else { return Err(failure(console::diagnose(&seen))) };
    // 128 + SIGKILL: what a shell says of a job that the kernel killed.
    if let Some(message) = console::out_of_memory(&console_text).filter(|_| status == 137) {
        return Err(failure(GuestEnd::OutOfMemory { message, memory_mib: job.machine.memory_mib }));
    }
    let places: Vec<(PathBuf, &Path)> = match &job.payload {
        Payload::Verbs { each, .. } => each
            .iter()
            .enumerate()
            .map(|(at, (_, to))| (share.join(numbered("run", at)), to.as_path()))
            .collect(),
        _ => vec![(share.join("run"), output)],
    };
    let mut run = None;
    for (from, to) in places.into_iter().filter(|(from, _)| has_run && from.is_dir()) {
        run = Some(put_in_place(&from, to, overwrite)?);
    }
    Ok(Outcome { status, run, console: kept, boot: boot.unwrap_or(total), total, kvm })
}

#[allow(clippy::too_many_arguments, reason = "each is a different thing of one machine, used once")]
fn compose(
    lab: &Lab<'_>,
    kernel: &Kernel,
    machine: &Machine,
    kvm: bool,
    share: &Path,
    init: &Path,
    initramfs: &Path,
    disk: Option<&Path>,
) -> Result<Vec<String>, LabError> {
    let mut append = vec![
        // Panics, oopses and the words of the memory killer go to the log; a boot's chatter does not, it costs time.
        "loglevel=5".to_owned(),
        "panic=-1".to_owned(),
        "net.ifnames=0".to_owned(),
        format!("latebound.clock={}", machine.clock),
        // Three seconds of instructions that the kernel's cryptography spends on testing itself.
        "cryptomgr.notests".to_owned(),
    ];
    append.insert(
        0,
        format!("console={}", if std::env::consts::ARCH == "aarch64" { "ttyAMA0" } else { "ttyS0" }),
    );
    if std::env::consts::ARCH == "x86_64" {
        // What happens before the console is up.
        append.push("earlyprintk=serial,ttyS0,115200".to_owned());
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
    let mut words = virtme::compose(lab, &request, init)?;
    // The same kernel, unpacked here and not by the emulated processor. KVM gets the image: it unpacks fast, and the
    // entry for hypervisors (CONFIG_PVH) is one more thing that could be missing.
    if let (false, Some(unpacked)) = (kvm, &kernel.unpacked)
        && let Some(at) = words.iter().position(|word| word == "-kernel")
        && let Some(image) = words.get_mut(at + 1)
    {
        *image = unpacked.display().to_string();
    }
    if let Clock::Instructions { shift } = machine.clock {
        let count = format!("shift={shift},sleep=off");
        let more = ["-icount", &count, "-rtc", "base=2026-01-01,clock=vm", "-seed", "1"];
        words.extend(more.map(str::to_owned));
    }
    Ok(words)
}

/// Puts a finished Run in its place.
fn put_in_place(run: &Path, output: &Path, overwrite: bool) -> Result<PathBuf, LabError> {
    latebound_store::read_run(run)?;
    if overwrite && output.is_dir() {
        // The store has seen that it is a Run or empty; where the two cannot be swapped in one step the old one goes
        // first.
        fs::remove_dir_all(output).map_err(LabError::io("replace", output))?;
    }
    fs::rename(run, output).map_err(LabError::io("put the Run at", output))?;
    Ok(output.to_owned())
}

fn set_executable(path: &Path) -> Result<(), LabError> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        .map_err(LabError::io("make executable", path))
}

fn scratch_disk(folder: &JobFolder, bytes: u64) -> Result<PathBuf, LabError> {
    let path = folder.path("disk");
    let file = File::create(&path).map_err(LabError::io("make", &path))?;
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
            interrupt: false,
        }
    }

    #[test]
    fn a_verb_that_measures_is_told_where_the_run_goes_before_its_own_arguments() {
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
    fn an_output_in_the_guest_is_refused_with_what_to_type() {
        let error = with_output(&words("check --output x"), "/r").unwrap_err().to_string();
        assert!(error.contains("lab run --output FOLDER"), "{error}");
    }

    #[test]
    fn a_job_by_the_hosts_clock_writes_straight_to_the_shared_folder() {
        let payload =
            Payload::Verb { binary: "/opt/late bound".into(), arguments: words("check --load ipc") };
        let (text, has_run) =
            script(&job(payload, Clock::Host), &["/m/a.ko".into()], Path::new("/h/a b.run")).unwrap();
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
        let (text, _) = script(&job(payload, Clock::INSTRUCTIONS), &[], Path::new("x")).unwrap();
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
            script(&job(payload.clone(), Clock::INSTRUCTIONS), &[], Path::new("x")).unwrap();
        assert!(has_run);
        for line in [
            "/run/stage/latebound measure --output /run/stage/run-0 --load ipc >>/run/stage/stdout 2>>/run/stage/stderr || status=$?",
            "[ ! -d /run/stage/run-1 ] || cp -r /run/stage/run-1 /run/latebound/run-1 || exit 1",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}: {text}");
        }
        let (text, _) = script(&job(payload, Clock::Host), &[], Path::new("x")).unwrap();
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
            script(&job(payload, Clock::Host), &[], Path::new("x"))
                .unwrap_err()
                .to_string()
                .contains("put it elsewhere")
        );
    }

    #[test]
    fn the_console_log_lies_beside_the_run() {
        assert_eq!(console_beside(Path::new("a/fast.run")), Path::new("a/fast.console.log"));
        assert_eq!(console_beside(Path::new("fast")), Path::new("fast.console.log"));
    }
}
