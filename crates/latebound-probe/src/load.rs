// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads and attaches what the running kernel takes: a program that it refuses takes no other with it.
//!
//! libbpf loads an object whole or not at all, so that the program which was refused is left out and the rest is loaded
//! anew; so it is where one is loaded and not attached, since others may be nothing without it. Owns the way to find that program, which does not hang on the wording of a message. What is lost with a program, and
//! what is nothing without it, is for each probe to say.

use std::collections::BTreeSet;
use std::mem::MaybeUninit;

use latebound_model::Missing;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{AsRawLibbpf, ErrorKind, Link, OpenObject, libbpf_sys};

use crate::error::ProbeError;
use crate::log;

/// How much of what the verifier says about one program is kept; it fills the end of it (6.4 and later) or the beginning.
const SAID: usize = 1 << 20;

/// What the kernel refused to do with a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The verifier did not take it.
    Load,
    /// It is not let in where it belongs.
    Attach,
}

/// A program that the kernel does not load or attach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// The program's name.
    pub(crate) program: String,
    /// What was refused.
    pub(crate) step: Step,
    /// What the verifier or libbpf said, and the error.
    pub(crate) why: String,
}

impl Refused {
    /// For people: what was refused, and why.
    pub(crate) fn reason(&self) -> String {
        let step = match self.step {
            Step::Load => "load",
            Step::Attach => "attach",
        };
        format!("this kernel does not {step} the program {}: {}", self.program, self.why)
    }
}

/// What to do about a refused program.
pub(crate) const REMEDY: &str = "report this kernel's version; the rest is seen";

/// The other half of a trace point that begins or ends something, by its name: a begin without its end would last for ever, and the
/// other way round mean nothing.
pub(crate) fn other_half(tracepoint: &str) -> Option<String> {
    let halves = [
        ("_entry", "_exit"),
        ("execute_start", "execute_end"),
        ("sys_enter", "sys_exit"),
        ("contention_begin", "contention_end"),
        ("reclaim_begin", "reclaim_end"),
    ];
    let both_ways = halves.into_iter().flat_map(|(begin, end)| [(begin, end), (end, begin)]);
    both_ways
        .into_iter()
        .find(|(from, _)| tracepoint.contains(from))
        .map(|(from, to)| tracepoint.replace(from, to))
}

/// What one try gave.
enum Attempt<T> {
    Loaded(T),
    /// The kernel refused these programs: one, as libbpf stops at the first.
    Without(Vec<Refused>),
    /// It failed, and no program is known to be the cause.
    Failed(libbpf_rs::Error, String),
}

/// A place for an object, which its skeleton borrows. A probe lives as long as its user likes, so the place, one pointer large, is never
/// given back.
pub(crate) fn place() -> &'static mut MaybeUninit<OpenObject> {
    Box::leak(Box::new(MaybeUninit::uninit()))
}

/// The programs of an object, each with its section, which names what the program requires (`tp_btf/sched_switch`). `what` is for errors.
pub(crate) fn sections(
    builder: impl SkelBuilder<'static>,
    what: &'static str,
) -> Result<Vec<(String, String)>, ProbeError> {
    let open = builder.open(place()).map_err(|error| ProbeError::bpf(what, error))?;
    let named = open.open_object().progs().map(|program| {
        (program.name().to_string_lossy().into_owned(), program.section().to_string_lossy().into_owned())
    });
    Ok(named.collect())
}

/// Programs at work. The links go before the programs.
pub(crate) struct Attached<S> {
    /// As long as they live, the programs run.
    pub(crate) links: Vec<Link>,
    /// Their object.
    pub(crate) skeleton: S,
    /// The programs that the kernel neither loaded nor attached.
    pub(crate) refused: Vec<Refused>,
}

