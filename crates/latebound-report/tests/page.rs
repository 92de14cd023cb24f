// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page's structure, without a browser: well-formed, self-contained, honest about what it lacks, readable.
#![allow(clippy::unwrap_used, reason = "a test may panic; Clippy knows only functions marked as tests")]

mod support;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use latebound_model::*;
use latebound_report::html;

/// Walks the tags and checks that they nest; gives every element's name and attributes.
fn elements(page: &str) -> Vec<(String, BTreeMap<String, String>)> {
    let mut open: Vec<String> = Vec::new();
    let mut found = Vec::new();
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        if rest.starts_with("!DOCTYPE") {
            continue;
        }
        // Attribute values hold no quote and no angle bracket: both are escaped.
        let end = rest.find('>').expect("a tag ends");
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "closed in the wrong order");
            continue;
        }
        let (tag, alone) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let (name, mut attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        let mut map = BTreeMap::new();
        while let Some((key, tail)) = attributes.split_once("=\"") {
            let (value, tail) = tail.split_once('"').expect("an attribute ends");
            assert!(map.insert(key.trim().to_owned(), value.to_owned()).is_none(), "{key} twice in {tag}");
            attributes = tail;
        }
        assert!(attributes.trim().is_empty(), "{tag}");
        found.push((name.to_owned(), map));
        if name == "style" {
            rest = &rest[rest.find("</style>").unwrap()..];
        }
        if !alone {
            open.push(name.to_owned());
        }
    }
    assert!(open.is_empty(), "{open:?} not closed");
    found
}

#[test]
fn every_page_is_well_formed_and_needs_nothing_from_anywhere() {
    for run in [
        support::rich(),
        support::empty(),
        support::hostile(),
        support::bounded(),
        support::hostile_bound(),
        support::deferred(),
        support::jobs(),
        support::followed(),
        support::hostile_jobs(),
        support::hostile_late()[0].clone(),
        support::hostile_late()[1].clone(),
    ] {
        let page = html::page(&run);
        assert!(!page.contains("NaN") && !page.contains(">inf<"));
        let mut ids = HashSet::new();
        let mut links = Vec::new();
        for (name, attributes) in elements(&page) {
            assert!(
                !["script", "iframe", "object", "img", "base", "form"].contains(&name.as_str()),
                "{name}"
            );
            for (key, value) in &attributes {
                assert!(!key.starts_with("on") && key != "src", "{name} {key}");
                if key == "href" {
                    assert!(value.starts_with('#') || value == "data:,", "{value}");
                    links.push(value.clone());
                }
                if key == "style" {
                    assert!(value.starts_with("width:") && value.ends_with('%'), "{value}");
                }
                if key == "id" {
                    assert!(ids.insert(value.clone()), "the id {value} twice");
                }
            }
        }
        for link in links.iter().filter_map(|link| link.strip_prefix('#')) {
            assert!(ids.contains(link), "nothing has the id {link}");
        }
        assert!(!page.contains("http:") && !page.contains("https:") && !page.contains("@import"));
    }
}

#[test]
fn a_quantile_of_too_few_samples_is_a_dash_that_says_why() {
    let page = html::page(&support::rich());
    assert!(page.contains("<span class=\"none\" title=\"too few samples (7)\">–</span>"));
    assert!(page.contains("<span class=\"none\" title=\"too few samples (640)\">–</span>"));
}

#[test]
fn requesters_have_their_context_and_control_characters_are_escaped() {
    let page = html::page(&support::rich());
    assert!(page.contains("<a href=\"#requesters\">"));
    let section =
        page.split("<section id=\"requesters\">").nth(1).unwrap().split("</section>").next().unwrap();
    for said in
        ["dd/812 nice 0", "kworker/u4:1/77 nice 0", "idle, in a softirq", "254:0 write", "a\\x0ab/9 RT 50"]
    {
        assert!(section.contains(said), "{said}: {section}");
    }
    assert!(!section.contains('\u{1b}'), "{section}");
    assert!(!html::page(&support::empty()).contains("id=\"requesters\""));
}

