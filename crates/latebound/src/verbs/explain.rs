// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound explain`: the worst wake-ups of any thread, cause by cause; live, or of a Run that is there already.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use latebound_analysis::{KernelFacts, blame_groups};
use latebound_documents::{Cancel, explain_trace};
use latebound_files::Folder;
use latebound_model::{
    CpuQuota, Explanation, Histogram, Nanos, PreemptionModel, Run, RunState, RunVerb, Tid,
};
use latebound_probe::{RecorderOptions, Watch};
use latebound_report::{html, perfetto, terminal};
use latebound_saved::Watched;
use latebound_system::{Facts, FoundGroup, Root, threads_of_group};

use crate::cli::ExplainArgs;
use crate::firmware::Firmware;
use crate::group;
use crate::jobs::JobFollower;
use crate::late::{Hands, LateActions};
use crate::load_runner::{self, Loads};
use crate::outcome::Outcome;
use crate::output::Output;
use crate::pause::Pause;
use crate::privileges::{self, Needs, Work};
use crate::session::{self, Progress, RunWriter, Stop};
use crate::stay_away::StayAway;
use crate::wakeups;
use crate::watch::{self, Started, WatchOptions};
use crate::watcher::Watcher;
use crate::worst::Worst;

pub(crate) fn run(args: &ExplainArgs, output: &Output) -> Result<Outcome> {
    let perfetto = PerfettoFile::begin(args.perfetto.as_deref())?;
    if let Some(path) = &args.run {
        let mut run = latebound_store::read_run(path)?;
        run.worst.truncate(args.recorder.worst);
        run.blame = blame_groups(&run.worst);
        print(&run, output)?;
        perfetto.write(&run.worst)?;
        return Ok(wakeups::outcome(&run, args.max_latency));
    }
    if let Some(path) = &args.trace {
        return saved(path, args, &perfetto, output);
    }
    args.source.check()?;
    let marks = args.marks()?;
    let loads = Loads::parse(&args.load)?;
    let group = group::chosen(&args.group)?;
    let watch = watched(args, group.as_ref())?;
    let stop = Stop::on_signals()?;
    let root = Root::live();
    let doctor = latebound_system::doctor(&root, &Facts::live());
    let allowed = doctor.system.allowed.clone().unwrap_or_default();
    let mut run = session::new_run(RunVerb::Explain, doctor, args.duration);
    let mut record = RunWriter::begin(&args.record, None, &run)?;
    let mut late_actions = LateActions::begin(args)?;

    let mut jobs = JobFollower::new(args.cycle(), marks.clone(), args.period, args.deadline);
    let options = RecorderOptions {
        watch,
        keep: args.recorder.worst_of_a_thread(),
        jobs: jobs.is_on(),
        marks,
        report_above: args.late.on_late,
        groups: true,
        kernel_preempts: matches!(run.system.preemption, Some(PreemptionModel::Full | PreemptionModel::Rt)),
        ..args.recorder.options()
    };
    let memory = options.memory_per_cpu;
    let firmware = Firmware::begin(&run);
    let watching = WatchOptions {
        source: args.source,
        recorder: options,
        group: group.as_ref(),
        work: Work::Explain,
        refusal: "cannot watch",
    };
    let Started { mut watcher, is_trace } = watch::start(watching, output)?;
    if is_trace {
        // It costs more, and says less, than what watches in the kernel: the two are not alike.
        run.settings.insert("source".to_owned(), "tracefs".to_owned());
    }
    let loads = loads.start(args.duration, &allowed, &stop)?;
    let acts = |what: fn(&LateActions) -> bool| late_actions.as_ref().is_some_and(what);
    let needs = Needs {
        run: record.path().is_some() || acts(LateActions::saves),
        load: !loads.is_empty(),
        file: args.perfetto.is_some(),
        signal: acts(LateActions::sends_signals),
        measure: false,
        trace: is_trace,
    };
    privileges::give_up(Work::Explain, needs, &mut run);
    let mut worst = Worst::new(args.recorder.worst, args.recorder.keep(), KernelFacts::from(&run.system));
    let quotas = Quotas::begin(args, group.as_ref());
    let mut stay_away = StayAway::new(&allowed);
    let mut pause = Pause::of(memory);
    let mut progress = Progress::new(args.duration);
    let started = Instant::now();
    let elapsed = || Nanos(u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX));
    loop {
        let over = args.duration.is_some_and(|planned| elapsed() >= planned);
        let stopped = stop.is_set();
        stay_away.look(|| watcher.threads());
        let late = watcher.late()?;
        let mut found = !late.is_empty();
        for late in late {
            if let Some(actions) = &mut late_actions {
                let (run, jobs, worst, watcher) = (&run, &jobs, &mut worst, watcher.as_ref());
                actions.take(&late, &mut Hands { watcher, worst, jobs, run, stop: &stop });
            }
            worst.take(late, Some(watcher.as_ref()));
        }
        for (tid, deadline) in jobs.look(watcher.as_mut())? {
            worst.follow_jobs(tid, deadline);
            found = true;
        }
        if let Some(actions) = &mut late_actions {
            let (run, jobs, worst, watcher) = (&run, &jobs, &mut worst, watcher.as_ref());
            let hands = &mut Hands { watcher, worst, jobs, run, stop: &stop };
            actions.look_at_open(hands);
            actions.go_on(hands);
            if over {
                actions.close();
            }
        }
        if let Some(ended) = watcher.free_ended()? {
            jobs.forget(&ended.threads, &ended.series);
            if let Some(actions) = &mut late_actions {
                actions.forget(&ended.threads);
            }
            worst.forget(&ended.threads);
        }
        // What has begun is done to its end, unless the user has waited enough.
        let acts = late_actions.as_ref().is_some_and(LateActions::is_busy);
        if stopped || (over && !acts) {
            break;
        }
        progress.show(|| {
            let worst =
                worst.explanations().first().map_or_else(|| "none".to_owned(), |e| e.length().to_string());
            format!("{} watched, worst {worst}", elapsed())
        });
        if record.is_due() {
            collect(&mut run, watcher.as_ref(), &worst, &jobs, elapsed());
            run.on_late = late_actions.as_ref().map(LateActions::so_far);
            record.checkpoint(&run);
        }
        std::thread::sleep(pause.next(found || late_actions.is_some()));
    }
    progress.clear();
    let lasted = elapsed();
    let open = jobs.overdue(watcher.open_jobs(&jobs.followed()));
    for late in watcher.end()? {
        worst.take(late, Some(watcher.as_ref()));
    }
    for job in &open {
        worst.explain(job, watcher.as_ref());
    }
    collect(&mut run, watcher.as_ref(), &worst, &jobs, lasted);
    if let Some(actions) = late_actions {
        run.on_late = Some(actions.finish());
        let folder = run.on_late.as_ref().and_then(|done| done.folder.as_deref());
        if let Some(note) = folder.and_then(|folder| session::for_who_typed_sudo(Path::new(folder))) {
            output.note(&note);
        }
    }
    quotas.finish(&mut run);
    firmware.finish(&mut run);
    run.missing.extend(watcher.missing());
    run.missing.extend(watcher.missing_at_the_end());
    run.missing.extend(worst.take_missing());
    loads.finish(&mut run);
    let cut_short = stop.is_set() && args.duration.is_some();
    run.state = if cut_short { RunState::Interrupted } else { RunState::Complete };
    record.add(|folder| folder.write_activations(worst.activations(), &run.worst));
    run.missing.extend(record.take_problem());
    let written = record.finish(&mut run, output, html::page);
    print(&run, output)?;
    // Neither keeps the other from being written.
    let drawn = perfetto.write(&run.worst);
    written?;
    drawn?;
    load_runner::demand_all(&run)?;
    if jobs.missed_deadline(&run.jobs) {
        return Ok(Outcome::LimitPassed);
    }
    Ok(wakeups::outcome(&run, args.max_latency))
}

