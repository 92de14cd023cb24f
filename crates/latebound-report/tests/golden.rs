// SPDX-License-Identifier: MIT OR Apache-2.0
//! What prints, compared with files in `tests/golden`. `LATEBOUND_BLESS=1` writes them anew; read the difference then.
#![allow(clippy::unwrap_used, reason = "a test may panic; Clippy knows only functions marked as tests")]

mod support;

use latebound_model::{
    CallObject, Condition, Cpu, CpuQuota, Cycle, Emulation, Evidence, Histogram, JobMarks, Load, Loss,
    LossKind, Mechanism, Missing, MissingKind, Nanos, PreemptionModel, Quantity, RuleViolation, Run,
    Sureness, SystemSnapshot, Task, ThreadJobs, ThreadMarks, Tid, ViewKind, WaitSite,
};
use latebound_report::html::{self, Matrix, MatrixKernel, RelationMap};
use latebound_report::svg::{
    self, Layer, Limits, Marker, MaximaLayer, RelationEdge, RelationServer, RelationTask,
};
use latebound_report::terminal::{self, Style};
use latebound_report::{Overlay, OverlayTrace, ScopeAccount};
use unicode_width::UnicodeWidthStr;

use support::golden;

const PLAIN: Style = Style { color: false, width: 80, unicode: true };
const STYLES: [Style; 4] = [
    PLAIN,
    Style { color: true, width: 120, unicode: true },
    Style { color: false, width: 52, unicode: false },
    Style { color: true, width: 0, unicode: false },
];

