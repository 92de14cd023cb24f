// SPDX-License-Identifier: MIT OR Apache-2.0
//! The manuals lead nowhere that is not there, fit their place, and show what the program prints. CONTRIBUTING.md has the rules.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says why and panics")]

#[allow(dead_code, reason = "src/manuals_tests.rs uses the rest")]
mod markdown;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use markdown::{Page, Shown, pages, repository};

/// The largest guide page and README, in bytes.
const LARGEST: usize = 8192;

/// The places where the page and line of each problem stand.
#[track_caller]
fn none(problems: Vec<String>) {
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn every_relative_link_and_anchor_resolves() {
    let pages = pages();
    let mut problems = Vec::new();
    let mut count = 0;
    for page in &pages {
        for link in page.links() {
            count += 1;
            if let Err(why) = resolves(page, &link.to, &pages) {
                problems.push(format!("{}:{}: {}: {why}", page.path, link.line, link.to));
            }
        }
    }
    none(problems);
    assert!(count > 100, "the manuals have {count} links; are they still found?");
}

fn resolves(page: &Page, to: &str, pages: &[Page]) -> Result<(), String> {
    let (file, anchor) = to.split_once('#').map_or((to, None), |(file, anchor)| (file, Some(anchor)));
    let target = page.target(file)?;
    let (book, inside) = ("docs/src/", |path: &str| path.starts_with("docs/src/"));
    if inside(&page.path) && !inside(&target) {
        return Err(format!("leaves {book}, so that the book has no such page; name the file instead"));
    }
    if !repository().join(&target).exists() {
        return Err(format!("{target} is not there"));
    }
    let Some(anchor) = anchor else { return Ok(()) };
    let page = pages.iter().find(|page| page.path == target).ok_or("only pages have anchors")?;
    let anchors = page.anchors();
    if anchors.iter().any(|one| one == anchor) {
        return Ok(());
    }
    Err(format!("{target} has no heading #{anchor}; it has {}", anchors.join(", ")))
}

#[test]
fn the_table_of_contents_has_every_page_once() {
    let pages = pages();
    let summary = pages.iter().find(|page| page.path == "docs/src/SUMMARY.md").unwrap();
    let mut listed: Vec<String> =
        summary.links().iter().map(|link| summary.target(&link.to).unwrap()).collect();
    listed.sort();
    let there: Vec<&str> = pages
        .iter()
        .map(|page| page.path.as_str())
        .filter(|path| path.starts_with("docs/src/") && *path != summary.path)
        .collect();
    assert_eq!(listed, there);
}

#[test]
fn guide_pages_and_readme_are_short() {
    none(
        pages()
            .iter()
            .filter(|page| page.path == "README.md" || page.path.starts_with("docs/src/guide/"))
            .filter(|page| page.text.len() > LARGEST)
            .map(|page| {
                format!("{} has {} bytes, of {LARGEST}; move lists to reference/", page.path, page.text.len())
            })
            .collect(),
    );
}

#[test]
fn every_code_block_of_readme_and_guide_says_what_it_is() {
    let mut problems = Vec::new();
    for page in pages() {
        if page.path != "README.md" && !page.path.starts_with("docs/src/guide/") {
            continue;
        }
        for block in page.blocks() {
            let known = ["console", "sh", "yaml", "toml", "json", "python"];
            if !block.info.first().is_some_and(|first| known.contains(&first.as_str())) {
                problems.push(format!("{}:{}: none of {known:?}: {:?}", page.path, block.line, block.info));
            }
        }
    }
    none(problems);
}

#[test]
fn the_page_of_compatibility_names_the_version_of_the_tables() {
    let text = fs::read_to_string(repository().join("COMPATIBILITY.md")).unwrap();
    let version = latebound_fleet::TABLES_VERSION;
    for said in [format!("latebound writes version {version}"), format!("\n| {version} | ")] {
        assert!(text.contains(&said), "COMPATIBILITY.md lacks {said:?}");
    }
}

/// What can be late, and is never called the newest one.
const CAN_BE_LATE: &str = "activation activations begin begins host hosts response responses start starts thread threads trigger \
                           triggers wake-up wake-ups";

/// Whether "latest" stands for "most late" in the words: before what can be late, or behind what it is late with.
fn latest_stands_for_most_late(words: &[&str]) -> bool {
    let bare = |word: &&str| word.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_lowercase();
    let can_be_late = |word: &&str| CAN_BE_LATE.split(' ').any(|known| known == bare(word));
    words.iter().enumerate().filter(|(_, word)| bare(word) == "latest").any(|(at, latest)| {
        let after = &words[at + 1..];
        // "The latest of 30 hosts".
        let late = match after.first() {
            Some(&"of") => after.iter().take(4).any(can_be_late),
            Some(next) => can_be_late(next),
            None => false,
        };
        let ends = latest.ends_with(|c: char| !c.is_ascii_alphanumeric()) || after.first() == Some(&"and");
        let before = words[..at].iter().rev().find(|word| **word != "the").map(bare).unwrap_or_default();
        late || (ends || after.is_empty())
            && ["are", "begin", "begins", "start", "starts"].contains(&&*before)
    })
}

#[test]
fn latest_means_newest_and_what_is_most_late_is_called_so() {
    let words = |text: &'static str| text.split_whitespace().collect::<Vec<_>>();
    for (text, expected) in [
        ("Which hosts are the latest, and why?", true),
        ("the 100 latest hosts have one", true),
        ("Which work items start latest?", true),
        ("\"The latest of {} hosts is \"", true),
        ("not of the latest begin", true),
        ("| the latest end |", false),
        ("before the latest event", false),
        ("again at the latest; and", false),
        ("the latest kernel is 7.3", false),
        ("what is kept of a version is the latest.", false),
        ("the latest of three kernels", false),
        ("the hosts that are most late", false),
    ] {
        assert_eq!(latest_stands_for_most_late(&words(text)), expected, "{text}");
    }
    let mut texts: Vec<(String, String)> = pages().into_iter().map(|page| (page.path, page.text)).collect();
    let manuals = texts.len();
    let folders = ["crates/latebound-report/src", "crates/latebound-py/python/latebound"];
    sources(&folders.map(|folder| repository().join(folder)), &["rs", "sql", "py"], &mut |path, text| {
        texts.push((path.display().to_string(), text));
    });
    assert!(texts.len() > manuals + 50, "{} sources; are they still found?", texts.len() - manuals);
    let mut problems = Vec::new();
    for (path, text) in &texts {
        // Two lines at once: a phrase may go over an end.
        let lines: Vec<&str> = text.lines().filter(|line| line.len() < 10_000).collect();
        let pairs = lines.windows(2).filter(|pair| {
            let both: Vec<&str> = pair.iter().flat_map(|line| line.split_whitespace()).collect();
            latest_stands_for_most_late(&both)
        });
        problems.extend(pairs.map(|pair| format!("{path}: write \"most late\": {}", pair.join("\n"))));
    }
    none(problems);
}

/// Gives each file with one of the extensions in the folders and below.
fn sources(folders: &[PathBuf], extensions: &[&str], found: &mut dyn FnMut(&Path, String)) {
    for folder in folders {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&[path], extensions, found);
            } else if path.extension().is_some_and(|one| extensions.iter().any(|known| one == *known)) {
                let text = fs::read_to_string(&path).unwrap();
                found(&path, text);
            }
        }
    }
}

