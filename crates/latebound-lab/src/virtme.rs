// SPDX-License-Identifier: MIT OR Apache-2.0
//! virtme-ng in an environment of its own, and the QEMU command line that it composes: which machine, which root file
//! system and which initramfs fit the kernel and the architecture is its knowledge, not ours.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::arch::Architecture;
use crate::context::Lab;
use crate::error::LabError;
use crate::program::{self, program as need};
use crate::shell;

/// The version that the lab was tried with; what it prints is read back, so another is not taken unseen.
const VERSION: &str = "1.42";

/// What must be on the host for a machine to run.
pub(crate) fn require() -> Result<(), LabError> {
    program::require(
        "a lab machine",
        &[
            Architecture::host().qemu(),
            need("busybox", "busybox-static"),
            need("python3", "python3-venv"),
            need("depmod", "kmod"),
            need("file", "file"),
        ],
    )
}

/// The folder with virtme-ng's programs, installed from PyPI once.
fn environment(lab: &Lab<'_>) -> Result<PathBuf, LabError> {
    let folder = lab.folder("tools")?.join(format!("virtme-ng-{VERSION}"));
    let programs = folder.join("bin");
    // pip makes this script last of all that is used here, but only a finished install renames nothing; so a mark.
    let mark = folder.join("latebound-installed");
    if mark.is_file() {
        return Ok(programs);
    }
    let _lock = lab.lock("virtme-ng", "installing virtme-ng")?;
    if mark.is_file() {
        return Ok(programs);
    }
    let log = lab.folder("tools")?.join("virtme-ng.log");
    let say = || format!("installing virtme-ng {VERSION} from PyPI");
    // The system's Python: another one's environment would end with that one.
    let python = ["/usr/bin/python3", "python3"].into_iter().find(|python| program::find(python).is_some());
    let mut venv = Command::new(python.unwrap_or("python3"));
    venv.args(["-m", "venv", "--clear"]).arg(&folder);
    program::logged(lab, "make a Python environment (package python3-venv)", &mut venv, &log, say)?;
    let mut pip = Command::new(programs.join("pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check", &format!("virtme-ng=={VERSION}")]);
    program::logged(lab, "install virtme-ng from PyPI", &mut pip, &log, say)?;
    fs::write(&mark, VERSION).map_err(LabError::io("write", &mark))?;
    Ok(programs)
}

/// What is asked of virtme-run.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) image: &'a Path,
    /// Whether the modules that lie beside the image are to be used.
    pub(crate) modules: bool,
    pub(crate) kvm: bool,
    pub(crate) cpus: u32,
    pub(crate) memory_mib: u64,
    /// The folder shared with the guest.
    pub(crate) share: &'a Path,
    /// Where the initramfs is written to.
    pub(crate) initramfs: &'a Path,
    pub(crate) disk: Option<&'a Path>,
    /// Pairs of network cards, each pair joined by a wire.
    pub(crate) net_pairs: u32,
    pub(crate) append: &'a [String],
}

impl Request<'_> {
    /// virtme-run's arguments.
    fn arguments(&self) -> Vec<String> {
        let mut words: Vec<String> = [
            "--kimg",
            &self.image.display().to_string(),
            "--mods",
            if self.modules { "auto" } else { "none" },
            "--force-9p",
            "--disable-microvm",
            "--disable-monitor",
            "--force-initramfs",
            // Brings the overlay module into the initramfs; the layer itself is made by our init.
            "--overlay-rwdir",
            "/etc",
            "--name",
            "lab",
            "--user",
            "root",
            "--cpus",
            &self.cpus.to_string(),
            "--memory",
            &format!("{}M", self.memory_mib),
            "--rwdir",
            &format!("/run/latebound={}", self.share.display()),
            "--save-initramfs",
            &self.initramfs.display().to_string(),
            "--dry-run",
            "--show-command",
        ]
        .map(str::to_owned)
        .to_vec();
        if !self.kvm {
            words.push("--disable-kvm".to_owned());
        }
        if let Some(disk) = self.disk {
            words.extend(["--blk-disk".to_owned(), format!("scratch={}", disk.display())]);
        }
        for _ in 0..self.net_pairs {
            words.extend(["--net".to_owned(), "loop".to_owned()]);
        }
        for option in self.append {
            words.extend(["--kopt".to_owned(), option.clone()]);
        }
        words
    }
}