/// Loads and attaches an object with as many of its programs as the kernel takes.
///
/// `wanted` says which programs are to be loaded without those that were refused so far: what is nothing without one of
/// these goes with it. `open` opens the object for these programs, without those that were refused so far. `step` is for errors. `prepare` writes
/// what the programs need before the first of them runs; it is called anew for each object. `order` gives those that are to be attached, in
/// order, of those that were loaded.
pub(crate) fn what_attaches<O: OpenSkel<'static, Output: Skel<'static>>>(
    step: &str,
    wanted: impl Fn(&[Refused]) -> BTreeSet<String>,
    open: impl Fn(&BTreeSet<String>, &[Refused]) -> libbpf_rs::Result<O>,
    prepare: impl Fn(&mut O::Output) -> Result<(), ProbeError>,
    order: impl Fn(&BTreeSet<String>) -> Vec<String>,
) -> Result<Attached<O::Output>, ProbeError> {
    let mut refused = Vec::new();
    loop {
        let (mut skeleton, so_far) = load_without(step, refused, &wanted, &open)?;
        refused = so_far;
        prepare(&mut skeleton)?;
        let names = order(&left_of(wanted(&refused), &refused));
        let (links, more) = attach(&mut skeleton, &names)?;
        if more.is_empty() {
            return Ok(Attached { links, skeleton, refused });
        }
        refused.extend(more);
    }
}

/// A probe, as its loader sees it. Each says in the same shape what it needs and what follows where that is not there.
pub(crate) trait Probe {
    /// Its object, opened.
    type Open: OpenSkel<'static, Output: Skel<'static>>;
    /// What is tried, for errors.
    const LOADING: &'static str;

    /// The programs that this kernel has what they require for, without those that it refused and those that are nothing without
    /// one of these.
    fn programs(&self, refused: &[Refused]) -> BTreeSet<String>;

    /// Opens the object for these programs, without those that were refused so far, and tells it what it is for.
    fn open(&self, programs: &BTreeSet<String>, refused: &[Refused]) -> libbpf_rs::Result<Self::Open>;

    /// Writes what the programs need before the first of them runs; called anew for each object that is loaded.
    fn prepare(&self, _skeleton: &mut <Self::Open as OpenSkel<'static>>::Output) -> Result<(), ProbeError> {
        Ok(())
    }

    /// Which of the programs that were loaded are attached, in order.
    fn attach(&self, loaded: &BTreeSet<String>) -> Vec<String> {
        loaded.iter().cloned().collect()
    }

    /// What is not seen on this kernel, without these programs and at all.
    fn missing(&self, refused: &[Refused]) -> Vec<Missing>;
}

/// A probe at work. The links go before the programs.
pub(crate) struct Running<S> {
    /// As long as they live, the programs run.
    pub(crate) links: Vec<Link>,
    /// Their object.
    pub(crate) skeleton: S,
    /// What is not seen.
    pub(crate) missing: Vec<Missing>,
}

/// Loads and attaches a probe with as many of its programs as the kernel takes.
pub(crate) fn start<P: Probe>(
    probe: &P,
) -> Result<Running<<P::Open as OpenSkel<'static>>::Output>, ProbeError> {
    let Attached { links, skeleton, refused } = attached(probe)?;
    Ok(Running { links, skeleton, missing: probe.missing(&refused) })
}

/// As [`start`], for who wants to know which programs were refused.
pub(crate) fn attached<P: Probe>(
    probe: &P,
) -> Result<Attached<<P::Open as OpenSkel<'static>>::Output>, ProbeError> {
    what_attaches(
        P::LOADING,
        |refused| probe.programs(refused),
        |programs, refused| probe.open(programs, refused),
        |skeleton| probe.prepare(skeleton),
        |loaded| probe.attach(loaded),
    )
}

fn left_of(mut programs: BTreeSet<String>, refused: &[Refused]) -> BTreeSet<String> {
    programs.retain(|name| refused.iter().all(|one| one.program != *name));
    programs
}

