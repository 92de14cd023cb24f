// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound store`: the Runs of many machines in one place.

use std::fmt::Write;
use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Result, bail};
use latebound_fleet::{
    AddDocument, AddOutcome, Choice, CompactOptions, Damage, FleetError, ListDocument, NewRuns,
    SimulateDocument, SimulatedFleet, Store, Table, at_once,
};
use latebound_model::Nanos;
use latebound_report::{html, printable, terminal};
use latebound_store::RunFolder;

use crate::cli::{
    StoreAddArgs, StoreArgs, StoreChoice, StoreCommand, StoreCompactArgs, StoreExportArgs, StoreFilesArgs,
    StoreListArgs, StoreMigrateArgs, StorePruneArgs, StoreSimulateArgs, StoreVerifyArgs,
};
use crate::outcome::Outcome;
use crate::output::Output;
use crate::session::Progress;

pub(crate) fn run(args: &StoreArgs, output: &Output) -> Result<Outcome> {
    keep_private();
    match &args.command {
        StoreCommand::Add(args) => add(args, output),
        StoreCommand::List(args) => list(args, output),
        StoreCommand::Files(args) => files(args, output),
        StoreCommand::Verify(args) => verify(args, output),
        StoreCommand::Compact(args) => compact(args, output),
        StoreCommand::Prune(args) => prune(args, output),
        StoreCommand::Migrate(args) => migrate(args, output),
        StoreCommand::Simulate(args) => simulate(args, output),
        StoreCommand::Export(args) => export(args, output),
    }
}

/// As a Run, a store is for its owner and its group: it tells names of threads and settings of the machines.
fn keep_private() {
    // SAFETY: umask changes a number of this process, and no other thread runs yet.
    unsafe {
        let usual = libc::umask(0o077);
        libc::umask(usual | 0o007);
    }
}

/// The name of standard input.
const STANDARD_INPUT: &str = "-";

fn choice(args: &StoreChoice) -> Choice {
    Choice { from: args.from, to: args.to, hosts: args.host.clone() }
}

fn add(args: &StoreAddArgs, output: &Output) -> Result<Outcome> {
    let host = args.host.as_deref();
    // All are read before anything is written.
    let runs = match &args.runs[..] {
        [only] if only.as_os_str() == STANDARD_INPUT => NewRuns::from_stream(io::stdin().lock(), host)?,
        paths => {
            let mut runs = NewRuns::new();
            for path in paths {
                if path.as_os_str() == STANDARD_INPUT {
                    bail!("- is standard input, which cannot be read beside other Runs; name it alone");
                }
                runs.push(&latebound_store::read_run(path)?, &source(path), host)?;
            }
            runs
        }
    };
    let document = Store::open_or_create(&args.place.store)?.add(runs.by_hour(args.by_hour))?;
    match output.is_json() {
        true => output.document(&document)?,
        false => output.text(&added(&document))?,
    }
    Ok(Outcome::Done)
}

/// What a Run is called: its folder, without what lies above.
fn source(path: &Path) -> String {
    let is_run = path.file_name().is_some_and(|name| name == latebound_store::RUN_FILE);
    let folder = if is_run && !path.is_dir() { path.parent().unwrap_or(path) } else { path };
    let named = folder.file_name().map(|name| name.to_string_lossy().into_owned());
    named.unwrap_or_else(|| folder.display().to_string())
}

fn added(document: &AddDocument) -> String {
    let count = |outcome| document.runs.iter().filter(|run| run.outcome == outcome).count();
    let mut text = format!("{} added to {}", counted(count(AddOutcome::Added), "Run"), document.store);
    for (outcome, said) in
        [(AddOutcome::Replaced, "replaced by a later state"), (AddOutcome::Present, "there before")]
    {
        if count(outcome) > 0 {
            let _ = write!(text, "; {} {said}", counted(count(outcome), "Run"));
        }
    }
    text + "\n"
}

/// `1 Run`, `2 Runs`
fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn list(args: &StoreListArgs, output: &Output) -> Result<Outcome> {
    let document = Store::open(&args.place.store)?.contents(&choice(&args.choice))?;
    match output.is_json() {
        true => output.document(&document)?,
        false => output.text(&listed(&document))?,
    }
    told(&document.damaged, output)
}

