// SPDX-License-Identifier: MIT OR Apache-2.0
//! Debian's archive beside the suites that the system's apt is set up for: older and newer kernels, and the C library that
//! the build tools of newer ones need. Keeps lists of its own in the cache; never touches those of the system.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::arch::Architecture;
use crate::context::Lab;
use crate::error::LabError;
use crate::{parsing, program};

/// Where kernels are looked for: an archive by the label that it gives itself, and its suite. All are small but the third, whose C library runs the build
/// tools of the last.
const SUITES: [(&str, &str); 4] = [
    ("Debian-Security", "bullseye-security"),
    ("Debian-Security", "bookworm-security"),
    ("Debian", "trixie"),
    ("Debian", "trixie-backports"),
];

/// What the archive signs its lists with.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Its time is that of the lists.
const MARK: &str = "fetched";

/// The lists of another architecture are kept apart.
fn name(of: Architecture) -> String {
    if of.is_host() { "archive".to_owned() } else { format!("archive-{of}") }
}

fn folder(lab: &Lab<'_>, of: Architecture) -> Result<PathBuf, LabError> {
    lab.folder(&name(of))
}

/// When the lists were fetched, for answers that are kept.
pub(crate) fn stamp(lab: &Lab<'_>, of: Architecture) -> Result<String, LabError> {
    let mark = folder(lab, of)?.join(MARK);
    Ok(format!("{:?}", fs::metadata(mark).and_then(|about| about.modified()).ok()))
}

/// A program of apt that knows the archive's suites and nothing of the system's.
pub(crate) fn command(lab: &Lab<'_>, of: Architecture, program: &str) -> Result<Command, LabError> {
    let mut command = Command::new(program);
    command.env("APT_CONFIG", folder(lab, of)?.join("apt.conf"));
    Ok(command)
}

/// Whether the lists are here.
pub(crate) fn is_here(lab: &Lab<'_>, of: Architecture) -> Result<bool, LabError> {
    Ok(folder(lab, of)?.join(MARK).is_file())
}

/// Makes the lists be here. Old ones are as good as new ones until something is missing from them.
pub(crate) fn ready(lab: &Lab<'_>, of: Architecture) -> Result<(), LabError> {
    if !is_here(lab, of)? {
        refresh(lab, of, Duration::ZERO)?;
    }
    Ok(())
}

/// Fetches the lists anew where they are at least that old; whether it did.
pub(crate) fn refresh(lab: &Lab<'_>, of: Architecture, age: Duration) -> Result<bool, LabError> {
    let folder = folder(lab, of)?;
    let _lock = lab.lock(&name(of), "the lists of Debian's archive")?;
    let mark = folder.join(MARK);
    let known = fs::metadata(&mark).and_then(|about| about.modified()).ok();
    if known.is_some_and(|at| at.elapsed().is_ok_and(|elapsed| elapsed < age.max(Duration::from_secs(60)))) {
        return Ok(false);
    }
    if !Path::new(KEYRING).is_file() {
        return Err(LabError::MissingPrograms {
            purpose: "a kernel of Debian's archive".to_owned(),
            programs: KEYRING.to_owned(),
            packages: "debian-archive-keyring".to_owned(),
        });
    }
    write_configuration(&folder, of)?;
    let log = folder.join("update.log");
    let _ = fs::remove_file(&log);
    let mut update = command(lab, of, "apt-get")?;
    update.args(["-q", "-o", "APT::Update::Error-Mode=any", "update"]);
    let fetched = program::logged(lab, "fetch the lists of Debian's archive", &mut update, &log, || {
        "fetching the lists of Debian's archive".to_owned()
    });
    match fetched {
        Ok(()) => {}
        Err(LabError::Stopped) => return Err(LabError::Stopped),
        // A suite that left the archive must not take the others away.
        Err(error) if has_lists(&folder) => {
            lab.note(&format!("{error}\ngoing on with the lists that are here"))
        }
        Err(error) => return Err(error),
    }
    fs::write(&mark, "").map_err(LabError::io("write", &mark))?;
    Ok(true)
}

fn has_lists(folder: &Path) -> bool {
    let entries = fs::read_dir(folder.join("lists")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).any(|name| name.contains("_Packages"))
}