/// Every text that the terminal module makes of a Run.
fn texts(run: &Run, style: &Style) -> [(&'static str, String); 5] {
    [
        ("check", terminal::check_summary(run, Some("latebound.run/report.html"), style)),
        ("measure", terminal::measure_table(run, style)),
        ("doctor", terminal::doctor(&run.findings, &run.evidence, &run.missing, style)),
        ("observe", {
            let observed: Vec<_> =
                run.series.iter().filter(|s| s.mechanism != Mechanism::TimerWakeup).cloned().collect();
            terminal::observe_table(&observed, &run.losses, style)
        }),
        ("explain", terminal::explained(run, style)),
    ]
}

#[test]
fn terminal_texts_are_as_they_were() {
    for (fixture, run) in
        [("rich", support::rich()), ("empty", support::empty()), ("hostile", support::hostile())]
    {
        for (verb, text) in texts(&run, &PLAIN) {
            golden(&format!("{fixture}-{verb}.txt"), &text);
        }
    }
    golden("jobs-explain.txt", &terminal::explained(&support::jobs(), &PLAIN));
    golden("jobs-explain-52.txt", &terminal::explained(&support::jobs(), &STYLES[2]));
    golden("groups-explain.txt", &terminal::explained(&support::grouped(), &PLAIN));
    golden("groups-explain-52.txt", &terminal::explained(&support::grouped(), &STYLES[2]));
    golden("jobs-check.txt", &terminal::check_summary(&support::jobs(), None, &PLAIN));
    let [done, saved] = support::late();
    golden("late-explain.txt", &terminal::explained(&done, &PLAIN));
    golden("late-saved.txt", &terminal::explained(&saved, &PLAIN));
    golden("bounded-check.txt", &terminal::check_summary(&support::bounded(), None, &PLAIN));
    golden("rich-check-colour.txt", &terminal::check_summary(&support::rich(), None, &STYLES[1]));
    golden("worst-activations.txt", &terminal::worst_activations(&support::activations(), &PLAIN));
    assert_eq!(terminal::worst_activations(&[], &PLAIN), "");
    golden("rich-observe-52.txt", &texts(&support::rich(), &STYLES[2])[3].1);
}

#[test]
fn bounds_of_recordings_and_running_systems_are_as_they_were() {
    let bound = support::bounded().bound.unwrap();
    golden("bound-live.txt", &terminal::live_bound(&bound, "Followed for 10 s.", &PLAIN));
    golden("bound-live-52.txt", &terminal::live_bound(&bound, "Followed for 10 s.", &STYLES[2]));
    let observations = support::observations();
    let views = observations.views().unwrap();
    let mut bound = observations.bound_of(&views, ViewKind::SlidingWindow);
    let events = vec!["1.000000200 tid 7: preempt_enable in \u{1b}[31m+0x10".to_owned()];
    bound.violations =
        vec![RuleViolation { cpu: Cpu(1), rule: "preemption is on already".to_owned(), events }];
    let saved = terminal::SavedBound { observations: &observations, views: &views, bound: &bound };
    golden("bound-saved.txt", &saved.text(&PLAIN));
    let replay = observations.bound_of(&views, ViewKind::Replay);
    let saved = terminal::SavedBound { bound: &replay, ..saved };
    golden("bound-saved-52.txt", &saved.text(&STYLES[2]));
}

#[test]
fn an_explained_run_begins_with_failed_loads_and_ends_with_quotas() {
    let mut run = support::rich();
    run.worst.truncate(1);
    run.loads[0].error = Some("it ended early".to_owned());
    run.quotas = vec![CpuQuota {
        group: "/box".to_owned(),
        folder: "/sys/fs/cgroup/box".to_owned(),
        version: 2,
        quota: Nanos::from_millis(20),
        period: Nanos::from_millis(100),
        burst: None,
        threads: 3,
        periods: Some(600),
        throttled_periods: Some(12),
        throttled: Some(Nanos::from_millis(840)),
    }];
    golden("quota-explain.txt", &terminal::explained(&run, &PLAIN));
}

/// The wait between the jobs of a loop of 1 ms.
fn regular() -> Cycle {
    Cycle {
        site: WaitSite::of_call("clock_nanosleep", Some(CallObject::Sleep { absolute: true })),
        sureness: Sureness::Sure,
        period: Some(Nanos::from_millis(1)),
    }
}

#[test]
fn a_job_is_told_at_first_sight_with_its_thread_and_period() {
    let mut run = support::jobs();
    let thread = |task: Task, cycle: Option<Cycle>, late: (u64, u64)| ThreadJobs {
        deadline: cycle.as_ref().and_then(|cycle| cycle.period),
        late_at_least: cycle.as_ref().map(|_| late.0),
        late_at_most: cycle.as_ref().map(|_| late.1),
        missed: None,
        overrun_at_least: None,
        overrun_at_most: None,
        open_for: None,
        jobs: 2_404,
        sleeps_before: None,
        task,
        cycle,
        marks: None,
    };
    let other = Task { tid: Tid(11), comm: "other".into(), ..Task::default() };
    run.worst.truncate(1);
    run.jobs =
        vec![thread(run.worst[0].task.clone(), Some(regular()), (35, 39)), thread(other, None, (0, 0))];
    golden("job-explain.txt", &terminal::explained(&run, &PLAIN));

    // It has not ended when the Run does.
    run.worst[0].open = true;
    run.jobs[0].open_for = Some(run.worst[0].length());
    let text = terminal::explained(&run, &PLAIN);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("Worst job 6.02 ms of a 1.00 ms period, not over: "), "{words}");
    assert!(words.contains("and one was not over after 6.02 ms."), "{words}");
    assert!(words.contains(" to now, not completed"), "{words}");
}

#[test]
fn what_is_known_of_the_jobs_of_each_thread_is_on_the_page() {
    let page = html::page(&support::followed());
    let section = page.split_once("<section id=\"jobs\">").unwrap().1.split_once("</section>").unwrap().0;
    // The pictures have files of their own.
    let mut pieces = section.split("<svg");
    let head = pieces.next().unwrap_or_default().to_owned();
    let text = pieces.fold(head, |text, piece| text + piece.split_once("</svg>").unwrap().1);
    golden("jobs.html", &text.replace("><", ">\n<"));
}