#[test]
fn a_number_with_losses_is_marked_and_the_loss_is_reported() {
    let mut run = support::rich();
    let clean = html::page(&run);
    let marked = "class=\"lossy\"";
    let before = clean.matches(marked).count();
    assert!(before > 0, "wb_workfn lost values");
    let series = run.series.iter_mut().find(|s| s.quantity == Quantity::Latency).unwrap();
    series.losses.push(Loss { kind: LossKind::SampleDropped, place: "CPU 0".into(), count: None });
    let page = html::page(&run);
    assert!(page.matches(marked).count() > before);
    assert!(page.contains("an unknown number of late wake-ups not kept (CPU 0)"));
    assert!(page.contains("the true figures may be worse"));
}

#[test]
fn a_job_has_its_answer_its_chains_who_made_it_late_and_what_to_change() {
    let page = html::page(&support::jobs());
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text:?} is not on the page"));
    assert!(at("id=\"worst\"") < at("id=\"blame\"") && at("id=\"blame\"") < at("id=\"hints\""));
    for said in [
        "<b>6.02\u{202f}ms</b>: ",
        "blocked on a lock (futex) held by logger/123 (nice 0):",
        "server was blocked on a lock of the kernel held by kworker/1:2/302 (nice 0):",
        ">waits for logger<",
        ">waits for kworker/1:2<",
        ">completion, 6.02 ms<",
        "PTHREAD_PRIO_INHERIT",
        "kernel thread kworker/1:2/302 (nice 0)",
    ] {
        at(said);
    }
    let page = html::page(&support::rich());
    for only_of_jobs in ["id=\"blame\"", "id=\"hints\"", "waits for", "completion"] {
        assert!(!page.contains(only_of_jobs), "{only_of_jobs}");
    }
}

#[test]
fn whoever_made_a_group_late_stands_under_it_by_what_the_paths_say() {
    let page = html::page(&support::grouped());
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text:?} is not on the page"));
    assert!(at("id=\"blame\"") < at("id=\"groups\"") && at("id=\"groups\"") < at("id=\"hints\""));
    at("<a href=\"#groups\">");
    let section = page.split("<section id=\"groups\">").nth(1).unwrap().split("</section>").next().unwrap();
    let at = |text: &str| section.find(text).unwrap_or_else(|| panic!("{text:?} is not in {section}"));
    let (first, second) =
        (at("threads of unit control.service: "), at("threads of container 3f2a9d1c0b7e: "));
    assert!(first < at("the thread itself") && at("its process") < second);
    assert!(first < at("unit backup.service") && section.rfind("unit backup.service").unwrap() > second);
    assert!(at("CPU limit of cgroup /pods/a") < second && second < section.rfind("interrupts").unwrap());
    assert!(!html::page(&support::jobs()).contains("id=\"groups\""));
}

#[test]
fn a_loss_counter_at_zero_marks_nothing() {
    let mut run = support::empty();
    run.losses.push(Loss { kind: LossKind::RingFull, place: "observe".into(), count: Some(0) });
    let page = html::page(&run);
    assert!(page.contains("Nothing was lost") && page.contains("Counted and found to be zero"));
    assert!(!page.contains("class=\"lossy\""));
}

#[test]
fn the_answer_stands_first_and_names_what_to_change() {
    let page = html::page(&support::rich());
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text:?} is not on the page"));
    let order = [
        "<h1 id=\"answer\">",
        "id=\"why\"",
        "id=\"change\"",
        "id=\"wakeups\"",
        "id=\"worst\"",
        "id=\"causes\"",
        "id=\"observed\"",
        "id=\"findings\"",
        "id=\"loads\"",
        "id=\"losses\"",
        "id=\"evidence\"",
        "id=\"system\"",
        "id=\"command\"",
    ];
    assert!(order.windows(2).all(|pair| at(pair[0]) < at(pair[1])));
    let change = &page[at("id=\"change\"")..at("id=\"wakeups\"")];
    assert!(
        change.contains("<b>Preemption model</b>: (none) voluntary full"),
        "the finding that bears on the leading cause"
    );
    assert!(change.contains("echo full &gt; /sys/kernel/debug/sched/preempt"));
}

