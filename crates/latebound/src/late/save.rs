// SPDX-License-Identifier: MIT OR Apache-2.0
//! Saves of the time before something was late: a Run each, in one folder that was made before privileges were given up.
//!
//! Owns the folder, and how many saves there are. The events go from the recorder to the disk CPU by CPU, so that memory holds those of
//! one CPU.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use latebound_analysis::KNOWN_AFTER;
use latebound_files::Folder;
use latebound_model::{
    Activation, Cpu, Event, EventKind, Missing, MissingKind, Nanos, Run, RunState, Save, Stretch, Tid,
};
use latebound_report::html;
use latebound_store::RunFolder;

use super::{Hands, in_short};
use crate::cli::LateArgs;
use crate::session::unused_default;
use crate::watcher::Watcher;

/// Who may read saves: as of Runs.
const FOLDER_MODE: u32 = 0o750;
/// So many names are tried for the folder.
const NAMES: u32 = 100;

/// The saves.
#[derive(Debug)]
pub(super) struct Saves {
    folder: Folder,
    path: PathBuf,
    before: Nanos,
    most: u64,
    made: Vec<Save>,
    left_out: u64,
}

impl Saves {
    /// Makes the folder: beside the Run of `--output`, or of a name with the time. Nothing that is there is touched.
    pub(super) fn begin(output: Option<&Path>, args: &LateArgs) -> Result<Saves> {
        let path = match output {
            Some(path) => path.to_owned(),
            None => unused_default("explain")?,
        };
        let (above, name) = Folder::above(&path)
            .with_context(|| format!("cannot open the folder above {}", path.display()))?;
        for attempt in 1..=NAMES {
            let suffix = if attempt == 1 { ".late".to_owned() } else { format!(".late-{attempt}") };
            let mut own = name.clone();
            own.push(suffix);
            let path = path.with_file_name(&own);
            match above.make(&own, FOLDER_MODE) {
                Ok(folder) => {
                    let path = std::path::absolute(&path).unwrap_or(path);
                    let (before, most) = (args.before, args.saves);
                    return Ok(Saves { folder, path, before, most, made: Vec::new(), left_out: 0 });
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot make the folder {}", path.display()));
                }
            }
        }
        anyhow::bail!("{NAMES} folders of saves of {} are there; remove some", path.display())
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn made(&self) -> &[Save] {
        &self.made
    }

    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Saves the time before this; `None` where as many saves as were asked for are there.
    pub(super) fn save(
        &mut self,
        trigger: u64,
        late: &Activation,
        limit: Nanos,
        hands: &mut Hands<'_>,
    ) -> Result<Option<PathBuf>> {
        if self.made.len() as u64 >= self.most {
            self.left_out += 1;
            return Ok(None);
        }
        // What keeps a job that does not end happened when it began.
        let looked_for = if late.open { late.requested_at } else { late.until() };
        let from = looked_for.saturating_sub(self.before).max(hands.watcher.started_at());
        let to = Nanos(late.until().0.saturating_add(KNOWN_AFTER.0));
        let explanation = hands.worst.explanation(late, hands.watcher)?;
        // Then what else was bad in that time.
        let within = hands.worst.explanations().iter().filter(|other| {
            other.requested_at >= from
                && other.until() <= to
                && (other.task.tid, other.requested_at) != (late.runner_tid(), late.requested_at)
        });
        let worst = std::iter::once(explanation).chain(within.cloned()).collect();
        let of_thread = |tid: Option<Tid>| tid == Some(late.runner_tid());
        let mut series = hands.watcher.series();
        series.retain(|series| of_thread(series.subject.task.as_ref().map(|task| task.tid)));
        let mut jobs = hands.jobs.threads(&series, hands.watcher);
        jobs.retain(|thread| of_thread(Some(thread.task.tid)));
        let missing = hands.run.missing.iter().cloned().chain(hands.watcher.missing()).collect();
        let mut run = Run {
            state: RunState::Complete,
            duration: to.saturating_sub(hands.run.started_monotonic),
            worst,
            stretch: Some(Stretch { from, to, trigger, limit, late: in_short(late) }),
            losses: hands.watcher.losses(),
            missing,
            series,
            jobs,
            on_late: None,
            tables: Vec::new(),
            ..hands.run.clone()
        };
        let name = format!("{}.run", self.made.len() + 1);
        let path = self.path.join(&name);
        let mut folder = RunFolder::create_in(&self.folder, name.as_ref(), path.clone())?;
        let events = Stream { watcher: hands.watcher, from, to, seen: RefCell::default() };
        folder.write_events(events.all())?;
        run.missing.extend(events.missing()?);
        folder.finish_with(&run, |run| Some(html::page(run)))?;
        self.made.push(Save { run: name, late: in_short(late) });
        Ok(Some(path))
    }
}

/// The events of a stretch, CPU by CPU.
struct Stream<'a> {
    watcher: &'a dyn Watcher,
    from: Nanos,
    to: Nanos,
    seen: RefCell<Seen>,
}

/// What was met while events were read.
#[derive(Default)]
struct Seen {
    failed: Option<anyhow::Error>,
    /// CPUs whose events do not reach back to the begin, and the latest moment from which on one has its events.
    short: Vec<Cpu>,
    since: Nanos,
}

impl Stream<'_> {
    fn all(&self) -> impl Iterator<Item = Event> {
        self.watcher.cpus().into_iter().flat_map(|cpu| self.of(cpu))
    }

    fn of(&self, cpu: Cpu) -> Vec<Event> {
        let mut seen = self.seen.borrow_mut();
        let mut events = match self.watcher.events(Some(cpu), self.from, self.to) {
            Ok(events) => events,
            Err(error) => {
                seen.failed.get_or_insert(error);
                return Vec::new();
            }
        };
        // One that says since when the hypervisor's account was watched may be of an earlier time: it holds from the begin on, too.
        events.iter_mut().for_each(|event| event.at = event.at.max(self.from));
        // What was overwritten stands first.
        if let Some(first) = events.first()
            && matches!(first.kind, EventKind::Lost { .. })
        {
            seen.short.push(cpu);
            seen.since = seen.since.max(first.at);
        }
        events
    }

    /// What the recorder did not hold any more.
    fn missing(&self) -> Result<Option<Missing>> {
        let mut seen = self.seen.borrow_mut();
        if let Some(error) = seen.failed.take() {
            return Err(error);
        }
        let cpus = seen.short.len();
        Ok((cpus > 0).then(|| Missing {
            kind: MissingKind::Events,
            what: format!("the begin of the saved stretch on {cpus} CPUs"),
            why: format!(
                "the recorder's memory held the last {} there, of {} that were to be saved",
                self.to.saturating_sub(seen.since),
                self.to.saturating_sub(self.from)
            ),
            remedy: "give it more with --recorder-memory, or ask for less with --before".to_owned(),
        }))
    }
}