#[test]
fn of_many_threads_those_that_were_late_most_often_have_a_line() {
    let mut run = support::jobs();
    let thread = |number: u64| ThreadJobs {
        task: Task {
            tid: Tid(1_000 + number as i32),
            comm: format!("worker-{number}").into(),
            ..Task::default()
        },
        cycle: Some(regular()),
        marks: None,
        jobs: 100,
        sleeps_before: Some(67),
        deadline: Some(Nanos::from_millis(1)),
        late_at_least: Some(number),
        late_at_most: Some(number),
        missed: None,
        overrun_at_least: None,
        overrun_at_most: None,
        open_for: None,
    };
    run.jobs = (0..40).map(thread).collect();
    run.missing = vec![Missing {
        kind: MissingKind::Results,
        what: "jobs of 9872 threads".into(),
        why: "the first 128 have theirs".into(),
        remedy: "watch fewer".into(),
    }];
    let text = terminal::explained(&run, &PLAIN);
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("Jobs:")).collect();
    assert_eq!(lines.len(), 13, "{text}");
    assert!(lines[0].contains("worker-39") && lines[11].contains("worker-28"), "{lines:?}");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(
        words.matches("At least 67 before that was recognised are not counted.").count(),
        12,
        "{text}"
    );
    assert!(lines[12].contains("28 more threads"), "{lines:?}");
    assert!(text.contains("Missing: jobs of 9872 threads"), "{text}");
}

#[test]
fn a_job_between_marks_is_told_with_its_marks_and_what_is_unpaired() {
    let mut run = support::jobs();
    run.worst.truncate(1);
    (run.worst[0].started_at, run.worst[0].mechanism) = (run.worst[0].requested_at, Mechanism::ThreadWakeup);
    let thread = |task: Task, marks: (&str, Option<&str>), counts: (u64, u64, u64)| ThreadJobs {
        task,
        cycle: None,
        marks: Some(ThreadMarks {
            marks: JobMarks { begin: marks.0.parse().unwrap(), end: marks.1.map(|end| end.parse().unwrap()) },
            begins: counts.0,
            begun_again: counts.1,
            ended_alone: counts.2,
            period: Some(Nanos::from_millis(1)),
        }),
        jobs: 2_404,
        sleeps_before: None,
        deadline: Some(Nanos::from_millis(2)),
        late_at_least: Some(3),
        late_at_most: Some(3),
        missed: Some(5),
        overrun_at_least: Some(10),
        overrun_at_most: Some(12),
        open_for: None,
    };
    let other = Task { tid: Tid(11), comm: "other".into(), ..Task::default() };
    run.jobs = vec![
        thread(
            run.worst[0].task.clone(),
            ("usdt:/opt/app\u{1b}[2J:app:frame_begin", Some("usdt:/opt/app:app:frame_end")),
            (2_407, 2, 12),
        ),
        thread(other, ("tracepoint:task:task_rename", None), (2_405, 0, 0)),
    ];
    golden("marks-explain.txt", &terminal::explained(&run, &PLAIN));
    // Ends alone complete no job.
    run.worst.clear();
    run.missing.push(Missing::new(
        MissingKind::Results,
        "jobs from uprobe:/opt/app:f",
        "no watched thread reached it",
        "watch others",
    ));
    golden("marks-unreached-explain.txt", &terminal::explained(&run, &PLAIN));
}

#[test]
fn wake_ups_of_a_saved_trace_are_as_they_were() {
    let run = support::rich();
    let lost = |kind, count| Loss { kind, place: "trace, CPU 1".to_owned(), count };
    let wakeups = terminal::SavedWakeups {
        latencies: &two_decades(),
        cycles: &[],
        responses: &Histogram::new(),
        losses: &[lost(LossKind::Overwritten, Some(12_345)), lost(LossKind::RingFull, None)],
        missing: &[],
        worst: &run.worst[..2],
        start: run.started_monotonic,
    };
    golden("saved-explain.txt", &wakeups.text(&PLAIN));
    let none = terminal::SavedWakeups { latencies: &Histogram::new(), losses: &[], worst: &[], ..wakeups };
    assert_eq!(none.text(&PLAIN), "No wake-up of a watched thread is in the trace.\n");
    let cycle = regular();
    let task = Task { tid: Tid(7), comm: "loop\u{1b}".into(), ..Task::default() };
    let jobs = terminal::SavedWakeups { cycles: &[(task, cycle)], responses: &two_decades(), ..none };
    let lines: Vec<String> = jobs.text(&PLAIN).lines().skip(1).map(str::to_owned).collect();
    assert_eq!(
        lines[1],
        "Jobs:  loop\\x1b (tid 7): from one wait in clock_nanosleep until a time to the next (sure), every 1.00 ms."
    );
    assert!(lines[0].ends_with(&format!("response up to {}.", two_decades().max().unwrap())), "{lines:?}");
}

