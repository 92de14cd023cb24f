// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupts with their counts and where they may be delivered. Owns the parsing of `/proc/interrupts`.

use latebound_model::InterruptLine;

use crate::root::{ReadError, Root};

/// Every line of `/proc/interrupts`, with the affinity of those that have one.
pub(crate) fn read(root: &Root) -> Result<Vec<InterruptLine>, ReadError> {
    let path = "/proc/interrupts";
    let text = root.text(path)?;
    let mut lines =
        parse(&text).ok_or_else(|| ReadError::unexpected(path, text.trim(), "a table with CPU columns"))?;
    for line in lines.iter_mut().filter(|line| is_device(line)) {
        line.affinity = root.cpus(&format!("/proc/irq/{}/smp_affinity_list", line.id)).ok();
    }
    Ok(lines)
}

/// Whether it is a device's interrupt and not a processor's own.
pub(crate) fn is_device(line: &InterruptLine) -> bool {
    line.id.bytes().all(|byte| byte.is_ascii_digit())
}

/// The first line names the CPUs that are on line, so numbers may be missing; ERR and MIS have one count only.
fn parse(text: &str) -> Option<Vec<InterruptLine>> {
    let mut lines = text.lines();
    let header = lines.next()?;
    let cpus = header.split_whitespace().filter(|word| word.starts_with("CPU")).count();
    if cpus == 0 {
        return None;
    }
    Some(lines.filter_map(|line| parse_line(line, cpus)).collect())
}

fn parse_line(line: &str, cpus: usize) -> Option<InterruptLine> {
    let (id, mut rest) = line.split_once(':')?;
    let mut counts = Vec::new();
    while counts.len() < cpus {
        let trimmed = rest.trim_start();
        let word = trimmed.split_whitespace().next().unwrap_or_default();
        let Ok(count) = word.parse() else { break };
        counts.push(count);
        rest = trimmed.get(word.len()..).unwrap_or_default();
    }
    let id = id.trim().to_owned();
    let device = id.bytes().all(|byte| byte.is_ascii_digit());
    // Of a device's line the handlers stand last, behind two spaces; without one the line ends in the padding of the
    // flow type (kernel/irq/proc.c, `show_interrupts`). The processor's own have a sentence there.
    let name = match device {
        true if rest.ends_with(' ') => "",
        true => rest.rsplit("  ").next().unwrap_or_default(),
        false => rest,
    };
    Some(InterruptLine { id, name: name.trim().to_owned(), counts, affinity: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<(String, String, Vec<u64>)> {
        parse(text).unwrap().into_iter().map(|line| (line.id, line.name, line.counts)).collect()
    }

    #[test]
    fn lines_of_x86_and_arm_are_read_with_gaps_in_the_cpu_numbers() {
        let x86 = "           CPU0       CPU2       \n  8:          1          0  IO-APIC   8-edge      rtc0\n \
                   16:          0         12  IO-APIC  16-fasteoi   ehci_hcd:usb1, snd hda\n \
                   29:          0          0 PCI-MSIX-0000:00:01.0   1-edge      \n\
                   LOC:      26346      26728   Local timer interrupts\nERR:          0";
        assert_eq!(
            shown(x86),
            [
                ("8".into(), "rtc0".into(), vec![1, 0]),
                ("16".into(), "ehci_hcd:usb1, snd hda".into(), vec![0, 12]),
                ("29".into(), "".into(), vec![0, 0]),
                ("LOC".into(), "Local timer interrupts".into(), vec![26346, 26728]),
                ("ERR".into(), "".into(), vec![0]),
            ]
        );
        let arm = "           CPU0       CPU1\n 11:    1234    5678     GICv2  30 Level     arch_timer\n\
                   IPI0:     10     20       Rescheduling interrupts\n";
        assert_eq!(
            shown(arm),
            [
                ("11".into(), "arch_timer".into(), vec![1234, 5678]),
                ("IPI0".into(), "Rescheduling interrupts".into(), vec![10, 20]),
            ]
        );
    }

    #[test]
    fn what_is_no_table_is_said_to_be_none() {
        assert_eq!(parse(""), None);
        assert_eq!(parse("nonsense\n1: 2 3\n"), None);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "(CPU[0-9]{1,2} ){0,3}\n([0-9A-Z]{0,4}:? *[0-9]{0,22} *[a-z -]{0,9}\n?){0,5}") {
            for line in parse(&text).unwrap_or_default() {
                proptest::prop_assert!(line.counts.len() <= 3);
            }
        }
    }
}
