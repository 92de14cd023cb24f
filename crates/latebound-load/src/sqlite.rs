// SPDX-License-Identifier: MIT OR Apache-2.0
//! Transactions of a database: a bank in the manner of TPC-B (TPC Benchmark B, revision 2.0, section 1.2; pgbench runs the same
//! five statements), in SQLite, which is built in.
//!
//! Every client has a database of its own, so that they meet in the kernel and not in SQLite's lock, whose waiting is sleeping and
//! trying again. The file has a write-ahead log and every transaction is on the disk when it ends (`synchronous=FULL`). Files and logs
//! lose their names before the first transaction: they are gone with the process, however that ends. At the end the books must
//! balance.

use std::path::Path;
use std::sync::Barrier;
use std::thread::Builder;

use latebound_model::Histogram;
use latebound_syscall::clock;
use rusqlite::{Connection, OpenFlags, Statement};

use crate::deadline::Deadline;
use crate::pace::Pace;
use crate::place::Place;
use crate::work::{Begun, Work};

/// Accounts, tellers and kept history of a client's bank; one branch. Small enough to stay in memory: what is timed is the
/// transaction and its way to the disk.
const ACCOUNTS: u64 = 10_000;
const TELLERS: u64 = 10;
const HISTORY: u64 = 100_000;

/// How many transactions, how late each was done, and what failed.
type Served = (Histogram, Result<(), String>);

/// Runs the load; a unit is one transaction.
pub(crate) fn run(
    clients: u32,
    rate: Option<u64>,
    folder: &Path,
    until: Deadline,
    begun: Begun<'_>,
) -> Result<Work, String> {
    let refused = |error: String| {
        format!("no database could be made in {} ({error}); write sqlite:path=FOLDER", folder.display())
    };
    let place = Place::make(folder).map_err(refused)?;
    let banks = (0..clients)
        .map(|client| Bank::make(&place.path().join(format!("bank-{client}.db"))))
        .collect::<Result<Vec<Bank>, rusqlite::Error>>()
        .map_err(|error| refused(error.to_string()))?;
    // Open files without a name, as `io` has: SQLite goes on with what it has open. With `locking_mode=EXCLUSIVE` it opens
    // nothing by name again (https://www.sqlite.org/wal.html, section 8).
    drop(place);
    let prepared = until.elapsed();
    let start = until.start() + prepared;
    let together = Barrier::new(banks.len());
    let mut work = Work::of("transactions");
    let mut latency = Histogram::new();
    std::thread::scope(|scope| {
        let mut running = Vec::new();
        for (index, bank) in banks.into_iter().enumerate() {
            let pace =
                rate.map(|rate| Pace { start, index: index as u64, senders: u64::from(clients), rate });
            let together = &together;
            let thread = Builder::new().name("load-sqlite".to_owned());
            match thread.spawn_scoped(scope, move || {
                together.wait();
                bank.serve(pace, index as u64, until)
            }) {
                Ok(thread) => running.push(thread),
                Err(error) => {
                    // Those that wait for it would wait for ever: a thread of our own takes its place.
                    work.error =
                        Some(format!("client {index} could not be started ({error}); check: ulimit -u"));
                    scope.spawn(|| together.wait());
                }
            }
        }
        begun();
        for thread in running {
            match thread.join() {
                Ok((served, result)) => {
                    latency.merge(&served);
                    work.error = work.error.take().or(result.err());
                }
                Err(_) => work.error = Some("a client panicked".to_owned()),
            }
        }
    });
    let served_for = until.elapsed().saturating_sub(prepared);
    work.took = Some(served_for);
    work.done = latency.count();
    work.latency = Some(latency);
    work.offered = rate.map(|rate| (u128::from(rate) * u128::from(served_for.0) / 1_000_000_000) as u64);
    Ok(work)
}

/// One client's database.
struct Bank(Connection);

