// SPDX-License-Identifier: MIT OR Apache-2.0
//! Explanations as a Perfetto trace, for <https://ui.perfetto.dev> and other readers of that format.
//!
//! Owns what is a track, a slice and a flow; `docs/src/reference/perfetto.md` says it to readers. Names are those of the terminal and the page.

mod proto;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use latebound_model::{Cause, CauseKind, Explanation, KnownBy, Task, Tid, WaitLink};
use prost::Message as _;

use crate::digest::cause_text;
use crate::text::{loss_text, printable, task_text};
use proto::{
    BuiltinClock, Clock, ClockSnapshot, DebugAnnotation, EventType, ProcessDescriptor, ThreadDescriptor,
    Trace, TracePacket, TrackDescriptor, TrackEvent,
};

/// All packets are of one writer; Perfetto takes track events only of a writer that has a number.
const SEQUENCE: u32 = 1;

/// The bytes of a Perfetto trace file (`Trace` of perfetto_trace.proto) with these explanations in any order. Times are nanoseconds of
/// `CLOCK_MONOTONIC`, as those of the explanations are. The same explanations give the same bytes.
///
/// An explanation whose spans do not add up ([`Explanation::adds_up`]) has the slice of its job alone, which says so.
pub fn trace(explanations: &[Explanation]) -> Vec<u8> {
    packets(explanations).encode_to_vec()
}

fn packets(explanations: &[Explanation]) -> Trace {
    let mut drawing = Drawing::default();
    let mut jobs: Vec<&Explanation> = explanations.iter().collect();
    // A lane takes what comes after its last slice.
    jobs.sort_by_key(|job| (job.requested_at, job.until()));
    jobs.iter().for_each(|job| drawing.job(job));
    let (descriptors, events) = drawing.finish();

    let start = jobs.first().map_or(0, |job| job.requested_at.0);
    let clock = Clock { clock_id: Some(monotonic()), timestamp: Some(start) };
    // Without the primary clock a reader converts to CLOCK_BOOTTIME, and no snapshot says how.
    let snapshot =
        ClockSnapshot { clocks: vec![clock], primary_trace_clock: Some(BuiltinClock::Monotonic.into()) };
    let first = TracePacket { clock_snapshot: Some(snapshot), ..packet() };
    let descriptors =
        descriptors.into_iter().map(|track| TracePacket { track_descriptor: Some(track), ..packet() });
    let events = events.into_iter().map(|(at, event)| TracePacket {
        timestamp: Some(at),
        timestamp_clock_id: Some(monotonic()),
        track_event: Some(event),
        ..packet()
    });
    Trace { packet: std::iter::once(first).chain(descriptors).chain(events).collect() }
}

fn packet() -> TracePacket {
    TracePacket { trusted_packet_sequence_id: Some(SEQUENCE), ..TracePacket::default() }
}

const fn monotonic() -> u32 {
    BuiltinClock::Monotonic as u32
}

/// A slice whose track is known, with the event that begins it.
struct Slice {
    start: u64,
    end: u64,
    begin: TrackEvent,
}

/// A track and the ends of the slices that are open on it, outermost first.
struct Lane {
    uuid: u64,
    open: Vec<u64>,
}

impl Lane {
    /// Closes what has ended by this time.
    fn advance(&mut self, to: u64) {
        while self.open.last().is_some_and(|&end| end <= to) {
            self.open.pop();
        }
    }
}

/// The tracks of one thread.
struct Tracks {
    name: String,
    process: u64,
    thread: u64,
    /// Of its jobs, which may overlap where one is released before the one before has completed.
    jobs: Vec<Lane>,
    /// Of what it did while others waited for it. The first is the thread's own.
    kept: Vec<Lane>,
}

#[derive(Default)]
struct Drawing {
    descriptors: Vec<TrackDescriptor>,
    threads: Vec<Tracks>,
    /// The place of each thread in `threads`, by its id.
    places: BTreeMap<Tid, usize>,
    /// A slice comes behind the one around it and behind those that its flows come from.
    slices: Vec<Slice>,
    /// What threads did while others waited for them: places in `threads` and in `slices`.
    kept: Vec<(usize, usize)>,
    flows: u64,
}

/// Declares a track under a number of its own.
fn declare(descriptors: &mut Vec<TrackDescriptor>, track: TrackDescriptor) -> u64 {
    let uuid = descriptors.len() as u64 + 1;
    descriptors.push(TrackDescriptor { uuid: Some(uuid), ..track });
    uuid
}

