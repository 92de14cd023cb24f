// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commits of a kernel's source tree as a row of kernels to bisect. The user's repository is only read: commits are
//! checked out in a clone in the cache that has the repository's objects for its own (`git clone --shared`). The clone stays,
//! because make builds again what was checked out anew: a row that was interrupted goes on where it was.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::arch::Architecture;
use crate::context::{Lab, key};
use crate::error::LabError;
use crate::folder::{self, Part};
use crate::kernel::{self, Kernel};
use crate::name::{Flavour, KernelName, Origin};
use crate::{program, traced};

/// Where the clones that are built in lie in the cache.
const WORK: &str = "worktrees";

/// A row of commits, good first and bad last, and where they are built.
#[derive(Debug)]
pub struct Commits {
    tree: PathBuf,
    work: PathBuf,
    rt: bool,
    /// The commits' hashes, oldest first.
    pub hashes: Vec<String>,
    /// Two rows of one repository would check out and build in the same place.
    _lock: File,
}

fn git(tree: &Path, doing: &str, arguments: &[&str]) -> Result<String, LabError> {
    program::output(doing, Command::new("git").arg("-C").arg(tree).args(arguments))
        .map(|text| text.trim().to_owned())
}

/// The commits from `good` to `bad`, along the first parents as `git bisect --first-parent` takes them.
pub fn commits(lab: &Lab<'_>, tree: &Path, good: &str, bad: &str, rt: bool) -> Result<Commits, LabError> {
    let tree = fs::canonicalize(tree).map_err(LabError::io("find the source tree", tree))?;
    let resolve = |name: &str| {
        git(
            &tree,
            "find a commit",
            &["rev-parse", "--verify", "--end-of-options", &format!("{name}^{{commit}}")],
        )
    };
    let (first, last) = (resolve(good)?, resolve(bad)?);
    let list = git(
        &tree,
        "list commits",
        &["rev-list", "--reverse", "--first-parent", "--ancestry-path", &format!("{first}..{last}")],
    )?;
    let mut hashes = vec![first];
    hashes.extend(list.lines().map(str::to_owned));
    if hashes.len() < 2 || hashes.last() != Some(&last) {
        return Err(LabError::Machine(format!(
            "{good} is not an ancestor of {bad} along first parents in {}; give the older, good commit with --good",
            tree.display()
        )));
    }
    let name = key(&tree.display().to_string());
    let lock = lab.lock(&format!("tree-{name}"), "the commits of this source tree")?;
    let work = lab.folder(WORK)?.join(name);
    Ok(Commits { tree, work, rt, hashes, _lock: lock })
}

impl Commits {
    /// Builds the kernel of one commit. All commits share a build folder, so that make builds only what changed: the kernel
    /// is good until the next one is built.
    pub fn kernel(&self, lab: &Lab<'_>, index: usize) -> Result<Kernel, LabError> {
        let hash =
            self.hashes.get(index).ok_or_else(|| LabError::Machine(format!("there is no commit {index}")))?;
        lab.progress(&format!("checking out {hash}"));
        if !self.work.join(".git").exists() {
            folder::remove(&self.work)?;
            let part = Part::make(lab, WORK)?;
            let place = part.path().display().to_string();
            let clone = ["clone", "--shared", "--no-checkout", "--quiet", ".", &place];
            git(&self.tree, "make a clone to build in", &clone)?;
            part.put(&self.work)?;
        }
        git(&self.work, "check out a commit", &["checkout", "--detach", "--force", "--quiet", hash])?;
        let folder = lab.folder("bisect")?.join(format!(
            "{}{}",
            key(&self.tree.display().to_string()),
            if self.rt { "-rt" } else { "" }
        ));
        let host = Architecture::host();
        let built = traced::build_into(
            lab,
            &self.work,
            &format!("commit {hash}"),
            (host, Flavour::traced(self.rt)),
            &folder,
            traced::Objects::Keep,
        )?;
        let name = KernelName::new(Origin::Path(self.tree.join(&hash[..hash.len().min(12)])));
        kernel::from_build(&name, host, &built)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    fn repository(commits: usize) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let git = |arguments: &[&str]| {
            let mut all =
                vec!["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"];
            all.extend(arguments);
            super::git(folder.path(), "test", &all).unwrap();
        };
        git(&["init", "--quiet"]);
        fs::write(folder.path().join("same"), "").unwrap();
        git(&["add", "same"]);
        for number in 0..commits {
            fs::write(folder.path().join("file"), number.to_string()).unwrap();
            git(&["add", "file"]);
            git(&["commit", "--quiet", "-m", &number.to_string()]);
            git(&["tag", &format!("t{number}")]);
        }
        folder
    }

    #[test]
    fn commits_are_listed_from_good_to_bad_without_touching_the_checkout() {
        let repository = repository(5);
        let cache = tempfile::tempdir().unwrap();
        let stop = AtomicBool::new(false);
        let lab = Lab::new(cache.path().to_owned(), &|_| {}, &stop);
        let row = commits(&lab, repository.path(), "t1", "t4", false).unwrap();
        let expected: Vec<String> = (1..5)
            .map(|n| git(repository.path(), "test", &["rev-parse", &format!("t{n}")]).unwrap())
            .collect();
        assert_eq!(row.hashes, expected);
        // Nothing is built here, for it is no kernel: but each commit was checked out, and what it shares with the one
        // before was left as it was.
        let place = |name: &str| row.work.join(name);
        assert!(row.kernel(&lab, 1).is_err());
        assert_eq!(fs::read_to_string(place("file")).unwrap(), "2");
        let before = fs::metadata(place("same")).unwrap().modified().unwrap();
        assert!(row.kernel(&lab, 3).is_err());
        assert_eq!(fs::read_to_string(place("file")).unwrap(), "4");
        assert_eq!(fs::metadata(place("same")).unwrap().modified().unwrap(), before);
        assert_eq!(fs::read_to_string(repository.path().join("file")).unwrap(), "4");
        assert_eq!(git(repository.path(), "test", &["worktree", "list"]).unwrap().lines().count(), 1);
    }

    #[test]
    fn two_rows_of_one_repository_wait_for_each_other() {
        let repository = repository(2);
        let cache = tempfile::tempdir().unwrap();
        let stop = AtomicBool::new(false);
        let lab = Lab::new(cache.path().to_owned(), &|_| {}, &stop);
        let first = commits(&lab, repository.path(), "t0", "t1", false).unwrap();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let second = commits(&lab, repository.path(), "t0", "t1", false);
        assert!(matches!(second, Err(LabError::Stopped)), "{second:?}");
        drop(first);
        assert!(commits(&lab, repository.path(), "t0", "t1", false).is_ok());
    }

    #[test]
    fn a_good_commit_that_is_not_before_the_bad_one_is_refused() {
        let repository = repository(3);
        let cache = tempfile::tempdir().unwrap();
        let stop = AtomicBool::new(false);
        let lab = Lab::new(cache.path().to_owned(), &|_| {}, &stop);
        let error = commits(&lab, repository.path(), "t2", "t0", false).unwrap_err().to_string();
        assert!(error.contains("not an ancestor"), "{error}");
        assert!(commits(&lab, repository.path(), "nothing", "t2", false).is_err());
    }
}
