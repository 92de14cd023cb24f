// SPDX-License-Identifier: MIT OR Apache-2.0
//! A real terminal of 80 columns and 24 lines, by tmux.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::tool::{assert_says, becomes_true, folder, last_cpu, live};

/// A terminal with a server of its own, which ends when dropped.
struct Terminal {
    socket: std::path::PathBuf,
}

impl Terminal {
    /// Runs a shell command in a fresh terminal, which then says its status and stays.
    fn new(folder: &Path, command: &str) -> Terminal {
        // Each a server of its own: the one before may still be on its way out.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let terminal =
            Terminal { socket: folder.join(format!("tmux-{}", NEXT.fetch_add(1, Ordering::Relaxed))) };
        let shell = format!("{command}; echo \"status=$?\"; stty -a; exec sleep 60");
        let program = Path::new(env!("CARGO_BIN_EXE_latebound")).parent().unwrap();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
        let started = Command::new("tmux")
            .arg("-S")
            .arg(&terminal.socket)
            .args(["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "sh", "-c", &shell])
            .current_dir(folder)
            .env("PATH", path)
            .env("LC_ALL", "C.UTF-8")
            .env_remove("TMUX")
            .env_remove("NO_COLOR")
            .output()
            .expect("tmux is installed");
        assert!(started.status.success(), "{started:?}");
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let ran = Command::new("tmux").arg("-S").arg(&self.socket).args(arguments).output().unwrap();
        String::from_utf8(ran.stdout).unwrap()
    }

    /// The lines on the screen.
    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Everything that was written, with lines that were broken at the edge put together again.
    fn history(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-J", "-S", "-"])
    }

    #[track_caller]
    fn shows(&self, within: u64, parts: &[&str]) {
        let there = || {
            let screen = self.history();
            parts.iter().all(|part| screen.contains(part))
        };
        assert!(
            becomes_true(Duration::from_secs(within), there),
            "{parts:?} did not appear on\n{}",
            self.history()
        );
    }

    /// Whether the terminal is as it was: the usual screen, a cursor, lines, an echo.
    #[track_caller]
    fn assert_restored(&self) {
        let state = self.tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"]);
        assert_eq!(state.trim(), "0 1");
        let history = self.history();
        let settings: Vec<&str> = history.split_whitespace().collect();
        for setting in ["icanon", "echo", "isig", "icrnl"] {
            assert!(settings.contains(&setting), "no {setting} in {history}");
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

#[test]
fn live_observe_draws_a_table_into_80_columns_and_puts_the_terminal_back() {
    let _live = live();
    let folder = folder();
    let terminal = Terminal::new(folder.path(), "latebound observe --duration 4s");
    // Rows that do not fit are left out, so only those that come first on every system can be asked for.
    terminal.shows(20, &["latebound observe", "vector", "softirq", "q end"]);
    assert_eq!(terminal.tmux(&["display-message", "-p", "#{alternate_on}"]).trim(), "1");
    let screen = terminal.screen();
    let lines: Vec<&str> = screen.lines().collect();
    assert_eq!(lines.len(), 24, "{screen}");
    assert!(lines[0].starts_with("latebound observe") && lines[0].contains("of 4.00 s"), "{screen}");
    let heads: Vec<&str> = lines[1].split_whitespace().collect();
    assert_eq!(heads, ["mechanism", "what", "count", "p50", "p99", "max", "merged"]);
    // Every row has a maximum value with its unit: nothing is cut at the edge.
    let rows: Vec<&&str> = lines[2..21].iter().filter(|line| !line.trim().is_empty()).collect();
    assert!(rows.len() >= 5, "{screen}");
    for row in rows {
        let unit = |word: &&str| matches!(*word, "ns" | "us" | "ms" | "s");
        assert!(row.split_whitespace().any(|word| unit(&word)), "\"{row}\" on\n{screen}");
    }
    assert!(lines[23].starts_with("q end"), "{screen}");
    terminal.shows(20, &["status=0", "icanon"]);
    terminal.assert_restored();
    // The last state stays where it can be read and copied.
    assert_says(&terminal.history(), &["mechanism", "p99.9", "softirq"]);
}

#[test]
fn live_q_and_sigterm_end_the_table_and_put_the_terminal_back() {
    let _live = live();
    let folder = folder();
    for by_key in [true, false] {
        let terminal = Terminal::new(folder.path(), "echo $$ > pid; latebound observe");
        terminal.shows(20, &["q end", "softirq"]);
        if by_key {
            terminal.tmux(&["send-keys", "q"]);
        } else {
            let shell = std::fs::read_to_string(folder.path().join("pid")).unwrap();
            let children = format!("/proc/{0}/task/{0}/children", shell.trim());
            let pid: i32 = std::fs::read_to_string(children).unwrap().trim().parse().unwrap();
            // SAFETY: the process is the table that was just seen, a child of a shell of this test.
            assert_eq!(unsafe { libc::kill(pid, libc::SIGTERM) }, 0);
        }
        terminal.shows(20, &["status=0", "icanon"]);
        terminal.assert_restored();
    }
}

#[test]
fn live_check_shows_how_far_it_is_and_a_summary_that_fits_80_columns() {
    let _live = live();
    let folder = folder();
    let command = format!("latebound check --duration 3s --cpus {} --output a.run", last_cpu());
    let terminal = Terminal::new(folder.path(), &command);
    // The screen is looked at once: on a busy machine the summary may stand there at the next look.
    let mut screen = String::new();
    let shows_progress = || {
        screen = terminal.screen();
        ["=>", "wake-ups, worst", "of 3.00 s"].iter().all(|part| screen.contains(part))
    };
    assert!(becomes_true(Duration::from_secs(20), shows_progress), "{}", terminal.history());
    assert_eq!(screen.lines().filter(|line| !line.trim().is_empty()).count(), 1, "{screen}");
    terminal.shows(20, &["status=0", "Report: a.run/report.html", "icanon"]);
    let history = terminal.history();
    let summary = history.split("status=0").next().unwrap();
    assert!(!summary.contains("wake-ups, worst"), "the progress line is still there\n{history}");
    for line in summary.lines() {
        // Commands are not broken, so that they can be pasted; they are the only thing so far to the right.
        assert!(line.chars().count() <= 80 || line.starts_with("    "), "\"{line}\" is too long");
    }
    terminal.assert_restored();
}

#[test]
fn live_a_terminal_that_is_closed_ends_the_work_and_keeps_it() {
    let _live = live();
    let folder = folder();
    for (verb, name) in [("observe", "o.run"), ("check", "c.run"), ("bound --by estimate", "b.run")] {
        let command = format!(
            "latebound {verb} --duration 1m --cpus {} --output {name} --load timer:threads=1",
            last_cpu()
        );
        let command =
            if verb == "observe" { command.replace(&format!(" --cpus {}", last_cpu()), "") } else { command };
        let terminal = Terminal::new(folder.path(), &command);
        let of = if verb == "check" { "wake-ups, worst" } else { "q end" };
        terminal.shows(30, &[of]);
        // A second of work, and no terminal from one moment to the next.
        std::thread::sleep(Duration::from_secs(1));
        drop(terminal);
        let state = || latebound_store::read_run(folder.path().join(name)).unwrap().state;
        let ended = || state() != latebound_model::RunState::Running;
        assert!(becomes_true(Duration::from_secs(20), ended), "{verb} went on");
        let run = latebound_store::read_run(folder.path().join(name)).unwrap();
        assert_eq!(run.state, latebound_model::RunState::Interrupted, "{verb}");
        assert!(!run.series.is_empty() && run.loads.len() == 1, "{verb}: {:?}", run.loads);
        assert_eq!(run.loads[0].error, None, "{verb}");
        // The page comes after the state.
        let drawn = || folder.path().join(name).join("report.html").exists();
        assert!(becomes_true(Duration::from_secs(20), drawn), "{verb}");
    }
}