#[test]
fn findings_stand_by_severity() {
    let page = html::page(&support::rich());
    let levels: Vec<&str> =
        page.split("<div class=\"finding ").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(levels, ["danger", "warning", "warning", "unknown", "note", "good", "good"]);
}

#[test]
fn an_emulated_machine_and_an_early_end_are_reported_on_the_face() {
    let page = html::page(&support::hostile());
    for id in ["id=\"emulated\"", "id=\"state\""] {
        assert!(page.find(id).unwrap() < page.find("<h1").unwrap());
    }
    assert!(!html::page(&support::rich()).contains("id=\"state\""));
}

#[test]
fn the_same_run_gives_the_same_page() {
    assert_eq!(html::page(&support::rich()), html::page(&support::rich()));
}

#[test]
fn a_run_of_512_cpus_stays_a_page_that_opens() {
    let page = html::page(&support::hostile());
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
}

/// The colours of one block of the style sheet.
fn colours(css: &str) -> BTreeMap<&str, &str> {
    css.split(';')
        .filter_map(|part| part.trim().trim_start_matches('{').trim().strip_prefix("--")?.split_once(": "))
        .filter(|(_, value)| value.starts_with('#'))
        .collect()
}

/// Relative luminance and contrast by WCAG 2.2.
fn contrast(a: &str, b: &str) -> f64 {
    let luminance = |colour: &str| {
        let hex = colour.trim_start_matches('#');
        let wide: String =
            if hex.len() == 3 { hex.chars().flat_map(|c| [c, c]).collect() } else { hex.to_owned() };
        let part = |i: usize| {
            let c = f64::from(u8::from_str_radix(&wide[i..i + 2], 16).unwrap()) / 255.0;
            if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(0) + 0.7152 * part(2) + 0.0722 * part(4)
    };
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

#[test]
fn text_has_the_contrast_that_wcag_aa_asks_for_in_light_and_dark() {
    let css = include_str!("../src/html/style.css");
    let mut blocks = css.split(":root {").skip(1).map(|rest| rest.split('}').next().unwrap());
    for name in ["light", "dark"] {
        let colours = colours(blocks.next().unwrap());
        let mut checked = 0;
        for text in ["text", "soft", "accent", "danger", "warning"] {
            for ground in ["page", "card"] {
                let ratio = contrast(colours[text], colours[ground]);
                assert!(ratio >= 4.5, "{name}: {text} on {ground} {ratio:.2}");
                checked += 1;
            }
        }
        for level in ["danger", "warning", "unknown", "note", "good"] {
            let ratio = contrast(colours[level], colours[format!("{level}-bg").as_str()]);
            assert!(ratio >= 4.5, "{name}: {level} {ratio:.2}");
        }
        // Lines and areas that carry meaning need 3 to 1 (WCAG 1.4.11).
        for mark in ["main", "naive", "mark", "preempt", "softirq", "delayed", "nmi", "timer"] {
            let ratio = contrast(colours[mark], colours["page"]);
            assert!(ratio >= 3.0, "{name}: {mark} {ratio:.2}");
        }
        assert_eq!(checked, 10);
    }
}

#[test]
fn every_kind_of_cause_has_a_colour_of_its_own_in_light_and_dark() {
    use CauseKind::*;
    let css = include_str!("../src/html/style.css");
    let kinds = [
        TimerSlack,
        InterruptDelayed,
        IdleExit,
        TimerInterrupt,
        Interrupt,
        Nmi,
        Softirq,
        TaskFirst,
        PreemptionOff,
        Throttled,
        Scheduler,
        ReturnToUser,
        Blocked,
        Stolen,
        Unaccounted,
    ];
    let mut run = support::empty();
    let story =
        kinds.iter().fold(support::Story::new(0, Nanos(0)), |story, kind| story.then(*kind, "", 1_000));
    run.worst.push(story.end());
    let page = html::page(&run);
    let classes: BTreeSet<&str> =
        page.split("swatch c-").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(classes.len(), kinds.len(), "{classes:?}");
    for class in &classes {
        assert!(css.contains(&format!(".c-{class} {{ background: var(--{class})")), "{class}");
        assert!(css.matches(&format!("--{class}: #")).count() >= 2, "{class} in light and in dark");
    }
}

/// The answer's three lines as plain text.
fn answer(run: &Run) -> [String; 3] {
    let answer = latebound_report::digest::answer(run);
    [answer.late.plain(), answer.why.plain(), answer.change.plain()]
}

#[test]
fn the_answer_says_what_it_rests_on_where_nothing_was_measured() {
    let mut run = support::empty();
    assert_eq!(answer(&run)[0], "No wake-up was measured in this Run.");
    run.worst = support::rich().worst;
    assert_eq!(
        answer(&run)[0],
        "7.83 ms late: the worst of 10 wake-ups that were explained. None was measured."
    );
    let mut histogram = Histogram::new();
    histogram.record_n(Nanos(2_000), 1_999);
    histogram.record(Nanos(90_000));
    let subject = Subject { name: "audio".into(), task: None, cpu: None };
    let seen = Series::new(Mechanism::ThreadWakeup, Quantity::Latency, subject, Evidence::Events, histogram);
    run.series.push(seen);
    assert_eq!(
        answer(&run)[0],
        "Up to 90.0 us late over 2000 wake-ups that were seen; 99.9 % came within 2.01 us."
    );
    run.missing.push(Missing {
        kind: MissingKind::Explanations,
        what: "explain".into(),
        why: "BPF was refused".into(),
        remedy: "root".into(),
    });
    run.worst.clear();
    assert_eq!(answer(&run)[1], "Not known: BPF was refused.");
}

#[test]
fn a_severe_finding_without_a_late_wakeup_is_not_called_the_cause() {
    let mut run = support::rich();
    run.findings.retain(|finding| finding.id != "preemption-model");
    let advice = "Most of the time here: preemption off. A kernel that preempts in more places (preempt=full, or PREEMPT_RT) \
                  shortens this; the stack names the place.";
    let below = answer(&run)[2].clone();
    assert!(below.starts_with(advice) && below.contains("without the hypervisor"), "{below}");
    run.system.hypervisor = None;
    assert_eq!(answer(&run)[2], advice);
    run.worst.clear();
    assert_eq!(
        answer(&run)[2],
        "Real-time throttling: 950000 of 1000000 us. It is a danger by itself; no late wake-up ties the latency to it."
    );
}

#[test]
fn threads_that_may_move_are_told_apart_by_their_names() {
    let mut run = support::rich();
    for (series, name) in run.series.iter_mut().take(4).zip(["a", "a", "b", "b"]) {
        series.subject.cpu = None;
        series.subject.name = name.into();
    }
    let wakeups = latebound_report::digest::wakeups(&run);
    assert_eq!(wakeups.cpus.len(), 2);
    assert_eq!(wakeups.latency.count(), 120_010);
    assert_eq!(wakeups.cpus.iter().map(|cpu| cpu.name()).collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn every_wide_picture_of_the_page_is_a_self_contained_file() {
    let run = support::rich();
    let pictures = html::pictures(&run);
    assert_eq!(pictures.len(), html::page(&run).matches("<div class=\"wide\">").count());
    assert!(pictures.len() > 3, "distribution, survival, maxima and the worst cases");
    for (picture, number) in pictures.iter().zip(1..) {
        assert_eq!(picture.number, number);
        assert!(
            picture.svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" width="),
            "{}",
            picture.label
        );
        assert!(picture.svg.trim_end().ends_with("</svg>") && picture.svg.matches("<svg").count() == 1);
        assert!(!picture.label.is_empty() && picture.svg.contains(&picture.label));
    }
}

#[test]
fn a_bound_says_what_it_is_and_an_estimate_says_why_it_is_none() {
    let mut run = support::bounded();
    let page = html::page(&run);
    assert!(page.contains("Bound: at most <b>") && page.contains("How late it can get"));
    assert!(!page.contains("No wake-up was measured"), "nobody meant to");
    let bound = run.bound.as_mut().unwrap();
    bound.verdict = Verdict::Estimate;
    bound.reasons = vec!["12 events were lost".into()];
    let page = html::page(&run);
    assert!(page.contains("Observed estimate: up to <b>") && page.contains("<li>12 events were lost</li>"));
    assert!(page.contains("This is not a bound, because:"));
}

#[test]
fn the_parts_of_a_cpu_add_up_to_its_value() {
    let bound = support::bounded().bound.unwrap();
    for cpu in &bound.cpus {
        for kind in ViewKind::ALL {
            let sum: u64 = latebound_report::digest::parts(cpu, kind).iter().map(|part| part.time.0).sum();
            assert_eq!(sum, cpu.views.get(kind).latency.unwrap_or_default().0, "{kind:?}");
        }
    }
}

/// A fleet with an answer of each kind that is drawn, and names that would leave an element.
fn fleet(name: &str) -> html::FleetPage {
    let answer = |question: &str, id: &str, columns: &[&str], rows: Vec<serde_json::Value>| {
        let columns: Vec<_> = columns.iter().map(|column| (*column, "what it means")).collect();
        serde_json::json!({
            "question": question, "id": id, "label": id, "title": id, "columns": columns, "rows": rows,
        })
    };
    let tail = ["p50_ns", "p99_ns", "p99_9_ns", "p99_99_ns", "max_ns"];
    let of = |first: &[&'static str]| [first, &tail[..]].concat();
    let hosts: Vec<_> = (0..30u64)
        .map(|at| {
            serde_json::json!([
                format!("{name}{at}"),
                name,
                5_000,
                9_000,
                20_000,
                null,
                1_000_000 - at * 10_000
            ])
        })
        .collect();
    let comparison: serde_json::Value = serde_json::from_str(include_str!("compare.json")).unwrap();
    let document = serde_json::json!({
        "store": name, "days": ["2026-11-26", "2026-11-27"], "hosts": 30, "shown": 25,
        "answers": [
            answer("worst-hosts", "hosts", &of(&["host", "cause"]), hosts),
            answer("tails-by-setting", "setting-1", &of(&["value"]), vec![
                serde_json::json!([name, 5_000, 9_000, 20_000, 30_000, 40_000]),
                serde_json::json!([null, 5_000, null, null, null, 10_000]),
            ]),
            answer("top-causes", "causes", &["cause_kind", "share", "total_ns", "activations", "first"], vec![
                serde_json::json!([name, 0.731, 12_345, 10_240, true]),
            ]),
            answer("what-changed", "changes", &["host"], Vec::new()),
        ],
        "pages": [{ "host": format!("{name}3"), "href": "hosts/a%2541.html" }],
        "setting": "kernel_release", "comparison": comparison,
        "left_out": [[name, name]], "damaged": [name],
    });
    serde_json::from_value(document).unwrap()
}

#[test]
fn the_page_of_a_fleet_is_well_formed_and_names_stay_text() {
    let hostile = "</td><script>alert('1')</script>\u{1b}[2J\u{202e}\"zz=\"";
    let page = html::fleet_page(&fleet(hostile));
    let (mut ids, mut links) = (HashSet::new(), Vec::new());
    for (name, attributes) in elements(&page) {
        assert!(!["script", "iframe", "object", "img", "base", "form"].contains(&name.as_str()), "{name}");
        for (key, value) in &attributes {
            assert!(!key.starts_with("on") && key != "src" && key != "zz", "{name} {key}");
            match key.as_str() {
                "href" => links.push(value.clone()),
                "id" => assert!(ids.insert(value.clone()), "the id {value} twice"),
                _ => {}
            }
        }
    }
    for link in links {
        match link.strip_prefix('#') {
            Some(id) => assert!(ids.contains(id), "nothing has the id {id}"),
            None => {
                assert!(["hosts/a%2541.html", "compare.html", "data:,"].contains(&link.as_str()), "{link}")
            }
        }
    }
    assert!(!page.contains('\u{1b}') && !page.contains('\u{202e}'));
    assert!(!page.contains("http:") && !page.contains("https:") && !page.contains("@import"));
}

#[test]
fn the_page_of_a_fleet_holds_the_numbers_of_its_answers() {
    let page = html::fleet_page(&fleet("rt-"));
    // The host that is most late first, then as many as are listed.
    assert!(page.contains("The most late of 30 hosts is <b>rt-0</b>: <b>1.00\u{202f}ms</b>"), "{page}");
    assert!(page.contains("title=\"760 000 ns\"") && !page.contains("title=\"750 000 ns\""));
    assert!(page.contains("25 of 30 hosts are listed"));
    assert!(page.contains("73.1\u{202f}%") && page.contains("10\u{202f}240") && page.contains(">yes<"));
    assert!(page.contains("<a href=\"hosts/a%2541.html\">rt-3</a>"));
    assert!(page.contains("The store has no rows that answer this."));
    // The comparison follows the tails.
    let places = ["id=\"setting-1\"", "id=\"compared\"", "id=\"causes\""].map(|id| page.find(id).unwrap());
    assert!(places.is_sorted(), "{places:?}");
    let empty = html::fleet_page(&html::FleetPage { store: "fleet".to_owned(), ..Default::default() });
    assert!(empty.contains("The store has no rows of this time."));
    elements(&empty);
}

/// The section of a page with this id.
fn section<'p>(page: &'p str, id: &str) -> &'p str {
    let begin = format!("<section id=\"{id}\">");
    page.split(begin.as_str()).nth(1).unwrap().split("</section>").next().unwrap()
}

#[test]
fn a_run_of_jobs_is_answered_by_its_responses() {
    let page = html::page(&support::followed());
    let answer = page.split("<h1 id=\"answer\">").nth(1).unwrap().split("</h1>").next().unwrap();
    let text = answer.replace("<b>", "").replace("</b>", "").replace('\u{202f}', " ");
    assert_eq!(
        text,
        "Responses up to 7.00 ms over 2416 jobs of 2 threads; 1 to 4 took longer than their deadline."
    );
    // Nobody measured wake-ups, and nobody asked for it.
    assert!(!page.contains("id=\"wakeups\"") && page.contains("<a href=\"#jobs\">"), "{page}");
    assert!(html::page(&support::empty()).contains("id=\"wakeups\""));
    assert!(!html::page(&support::rich()).contains("id=\"jobs\""));
}

#[test]
fn each_of_the_worst_jobs_leads_to_its_lanes() {
    let mut run = support::followed();
    let job = run.worst[0].clone();
    run.worst.resize(30, job);
    let wakeup = Explanation { ended_at: None, ..run.worst[0].clone() };
    run.worst.push(wakeup);
    let page = html::page(&run);
    let jobs = section(&page, "jobs");
    for place in 1..=30 {
        assert!(jobs.contains(&format!("<a href=\"#case-{place}\">#{place}</a>")), "{place}");
        assert!(page.contains(&format!("class=\"case\" id=\"case-{place}\"")), "{place}");
    }
    assert!(!jobs.contains("#case-31") && page.contains("id=\"case-31\""), "a wake-up is no job");
    assert!(jobs.contains("10 more jobs"), "{jobs}");
}

#[test]
fn many_threads_of_jobs_open_on_demand() {
    let mut run = support::followed();
    let (thread, series) = (run.jobs[0].clone(), run.series[0].clone());
    (run.jobs, run.series) = (1..=20)
        .map(|tid| {
            let (mut thread, mut series) = (thread.clone(), series.clone());
            (thread.task.tid, thread.late_at_most) = (Tid(tid), Some(tid as u64));
            series.subject.task = Some(thread.task.clone());
            (thread, series)
        })
        .unzip();
    let page = html::page(&run);
    let jobs = section(&page, "jobs");
    assert!(jobs.contains("8 more threads") && jobs.contains("The responses of 16 more threads"), "{jobs}");
    let (first, last) = (jobs.find("<b>app/20</b>").unwrap(), jobs.find("<b>app/1</b>").unwrap());
    assert!(first < last, "those that were late most often come first");
}
