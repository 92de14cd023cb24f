// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options on the kernel's command line: what one is set to, and how it is made permanent on this system. Owns what is known of
//! boot loaders; only words commands, never runs one.

use crate::root::Root;

/// The command that adds options to the kernel's command line, for the boot loader that is found here.
pub(crate) fn add(root: &Root, options: &str) -> String {
    // Raspberry Pi: one line in a file on the firmware's partition, /boot/firmware since Debian 12.
    for file in ["/boot/firmware/cmdline.txt", "/boot/cmdline.txt"] {
        if root.exists(file) {
            return format!("sed -i '1s/$/ {options}/' {file}  # then reboot");
        }
    }
    if root.exists("/usr/sbin/grubby") || root.exists("/usr/bin/grubby") {
        return format!("grubby --update-kernel=ALL --args='{options}'  # then reboot");
    }
    if root.exists("/etc/default/grub") {
        let update = match root.exists("/usr/sbin/update-grub") {
            true => "update-grub",
            false => "grub-mkconfig -o /boot/grub/grub.cfg",
        };
        return format!(
            "sed -i 's/^GRUB_CMDLINE_LINUX=\"/&{options} /' /etc/default/grub && {update}  # then reboot"
        );
    }
    format!("# add to the kernel command line in the boot loader, then reboot: {options}")
}

/// How a PREEMPT_RT kernel is had on this distribution.
pub(crate) fn install_rt_kernel(root: &Root, machine: Option<&str>) -> String {
    let os_release = root.text("/etc/os-release").unwrap_or_default();
    let id = os_release.lines().find_map(|line| line.strip_prefix("ID=")).map(|id| id.trim_matches('"'));
    match (id, machine) {
        (Some("debian"), Some("x86_64")) => "apt-get install linux-image-rt-amd64  # then reboot".to_owned(),
        (Some("debian"), Some("aarch64")) => "apt-get install linux-image-rt-arm64  # then reboot".to_owned(),
        (Some("ubuntu"), _) => "pro enable realtime-kernel  # then reboot".to_owned(),
        (Some("rhel"), _) => "dnf install kernel-rt  # then reboot".to_owned(),
        (Some("arch"), _) => "pacman -S linux-rt  # then reboot".to_owned(),
        _ => "# boot a kernel built with CONFIG_PREEMPT_RT=y (mainline from 6.12, else the RT patches)"
            .to_owned(),
    }
}

/// The value of an option on the kernel's command line: the last of its name, empty where it has none. Words behind ` -- ` are for init, not for the kernel.
pub(crate) fn value<'a>(command_line: &'a str, name: &str) -> Option<&'a str> {
    let words = command_line.split_whitespace().take_while(|&word| word != "--");
    let of = |word: &'a str| match word.split_once('=') {
        Some((key, value)) => (key == name).then_some(value),
        None => (word == name).then_some(""),
    };
    words.filter_map(of).last()
}

#[cfg(test)]
mod tests {
    use super::value;

    #[test]
    fn the_last_option_of_a_name_holds_and_those_for_init_do_not_count() {
        let line = "quiet preempt=none isolcpus=1-3 preempt=full threadirqs -- preempt=lazy";
        assert_eq!(value(line, "preempt"), Some("full"));
        assert_eq!(value(line, "threadirqs"), Some(""));
        assert_eq!(value(line, "isolcpus"), Some("1-3"));
        assert_eq!(value(line, "isol"), None);
        assert_eq!(value("", "preempt"), None);
    }
}
