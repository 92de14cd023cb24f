// SPDX-License-Identifier: MIT OR Apache-2.0
//! Headers that become Rust, and headers that are refused.

use latebound_wire::rust_of;

fn of(text: &str) -> Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let header = folder.path().join("planted.h");
    std::fs::write(&header, text).unwrap();
    rust_of(&header, &[]).map_err(|error| error.to_string())
}

const HEADER: &str = "
enum lb_kind {
	LB_KIND_BEGIN = 1,
	LB_KIND_END = 2,
	LB_KIND_COUNT,
};
enum lb_planted_constants { LB_SLOTS = 4, LB_COMMAND = 0xc0104cd0U };
#define LB_ABI 2U
struct lb_inner { __u64 at_ns; __s32 tid; enum lb_kind kind; };
struct lb_outer { struct lb_inner inner[2]; __u8 comm[16]; char text[6]; __s16 nice; };
";

#[test]
fn a_header_gives_structs_enums_and_constants() {
    let rust = of(HEADER).unwrap();
    for expected in [
        "pub enum Kind {",
        "Begin = 1,",
        "End = 2,",
        "pub const COUNT: usize = 3;",
        "pub const LB_SLOTS: u32 = 4;",
        "pub const LB_COMMAND: u32 = 3222293712;",
        "pub const LB_ABI: u32 = 2;",
        "pub struct Inner {",
        "pub tid: i32,",
        "pub inner: [Inner; 2],",
        "pub comm: [u8; 16],",
        "pub nice: i16,",
        "size_of::<Outer>() == 56",
        "offset_of!(Outer, nice) == 54",
    ] {
        assert!(rust.contains(expected), "{expected} is not in:\n{rust}");
    }
}

#[test]
fn an_enumerator_in_the_middle_moves_no_name_to_another_number() {
    let longer = HEADER.replace("	LB_KIND_END = 2,", "	LB_KIND_PAUSE,\n	LB_KIND_END,");
    let rust = of(&longer).unwrap();
    assert!(rust.contains("Pause = 2,") && rust.contains("End = 3,"), "{rust}");
    assert!(rust.contains("COUNT: usize = 4;"), "{rust}");
}

#[test]
fn what_has_no_place_in_a_contract_is_refused_by_name() {
    for (text, expected) in [
        ("struct lb_a { __u8 a; __u32 b; };", "struct lb_a, b: 3 bytes of padding"),
        ("struct lb_a { __u32 b; __u8 a; };", "struct lb_a: 3 bytes of padding at its end"),
        ("struct lb_a { void *b; };", "struct lb_a, b: a pointer"),
        ("struct lb_a { union { __u32 b; __u32 c; } d; };", "struct lb_a, d: a union"),
        ("struct lb_a { __u32 b : 3; __u32 c : 29; };", "struct lb_a, b: a bit field"),
        ("struct lb_a { struct lb_b c; };", "clang does not compile"),
        ("#define LB_LONG (1ULL << 40)\n", "LB_LONG has more than 32 bits"),
        ("/* nothing */", "nothing is defined"),
    ] {
        let error = of(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}