/// The QEMU command line for this machine, with our init in the place of virtme-ng's.
pub(crate) fn compose(lab: &Lab<'_>, request: &Request<'_>, init: &Path) -> Result<Vec<String>, LabError> {
    require()?;
    let programs = environment(lab)?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::iter::once(programs.clone())
        .chain(std::env::split_paths(&path))
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    let mut command = Command::new(programs.join("virtme-run"));
    command.args(request.arguments()).current_dir("/").env("TERM", "dumb");
    command.env("PATH", std::env::join_paths(places).unwrap_or(path));
    let printed = program::output("compose a machine with virtme-ng", &mut command)?;
    let line = printed.lines().rev().find(|line| line.contains(" -append ")).ok_or_else(|| {
        LabError::unexpected("virtme-run", format!("printed no QEMU command line but: {printed}"))
    })?;
    let busybox = program::find("busybox").unwrap_or_else(|| "/usr/bin/busybox".into());
    let mut words = adapt(shell::split(line)?, init, &busybox)?;
    if let Some(disk) = request.disk {
        hold_no_flush(&mut words, disk)?;
    }
    Ok(words)
}

/// The host does not write the scratch disk out where the guest flushes it: nobody needs it after a power failure, and in a guest's time the
/// host's disk would be seen, with all that others write there.
pub(crate) const NO_FLUSH: &str = "cache=unsafe";

fn hold_no_flush(words: &mut [String], disk: &Path) -> Result<(), LabError> {
    let file = format!("file={}", disk.display());
    let drive =
        words.windows(2).position(|pair| pair[0] == "-drive" && pair[1].split(',').any(|part| part == file));
    let drive = drive.and_then(|at| words.get_mut(at + 1));
    let drive = drive.ok_or_else(|| LabError::unexpected("virtme-run", "gave QEMU no scratch disk"))?;
    drive.push(',');
    drive.push_str(NO_FLUSH);
    Ok(())
}

/// Turns virtme-ng's command line for an interactive machine into ours: one console, on the serial port, to QEMU's
/// standard output; our init; no restart after a panic.
fn adapt(mut words: Vec<String>, init: &Path, busybox: &Path) -> Result<Vec<String>, LabError> {
    let append = words
        .iter()
        .position(|word| word == "-append")
        .and_then(|at| words.get_mut(at + 1))
        .ok_or_else(|| LabError::unexpected("virtme-run", "gave QEMU no kernel command line"))?;
    let dropped = ["console=hvc0", "psmouse.proto=exps", "quiet", "loglevel=1"];
    let dropped_keys = ["init=", "virtme_rw_overlay", "virtme_initmount", "TERM="];
    let mut options: Vec<String> = append
        .split(' ')
        .filter(|word| !dropped.contains(word) && !dropped_keys.iter().any(|key| word.starts_with(key)))
        .map(str::to_owned)
        .collect();
    // The tag under which virtme-run shares the first folder.
    options.push("latebound_share=virtme.initmount0".to_owned());
    options.push(format!("latebound_busybox={}", busybox.display()));
    options.push(format!("init={}", init.display()));
    *append = options.join(" ");
    words.push("-no-reboot".to_owned());
    // The second console is for people at a terminal.
    Ok(without_console(words, "dmesg"))
}