fn listed(document: &ListDocument) -> String {
    let rows = document.partitions.iter().map(|partition| {
        let level = partition.level.name().to_owned();
        let numbers = [partition.intervals, partition.files, partition.rows, partition.bytes];
        let mut row = vec![partition.day.clone(), printable(&partition.host).into_owned(), level];
        row.extend(numbers.map(|number| number.to_string()));
        row
    });
    let heads = ["day", "host", "level", "Runs", "files", "rows", "bytes"].map(str::to_owned).to_vec();
    let rows: Vec<Vec<String>> = std::iter::once(heads).chain(rows).collect();
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..7).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cell = |(at, cell): (usize, &String)| match at {
            0..3 => format!("{cell:<width$}", width = widths[at]),
            _ => format!("{cell:>width$}", width = widths[at]),
        };
        let cells: Vec<String> = row.iter().enumerate().map(cell).collect();
        let _ = writeln!(text, "{}", cells.join("  ").trim_end());
    }
    text
}

fn files(args: &StoreFilesArgs, output: &Output) -> Result<Outcome> {
    let tables = if args.table.is_empty() { Table::ALL } else { &args.table };
    let document = Store::open(&args.place.store)?.files(tables, &choice(&args.choice))?;
    match output.is_json() {
        true => output.document(&document)?,
        false => {
            let paths: Vec<&str> = document.tables.values().flatten().map(String::as_str).collect();
            if !paths.is_empty() {
                output.text(&(paths.join("\n") + "\n"))?;
            }
        }
    }
    told(&document.damaged, output)
}

fn verify(args: &StoreVerifyArgs, output: &Output) -> Result<Outcome> {
    let document = Store::open(&args.place.store)?.verify()?;
    match output.is_json() {
        true => output.document(&document)?,
        false => output.text(&format!(
            "{} in {}, which are whole: {} rows, {} bytes\n",
            counted(document.intervals as usize, "Run"),
            counted(document.files as usize, "file"),
            document.rows,
            document.bytes
        ))?,
    }
    told(&document.damaged, output)
}

fn compact(args: &StoreCompactArgs, output: &Output) -> Result<Outcome> {
    let document = Store::open(&args.place.store)?.compact(CompactOptions::to(args.to.into()))?;
    match output.is_json() {
        true => output.document(&document)?,
        false => {
            let sum =
                |of: fn(&latebound_fleet::Compacted) -> u64| document.partitions.iter().map(of).sum::<u64>();
            output.text(&format!(
                "{} rolled up: {} ({} bytes) became {} ({} bytes); {} that nobody needs removed ({} bytes)\n",
                counted(document.partitions.len(), "partition"),
                counted(sum(|one| one.files_before) as usize, "file"),
                sum(|one| one.bytes_before),
                sum(|one| one.files_after),
                sum(|one| one.bytes_after),
                counted(document.removed_files as usize, "file"),
                document.removed_bytes
            ))?;
        }
    }
    told(&document.damaged, output)
}

fn export(args: &StoreExportArgs, output: &Output) -> Result<Outcome> {
    let choice = Choice { from: args.from, to: args.to, hosts: Vec::new() };
    let export = Store::open(&args.place.store)?.export_host(&args.host, &choice)?;
    if let Some(folder) = &args.output {
        RunFolder::create(folder, args.force)?.finish_with(&export.run, |run| Some(html::page(run)))?;
    }
    match (output.is_json(), &args.output) {
        (true, _) => output.json(&export.run)?,
        (false, Some(folder)) => output.text(&format!("{} written\n", folder.display()))?,
        (false, None) => output.text(&terminal::check_summary(&export.run, None, &output.style()))?,
    }
    told(&export.damaged, output)
}

fn prune(args: &StorePruneArgs, output: &Output) -> Result<Outcome> {
    let document = Store::open(&args.place.store)?.prune(args.before)?;
    match output.is_json() {
        true => output.document(&document)?,
        false => output.text(&format!(
            "{} removed: {}, {} bytes\n",
            counted(document.partitions.len(), "partition"),
            counted(document.partitions.iter().map(|one| one.files_before as usize).sum(), "file"),
            document.partitions.iter().map(|one| one.bytes_before).sum::<u64>()
        ))?,
    }
    Ok(Outcome::Done)
}

