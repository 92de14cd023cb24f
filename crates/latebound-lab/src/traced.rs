// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernels built from source with our configuration: once for each source, configuration and compiler, taken up again
//! where an earlier build was interrupted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::arch::Architecture;
use crate::context::{Lab, key};
use crate::debian::{self, Source};
use crate::error::LabError;
use crate::folder::{self, Part};
use crate::name::Flavour;
use crate::program::{self, header, program as need};

const COMMON: &str = include_str!("../config/common.config");
const X86_64: &str = include_str!("../config/x86_64.config");
const AARCH64: &str = include_str!("../config/aarch64.config");
const RT: &str = include_str!("../config/rt.config");
const CHECKED: &str = include_str!("../config/checked.config");
const DYNAMIC: &str = include_str!("../config/dynamic.config");

/// Says that a build is whole, and of what.
const DONE: &str = "latebound-built-from";

/// Our configuration for machines of this architecture.
pub(crate) fn fragment(of: Architecture, flavour: Flavour) -> String {
    let machine = match of {
        Architecture::Arm64 => AARCH64,
        Architecture::Amd64 => X86_64,
    };
    let checked = if flavour.checked { CHECKED } else { "" };
    [COMMON, machine, if flavour.rt { RT } else { DYNAMIC }, checked].concat()
}

/// What a fragment asks for and a configuration does not have.
fn not_taken(fragment: &str, config: &str) -> Vec<String> {
    let set: Vec<&str> = config.lines().map(str::trim).filter(|line| line.starts_with("CONFIG_")).collect();
    let wanted = fragment.lines().map(str::trim).filter(|line| line.starts_with("CONFIG_"));
    wanted.filter(|line| !set.contains(line)).map(str::to_owned).collect()
}

/// The unpacked source of a version, from the distribution's package, and what it is exactly.
fn source(lab: &Lab<'_>, version: &str) -> Result<(PathBuf, String), LabError> {
    debian::require_apt("a traced kernel")?;
    let package = format!("linux-source-{version}");
    let exact = format!("{package} {}", debian::candidate(lab, Source::System, &package)?);
    let folder = lab.folder("sources")?.join(exact.replace([' ', ':'], "_"));
    if lab.has(&folder)? {
        return Ok((folder, exact));
    }
    program::require("a kernel's source", &[need("tar", "tar"), need("xz", "xz-utils")])?;
    let _lock = lab.lock(&format!("source-{version}"), &exact)?;
    if lab.has(&folder)? {
        return Ok((folder, exact));
    }
    let files = debian::unpacked(lab, Source::System, &package)?;
    let archive = files.join(format!("usr/src/{package}.tar.xz"));
    let part = Part::make(lab, "sources")?;
    let mut unpack = Command::new("tar");
    unpack.arg("-xf").arg(&archive).arg("-C").arg(part.path()).arg("--strip-components=1");
    let log = lab.folder("sources")?.join(format!("{package}.log"));
    program::logged(lab, "unpack a kernel's source", &mut unpack, &log, || format!("unpacking {exact}"))?;
    part.put(&folder)?;
    // 150 MB that nobody asks for again.
    folder::remove(&files)?;
    Ok((folder, exact))
}

/// A traced kernel's build folder, built where it is not there yet.
pub(crate) fn build(
    lab: &Lab<'_>,
    of: Architecture,
    version: &str,
    flavour: Flavour,
) -> Result<PathBuf, LabError> {
    let (source, exact) = source(lab, version)?;
    build_tree(lab, &source, &exact, (of, flavour))
}

/// Whether a traced kernel of the host's architecture is built, without building or downloading anything.
pub(crate) fn built(lab: &Lab<'_>, version: &str, flavour: Flavour) -> Option<PathBuf> {
    let exact = debian::candidate(lab, Source::System, &format!("linux-source-{version}")).ok()?;
    let inputs = inputs(&format!("linux-source-{version} {exact}"), (Architecture::host(), flavour)).ok()?;
    let folder = lab.cache().join("kernels").join(key(&inputs));
    is_done(&folder, &inputs).then_some(folder)
}