/// The names of a source's tests.
fn tests_of(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim_start) {
        let name = |rest: &str| rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        if let Some(rest) = line.strip_prefix("def ") {
            if rest.starts_with("test_") {
                names.push(&rest[..name(rest)]);
            }
        } else if line.starts_with("#[test]") {
            is_test = true;
        } else if let Some(rest) = line.strip_prefix("fn ") {
            if is_test {
                names.push(&rest[..name(rest)]);
            }
            is_test = false;
        }
    }
    names
}

#[test]
fn the_names_of_tests_stay_below_70_characters() {
    assert_eq!(tests_of("#[test]\n#[ignore]\nfn a() {\n  def test_b(c):\nfn d() {"), ["a", "test_b"]);
    let mut problems = Vec::new();
    let mut count = 0;
    let folders = ["crates", "fuzz/src", "fuzz/targets", "scripts"].map(|folder| repository().join(folder));
    sources(&folders, &["rs", "py"], &mut |path, text| {
        for name in tests_of(&text) {
            count += 1;
            if name.len() >= 70 {
                problems.push(format!("{}: {} characters: {name}", path.display(), name.len()));
            }
        }
    });
    none(problems);
    assert!(count > 1000, "{count} tests; are they still found?");
}

#[test]
fn the_glossary_has_each_word_once_in_order() {
    let pages = pages();
    // The page that help and reports name.
    let glossary = pages.iter().find(|page| page.path == latebound_report::GLOSSARY).unwrap();
    let words: Vec<String> =
        glossary.text.lines().filter_map(|line| line.strip_prefix("## ")).map(str::to_lowercase).collect();
    assert!(words.len() > 50, "{words:?}");
    assert!(words.is_sorted_by(|one, next| one < next), "{words:?}");
}

