// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page in a real browser: it draws, it logs nothing, and the document that the browser made of it holds the
//! numbers of the Run. Set `LATEBOUND_SCREENSHOTS` to a folder to keep the pictures.
#![allow(clippy::unwrap_used, reason = "a test may panic; Clippy knows only functions marked as tests")]

mod support;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use latebound_model::{Mechanism, Quantity, Run};

/// The browser by any of its names; its absence is a failure, because a page that nobody opened is not tested.
fn browser() -> PathBuf {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|candidate| candidate.is_file())
        .expect("chromium is not installed; on Debian type: apt-get install chromium")
}

struct Page {
    folder: tempfile::TempDir,
    file: PathBuf,
}

impl Page {
    fn of(run: &Run) -> Page {
        Page::holding(&latebound_report::html::page(run))
    }

    fn holding(text: &str) -> Page {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("report.html");
        std::fs::write(&file, text).unwrap();
        Page { folder, file }
    }

    fn open(&self, arguments: &[&str]) -> Output {
        let profile = tempfile::tempdir_in(self.folder.path()).unwrap();
        let output = Command::new("timeout")
            .args(["--kill-after=5", "90"])
            .arg(browser())
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
                "--enable-logging=stderr",
                "--v=0",
                "--virtual-time-budget=2000",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .args(arguments)
            .arg(format!("file://{}", self.file.display()))
            .output()
            .expect("the browser starts");
        assert!(
            output.status.success(),
            "the browser ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        output
    }

    /// The document as the browser understood it, and what the page made the browser log. The browser's own lines (no
    /// D-Bus, no GPU) are not marked CONSOLE.
    fn dom_and_console(&self) -> (String, Vec<String>) {
        let output = self.open(&["--dump-dom"]);
        let log = String::from_utf8_lossy(&output.stderr);
        let console = log.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect();
        (String::from_utf8(output.stdout).expect("the document is UTF-8"), console)
    }

    /// The document, of a page that logs nothing.
    fn dom(&self) -> String {
        let (dom, console) = self.dom_and_console();
        assert!(console.is_empty(), "the page made the browser log: {console:?}");
        dom
    }

    /// How many bytes the page takes in print.
    fn printed(&self) -> u64 {
        let pdf = self.folder.path().join("report.pdf");
        self.open(&[&format!("--print-to-pdf={}", pdf.display()), "--no-pdf-header-footer"]);
        let bytes = std::fs::read(&pdf).unwrap();
        assert!(bytes.starts_with(b"%PDF-"));
        bytes.len() as u64
    }

    fn screenshot(&self, name: &str, width: u32, height: u32, dark: bool) {
        let file = match std::env::var_os("LATEBOUND_SCREENSHOTS") {
            Some(folder) => Path::new(&folder).join(format!("{name}.png")),
            None => self.folder.path().join(format!("{name}.png")),
        };
        let scheme = if dark {
            "--blink-settings=preferredColorScheme=0"
        } else {
            "--blink-settings=preferredColorScheme=1"
        };
        self.open(&[
            scheme,
            &format!("--window-size={width},{height}"),
            &format!("--screenshot={}", file.display()),
        ]);
        let (found, colours, background) = picture(&file);
        assert_eq!(found, (width, height), "{name}");
        assert!(colours > 40, "{name} shows only {colours} colours");
        let bright = background.iter().take(3).all(|&part| part > 200);
        assert_eq!(bright, !dark, "{name}: the background is {background:?}");
    }
}

/// The size, the number of distinct colours, and the colour of the first pixel.
fn picture(file: &Path) -> ((u32, u32), usize, Vec<u8>) {
    let reader = std::io::BufReader::new(std::fs::File::open(file).unwrap());
    let mut reader = png::Decoder::new(reader).read_info().expect("a PNG file");
    let mut pixels = vec![0; reader.output_buffer_size().expect("a size that fits")];
    let info = reader.next_frame(&mut pixels).expect("a whole picture");
    let pixel = info.line_size / info.width as usize;
    let colours: HashSet<&[u8]> = pixels.chunks_exact(pixel).collect();
    ((info.width, info.height), colours.len(), pixels[..pixel].to_vec())
}

/// The text of a document without its tags and titles, with thin spaces taken out of numbers and micro signs plain.
fn plain(text: &str) -> String {
    text.replace('\u{202f}', " ").replace("µs", "us").replace("&nbsp;", " ")
}

fn holds(dom: &str, wanted: &str) {
    assert!(dom.contains(wanted), "the document does not hold {wanted:?}");
}

fn nanoseconds(value: u64) -> String {
    format!("{} ns", latebound_report::grouped(value))
}

fn check_numbers(run: &Run, dom: &str) {
    let dom = plain(dom);
    for series in &run.series {
        let h = &series.histogram;
        if series.mechanism == Mechanism::TimerWakeup && series.quantity == Quantity::Latency {
            holds(&dom, &format!(">{}<", latebound_report::grouped(h.count())));
            for value in [h.max(), h.quantile(0.999), h.quantile(0.5), h.min()].into_iter().flatten() {
                holds(&dom, &nanoseconds(value.0));
                holds(&dom, &format!(">{value}<"));
            }
        } else if series.quantity != Quantity::LatencyNaive {
            holds(&dom, &format!(">{}<", latebound_report::grouped(h.count())));
            holds(&dom, &nanoseconds(h.max().unwrap().0));
        }
    }
    for explanation in &run.worst {
        holds(&dom, &format!(">{}<", explanation.length()));
        holds(&dom, &nanoseconds(explanation.length().0));
        for cause in &explanation.causes {
            holds(&dom, cause.kind.name());
            holds(&dom, &nanoseconds(cause.duration.0));
        }
    }
}

#[test]
fn a_rich_run_draws_and_holds_its_numbers_in_a_real_browser() {
    let run = support::rich();
    let page = Page::of(&run);
    let dom = page.dom();
    check_numbers(&run, &dom);
    let dom = plain(&dom);
    for finding in &run.findings {
        holds(&dom, &finding.title);
        holds(&dom, &finding.value);
        if let Some(remedy) = &finding.remedy {
            holds(&dom, &remedy.replace('>', "&gt;"));
        }
    }
    for symbol in
        ["unix_stream_sendmsg+0x2f4", "events overwritten before they were read", "1 184 902", "tasklets"]
    {
        holds(&dom, symbol);
    }
    page.screenshot("rich-wide", 1400, 5200, false);
    page.screenshot("rich-wide-dark", 1400, 5200, true);
    page.screenshot("rich-phone", 480, 9000, false);
    page.screenshot("rich-phone-dark", 480, 9000, true);
}

#[test]
fn jobs_draw_their_chains_and_hold_their_numbers_in_a_real_browser() {
    let run = support::jobs();
    let page = Page::of(&run);
    check_numbers(&run, &page.dom());
    page.screenshot("jobs-wide", 1400, 3600, false);
    page.screenshot("jobs-wide-dark", 1400, 3600, true);
    page.screenshot("jobs-phone", 480, 5200, false);

    let followed = support::followed();
    let page = Page::of(&followed);
    check_numbers(&followed, &page.dom());
    page.screenshot("followed-wide", 1400, 2200, false);
    page.screenshot("followed-wide-dark", 1400, 2200, true);
    page.screenshot("followed-phone", 480, 3600, false);
}

#[test]
fn an_empty_run_says_in_a_real_browser_that_nothing_was_measured() {
    let page = Page::of(&support::empty());
    let dom = page.dom();
    holds(&dom, "No wake-up was measured in this Run.");
    holds(&dom, "Not ended: still running, or killed without a word.");
    page.screenshot("empty-wide", 1400, 1400, false);
}

#[test]
fn a_hostile_run_stays_text_in_a_real_browser() {
    let run = support::hostile();
    let page = Page::of(&run);
    let dom = page.dom();
    check_numbers(&run, &dom);
    // What the browser made of the page: no element came out of a name, and none was closed by one.
    assert!(!dom.contains("<script"), "a name became a script");
    assert_eq!(dom.matches("<style").count(), 1);
    assert!(!dom.contains("onload=\""), "a name became an attribute");
    holds(&dom, "&lt;script&gt;alert(1");
    holds(&dom, "Emulated machine (qemu&lt;tcg&gt;, instructions\\x1b]0;x clock)");
    holds(&dom, "лётчик\\u{202e}x");
    holds(&dom, "this explanation is not to be trusted");
    page.screenshot("hostile-wide", 1400, 6000, false);
    page.screenshot("hostile-phone", 480, 6000, true);
}

#[test]
fn a_run_with_a_bound_draws_and_holds_its_numbers_in_a_real_browser() {
    let run = support::bounded();
    let page = Page::of(&run);
    let dom = plain(&page.dom());
    for cpu in &run.bound.as_ref().unwrap().cpus {
        for (_, view) in cpu.views.iter() {
            if let Some(latency) = view.latency {
                holds(&dom, &nanoseconds(latency.0));
            }
        }
        holds(&dom, &nanoseconds(cpu.measured.as_ref().unwrap().latency.0));
        for of in &cpu.interrupts {
            holds(&dom, &format!(">{}<", latebound_report::grouped(of.count)));
        }
    }
    for text in ["does not converge: interrupts would take 1213 % of the CPU", "preempt_schedule_thunk+0x1a"]
    {
        holds(&dom, text);
    }
    page.screenshot("bound-wide", 1400, 2900, false);
    page.screenshot("bound-dark", 1400, 2900, true);
    page.screenshot("bound-phone", 480, 4600, false);
    let hostile = Page::of(&support::hostile_bound());
    let dom = hostile.dom();
    assert!(
        !dom.contains("<script") && !dom.contains("onload=\""),
        "a name became an element or an attribute"
    );
    hostile.screenshot("bound-hostile", 1400, 6000, false);
}

#[test]
fn a_comparison_draws_and_holds_its_numbers_in_a_real_browser() {
    let comparison: latebound_compare::Comparison =
        serde_json::from_str(include_str!("compare.json")).unwrap();
    let of = |name: &str, from: u64| {
        let mut histogram = latebound_model::Histogram::new();
        (0..1000).for_each(|at| histogram.record(latebound_model::Nanos(from + at * at)));
        (name.to_owned(), histogram)
    };
    let drawn = latebound_report::html::Distributions {
        of: comparison.against[0].measures[0].of.clone(),
        sides: vec![of("base", 30_000), of("new", 25_000)],
    };
    let page = Page::holding(&latebound_report::html::compare_page(&comparison, &[drawn]));
    let dom = plain(&page.dom());
    for measure in &comparison.against[0].measures {
        holds(&dom, &latebound_model::Nanos(measure.base.median as u64).to_string());
    }
    // What differs comes before the differences, and what is unlike before everything.
    let places: Vec<usize> =
        ["the loads differ", "id=\"settings\"", "id=\"differences\"", "id=\"distributions\""]
            .iter()
            .map(|wanted| dom.find(wanted).unwrap_or_else(|| panic!("{wanted} is not there")))
            .collect();
    assert!(places.is_sorted(), "{places:?}");
    page.screenshot("compare-wide", 1400, 2400, false);
    page.screenshot("compare-phone-dark", 480, 3600, true);
}

#[test]
fn print_shows_what_the_screen_folds_away() {
    let text = latebound_report::html::page(&support::rich());
    let is_rule = |line: &&str| line.trim_start().starts_with("details::details-content");
    let rule = text.lines().find(is_rule).expect("a rule for print");
    let folded = Page::holding(&text.replace(rule, ""));
    let (all, less) = (Page::holding(&text).printed(), folded.printed());
    assert!(all > less + 10_000, "{all} bytes with everything open, {less} without");
}

/// The other tests rest on this: a script that reached the page would be noticed, and would not run.
#[test]
fn a_script_in_the_page_is_refused_and_logged() {
    let page = latebound_report::html::page(&support::empty());
    let planted = page.replace("</main>", "<script>document.title = 'owned'</script></main>");
    let (dom, console) = Page::holding(&planted).dom_and_console();
    assert!(console.iter().any(|line| line.contains("Content Security Policy")), "{console:?}");
    assert!(!dom.contains("<title>owned"));
}
