// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packages of the distribution, downloaded and unpacked into the cache. Never installs anything on the host, and never
//! writes outside of the cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::arch::Architecture;
use crate::context::{Lab, key};
use crate::error::LabError;
use crate::folder::Part;
use crate::{archive, parsing, program};

/// Where packages come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// What apt is set up for on this system.
    System,
    /// Debian's archive, for kernels that the system's suites do not have, and for all packages of another architecture.
    Archive(Architecture),
}

/// Lists of the archive that lack something are fetched anew when they are older.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

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

fn apt(lab: &Lab<'_>, source: Source, program: &str) -> Result<Command, LabError> {
    match source {
        Source::System => Ok(Command::new(program)),
        Source::Archive(of) => archive::command(lab, of, program),
    }
}

/// What apt says. Each question takes it half a second or more, so an answer is kept until anything that it comes from
/// changes.
fn asked(lab: &Lab<'_>, source: Source, doing: &str, question: &[&str]) -> Result<String, LabError> {
    let changed = |path: &&str| fs::metadata(path).and_then(|about| about.modified()).ok();
    let from = match source {
        Source::System => format!("{:?}", ANSWERS_FROM.iter().map(changed).collect::<Vec<_>>()),
        Source::Archive(of) => archive::stamp(lab, of)?,
    };
    let stamp = format!("{question:?} {from}\n");
    let kept = lab.folder("apt")?.join(key(&format!("{source:?} {}", question.join(" "))));
    let known = fs::read_to_string(&kept).ok();
    if let Some(answer) = known.as_ref().and_then(|text| text.strip_prefix(&stamp)) {
        return Ok(answer.to_owned());
    }
    let answer = program::output(doing, apt(lab, source, "apt-cache")?.args(question).env("LC_ALL", "C"))?;
    // Whole or not at all, so that another process reads the old answer or the new one. One that cannot be kept is asked for again.
    let _ = latebound_files::write_in_memory(&kept, stamp + &answer);
    Ok(answer)
}

/// Looks in the system's suites, and then in the archive's, whose lists are fetched anew where that may help. The system's suites are
/// of its own architecture.
fn look<T>(
    lab: &Lab<'_>,
    of: Architecture,
    find: impl Fn(Source) -> Result<Option<T>, LabError>,
) -> Result<Option<(Source, T)>, LabError> {
    if of.is_host()
        && let Some(found) = find(Source::System)?
    {
        return Ok(Some((Source::System, found)));
    }
    archive::ready(lab, of)?;
    let archive = Source::Archive(of);
    let mut found = find(archive)?;
    if found.is_none() && archive::refresh(lab, of, DAY)? {
        found = find(archive)?;
    }
    Ok(found.map(|found| (archive, found)))
}

/// The image package of a version and flavour, newest first where several would do.
pub(crate) fn image_package(
    lab: &Lab<'_>,
    of: Architecture,
    version: &str,
    rt: bool,
) -> Result<String, LabError> {
    let wanted = format!("linux-image-{version}-{}{of}", if rt { "rt-" } else { "" });
    let found = look(lab, of, |source| {
        let names = package_names(lab, source, "linux-image-")?;
        match names.iter().find(|name| **name == wanted) {
            Some(exact) => resolve_metapackage(lab, source, exact).map(Some),
            None => Ok(parsing::choose_image(&names, version, rt, of.debian())),
        }
    })?;
    if let Some((_, package)) = found {
        return Ok(package);
    }
    let mut has = Vec::new();
    for source in [Source::Archive(of)].into_iter().chain(of.is_host().then_some(Source::System)) {
        has.extend(parsing::series(&package_names(lab, source, "linux-image-")?, rt, of.debian()));
    }
    has.sort_by_key(|name| parsing::numbers(name));
    has.dedup();
    Err(LabError::NoKernel { package: wanted, suites: archive::suites(), has: has.join(", ") })
}

/// What a package cannot be without.
fn depends(lab: &Lab<'_>, source: Source, package: &str) -> Result<Vec<String>, LabError> {
    let text = asked(lab, source, "ask apt what a package needs", &["depends", "--important", package])?;
    Ok(parsing::depends(&text))
}

/// A metapackage is followed to the package that it depends on.
fn resolve_metapackage(lab: &Lab<'_>, source: Source, package: &str) -> Result<String, LabError> {
    let real = depends(lab, source, package)?.into_iter().find(|name| name.starts_with("linux-image-"));
    Ok(real.unwrap_or_else(|| package.to_owned()))
}

