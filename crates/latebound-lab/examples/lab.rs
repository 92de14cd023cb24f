// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lab without the rest of latebound: `lab build KERNEL`, `lab exec KERNEL OUTPUT host|instructions COMMAND…`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example talks")]

use std::io::Write;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use latebound_lab::{Clock, Event, Job, Lab, LabError, Machine, Payload};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let stop = AtomicBool::new(false);
    let listener = |event: Event<'_>| match event {
        Event::Progress(text) => eprintln!("… {text}"),
        Event::Note(text) => eprintln!("{text}"),
        Event::Stdout(bytes) => std::io::stdout().write_all(bytes).unwrap_or(()),
        Event::Stderr(bytes) => std::io::stderr().write_all(bytes).unwrap_or(()),
    };
    let lab = Lab::new(Lab::default_cache()?, &listener, &stop);
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["build", kernel] => println!("{:#?}", latebound_lab::obtain(&lab, &kernel.parse()?)?),
        ["exec", kernel, output, clock, ..] => {
            let kernel = latebound_lab::obtain(&lab, &kernel.parse()?)?;
            let clock: Clock = clock.parse()?;
            let cpus = if clock == Clock::Instructions { 1 } else { 2 };
            let command = words[4..].to_vec();
            let payload = match std::path::Path::new(&command[0])
                .file_name()
                .is_some_and(|name| name == "latebound")
            {
                true => Payload::Verb { binary: command[0].clone().into(), arguments: command[1..].to_vec() },
                false => Payload::Command(command),
            };
            let job = Job {
                machine: Machine { clock, cpus, ..Machine::default() },
                payload,
                timeout: Duration::from_secs(120),
                module: None,
                directory: std::env::current_dir()?,
            };
            let outcome =
                latebound_lab::run(&lab, &kernel, &job, output.as_ref(), true).map_err(LabError::from)?;
            println!("{outcome:#?}");
        }
        _ => println!("lab build KERNEL | lab exec KERNEL OUTPUT host|instructions COMMAND…"),
    }
    Ok(())
}
