// SPDX-License-Identifier: MIT OR Apache-2.0
//! Transactions of a real PostgreSQL, by its own pgbench: a cluster that is made for the load and gone with it, reached by a
//! socket in its folder and by nobody else.
//!
//! pgbench logs every transaction with the time that it took, in microseconds; with a rate that counts from when the transaction
//! was due (PostgreSQL 15, src/bin/pgbench/pgbench.c, `processXactStats`). Its schedule with a rate is random with that mean
//! (`getPoissonRand`), as it documents.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use latebound_model::{Histogram, Nanos};

use super::clock::Deadline;
use super::{Begun, Work};
use crate::sys::process;

/// How often the end of a child is looked for.
const POLL: std::time::Duration = std::time::Duration::from_millis(10);
/// How long PostgreSQL may take to stop, and pgbench to end its last transactions.
const STOPPING: Nanos = Nanos::from_secs(3);
/// The database's superuser, in a cluster that only we reach.
const USER: &str = "latebound";

/// Runs the load; a unit is one transaction.
pub(super) fn run(
    clients: u32,
    rate: Option<u64>,
    scale: u32,
    folder: &Path,
    until: Deadline,
    begun: Begun<'_>,
) -> Result<Work, String> {
    let server = Server::start(folder, until)?;
    server.fill(scale)?;
    let prepared = until.elapsed();
    let bench = server.bench(clients, rate)?;
    begun();
    let report = finish(bench, until)?;
    let served_for = until.elapsed().saturating_sub(prepared);
    let latency = server.logged()?;
    let error = match processed(&report) {
        Some(done) if done == latency.count() => None,
        told => Some(format!(
            "pgbench logged {} transactions and reports {}; {}",
            latency.count(),
            told.map_or("none".to_owned(), |done| done.to_string()),
            last_line(&report)
        )),
    };
    let offered = rate.map(|rate| (u128::from(rate) * u128::from(served_for.0) / 1_000_000_000) as u64);
    let done = latency.count();
    Ok(Work {
        done,
        offered,
        error,
        latency: Some(latency),
        took: Some(served_for),
        ..Work::of("transactions")
    })
}

/// A PostgreSQL server with a cluster of its own. Dropping it stops it and removes what it had.
struct Server {
    programs: PathBuf,
    place: PathBuf,
    owner: Option<(u32, u32)>,
    child: Option<Child>,
}

impl Server {
    fn start(folder: &Path, until: Deadline) -> Result<Server, String> {
        let programs = programs().ok_or(
            "no PostgreSQL was found: neither initdb in PATH nor /usr/lib/postgresql/VERSION/bin/initdb; install one with: \
             apt install postgresql",
        )?;
        let place = folder.join(format!("latebound-pgbench-{}", std::process::id()));
        fs::create_dir(&place).map_err(|error| {
            format!("no database could be made in {} ({error}); write pgbench:path=FOLDER", folder.display())
        })?;
        let mut server = Server { programs, place, owner: None, child: None };
        if process::is_root() {
            // PostgreSQL refuses to run as root.
            let owner = postgres_user();
            chown(&server.place, Some(owner.0), Some(owner.1))
                .map_err(|error| format!("{} could not be given away ({error})", server.place.display()))?;
            server.owner = Some(owner);
        }
        let data = server.place.join("data");
        let mut make = server.command("initdb");
        make.arg("-D").arg(&data).args(["-A", "trust", "-U", USER, "-E", "UTF8", "--locale=C"]);
        // What it writes need not outlive a power failure; what the transactions write does, as on any server.
        make.args(["--no-sync", "--no-instructions"]);
        server.output(make, "initdb")?;
        let mut serve = server.command("postgres");
        serve.arg("-D").arg(&data).arg("-k").arg(&server.place).args(["-c", "listen_addresses="]);
        let log = fs::File::create(server.place.join("log")).map_err(|error| format!("no log: {error}"))?;
        serve.stdout(Stdio::null()).stderr(log);
        process::lead_group_and_die_with_parent(&mut serve);
        server.child =
            Some(serve.spawn().map_err(|error| format!("postgres could not be started ({error})"))?);
        while !server.is_ready() {
            let ended = server.child.as_mut().is_none_or(|child| !matches!(child.try_wait(), Ok(None)));
            if ended || until.over() {
                let said = fs::read_to_string(server.place.join("log")).unwrap_or_default();
                let how = if ended { "ended" } else { "was not ready in time" };
                return Err(format!("postgres {how}: {}", last_line(&said)));
            }
            std::thread::sleep(POLL);
        }
        Ok(server)
    }

