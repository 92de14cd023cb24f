// SPDX-License-Identifier: MIT OR Apache-2.0
//! Marks at which jobs begin and end: the recorder's programs at places of a program or at trace points, and what they counted.

use std::os::fd::AsRawFd;

use latebound_model::{JobMarks, Mark, Missing, MissingKind, Nanos, Tid};
use libbpf_rs::{Link, TracepointCategory, TracepointOpts, UprobeOpts};

use super::wire::Mark as For;
use super::{Recorder, Watch, imp, intervals};
use crate::error::ProbeError;
use crate::load::Refused;
use crate::places::{self, At};

/// The program at places of a file, and the one at trace points.
const AT_PLACES: &str = "on_mark";
const AT_TRACEPOINTS: &str = "on_mark_tracepoint";

/// Whether this program is only for marks, and if so whether it is needed; `None` of any other.
pub(super) fn needs(program: &str, marks: Option<&JobMarks>) -> Option<bool> {
    let any = |in_file: bool| {
        let mut all = marks.into_iter().flat_map(|marks| std::iter::once(&marks.begin).chain(&marks.end));
        all.any(|mark| mark.path().is_some() == in_file)
    };
    match program {
        AT_PLACES => Some(any(true)),
        AT_TRACEPOINTS => Some(any(false)),
        _ => None,
    }
}

/// The places of the marks, found before any program is loaded.
#[derive(Debug)]
pub(super) struct Marks(Vec<(Mark, u64, At)>);

impl Marks {
    pub(super) fn find(marks: &JobMarks) -> Result<Marks, ProbeError> {
        let (begin, end) = (u64::from(For::Begin.raw()), u64::from(For::End.raw()));
        let of = |mark: &Mark, cookie: u64| -> Result<_, ProbeError> {
            Ok((mark.clone(), cookie, places::find(mark)?))
        };
        Ok(Marks(match &marks.end {
            Some(mark) => vec![of(mark, end)?, of(&marks.begin, begin)?],
            None => vec![of(&marks.begin, begin | end)?],
        }))
    }

    /// Lets the programs in. In the files of one process, where that is all that is watched: nobody else meets a breakpoint then.
    pub(super) fn attach(
        &self,
        skeleton: &imp::RecorderSkel<'static>,
        watch: &Watch,
        refused: &[Refused],
    ) -> Result<Vec<Link>, ProbeError> {
        let process = match watch {
            Watch::Process(process) => process.0,
            _ => -1,
        };
        if let Some(one) = refused.iter().find(|one| needs(&one.program, None).is_some()) {
            return Err(ProbeError::NothingToSee(one.reason()));
        }
        let programs = &skeleton.progs;
        let mut links = Vec::new();
        for (mark, cookie, at) in &self.0 {
            let failed = |error: libbpf_rs::Error| ProbeError::Mark {
                mark: mark.to_string().escape_debug().to_string(),
                why: format!("the kernel lets no program in: {error:#}"),
            };
            match (at, mark) {
                (At::File(file, places), _) => {
                    // The open file, whatever is at its name by now.
                    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
                    for place in places {
                        let options = UprobeOpts {
                            cookie: *cookie,
                            retprobe: matches!(mark, Mark::Return { .. }),
                            ref_ctr_offset: place.semaphore as usize,
                            ..UprobeOpts::default()
                        };
                        let program = &programs.on_mark;
                        let offset = place.offset as usize;
                        links.push(
                            program
                                .attach_uprobe_with_opts(process, &path, offset, options)
                                .map_err(failed)?,
                        );
                    }
                }
                (At::Tracepoint, Mark::Tracepoint { system, event }) => {
                    let options = TracepointOpts { cookie: *cookie, ..TracepointOpts::default() };
                    let category = TracepointCategory::Custom(system.clone());
                    let program = &programs.on_mark_tracepoint;
                    links
                        .push(program.attach_tracepoint_with_opts(category, event, options).map_err(failed)?);
                }
                (At::Tracepoint, _) => {}
            }
        }
        Ok(links)
    }
}

/// The marks that a watched thread reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkCounts {
    /// Begins of jobs.
    pub begins: u64,
    /// Begins while a job was on, which has no end then.
    pub begun_again: u64,
    /// Ends without a begin.
    pub ended_alone: u64,
    /// Distances between begins: how many, their mean and standard deviation. One above 4 s counts as 4 s in the deviation.
    pub intervals: (u64, Nanos, Nanos),
}

impl Recorder {
    /// What the watched threads reached that reached a mark.
    pub fn marks(&self) -> Vec<(Tid, MarkCounts)> {
        let of = |tid: Tid| {
            let marks = self.watched_thread(tid)?.marks;
            let counts = MarkCounts {
                begins: marks.begins.waits,
                begun_again: marks.begun_again,
                ended_alone: marks.ended_alone,
                intervals: intervals(&marks.begins),
            };
            (counts.begins + counts.ended_alone > 0).then_some((tid, counts))
        };
        self.watched_threads().into_iter().filter_map(of).collect()
    }

    /// Marks that threads reached which are not watched.
    pub fn marks_elsewhere(&self) -> u64 {
        self.cpus().iter().filter_map(|&cpu| self.cpu_state(cpu)).map(|state| state.marks_elsewhere).sum()
    }

    /// What to say where no watched thread has reached a mark.
    pub fn unreached_marks(&self) -> Option<Missing> {
        let marks = self.options.marks.as_ref().filter(|_| self.marks().is_empty())?;
        let others = match self.marks_elsewhere() {
            0 => "no watched thread reached it".to_owned(),
            count => format!("no watched thread reached it, but others did {count} times"),
        };
        Some(Missing {
            kind: MissingKind::Results,
            what: format!("jobs from {}", marks.begin.to_string().escape_debug()),
            why: others,
            remedy:
                "watch the threads that reach it, for longer; check that the file is the one that they run"
                    .to_owned(),
        })
    }
}