/// The worst wake-ups of a saved trace, or of the events that `--do save` wrote. Nothing of this system bears on them.
fn saved(path: &Path, args: &ExplainArgs, perfetto: &PerfettoFile<'_>, output: &Output) -> Result<Outcome> {
    let watched = match &args.comm {
        Some(comm) => Watched::Comm(comm.clone()),
        None if args.rt => Watched::RealTime,
        None => Watched::Threads(args.tid.iter().copied().collect()),
    };
    let found = explain_trace(path, &watched, &args.cycle(), args.recorder.worst, &Cancel::default())?;
    if output.is_json() {
        output.json(&found.worst)?;
    } else {
        let text = terminal::SavedWakeups {
            latencies: &found.latencies,
            cycles: &found.cycles,
            responses: &found.responses,
            losses: &found.losses,
            missing: &found.missing,
            worst: &found.worst,
            start: found.start.unwrap_or_default(),
        };
        output.text(&text.text(&output.style()))?;
    }
    perfetto.write(&found.worst)?;
    let passes =
        |limit: Option<Nanos>, of: &Histogram| limit.zip(of.max()).is_some_and(|(limit, max)| max > limit);
    let passed = passes(args.max_latency, &found.latencies) || passes(args.deadline, &found.responses);
    Ok(if passed { Outcome::LimitPassed } else { Outcome::Done })
}

/// The file of `--perfetto`, where there is to be one.
struct PerfettoFile<'a>(Option<(&'a Path, Folder, OsString)>);

