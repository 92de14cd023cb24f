// SPDX-License-Identifier: MIT OR Apache-2.0
//! The folder that modules for one of the distribution's kernels are built with: its headers and build tools, joined and
//! turned to where they lie in the cache. Runs nothing of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::arch::Architecture;
use crate::context::Lab;
use crate::debian::{self, Source};
use crate::error::LabError;
use crate::folder::Part;
use crate::{parsing, program};

/// What build tools of a newer suite than the system's are linked with.
const LIBRARIES: [&str; 4] = ["libc6", "libelf1t64", "libzstd1", "zlib1g"];

/// The headers of a kernel. The three packages refer to each other by absolute paths of an installed system, so they are
/// joined in one folder with the references turned to it.
pub(crate) fn folder(lab: &Lab<'_>, of: Architecture, release: &str) -> Result<PathBuf, LabError> {
    program::require("building a module", &[program::program("make", "make"), of.compiler()])?;
    let package = format!("linux-headers-{release}");
    let (tools, folders) = debian::headers(lab, of, &package)?;
    let name = folders
        .last()
        .and_then(|folder| folder.file_name())
        .ok_or_else(|| LabError::unexpected(&package, "has no folder"))?
        .to_owned();
    let joined = lab.folder("headers")?.join(&name);
    let build = joined.join("usr/src").join(&package);
    if lab.has(&joined)? {
        return Ok(build);
    }
    let _lock = lab.lock(&format!("headers-{release}"), &package)?;
    if lab.has(&joined)? {
        return Ok(build);
    }
    let made = Part::make(lab, "headers")?;
    let part = made.path();
    for folder in &folders {
        program::output(
            "join a kernel's headers",
            Command::new("cp").arg("-a").arg(folder.join(".")).arg(part),
        )?;
    }
    let place = part.join("usr/src").join(&package);
    turn(&place, &joined)?;
    // With it and a pahole of another version make would add types that fit no kernel; a module loads without.
    let types = place.join("vmlinux");
    if types.is_file() {
        fs::remove_file(&types).map_err(LabError::io("remove", &types))?;
    }
    use_this_compiler(of, &place)?;
    make_tools_run(lab, tools, part)?;
    made.put(&joined)?;
    Ok(build)
}

/// Text files of a few lines (Makefile, .kernelvariables) and links that say /usr/src or /usr/lib.
fn turn(place: &Path, joined: &Path) -> Result<(), LabError> {
    for entry in fs::read_dir(place).map_err(LabError::io("list", place))?.flatten() {
        let path = entry.path();
        if let Ok(target) = fs::read_link(&path) {
            if target.is_absolute() || target.starts_with("../../lib") {
                let inside = target.strip_prefix("/").map_or_else(|_| target.clone(), Path::to_owned);
                let inside =
                    inside.strip_prefix("../..").map_or(inside.clone(), |rest| Path::new("usr").join(rest));
                fs::remove_file(&path)
                    .and_then(|()| std::os::unix::fs::symlink(joined.join(inside), &path))
                    .map_err(LabError::io("change the link", &path))?;
            }
        } else if entry.file_name() == "Makefile" || entry.file_name() == ".kernelvariables" {
            change(&path, |text| {
                let place = format!("{}/usr/src/", joined.display());
                text.replace(" /usr/src/", &format!(" {place}")).replace("=/usr/src/", &format!("={place}"))
            })?;
        }
    }
    Ok(())
}

fn change(path: &Path, how: impl FnOnce(&str) -> String) -> Result<(), LabError> {
    let text = fs::read_to_string(path).map_err(LabError::io("read", path))?;
    fs::write(path, how(&text)).map_err(LabError::io("write", path))
}

