// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where this system's kernel events come from: the ladder from BPF to user space alone, which rungs are reached and what the others
//! need. Owns these conditions; never loads a program and never mounts anything, so "reached" means that nothing that can be read stands
//! against it.

use latebound_model::{Rung, RungLevel};

use crate::evidence::{BTF, bpf_refused};
use crate::survey::Survey;

/// Where a file with the kernel's type information is looked for, besides [`BTF`]: the places of libbpf (btf__load_vmlinux_btf(), 1.7), each
/// with the kernel's release between the two parts.
const FILES: [(&str, &str); 7] = [
    ("/boot/vmlinux-", ""),
    ("/lib/modules/", "/vmlinux"),
    ("/lib/modules/", "/build/vmlinux"),
    ("/usr/lib/modules/", "/kernel/vmlinux"),
    ("/usr/lib/debug/boot/vmlinux-", ""),
    ("/usr/lib/debug/boot/vmlinux-", ".debug"),
    ("/usr/lib/debug/lib/modules/", "/vmlinux"),
];

/// Where tracefs is looked for, by what it always has.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Every rung, the highest first. The first that is available is the one on which this system stands.
pub(crate) fn rungs(survey: &Survey<'_>) -> Vec<RungLevel> {
    let refused: Vec<String> = bpf_refused(survey)
        .into_iter()
        .chain(
            (survey.config_is_on("BPF_SYSCALL") == Some(false))
                .then(|| "the kernel is built without CONFIG_BPF_SYSCALL".to_owned()),
        )
        .collect();
    vec![bpf(survey, &refused), btf_file(survey, &refused), tracefs(survey), user()]
}

fn level(rung: Rung, found: Result<String, String>) -> RungLevel {
    let available = found.is_ok();
    RungLevel { rung, available, reason: found.unwrap_or_else(|why| why) }
}

fn has_no_types(survey: &Survey<'_>) -> bool {
    survey.config_is_on("DEBUG_INFO_BTF") == Some(false)
}

fn bpf(survey: &Survey<'_>, refused: &[String]) -> RungLevel {
    let mut against = refused.to_vec();
    match survey.root.open(BTF) {
        Ok(_) => {}
        Err(error) if error.is_absent() && has_no_types(survey) => against.push(format!(
            "the kernel is built without CONFIG_DEBUG_INFO_BTF, so {BTF} is not there; boot a kernel that has it"
        )),
        Err(error) if error.is_absent() => against.push(format!(
            "{BTF} is not there; boot a kernel with CONFIG_DEBUG_INFO_BTF=y, or mount /sys where latebound runs"
        )),
        Err(error) => against.push(error.to_string()),
    }
    level(
        Rung::Bpf,
        match against.is_empty() {
            true => Ok("every verb; programs count in the kernel".to_owned()),
            false => Err(against.join("; ")),
        },
    )
}

fn btf_file(survey: &Survey<'_>, refused: &[String]) -> RungLevel {
    let mut against = refused.to_vec();
    let release = survey.facts.kernel_release.as_deref();
    let places: Vec<String> = release
        .iter()
        .flat_map(|name| FILES.map(|(before, after)| format!("{before}{name}{after}")))
        .collect();
    let found = places.iter().find(|place| survey.root.exists(place));
    if has_no_types(survey) {
        // The kernel compares the types of each program with its own (kernel/bpf/verifier.c, check_attach_btf_id()).
        against.push(
            "the kernel is built without CONFIG_DEBUG_INFO_BTF: it takes none of latebound's programs, whose types it would have to know, \
             whatever file describes it"
                .to_owned(),
        );
    } else if found.is_none() {
        against.push(match places.first() {
            Some(first) => format!(
                "there is none in the places where libbpf looks ({first}, {} others); the kernel's debug package has one",
                places.len() - 1
            ),
            None => "the kernel's release is not known, by which it is named".to_owned(),
        });
    }
    level(
        Rung::BtfFile,
        match (against.is_empty(), found) {
            (true, Some(found)) => Ok(format!(
                "every verb, by {found}, where the kernel has its types and only does not show them"
            )),
            _ => Err(against.join("; ")),
        },
    )
}

fn tracefs(survey: &Survey<'_>) -> RungLevel {
    let lockdown = survey.root.value("/sys/kernel/security/lockdown");
    if lockdown.is_ok_and(|lockdown| lockdown.contains("[confidentiality]")) {
        let why = "the kernel is locked down for confidentiality, which forbids tracefs";
        return level(Rung::Tracefs, Err(why.to_owned()));
    }
    let mut why = format!(
        "tracefs is not mounted; type: mount -t tracefs tracefs {} (it takes CONFIG_FTRACE)",
        TRACEFS[0]
    );
    for folder in TRACEFS {
        match survey.root.names(&format!("{folder}/instances")) {
            Ok(_) => {
                return level(
                    Rung::Tracefs,
                    Ok(format!(
                        "check, observe, explain and bound (an estimate without the events preemptirq), by events that are read from {folder}, at a higher cost"
                    )),
                );
            }
            Err(error) if error.is_denied() => {
                why = format!("{folder} may not be read; run as root");
                break;
            }
            Err(_) => {}
        }
    }
    level(Rung::Tracefs, Err(why))
}

fn user() -> RungLevel {
    level(Rung::User, Ok("measure, and all verbs of files; no causes of late wake-ups".to_owned()))
}