fn inputs(exact: &str, (of, flavour): (Architecture, Flavour)) -> Result<String, LabError> {
    let gcc = of.compiler().what;
    let compiler =
        program::output("ask for the compiler's version", Command::new(gcc).args(["-dumpfullversion"]))?;
    Ok(format!(
        "source: {exact}\nmachine: {}\ncompiler: {gcc} {compiler}{}",
        of.machine(),
        fragment(of, flavour)
    ))
}

/// What a kernel's build is told of the architecture: nothing where it is the host's.
pub(crate) fn make_words(of: Architecture) -> Vec<String> {
    match of.is_host() {
        true => Vec::new(),
        false => vec![format!("ARCH={}", of.of_kernel()), format!("CROSS_COMPILE={}", of.tools_prefix())],
    }
}

fn is_done(folder: &Path, inputs: &str) -> bool {
    fs::read_to_string(folder.join(DONE)).is_ok_and(|found| found == inputs)
}

/// Builds this source with our configuration; `exact` says what the source is.
pub(crate) fn build_tree(
    lab: &Lab<'_>,
    source: &Path,
    exact: &str,
    made: (Architecture, Flavour),
) -> Result<PathBuf, LabError> {
    program::require("building a kernel", &[need("gcc", "gcc"), made.0.compiler(), need("make", "make")])?;
    let folder = lab.folder("kernels")?.join(key(&inputs(exact, made)?));
    build_into(lab, source, exact, made, &folder, Objects::Remove)
}

/// What becomes of the objects of a finished build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Objects {
    /// They go: 700 MB that nobody reads again.
    Remove,
    /// They stay, for the next build in the same folder.
    Keep,
}

/// Builds into this folder; what an earlier build left there is used again.
pub(crate) fn build_into(
    lab: &Lab<'_>,
    source: &Path,
    exact: &str,
    (of, flavour): (Architecture, Flavour),
    folder: &Path,
    objects: Objects,
) -> Result<PathBuf, LabError> {
    program::require("building a kernel", &[need("gcc", "gcc"), of.compiler(), need("make", "make")])?;
    let inputs = inputs(exact, (of, flavour))?;
    let folder = folder.to_owned();
    if is_done(&folder, &inputs) {
        return Ok(folder);
    }
    program::require(
        "building a kernel",
        &[
            need("ld", "binutils"),
            need("flex", "flex"),
            need("bison", "bison"),
            need("bc", "bc"),
            need("perl", "perl"),
            need("cpio", "cpio"),
            need("xz", "xz-utils"),
            need("pahole", "dwarves"),
            need("depmod", "kmod"),
            header("libelf.h", "libelf-dev"),
            header("openssl/ssl.h", "libssl-dev"),
        ],
    )?;
    let _lock = lab.lock(&format!("kernel-{}", key(&folder.display().to_string())), exact)?;
    if is_done(&folder, &inputs) {
        return Ok(folder);
    }
    fs::create_dir_all(&folder).map_err(LabError::io("make the folder", &folder))?;
    let log = folder.join("build.log");
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let make = || {
        let mut make = Command::new("nice");
        make.args(["-n", "10", "make", "-C"]).arg(source).arg(format!("O={}", folder.display()));
        make.args(make_words(of));
        // The kernel's own make is not told of jobs or flags of a make that runs us.
        make.env_remove("MAKEFLAGS").env_remove("MFLAGS").env_remove("MAKELEVEL");
        make
    };
    let wanted = fragment(of, flavour);
    let fragment_file = folder.join("latebound.config");
    fs::write(&fragment_file, &wanted).map_err(LabError::io("write", &fragment_file))?;
    let say = |text: &str| {
        let text = format!("{exact}: {text}");
        move || text.clone()
    };
    program::logged(lab, "configure a kernel", make().arg("tinyconfig"), &log, say("configuring"))?;
    let mut merge = Command::new(source.join("scripts/kconfig/merge_config.sh"));
    merge.args(["-m", "-O"]).arg(&folder).arg(folder.join(".config")).arg(&fragment_file).current_dir(source);
    program::logged(lab, "configure a kernel", &mut merge, &log, say("configuring"))?;
    program::logged(lab, "configure a kernel", make().arg("olddefconfig"), &log, say("configuring"))?;
    let config_file = folder.join(".config");
    let config = fs::read_to_string(&config_file).map_err(LabError::io("read", &config_file))?;
    let lost = not_taken(&wanted, &config);
    if !lost.is_empty() {
        return Err(LabError::unexpected(
            format!("the configuration of {exact}"),
            format!(
                "the kernel's build refused {} (the fragment is {}); this source needs another fragment",
                lost.join(", "),
                fragment_file.display()
            ),
        ));
    }
    let started = Instant::now();
    let lines_before = lines(&log);
    let progress = || {
        let seconds = started.elapsed().as_secs();
        let steps = lines(&log).saturating_sub(lines_before);
        format!(
            "building {exact}{}{}{}: {steps} steps, {}:{:02}",
            if of.is_host() { String::new() } else { format!(" for {of}") },
            if flavour.rt { " with PREEMPT_RT" } else { "" },
            if flavour.checked { " and checks" } else { "" },
            seconds / 60,
            seconds % 60
        )
    };
    program::logged(
        lab,
        "build a kernel",
        make().arg(format!("-j{jobs}")).arg(of.kernel_image().0),
        &log,
        progress,
    )?;
    // Modules are built against what is kept: configuration, headers, scripts and the symbols that vmlinux exports.
    program::logged(
        lab,
        "build a kernel",
        make().arg("modules_prepare"),
        &log,
        say("preparing for modules"),
    )?;
    let symvers = folder.join("vmlinux.symvers");
    if symvers.is_file() {
        let target = folder.join("Module.symvers");
        fs::copy(&symvers, &target).map_err(LabError::io("write", &target))?;
    }
    let done = folder.join(DONE);
    fs::write(&done, &inputs).map_err(LabError::io("write", &done))?;
    if objects == Objects::Remove {
        remove_intermediate(&folder);
    }
    Ok(folder)
}