/// Opens a slice on the first lane that `fits`, or on a new one with this parent and name.
fn place(
    lanes: &mut Vec<Lane>,
    descriptors: &mut Vec<TrackDescriptor>,
    (start, end): (u64, u64),
    (parent, name): (u64, String),
    fits: impl Fn(&Lane) -> bool,
) -> u64 {
    lanes.iter_mut().for_each(|lane| lane.advance(start));
    if let Some(lane) = lanes.iter_mut().find(|lane| fits(lane)) {
        lane.open.push(end);
        return lane.uuid;
    }
    let track = TrackDescriptor { parent_uuid: Some(parent), name: Some(name), ..TrackDescriptor::default() };
    let uuid = declare(descriptors, track);
    lanes.push(Lane { uuid, open: vec![end] });
    uuid
}

impl Drawing {
    /// The place of a thread, which is declared where it is new. Its process is not known, so it stands for one with its own id.
    fn thread(&mut self, task: &Task) -> usize {
        if let Some(&place) = self.places.get(&task.tid) {
            return place;
        }
        let (id, name) = (task.tid.0, name(task));
        let process = ProcessDescriptor { pid: Some(id), process_name: Some(name.clone()) };
        let process = TrackDescriptor { process: Some(process), ..TrackDescriptor::default() };
        let process = declare(&mut self.descriptors, process);
        let thread =
            ThreadDescriptor { pid: Some(id), tid: Some(id.into()), thread_name: Some(name.clone()) };
        let thread = TrackDescriptor {
            thread: Some(thread),
            parent_uuid: Some(process),
            ..TrackDescriptor::default()
        };
        let thread = declare(&mut self.descriptors, thread);
        let kept = vec![Lane { uuid: thread, open: Vec::new() }];
        self.places.insert(task.tid, self.threads.len());
        self.threads.push(Tracks { name, process, thread, jobs: Vec::new(), kept });
        self.threads.len() - 1
    }

    fn job(&mut self, job: &Explanation) {
        let thread = self.thread(&job.task);
        let (start, end) = (job.requested_at.0, job.until().max(job.requested_at).0);
        let track = self.jobs_track(thread, (start, end));
        self.slices.push(Slice {
            start,
            end,
            begin: TrackEvent { track_uuid: Some(track), ..job_event(job) },
        });
        if !job.adds_up() {
            return;
        }
        // An empty span took no time.
        for span in job.spans.iter().filter(|span| span.start < span.end) {
            let cause = &job.causes[span.cause];
            let (start, end) = (span.start.0, span.end.0);
            let mut begin = event(span_text(cause), cause.kind.name());
            begin.track_uuid = Some(track);
            begin
                .debug_annotations
                .extend(crate::digest::job::more_text(cause, &job.task).map(|more| text("detail", &more)));
            let mut from = self.slices.len();
            self.slices.push(Slice { start, end, begin });
            let mut waiter = &job.task;
            for (place, link) in cause.via.iter().enumerate() {
                let thread = self.thread(&link.task);
                self.flows += 1;
                self.slices[from].begin.flow_ids.push(self.flows);
                let did = match cause.via.get(place + 1) {
                    Some(next) => waits_for(next),
                    None => last_text(cause),
                };
                let mut begin = event(format!("kept {}: {did}", name(waiter)), cause.kind.name());
                begin.terminating_flow_ids.push(self.flows);
                begin.debug_annotations = link_annotations(link);
                from = self.slices.len();
                self.kept.push((thread, from));
                self.slices.push(Slice { start, end, begin });
                waiter = &link.task;
            }
        }
    }

    /// A track of a thread's jobs on which none is open at the start of this one.
    fn jobs_track(&mut self, thread: usize, interval: (u64, u64)) -> u64 {
        let tracks = &mut self.threads[thread];
        let new = (tracks.process, format!("jobs of {}", tracks.name));
        place(&mut tracks.jobs, &mut self.descriptors, interval, new, |lane| lane.open.is_empty())
    }

    /// A track of a thread on which a slice lies within all that are open at its start.
    fn kept_track(&mut self, thread: usize, interval: (u64, u64)) -> u64 {
        let tracks = &mut self.threads[thread];
        let new = (tracks.thread, format!("{} kept others", tracks.name));
        let fits = |lane: &Lane| lane.open.last().is_none_or(|&open| interval.1 <= open);
        place(&mut tracks.kept, &mut self.descriptors, interval, new, fits)
    }