/// Attaches as many as the kernel lets, and gives the others. Where it lets none for want of permission, that is no matter of programs.
fn attach<'a>(
    skeleton: &mut impl Skel<'a>,
    names: &[String],
) -> Result<(Vec<Link>, Vec<Refused>), ProbeError> {
    let (mut links, mut refused) = (Vec::new(), Vec::new());
    let mut not_permitted = None;
    for name in names {
        let mut programs = skeleton.object_mut().progs_mut();
        let Some(program) = programs.find(|program| program.name() == name.as_str()) else { continue };
        #[cfg(test)]
        spoilt::spoil(&program);
        let (link, said) = log::capture(|| program.attach());
        match link {
            Ok(link) => links.push(link),
            Err(error) => {
                let why = format!("{} ({error})", log::gist(&said));
                refused.push(Refused { program: name.clone(), step: Step::Attach, why });
                not_permitted =
                    (error.kind() == ErrorKind::PermissionDenied).then_some(error).or(not_permitted);
            }
        }
    }
    match not_permitted {
        Some(error) if links.is_empty() => Err(ProbeError::bpf("attaching the programs", error)),
        _ => Ok((links, refused)),
    }
}

/// Loads as many as the kernel takes, without those that were refused before.
fn load_without<O: OpenSkel<'static>>(
    step: &str,
    mut refused: Vec<Refused>,
    wanted: &impl Fn(&[Refused]) -> BTreeSet<String>,
    open: &impl Fn(&BTreeSet<String>, &[Refused]) -> libbpf_rs::Result<O>,
) -> Result<(O::Output, Vec<Refused>), ProbeError> {
    loop {
        let programs = left_of(wanted(&refused), &refused);
        if let (true, Some(_)) = (programs.is_empty(), refused.first()) {
            let all: Vec<String> = refused.iter().map(Refused::reason).collect();
            return Err(ProbeError::NothingToSee(all.join("; ")));
        }
        let open = |programs: &BTreeSet<String>| open(programs, &refused);
        match attempt(&open, &programs) {
            Attempt::Loaded(skeleton) => return Ok((skeleton, refused)),
            Attempt::Without(more) => refused.extend(more),
            Attempt::Failed(source, said) => {
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
        Attempt::Loaded(_) => None,
        Attempt::Without(refused) => refused.into_iter().next(),
        Attempt::Failed(error, said) => {
            let why = format!("{} ({error})", log::gist(&said));
            Some(Refused { program: name.to_owned(), step: Step::Load, why })
        }
    }
}

fn attempt<O: OpenSkel<'static>>(
    open: &impl Fn(&BTreeSet<String>) -> libbpf_rs::Result<O>,
    programs: &BTreeSet<String>,
) -> Attempt<O::Output> {
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
        Ok(skeleton) => return Attempt::Loaded(skeleton),
        Err(error) => error,
    };
    let of_program = |(program, log): (String, Vec<u8>)| {
        let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
        let text = String::from_utf8_lossy(&log[..end]);
        let why = format!("{} ({error})", log::gist(&text));
        (!text.is_empty()).then_some(Refused { program, step: Step::Load, why })
    };
    let refused: Vec<Refused> = logs.into_iter().filter_map(of_program).collect();
    if refused.is_empty() { Attempt::Failed(error, said) } else { Attempt::Without(refused) }
}

/// For tests: programs that the kernel is made to refuse where they are attached.
#[cfg(test)]
pub(crate) mod spoilt {
    use std::cell::RefCell;
    use std::fs::File;
    use std::os::fd::{AsFd, AsRawFd};

    thread_local! {
        static NAMES: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
    }