fn write_configuration(folder: &Path, of: Architecture) -> Result<(), LabError> {
    for part in ["lists/partial", "cache/archives/partial"] {
        let part = folder.join(part);
        fs::create_dir_all(&part).map_err(LabError::io("make the folder", &part))?;
    }
    let write = |name: &str, text: &str| {
        let file = folder.join(name);
        fs::write(&file, text).map_err(LabError::io("write", &file))
    };
    // The way to the network is the system's; its other settings, some of which run programs, are not read.
    let system = program::output("ask apt for its settings", Command::new("apt-config").arg("dump"))?;
    let network: Vec<&str> =
        system.lines().filter(|line| line.starts_with("Acquire::http") && line.ends_with("\";")).collect();
    // So are its mirrors.
    let mut targets = Command::new("apt-get");
    targets.args(["indextargets", "--format", "$(LABEL) $(REPO_URI)"]);
    let known = program::output("ask apt for its mirrors", &mut targets)?;
    write("status", "")?;
    write("sources.list", &sources(&known)?)?;
    write("apt.conf", &configuration(&folder.display().to_string(), of, &network))
}

/// Lines for apt, from the label and the mirror of each archive that the system knows.
fn sources(known: &str) -> Result<String, LabError> {
    let line = |(label, suite): (&str, &str)| {
        let mirror = parsing::mirror(known, label).ok_or_else(|| {
            let what = "apt knows no mirror of it; add its source and type `apt-get update`";
            LabError::unexpected(format!("the archive {label}"), what)
        })?;
        Ok(format!("deb [signed-by={KEYRING}] {mirror} {suite} main\n"))
    };
    SUITES.into_iter().map(line).collect()
}

/// apt reads this before its other files, and so is told here that there are none.
pub(crate) fn configuration(folder: &str, of: Architecture, network: &[&str]) -> String {
    let mut text = String::new();
    for (key, value) in [
        ("Dir::Etc::main", "/dev/null".to_owned()),
        ("Dir::Etc::parts", "/dev/null".to_owned()),
        ("Dir::Etc::sourcelist", format!("{folder}/sources.list")),
        ("Dir::Etc::sourceparts", "/dev/null".to_owned()),
        ("Dir::Etc::preferences", "/dev/null".to_owned()),
        ("Dir::Etc::preferencesparts", "/dev/null".to_owned()),
        ("Dir::State", folder.to_owned()),
        ("Dir::State::lists", format!("{folder}/lists")),
        ("Dir::State::status", format!("{folder}/status")),
        ("Dir::Cache", format!("{folder}/cache")),
        ("APT::Sandbox::User", "root".to_owned()),
        ("Acquire::Languages", "none".to_owned()),
        ("Acquire::IndexTargets::deb::DEP-11::DefaultEnabled", "false".to_owned()),
    ] {
        text += &format!("{key} \"{value}\";\n");
    }
    if !of.is_host() {
        text += &format!("APT::Architecture \"{of}\";\nAPT::Architectures:: \"{of}\";\n");
    }
    for line in network {
        text += line;
        text.push('\n');
    }
    text
}

/// The suites by name, for errors.
pub(crate) fn suites() -> String {
    SUITES.map(|(_, suite)| suite).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apt_is_given_nothing_but_the_labs_own_folder_and_the_proxy() {
        let text = configuration(
            "/cache/archive",
            Architecture::host(),
            &["Acquire::http::Proxy \"http://proxy:3128\";"],
        );
        for line in text.lines() {
            let (key, value) = line.split_once(' ').unwrap();
            let value = value.strip_prefix('"').and_then(|value| value.strip_suffix("\";")).unwrap();
            let is_file = key.starts_with("Dir::");
            assert!(!is_file || value == "/dev/null" || value.starts_with("/cache/archive"), "{line}");
        }
        assert!(text.ends_with("Acquire::http::Proxy \"http://proxy:3128\";\n"), "{text}");
    }

    #[test]
    fn suites_come_from_the_systems_mirrors_with_their_signatures_required() {
        let known =
            "Debian-Security http://near/security/\nOther http://other/\nDebian http://near/debian/\n";
        let sources = sources(known).unwrap();
        let lines: Vec<&str> = sources.lines().collect();
        assert_eq!(lines.len(), SUITES.len());
        for (line, (label, suite)) in lines.iter().zip(SUITES) {
            let mirror = if label == "Debian" { "http://near/debian/" } else { "http://near/security/" };
            assert_eq!(*line, format!("deb [signed-by={KEYRING}] {mirror} {suite} main"));
        }
        let error = super::sources("Debian http://near/debian/\n").unwrap_err().to_string();
        assert!(error.contains("Debian-Security") && error.contains("apt-get update"), "{error}");
    }
}