/// Every package name that begins so.
pub(crate) fn package_names(lab: &Lab<'_>, source: Source, prefix: &str) -> Result<Vec<String>, LabError> {
    require_apt("a kernel of the distribution")?;
    let text = asked(lab, source, "list apt's packages", &["pkgnames", prefix])?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// The version of a package that apt would install.
pub(crate) fn candidate(lab: &Lab<'_>, source: Source, package: &str) -> Result<String, LabError> {
    maybe_candidate(lab, source, package)?.ok_or_else(|| LabError::NoPackage { package: package.to_owned() })
}

fn maybe_candidate(lab: &Lab<'_>, source: Source, package: &str) -> Result<Option<String>, LabError> {
    let text = asked(lab, source, "ask apt for a version", &["policy", package])?;
    Ok(parsing::candidate(&text))
}

/// Where a package of a kernel is to be had.
fn source_of(lab: &Lab<'_>, of: Architecture, package: &str) -> Result<Source, LabError> {
    let found = look(lab, of, |source| maybe_candidate(lab, source, package))?;
    found.map(|(source, _)| source).ok_or_else(|| LabError::NoPackage { package: package.to_owned() })
}

/// The folder of an unpacked image, with its parts: since 7.0 an image's package is empty and needs three others.
pub(crate) fn image(lab: &Lab<'_>, of: Architecture, package: &str) -> Result<PathBuf, LabError> {
    let source = source_of(lab, of, package)?;
    let is_part = |name: &String| {
        ["linux-binary-", "linux-modules-"].iter().any(|prefix| name.starts_with(prefix))
            || name
                .strip_prefix("linux-base-")
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let parts: Vec<String> = depends(lab, source, package)?.into_iter().filter(is_part).collect();
    let folder = unpacked_with(lab, source, package, &parts)?;
    if let Some(release) = package.strip_prefix("linux-image-").filter(|_| !parts.is_empty()) {
        as_in_boot(&folder, release)?;
    }
    Ok(folder)
}

/// Names the files of a kernel as older packages do, in /boot.
fn as_in_boot(folder: &Path, release: &str) -> Result<(), LabError> {
    let boot = folder.join("boot");
    fs::create_dir_all(&boot).map_err(LabError::io("make the folder", &boot))?;
    for name in ["vmlinuz", "config"] {
        let from = folder.join("usr/lib/modules").join(release).join(name);
        let to = boot.join(format!("{name}-{release}"));
        if !to.is_file() {
            fs::hard_link(&from, &to).map_err(LabError::io("link", &from))?;
        }
    }
    Ok(())
}

/// A package that modules are built with, and what it needs besides, each in a folder of its own, and where the build tools among them
/// are from. The package is last. The tools run on this host: those of another architecture's headers are the host's of the same version.
pub(crate) fn headers(
    lab: &Lab<'_>,
    of: Architecture,
    package: &str,
) -> Result<(Source, Vec<PathBuf>), LabError> {
    let source = source_of(lab, of, package)?;
    let needed = depends(lab, source, package)?;
    let named = |prefix: &str| needed.iter().filter(|name| name.starts_with(prefix)).collect::<Vec<_>>();
    let mut tools = source;
    let mut folders = Vec::new();
    for name in named("linux-kbuild-") {
        tools = if of.is_host() { source } else { source_of(lab, Architecture::host(), name)? };
        folders.push(unpacked(lab, tools, name)?);
    }
    let own = package.to_owned();
    for name in named("linux-headers-").into_iter().chain([&own]) {
        folders.push(unpacked(lab, source, name)?);
    }
    Ok((tools, folders))
}

/// The folder with the files of a package of an architecture, wherever it is to be had.
pub(crate) fn files(lab: &Lab<'_>, of: Architecture, package: &str) -> Result<PathBuf, LabError> {
    unpacked(lab, source_of(lab, of, package)?, package)
}

/// The name of a package's folder in the cache.
pub(crate) fn folder_name(source: Source, package: &str, version: &str) -> String {
    let name = format!("{package}_{}", version.replace(':', "%3a"));
    match source {
        Source::Archive(of) if !of.is_host() => format!("{name}_{of}"),
        _ => name,
    }
}

/// The folder with a package's files, unpacked once.
pub(crate) fn unpacked(lab: &Lab<'_>, source: Source, package: &str) -> Result<PathBuf, LabError> {
    unpacked_with(lab, source, package, &[])
}

fn unpacked_with(
    lab: &Lab<'_>,
    source: Source,
    package: &str,
    parts: &[String],
) -> Result<PathBuf, LabError> {
    let version = candidate(lab, source, package)?;
    let name = folder_name(source, package, &version);
    let folder = lab.folder("packages")?.join(&name);
    if lab.has(&folder)? {
        return Ok(folder);
    }
    let _lock = lab.lock(&format!("package-{name}"), package)?;
    if lab.has(&folder)? {
        return Ok(folder);
    }
    let made = Part::make(lab, "packages")?;
    let part = made.path();
    let log = part.join("apt.log");
    // As root, apt downloads as the user _apt, who may not write here, and warns that it then does so as root.
    let mut download = apt(lab, source, "apt-get")?;
    download
        .args(["-q", "-o", "APT::Sandbox::User=root", "download", &format!("{package}={version}")])
        .args(parts)
        .current_dir(part);
    let downloaded = program::logged(lab, "download a package", &mut download, &log, || {
        format!("downloading {package} {version}")
    });
    if let Err(error) = downloaded {
        // Only the newest packages stay in the archive.
        if let Source::Archive(of) = source
            && !matches!(error, LabError::Stopped)
            && archive::refresh(lab, of, Duration::ZERO)?
            && maybe_candidate(lab, source, package)?.as_ref() != Some(&version)
        {
            return Err(LabError::unexpected(
                format!("{package} {version}"),
                "has left Debian's archive; its lists are new now, type the same again for what took its place",
            ));
        }
        return Err(error);
    }
    let archives: Vec<PathBuf> = fs::read_dir(part)
        .map_err(LabError::io("list", part))?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .collect();
    if archives.is_empty() {
        return Err(LabError::unexpected(
            package,
            "apt-get downloaded nothing; type `apt-get update` and try again",
        ));
    }
    let files = part.join("files");
    for archive in archives {
        let mut unpack = Command::new("dpkg-deb");
        unpack.arg("-x").arg(&archive).arg(&files);
        program::logged(lab, "unpack a package", &mut unpack, &log, || {
            format!("unpacking {package} {version}")
        })?;
    }
    made.put_one("files", &folder)?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::context::Event;
    use crate::folder::remove;

    /// A package of one file, and the lab's archive set up for a folder with that alone: apt fetches from it, and nothing from anywhere else.
    fn planted_archive(lab: &Lab<'_>, place: &Path) {
        let run = |command: &mut Command| {
            let output = command.output().unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        let files = place.join("files");
        fs::create_dir_all(files.join("DEBIAN")).unwrap();
        fs::write(files.join("content"), "new").unwrap();
        let control = "Package: planted\nVersion: 1.0\nArchitecture: all\nMaintainer: nobody <nobody@localhost>\nDescription: one file\n";
        fs::write(files.join("DEBIAN/control"), control).unwrap();
        let package = place.join("planted_1.0_all.deb");
        run(Command::new("dpkg-deb").arg("--build").arg(&files).arg(&package));
        let sum = run(Command::new("sha256sum").arg(&package));
        let sum = sum.split_whitespace().next().unwrap();
        let size = fs::metadata(&package).unwrap().len();
        let about = format!("{control}Filename: ./planted_1.0_all.deb\nSize: {size}\nSHA256: {sum}\n");
        fs::write(place.join("Packages"), about).unwrap();

        let folder = lab.folder("archive").unwrap();
        for part in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(folder.join(part)).unwrap();
        }
        let source = format!("deb [trusted=yes] file:{} ./\n", place.display());
        fs::write(folder.join("sources.list"), source).unwrap();
        fs::write(folder.join("status"), "").unwrap();
        let text = archive::configuration(&folder.display().to_string(), Architecture::host(), &[]);
        fs::write(folder.join("apt.conf"), text).unwrap();
        run(archive::command(lab, Architecture::host(), "apt-get").unwrap().arg("update"));
        fs::write(folder.join("fetched"), "").unwrap();
    }

    #[test]
    fn a_package_is_put_in_place_past_whatever_lies_where_it_may_be_expected() {
        let (cache, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (stop, listener) = (AtomicBool::new(false), |_: Event<'_>| {});
        let lab = Lab::new(cache.path().join("lab"), &listener, &stop);
        planted_archive(&lab, place.path());
        let victim = place.path().join("victim");
        fs::create_dir(&victim).unwrap();
        fs::write(victim.join("content"), "mine").unwrap();
        let packages = lab.folder("packages").unwrap();
        let (part, folder) = (packages.join(".planted_1.0.part"), packages.join("planted_1.0"));
        let is_whole = || {
            assert_eq!(unpacked(&lab, Source::Archive(Architecture::host()), "planted").unwrap(), folder);
            assert_eq!(fs::read_to_string(folder.join("content")).unwrap(), "new");
            assert_eq!(fs::read_to_string(victim.join("content")).unwrap(), "mine");
            assert_eq!(fs::read_dir(&victim).unwrap().count(), 1);
            remove(&folder).unwrap();
        };
        is_whole();
        assert!(Command::new("mkfifo").arg(&part).status().unwrap().success());
        is_whole();
        fs::remove_file(&part).unwrap();
        symlink(&victim, &part).unwrap();
        is_whole();
        assert_eq!(fs::read_link(&part).unwrap(), victim);
        fs::remove_file(&part).unwrap();
        // By the name of what comes out, what is not the lab's is neither taken nor replaced.
        for target in [victim.as_path(), Path::new("/nowhere")] {
            symlink(target, &folder).unwrap();
            let error =
                unpacked(&lab, Source::Archive(Architecture::host()), "planted").unwrap_err().to_string();
            assert!(error.contains("planted_1.0") && error.contains("is no folder"), "{error}");
            assert_eq!(fs::read_to_string(victim.join("content")).unwrap(), "mine");
            fs::remove_file(&folder).unwrap();
        }
        is_whole();
        assert_eq!(fs::read_dir(&packages).unwrap().count(), 0, "nothing half done is left");
    }
}
