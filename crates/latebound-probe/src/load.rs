// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads what the running kernel takes: a program that it refuses takes no other with it.
//!
//! libbpf loads an object whole or not at all, so that the program which was refused is left out and the rest is loaded
//! anew. Owns the way to find that program, which does not hang on the wording of a message. What is lost with a program, and
//! what is nothing without it, is for each probe to say.

use std::collections::BTreeSet;

use libbpf_rs::skel::OpenSkel;
use libbpf_rs::{AsRawLibbpf, libbpf_sys};

use crate::error::ProbeError;
use crate::log;

/// How much of what the verifier says about one program is kept; it fills the end of it (6.4 and later) or the beginning.
const SAID: usize = 1 << 20;

/// A program that the kernel does not load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// The program's name.
    pub(crate) program: String,
    /// What the verifier said, and the error.
    pub(crate) why: String,
}

impl Refused {
    /// For people: what was refused, and why.
    pub(crate) fn reason(&self) -> String {
        format!("this kernel does not load the program {}: {}", self.program, self.why)
    }
}

/// What to do about a refused program.
pub(crate) const REMEDY: &str = "report this kernel's version; the rest is seen";

/// The other half of a trace point that begins or ends something, by its name: a begin without its end would last for ever, and the
/// other way round mean nothing.
pub(crate) fn other_half(tracepoint: &str) -> Option<String> {
    let halves = [("_entry", "_exit"), ("execute_start", "execute_end")];
    let both_ways = halves.into_iter().flat_map(|(begin, end)| [(begin, end), (end, begin)]);
    both_ways
        .into_iter()
        .find(|(from, _)| tracepoint.contains(from))
        .map(|(from, to)| tracepoint.replace(from, to))
}

/// What one try gave.
enum Tried<T> {
    Loaded(T),
    /// The kernel refused these programs: one, as libbpf stops at the first.
    Without(Vec<Refused>),
    /// It failed, and no program is known to be the cause.
    Failed(libbpf_rs::Error, String),
}

/// Loads an object with as many of its programs as the kernel takes.
///
/// `wanted` says which programs are to be loaded without those that were refused so far: what is nothing without one of
/// these goes with it. `open` opens the object with these programs alone. `step` is for errors.
pub(crate) fn what_loads<O: OpenSkel<'static>>(
    step: &str,
    wanted: impl Fn(&[Refused]) -> BTreeSet<String>,
    open: impl Fn(&BTreeSet<String>) -> libbpf_rs::Result<O>,
) -> Result<(O::Output, Vec<Refused>), ProbeError> {
    let mut refused: Vec<Refused> = Vec::new();
    loop {
        let mut programs = wanted(&refused);
        programs.retain(|name| refused.iter().all(|one| one.program != *name));
        if let (true, Some(_)) = (programs.is_empty(), refused.first()) {
            let all: Vec<String> = refused.iter().map(Refused::reason).collect();
            return Err(ProbeError::NothingToSee(all.join("; ")));
        }
        match attempt(&open, &programs) {
            Tried::Loaded(skeleton) => return Ok((skeleton, refused)),
            Tried::Without(more) => refused.extend(more),
            Tried::Failed(source, said) => {
                let error = ProbeError::load(step, source, &said);
                if matches!(error, ProbeError::Refused(_)) {
                    return Err(error);
                }
                // Refused before the verifier saw it, so that nobody says which one it was: each by itself.
                let alone: Vec<Refused> =
                    programs.iter().filter_map(|name| refused_alone(&open, name)).collect();
                if alone.is_empty() || alone.len() == programs.len() {
                    return Err(error);
                }
                refused.extend(alone);
            }
        }
    }
}

fn refused_alone<O: OpenSkel<'static>>(
    open: &impl Fn(&BTreeSet<String>) -> libbpf_rs::Result<O>,
    name: &str,
) -> Option<Refused> {
    match attempt(open, &BTreeSet::from([name.to_owned()])) {
        Tried::Loaded(_) => None,
        Tried::Without(refused) => refused.into_iter().next(),
        Tried::Failed(error, said) => {
            Some(Refused { program: name.to_owned(), why: format!("{} ({error})", log::gist(&said)) })
        }
    }
}