fn lines(file: &Path) -> usize {
    fs::read(file).map_or(0, |bytes| bytes.iter().filter(|&&byte| byte == b'\n').count())
}

/// Removes what only a build needs: 700 MB of objects. Not those of scripts and tools, which module builds run.
fn remove_intermediate(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type();
        if kind.as_ref().is_ok_and(fs::FileType::is_dir) {
            if name != "scripts" && name != "tools" {
                remove_intermediate(&path);
            }
        } else if kind.is_ok_and(|kind| kind.is_file())
            && (name.ends_with(".o") || name.ends_with(".a") || name.starts_with(".tmp_vmlinux"))
        {
            let _ = fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_that_did_not_land_is_named() {
        let config = "CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=m\n";
        assert_eq!(
            not_taken("# why\nCONFIG_A=y\nCONFIG_B=y\nCONFIG_C=y\n", config),
            ["CONFIG_B=y", "CONFIG_C=y"]
        );
    }

    #[test]
    fn every_option_is_set_once_and_flavours_differ_in_preemption_and_checks() {
        let flavours = [(false, false), (true, false), (false, true), (true, true)];
        for (of, (rt, checked)) in [Architecture::Amd64, Architecture::Arm64]
            .into_iter()
            .flat_map(|of| flavours.map(|one| (of, one)))
        {
            let flavour = Flavour { rt, checked };
            let text = fragment(of, flavour);
            let options: Vec<&str> = text.lines().filter(|line| line.starts_with("CONFIG_")).collect();
            for (at, option) in options.iter().enumerate() {
                let name = option.split('=').next().unwrap();
                assert!(options[..at].iter().all(|other| other.split('=').next() != Some(name)), "{option}");
            }
            assert_eq!(options.contains(&"CONFIG_PREEMPT_RT=y"), rt);
            assert_eq!(options.contains(&"CONFIG_PREEMPT_DYNAMIC=y"), !rt);
            assert_eq!(options.contains(&"CONFIG_KASAN=y"), checked);
            assert!(
                options.contains(&"CONFIG_PREEMPT_TRACER=y") && options.contains(&"CONFIG_IRQSOFF_TRACER=y")
            );
        }
    }
}
