// SPDX-License-Identifier: MIT OR Apache-2.0
//! What files and programs of others tell the lab: the header of a kernel image, answers of apt, variables of a package. Pure: bytes
//! and text in, values out, and nothing in them is believed.

use std::collections::BTreeMap;
use std::ops::Range;

/// The header of the boot protocol (Linux 6.12, Documentation/arch/x86/boot.rst).
pub(crate) struct ImageHeader([u8; ImageHeader::SIZE]);

impl ImageHeader {
    /// How many bytes of an image are read.
    pub(crate) const SIZE: usize = 0x268;

    /// `None` where it is no header.
    pub(crate) fn parse(header: [u8; Self::SIZE]) -> Option<ImageHeader> {
        (header.get(0x202..0x206)? == b"HdrS").then_some(ImageHeader(header))
    }

    fn u16(&self, at: usize) -> u64 {
        u64::from(u16::from_le_bytes([self.0[at], self.0[at + 1]]))
    }

    fn u32(&self, at: usize) -> u64 {
        self.u16(at) | self.u16(at + 2) << 16
    }

    /// The bytes of the image that [`release`] reads: the offset of the version's text, less 0x200, stands at 0x20e.
    pub(crate) fn release(&self) -> Range<u64> {
        let start = self.u16(0x20e) + 0x200;
        start..start + 128
    }

    /// The bytes of the image that hold the packed kernel; `None` before protocol 2.08, which has them first.
    pub(crate) fn payload(&self) -> Option<Range<u64>> {
        if self.u16(0x206) < 0x208 {
            return None;
        }
        let set_up = match self.0[0x1f1] {
            0 => 4,
            sectors => u64::from(sectors),
        };
        // payload_offset counts from the end of the set-up code.
        let start = (set_up + 1) * 512 + self.u32(0x248);
        Some(start..start + self.u32(0x24c))
    }
}

/// The release at the beginning of an image's version text. It names files, so that only what may stand in a name is one.
pub(crate) fn release(version: &[u8]) -> Option<String> {
    let end = version.iter().position(|byte| matches!(byte, b' ' | 0))?;
    let release = str::from_utf8(&version[..end]).ok()?;
    let is_name = !release.is_empty() && release.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/');
    is_name.then(|| release.to_owned())
}

/// The series that there are images of: `6.12`.
pub(crate) fn series(names: &[String], rt: bool, architecture: &str) -> Vec<String> {
    let images = names.iter().filter_map(|name| image_name(name, architecture));
    let of_flavour = images.filter(|(_, flavour)| (*flavour == "rt") == rt).map(|(version, _)| version);
    of_flavour
        .filter_map(|version| match numbers(version)[..] {
            [major, minor, ..] => Some(format!("{major}.{minor}{}", if rt { "-rt" } else { "" })),
            _ => None,
        })
        .collect()
}

/// What `apt-cache depends` says that a package cannot be without.
pub(crate) fn depends(answer: &str) -> Vec<String> {
    answer.lines().filter_map(|line| line.trim().strip_prefix("Depends: ")).map(str::to_owned).collect()
}

/// What `apt-cache policy` says that apt would install. A version names a folder.
pub(crate) fn candidate(answer: &str) -> Option<String> {
    let version = answer.lines().find_map(|line| line.trim().strip_prefix("Candidate: "))?;
    (version != "(none)" && !version.contains('/')).then(|| version.to_owned())
}

/// The mirror of the archive with this label, in lines of label and mirror.
pub(crate) fn mirror<'a>(known: &'a str, label: &str) -> Option<&'a str> {
    known.lines().find_map(|line| line.strip_prefix(label)?.strip_prefix(' '))
}

/// The parts of an image package's name: version and flavour (`""`, `rt`), for signed images of this architecture.
pub(crate) fn image_name<'a>(package: &'a str, architecture: &str) -> Option<(&'a str, &'a str)> {
    let rest = package.strip_prefix("linux-image-")?.strip_suffix(architecture)?.strip_suffix('-')?;
    let (version, flavour) = match rest.strip_suffix("-rt") {
        Some(version) => (version, "rt"),
        None => (rest, ""),
    };
    let odd = ["cloud", "unsigned", "dbg", "powerpc", "16k"].iter().any(|word| version.contains(word));
    (version.starts_with(|c: char| c.is_ascii_digit()) && !odd).then_some((version, flavour))
}

/// The newest image whose version begins with this one: `6.1` finds `6.1.0-56`.
pub(crate) fn choose_image(names: &[String], version: &str, rt: bool, architecture: &str) -> Option<String> {
    let fits = |name: &&String| {
        image_name(name, architecture).is_some_and(|(found, flavour)| {
            (flavour == "rt") == rt
                && found.strip_prefix(version).is_some_and(|rest| rest.starts_with(['.', '-', '+']))
        })
    };
    names.iter().filter(fits).max_by_key(|name| numbers(name)).cloned()
}

/// The numbers in a version, to compare by.
pub(crate) fn numbers(text: &str) -> Vec<u64> {
    text.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

/// For each version and flavour the shortest name and the newest package: a metapackage `linux-image-6.12-amd64`
/// stands for its series; where there is none, the first two numbers do.
pub(crate) fn newest_images(names: &[String], architecture: &str) -> BTreeMap<String, String> {
    let mut newest: BTreeMap<String, String> = BTreeMap::new();
    for package in names {
        let Some((version, flavour)) = image_name(package, architecture) else { continue };
        let mut parts = version.split('.');
        let (Some(major), Some(minor)) = (parts.next(), parts.next()) else { continue };
        // A metapackage has no third part; the packages that it stands for are in the list themselves.
        if parts.next().is_none() {
            continue;
        }
        let minor: String = minor.chars().take_while(char::is_ascii_digit).collect();
        let name = format!("debian:{major}.{minor}{}", if flavour == "rt" { "-rt" } else { "" });
        let best = newest.entry(name).or_insert_with(|| package.clone());
        if numbers(package) > numbers(best) {
            *best = package.clone();
        }
    }
    newest
}

/// The compiler in `CC = … $(CROSS_COMPILE)gcc-14`, as this machine would name it.
pub(crate) fn named_compiler(variables: &str) -> Option<String> {
    let line = variables.lines().find(|line| line.starts_with("CC = "))?;
    let (_, name) = line.rsplit_once("$(CROSS_COMPILE)")?;
    let name = name.trim();
    name.starts_with("gcc-").then(|| name.to_owned())
}

pub(crate) fn without_line(text: &str, line: &str) -> String {
    text.lines().filter(|found| *found != line).map(|found| format!("{found}\n")).collect()
}