/// Whether the line is what was printed; `…` in a shown line stands for anything.
fn is_line(shown: &str, printed: &str) -> bool {
    let mut parts = shown.trim_end().split('…');
    let Some(mut rest) = printed.trim_end().strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    true
}

/// Whether the lines are what was printed; a line of `…` alone stands for any number of lines.
fn is_output(shown: &[String], printed: &[&str]) -> bool {
    match (shown.split_first(), printed.split_first()) {
        (None, None) => true,
        (Some((first, rest)), _) if first.trim() == "…" => {
            (0..=printed.len()).any(|skipped| is_output(rest, &printed[skipped..]))
        }
        (Some((first, rest)), Some((line, printed))) => is_line(first, line) && is_output(rest, printed),
        _ => false,
    }
}

#[test]
fn an_ellipsis_stands_for_anything_and_nothing_else_does() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    for (shown, printed, expected) in [
        ("a\nb", "a\nb", true),
        ("a\nb", "a\nc", false),
        ("a", "a\nb", false),
        ("a\nb", "a", false),
        ("a … c", "a b c", true),
        ("a … c", "a b d", false),
        ("…c", "abc", true),
        ("a\n…\nd", "a\nb\nc\nd", true),
        ("a\n…\nd", "a\nd", true),
        ("a\n…", "a", true),
        ("a\n…\nd", "a\nb\nc", false),
    ] {
        let printed: Vec<&str> = printed.lines().collect();
        assert_eq!(is_output(&lines(shown), &printed), expected, "{shown:?} {printed:?}");
    }
}

/// Runs one command as a shell does, with the repository's folders below the current one, and returns both streams.
fn run(folder: &Path, command: &str) -> String {
    let path = format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").unwrap());
    let output = Command::new("bash")
        .args(["-c", &format!("exec 2>&1; {command}")])
        .current_dir(folder)
        .env("PATH", path)
        .env("COLUMNS", "100")
        .env_remove("NO_COLOR")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn commands_without_a_kernel_print_what_is_shown() {
    let mut problems = Vec::new();
    let mut count = 0;
    for page in pages() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["crates", "docs", "schema"] {
            symlink(repository().join(name), folder.path().join(name)).unwrap();
        }
        fs::create_dir(folder.path().join("bin")).unwrap();
        symlink(env!("CARGO_BIN_EXE_latebound"), folder.path().join("bin/latebound")).unwrap();
        for block in page.blocks() {
            if !block.is("console") || block.is("kernel") {
                continue;
            }
            for Shown { line, command, output } in block.shown() {
                count += 1;
                let printed = run(folder.path(), &command);
                let mut lines: Vec<&str> = printed.lines().collect();
                let mut shown = output.clone();
                // Blank lines at the ends are for the eye.
                while lines.last().is_some_and(|line| line.is_empty()) {
                    lines.pop();
                }
                while shown.last().is_some_and(String::is_empty) {
                    shown.pop();
                }
                if !is_output(&shown, &lines) {
                    problems.push(format!("{}:{line}: $ {command}\nprints\n{printed}", page.path));
                }
            }
        }
    }
    none(problems);
    assert!(count >= 8, "the manuals run {count} commands; are they still found?");
}

