// SPDX-License-Identifier: MIT OR Apache-2.0
//! Puts the sources of the project's kernel modules into the program, so that an installed one can build them too.

use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The folders, and where their files go below the folder that the modules are built in. Both are links in a checkout, and folders in a crate.
const FOLDERS: [(&str, &str); 2] = [("modules", ""), ("include/latebound", "include/latebound/")];

fn main() -> Result<(), Box<dyn Error>> {
    let here = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?);
    let mut table = String::from("&[\n");
    for (folder, place) in FOLDERS {
        let folder = here.join(folder).canonicalize()?;
        println!("cargo::rerun-if-changed={}", folder.display());
        let mut files = std::fs::read_dir(&folder)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<Vec<_>, _>>()?;
        files.sort();
        for file in files.iter().filter(|file| is_source(file)) {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            writeln!(table, "({:?}, include_str!({file:?})),", format!("{place}{name}"))?;
        }
    }
    table.push(']');
    std::fs::write(PathBuf::from(std::env::var("OUT_DIR")?).join("module_sources.rs"), table)?;
    Ok(())
}

/// What a build leaves beside the sources (`.mod.c`, objects) is not one.
fn is_source(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    name == "Kbuild" || name.ends_with(".h") || (name.ends_with(".c") && !name.ends_with(".mod.c"))
}
