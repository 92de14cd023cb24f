// SPDX-License-Identifier: MIT OR Apache-2.0
//! latebound: how late can this Linux system be, why, and what can be done about it?
//!
//! Owns the command line, the order in which the parts work together, and the exit status. Computes nothing itself.

mod bound_run;
mod cli;
mod firmware;
mod follow;
mod generate;
mod group;
mod helper;
mod jobs;
mod late;
mod live;
mod live_bound;
mod load_runner;
#[cfg(test)]
mod manuals_tests;
mod metrics_server;
mod otlp_client;
mod outcome;
mod output;
mod pause;
mod privileges;
mod prove;
mod recording;
mod reserved;
mod service_manager;
mod session;
mod stay_away;
mod system_threads;
mod trace_observer;
mod trace_reader;
mod trace_recorder;
mod tune_account;
mod tune_actuator;
mod tune_daemon;
mod tune_module;
mod tune_undo;
mod tuning;
mod verbs;
mod wakeups;
mod watch;
mod watcher;
mod worst;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Format, TuneCommand, Verb};
use crate::outcome::Outcome;
use crate::output::Output;

/// Whether the verb needs nothing of the system but files.
fn reads_files_alone(verb: &Verb) -> bool {
    match verb {
        Verb::Report(_) | Verb::Import(_) | Verb::Store(_) | Verb::Push(_) | Verb::Schema => true,
        Verb::Compare(args) => args.command.is_none(),
        Verb::Explain(args) => args.run.is_some() || args.trace.is_some(),
        Verb::Bound(args) => !args.files.is_empty(),
        Verb::Tune(args) => match &args.command {
            TuneCommand::Show(_) | TuneCommand::Fit(_) | TuneCommand::Config | TuneCommand::Schema => true,
            TuneCommand::Record(args) => args.trace.is_some(),
            _ => false,
        },
        _ => false,
    }
}

fn main() -> ExitCode {
    // Behind a limit on file sizes (ulimit -f) writing is to fail with an error, not to end the process: then what was begun is
    // removed and what was measured is printed. Programs that are started have the usual action.
    let _ = signal_hook::flag::register(libc::SIGXFSZ, Default::default());
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => return Output::usage(&arguments, error),
    };
    let output = Output::new(cli.format, cli.color);
    if reads_files_alone(&cli.verb) {
        privileges::give_up_for_files();
    }
    let outcome = match cli.verb {
        Verb::Check(args) => verbs::check::run(&args, &output),
        Verb::Measure(args) => verbs::measure::run(&args, &output),
        Verb::Explain(args) => verbs::explain::run(&args, &output),
        Verb::Observe(args) => verbs::observe::run(&args, &output),
        Verb::Serve(args) => verbs::serve::run(&args, &output),
        Verb::Push(args) => verbs::push::run(&args, &output),
        Verb::Bound(args) => verbs::bound::run(&args, &output),
        Verb::Compare(args) => verbs::compare::run(&args, &output),
        Verb::Defer(args) => verbs::defer::run(&args, &output),
        Verb::Doctor(args) => verbs::doctor::run(&args, &output),
        Verb::Import(args) => verbs::import::run(&args, &output),
        Verb::Tune(args) => verbs::tune::run(&args, &output),
        Verb::Store(args) => verbs::store::run(&args, &output),
        Verb::Lab(args) => verbs::lab::run(&args, &output),
        Verb::Report(args) => verbs::report::run(&args, &output),
        Verb::Schema => output
            .prints("schema", Some(Format::Json))
            .and_then(|()| output.json(&latebound_model::Run::json_schema()))
            .map(|()| Outcome::Done),
        Verb::Generate(args) => generate::generate(args.what, &args.folder).map(|()| Outcome::Done),
        Verb::Load(args) => load_runner::run_as_load(&args.arguments).map(|()| Outcome::Done),
        Verb::LateCommands => late::commands::serve().map(|()| Outcome::Done),
    };
    match outcome {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::LimitPassed) => ExitCode::from(2),
        Err(error) => {
            output.error(&error);
            ExitCode::from(1)
        }
    }
}