impl<'a> PerfettoFile<'a> {
    /// Looks whether the file can be written, before anything takes time.
    fn begin(path: Option<&'a Path>) -> Result<PerfettoFile<'a>> {
        let Some(path) = path else { return Ok(PerfettoFile(None)) };
        let (folder, name) = Folder::above(path)
            .and_then(|(folder, name)| folder.can_replace(&name).map(|()| (folder, name)))
            .with_context(|| {
                format!("cannot write {}; name a file in a folder that is there", path.display())
            })?;
        Ok(PerfettoFile(Some((path, folder, name))))
    }

    /// Writes the file whole or not at all.
    fn write(&self, explanations: &[Explanation]) -> Result<()> {
        let Some((path, folder, name)) = &self.0 else { return Ok(()) };
        folder
            .replace(name, |file| file.write_all(&perfetto::trace(explanations)))
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

fn watched(args: &ExplainArgs, group: Option<&FoundGroup>) -> Result<Watch> {
    if let Some(group) = group {
        return Ok(Watch::Group { number: group.number, level: group.level });
    }
    let alive = |id: i32| std::path::Path::new(&format!("/proc/{id}")).exists();
    Ok(match (&args.pid, &args.comm) {
        (Some(pid), _) if !alive(pid.0) => bail!("there is no process {pid}; `ps -eo pid,comm` lists them"),
        (Some(pid), _) => Watch::Process(*pid),
        (_, Some(comm)) if comm.is_empty() || comm.len() > 15 => {
            bail!(
                "--comm \"{comm}\" cannot match: the kernel keeps 1 to 15 bytes of a name; `ps -eLo tid,comm` shows them"
            )
        }
        (_, Some(comm)) => Watch::Comm(comm.clone()),
        _ if args.rt => Watch::RealTime,
        _ => {
            if let Some(gone) = args.tid.iter().find(|tid| !alive(tid.0)) {
                bail!("there is no thread {gone}; `ps -eLo tid,comm` lists them");
            }
            Watch::Threads(args.tid.clone())
        }
    })
}

/// The CPU quotas of the groups that the watched threads are in.
struct Quotas {
    threads: Vec<Tid>,
    before: Vec<CpuQuota>,
}

impl Quotas {
    /// Reads what the accounts of the groups say before. Real-time threads are not held by quotas.
    fn begin(args: &ExplainArgs, group: Option<&FoundGroup>) -> Quotas {
        let root = Root::live();
        let threads: Vec<Tid> = match (group, &args.pid, &args.comm) {
            (Some(group), ..) => threads_of_group(&root, group),
            (_, Some(pid), _) => vec![*pid],
            (.., Some(comm)) => {
                let all = latebound_system::threads(&root).unwrap_or_default();
                all.into_iter().filter(|thread| thread.comm == *comm).map(|thread| thread.tid).collect()
            }
            (None, None, None) => args.tid.clone(),
        };
        let before = latebound_system::cpu_quotas(&root, &threads);
        Quotas { threads, before }
    }

    /// Puts the quotas into the Run, with what happened since, and what they mean in place of what was found for this
    /// process's own group.
    fn finish(mut self, run: &mut Run) {
        let met = run.series.iter().filter_map(|series| series.subject.task.as_ref()).map(|task| task.tid);
        self.threads.extend(met);
        self.threads.sort_unstable();
        self.threads.dedup();
        let now = latebound_system::cpu_quotas(&Root::live(), &self.threads);
        // The account of a group that was made meanwhile began at zero.
        let since = |quota: CpuQuota| match self.before.iter().find(|old| old.folder == quota.folder) {
            Some(old) => quota.since(old),
            None => quota,
        };
        let mut quotas: Vec<CpuQuota> = now.into_iter().map(since).collect();
        // A group whose threads have ended meanwhile: its quota is still worth telling.
        let gone = self.before.iter().filter(|old| !quotas.iter().any(|quota| quota.folder == old.folder));
        let gone: Vec<CpuQuota> = gone
            .map(|old| CpuQuota { periods: None, throttled_periods: None, throttled: None, ..old.clone() })
            .collect();
        quotas.extend(gone);
        let finding = latebound_system::quota_finding(&quotas);
        match run.findings.iter_mut().find(|known| known.id == finding.id) {
            Some(known) => *known = finding,
            None => run.findings.push(finding),
        }
        run.quotas = quotas;
    }
}

fn collect(run: &mut Run, watcher: &dyn Watcher, worst: &Worst, jobs: &JobFollower, elapsed: Nanos) {
    run.duration = elapsed;
    run.series = watcher.series();
    run.jobs = jobs.threads(&run.series, watcher);
    run.worst = worst.explanations().to_vec();
    run.blame = blame_groups(&run.worst);
    run.losses = watcher.losses();
}

fn print(run: &Run, output: &Output) -> Result<()> {
    match output.is_json() {
        true => output.json(run),
        false => output.text(&terminal::explained(run, &output.style())),
    }
}