    /// A program of this PostgreSQL, as the user that runs it.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.current_dir(&self.place).stdin(Stdio::null()).env_clear();
        command.env("PATH", &self.programs).env("LC_ALL", "C").env("PGHOST", &self.place);
        command.env("PGUSER", USER).env("PGDATABASE", "postgres").env("HOME", &self.place);
        if let Some((user, group)) = self.owner {
            command.uid(user).gid(group);
        }
        command
    }

    /// Runs a command to its end; what it says where it fails.
    fn output(&self, mut command: Command, name: &str) -> Result<(), String> {
        let output = command.output().map_err(|error| format!("{name} could not be started ({error})"))?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!(
            "{name} ended with {}: {}",
            output.status,
            last_line(&String::from_utf8_lossy(&output.stderr))
        ))
    }

    fn is_ready(&self) -> bool {
        let status =
            self.command("pg_isready").arg("-q").stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    }

    fn fill(&self, scale: u32) -> Result<(), String> {
        let mut fill = self.command("pgbench");
        fill.args(["-i", "-q", "-s", &scale.to_string()]);
        self.output(fill, "pgbench -i")
    }

    fn bench(&self, clients: u32, rate: Option<u64>) -> Result<Child, String> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(clients as usize);
        let mut bench = self.command("pgbench");
        // Until it is told to end.
        bench.args(["-n", "-T", "100000000", "-c", &clients.to_string(), "-j", &threads.to_string()]);
        bench.arg("-l").arg(format!("--log-prefix={}", self.place.join(LOG).display()));
        if let Some(rate) = rate {
            bench.args(["-R", &rate.to_string()]);
        }
        let report = |name: &str| {
            fs::File::create(self.place.join(name)).map_err(|error| format!("no {name}: {error}"))
        };
        bench.stdout(Stdio::piped()).stderr(report("errors")?);
        process::lead_group_and_die_with_parent(&mut bench);
        bench.spawn().map_err(|error| format!("pgbench could not be started ({error})"))
    }

    /// What every transaction took.
    fn logged(&self) -> Result<Histogram, String> {
        let failed = |error: std::io::Error| format!("the log of pgbench could not be read ({error})");
        let mut latency = Histogram::new();
        for entry in fs::read_dir(&self.place).map_err(failed)?.flatten() {
            if !entry.file_name().to_string_lossy().starts_with(&format!("{LOG}.")) {
                continue;
            }
            for line in BufReader::new(fs::File::open(entry.path()).map_err(failed)?).lines() {
                let line = line.map_err(failed)?;
                latency.record(
                    took(&line).ok_or_else(|| format!("pgbench logged \"{line}\", which has no time"))?,
                );
            }
        }
        Ok(latency)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let leader = child.id() as i32;
            // Immediate shutdown (postgres(1)): nothing of it is needed again.
            let _ = process::signal(leader, libc::SIGQUIT);
            let patience = Deadline::after(STOPPING);
            while !patience.passed() && matches!(child.try_wait(), Ok(None)) {
                std::thread::sleep(POLL);
            }
            let _ = process::signal(-leader, libc::SIGKILL);
            let _ = child.wait();
        }
        // Nobody is left to tell.
        let _ = fs::remove_dir_all(&self.place);
    }
}

/// Prefix of the files that pgbench logs to, one for each of its threads.
const LOG: &str = "transactions";

/// Waits for the end of the load, ends pgbench, and gives what it reports.
fn finish(mut bench: Child, until: Deadline) -> Result<String, String> {
    let wait = |bench: &mut Child, until: &dyn Fn() -> bool| {
        while until() && matches!(bench.try_wait(), Ok(None)) {
            std::thread::sleep(POLL);
        }
    };
    wait(&mut bench, &|| !until.over());
    // Its own time's end, which lets it finish what it began, write its logs and report: it sets alarm(2) for that and ends
    // at the signal (PostgreSQL 15, src/bin/pgbench/pgbench.c, `setalarm`, `handle_sig_alarm`).
    let _ = process::signal(bench.id() as i32, libc::SIGALRM);
    let patience = Deadline::after(STOPPING);
    wait(&mut bench, &|| !patience.passed());
    let _ = bench.kill();
    let output =
        bench.wait_with_output().map_err(|error| format!("pgbench could not be waited for ({error})"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// `client transaction time script seconds microseconds …`: the time.
fn took(line: &str) -> Option<Nanos> {
    let micros: u64 = line.split(' ').nth(2)?.parse().ok()?;
    Some(Nanos(micros.checked_mul(1_000)?))
}

/// How many transactions the report names.
fn processed(report: &str) -> Option<u64> {
    let line =
        report.lines().find_map(|line| line.strip_prefix("number of transactions actually processed: "))?;
    // With a number of transactions instead of a time it goes on with "/of".
    line.split('/').next()?.trim().parse().ok()
}

fn last_line(text: &str) -> &str {
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing")
}

/// The folder of the programs: that of initdb in PATH, or the newest of Debian's.
fn programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let whole = |folder: &PathBuf| {
        ["initdb", "postgres", "pgbench", "pg_isready"].iter().all(|name| folder.join(name).is_file())
    };
    if let Some(found) = std::env::split_paths(&path).find(whole) {
        return Some(found);
    }
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let number = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().parse::<u32>().unwrap_or(0);
    let mut versions: Vec<(u32, PathBuf)> =
        versions.map(|entry| (number(&entry), entry.path().join("bin"))).collect();
    versions.sort();
    versions.into_iter().rev().map(|(_, folder)| folder).find(whole)
}

/// User and group of the distribution's PostgreSQL, else of nobody.
fn postgres_user() -> (u32, u32) {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let line = users.lines().find_map(|line| line.strip_prefix("postgres:")).unwrap_or_default();
    let mut ids = line.split(':').skip(1).map(|field| field.parse().ok());
    match (ids.next().flatten(), ids.next().flatten()) {
        (Some(user), Some(group)) => (user, group),
        _ => (65_534, 65_534),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logged_transaction_has_its_time_in_microseconds() {
        // pgbench 15.18, with and without a rate.
        assert_eq!(took("0 1 18494 0 1795311050 496260 108"), Some(Nanos(18_494_000)));
        assert_eq!(took("1 3 34779 0 1795311050 548287"), Some(Nanos(34_779_000)));
        assert_eq!(took("0 7 failed 0 1795311050 548287"), None);
        assert_eq!(took(""), None);
    }

    #[test]
    fn the_report_says_how_many_transactions_there_were() {
        let report = "duration: 1000000 s\nnumber of transactions actually processed: 521\nnumber of failed transactions: 0\n";
        assert_eq!(processed(report), Some(521));
        assert_eq!(processed("pgbench: error: connection failed\n"), None);
    }
}