/// The headings of an output: lines of a table's column names, and words before a colon at the margin. Numbers differ from run to run; these
/// do not.
fn headings(output: &[String]) -> BTreeSet<String> {
    let mut headings = BTreeSet::new();
    for line in output {
        let cells: Vec<&str> = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        let plain = |cell: &&str| {
            let name = cell.trim_start_matches(|c| "p.0123456789".contains(c));
            (name.is_empty() && cell.starts_with('p'))
                || !cell.contains(|c: char| c.is_ascii_digit() || c == '…')
        };
        if cells.len() >= 4 && cells.iter().all(plain) {
            headings.extend(cells.iter().map(|cell| (*cell).to_owned()));
        }
        if let Some((label, _)) = line.split_once(": ") {
            let short = label.split(' ').count() <= 2 && !label.starts_with(' ');
            if short && label.chars().all(|c| c.is_ascii_alphabetic() || c == ' ') {
                headings.insert(format!("{label}:"));
            }
        }
    }
    headings
}

#[test]
fn outputs_of_a_kernel_have_the_headings_that_are_printed() {
    let mut problems = Vec::new();
    let mut count = 0;
    for page in pages() {
        for block in page.blocks() {
            if !block.is("kernel") {
                continue;
            }
            let shown = block.shown();
            if shown.iter().all(|shown| shown.output.iter().all(String::is_empty)) {
                continue;
            }
            let place = format!("{}:{}", page.path, block.line);
            let Some(like) = block.value("like") else {
                problems
                    .push(format!("{place}: shows an output; name a file that has its headings: like=FILE"));
                continue;
            };
            let Ok(known) = fs::read_to_string(repository().join(like)) else {
                problems.push(format!("{place}: {like} is not there"));
                continue;
            };
            for heading in shown.iter().flat_map(|shown| headings(&shown.output)) {
                count += 1;
                if !known.contains(heading.trim_end_matches(':')) {
                    problems.push(format!("{place}: {like} has no \"{heading}\""));
                }
            }
        }
    }
    none(problems);
    assert!(count > 20, "the outputs shown have {count} headings; are they still found?");
}

/// The crates that a table of a Cargo.toml names, without the project's prefix.
fn built_on(manifest: &str, table: &str) -> BTreeSet<String> {
    let lines = manifest.lines().skip_while(|line| line.trim() != table).skip(1);
    let names = lines
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.strip_prefix("latebound-")?.split(['.', ' ', '=']).next().map(str::to_owned));
    names.collect()
}

#[test]
fn the_architecture_names_every_crate_and_what_it_is_built_on() {
    let text = fs::read_to_string(repository().join("ARCHITECTURE.md")).unwrap();
    let picture = text.split("```mermaid").nth(1).unwrap().split("```").next().unwrap();
    let table = text.split("| crate | depends on |").nth(1).unwrap().split("\n\n").next().unwrap();
    let mut problems = Vec::new();
    let mut crates = 0;
    for entry in fs::read_dir(repository().join("crates")).unwrap() {
        let folder = entry.unwrap();
        let name = folder.file_name().into_string().unwrap();
        crates += 1;
        if !picture.contains(&format!("[\"{name}<br>")) {
            problems.push(format!("{name} is not in the picture"));
        }
        if !text.contains(&format!("\n| `{name}` | ")) {
            problems.push(format!("{name} is not in the table of crates"));
        }
        let Some(row) = table.lines().find(|row| {
            let first = row.trim_start_matches('|').split('|').next().unwrap_or_default();
            first.split(',').any(|one| one.trim() == format!("`{name}`"))
        }) else {
            problems.push(format!("{name} is not in the table of what crates depend on"));
            continue;
        };
        let said: BTreeSet<String> = row
            .split('|')
            .nth(2)
            .unwrap()
            .split('`')
            .skip(1)
            .step_by(2)
            .map(|one| one.trim_start_matches("latebound-").to_owned())
            .collect();
        let manifest = fs::read_to_string(folder.path().join("Cargo.toml")).unwrap();
        let mut is: BTreeSet<String> = built_on(&manifest, "[dependencies]");
        is.extend(built_on(&manifest, "[build-dependencies]"));
        is.extend(built_on(&manifest, "[dev-dependencies]"));
        if said != is {
            problems.push(format!("{name} is built on {is:?}, and the table says {said:?}"));
        }
    }
    none(problems);
    assert!(crates > 15, "{crates} crates; are they still found?");
}
