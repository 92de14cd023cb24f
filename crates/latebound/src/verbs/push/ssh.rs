// SPDX-License-Identifier: MIT OR Apache-2.0
//! A store in a folder of another machine, which is reached by the system's ssh(1).
//!
//! `latebound store add` there takes the Runs on its standard input, and answers when its commits are on the disk. Owns that nothing of the
//! place becomes an option of ssh or a word of the other machine's shell, and what of an answer is taken: it is one from elsewhere.

use std::fmt;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;

use anyhow::{Context, Result, anyhow, bail};
use latebound_fleet::{AddDocument, AddOutcome, RunStream};
use latebound_report::printable;
use serde::Deserialize;

/// The longest answer that is taken, and the longest error that is shown.
const MOST_ANSWER: u64 = 4 << 20;
const MOST_SHOWN: usize = 2000;

/// No question is asked, and a connection without a word ends: after 10 s at its begin, and after a minute later.
const OPTIONS: &[&str] = &[
    "-T",
    "-o",
    "BatchMode=yes",
    "-o",
    "ConnectTimeout=10",
    "-o",
    "ServerAliveInterval=15",
    "-o",
    "ServerAliveCountMax=4",
];

/// `ssh://[USER@]HOST[:PORT]/FOLDER`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SshPlace {
    /// `[USER@]HOST`
    destination: String,
    port: Option<u16>,
    /// With its slash.
    folder: String,
}

impl fmt::Display for SshPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        write!(f, "ssh://{}{port}{}", self.destination, self.folder)
    }
}

/// What is taken of the answer of `latebound store add`.
#[derive(Deserialize)]
struct Answer {
    schema: String,
    runs: Vec<Answered>,
}

#[derive(Deserialize)]
struct Answered {
    outcome: AddOutcome,
}

impl SshPlace {
    /// The place that is typed so; `None` where it is of another kind.
    pub(super) fn of(place: &Path) -> Result<Option<SshPlace>> {
        let Some(text) = place.to_str().and_then(|text| text.strip_prefix("ssh://")) else { return Ok(None) };
        let wrong = || {
            let text = place.display().to_string();
            anyhow!(
                "\"{}\" names no folder of another machine; type ssh://USER@HOST/FOLDER",
                printable(&text)
            )
        };
        let (host, folder) = text.find('/').map(|slash| text.split_at(slash)).ok_or_else(wrong)?;
        let (destination, port) = match host.rsplit_once(':') {
            Some((destination, port)) => (destination, Some(port.parse().map_err(|_| wrong())?)),
            None => (host, None),
        };
        // A word that begins with a dash would be an option.
        let word = |word: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            !word.is_empty() && !word.starts_with('-') && word.bytes().all(plain)
        };
        let words = destination.split('@').collect::<Vec<_>>();
        if words.len() > 2 || !words.into_iter().all(word) {
            return Err(wrong());
        }
        if folder.len() < 2 || folder.chars().any(char::is_control) {
            return Err(wrong());
        }
        Ok(Some(SshPlace { destination: destination.to_owned(), port, folder: folder.to_owned() }))
    }

    /// Adds the Runs of a stream to the store there: what became of each.
    pub(super) fn add(&self, stream: RunStream, by_hour: bool) -> Result<Vec<AddOutcome>> {
        let (runs, bytes) = (stream.runs(), stream.finish());
        let mut ssh = Command::new("ssh");
        ssh.args(OPTIONS);
        if let Some(port) = self.port {
            ssh.arg("-p").arg(port.to_string());
        }
        let folder = self.folder.replace('\'', "'\\''");
        let by_hour = if by_hour { " --by-hour" } else { "" };
        let command = format!("exec latebound store add{by_hour} --format json --store '{folder}' -");
        ssh.args(["--", &self.destination, &command]);
        ssh.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut ssh = ssh.spawn().context(
            "cannot start ssh; install the OpenSSH client, or name a folder or a bucket with --store",
        )?;
        let (stdin, stdout, stderr) = (ssh.stdin.take(), ssh.stdout.take(), ssh.stderr.take());
        let (answer, said) = thread::scope(|scope| {
            // All three at once: whoever waits for one of them must not hold up the others. A pipe that breaks is told by the status.
            scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(&bytes)));
            let said = scope.spawn(move || taken(stderr));
            (taken(stdout), said.join().unwrap_or_default())
        });
        let status = ssh.wait().context("cannot wait for ssh")?;
        self.outcomes(status, &answer, &said, runs)
    }

    fn outcomes(&self, status: ExitStatus, answer: &[u8], said: &[u8], runs: u64) -> Result<Vec<AddOutcome>> {
        let said = String::from_utf8_lossy(said);
        let last = said.trim().char_indices().rev().nth(MOST_SHOWN).map_or(0, |(at, _)| at);
        let said = said.trim()[last..].lines().map(|line| printable(line).into_owned());
        let said = said.collect::<Vec<_>>().join("; ");
        if !status.success() {
            bail!(
                "{self} took no Runs ({status}): {said}; the spool keeps them. Try: ssh {} latebound --version",
                self.destination
            );
        }
        let answer: Answer = serde_json::from_slice(answer).map_err(|error| {
            anyhow!("{self} gave no answer that can be read ({error}); the spool keeps the Runs. {said}")
        })?;
        if answer.schema != AddDocument::SCHEMA || answer.runs.len() as u64 != runs {
            bail!(
                "{self} answered for {} Runs as \"{}\", and {runs} were sent; the spool keeps them. Install the same latebound there",
                answer.runs.len(),
                printable(&answer.schema)
            );
        }
        Ok(answer.runs.into_iter().map(|run| run.outcome).collect())
    }
}

