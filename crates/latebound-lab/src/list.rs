// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which kernels are here, which can be had, and what each can show. Downloads and builds nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use latebound_model::{Evidence, EvidenceLevel};
use schemars::JsonSchema;
use serde::Serialize;

use crate::arch::Architecture;
use crate::archive;
use crate::context::Lab;
use crate::debian::{self, Source};
use crate::error::LabError;
use crate::name::Flavour;
use crate::{parsing, traced};

/// A kernel that can be named.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Listed {
    /// Its name for `--kernel`.
    pub name: String,
    /// Whether it is here already.
    pub here: bool,
    /// What it is exactly: the package and its version, or the source.
    pub what: String,
    /// What it can show, by its configuration; empty where that is not known before it is downloaded.
    pub evidence: Vec<EvidenceLevel>,
}

/// The kernels, by name.
pub fn kernels(lab: &Lab<'_>) -> Result<Vec<Listed>, LabError> {
    let mut found: BTreeMap<(Vec<u64>, String), Listed> = BTreeMap::new();
    let mut add = |listed: Listed| {
        found.entry((parsing::numbers(&listed.name), listed.name.clone())).or_insert(listed);
    };
    let host = Architecture::host();
    // The system's suites first: that is where a name is looked for first.
    let archive = archive::is_here(lab, host)?.then_some(Source::Archive(host));
    for source in [Source::System].into_iter().chain(archive) {
        let images = debian::package_names(lab, source, "linux-image-")?;
        for (name, package) in parsing::newest_images(&images, host.debian()) {
            let Ok(version) = debian::candidate(lab, source, &package) else { continue };
            let folder = lab.cache().join("packages").join(debian::folder_name(source, &package, &version));
            let release = package.trim_start_matches("linux-image-");
            let config = fs::read_to_string(folder.join(format!("boot/config-{release}"))).ok();
            add(Listed {
                name,
                here: folder.is_dir(),
                what: format!("package {package} {version}"),
                evidence: config.map(|config| by_configuration(&config, release)).unwrap_or_default(),
            });
        }
    }
    for package in debian::package_names(lab, Source::System, "linux-source-")? {
        let Some(version) = package.strip_prefix("linux-source-").filter(|version| version.contains('.'))
        else {
            continue;
        };
        let Ok(exact) = debian::candidate(lab, Source::System, &package) else { continue };
        // PREEMPT_RT is in the kernel itself from 6.12 on.
        let flavours = [(false, false), (true, false), (false, true), (true, true)]
            .map(|(rt, checked)| Flavour { rt, checked })
            .into_iter()
            .filter(|flavour| !flavour.rt || parsing::numbers(version) >= vec![6, 12]);
        for flavour in flavours {
            let folder = traced::built(lab, version, flavour);
            let config = folder.as_ref().and_then(|folder| fs::read_to_string(folder.join(".config")).ok());
            add(Listed {
                name: flavour.name(version),
                here: folder.is_some(),
                what: format!("built from {package} {exact}"),
                evidence: by_configuration(&config.unwrap_or_else(|| expected(flavour)), version),
            });
        }
    }
    let mut all: Vec<Listed> = found.into_values().collect();
    all.extend(on_host());
    Ok(all)
}

/// What a traced kernel's configuration will have that is not in the fragment because Kconfig selects it.
fn expected(flavour: Flavour) -> String {
    traced::fragment(Architecture::host(), flavour)
        + "CONFIG_PREEMPTIRQ_TRACEPOINTS=y\nCONFIG_TRACEPOINTS=y\n"
}