#[test]
fn jobs_of_a_saved_trace_begin_with_the_answer_and_end_with_blame() {
    let run = support::jobs();
    let wakeups = terminal::SavedWakeups {
        latencies: &two_decades(),
        cycles: &[],
        responses: &Histogram::new(),
        losses: &[],
        missing: &[Missing::new(MissingKind::Events, "locks\u{1b}", "the trace has none", "record them")],
        worst: &run.worst[..1],
        start: run.started_monotonic,
    };
    let text = wakeups.text(&PLAIN);
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part:?} is not in {text}"));
    assert!(
        at("Missing: locks\\x1b: the trace has none; record them\n") < at("Worst job 6.02 ms: "),
        "{text}"
    );
    assert!(at("Worst job 6.02 ms: ") < at("app/101: response "), "{text}");
    assert!(
        at("sum of the causes") < at("Who made whom late") && at("Who made") < at("PTHREAD_PRIO_INHERIT")
    );
}

#[test]
fn advice_names_the_conditions_that_it_holds_for() {
    let mut run = support::deferred();
    run.system = SystemSnapshot::default();
    run.loads.clear();
    let text = |run: &Run, conditions: &[Condition]| terminal::advice_conditions(run, conditions);
    assert_eq!(
        text(&run, &[Condition::Idle, Condition::Idle]),
        "Measured on Linux an unknown kernel, idle.\n"
    );
    run.system.kernel_release = Some("6.12.1\u{1b}[2J".to_owned());
    let several =
        [Condition::Load("cpu:threads=4".to_owned()), Condition::Awake, Condition::Awake, Condition::Bursts];
    assert_eq!(
        text(&run, &several),
        "Measured on Linux 6.12.1\\x1b[2J, each at its worst of: under cpu:threads=4; with no C-states; in bursts.\n"
    );
    let load = |name: &str, arguments: &str| Load {
        name: name.to_owned(),
        arguments: arguments.to_owned(),
        done: None,
        unit: String::new(),
        error: None,
    };
    run.loads = vec![load("ipc", ""), load("rt-hog", "priority=1")];
    run.system.emulation = Some(Emulation { by: "qemu-tcg".to_owned(), clock: "instructions".to_owned() });
    assert_eq!(
        text(&run, &[Condition::Loaded, Condition::Trains]),
        "Measured on Linux 6.12.1\\x1b[2J, each at its worst of: under ipc; rt-hog priority=1; in trains.\n\
         Emulated machine (qemu-tcg, instructions clock): good for counts, causes, orderings and comparisons inside one run; \
         the times say nothing absolute about hardware.\n"
    );
}

/// A line without its colours.
fn bare(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("\x1b[") {
        out.push_str(before);
        rest = after.split_once('m').expect("a whole escape sequence").1;
    }
    out + rest
}

#[test]
fn every_line_fits_the_width_save_commands_and_the_shortest_numbers() {
    for run in [support::rich(), support::empty(), support::bounded(), support::jobs()] {
        let commands: Vec<&str> = run.findings.iter().filter_map(|f| f.remedy.as_deref()).collect();
        for style in STYLES {
            for (verb, text) in texts(&run, &style) {
                for line in text.lines() {
                    let line = bare(line);
                    let command = commands.iter().any(|command| line.trim() == *command);
                    // Below 80 columns the numbers of the observe table alone take the room.
                    let width = if verb == "observe" { style.width.max(52) } else { style.width.max(40) };
                    assert!(command || line.width() <= width, "{verb} at {}: {line:?}", style.width);
                }
            }
        }
    }
}