    /// The tracks, and all events in order of time; of those at one moment ends come before begins, so that slices nest.
    fn finish(mut self) -> (Vec<TrackDescriptor>, Vec<(u64, TrackEvent)>) {
        let mut kept = std::mem::take(&mut self.kept);
        kept.sort_by_key(|&(_, place)| (self.slices[place].start, place));
        for (thread, place) in kept {
            let interval = (self.slices[place].start, self.slices[place].end);
            self.slices[place].begin.track_uuid = Some(self.kept_track(thread, interval));
        }
        let mut events = Vec::with_capacity(2 * self.slices.len());
        for (place, Slice { start, end, begin }) in self.slices.into_iter().enumerate() {
            let finish = TrackEvent {
                r#type: Some(EventType::SliceEnd.into()),
                track_uuid: begin.track_uuid,
                ..TrackEvent::default()
            };
            events.push(((start, 1, start, place, 0), begin));
            // What began last ends first. A slice without a length ends where it began, before anything else there.
            let key = if start == end { (end, 1, start, place, 1) } else { (end, 0, !start, !place, 0) };
            events.push((key, finish));
        }
        events.sort_by_key(|&(key, _)| key);
        (self.descriptors, events.into_iter().map(|((at, ..), event)| (at, event)).collect())
    }
}

/// The begin of a slice.
fn event(name: String, category: &str) -> TrackEvent {
    TrackEvent {
        r#type: Some(EventType::SliceBegin.into()),
        name: Some(name),
        // Readers write several categories with commas in between.
        categories: vec![category.replace(',', "")],
        ..TrackEvent::default()
    }
}

fn job_event(job: &Explanation) -> TrackEvent {
    let what = if job.ended_at.is_some() { "job" } else { "wake-up" };
    let mut begin = event(format!("{what} {}", job.length()), what);
    begin.debug_annotations =
        vec![number("release_ns", job.requested_at.0), number("start_ns", job.started_at.0)];
    if job.ended_at.is_some() {
        begin.debug_annotations.push(number("response_ns", job.length().0));
    }
    begin.debug_annotations.push(number("latency_ns", job.latency().0));
    begin.debug_annotations.push(number("cpu", job.cpu.0.into()));
    begin.debug_annotations.push(text("task", &printable(&task_text(&job.task))));
    if !job.losses.is_empty() {
        let losses: Vec<String> = job.losses.iter().map(loss_text).collect();
        begin.debug_annotations.push(text("lost", &losses.join("; ")));
    }
    if !job.adds_up() {
        begin.debug_annotations.push(text("not_drawn", "the causes, because they do not add up"));
    }
    begin
}

fn link_annotations(link: &WaitLink) -> Vec<DebugAnnotation> {
    let known_by = match link.known_by {
        KnownBy::Owner => "what is waited on names its owner",
        KnownBy::Waker => "the thread ended the wait",
    };
    vec![text("through", link.through.name()), text("known_by", known_by)]
}

fn number(name: &str, value: u64) -> DebugAnnotation {
    DebugAnnotation { name: Some(name.to_owned()), uint_value: Some(value), ..DebugAnnotation::default() }
}

fn text(name: &str, value: &str) -> DebugAnnotation {
    DebugAnnotation {
        name: Some(name.to_owned()),
        string_value: Some(value.to_owned()),
        ..DebugAnnotation::default()
    }
}

/// The name of a thread.
fn name(task: &Task) -> String {
    match task.comm.as_str() {
        _ if task.is_idle() => "idle task".to_owned(),
        "" => "?".to_owned(),
        comm => printable(comm).into_owned(),
    }
}

fn waits_for(link: &WaitLink) -> String {
    format!("waits for {}", printable(&task_text(&link.task)))
}

/// What kept a thread, behind all whom it waited for: `waits for server (tid 7, nice 0), which waits for worker (tid 9, nice 0): it ran`.
fn span_text(cause: &Cause) -> String {
    if cause.via.is_empty() {
        return cause_text(cause);
    }
    let chain: Vec<String> = cause.via.iter().map(waits_for).collect();
    format!("{}: {}", chain.join(", which "), last_text(cause))
}

/// What the last thread of a chain did, or what kept it.
fn last_text(cause: &Cause) -> String {
    match cause.kind {
        // The thread's own name stands beside.
        CauseKind::Ran | CauseKind::OwnCode => "it ran".to_owned(),
        _ => cause_text(&Cause { via: Vec::new(), ..cause.clone() }),
    }
}
