// SPDX-License-Identifier: MIT OR Apache-2.0
//! What lies in an x86 kernel image: its release, and the kernel itself, which a machine that is handed it unpacked
//! need not unpack in emulation. Reads bytes, never trusts them.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::parsing::{self, ImageHeader};
use crate::program;

fn header(image: &mut fs::File) -> Option<ImageHeader> {
    let mut bytes = [0u8; ImageHeader::SIZE];
    image.read_exact(&mut bytes).ok()?;
    ImageHeader::parse(bytes)
}

/// The release in an image's header.
pub(crate) fn release(image: &Path) -> Option<String> {
    let mut file = latebound_files::open(image).ok()?;
    let place = header(&mut file)?.release();
    file.seek(SeekFrom::Start(place.start)).ok()?;
    let mut text = Vec::new();
    file.take(place.end - place.start).read_to_end(&mut text).ok()?;
    parsing::release(&text)
}

/// How payloads are packed: the first bytes, and the program that unpacks standard input to standard output.
const PACKED: [(&[u8], &str); 4] = [
    (&[0x28, 0xb5, 0x2f, 0xfd], "zstd"),
    (&[0xfd, b'7', b'z', b'X', b'Z'], "xz"),
    (&[0x1f, 0x8b], "gzip"),
    (&[0x02, 0x21, 0x4c, 0x18], "lz4"),
];

/// Unpacks the kernel in an image to a file. `None`, and no file, where there is none or the program is missing: then the
/// image itself is booted, which takes longer and gives the same.
pub(crate) fn unpack(image: &Path, to: &Path) -> Option<()> {
    let mut file = latebound_files::open(image).ok()?;
    let place = header(&mut file)?.payload()?;
    file.seek(SeekFrom::Start(place.start)).ok()?;
    let mut packed = Vec::new();
    file.take(place.end - place.start).read_to_end(&mut packed).ok()?;
    let (_, unpacker) = PACKED.iter().find(|(magic, _)| packed.starts_with(magic))?;
    // gzip ends in the unpacked size; behind the others the build appends it (Linux 6.12, scripts/Makefile.lib,
    // size_append), and it is not part of the stream.
    if *unpacker != "gzip" {
        packed.truncate(packed.len().saturating_sub(4));
    }
    let part = to.with_extension("part");
    let input = part.with_extension("packed");
    fs::write(&input, &packed).ok()?;
    let status = Command::new(program::find(unpacker)?)
        .args(["-d", "-c", "-q"])
        .stdin(fs::File::open(&input).ok()?)
        .stdout(fs::File::create(&part).ok()?)
        .stderr(Stdio::null())
        .status();
    let _ = fs::remove_file(&input);
    let mut magic = [0u8; 4];
    let is_elf = fs::File::open(&part).and_then(|mut file| file.read_exact(&mut magic)).is_ok();
    if status.is_ok_and(|status| status.success()) && is_elf && &magic == b"\x7fELF" {
        return fs::rename(&part, to).ok();
    }
    let _ = fs::remove_file(&part);
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An image with this payload, whose header says that it has one sector of set-up code.
    fn image(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0u8; 1024];
        image[0x1f1] = 1;
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x206..0x208].copy_from_slice(&0x020f_u16.to_le_bytes());
        image[0x20e..0x210].copy_from_slice(&0x100_u16.to_le_bytes());
        image[0x300..0x30b].copy_from_slice(b"6.1.0-9 (x)");
        image[0x248..0x24c].copy_from_slice(&16u32.to_le_bytes());
        image[0x24c..0x250].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        image.extend([0u8; 16]);
        image.extend(payload);
        image
    }

    fn packed_by(program: &str, bytes: &[u8]) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x");
        fs::write(&file, bytes).unwrap();
        Command::new(program).arg("-c").arg(file).output().unwrap().stdout
    }

    #[test]
    fn the_kernel_in_an_image_is_unpacked_and_nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        let (packed, to) = (folder.path().join("vmlinuz"), folder.path().join("vmlinux"));
        let kernel = b"\x7fELF and so on";
        let with_size = [packed_by("xz", kernel), vec![14, 0, 0, 0]].concat();
        for payload in [packed_by("gzip", kernel), with_size] {
            fs::write(&packed, image(&payload)).unwrap();
            assert_eq!(release(&packed).as_deref(), Some("6.1.0-9"));
            unpack(&packed, &to).unwrap();
            assert_eq!(fs::read(&to).unwrap(), kernel);
            fs::remove_file(&to).unwrap();
        }
        let mut cut = image(&packed_by("gzip", kernel));
        cut[0x24c] = 3;
        for bad in [
            image(&packed_by("gzip", b"no kernel")),
            image(b"\x1f\x8bbroken"),
            image(b"strange"),
            cut,
            vec![0; 99],
        ] {
            fs::write(&packed, bad).unwrap();
            assert_eq!(unpack(&packed, &to), None);
        }
        let left: Vec<_> = fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(left, ["vmlinuz"]);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_taken_for_an_image(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..2000), mark: bool) {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("vmlinuz");
            let mut bytes = bytes;
            if mark && bytes.len() > 0x206 {
                bytes[0x202..0x206].copy_from_slice(b"HdrS");
            }
            fs::write(&file, bytes).unwrap();
            let _ = release(&file);
            let _ = unpack(&file, &folder.path().join("vmlinux"));
        }
    }
}