#[test]
fn colours_change_nothing_but_colours() {
    for run in [support::rich(), support::empty(), support::hostile(), support::bounded(), support::jobs()] {
        let coloured = texts(&run, &Style { color: true, ..PLAIN });
        for ((verb, plain), (_, coloured)) in texts(&run, &PLAIN).into_iter().zip(coloured) {
            assert!(!plain.contains('\x1b'), "{verb}");
            let stripped: Vec<String> =
                coloured.lines().map(|line| bare(line).trim_end().to_owned()).collect();
            assert!(stripped.iter().map(String::as_str).eq(plain.lines()), "{verb}");
        }
    }
}

#[test]
fn no_name_reaches_the_terminal_as_a_control_sequence() {
    let [done, saved] = support::hostile_late();
    for (run, style) in [support::hostile(), support::hostile_bound(), support::hostile_jobs(), done, saved]
        .into_iter()
        .flat_map(|run| STYLES.map(|style| (run.clone(), style)))
    {
        for (verb, text) in texts(&run, &style) {
            for line in text.lines() {
                let line = bare(line);
                assert!(!line.chars().any(|c| c.is_control() || c == '\u{202e}'), "{verb}: {line:?}");
                assert!(style.unicode || line.is_ascii(), "{verb}: {line:?}");
            }
        }
    }
}

fn two_decades() -> Histogram {
    let mut histogram = Histogram::new();
    histogram.record_n(Nanos(2_000), 900);
    histogram.record_n(Nanos(2_500), 90);
    histogram.record_n(Nanos(40_000), 9);
    histogram.record(Nanos(150_000));
    histogram
}

#[test]
fn pictures_are_as_they_were() {
    let (histogram, run) = (two_decades(), support::rich());
    let mut naive = Histogram::new();
    naive.record_n(Nanos(2_000), 900);
    let layers = [
        Layer { name: "one value a period", class: "main", histogram: &histogram },
        Layer { name: "one a wake-up", class: "naive", histogram: &naive },
    ];
    let markers = [
        Marker { label: "p99".into(), value: Nanos(2_500) },
        Marker { label: "max".into(), value: Nanos(150_000) },
    ];
    let lines = |markup: latebound_report::Markup| markup.into_string().replace("><", ">\n<");
    golden("distribution.svg", &lines(svg::distribution("two decades", &layers, &markers, 620.0).unwrap()));
    golden("survival.svg", &lines(svg::survival("two decades", &layers, &markers, 620.0).unwrap()));
    golden("spark.svg", &lines(svg::spark(&histogram, Nanos(1_000), Nanos(1_000_000)).unwrap()));
    for (place, explanation) in run.worst.iter().enumerate().take(2) {
        golden(&format!("timeline-{place}.svg"), &lines(svg::timeline(explanation, 700.0).unwrap()));
    }
    for (name, job) in [("lock", support::behind_a_lock()), ("server", support::behind_a_server())] {
        golden(&format!("timeline-{name}.svg"), &lines(svg::timeline(&job, 700.0).unwrap()));
    }
    let limits = Limits { deadline: Some(Nanos(2_500)), period: Some(Nanos(50_000)) };
    let drawn = svg::against_deadline("two decades of jobs", &histogram, limits, 620.0).unwrap();
    golden("against-deadline.svg", &lines(drawn));
    let series = run.series.iter().find(|s| s.quantity == Quantity::Latency).unwrap();
    let layer = MaximaLayer { name: "CPU 0", maxima: series.block_maxima.as_ref().unwrap() };
    let drawn = svg::block_maxima("block maxima", &[layer], run.started_monotonic, 620.0).unwrap();
    let bounded = support::bounded().bound.unwrap();
    let (cpus, view) = (latebound_report::digest::worst_first(&bounded), bounded.view);
    for (name, drawn) in [
        ("bound-decomposition.svg", svg::decomposition("what it is made of", &cpus, view, 1280.0)),
        ("bound-views.svg", svg::views("the views", cpus[0], view, 630.0)),
        ("bound-witness.svg", svg::witness("the witness", cpus[0], view, 1240.0)),
        ("bound-growth.svg", svg::growth("how it grew", cpus[0], view, 630.0)),
    ] {
        golden(name, &lines(drawn.unwrap()));
    }
    golden("block-maxima.svg", &lines(drawn));
}

