// SPDX-License-Identifier: MIT OR Apache-2.0
//! Man pages and completions, made from the definition in `cli`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::{Cli, Generated};

/// Writes what was asked for to `folder`.
pub(crate) fn generate(what: Generated, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let mut command = Cli::command();
    // Both libraries write by name and follow links: to a folder of our own.
    let own = tempfile::tempdir().context("cannot make a temporary folder")?;
    match what {
        Generated::Man => clap_mangen::generate_to(command, own.path()).context("cannot write man pages")?,
        Generated::Completions => {
            for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish] {
                clap_complete::generate_to(shell, &mut command, "latebound", own.path())
                    .context("cannot write completions")?;
            }
        }
    }
    for file in fs::read_dir(own.path()).context("cannot list what was generated")? {
        let file = file.context("cannot list what was generated")?;
        let place = folder.join(file.file_name());
        fs::read(file.path())
            .and_then(|text| latebound_files::write(&place, text))
            .with_context(|| format!("cannot write {}", place.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_visible_verb_has_a_man_page_with_its_options() {
        let folder = tempfile::tempdir().unwrap();
        generate(Generated::Man, folder.path()).unwrap();
        for verb in Cli::command().get_subcommands().filter(|verb| !verb.is_hide_set()) {
            let path = folder.path().join(format!("latebound-{}.1", verb.get_name()));
            let page =
                fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            for long in verb.get_arguments().filter(|a| !a.is_hide_set()).filter_map(|a| a.get_long()) {
                let escaped = long.replace('-', "\\-");
                assert!(page.contains(&escaped), "{} does not name --{long}", path.display());
            }
        }
        assert!(folder.path().join("latebound.1").exists());
    }

    #[test]
    fn completions_know_every_visible_verb() {
        let folder = tempfile::tempdir().unwrap();
        generate(Generated::Completions, folder.path()).unwrap();
        for file in ["latebound.bash", "_latebound", "latebound.fish", "latebound.elv"] {
            let text = fs::read_to_string(folder.path().join(file)).unwrap();
            for verb in ["check", "measure", "explain", "observe", "doctor", "report"] {
                assert!(text.contains(verb), "{file} does not know {verb}");
            }
        }
    }
}
