// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a kernel's name to the files that a machine boots.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use latebound_model::PreemptionModel;

use crate::arch::Architecture;
use crate::context::Lab;
use crate::error::LabError;
use crate::name::{Flavour, KernelName, Origin};
use crate::{debian, headers, image, program, traced};

/// A kernel that is here.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// How it was asked for.
    pub name: KernelName,
    /// What it runs on.
    pub architecture: Architecture,
    /// What `uname -r` says in it, where that is known before it boots.
    pub release: Option<String>,
    /// The image to boot.
    pub image: PathBuf,
    /// The kernel that is packed in the image, for machines that would unpack it in emulation.
    pub(crate) unpacked: Option<PathBuf>,
    /// Its configuration, where that lies beside it.
    pub config: Option<PathBuf>,
    /// Its own build folder, where it was built here.
    pub build: Option<PathBuf>,
    /// The folder that `lib/modules` is in, where that is of a package.
    pub(crate) base: Option<PathBuf>,
}

/// More than any configuration of a kernel has, in bytes.
const MAX_CONFIG: u64 = 16 << 20;

/// Makes the kernel of this host's architecture be here: downloads or builds what is missing.
pub fn obtain(lab: &Lab<'_>, name: &KernelName) -> Result<Kernel, LabError> {
    obtain_for(lab, name, Architecture::host())
}

/// Makes the kernel of an architecture be here: downloads or builds what is missing.
pub fn obtain_for(lab: &Lab<'_>, name: &KernelName, of: Architecture) -> Result<Kernel, LabError> {
    if !of.is_host() && matches!(name.origin, Origin::Path(_)) {
        return Err(LabError::Machine(format!(
            "--arch {of}: of another architecture the lab has Debian's kernels and traced ones, not {name}; give debian:6.12-rt or \
             traced:6.12-rt"
        )));
    }
    if let Origin::Debian { version, .. } | Origin::Traced { version, .. } = &name.origin {
        has_model(name, version, None)?;
    }
    let kernel = find(lab, name, of)?;
    let config =
        kernel.config.as_ref().and_then(|config| latebound_files::read_text(config, MAX_CONFIG).ok());
    has_model(name, kernel.release.as_deref().unwrap_or_default(), config.as_deref())?;
    Ok(kernel)
}

/// Refuses a preemption model that a kernel does not know: it would boot with another one and say so only in its log.
fn has_model(name: &KernelName, release: &str, config: Option<&str>) -> Result<(), LabError> {
    let Some(model) = name.preemption else { return Ok(()) };
    let refuse = |why: String| Err(LabError::KernelName { name: name.to_string(), why });
    let version = crate::parsing::numbers(release);
    if model == PreemptionModel::Lazy && version.len() >= 2 && version < vec![6, 13] {
        return refuse(format!(
            "the lazy model came with Linux 6.13, and this is {release}; debian:7@lazy has it"
        ));
    }
    // Such a kernel says "unsupported mode" in its log and takes its own (Linux 7.0, commit 7dadeaa6e851).
    let is_old = matches!(model, PreemptionModel::None | PreemptionModel::Voluntary);
    if is_old
        && version >= vec![7]
        && config.is_some_and(|text| text.contains("CONFIG_ARCH_HAS_PREEMPT_LAZY=y\n"))
    {
        return refuse(format!(
            "since Linux 7.0 a kernel that can be lazy has no other models but full and lazy, and this is {release}; \
             debian:6.12 has the older ones"
        ));
    }
    let lacks = |option: &str| config.is_some_and(|text| !text.lines().any(|line| line == option));
    if lacks("CONFIG_PREEMPT_DYNAMIC=y") {
        return refuse(format!(
            "{release} is built with one preemption model (no CONFIG_PREEMPT_DYNAMIC); leave the @ out"
        ));
    }
    Ok(())
}

fn find(lab: &Lab<'_>, name: &KernelName, of: Architecture) -> Result<Kernel, LabError> {
    match &name.origin {
        Origin::Debian { version, rt } => {
            let package = debian::image_package(lab, of, version, *rt)?;
            packaged(lab, name, of, &debian::image(lab, of, &package)?)
        }
        Origin::Traced { version, flavour } => {
            from_build(name, of, &traced::build(lab, of, version, *flavour)?)
        }
        Origin::Path(path) => from_path(lab, name, path),
    }
}

