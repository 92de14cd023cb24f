// SPDX-License-Identifier: MIT OR Apache-2.0
//! A folder of a load's own, below one that the user named and that others may write to.
//!
//! It has a name that nobody can guess and is for the load's user alone. Where latebound is root, the load sees it in the place of
//! `/tmp` ([`VIEW`]), in a mount namespace of its own: it need not get through the folders above, which it may have no right to.
//! A process of its own, the keeper, removes the folder when the load is gone, however that ends; it may be root, and therefore goes
//! by held descriptors alone.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::fchown;
use std::path::{Path, PathBuf};

use latebound_files::Folder;
use latebound_model::Nanos;
use latebound_syscall::process;

use crate::deadline::Deadline;
use crate::user;

/// Where the load sees its folder.
const VIEW: &str = "/tmp";

/// How long the keeper tries: processes that were killed may still write.
const TIDYING: Nanos = Nanos::from_secs(3);

/// The folder. Dropping it removes it with all that is in it.
pub(crate) struct Place {
    path: PathBuf,
    /// Closed, it tells the keeper to remove the folder.
    hold: Option<io::PipeWriter>,
    keeper: i32,
}

impl Place {
    /// Makes the folder and gives up root: from here on this process has the folder and nothing else.
    ///
    /// Call it while the process has one thread.
    pub(crate) fn make(above: &Path) -> Result<Place, String> {
        let failed = |error: io::Error| error.to_string();
        let parent = Folder::open(above).map_err(failed)?;
        let (name, folder) = parent.make_temporary(0o700).map_err(failed)?;
        let path = std::path::absolute(above).map_err(failed)?.join(&name);
        let (wait, hold) = io::pipe().map_err(failed)?;
        let keeper = process::fork_with(|| keep(&parent, &name, &folder, wait.as_raw_fd()));
        let keeper = keeper.map_err(|error| {
            let _ = parent.remove_folder(&name);
            failed(error)
        })?;
        let mut place = Place { path, hold: Some(hold), keeper };
        if let Some(unused) = user::unused() {
            // Without a view the folders above have to let the load through, and PostgreSQL wants a user with a name.
            let user = match view(&folder, unused) {
                Ok(()) => {
                    place.path = VIEW.into();
                    unused
                }
                Err(_) => user::NOBODY,
            };
            fchown(folder.handle(), Some(user), Some(user)).map_err(failed)?;
            user::give_up_root_for(user)?;
        }
        Ok(place)
    }

    /// Where the load sees it.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.hold = None;
        // Nobody is left to tell.
        let _ = process::reap(self.keeper);
    }
}

/// The keeper's side: waits for the load's end, and removes the folder.
fn keep(parent: &Folder, name: &OsStr, folder: &Folder, wait: i32) {
    // Whoever reads what the load says waits for its end, not for this.
    process::let_go_of_all_but(&[wait, parent.handle().as_raw_fd(), folder.handle().as_raw_fd()]);
    process::wait_for_end(wait);
    let patience = Deadline::after(TIDYING);
    while folder.empty().and_then(|()| parent.remove_folder(name)).is_err() && !patience.passed() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Shows this process the folder in the place of [`VIEW`], and a user of this number in the list of users: initdb refuses to
/// run as one without a name (PostgreSQL 15, src/bin/initdb/initdb.c, `get_id`).
fn view(folder: &Folder, user: u32) -> io::Result<()> {
    let mut users = Vec::new();
    File::open("/etc/passwd")?.read_to_end(&mut users)?;
    process::leave_mounts()?;
    let list: OsString = "passwd".into();
    let mut file = folder.create_new(&list, 0o644)?;
    file.write_all(format!("latebound:x:{user}:{user}::/:/bin/false\n").as_bytes())?;
    file.write_all(&users)?;
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
    let shown = process::bind(file.as_raw_fd(), "/etc/passwd")
        .and_then(|()| process::bind(folder.handle().as_raw_fd(), VIEW));
    folder.remove_file(&list)?;
    shown
}
