// SPDX-License-Identifier: MIT OR Apache-2.0
//! Machines of another architecture than the host's, which cannot use the host's programs: an initramfs with all that they need (busybox, the
//! modules of the boot, a static latebound, our init), and the QEMU command line for them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use object::Object;

use crate::arch::Architecture;
use crate::context::Lab;
use crate::debian;
use crate::error::LabError;
use crate::kernel::Kernel;
use crate::program::{self, program as need};
use crate::virtme::Request;

/// Where the initramfs has the program.
pub(crate) const PROGRAM: &str = "/bin/latebound";

/// Where the initramfs has the modules that the job loads.
const MODULES: &str = "/modules";

/// Where the guest sees the folder that the job begins in.
pub(crate) const DIRECTORY: &str = "/host";

/// Loaded by `guest/init.sh`, with what they need, before the guest sees the rest of its kernel's modules.
const BOOT_MODULES: [&str; 4] = ["virtio_pci", "9pnet_virtio", "9p", "overlay"];

/// More than any list of a kernel's modules has, in bytes.
const MAX_LIST: u64 = 16 << 20;

/// What must be on the host for such a machine to run.
pub(crate) fn require(of: Architecture) -> Result<(), LabError> {
    if of.foreign_machine().is_none() {
        return Err(LabError::Machine(format!(
            "--arch {of}: on {} the lab has no such machine; leave --arch out",
            Architecture::host()
        )));
    }
    program::require("a lab machine", &[of.qemu(), need("cpio", "cpio"), need("depmod", "kmod")])
}

/// What a file has. Refuses one that is no program of the architecture, or that needs libraries, which the guest does not have.
fn read_program(of: Architecture, program: &Path) -> Result<Vec<u8>, LabError> {
    let bytes = fs::read(program).map_err(LabError::io("read the guest's program", program))?;
    let refuse = |why: &str| {
        let advice = format!("type in latebound's source: make static ARCH={}", of.machine());
        Err(LabError::unexpected(program.display().to_string(), format!("{why}; {advice}")))
    };
    match object::File::parse(&*bytes) {
        Ok(file) if file.architecture() != of.of_programs() => {
            refuse(&format!("is no program of {of}, and the guest runs no others"))
        }
        Ok(file) if file.section_by_name(".interp").is_some() => {
            refuse("needs libraries, and the guest has none")
        }
        Ok(_) => Ok(bytes),
        Err(_) => refuse("is no program"),
    }
}

/// The files that the modules need, each behind those that it needs itself, from the text of `modules.dep`. A module that is not there is in the
/// kernel itself.
fn needed<'a>(list: &'a str, modules: &[&str]) -> Vec<&'a str> {
    let mut files: Vec<&str> = Vec::new();
    for module in modules {
        let is_it = |path: &str| {
            let name = path.rsplit('/').next().unwrap_or_default();
            name.split(".ko").next().is_some_and(|name| name.replace('-', "_") == *module)
                && name.contains(".ko")
        };
        let line = list.lines().filter_map(|line| line.split_once(':')).find(|(path, _)| is_it(path));
        let Some((path, needs)) = line else { continue };
        for file in needs.split_whitespace().rev().chain([path]) {
            if !files.contains(&file) {
                files.push(file);
            }
        }
    }
    files
}

/// Where the guest has a module of the job that is this file on the host.
pub(crate) fn module_place(module: &Path) -> PathBuf {
    Path::new(MODULES).join(module.file_name().unwrap_or_default())
}

/// Makes the initramfs `image`: a folder of its files in `scratch`, packed. `loads` are the modules that the job loads.
pub(crate) fn initramfs(
    lab: &Lab<'_>,
    kernel: &Kernel,
    program: Option<&Path>,
    loads: &[PathBuf],
    init: &Path,
    scratch: &Path,
    image: &Path,
) -> Result<(), LabError> {
    let of = kernel.architecture;
    let root = scratch.join("root");
    let copy = |from: &Path, to: &str| {
        let to = root.join(to);
        if let Some(above) = to.parent() {
            fs::create_dir_all(above).map_err(LabError::io("make the folder", above))?;
        }
        fs::copy(from, &to).map(|_| ()).map_err(LabError::io("copy to the initramfs", from))
    };
    let busybox = debian::files(lab, of, "busybox-static")?;
    let places = ["usr/bin/busybox", "bin/busybox"].map(|place| busybox.join(place));
    let found = places.iter().find(|place| place.is_file());
    let found = found
        .ok_or_else(|| LabError::unexpected("busybox-static", format!("has no {}", places[0].display())))?;
    copy(found, "bin/busybox")?;
    let shell = root.join("bin/sh");
    symlink("busybox", &shell).map_err(LabError::io("link", &shell))?;
    copy(init, "init")?;
    if let Some(program) = program {
        let bytes = read_program(of, program)?;
        let to = root.join(PROGRAM.trim_start_matches('/'));
        fs::write(&to, bytes).map_err(LabError::io("write to the initramfs", &to))?;
        fs::set_permissions(&to, fs::Permissions::from_mode(0o755))
            .map_err(LabError::io("make executable", &to))?;
    }
    for module in loads {
        copy(module, &module_place(module).to_string_lossy()[1..])?;
    }
    if let Some(modules) = modules(kernel) {
        let list = modules.join("modules.dep");
        let text = latebound_files::read_text(&list, MAX_LIST).map_err(LabError::io("read", &list))?;
        let release = modules.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let files = needed(&text, &BOOT_MODULES);
        for file in files.iter().chain(&["modules.dep"]) {
            copy(&modules.join(file), &format!("lib/modules/{release}/{file}"))?;
        }
    }
    if let (Some(config), Some(release)) = (&kernel.config, &kernel.release) {
        copy(config, &format!("boot/config-{release}"))?;
    }
    // The archive's format, with a root's owner for every file.
    let pack = "cd \"$1\" && find . | cpio --quiet -o -H newc -R 0:0 >\"$2\"";
    program::output("pack an initramfs", Command::new("sh").args(["-c", pack, "sh"]).arg(&root).arg(image))
        .map(drop)
}