impl Bank {
    fn make(file: &Path) -> Result<Bank, rusqlite::Error> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(file, flags)?;
        // These two answer with what is in force.
        connection.query_row("PRAGMA locking_mode=EXCLUSIVE", [], |_| Ok(()))?;
        connection.query_row("PRAGMA journal_mode=WAL", [], |_| Ok(()))?;
        connection.execute_batch(
            "PRAGMA synchronous=FULL;
             BEGIN IMMEDIATE;
             CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL, filler TEXT NOT NULL);
             CREATE TABLE tellers (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL);
             CREATE TABLE branches (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL);
             CREATE TABLE history (id INTEGER PRIMARY KEY, teller INTEGER, account INTEGER, delta INTEGER, at INTEGER);
             INSERT INTO branches VALUES (0, 0);",
        )?;
        {
            let filler = " ".repeat(84);
            let mut account = connection.prepare("INSERT INTO accounts VALUES (?1, 0, ?2)")?;
            for id in 0..ACCOUNTS as i64 {
                account.execute(rusqlite::params![id, filler])?;
            }
            let mut teller = connection.prepare("INSERT INTO tellers VALUES (?1, 0)")?;
            for id in 0..TELLERS as i64 {
                teller.execute([id])?;
            }
        }
        connection.execute_batch("COMMIT")?;
        Ok(Bank(connection))
    }

    fn serve(self, pace: Option<Pace>, seed: u64, until: Deadline) -> Served {
        let mut latency = Histogram::new();
        let served = self.transact(pace, seed, until, &mut latency).and_then(|()| self.books());
        (
            latency,
            served.map_err(|error| {
                format!("a transaction failed: {error}; look at the room and rights of sqlite:path=")
            }),
        )
    }

    fn transact(
        &self,
        pace: Option<Pace>,
        seed: u64,
        until: Deadline,
        latency: &mut Histogram,
    ) -> Result<(), rusqlite::Error> {
        let prepare = |sql: &str| -> Result<Statement<'_>, rusqlite::Error> { self.0.prepare(sql) };
        let mut begin = prepare("BEGIN IMMEDIATE")?;
        let mut account = prepare("UPDATE accounts SET balance = balance + ?1 WHERE id = ?2")?;
        let mut read = prepare("SELECT balance FROM accounts WHERE id = ?1")?;
        let mut teller = prepare("UPDATE tellers SET balance = balance + ?1 WHERE id = ?2")?;
        let mut branch = prepare("UPDATE branches SET balance = balance + ?1 WHERE id = 0")?;
        let mut history = prepare("INSERT OR REPLACE INTO history VALUES (?1, ?2, ?3, ?4, ?5)")?;
        let mut commit = prepare("COMMIT")?;
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut random = |below: u64| {
            // xorshift64 (Marsaglia 2003).
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % below) as i64
        };
        for nth in 0.. {
            let go_on = match pace {
                Some(pace) => until.sleep_until(pace.due(nth)),
                None => !until.over(),
            };
            if !go_on {
                break;
            }
            let begun = pace.map_or_else(clock::now, |pace| pace.due(nth));
            let (id, of, delta) = (random(ACCOUNTS), random(TELLERS), random(10_001) - 5_000);
            begin.execute([])?;
            account.execute([delta, id])?;
            read.query_row([id], |row| row.get::<_, i64>(0))?;
            teller.execute([delta, of])?;
            branch.execute([delta])?;
            history.execute([(nth % HISTORY) as i64, of, id, delta, begun.0 as i64])?;
            commit.execute([])?;
            latency.record(clock::now().saturating_sub(begun));
        }
        Ok(())
    }

    /// What was booked on accounts, tellers and the branch must be one and the same sum.
    fn books(&self) -> Result<(), rusqlite::Error> {
        let sum = |table: &str| -> Result<i64, rusqlite::Error> {
            self.0.query_row(&format!("SELECT sum(balance) FROM {table}"), [], |row| row.get(0))
        };
        let (accounts, tellers, branches) = (sum("accounts")?, sum("tellers")?, sum("branches")?);
        if accounts == tellers && tellers == branches {
            return Ok(());
        }
        Err(rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT),
            Some(format!(
                "the books do not balance: accounts {accounts}, tellers {tellers}, branch {branches}"
            )),
        ))
    }
}
