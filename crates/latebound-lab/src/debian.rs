// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packages of the distribution, downloaded and unpacked into the cache. Never installs anything on the host, and never
//! writes outside of the cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::context::{Lab, key};
use crate::error::LabError;
use crate::program;

/// What apt and dpkg call this machine.
pub(crate) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

pub(crate) fn require_apt(purpose: &str) -> Result<(), LabError> {
    use program::program as need;
    program::require(
        purpose,
        &[need("apt-get", "apt"), need("apt-cache", "apt"), need("dpkg-deb", "dpkg"), need("depmod", "kmod")],
    )
}

/// Everything that apt's answers come from: the lists, what is installed, and how sources and versions are chosen.
const ANSWERS_FROM: [&str; 9] = [
    "/var/lib/apt/lists",
    "/var/lib/dpkg/status",
    "/etc/apt",
    "/etc/apt/apt.conf.d",
    "/etc/apt/preferences",
    "/etc/apt/preferences.d",
    "/etc/apt/sources.list",
    "/etc/apt/sources.list.d",
    "/var/lib/dpkg/arch",
];

/// What apt says. Each question takes it half a second or more, so an answer is kept until anything that it comes from
/// changes.
fn asked(lab: &Lab<'_>, doing: &str, question: &[&str]) -> Result<String, LabError> {
    let changed = |path: &&str| fs::metadata(path).and_then(|about| about.modified()).ok();
    let stamp = format!("{question:?} {:?}\n", ANSWERS_FROM.iter().map(changed).collect::<Vec<_>>());
    let kept = lab.folder("apt")?.join(key(&question.join(" ")));
    let known = fs::read_to_string(&kept).ok();
    if let Some(answer) = known.as_ref().and_then(|text| text.strip_prefix(&stamp)) {
        return Ok(answer.to_owned());
    }
    let answer = program::output(doing, Command::new("apt-cache").args(question).env("LC_ALL", "C"))?;
    // By renaming, so that another process reads the old answer or the new one. One that cannot be kept is asked for again.
    let part = kept.with_extension(std::process::id().to_string());
    let _ = fs::write(&part, stamp + &answer).and_then(|()| fs::rename(&part, &kept));
    Ok(answer)
}

/// The image package of a version and flavour, newest first where several would do.
pub(crate) fn image_package(lab: &Lab<'_>, version: &str, rt: bool) -> Result<String, LabError> {
    let flavour = if rt { "rt-" } else { "" };
    let wanted = format!("linux-image-{version}-{flavour}{}", architecture());
    let names = package_names(lab, "linux-image-")?;
    if let Some(exact) = names.iter().find(|name| **name == wanted) {
        return resolve_metapackage(lab, exact);
    }
    choose_image(&names, version, rt, architecture()).ok_or(LabError::NoPackage { package: wanted })
}

/// A metapackage is followed to the package that it depends on.
fn resolve_metapackage(lab: &Lab<'_>, package: &str) -> Result<String, LabError> {
    let text = asked(lab, "ask apt what a kernel package needs", &["depends", "--important", package])?;
    let real = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .find(|name| name.starts_with("linux-image-"));
    Ok(real.unwrap_or(package).to_owned())
}

/// Every package name that begins so.
pub(crate) fn package_names(lab: &Lab<'_>, prefix: &str) -> Result<Vec<String>, LabError> {
    require_apt("a kernel of the distribution")?;
    let text = asked(lab, "list apt's packages", &["pkgnames", prefix])?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// The parts of an image package's name: version and flavour (`""`, `rt`), for signed images of this architecture.
pub(crate) fn image_name<'a>(package: &'a str, architecture: &str) -> Option<(&'a str, &'a str)> {
    let rest = package.strip_prefix("linux-image-")?.strip_suffix(architecture)?.strip_suffix('-')?;
    let (version, flavour) = match rest.strip_suffix("-rt") {
        Some(version) => (version, "rt"),
        None => (rest, ""),
    };
    let odd = ["cloud", "unsigned", "dbg", "powerpc", "16k"].iter().any(|word| version.contains(word));
    (version.starts_with(|c: char| c.is_ascii_digit()) && !odd).then_some((version, flavour))
}

/// The newest image whose version begins with this one: `6.1` finds `6.1.0-56`.
fn choose_image(names: &[String], version: &str, rt: bool, architecture: &str) -> Option<String> {
    let fits = |name: &&String| {
        image_name(name, architecture).is_some_and(|(found, flavour)| {
            (flavour == "rt") == rt
                && found.strip_prefix(version).is_some_and(|rest| rest.starts_with(['.', '-', '+']))
        })
    };
    names.iter().filter(fits).max_by_key(|name| numbers(name)).cloned()
}