/// Says, in a kernel's folder of modules, that it is ready to boot.
const READY: &str = "latebound-ready";

/// What a machine loads while it boots. Distributions pack their modules, and unpacking these six takes an emulated processor
/// as long as a third of the boot.
const BOOT_MODULES: [&str; 9] = [
    "drivers/block",
    "drivers/char",
    "drivers/net",
    "drivers/virtio",
    "fs/9p",
    "fs/netfs",
    "fs/overlayfs",
    "net/9p",
    "net/core",
];

/// Unpacks the modules in a folder itself, not those below it. Where a program for it is missing they stay as they are.
fn unpack_modules(folder: &Path) -> Result<(), LabError> {
    let packed = |extension: &str| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        entries.filter(|path| path.to_string_lossy().ends_with(&format!(".ko.{extension}"))).collect()
    };
    for (extension, unpacker) in [("xz", "xz"), ("zst", "zstd"), ("gz", "gzip")] {
        let files = packed(extension);
        if files.is_empty() || program::find(unpacker).is_none() {
            continue;
        }
        let mut command = Command::new(unpacker);
        command.args(["-d", "-q", "-f"]).args((unpacker == "zstd").then_some("--rm")).args(files);
        program::output("unpack a kernel's modules", &mut command)?;
    }
    Ok(())
}

/// The kernel in an unpacked image package.
fn packaged(
    lab: &Lab<'_>,
    name: &KernelName,
    architecture: Architecture,
    files: &Path,
) -> Result<Kernel, LabError> {
    let boot = files.join("boot");
    let entries = fs::read_dir(&boot).map_err(LabError::io("list", &boot))?;
    let release = entries
        .flatten()
        .find_map(|entry| entry.file_name().to_str()?.strip_prefix("vmlinuz-").map(str::to_owned))
        .ok_or_else(|| {
            LabError::unexpected(files.display().to_string(), "the package has no kernel image")
        })?;
    // Debian 13 and later have /usr/lib/modules in the package itself.
    let base = if files.join("lib/modules").is_dir() { files.to_owned() } else { files.join("usr") };
    let config = Some(boot.join(format!("config-{release}"))).filter(|file| file.is_file());
    let unpacked = boot.join(format!("vmlinux-{release}"));
    let modules = base.join("lib/modules").join(&release);
    let ready = modules.join(READY);
    if !ready.is_file() {
        let _lock = lab.lock(&format!("depmod-{release}"), &release)?;
        if !ready.is_file() {
            lab.progress(&format!("making {release} ready to boot"));
            for folder in BOOT_MODULES {
                unpack_modules(&modules.join("kernel").join(folder))?;
            }
            let depmod = program::find("depmod").unwrap_or_else(|| "depmod".into());
            program::output(
                "index a kernel's modules",
                Command::new(depmod).arg("-b").arg(&base).arg(&release),
            )?;
            // Only with this entry does QEMU take an unpacked kernel.
            let text = config
                .as_ref()
                .and_then(|config| latebound_files::read_text(config, MAX_CONFIG).ok())
                .unwrap_or_default();
            if text.lines().any(|line| line == "CONFIG_PVH=y") {
                image::unpack(&boot.join(format!("vmlinuz-{release}")), &unpacked);
            }
            fs::write(&ready, "").map_err(LabError::io("write", &ready))?;
        }
    }
    Ok(Kernel {
        name: name.clone(),
        architecture,
        base: Some(base),
        image: boot.join(format!("vmlinuz-{release}")),
        unpacked: Some(unpacked).filter(|file| file.is_file()),
        release: Some(release),
        config,
        build: None,
    })
}

/// The kernel in a build folder.
pub(crate) fn from_build(
    name: &KernelName,
    architecture: Architecture,
    folder: &Path,
) -> Result<Kernel, LabError> {
    let image = folder.join(architecture.kernel_image().1);
    if !image.is_file() {
        return Err(LabError::unexpected(
            image.display().to_string(),
            "is not there; build the kernel first",
        ));
    }
    let release = latebound_files::read_text(&folder.join("include/config/kernel.release"), MAX_CONFIG).ok();
    Ok(Kernel {
        name: name.clone(),
        architecture,
        base: None,
        release: release.map(|text| text.trim().to_owned()),
        config: Some(folder.join(".config")).filter(|file| file.is_file()),
        build: Some(folder.to_owned()),
        unpacked: None,
        image,
    })
}