#[test]
fn ways_to_put_work_off_stand_on_one_axis_idle_above_loaded() {
    let page = latebound_report::html::page(&support::deferred());
    let picture = page.split("<div class=\"wide\">").nth(1).unwrap().split("</svg>").next().unwrap();
    golden("deferred.svg", &format!("{picture}</svg>").replace("><", ">\n<"));
    let answer = latebound_report::digest::answer(&support::deferred()).late.plain();
    assert_eq!(
        answer,
        "Of 8404 starts of deferred work with no load of ours, the worst of each way was from 238 ms (tasklet from task) to \
         950 ms (work_highpri from hardirq, to CPU 1)."
    );
}

/// A hundred triggers, of which ten begin late, and one of these most late; and their page.
#[test]
fn the_overlay_of_many_triggers_is_as_it_was() {
    let step = |steps: &[(usize, u64)]| {
        steps.iter().flat_map(|&(columns, count)| std::iter::repeat_n(count, columns)).collect::<Vec<u64>>()
    };
    let overlay = Overlay {
        title: "100 triggers".to_owned(),
        triggers: 100,
        before: Nanos(5_000),
        after: Nanos(95_000),
        traces: vec![
            OverlayTrace {
                name: "top half".to_owned(),
                class: "c-irq",
                running: step(&[(5, 0), (5, 100), (90, 0)]),
                idle: step(&[(5, 100), (4, 0), (91, 100)]),
                edges: step(&[(5, 0), (1, 100), (3, 0), (1, 100), (90, 0)]),
            },
            OverlayTrace {
                name: "bottom half".to_owned(),
                class: "c-softirq",
                running: step(&[(15, 0), (10, 90), (30, 100), (25, 10), (20, 1)]),
                idle: step(&[(16, 100), (9, 10), (30, 1), (25, 100), (20, 99)]),
                edges: step(&[
                    (15, 0),
                    (1, 90),
                    (9, 0),
                    (1, 9),
                    (29, 0),
                    (1, 90),
                    (24, 0),
                    (1, 9),
                    (18, 0),
                    (1, 1),
                ]),
            },
        ],
    };
    golden("overlay.svg", &svg::overlay(&overlay, 700.0).unwrap().into_string().replace("><", ">\n<"));
    let account = ScopeAccount {
        held: vec![("other interrupts".to_owned(), Nanos(40_000), Nanos(1_000))],
        lost_by: vec![("raised twice during one run", 12), ("refused", 0)],
    };
    let page = html::scope_page(&support::deferred(), None, &[overlay], &[], &account);
    let pictures = html::pictures_of(&page);
    assert_eq!(pictures.iter().map(|picture| picture.label.as_str()).collect::<Vec<_>>(), ["100 triggers"]);
    for part in ["id=\"held\"", "other interrupts", "id=\"lost\"", "raised twice during one run"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("refused"), "nothing was");
}

#[test]
fn operations_of_a_load_are_no_starts_of_deferred_work() {
    let run = support::deferred();
    let mut loaded = run.clone();
    let mut histogram = Histogram::new();
    histogram.record_n(Nanos::from_secs(2), 1_000);
    let subject = latebound_model::Subject { name: "ipc messages".into(), ..Default::default() };
    loaded.series.push(latebound_model::Series::new(
        Mechanism::Operation,
        Quantity::Latency,
        subject,
        Evidence::User,
        histogram,
    ));
    let late = |run: &Run| latebound_report::digest::answer(run).late.plain();
    assert_eq!(late(&loaded), late(&run));
    loaded.series.retain(|series| series.condition != Some(latebound_model::Condition::Loaded));
    let idle = late(&loaded);
    assert!(
        idle.starts_with("Of 8404 starts") && idle.contains("from 20.0 us (tasklet from task)"),
        "{idle}"
    );
}

