// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of what is done where a watched thread is late.

use std::str::FromStr;

use clap::Args;
use latebound_model::{Nanos, Tid};

/// What is done where a watched thread is late.
#[derive(Debug, Args)]
#[command(next_help_heading = "When a thread is late")]
pub(crate) struct LateArgs {
    /// Do something when a wake-up or job of a watched thread took longer than this.
    #[arg(long, value_name = "TIME", conflicts_with_all = ["run", "trace"])]
    pub(crate) on_late: Option<Nanos>,

    /// What is done then; may be given more than once, and is done in this order: "save" the events before it,
    /// "run:COMMAND" with sh, "signal:NAME" to the late thread's process or "signal:NAME:PID", "marker" in the trace of
    /// the kernel, "stop" at last, as with Ctrl-C [default: save].
    #[arg(long = "do", value_name = "ACTION", requires = "on_late")]
    pub(crate) actions: Vec<Action>,

    /// For so long after a trigger another late wake-up or job is counted and does nothing.
    #[arg(long, value_name = "TIME", default_value = "1s", requires = "on_late")]
    pub(crate) rest: Nanos,

    /// How much time before the end of the late wake-up or job a save holds, as far as the recorder's memory reaches.
    #[arg(long, value_name = "TIME", default_value = "1s", requires = "on_late")]
    pub(crate) before: Nanos,

    /// How many saves are kept at most: the first ones. Later triggers are counted.
    #[arg(long, value_name = "N", default_value_t = 10, requires = "on_late")]
    pub(crate) saves: u64,

    /// A command of --do that runs longer is ended.
    #[arg(long, value_name = "TIME", default_value = "30s", requires = "on_late")]
    pub(crate) command_limit: Nanos,
}

impl LateArgs {
    /// The actions in their order.
    pub(crate) fn actions(&self) -> Vec<Action> {
        if self.actions.is_empty() { vec![Action::Save] } else { self.actions.clone() }
    }
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Saves the events before it.
    Save,
    /// Runs a command line with sh.
    Run(String),
    /// Sends a signal to this process, or to that of the late thread.
    Signal(Signal, Option<Tid>),
    /// Ends the Run.
    Stop,
    /// Writes a line into the kernel's trace.
    Marker,
}

/// A signal by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signal {
    pub(crate) number: i32,
    pub(crate) name: &'static str,
}

/// Signals that can be sent to a process on purpose (signal(7)).
const SIGNALS: [Signal; 14] = {
    const fn of(number: i32, name: &'static str) -> Signal {
        Signal { number, name }
    }
    [
        of(libc::SIGABRT, "ABRT"),
        of(libc::SIGALRM, "ALRM"),
        of(libc::SIGCONT, "CONT"),
        of(libc::SIGHUP, "HUP"),
        of(libc::SIGINT, "INT"),
        of(libc::SIGKILL, "KILL"),
        of(libc::SIGPROF, "PROF"),
        of(libc::SIGQUIT, "QUIT"),
        of(libc::SIGSTOP, "STOP"),
        of(libc::SIGTERM, "TERM"),
        of(libc::SIGTRAP, "TRAP"),
        of(libc::SIGTSTP, "TSTP"),
        of(libc::SIGUSR1, "USR1"),
        of(libc::SIGUSR2, "USR2"),
    ]
};

impl FromStr for Signal {
    type Err = String;

    fn from_str(text: &str) -> Result<Signal, String> {
        let name = text.strip_prefix("SIG").unwrap_or(text);
        SIGNALS.into_iter().find(|signal| signal.name == name).ok_or_else(|| {
            let names: Vec<&str> = SIGNALS.iter().map(|signal| signal.name).collect();
            format!("\"{text}\" is no signal that can be sent; type one of {}", names.join(", "))
        })
    }
}

impl FromStr for Action {
    type Err = String;

    fn from_str(text: &str) -> Result<Action, String> {
        let (name, rest) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        match (name, rest) {
            ("save", None) => Ok(Action::Save),
            ("stop", None) => Ok(Action::Stop),
            ("marker", None) => Ok(Action::Marker),
            ("run", Some(command)) if !command.trim().is_empty() => Ok(Action::Run(command.to_owned())),
            ("signal", Some(signal)) => {
                let (signal, pid) =
                    signal.split_once(':').map_or((signal, None), |(signal, pid)| (signal, Some(pid)));
                Ok(Action::Signal(signal.parse()?, pid.map(super::parse_tid).transpose()?))
            }
            _ => Err(format!(
                "\"{text}\" is nothing to do; type save, run:COMMAND, signal:NAME, signal:NAME:PID, marker or stop"
            )),
        }
    }
}

impl Action {
    /// As it is recorded: of a command its first word, because arguments may hold secrets.
    pub(crate) fn recorded(&self) -> String {
        match self {
            Action::Save => "save".to_owned(),
            Action::Run(command) => recorded_command(command),
            Action::Signal(signal, None) => format!("signal:{}", signal.name),
            Action::Signal(signal, Some(pid)) => format!("signal:{}:{pid}", signal.name),
            Action::Stop => "stop".to_owned(),
            Action::Marker => "marker".to_owned(),
        }
    }
}

/// A command line of `--do run:` as it is recorded.
pub(crate) fn recorded_command(command: &str) -> String {
    let mut words = command.split_whitespace();
    let first = words.next().unwrap_or_default();
    match words.count() {
        0 => format!("run:{first}"),
        more => format!("run:{first} ({more} words not kept)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_is_read_as_it_is_typed_and_recorded_without_arguments() {
        let usr1 = Signal { number: libc::SIGUSR1, name: "USR1" };
        for (text, action, recorded) in [
            ("save", Action::Save, "save"),
            ("stop", Action::Stop, "stop"),
            ("marker", Action::Marker, "marker"),
            ("run:true", Action::Run("true".into()), "run:true"),
            ("run:mail -s x:y me", Action::Run("mail -s x:y me".into()), "run:mail (3 words not kept)"),
            ("signal:USR1", Action::Signal(usr1, None), "signal:USR1"),
            ("signal:SIGUSR1:12", Action::Signal(usr1, Some(Tid(12))), "signal:USR1:12"),
        ] {
            assert_eq!(text.parse(), Ok(action.clone()));
            assert_eq!(action.recorded(), recorded);
        }
        for wrong in
            ["", "save:x", "run:", "run: ", "signal", "signal:", "signal:NO", "signal:USR1:0", "halt"]
        {
            assert!(wrong.parse::<Action>().is_err(), "{wrong}");
        }
    }
}