/// The bytes of a pipe, as many as are taken; all of it is read, so that nobody waits.
fn taken(pipe: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        let _ = pipe.by_ref().take(MOST_ANSWER).read_to_end(&mut bytes);
        let _ = std::io::copy(&mut pipe, &mut std::io::sink());
    }
    bytes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

    use super::*;

    #[test]
    fn a_place_is_a_host_and_a_folder_and_no_option() {
        for (text, destination, port, folder) in [
            ("ssh://collector/srv/fleet", "collector", None, "/srv/fleet"),
            ("ssh://fleet@10.0.0.7:2222/srv/a b", "fleet@10.0.0.7", Some(2222), "/srv/a b"),
            ("ssh://h/it's", "h", None, "/it's"),
        ] {
            let place = SshPlace::of(Path::new(text)).unwrap().unwrap();
            let folder = folder.to_owned();
            assert_eq!(place, SshPlace { destination: destination.to_owned(), port, folder });
            assert_eq!(place.to_string(), text);
        }
        for text in ["/srv/fleet", "s3://fleet/x", "ssh"] {
            assert_eq!(SshPlace::of(Path::new(text)).unwrap(), None);
        }
        for text in [
            "ssh://",
            "ssh://host",
            "ssh://host/",
            "ssh:///x",
            "ssh://-oProxyCommand=x/y",
            "ssh://a@-b/x",
            "ssh://a@b@c/x",
            "ssh://host:x/y",
            "ssh://host:99999/y",
            "ssh://ho st/x",
            "ssh://h$(x)/y",
            "ssh://host/a\nb",
        ] {
            let error = SshPlace::of(Path::new(text)).unwrap_err().to_string();
            assert!(error.contains("ssh://USER@HOST/FOLDER") && !error.contains('\n'), "{text}: {error}");
        }
    }

    #[test]
    fn an_answer_that_does_not_fit_is_an_error_that_keeps_the_runs() {
        let place = SshPlace::of(Path::new("ssh://h/x")).unwrap().unwrap();
        let outcomes = |answer: &str, runs| {
            place.outcomes(ExitStatus::default(), answer.as_bytes(), b"\x1b[31m said", runs)
        };
        let good =
            r#"{"schema": "latebound.store-add/1", "runs": [{"outcome": "added"}, {"outcome": "present"}]}"#;
        assert_eq!(outcomes(good, 2).unwrap(), [AddOutcome::Added, AddOutcome::Present]);
        for (answer, runs) in [(good, 3), ("", 2), ("{}", 2), (&good.replace("add/1", "add/\u{1b}"), 2)] {
            let error = outcomes(answer, runs).unwrap_err().to_string();
            assert!(error.contains("the spool keeps") && !error.contains('\u{1b}'), "{answer}: {error}");
        }
    }
}
