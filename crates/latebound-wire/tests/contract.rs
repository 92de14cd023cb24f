// SPDX-License-Identifier: MIT OR Apache-2.0
//! Headers that become Rust, and headers that are refused.

#![allow(clippy::unwrap_used, reason = "a test may panic; Clippy knows only functions marked as tests")]

use latebound_wire::{rust_of, rust_of_all};

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
        ("struct lb_a { union { __u32 b; __u32 c; }; };", "struct lb_a, : a union"),
        ("struct lb_a { union { struct { __u8 b; }; __u32 c; }; };", "struct lb_a, : a union"),
        ("struct lb_a { __u32 b : 3; __u32 c : 29; };", "struct lb_a, b: a bit field"),
        ("struct lb_a { struct lb_b c; };", "clang does not compile"),
        ("#define LB_LONG (1ULL << 40)\n", "LB_LONG has more than 32 bits"),
        ("/* nothing */", "nothing is defined"),
    ] {
        let error = of(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn a_union_is_named_by_its_first_structure_of_the_same_length() {
    let rust = of("union lb_state { struct { __u8 on; __u8 off; }; __u16 all; };\n\
                   struct lb_a {\n\tunion lb_state state;\n\tunion { struct { __u8 named; __u8 within; }; __u16 both; };\n};\n")
    .unwrap();
    for expected in [
        "pub struct State {",
        "pub off: u8,",
        "pub state: State,",
        "pub within: u8,",
        "offset_of!(A, within) == 3",
        "size_of::<A>() == 4",
    ] {
        assert!(rust.contains(expected), "{expected} is not in:\n{rust}");
    }
    assert!(!rust.contains("both") && !rust.contains("all:"), "{rust}");
}

#[test]
fn a_structure_that_two_headers_use_is_one_type() {
    let folder = tempfile::tempdir().unwrap();
    let [inner, outer] = ["inner.h", "outer.h"].map(|name| folder.path().join(name));
    std::fs::write(
        &inner,
        "#ifndef INNER_H\n#define INNER_H\n#define LB_SLOTS 2\nstruct lb_inner { __u32 a; };\n#endif\n",
    )
    .unwrap();
    std::fs::write(
        &outer,
        "#include \"inner.h\"\n#define LB_MORE 3\nstruct lb_outer { struct lb_inner inner[LB_SLOTS]; };\n",
    )
    .unwrap();
    let rust = rust_of_all(&[&inner, &outer], &[]).unwrap();
    for once in [
        "pub struct Inner {",
        "pub struct Outer {",
        "pub const LB_SLOTS: u32 = 2;",
        "pub const LB_MORE: u32 = 3;",
    ] {
        assert_eq!(rust.matches(once).count(), 1, "{once} in:\n{rust}");
    }
}
