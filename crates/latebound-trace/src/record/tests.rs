// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of events whose formats are made here.

use super::*;

/// Decodes a record of one event with these fields behind the common ones: name, bytes, and whether it is an array.
fn decoded(system: &str, name: &str, fields: &[(&str, u32)], words: &[u64], big_endian: bool) -> String {
    use std::fmt::Write as _;
    let mut text = format!(
        "name: {name}\nID: 7\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
         \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
         \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
         \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
    );
    let mut offset = 8;
    for (field, size) in fields {
        let array = if *size > 8 { format!("[{}]", size / 8) } else { String::new() };
        writeln!(text, "\tfield:unsigned long {field}{array};\toffset:{offset};\tsize:{size};\tsigned:0;")
            .unwrap();
        offset += size.next_multiple_of(8);
    }
    let mut formats = Formats::default();
    formats.add(system, text.as_bytes());
    formats.finish();
    let decoder = Decoder::new(&formats, big_endian, &PrintkStrings::default());
    let (id, tid) = (7u16, 77i32);
    let mut data = match big_endian {
        true => [&id.to_be_bytes()[..], &[0, 0], &tid.to_be_bytes()].concat(),
        false => [&id.to_le_bytes()[..], &[0, 0], &tid.to_le_bytes()].concat(),
    };
    for word in words {
        data.extend(if big_endian { word.to_be_bytes() } else { word.to_le_bytes() });
    }
    let whole = format!("{:?}", decoder.decode(&data).record);
    for length in 0..data.len() {
        let cut = decoder.decode(&data[..length]).record;
        assert!(cut == TraceRecord::Short || format!("{cut:?}") == whole, "{length} bytes: {cut:?}");
    }
    whole
}

#[test]
fn a_system_call_is_read_from_the_event_of_all_and_from_its_own() {
    let entry = "CallEntry { number: 202, arguments: [64, 128] }";
    for big_endian in [false, true] {
        let of = |system, name, fields: &[(&str, u32)], words: &[u64]| {
            decoded(system, name, fields, words, big_endian)
        };
        let raw = [("id", 8), ("args", 48)];
        assert_eq!(of("raw_syscalls", "sys_enter", &raw, &[202, 64, 128, 0, 0, 0, 0]), entry);
        let own = [("__syscall_nr", 8), ("uaddr", 8), ("op", 8), ("val", 8)];
        assert_eq!(of("syscalls", "sys_enter_futex", &own, &[202, 64, 128, 0]), entry);
        // One without arguments has its number alone.
        let alone = of("syscalls", "sys_enter_getpid", &[("__syscall_nr", 8)], &[39]);
        assert_eq!(alone, "CallEntry { number: 39, arguments: [0, 0] }");
        assert_eq!(of("raw_syscalls", "sys_exit", &[("id", 8), ("ret", 8)], &[202, 0]), "CallExit");
        let exit = of("syscalls", "sys_exit_futex", &[("__syscall_nr", 8), ("ret", 8)], &[202, 0]);
        assert_eq!(exit, "CallExit");
        assert_eq!(of("raw_syscalls", "sys_enter", &[("id", 8), ("args", 8)], &[1, 2]), "Unknown");
    }
}

#[test]
fn a_request_writes_by_its_letters() {
    for (letters, does) in
        [("WS", true), ("RM", false), ("FF", false), ("FWFS", true), ("D", true), ("", false)]
    {
        assert_eq!(writes(letters.as_bytes()), does, "{letters}");
    }
    assert!(!writes(b"R\0W"));
}