    /// While `run` runs in this thread, these programs are loaded and are none when they come to be attached.
    pub(crate) fn with<T>(names: &[&'static str], run: impl FnOnce() -> T) -> T {
        NAMES.set(names.to_vec());
        let result = run();
        NAMES.take();
        result
    }

    pub(super) fn spoil(program: &libbpf_rs::ProgramMut<'_>) {
        if NAMES.with_borrow(|names| names.iter().any(|name| program.name() == *name)) {
            let nothing = File::open("/dev/null").unwrap();
            // SAFETY: both are open; the program's descriptor stays one, of a file that is no program.
            let spoilt = unsafe { libc::dup2(nothing.as_raw_fd(), program.as_fd().as_raw_fd()) };
            assert!(spoilt >= 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, AsRawFd};

    use super::*;
    use crate::observe::skel::{ObserveSkelBuilder, OpenObserveSkel};

    const PROGRAMS: [&str; 4] =
        ["block_rq_complete", "workqueue_execute_start", "hrtimer_expire_entry", "softirq_raise"];

    fn without(refused: &[Refused]) -> BTreeSet<String> {
        let kept = PROGRAMS.into_iter().filter(|name| refused.iter().all(|one| one.program != *name));
        kept.map(str::to_owned).collect()
    }

    fn loads(spoil: impl Fn(&mut OpenObserveSkel<'static>)) -> (Vec<String>, Vec<Refused>) {
        let open = |_: &BTreeSet<String>, _: &[Refused]| {
            let mut open = ObserveSkelBuilder::default().open(place())?;
            spoil(&mut open);
            Ok(open)
        };
        let (skeleton, refused) = load_without("loading for a test", Vec::new(), &without, &open).unwrap();
        let there = skeleton.object().progs().filter(|program| program.as_fd().as_raw_fd() >= 0);
        let mut there: Vec<String> =
            there.map(|program| program.name().to_string_lossy().into_owned()).collect();
        there.sort();
        (there, refused)
    }

    #[test]
    fn live_programs_that_the_verifier_refuses_take_no_other_with_them() {
        // Two programs write who was worst, which is longer than this.
        let (there, refused) = loads(|open| open.maps.worsts.set_value_size(8).unwrap());
        assert_eq!(there, ["hrtimer_expire_entry", "softirq_raise"], "{refused:?}");
        let mut gone: Vec<&str> = refused.iter().map(|one| one.program.as_str()).collect();
        gone.sort_unstable();
        assert_eq!(gone, ["block_rq_complete", "workqueue_execute_start"], "{refused:?}");
        assert!(
            refused.iter().all(|one| one.reason().contains(&one.program) && one.why.len() > 20),
            "{refused:?}"
        );
        let (there, refused) = loads(|_| ());
        assert_eq!((there.len(), refused.len()), (PROGRAMS.len(), 0), "{refused:?}");
    }

    #[test]
    fn live_programs_that_are_not_attached_take_no_other_with_them() {
        let attached = |spoilt: &[&'static str]| {
            let open = |_: &BTreeSet<String>, _: &[Refused]| ObserveSkelBuilder::default().open(place());
            let order = |names: &BTreeSet<String>| names.iter().cloned().collect();
            spoilt::with(spoilt, || what_attaches("loading for a test", without, open, |_| Ok(()), order))
        };
        let whole = attached(&[]).unwrap();
        assert_eq!((whole.links.len(), whole.refused.len()), (PROGRAMS.len(), 0), "{:?}", whole.refused);
        let part = attached(&["softirq_raise"]).unwrap();
        assert_eq!(part.links.len(), PROGRAMS.len() - 1);
        let [refused] = part.refused.as_slice() else { panic!("{:?}", part.refused) };
        assert_eq!((refused.program.as_str(), refused.step), ("softirq_raise", Step::Attach));
        assert!(
            refused.reason().starts_with("this kernel does not attach the program softirq_raise: "),
            "{refused:?}"
        );
        let ProbeError::NothingToSee(why) = attached(&PROGRAMS).err().unwrap() else {
            panic!("all were spoilt")
        };
        assert!(PROGRAMS.iter().all(|name| why.contains(name)), "{why}");
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
