// SPDX-License-Identifier: MIT OR Apache-2.0
//! Transactions of a real PostgreSQL, by its own pgbench: a cluster that is made for the load and gone with it, reached by a
//! socket in its folder, which is the load's alone ([`crate::place`]), and by a password besides. Server, pgbench and this process
//! run as one user that owns nothing else.
//!
//! pgbench logs every transaction with the time that it took, in microseconds; with a rate that counts from when the transaction
//! was due (PostgreSQL 15, src/bin/pgbench/pgbench.c, `processXactStats`). Its schedule with a rate is random with that mean
//! (`getPoissonRand`), as it documents.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use latebound_model::{Histogram, Nanos};
use latebound_syscall::process;

use crate::deadline::Deadline;
use crate::place::Place;
use crate::work::{Begun, Work};

/// How often the end of a child is looked for.
const POLL: std::time::Duration = std::time::Duration::from_millis(10);
/// How long PostgreSQL may take to stop, and pgbench to end its last transactions.
const STOPPING: Nanos = Nanos::from_secs(3);
/// The database's superuser, in a cluster that only we reach.
const USER: &str = "latebound";

/// Runs the load; a unit is one transaction.
pub(crate) fn run(
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
        stated => Some(format!(
            "pgbench logged {} transactions and reports {}; {}",
            latency.count(),
            stated.map_or("none".to_owned(), |done| done.to_string()),
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

/// A PostgreSQL server with a cluster of its own. Dropping it stops it; its folder goes after it.
struct Server {
    programs: PathBuf,
    child: Option<Child>,
    place: Place,
}

impl Server {
    fn start(folder: &Path, until: Deadline) -> Result<Server, String> {
        let refused = |error: String| {
            format!("no database could be made in {} ({error}); write pgbench:path=FOLDER", folder.display())
        };
        let place = Place::make(folder).map_err(refused)?;
        let programs = programs().ok_or(
            "no PostgreSQL was found: neither initdb in PATH nor /usr/lib/postgresql/VERSION/bin/initdb; install one with: \
             apt install postgresql",
        )?;
        let mut server = Server { programs, child: None, place };
        let password = password().map_err(|error| format!("no password could be made ({error})"))?;
        server
            .secret("password", &password)
            .and_then(|()| server.secret(PASSFILE, &format!("*:*:*:{USER}:{password}")))
            .map_err(|error| refused(error.to_string()))?;
        let data = server.at("data");
        let mut make = server.command("initdb");
        make.arg("-D").arg(&data).args(["-U", USER, "-E", "UTF8", "--locale=C"]);
        make.args(["-A", "scram-sha-256"]).arg("--pwfile").arg(server.at("password"));
        // What it writes need not outlive a power failure; what the transactions write does, as on any server.
        make.args(["--no-sync", "--no-instructions"]);
        server.output(make, "initdb")?;
        let mut serve = server.command("postgres");
        serve.arg("-D").arg(&data).arg("-k").arg(server.place.path());
        serve.args(["-c", "listen_addresses=", "-c", "unix_socket_permissions=0700"]);
        let log = fs::File::create(server.at("log")).map_err(|error| format!("no log: {error}"))?;
        serve.stdout(Stdio::null()).stderr(log);
        process::lead_group_and_die_with_parent(&mut serve);
        server.child =
            Some(serve.spawn().map_err(|error| format!("postgres could not be started ({error})"))?);
        while !server.is_ready() {
            let ended = server.child.as_mut().is_none_or(|child| !matches!(child.try_wait(), Ok(None)));
            if ended || until.over() {
                let said = fs::read_to_string(server.at("log")).unwrap_or_default();
                let how = if ended { "ended" } else { "was not ready in time" };
                return Err(format!("postgres {how}: {}", last_line(&said)));
            }
            std::thread::sleep(POLL);
        }
        Ok(server)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Writes a file that only the load's user can read.
    fn secret(&self, name: &str, text: &str) -> std::io::Result<()> {
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true).mode(0o600).open(self.at(name))?.write_all(text.as_bytes())
    }

    /// A program of this PostgreSQL.
    fn command(&self, program: &str) -> Command {
        let place = self.place.path();
        let mut command = Command::new(self.programs.join(program));
        command.current_dir(place).stdin(Stdio::null()).env_clear();
        command.env("PATH", &self.programs).env("LC_ALL", "C").env("PGHOST", place);
        command.env("PGUSER", USER).env("PGDATABASE", "postgres").env("HOME", place);
        command.env("PGPASSFILE", self.at(PASSFILE));
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
        bench.arg("-l").arg(format!("--log-prefix={}", self.at(LOG).display()));
        if let Some(rate) = rate {
            bench.args(["-R", &rate.to_string()]);
        }
        let report =
            |name: &str| fs::File::create(self.at(name)).map_err(|error| format!("no {name}: {error}"));
        bench.stdout(Stdio::piped()).stderr(report("errors")?);
        process::lead_group_and_die_with_parent(&mut bench);
        bench.spawn().map_err(|error| format!("pgbench could not be started ({error})"))
    }

    /// What every transaction took.
    fn logged(&self) -> Result<Histogram, String> {
        let failed = |error: std::io::Error| format!("the log of pgbench could not be read ({error})");
        let mut latency = Histogram::new();
        for entry in fs::read_dir(self.place.path()).map_err(failed)?.flatten() {
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
    }
}

/// A password that nobody can guess: 128 bits.
fn password() -> std::io::Result<String> {
    let mut random = [0; 16];
    fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The file that libpq takes the password from.
const PASSFILE: &str = "passfile";

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