fn on_host() -> Vec<Listed> {
    let Ok(entries) = fs::read_dir("/boot") else { return Vec::new() };
    let mut images: Vec<(PathBuf, String)> = entries
        .flatten()
        .filter_map(|entry| {
            let release = entry.file_name().to_str()?.strip_prefix("vmlinuz-")?.to_owned();
            Some((entry.path(), release))
        })
        .collect();
    images.sort();
    let listed = |(path, release): (PathBuf, String)| {
        let config = fs::read_to_string(format!("/boot/config-{release}")).ok();
        Listed {
            name: path.display().to_string(),
            here: true,
            evidence: config.map(|config| by_configuration(&config, &release)).unwrap_or_default(),
            what: format!("installed on this system, {release}"),
        }
    };
    images.into_iter().map(listed).collect()
}

/// What a kernel can show, by its configuration and release: what a running one proves by its trace points.
fn by_configuration(config: &str, release: &str) -> Vec<EvidenceLevel> {
    let on = |option: &str| config.lines().any(|line| line.trim() == format!("CONFIG_{option}=y"));
    let lacks = |options: &[&str]| -> Vec<String> {
        options.iter().filter(|option| !on(option)).map(|option| format!("CONFIG_{option}")).collect()
    };
    let level = |evidence, missing: Vec<String>, good: &str| EvidenceLevel {
        evidence,
        available: missing.is_empty(),
        reason: if missing.is_empty() { good.to_owned() } else { format!("needs {}", missing.join(", ")) },
    };
    let events = lacks(&["BPF_SYSCALL", "DEBUG_INFO_BTF", "PERF_EVENTS"]);
    let mut scheduler = events.clone();
    if parsing::numbers(release) < vec![6, 16] {
        scheduler.push("kernel 6.16 or later".to_owned());
    }
    let mut bound = events.clone();
    bound.extend(lacks(&["PREEMPT_RT", "PREEMPT_TRACER", "IRQSOFF_TRACER"]));
    vec![
        level(Evidence::User, Vec::new(), "measured wake-up latency"),
        level(Evidence::Events, events, "activations of every mechanism, and the causes of late ones"),
        level(
            Evidence::Scheduler,
            scheduler,
            "blocking split into \"preemption off\" and \"scheduler\", as observed",
        ),
        level(Evidence::Bound, bound, "a bound in the sense of Theorem 8, as long as nothing is lost"),
    ]
}

/// The list as text.
pub fn table(kernels: &[Listed]) -> String {
    let width = kernels.iter().map(|kernel| kernel.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for kernel in kernels {
        let best = kernel
            .evidence
            .iter()
            .filter(|level| level.available)
            .map(|level| level.evidence.name())
            .next_back();
        let shows = best.map_or("known when it is here".to_owned(), |best| format!("shows {best}"));
        let here = if kernel.here { "here     " } else { "can be had" };
        text += &format!("{:<width$}  {here:<10}  {shows:<21}  {}\n", kernel.name, kernel.what);
    }
    text + "\nA PREEMPT_DYNAMIC kernel is booted with another preemption model by @none, @voluntary or @full, from 6.13 on also by @lazy;\n\
            from 7.0 on by @full and @lazy alone. Debian's archive has more, such as debian:5.10 and debian:7.\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn available(config: &str, release: &str) -> Vec<Evidence> {
        by_configuration(config, release).into_iter().filter(|l| l.available).map(|l| l.evidence).collect()
    }

    #[test]
    fn what_a_kernel_can_show_follows_from_its_configuration() {
        let stock = "CONFIG_BPF_SYSCALL=y\nCONFIG_DEBUG_INFO_BTF=y\nCONFIG_PERF_EVENTS=y\n";
        assert_eq!(available("", "6.12"), [Evidence::User]);
        assert_eq!(available(stock, "6.12.117+deb12-amd64"), [Evidence::User, Evidence::Events]);
        assert_eq!(available(stock, "6.16.1"), [Evidence::User, Evidence::Events, Evidence::Scheduler]);
        assert_eq!(
            available(&expected(Flavour::traced(true)), "6.12"),
            [Evidence::User, Evidence::Events, Evidence::Bound]
        );
        assert_eq!(available(&expected(Flavour::traced(false)), "6.12"), [Evidence::User, Evidence::Events]);
    }
}
