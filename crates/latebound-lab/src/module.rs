// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel modules for a kernel of the lab: the project's own, whose sources are in this program, and any folder's.
//!
//! Builds on the host; what is loaded, is loaded in a guest.

use std::convert::Infallible;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use crate::arch::Architecture;
use crate::context::{Lab, key};
use crate::error::LabError;
use crate::kernel::{self, Kernel, module_build_folder};
use crate::name::{KernelName, Origin};
use crate::{debian, headers, program, traced};

/// The sources of the project's modules: names in the folder that they are built in, and texts.
const SOURCES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/module_sources.rs"));

/// The project's modules.
pub const OWN_MODULES: [&str; 3] = ["latebound_bound", "latebound_defer", "latebound_tune"];

/// A module, or a folder of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Module {
    /// One of the project's modules, by name.
    Own(&'static str),
    /// A folder with a Kbuild file: all modules in it.
    Folder(PathBuf),
}

impl FromStr for Module {
    type Err = Infallible;

    /// The name of one of the project's modules, or else a folder.
    fn from_str(text: &str) -> Result<Module, Infallible> {
        Ok(OWN_MODULES
            .into_iter()
            .find(|name| *name == text)
            .map_or_else(|| Module::Folder(text.into()), Module::Own))
    }
}

/// The folder that modules for this kernel are built with (`make -C FOLDER M=…`); headers are fetched where they are not
/// there. The distribution's image itself is not.
pub fn module_headers(lab: &Lab<'_>, name: &KernelName) -> Result<PathBuf, LabError> {
    match &name.origin {
        Origin::Debian { version, rt } => {
            let image = debian::image_package(lab, Architecture::host(), version, *rt)?;
            headers::folder(lab, Architecture::host(), image.trim_start_matches("linux-image-"))
        }
        _ => module_build_folder(lab, &kernel::obtain(lab, name)?),
    }
}

/// Builds for a kernel, on the host; what is built in a folder of somebody else's is built in a copy, in `scratch`.
pub(crate) fn build(
    lab: &Lab<'_>,
    kernel: &Kernel,
    module: &Module,
    scratch: &Path,
) -> Result<Vec<PathBuf>, LabError> {
    let headers = module_build_folder(lab, kernel)?;
    match module {
        Module::Own(name) => own(lab, kernel, &headers).map(|folder| vec![folder.join(format!("{name}.ko"))]),
        Module::Folder(source) => {
            let place = scratch.join("module");
            program::output("copy a module's source", Command::new("cp").arg("-r").arg(source).arg(&place))?;
            make(lab, kernel, &headers, &place, &scratch.join("module.log"))?;
            let modules = built(&place)?;
            if modules.is_empty() {
                return Err(LabError::unexpected(
                    source.display().to_string(),
                    "gave no module (no .ko file); does its Kbuild file have obj-m?",
                ));
            }
            Ok(modules)
        }
    }
}

/// Builds the project's modules in a folder of the cache, for this kernel and these sources. It stays, so that the next
/// job finds everything built.
fn own(lab: &Lab<'_>, kernel: &Kernel, headers: &Path) -> Result<PathBuf, LabError> {
    let mut inputs = format!("{}\n{:?}\n", headers.display(), kernel.release);
    for (name, text) in SOURCES {
        inputs += &format!("{name}\n{text}\n");
    }
    let key = key(&inputs);
    let place = lab.folder("modules")?.join(&key);
    let _lock = lab.lock(&format!("modules-{key}"), "the project's modules")?;
    for (name, text) in SOURCES {
        let file = place.join(name);
        // Written anew only where it differs: make goes by the time of the last change.
        if fs::read_to_string(&file).is_ok_and(|found| found == *text) {
            continue;
        }
        let folder = file.parent().unwrap_or(&place);
        fs::create_dir_all(folder).map_err(LabError::io("make the folder", folder))?;
        fs::write(&file, text).map_err(LabError::io("write", &file))?;
    }
    make(lab, kernel, headers, &place, &place.join("build.log"))?;
    Ok(place)
}

fn make(lab: &Lab<'_>, kernel: &Kernel, headers: &Path, place: &Path, log: &Path) -> Result<(), LabError> {
    let mut make = Command::new("make");
    make.arg("-C").arg(headers).arg(format!("M={}", place.display())).arg("modules");
    make.args(traced::make_words(kernel.architecture));
    make.env_remove("MAKEFLAGS").env_remove("MFLAGS").env_remove("MAKELEVEL");
    // Without vmlinux at hand the types of a module cannot be made; it loads without.
    program::logged(lab, "build a module", &mut make, log, || format!("building modules for {}", kernel.name))
}

fn built(place: &Path) -> Result<Vec<PathBuf>, LabError> {
    let entries = fs::read_dir(place).map_err(LabError::io("list", place))?;
    let mut modules: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "ko"))
        .collect();
    modules.sort();
    Ok(modules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_of_the_modules_and_every_shared_header_is_in_the_program() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut wanted = vec!["Kbuild".to_owned()];
        for (folder, place) in [("modules", ""), ("include/latebound", "include/latebound/")] {
            for entry in fs::read_dir(here.join(folder)).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                if (name.ends_with(".c") || name.ends_with(".h")) && !name.ends_with(".mod.c") {
                    wanted.push(format!("{place}{name}"));
                }
            }
        }
        wanted.sort();
        let mut found: Vec<&str> = SOURCES.iter().map(|(name, _)| *name).collect();
        found.sort_unstable();
        assert_eq!(found, wanted);
    }

    #[test]
    fn the_projects_modules_are_those_that_its_kbuild_builds() {
        let (_, kbuild) = SOURCES.iter().find(|(name, _)| *name == "Kbuild").unwrap();
        let objects = kbuild.lines().filter_map(|line| line.strip_prefix("obj-m"));
        let names: Vec<&str> = objects
            .flat_map(|line| line.trim_start_matches([' ', '+', ':', '=']).split_whitespace())
            .map(|object| object.strip_suffix(".o").unwrap())
            .collect();
        assert_eq!(names, OWN_MODULES);
    }

    #[test]
    fn a_name_of_ours_is_a_module_and_anything_else_is_a_folder() {
        assert_eq!("latebound_defer".parse(), Ok(Module::Own("latebound_defer")));
        assert_eq!("./latebound_defer".parse(), Ok(Module::Folder("./latebound_defer".into())));
    }
}