/// The numbers in a version, to compare by.
pub(crate) fn numbers(text: &str) -> Vec<u64> {
    text.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

/// The version of a package that apt would install.
pub(crate) fn candidate(lab: &Lab<'_>, package: &str) -> Result<String, LabError> {
    let text = asked(lab, "ask apt for a version", &["policy", package])?;
    text.lines()
        .find_map(|line| line.trim().strip_prefix("Candidate: "))
        .filter(|version| *version != "(none)")
        .map(str::to_owned)
        .ok_or_else(|| LabError::NoPackage { package: package.to_owned() })
}

/// The folder with a package's files, unpacked once.
pub(crate) fn unpacked(lab: &Lab<'_>, package: &str) -> Result<PathBuf, LabError> {
    let version = candidate(lab, package)?;
    let name = format!("{package}_{}", version.replace(':', "%3a"));
    let folder = lab.folder("packages")?.join(&name);
    if folder.is_dir() {
        return Ok(folder);
    }
    let _lock = lab.lock(&format!("package-{name}"), package)?;
    if folder.is_dir() {
        return Ok(folder);
    }
    let part = lab.folder("packages")?.join(format!(".{name}.part"));
    remove(&part)?;
    fs::create_dir_all(&part).map_err(LabError::io("make the folder", &part))?;
    let log = part.join("apt.log");
    // As root, apt downloads as the user _apt, who may not write here, and warns that it then does so as root.
    let mut download = Command::new("apt-get");
    download
        .args(["-q", "-o", "APT::Sandbox::User=root", "download", &format!("{package}={version}")])
        .current_dir(&part);
    program::logged(lab, "download a package", &mut download, &log, || {
        format!("downloading {package} {version}")
    })?;
    let archive = fs::read_dir(&part)
        .map_err(LabError::io("list", &part))?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .ok_or_else(|| {
            LabError::unexpected(package, "apt-get downloaded nothing; type `apt-get update` and try again")
        })?;
    let files = part.join("files");
    let mut unpack = Command::new("dpkg-deb");
    unpack.arg("-x").arg(&archive).arg(&files);
    program::logged(lab, "unpack a package", &mut unpack, &log, || format!("unpacking {package} {version}"))?;
    fs::rename(&files, &folder).map_err(LabError::io("put in its place", &folder))?;
    remove(&part)?;
    Ok(folder)
}

/// Removes a folder and all that is in it; a folder that is not there is fine.
pub(crate) fn remove(path: &Path) -> Result<(), LabError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(LabError::Io { doing: "remove", path: path.to_owned(), source: error })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        [
            "linux-image-6.1.0-9-amd64",
            "linux-image-6.1.0-56-amd64",
            "linux-image-6.1.0-57-amd64-unsigned",
            "linux-image-6.1.0-56-rt-amd64",
            "linux-image-6.1.0-56-cloud-amd64",
            "linux-image-6.12.117+deb12-amd64",
            "linux-image-6.12.9+deb12-amd64",
            "linux-image-amd64",
        ]
        .map(str::to_owned)
        .to_vec()
    }

    #[test]
    fn a_short_version_means_the_newest_image_that_begins_with_it() {
        let choose = |version, rt| choose_image(&names(), version, rt, "amd64");
        assert_eq!(choose("6.1", false).as_deref(), Some("linux-image-6.1.0-56-amd64"));
        assert_eq!(choose("6.1", true).as_deref(), Some("linux-image-6.1.0-56-rt-amd64"));
        assert_eq!(choose("6.12", false).as_deref(), Some("linux-image-6.12.117+deb12-amd64"));
        assert_eq!(choose("6.12", true), None);
        assert_eq!(choose("6", false).as_deref(), Some("linux-image-6.12.117+deb12-amd64"));
    }

    #[test]
    fn cloud_debug_and_unsigned_images_are_not_kernels_to_choose() {
        assert_eq!(image_name("linux-image-6.1.0-56-cloud-amd64", "amd64"), None);
        assert_eq!(image_name("linux-image-6.1.0-57-amd64-unsigned", "amd64"), None);
        assert_eq!(image_name("linux-image-amd64", "amd64"), None);
        assert_eq!(image_name("linux-image-6.12-rt-amd64", "amd64"), Some(("6.12", "rt")));
    }
}