/// Leaves out a character device and the virtio console on it; the virtio-serial bus that carried it goes too.
fn without_console(words: Vec<String>, id: &str) -> Vec<String> {
    let mut kept: Vec<String> = Vec::with_capacity(words.len());
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if word == "-chardev" || word == "-device" {
            let Some(value) = words.next() else { continue };
            let is_chardev = word == "-chardev" && value.split(',').any(|part| part == format!("id={id}"));
            let is_console = value == format!("virtconsole,chardev={id}");
            if is_console && kept.last().is_some_and(|last| last.starts_with("virtio-serial")) {
                kept.truncate(kept.len() - 2);
            }
            if !is_chardev && !is_console {
                kept.extend([word, value]);
            }
        } else {
            kept.push(word);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As virtme-run 1.42 prints it, shortened.
    const PRINTED: &str = "/usr/bin/qemu-system-x86_64 -name lab -m 1G -fsdev \
        local,id=virtfs9,path=/tmp/share,security_model=none,multidevs=remap -machine q35 -cpu max -echr 1 -chardev \
        file,path=/proc/self/fd/2,id=dmesg -device virtio-serial-pci -device virtconsole,chardev=dmesg -chardev \
        stdio,id=console,signal=off,mux=off -serial chardev:console -smp 2 -kernel /k/vmlinuz -append \
        'virtme_hostname=lab virtme_link_mods=/k/lib/modules/6.12 virtme_initmount0=/run/latebound \
        virtme_rw_overlay0=/etc console=hvc0 psmouse.proto=exps TERM=dumb quiet loglevel=1 console=ttyS0 \
        init=/v/virtme-ng-init' -initrd /tmp/irfs";

    #[test]
    fn the_machine_gets_our_init_and_one_console() {
        let words =
            adapt(shell::split(PRINTED).unwrap(), Path::new("/s/init"), Path::new("/usr/bin/busybox"))
                .unwrap();
        let append = &words[words.iter().position(|word| word == "-append").unwrap() + 1];
        assert_eq!(
            append,
            "virtme_hostname=lab virtme_link_mods=/k/lib/modules/6.12 console=ttyS0 \
             latebound_share=virtme.initmount0 latebound_busybox=/usr/bin/busybox init=/s/init"
        );
        let rest = words.join(" ");
        assert!(!rest.contains("dmesg") && !rest.contains("virtio-serial"), "{rest}");
        assert!(
            rest.contains("-chardev stdio,id=console,signal=off,mux=off -serial chardev:console"),
            "{rest}"
        );
        assert!(rest.ends_with("-initrd /tmp/irfs -no-reboot"), "{rest}");
    }

    #[test]
    fn an_answer_without_a_kernel_is_refused() {
        assert!(adapt(vec!["qemu".to_owned()], Path::new("/i"), Path::new("/b")).is_err());
    }

    #[test]
    fn a_scratch_disk_is_not_flushed_and_an_answer_without_it_is_refused() {
        let mut words = shell::split("qemu -drive if=none,id=blk-disk0,file=/d -device virtio-blk").unwrap();
        hold_no_flush(&mut words, Path::new("/d")).unwrap();
        assert_eq!(words[2], "if=none,id=blk-disk0,file=/d,cache=unsafe");
        assert!(hold_no_flush(&mut words, Path::new("/e")).is_err());
    }

    #[test]
    fn disks_cards_and_options_are_asked_for() {
        let request = Request {
            image: Path::new("/k/vmlinuz"),
            modules: true,
            kvm: false,
            cpus: 1,
            memory_mib: 512,
            share: Path::new("/s"),
            initramfs: Path::new("/i"),
            disk: Some(Path::new("/d")),
            net_pairs: 1,
            append: &["preempt=full".to_owned()],
        };
        let line = request.arguments().join(" ");
        for part in [
            "--blk-disk scratch=/d",
            "--net loop",
            "--kopt preempt=full",
            "--cpus 1",
            "--memory 512M",
            "--disable-kvm",
        ] {
            assert!(line.contains(part), "{part} in {line}");
        }
    }
}