fn from_path(lab: &Lab<'_>, name: &KernelName, path: &Path) -> Result<Kernel, LabError> {
    let path = fs::canonicalize(path).map_err(LabError::io("find the kernel", path))?;
    let host = Architecture::host();
    if path.is_dir() {
        let image = host.kernel_image().1;
        if path.join(image).is_file() {
            return from_build(name, host, &path);
        }
        if !path.join("Kconfig").is_file() || !path.join("Makefile").is_file() {
            return Err(LabError::unexpected(
                path.display().to_string(),
                format!("is neither a built kernel (it has no {image}) nor a kernel's source"),
            ));
        }
        let exact = commit(&path)?;
        let built = traced::build_tree(lab, &path, &exact, (host, Flavour::default()))?;
        return from_build(name, host, &built);
    }
    // What is none is refused now: QEMU would wait for a pipe.
    latebound_files::open(&path).map_err(LabError::io("read the kernel", &path))?;
    let release = image::release(&path);
    let config = release.as_ref().and_then(|release| {
        path.parent().map(|folder| folder.join(format!("config-{release}"))).filter(|file| file.is_file())
    });
    Ok(Kernel {
        name: name.clone(),
        architecture: Architecture::host(),
        release,
        image: path,
        unpacked: None,
        config,
        build: None,
        base: None,
    })
}

/// What a source tree is exactly: a commit without changes.
fn commit(tree: &Path) -> Result<String, LabError> {
    let git = |args: &[&str]| {
        program::output("ask git about a source tree", Command::new("git").arg("-C").arg(tree).args(args))
    };
    let head = git(&["rev-parse", "HEAD"])?;
    if !git(&["status", "--porcelain", "--untracked-files=no"])?.trim().is_empty() {
        return Err(LabError::unexpected(
            tree.display().to_string(),
            "the source has changes that are not committed, so what was built could not be told again; commit them, or \
             build the tree yourself and give it then",
        ));
    }
    Ok(format!("commit {}", head.trim()))
}

/// Where modules for this kernel are built: its own build folder, or its headers from the distribution.
pub(crate) fn module_build_folder(lab: &Lab<'_>, kernel: &Kernel) -> Result<PathBuf, LabError> {
    if let Some(build) = &kernel.build {
        return Ok(build.clone());
    }
    let none = |why: &str| {
        LabError::Machine(format!("a module cannot be built for {}: {why}; leave --module out", kernel.name))
    };
    let (Origin::Debian { .. }, Some(release)) = (&kernel.name.origin, &kernel.release) else {
        return Err(none("its headers are not known"));
    };
    headers::folder(lab, kernel.architecture, release)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preemption_model_that_the_kernel_does_not_know_is_refused() {
        let dynamic = Some("CONFIG_PREEMPT_DYNAMIC=y\n");
        let asked = |name: &str, release: &str, config| has_model(&name.parse().unwrap(), release, config);
        assert!(asked("debian:6.12@full", "6.12.117+deb12-amd64", dynamic).is_ok());
        assert!(asked("debian:6.12", "6.12", Some("")).is_ok());
        assert!(asked("debian:6.13@lazy", "6.13", None).is_ok());
        let new = Some("CONFIG_PREEMPT_DYNAMIC=y\nCONFIG_ARCH_HAS_PREEMPT_LAZY=y\n");
        assert!(asked("debian:7@lazy", "7", None).is_ok(), "which of them is not known yet");
        assert!(asked("debian:7@full", "7.3.4+deb13-amd64", new).is_ok());
        assert!(asked("debian:6.18@none", "6.18", new).is_ok());
        let error = asked("debian:7@none", "7.3.4+deb13-amd64", new).unwrap_err().to_string();
        assert!(error.contains("full and lazy") && error.contains("7.3.4"), "{error}");
        assert!(asked("./linux@lazy", "", dynamic).is_ok(), "of an unknown release nothing is known");
        let error = asked("debian:6.12@lazy", "6.12", None).unwrap_err().to_string();
        assert!(error.contains("Linux 6.13") && error.contains("debian:6.12"), "{error}");
        let error = asked("./linux@none", "5.10.1", Some("CONFIG_PREEMPT=y\n")).unwrap_err().to_string();
        assert!(error.contains("leave the @ out"), "{error}");
    }
}
