// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tune prove`: the same workload under each policy in turns, timed from outside, and compared.
//!
//! Owns the processes and when each turn is measured: the tuner is this program again, as a user would start it. What the times mean is for
//! [`latebound_tune::trial`].

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io::{self, Read, Seek};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use latebound_model::{Nanos, Response, RunVerb, Tid};
use latebound_probe::ResponseProbe;
use latebound_report::{html, terminal};
use latebound_store::RunFolder;
use latebound_system::{Facts, Root};
use latebound_tune::trial::{MemoryLevel, Trial, TrialBuilder, TunerAccount, Turn, losses_between};
use latebound_tune::{Config, PolicyKind};

use crate::cli::{TuneProveArgs, TuneShowArgs};
use crate::output::Output;
use crate::reserved::{Reservation, lock_memory};
use crate::session::{self, Progress, Stop, monotonic};

/// How often the memory's state is read and responses are fetched: at long intervals, because both keep a processor from the tasks that are timed.
const FETCH_INTERVAL: Duration = Duration::from_millis(100);
/// Room for the responses of a turn. So much comes from the kernel page by page when it is used, and is not moved where it grows: glibc maps
/// what is larger than 32 MiB (mallopt(3), M_MMAP_THRESHOLD), and has the kernel move such a mapping.
const ROOM: usize = 1 << 20;
/// Room for those of most turns, whose pages are there before the turn: who looks for one while the kernel has few waits for kswapd, which the
/// tasks may hold up for as long as they like (mm/vmscan.c, throttle_direct_reclaim, 6.12).
const ROOM_THERE: usize = 1 << 16;
/// Room for what is few.
const ROOM_AT_ONCE: usize = 1 << 12;
/// A tuner on an emulated processor takes some seconds to load its programs.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// For a command after SIGTERM, until SIGKILL.
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) fn run(args: &TuneProveArgs, config: &Config, output: &Output) -> Result<()> {
    let policies = policies(args, config)?;
    if let Some(folder) = &args.output {
        fs::create_dir(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    }
    let stop = Stop::on_signals()?;
    let doctor = latebound_system::doctor(&Root::live(), &Facts::live());
    let place = tempfile::tempdir().context("cannot make a folder for sockets")?;
    let probe = ResponseProbe::start()?;
    // What is done in the reservation waits for no page; of the room, not for those of most turns.
    let is_locked = lock_memory(libc::MCL_CURRENT, output);
    let room = Room::make()?;
    // All of the room is more than most turns need.
    if is_locked {
        lock_memory(libc::MCL_CURRENT | libc::MCL_ONFAULT, output);
    }
    let mut turns = Turns { args, place: place.path(), probe, room, stop: &stop, output, refused: false };
    let mut trial = TrialBuilder::new(&policies);
    let mut progress = Progress::new(None);
    for round in 0..args.rounds {
        for at in trial.order(round) {
            let kind = policies[at];
            progress.show(|| format!("round {} of {}, {}", round + 1, args.rounds, kind.name()));
            let Some(turn) = turns.one(kind)? else { break };
            let run = turn.run(session::new_run(RunVerb::TuneProve, doctor.clone(), Some(args.duration)));
            let name = format!("{}-{}", kind.name(), round + 1);
            trial.add(at, &turn, &run, &name);
            if let Some(folder) = &args.output {
                RunFolder::create(folder.join(format!("{name}.run")), false)?.finish(&run, None)?;
            }
        }
        if stop.is_set() {
            break;
        }
    }
    progress.clear();
    let missing = turns.probe.missing().to_vec();
    let Some(trial) = trial.finish(&args.command, &doctor.system, args.duration, missing) else {
        bail!("it was stopped before one round was over; nothing was measured");
    };
    if let Some(folder) = &args.output {
        let text = serde_json::to_string(&trial)?;
        latebound_files::write(&folder.join("prove.json"), text).context("cannot write prove.json")?;
        write_pictures(html::trial_pictures(&trial), folder)?;
    }
    print(&trial, output)
}

/// Prints or draws trials that are there.
pub(crate) fn show(args: &TuneShowArgs, output: &Output) -> Result<()> {
    let trials = args.files.iter().map(|file| read(file)).collect::<Result<Vec<Trial>>>()?;
    if let Some(folder) = &args.pictures {
        output.prints("tune show --pictures", None)?;
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        if let [trial] = trials.as_slice() {
            return write_pictures(html::trial_pictures(trial), folder);
        }
        let stem = |file: &PathBuf| file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let names: Vec<String> = args.files.iter().map(stem).collect();
        let named: Vec<(&str, &Trial)> = names.iter().map(String::as_str).zip(&trials).collect();
        return write_pictures(html::trials_together(&named), folder);
    }
    let [trial] = trials.as_slice() else {
        bail!("{} documents are drawn together, not printed: add --pictures FOLDER", trials.len());
    };
    print(trial, output)
}

fn print(trial: &Trial, output: &Output) -> Result<()> {
    if output.is_json() { output.json(trial) } else { output.text(&terminal::trial(trial, &output.style())) }
}

/// Files by name and content, into this folder.
fn write_pictures(pictures: Vec<(String, String)>, folder: &Path) -> Result<()> {
    for (name, svg) in pictures {
        let path = folder.join(name);
        latebound_files::write(&path, svg).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<Trial> {
    let file = path.display();
    let text = latebound_files::read_text(path, session::MAX_DOCUMENT_BYTES)
        .with_context(|| format!("cannot read {file}"))?;
    Trial::parse(&text).with_context(|| format!("cannot read {file}"))
}

fn policies(args: &TuneProveArgs, config: &Config) -> Result<Vec<PolicyKind>> {
    let mut kinds: Vec<PolicyKind> = Vec::new();
    for kind in args.policy.iter().map(|&name| PolicyKind::from(name)) {
        if kinds.contains(&kind) {
            bail!("--policy names {} twice", kind.name());
        }
        if kind == PolicyKind::Static && config.class.values().all(|rule| rule.priority.is_none()) {
            bail!(
                "--policy static changes nothing where the configuration gives no class a priority; give one, as [class.interrupt] \
                 priority = 60, with --config"
            );
        }
        kinds.push(kind);
    }
    let fixed = config.class.values().any(|rule| rule.priority.is_some());
    if fixed && !kinds.contains(&PolicyKind::Static) {
        kinds.insert(1, PolicyKind::Static);
    }
    if kinds.len() < 2 {
        bail!(
            "--policy names one; a trial needs two at least, the base first: --policy off,weighted-average"
        );
    }
    Ok(kinds)
}

struct Turns<'a> {
    args: &'a TuneProveArgs,
    place: &'a Path,
    probe: ResponseProbe,
    room: Room,
    stop: &'a Stop,
    output: &'a Output,
    /// Whether it was said that there is no reservation.
    refused: bool,
}

impl Turns<'_> {
    /// One policy, once. `None`: it was asked to stop.
    fn one(&mut self, kind: PolicyKind) -> Result<Option<Turn>> {
        let tuner = match kind {
            PolicyKind::Off => None,
            kind => Some(Tuner::start(self.args, kind, self.place)?),
        };
        let mut command = Workload::start(&self.args.command)?;
        // Its real-time tasks may leave nothing to ordinary threads, and then nobody would end the turn. Only from here on until it is ended:
        // whatever is done in a reservation is done before every real-time task.
        let mut reserved = Reservation::take("turns may end late", (!self.refused).then_some(self.output));
        self.refused |= !reserved.is_there();
        let turn =
            self.watch(&mut command, &mut reserved, tuner.as_ref().map(|tuner| Tid(tuner.0.id() as i32)));
        command.end();
        reserved.give_up();
        let account = tuner.map(Tuner::end).transpose()?;
        Ok(turn?.map(|MeasuredTurn { turn, under_way, ended }| {
            let Room { responses, own, levels, .. } = &self.room;
            // A copy: the room is for the next turn too.
            let (responses, own, levels) = (responses.to_vec(), own.clone(), levels.clone());
            let mut turn = Turn { responses, own, levels, tuner: account, ..turn };
            turn.add_unfinished(&under_way, ended);
            turn
        }))
    }

    /// The turn itself, without what is in the room and what its end leaves unfinished.
    fn watch(
        &mut self,
        command: &mut Workload,
        reserved: &mut Reservation,
        tuner: Option<Tid>,
    ) -> Result<Option<MeasuredTurn>> {
        let Room { responses, fetched, own, levels, memory, disks, traffic } = &mut self.room;
        // The last turn's.
        responses.clear();
        fetched.clear();
        own.clear();
        levels.clear();
        let settled = Instant::now() + self.args.settle.to_duration();
        while Instant::now() < settled {
            if self.stop.is_set() {
                return Ok(None);
            }
            command.must_run()?;
            std::thread::sleep(FETCH_INTERVAL.min(settled.saturating_duration_since(Instant::now())));
        }
        // What began before is not of this time.
        while self.probe.take_some(fetched)? {
            fetched.clear();
            reserved.pause();
        }
        fetched.clear();
        reserved.pause();
        let lost = self.probe.losses(|| reserved.pause());
        let started = monotonic();
        let mut disk_bytes = |reserved: &mut Reservation| -> Result<[u64; 2]> {
            let text = traffic.as_mut().map_or(Ok(""), Text::read)?;
            Ok(latebound_system::disk_bytes(text, disks, || reserved.pause()))
        };
        let before = disk_bytes(reserved)?;
        let ignored = [Some(Tid(std::process::id() as i32)), tuner];
        let elapsed = || monotonic().saturating_sub(started);
        // What comes after is held up by the fetching itself.
        let mut ended;
        loop {
            ended = monotonic();
            let over = elapsed() >= self.args.duration || self.stop.is_set();
            command.must_run()?;
            if !over {
                reserved.pause();
                levels.push(MemoryLevel::of(elapsed(), memory.read()?));
                reserved.pause();
                std::thread::sleep(
                    FETCH_INTERVAL.min(self.args.duration.saturating_sub(elapsed()).to_duration()),
                );
            }
            let mut more = true;
            while more {
                more = self.probe.take_some(fetched)?;
                for response in fetched.drain(..) {
                    reserved.pause();
                    // What begins after is of no turn: the reservation may have the fetching end late.
                    let began = response.start.saturating_sub(started);
                    let of_turn = response.start >= started && began <= self.args.duration;
                    if ignored.contains(&Some(response.process)) || !of_turn {
                        continue;
                    }
                    own.entry(response.process).or_insert_with(|| command.has(response.process));
                    responses.push(response);
                }
            }
            if over {
                break;
            }
        }
        let under_way = self.probe.under_way(ended, || reserved.pause());
        reserved.pause();
        let after = disk_bytes(reserved)?;
        let duration = elapsed();
        let losses = losses_between(&lost, self.probe.losses(|| reserved.pause()));
        let turn = Turn {
            responses: Vec::new(),
            unfinished: Vec::new(),
            own: HashMap::new(),
            started,
            duration,
            levels: Vec::new(),
            disks: [after[0].saturating_sub(before[0]), after[1].saturating_sub(before[1])],
            losses,
            missing: self.probe.missing().to_vec(),
            tuner: None,
            complete: !self.stop.is_set(),
        };
        Ok(Some(MeasuredTurn { turn, under_way, ended }))
    }
}

/// What a turn writes to, made before all of them: in a turn nobody looks for memory, as long as there are few enough responses.
struct Room {
    responses: Vec<Response>,
    fetched: Vec<Response>,
    own: HashMap<Tid, bool>,
    levels: Vec<MemoryLevel>,
    memory: Text,
    disks: BTreeSet<String>,
    /// Of the disks; a kernel without block devices has no such file.
    traffic: Option<Text>,
}

impl Room {
    fn make() -> Result<Room> {
        let mut own: HashMap<Tid, bool> = (0..ROOM_AT_ONCE as i32).map(|tid| (Tid(tid), false)).collect();
        own.clear();
        Ok(Room {
            responses: places(ROOM, ROOM_THERE),
            fetched: places(ROOM_AT_ONCE, ROOM_AT_ONCE),
            own,
            levels: places(ROOM_AT_ONCE, ROOM_AT_ONCE),
            memory: Text::open("/proc/meminfo")?,
            disks: latebound_system::whole_disks(&Root::live()),
            traffic: Text::open("/proc/diskstats").ok(),
        })
    }
}

/// Room for `most` values. The pages of the first `there` of them are written to, so that they are there.
fn places<T>(most: usize, there: usize) -> Vec<T> {
    let mut values = Vec::with_capacity(most);
    for place in values.spare_capacity_mut().iter_mut().take(there) {
        *place = MaybeUninit::zeroed();
    }
    // What is written is never read, and would not be written.
    std::hint::black_box(values.as_mut_ptr());
    values
}

/// A file whose text is read again and again, without memory for it being looked for: neither here nor, from the second time on, in the kernel.
struct Text {
    file: fs::File,
    text: String,
}

impl Text {
    fn open(path: &'static str) -> Result<Text> {
        let file = fs::File::open(path).with_context(|| format!("cannot open {path}"))?;
        let mut text = Text { file, text: String::with_capacity(16 * 1024) };
        text.read()?;
        Ok(text)
    }

    fn read(&mut self) -> Result<&str> {
        self.text.clear();
        self.file.rewind().and_then(|()| self.file.read_to_string(&mut self.text)).context("cannot read")?;
        Ok(&self.text)
    }
}

/// A turn that was measured to its end.
struct MeasuredTurn {
    turn: Turn,
    /// The tasks that had a response under way at the end, and since when.
    under_way: Vec<(Tid, Nanos)>,
    ended: Nanos,
}

/// A command in a process group of its own.
struct Workload(Child);

impl Workload {
    fn start(words: &[String]) -> Result<Workload> {
        let [program, arguments @ ..] = words else { bail!("the command is empty") };
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
        die_with_parent(&mut command, libc::SIGKILL);
        let child = command.spawn().with_context(|| format!("{program} could not be started"))?;
        Ok(Workload(child))
    }

    fn must_run(&mut self) -> Result<()> {
        match self.0.try_wait()? {
            Some(status) => {
                bail!("the command ended before its time ({status}); give one that runs until it is ended")
            }
            None => Ok(()),
        }
    }

    fn has(&self, process: Tid) -> bool {
        // SAFETY: takes an integer.
        unsafe { libc::getpgid(process.0) == self.0.id() as i32 }
    }

    fn end(mut self) {
        let group = -(self.0.id() as i32);
        // SAFETY: takes integers; the leader is not reaped, so the group is its own.
        unsafe { libc::kill(group, libc::SIGTERM) };
        let until = Instant::now() + PATIENCE;
        while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        // SAFETY: as above; a group without members is no error that matters.
        unsafe { libc::kill(group, libc::SIGKILL) };
        let _ = self.0.wait();
    }
}

/// The tuner, as a process.
struct Tuner(Child);

impl Tuner {
    fn start(args: &TuneProveArgs, kind: PolicyKind, place: &Path) -> Result<Tuner> {
        let socket: PathBuf = place.join("ready");
        let _ = fs::remove_file(&socket);
        let ready = UnixDatagram::bind(&socket).context("cannot make a socket")?;
        ready.set_read_timeout(Some(Duration::from_millis(100)))?;
        let mut command = Command::new("/proc/self/exe");
        command.args(["tune", "run", "--format", "json", "--policy", kind.name(), "--journal"]);
        command.arg(&args.journal);
        if let Some(config) = &args.config {
            command.arg("--config").arg(config);
        }
        command.env("NOTIFY_SOCKET", &socket).stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
        // Its watchdog gives everything back then.
        die_with_parent(&mut command, libc::SIGKILL);
        let mut child = command.spawn().context("cannot start the tuner")?;
        let until = Instant::now() + READY_WITHIN;
        loop {
            match ready.recv(&mut [0; 64]) {
                Ok(_) => return Ok(Tuner(child)),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                }
                Err(error) => return Err(error).context("cannot hear from the tuner"),
            }
            if let Some(status) = child.try_wait()? {
                bail!("the tuner ended at once ({status}); what it said stands above");
            }
            if Instant::now() > until {
                let _ = child.kill();
                let _ = child.wait();
                bail!("the tuner was not ready within {} s", READY_WITHIN.as_secs());
            }
        }
    }

    fn end(self) -> Result<TunerAccount> {
        // SAFETY: takes integers; the child is not reaped.
        unsafe { libc::kill(self.0.id() as i32, libc::SIGINT) };
        let said = self.0.wait_with_output().context("cannot wait for the tuner")?;
        if !said.status.success() {
            bail!("the tuner failed ({})", said.status);
        }
        serde_json::from_slice(&said.stdout).context("the tuner's account cannot be read")
    }
}

fn die_with_parent(command: &mut Command, signal: i32) {
    // SAFETY: between fork and exec only prctl is called, which is async-signal-safe.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, signal as libc::c_ulong, 0, 0, 0);
            Ok(())
        })
    };
}