/// The folder of a kernel's modules. `None` for a kernel that has all that it needs in itself, as one that was built here.
fn modules(kernel: &Kernel) -> Option<PathBuf> {
    Some(kernel.base.as_ref()?.join("lib/modules").join(kernel.release.as_ref()?))
}

/// The QEMU command line.
pub(crate) fn compose(
    kernel: &Kernel,
    request: &Request<'_>,
    directory: &Path,
) -> Result<Vec<String>, LabError> {
    let of = kernel.architecture;
    let qemu = program::find(of.qemu().what).unwrap_or_else(|| of.qemu().what.into());
    let mut words = vec![qemu.display().to_string()];
    let mut add = |more: &[&str]| words.extend(more.iter().map(|word| (*word).to_owned()));
    add(&["-name", "lab", "-nodefaults", "-display", "none", "-no-reboot"]);
    add(of.foreign_machine().unwrap_or_default());
    add(&["-smp", &request.cpus.to_string(), "-m", &format!("{}M", request.memory_mib)]);
    // One console, on the serial port, to QEMU's standard output.
    add(&["-chardev", "stdio,id=console,signal=off,mux=off", "-serial", "chardev:console"]);
    let own = modules(kernel);
    let modules = own.as_ref().and_then(|own| own.parent());
    let shares = [
        (SHARE, Some(request.share), ""),
        ("modules", modules, ",readonly=on"),
        ("host", Some(directory), ",readonly=on"),
    ];
    for (tag, folder, access) in shares {
        let Some(folder) = folder else { continue };
        let folder = quoted(folder)?;
        add(&[
            "-fsdev",
            &format!("local,id={tag},path={folder},security_model=none,multidevs=remap{access}"),
            "-device",
            &format!("virtio-9p-pci,fsdev={tag},mount_tag={tag}"),
        ]);
    }
    if let Some(disk) = request.disk {
        let disk = quoted(disk)?;
        add(&[
            "-drive",
            &format!("file={disk},if=none,id=scratch,format=raw,{}", crate::virtme::NO_FLUSH),
            "-device",
            "virtio-blk-pci,drive=scratch",
        ]);
    }
    for card in 0..2 * request.net_pairs {
        add(&[
            "-netdev",
            &format!("hubport,id=net{card},hubid={}", card / 2),
            "-device",
            &format!("virtio-net-pci,netdev=net{card}"),
        ]);
    }
    add(&[
        "-kernel",
        &kernel.image.display().to_string(),
        "-initrd",
        &request.initramfs.display().to_string(),
    ]);
    let own = format!(
        "latebound_initramfs=1 latebound_boot_modules={} latebound_busybox=/bin/busybox latebound_share={SHARE}",
        if modules.is_some() { BOOT_MODULES.join(",") } else { String::new() }
    );
    add(&["-append", &format!("{} {own}", request.append.join(" "))]);
    Ok(words)
}

/// The mount tag of the folder shared with the guest.
const SHARE: &str = "share";

/// A path within one of QEMU's lists, which have commas between their parts.
fn quoted(path: &Path) -> Result<String, LabError> {
    let text = path.to_str().ok_or_else(|| {
        LabError::Machine(format!(
            "QEMU takes no path that is not UTF-8: {}; go to another folder",
            path.display()
        ))
    })?;
    Ok(text.replace(',', ",,"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_come_behind_those_that_they_need() {
        let list = "kernel/fs/9p/9p.ko.xz: kernel/net/9p/9pnet.ko.xz kernel/fs/netfs/netfs.ko.xz\n\
                    kernel/net/9p/9pnet.ko.xz:\n\
                    kernel/net/9p/9pnet_virtio.ko.xz: kernel/drivers/virtio/virtio_ring.ko kernel/net/9p/9pnet.ko.xz\n";
        assert_eq!(
            needed(list, &["9p", "9pnet_virtio", "virtio_pci"]),
            [
                "kernel/fs/netfs/netfs.ko.xz",
                "kernel/net/9p/9pnet.ko.xz",
                "kernel/fs/9p/9p.ko.xz",
                "kernel/drivers/virtio/virtio_ring.ko",
                "kernel/net/9p/9pnet_virtio.ko.xz",
            ]
        );
    }

    #[test]
    fn a_program_of_another_architecture_is_refused_with_what_to_type() {
        let own = std::env::current_exe().unwrap();
        let other = [Architecture::Amd64, Architecture::Arm64].into_iter().find(|of| !of.is_host()).unwrap();
        for (of, program, why) in [
            (other, own.as_path(), "is no program of"),
            (Architecture::host(), own.as_path(), "needs libraries"),
            (other, Path::new("/etc/passwd"), "is no program;"),
        ] {
            let error = read_program(of, program).unwrap_err().to_string();
            let command = format!("make static ARCH={}", of.machine());
            assert!(error.contains(why) && error.contains(&command), "{error}");
        }
    }

    #[test]
    fn a_comma_in_a_path_is_doubled_for_qemu() {
        assert_eq!(quoted(Path::new("/a,b")).unwrap(), "/a,,b");
    }
}
