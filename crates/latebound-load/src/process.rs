// SPDX-License-Identifier: MIT OR Apache-2.0
//! The process that a load runs in, from both sides.
//!
//! The parent starts its own binary again with hidden arguments; the child runs the load and writes to its standard output,
//! which is a pipe: a line when it has begun, and one [`LoadDone`] as JSON at its end. The child ends by its own clock, at SIGTERM, and when
//! the thread that started it ends (PR_SET_PDEATHSIG). The parent reaps it in every case.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use latebound_model::{CpuSet, Nanos};
use latebound_syscall::{clock, process};

use crate::deadline::CHILD_POLL;
use crate::run::run_load;
use crate::spec::LoadSpec;
use crate::work::LoadDone;

/// How long after its time a load may still be tidying up before it is killed.
const GRACE: Nanos = Nanos::from_secs(5);

/// The line that a load writes when all of its threads are there.
const BEGUN: &str = "begun\n";

/// Why a load could not be started or gave no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The process could not be started.
    #[error("the load {load} could not be started from {} ({source}); check that the file is still there", program.display())]
    Start {
        /// The load.
        load: String,
        /// The program that was to run it.
        program: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
    /// The process ended without a result.
    #[error("the load {load} ended with {status} and no result ({output:?}); run it alone to see why")]
    NoResult {
        /// The load.
        load: String,
        /// How it ended.
        status: String,
        /// What it wrote.
        output: String,
    },
    /// The process could not be waited for.
    #[error("the load {load} could not be waited for ({source})")]
    Wait {
        /// The load.
        load: String,
        /// What the system answered.
        source: io::Error,
    },
    /// The hidden arguments of the child are not what [`LoadProcess::spawn`] passes.
    #[error("{0}; loads are started by --load, not by hand")]
    Arguments(String),
}

/// A load that runs in a process of its own. Dropping it stops and reaps it.
#[derive(Debug)]
pub struct LoadProcess {
    name: String,
    arguments: String,
    child: Option<Child>,
    kill_at: Nanos,
}

impl LoadProcess {
    /// The hidden first argument by which a binary knows that it is to call [`load_main`] with the rest.
    pub const ENTRY: &str = "__load";