fn matrix() -> Matrix {
    let run = |typical: u64, worst: u64| {
        let mut histogram = Histogram::new();
        histogram.record_n(Nanos(typical), 1_800);
        histogram.record_n(Nanos(typical * 5 / 4), 190);
        histogram.record_n(Nanos(typical * 2), 9);
        histogram.record(Nanos(worst));
        histogram
    };
    let kernel = |name: &str, preemption, evidence, runs: Vec<Histogram>| MatrixKernel {
        name: name.to_owned(),
        release: Some("6.12.117".to_owned()),
        preemption: Some(preemption),
        evidence: Some(evidence),
        runs,
        failed: 0,
        lost: Some(0),
    };
    let mut bad = kernel("debian:6.12@full", PreemptionModel::Full, Evidence::Events, Vec::new());
    (bad.failed, bad.preemption, bad.evidence, bad.release) = (3, None, None, None);
    let none = [(30_000, 180_000), (30_400, 900_000), (29_000, 240_000)].map(|(p, w)| run(p, w)).to_vec();
    let mut lossy = kernel("traced:6.12-rt", PreemptionModel::Rt, Evidence::Bound, vec![run(41_000, 95_000)]);
    lossy.lost = Some(17);
    Matrix {
        job: "measure --duration 2s --load <all>".to_owned(),
        emulation: vec![Emulation { by: "qemu-tcg".to_owned(), clock: "instructions".to_owned() }],
        kernels: vec![
            kernel("debian:6.12@none", PreemptionModel::None, Evidence::Events, none),
            bad,
            kernel("debian:6.12-rt", PreemptionModel::Rt, Evidence::Events, vec![run(29_500, 62_000)]),
            lossy,
        ],
    }
}

#[test]
fn a_matrix_is_drawn_as_it_was_and_says_what_its_times_are() {
    let picture = html::matrix_picture(&matrix()).unwrap();
    golden("matrix.svg", &picture.svg.replace("><", ">\n<"));
    let page = html::matrix_page(&matrix());
    let main = page.split_once("<body>").unwrap().1;
    golden("matrix.html", &main.replace("><", ">\n<"));
    for text in [&picture.svg, &page] {
        assert!(text.contains("Emulated (qemu-tcg, instructions clock)"), "{text}");
        assert!(text.contains("&lt;all&gt;") && !text.contains("<all>"), "{text}");
    }
    let nothing = Matrix { kernels: vec![matrix().kernels[1].clone()], ..matrix() };
    assert_eq!(html::matrix_picture(&nothing), None);
    assert!(html::matrix_page(&nothing).contains("0 (3 failed)"));
}

#[test]
fn rows_are_in_the_order_of_mechanisms_and_then_of_lateness() {
    let run = support::rich();
    let rows = latebound_report::observe_rows(&run.series);
    assert_eq!(rows.len(), run.series.len());
    for pair in rows.windows(2) {
        assert!((pair[0].mechanism, pair[0].quantity) <= (pair[1].mechanism, pair[1].quantity));
        if (pair[0].mechanism, pair[0].quantity) == (pair[1].mechanism, pair[1].quantity) {
            assert!(pair[0].max >= pair[1].max);
        }
    }
    let work = rows.iter().find(|row| row.label == "wb_workfn").unwrap();
    assert_eq!((work.clipped, work.losses, work.cross_cpu, work.is_lossy()), (Some(3), Some(15), 310, true));
    let hostile = latebound_report::observe_rows(&support::hostile().series);
    let uncounted = hostile.iter().find(|row| row.mechanism == Mechanism::Work).unwrap();
    assert_eq!((uncounted.clipped, uncounted.losses), (Some(u64::MAX), None));
}