fn migrate(args: &StoreMigrateArgs, output: &Output) -> Result<Outcome> {
    let document = Store::open(&args.place.store)?.migrate()?;
    let files = document.partitions.iter().map(|one| one.files_before as usize).sum();
    match (output.is_json(), files) {
        (true, _) => output.document(&document)?,
        (false, 0) if document.damaged.is_empty() => output
            .text(&format!("nothing to do: all files have version {} of the tables\n", document.tables))?,
        (false, _) => output.text(&format!(
            "{} in {} written again, with version {} of the tables\n",
            counted(files, "file"),
            counted(document.partitions.len(), "partition"),
            document.tables
        ))?,
    }
    told(&document.damaged, output)
}

/// Names what is damaged. That is an error, behind the results.
fn told(damaged: &[Damage], output: &Output) -> Result<Outcome> {
    for damage in damaged {
        output.note(&format!("damaged: {}: {}", damage.file.escape_debug(), damage.why));
    }
    match damaged {
        [] => Ok(Outcome::Done),
        _ => bail!(
            "{} of the store damaged, and what is in them is left out; bring them back from a backup, or prune their days and add the Runs again",
            counted(damaged.len(), "file")
        ),
    }
}

/// How many Runs of a host are made and added together: what is held in memory, once for each processor.
const SIMULATED_AT_ONCE: u32 = 60;

fn simulate(args: &StoreSimulateArgs, output: &Output) -> Result<Outcome> {
    const MINUTE: Nanos = Nanos(60_000_000_000);
    let (interval, duration) = (args.interval, args.duration);
    if interval.0 == 0 || !interval.0.is_multiple_of(MINUTE.0) {
        bail!("--interval {interval} is no number of whole minutes; type 1m, 10m or 1h");
    }
    if duration < interval || !duration.0.is_multiple_of(interval.0) {
        bail!("--duration {duration} does not hold a whole number of intervals of {interval}");
    }
    let intervals = u32::try_from(duration.0 / interval.0)?;
    let fleet = SimulatedFleet {
        cpus: args.cpus,
        day: args.day,
        interval_us: i64::try_from(interval.0 / 1000)?,
        intervals,
        wakeups_per_second: args.wakeups,
        seed: args.seed,
    };
    let store = Store::open_or_create(&args.place.store)?;
    let (progress, made) = (Mutex::new(Progress::new(None)), AtomicU32::new(0));
    let hosts: Vec<u32> = (0..args.hosts).collect();
    let added = at_once(&hosts, |&number| {
        let (host, mut added) = (fleet.host(number), 0);
        for first in (0..intervals).step_by(SIMULATED_AT_ONCE as usize) {
            // A line that another thread is at can be left out.
            if let Ok(mut progress) = progress.try_lock() {
                progress.show(|| format!("{} of {} hosts made", made.load(Ordering::Relaxed), args.hosts));
            }
            let mut runs = NewRuns::new();
            for interval in first..(first + SIMULATED_AT_ONCE).min(intervals) {
                runs.push(&host.run(interval), "simulated", None)?;
            }
            let document = store.add(runs.by_hour(args.by_hour))?;
            added += document.runs.iter().filter(|run| run.outcome == AddOutcome::Added).count() as u64;
        }
        made.fetch_add(1, Ordering::Relaxed);
        Ok::<u64, FleetError>(added)
    });
    if let Ok(progress) = progress.into_inner() {
        progress.clear();
    }
    let added: u64 = added?.iter().sum();
    let document = SimulateDocument {
        schema: SimulateDocument::SCHEMA,
        store: store.location(),
        hosts: args.hosts,
        added,
    };
    match output.is_json() {
        true => output.document(&document)?,
        false => {
            output.text(&format!("{added} simulated Runs added to {}\n", printable(&document.store)))?;
        }
    }
    Ok(Outcome::Done)
}