    /// Starts `program` (the binary's own path, `/proc/self/exe`) as a load.
    ///
    /// The child dies with the *thread* that calls this (prctl(2), PR_SET_PDEATHSIG): call it from one that lives as long as
    /// the load, best the main thread.
    pub fn spawn(
        program: &Path,
        spec: &LoadSpec,
        duration: Nanos,
        cpus: &CpuSet,
    ) -> Result<LoadProcess, LoadError> {
        // Nothing is asked for here that needs fork: the standard library then uses posix_spawn, which shares the address
        // space until exec. A fork would write-protect it, and the measuring threads would fault on every page.
        let mut command = Command::new(program);
        command
            .arg(LoadProcess::ENTRY)
            .args([format!("{}", std::process::id()), format!("{}ns", duration.0), cpus.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        match spec {
            LoadSpec::Command { argv } => command.arg("command").args(argv),
            spec => command.arg(spec.to_string()),
        };
        let kill_at = clock::now() + duration + GRACE;
        let child = command.spawn().map_err(|source| LoadError::Start {
            load: spec.name().to_owned(),
            program: program.to_owned(),
            source,
        })?;
        Ok(LoadProcess {
            name: spec.name().to_owned(),
            arguments: spec.arguments(),
            child: Some(child),
            kill_at,
        })
    }

    /// What the load is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its options, as [`LoadSpec::arguments`] gives them.
    pub fn arguments(&self) -> &str {
        &self.arguments
    }

    /// The child's process id.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Whether the load has all its threads and does what it is for, or has ended.
    pub fn has_begun(&self) -> bool {
        // Nothing is read: whatever is there begins with that line, or is what a load that failed has to say.
        let pipe = self.child.as_ref().and_then(|child| child.stdout.as_ref());
        pipe.is_none_or(|pipe| process::has_something_to_read(pipe).unwrap_or(true))
    }

    /// Asks the load to end now; [`LoadProcess::wait`] gives what it did until then.
    pub fn stop(&mut self) {
        self.kill_at = self.kill_at.min(clock::now() + GRACE);
        if let Some(child) = &self.child {
            // A child that is gone already is what was wanted.
            let _ = process::signal(child.id() as i32, libc::SIGTERM);
        }
    }

    /// Whether the load has ended.
    pub fn is_finished(&mut self) -> bool {
        self.child.as_mut().is_none_or(|child| !matches!(child.try_wait(), Ok(None)))
    }

    /// Waits for the load's end and gives what it did. A load that does not end in time is killed.
    pub fn wait(mut self) -> Result<LoadDone, LoadError> {
        let Some(mut child) = self.child.take() else {
            return Err(LoadError::Arguments("a load can be waited for once".to_owned()));
        };
        let wait_error = |source| LoadError::Wait { load: self.name.clone(), source };
        let status = reap(&mut child, self.kill_at).map_err(wait_error)?;
        let mut output = String::new();
        if let Some(mut pipe) = child.stdout.take() {
            // A line and one small record: they fit the pipe, so that the child never waited for a reader.
            pipe.read_to_string(&mut output).map_err(wait_error)?;
        }
        serde_json::from_str(output.strip_prefix(BEGUN).unwrap_or(&output)).map_err(|_| LoadError::NoResult {
            load: self.name.clone(),
            status: status.to_string(),
            output: output.chars().take(200).collect(),
        })
    }
}

impl Drop for LoadProcess {
    fn drop(&mut self) {
        self.stop();
        if let Some(mut child) = self.child.take() {
            // Nobody is left to tell.
            let _ = reap(&mut child, self.kill_at);
        }
    }
}

/// Waits for a child, and kills it where it is still there at `kill_at`.
fn reap(child: &mut Child, kill_at: Nanos) -> io::Result<std::process::ExitStatus> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if clock::now() >= kill_at {
            child.kill()?;
            return child.wait();
        }
        std::thread::sleep(CHILD_POLL);
    }
}

/// The child's side: what a binary calls when its first argument is [`LoadProcess::ENTRY`], with the arguments after
/// it. Runs the load and writes its result to the standard output.
pub fn load_main(arguments: impl IntoIterator<Item = OsString>) -> Result<(), LoadError> {
    let bad = |what: &str| LoadError::Arguments(what.to_owned());
    let words: Result<Vec<String>, _> = arguments.into_iter().map(OsString::into_string).collect();
    let words = words.map_err(|_| bad("an argument of the load is not UTF-8"))?;
    let [parent, duration, cpus, load, rest @ ..] = words.as_slice() else {
        return Err(bad("a load needs its parent, duration, CPUs and name"));
    };
    let parent: i32 = parent.parse().map_err(|_| bad("the parent is not a process id"))?;
    let duration: Nanos = duration.parse().map_err(|error| bad(&format!("{error}")))?;
    let cpus: CpuSet = cpus.parse().map_err(|error| bad(&format!("{error}")))?;
    let spec = match load.as_str() {
        "command" => LoadSpec::command(rest.to_vec()),
        load => load.parse(),
    };
    let spec = spec.map_err(|error| bad(&error.to_string()))?;
    let failed = |source| LoadError::Wait { load: spec.name().to_owned(), source };
    process::catch_stop_signals().map_err(failed)?;
    process::signal_at_parents_death(libc::SIGTERM).map_err(failed)?;
    if process::parent() != parent {
        return Err(bad("the process that started the load is gone"));
    }
    // Nobody who would hear of a failure; the result will fail to be written too.
    let begun = || drop(io::stdout().write_all(BEGUN.as_bytes()).and_then(|()| io::stdout().flush()));
    let done = run_load(&spec, duration, &cpus, &begun);
    let text = serde_json::to_string(&done).map_err(|error| failed(error.into()))?;
    io::stdout().write_all(text.as_bytes()).map_err(failed)
}