fn attempt<O: OpenSkel<'static>>(
    open: &impl Fn(&BTreeSet<String>) -> libbpf_rs::Result<O>,
    programs: &BTreeSet<String>,
) -> Tried<O::Output> {
    // The verifier writes to the buffer of the program that it refuses, and to no other: libbpf asks it to say something only then
    // (bpf_object_load_prog in libbpf.c, 1.7).
    let mut logs: Vec<(String, Vec<u8>)> =
        programs.iter().map(|name| (name.clone(), vec![0; SAID])).collect();
    let (result, said) = log::capture(|| {
        let mut open = open(programs)?;
        for mut program in open.open_object_mut().progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            let wanted = logs.iter_mut().find(|(of, _)| *of == name);
            program.set_autoload(wanted.is_some());
            if let Some((_, log)) = wanted {
                // SAFETY: the program is open, and the buffer is as large as said and outlives the load below.
                unsafe {
                    libbpf_sys::bpf_program__set_log_buf(
                        program.as_libbpf_object().as_ptr(),
                        log.as_mut_ptr().cast(),
                        log.len() as libbpf_sys::size_t,
                    )
                };
            }
        }
        open.load()
    });
    let error = match result {
        Ok(skeleton) => return Tried::Loaded(skeleton),
        Err(error) => error,
    };
    let of_program = |(program, log): (String, Vec<u8>)| {
        let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
        let text = String::from_utf8_lossy(&log[..end]);
        (!text.is_empty()).then(|| Refused { program, why: format!("{} ({error})", log::gist(&text)) })
    };
    let refused: Vec<Refused> = logs.into_iter().filter_map(of_program).collect();
    if refused.is_empty() { Tried::Failed(error, said) } else { Tried::Without(refused) }
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;
    use std::os::fd::{AsFd, AsRawFd};

    use libbpf_rs::skel::{Skel, SkelBuilder};

    use super::*;
    use crate::recorder::skeleton::{OpenRecorderSkel, RecorderSkelBuilder};

    const PROGRAMS: [&str; 4] = ["on_waking", "on_switch", "on_migrate", "on_softirq_raise"];

    fn without(refused: &[Refused]) -> BTreeSet<String> {
        let kept = PROGRAMS.into_iter().filter(|name| refused.iter().all(|one| one.program != *name));
        kept.map(str::to_owned).collect()
    }

    fn loads(spoil: impl Fn(&mut OpenRecorderSkel<'static>)) -> (Vec<String>, Vec<Refused>) {
        let open = |_: &BTreeSet<String>| {
            let mut open = RecorderSkelBuilder::default().open(Box::leak(Box::new(MaybeUninit::uninit())))?;
            spoil(&mut open);
            Ok(open)
        };
        let (skeleton, refused) = what_loads("loading for a test", without, open).unwrap();
        let there = skeleton.object().progs().filter(|program| program.as_fd().as_raw_fd() >= 0);
        let mut there: Vec<String> =
            there.map(|program| program.name().to_string_lossy().into_owned()).collect();
        there.sort();
        (there, refused)
    }

    #[test]
    fn live_programs_that_the_verifier_refuses_take_no_other_with_them() {
        // Two programs write stacks that are longer than this.
        let (there, refused) = loads(|open| open.maps.stacks.set_value_size(8).unwrap());
        assert_eq!(there, ["on_migrate", "on_softirq_raise"], "{refused:?}");
        let mut gone: Vec<&str> = refused.iter().map(|one| one.program.as_str()).collect();
        gone.sort_unstable();
        assert_eq!(gone, ["on_switch", "on_waking"], "{refused:?}");
        assert!(
            refused.iter().all(|one| one.reason().contains(&one.program) && one.why.len() > 20),
            "{refused:?}"
        );
        let (there, refused) = loads(|_| ());
        assert_eq!((there.len(), refused.len()), (PROGRAMS.len(), 0), "{refused:?}");
    }

    #[test]
    fn halves_are_found_both_ways_and_what_is_whole_has_none() {
        for (begin, end) in [
            ("hrtimer_expire_entry", "hrtimer_expire_exit"),
            ("sched_entry_tp", "sched_exit_tp"),
            ("workqueue_execute_start", "workqueue_execute_end"),
        ] {
            assert_eq!(other_half(begin).as_deref(), Some(end));
            assert_eq!(other_half(end).as_deref(), Some(begin));
        }
        assert_eq!(other_half("sched_waking").or(other_half("softirq_raise")), None);
    }
}