#[test]
fn an_observed_quantile_above_the_histogram_shows_its_limit() {
    let mut run = support::rich();
    let at = run.series.iter().position(|series| series.subject.name == "wb_workfn").unwrap();
    let series = &mut run.series[at];
    let count = 1000 * series.histogram.count();
    series.censored = Some(latebound_model::Censored { above: Nanos(32_768_000), count });
    let rows = latebound_report::observe_rows(&run.series);
    let row = rows.iter().find(|row| row.series == at).unwrap();
    assert_eq!(row.p50.to_string(), "> 32.8 ms");
    let page = html::page(&run);
    assert!(page.contains("&gt; 32.8\u{202f}ms"));
}

#[test]
fn comparisons_read_as_they_did() {
    // Five Runs of 1.5 s a side on a virtual machine, idle and under the load ipc, compared with --anyway.
    let comparison: latebound_compare::Comparison =
        serde_json::from_str(include_str!("compare.json")).unwrap();
    golden("compare.txt", &terminal::comparison(&comparison, false, &STYLES[0]));
    golden("compare-colour-120.txt", &terminal::comparison(&comparison, true, &STYLES[1]));
    golden("compare-52.txt", &terminal::comparison(&comparison, false, &STYLES[2]));
    golden("compare.md", &latebound_report::markdown(&comparison));
    golden("compare.xml", &latebound_report::junit(&comparison));
}

#[test]
fn preemption_models_read_as_they_did() {
    // Three Runs of 3 s each of two workloads on four models of Linux 6.12, by instructions; two of the loads had failed.
    let tradeoff: latebound_compare::Tradeoff =
        serde_json::from_str(include_str!("preemption.json")).unwrap();
    golden("preemption.txt", &terminal::tradeoff(&tradeoff, &STYLES[1]));
    let page = html::TradeoffPage {
        tradeoff: &tradeoff,
        origin: Some("Emulated".to_owned()),
        facts: "3 Runs of 3.00 s each".to_owned(),
        links: vec![("sqlite".to_owned(), "sqlite/compare.html".to_owned())],
    };
    golden("preemption.svg", &html::tradeoff_picture(&page).unwrap().svg);
    assert!(html::by_size_picture(&page).is_none(), "one size is no figure");
    let text = html::tradeoff_page(&page);
    for wanted in ["href=\"sqlite/compare.html\"", "<h2>tcp:size=14</h2>", "Emulated"] {
        assert!(text.contains(wanted), "{wanted}");
    }
}

#[test]
fn who_waits_for_whom_is_drawn_as_it_was() {
    let task = |name: &str, priority| RelationTask { name: name.to_owned(), priority };
    let edge = |task, over: &str, times| RelationEdge { task, over: over.to_owned(), times };
    let map = RelationMap {
        tasks: vec![task("writer (208)", 45), task("reader <b> (209)", 40)],
        servers: vec![
            RelationServer {
                name: "irq/29-virtio2 (185)".to_owned(),
                facts: vec![
                    "runs at FIFO 50".to_owned(),
                    "behind lower threads 7 times, 1.50 ms at most".to_owned(),
                ],
                wanted: Some("the policy wanted FIFO 40 at most".to_owned()),
                waiters: vec![edge(0, "block I/O", 3), edge(1, "block I/O", 12_345)],
            },
            RelationServer {
                name: "interrupts".to_owned(),
                facts: vec!["no thread to tune".to_owned()],
                wanted: None,
                waiters: vec![edge(0, "wake-ups", 1)],
            },
        ],
        lead: "10.0 s watched, policy weighted-average".to_owned(),
        text: "as text".to_owned(),
        lost: vec!["3 lost".to_owned()],
    };
    let page = html::relations_page(&map);
    assert!(!page.contains("<b> (209)"), "names are text");
    golden("relations.html", &page.split_once("<body>").unwrap().1.replace("><", ">\n<"));
    let nobody = html::relations_page(&RelationMap { tasks: Vec::new(), servers: Vec::new(), ..map });
    assert!(nobody.contains("as text") && !nobody.contains("<svg"), "{nobody}");
}
