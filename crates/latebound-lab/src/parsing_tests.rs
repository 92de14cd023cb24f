// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of [`crate::parsing`], apart from it because the tests of every reader's memory have that file too and may hold no other test.

use crate::parsing::*;

fn names() -> Vec<String> {
    [
        "linux-image-6.1.0-9-amd64",
        "linux-image-6.1.0-56-amd64",
        "linux-image-6.1.0-57-amd64-unsigned",
        "linux-image-6.1.0-56-rt-amd64",
        "linux-image-6.1.0-56-cloud-amd64",
        "linux-image-6.12.117+deb12-amd64",
        "linux-image-6.12.9+deb12-amd64",
        "linux-image-amd64",
    ]
    .map(str::to_owned)
    .to_vec()
}

#[test]
fn a_short_version_means_the_newest_image_that_begins_with_it() {
    let choose = |version, rt| choose_image(&names(), version, rt, "amd64");
    assert_eq!(choose("6.1", false).as_deref(), Some("linux-image-6.1.0-56-amd64"));
    assert_eq!(choose("6.1", true).as_deref(), Some("linux-image-6.1.0-56-rt-amd64"));
    assert_eq!(choose("6.12", false).as_deref(), Some("linux-image-6.12.117+deb12-amd64"));
    assert_eq!(choose("6.12", true), None);
    assert_eq!(choose("6", false).as_deref(), Some("linux-image-6.12.117+deb12-amd64"));
}

#[test]
fn series_that_can_be_had_are_named_by_flavour() {
    assert_eq!(series(&names(), true, "amd64"), ["6.1-rt"]);
    assert_eq!(series(&names(), false, "amd64"), ["6.1", "6.1", "6.12", "6.12"]);
}

#[test]
fn cloud_debug_and_unsigned_images_are_not_kernels_to_choose() {
    assert_eq!(image_name("linux-image-6.1.0-56-cloud-amd64", "amd64"), None);
    assert_eq!(image_name("linux-image-6.1.0-57-amd64-unsigned", "amd64"), None);
    assert_eq!(image_name("linux-image-amd64", "amd64"), None);
    assert_eq!(image_name("linux-image-6.12-rt-amd64", "amd64"), Some(("6.12", "rt")));
}

#[test]
fn the_newest_image_of_each_series_and_flavour_is_listed() {
    let names = [
        "linux-image-6.1.0-9-amd64",
        "linux-image-6.1.0-56-amd64",
        "linux-image-6.1.0-56-rt-amd64",
        "linux-image-6.12-amd64",
        "linux-image-6.12.117+deb12-amd64",
        "linux-image-6.12.117+deb12-cloud-amd64",
    ]
    .map(str::to_owned);
    let found = newest_images(&names, "amd64");
    let found: Vec<(&str, &str)> =
        found.iter().map(|(name, package)| (name.as_str(), package.as_str())).collect();
    assert_eq!(
        found,
        [
            ("debian:6.1", "linux-image-6.1.0-56-amd64"),
            ("debian:6.1-rt", "linux-image-6.1.0-56-rt-amd64"),
            ("debian:6.12", "linux-image-6.12.117+deb12-amd64"),
        ]
    );
}

#[test]
fn the_compiler_of_a_kernel_is_read_from_its_variables() {
    let text =
        "override ARCH = x86\nCC = $(if $(DEBIAN_KERNEL_USE_CCACHE),$(CCACHE)) $(CROSS_COMPILE)gcc-14\n";
    assert_eq!(named_compiler(text).as_deref(), Some("gcc-14"));
    assert_eq!(named_compiler("CC = $(CROSS_COMPILE)clang\n"), None);
    assert_eq!(named_compiler(""), None);
}

#[test]
fn an_image_tells_where_its_release_and_its_kernel_are() {
    let mut header = [0; ImageHeader::SIZE];
    assert!(ImageHeader::parse(header).is_none());
    header[0x202..0x206].copy_from_slice(b"HdrS");
    header[0x206..0x208].copy_from_slice(&0x207_u16.to_le_bytes());
    header[0x20e..0x210].copy_from_slice(&[0xff; 2]);
    let old = ImageHeader::parse(header).unwrap();
    assert_eq!((old.release(), old.payload()), (0x101ff..0x1027f, None));
    header[0x206..0x208].copy_from_slice(&0x208_u16.to_le_bytes());
    header[0x248..0x250].copy_from_slice(&[0xff; 8]);
    let most = u64::from(u32::MAX);
    assert_eq!(ImageHeader::parse(header).unwrap().payload(), Some(2560 + most..2560 + 2 * most));
}

#[test]
fn only_what_may_stand_in_a_file_name_is_a_release() {
    assert_eq!(release(b"6.1.0-9 (x)").as_deref(), Some("6.1.0-9"));
    assert_eq!(release(b"6.12.117+deb12-amd64\0\xff").as_deref(), Some("6.12.117+deb12-amd64"));
    for odd in [&b"../../etc/x y"[..], b" ", b"", b"6.1\x1b[2J x", b"6.1\xff x", b"6.1.0"] {
        assert_eq!(release(odd), None, "{odd:?}");
    }
}

#[test]
fn answers_of_apt_are_read() {
    let policy = "linux-image-6.1:\n  Installed: (none)\n  Candidate: 6.1.1-1~deb12u1\n";
    assert_eq!(candidate(policy).as_deref(), Some("6.1.1-1~deb12u1"));
    assert_eq!(candidate("  Candidate: (none)\n"), None);
    assert_eq!(candidate("  Candidate: ../../1\n"), None);
    assert_eq!(depends("a\n  Depends: b\n |Depends: c\n  Depends: d\n"), ["b", "d"]);
    assert_eq!(mirror("Debian-Security http://a\nDebian http://b", "Debian"), Some("http://b"));
}