/// The package names the compiler that the kernel was built with. Where that is not here the system's own is taken, and
/// what it does not know yet is left out.
fn use_this_compiler(of: Architecture, place: &Path) -> Result<(), LabError> {
    let variables = place.join(".kernelvariables");
    let Ok(text) = fs::read_to_string(&variables) else { return Ok(()) };
    let is_here = |name: &str| program::find(&format!("{}{name}", of.tools_prefix())).is_some();
    let Some(named) = parsing::named_compiler(&text).filter(|name| !is_here(name)) else {
        return Ok(());
    };
    change(&variables, |text| text.replace(&named, "gcc"))?;
    // GCC 14 and later; the kernel's Makefile then asks for -falign-functions instead (Linux 7.3, Makefile).
    let mut flag = Command::new(of.compiler().what);
    flag.args(["-fmin-function-alignment=16", "-E", "-x", "c", "-o", "/dev/null", "/dev/null"]);
    let options = place.join("include/config/auto.conf");
    if program::output("ask what the compiler knows", &mut flag).is_err() && options.is_file() {
        change(&options, |text| parsing::without_line(text, "CONFIG_CC_HAS_MIN_FUNCTION_ALIGNMENT=y"))?;
    }
    Ok(())
}

/// Build tools of a newer suite do not run with this system's C library: then each is started with its own.
fn make_tools_run(lab: &Lab<'_>, source: Source, part: &Path) -> Result<(), LabError> {
    let mut foreign = Vec::new();
    for tool in tools(&part.join("usr/lib"))? {
        // It ends with an error where the file is no program of this machine's kind: those are not run either.
        let listed = program::output("ask what a tool is linked with", Command::new("ldd").arg(&tool));
        let missing = match &listed {
            Ok(text) => text.contains("not found"),
            Err(LabError::Program { output, .. }) => output.contains("not found"),
            Err(_) => false,
        };
        if missing {
            foreign.push(tool);
        }
    }
    if foreign.is_empty() || source == Source::System {
        return Ok(());
    }
    let mut folders = Vec::new();
    let mut loader = None;
    for package in LIBRARIES {
        let triplet = debian::unpacked(lab, source, package)?
            .join("usr/lib")
            .join(format!("{}-linux-gnu", std::env::consts::ARCH));
        let found = ["ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"].map(|name| triplet.join(name));
        loader = loader.or_else(|| found.into_iter().find(|file| file.is_file()));
        folders.push(triplet.display().to_string());
    }
    let loader =
        loader.ok_or_else(|| LabError::unexpected("libc6", "has no loader where it was looked for"))?;
    for tool in foreign {
        let real = PathBuf::from(format!("{}.elf", tool.display()));
        fs::rename(&tool, &real).map_err(LabError::io("rename", &tool))?;
        let name = real.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let script = format!(
            "#!/bin/sh\nexec {} --library-path {} \"${{0%/*}}/{name}\" \"$@\"\n",
            loader.display(),
            folders.join(":"),
        );
        fs::write(&tool, script).map_err(LabError::io("write", &tool))?;
        fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .map_err(LabError::io("make executable", &tool))?;
    }
    Ok(())
}

/// The programs below a folder.
fn tools(folder: &Path) -> Result<Vec<PathBuf>, LabError> {
    let mut command = Command::new("find");
    command.arg(folder).args(["-type", "f", "-perm", "/111"]);
    let found = program::output("look for a kernel's build tools", &mut command)?;
    let is_elf = |path: &PathBuf| {
        use std::io::Read;
        let mut magic = [0u8; 4];
        fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *b"\x7fELF"
    };
    Ok(found.lines().map(PathBuf::from).filter(is_elf).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_of_an_installed_system_are_turned_to_the_cache() {
        let folder = tempfile::tempdir().unwrap();
        let makefile = folder.path().join("Makefile");
        fs::write(&makefile, "KBUILD_OUTPUT=/usr/src/a\ninclude /usr/src/b/Makefile\n").unwrap();
        std::os::unix::fs::symlink("../../lib/kbuild/tools", folder.path().join("tools")).unwrap();
        turn(folder.path(), Path::new("/cache/j")).unwrap();
        assert_eq!(
            fs::read_to_string(&makefile).unwrap(),
            "KBUILD_OUTPUT=/cache/j/usr/src/a\ninclude /cache/j/usr/src/b/Makefile\n"
        );
        let link = fs::read_link(folder.path().join("tools")).unwrap();
        assert_eq!(link, Path::new("/cache/j/usr/lib/kbuild/tools"));
    }
}
