// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether each field that a program reads is there in the kernels of the lab, by the type information that their packages carry: nothing
//! is booted and nothing is loaded.
//!
//! libbpf writes the offsets of that kernel into the programs, and where it finds no field a call that no verifier takes. Behind a
//! question for the field that is dead code. So each program is followed from its beginning with the constants that it knows, as the
//! verifier does (kernel/bpf/verifier.c, check_cond_jmp_op), and may not come to such a call.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use latebound_lab::{Event, Lab};
use libbpf_rs::btf::Btf;
use libbpf_rs::libbpf_sys::{self, bpf_insn};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{AsRawLibbpf, MapHandle, MapType, OpenObject};

use crate::kernel::KernelBtf;

/// What libbpf calls where a relocation has no answer (tools/lib/bpf/relo_core.c, bpf_core_poison_insn).
const POISON: i32 = 195_896_080;

/// What is known of the registers.
type Registers = [Option<u64>; 11];

/// The operands of a jump or an operation, where both are known.
fn operands(insn: &bpf_insn, registers: &Registers) -> Option<(u64, u64)> {
    let right = match insn.code & 0x08 {
        0 => Some(i64::from(insn.imm) as u64),
        _ => registers[usize::from(insn.src_reg())],
    };
    Some((registers[usize::from(insn.dst_reg())]?, right?))
}

/// Whether a conditional jump (include/uapi/linux/bpf.h) is taken, where that is known.
fn is_taken(insn: &bpf_insn, registers: &Registers) -> Option<bool> {
    let (mut left, mut right) = operands(insn, registers)?;
    let (mut left_signed, mut right_signed) = (left as i64, right as i64);
    if insn.code & 0x07 == 0x06 {
        (left, right) = (u64::from(left as u32), u64::from(right as u32));
        (left_signed, right_signed) = (i64::from(left as i32), i64::from(right as i32));
    }
    Some(match insn.code >> 4 {
        0x1 => left == right,
        0x2 => left > right,
        0x3 => left >= right,
        0x4 => left & right != 0,
        0x5 => left != right,
        0x6 => left_signed > right_signed,
        0x7 => left_signed >= right_signed,
        0xa => left < right,
        0xb => left <= right,
        0xc => left_signed < right_signed,
        0xd => left_signed <= right_signed,
        _ => return None,
    })
}

/// What an operation leaves in its register, where that is known.
fn result(insn: &bpf_insn, registers: &Registers) -> Option<u64> {
    let is_narrow = insn.code & 0x07 == 0x04;
    let value = if insn.code >> 4 == 0xb {
        // With an offset it is a move that extends the sign.
        match insn.code & 0x08 {
            0 => i64::from(insn.imm) as u64,
            _ if insn.off == 0 => registers[usize::from(insn.src_reg())]?,
            _ => return None,
        }
    } else {
        let (left, right) = operands(insn, registers)?;
        match insn.code >> 4 {
            0x0 => left.wrapping_add(right),
            0x1 => left.wrapping_sub(right),
            0x4 => left | right,
            0x5 => left & right,
            0x6 if right < 32 => left << right,
            0x7 if right < 32 && !is_narrow => left >> right,
            0xa => left ^ right,
            _ => return None,
        }
    };
    Some(if is_narrow { u64::from(value as u32) } else { value })
}

/// The places of calls of a field that is not there, which the program may come to.
fn reached(insns: &[bpf_insn]) -> Vec<usize> {
    let mut known: BTreeMap<usize, Registers> = BTreeMap::new();
    let mut work: Vec<(usize, Registers)> = vec![(0, [None; 11])];
    let mut found = Vec::new();
    while let Some((at, registers)) = work.pop() {
        let Some(insn) = insns.get(at) else { continue };
        let mut registers = match known.get(&at) {
            None => registers,
            Some(before) => {
                let merged: Registers =
                    std::array::from_fn(|n| before[n].filter(|value| registers[n] == Some(*value)));
                if merged == *before {
                    continue;
                }
                merged
            }
        };
        known.insert(at, registers);
        let to = |offset: i64| usize::try_from(at as i64 + 1 + offset).unwrap();
        let (of, operation) = (insn.code & 0x07, insn.code >> 4);
        let target = usize::from(insn.dst_reg());
        match of {
            // Two places for one constant, the address of something, or a function that is called back.
            0x00 => {
                let high = insns.get(at + 1).map_or(0, |next| next.imm);
                let value = u64::from(insn.imm as u32) | u64::from(high as u32) << 32;
                registers[target] = (insn.src_reg() == 0).then_some(value);
                if u32::from(insn.src_reg()) == libbpf_sys::BPF_PSEUDO_FUNC {
                    work.push((to(i64::from(insn.imm)), [None; 11]));
                }
                work.push((at + 2, registers));
                continue;
            }
            0x01 => registers[target] = None,
            0x02 => {}
            // What is fetched atomically lands in the source, or in the first register.
            0x03 => {
                if insn.code & 0xe0 == 0xc0 {
                    registers[usize::from(insn.src_reg())] = None;
                    registers[0] = None;
                }
            }
            0x04 | 0x07 => registers[target] = result(insn, &registers),
            _ if operation == 0x8 => {
                if insn.imm == POISON && insn.src_reg() == 0 {
                    found.push(at);
                    continue;
                }
                if u32::from(insn.src_reg()) == libbpf_sys::BPF_PSEUDO_CALL {
                    work.push((to(i64::from(insn.imm)), [None; 11]));
                }
                registers[..6].fill(None);
            }
            _ if operation == 0x9 => continue,
            _ if operation == 0x0 => {
                work.push((
                    to(if of == 0x06 { i64::from(insn.imm) } else { i64::from(insn.off) }),
                    registers,
                ));
                continue;
            }
            _ => {
                let taken = is_taken(insn, &registers);
                if taken != Some(false) {
                    work.push((to(i64::from(insn.off)), registers));
                }
                if taken == Some(true) {
                    continue;
                }
            }
        }
        work.push((at + 1, registers));
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Whether this kernel has what a program hooks in, so that the program would be loaded.
fn is_for(kernel: &KernelBtf, section: &str) -> bool {
    match section.split_once('/') {
        Some(("tp_btf", name)) => kernel.has_tracepoint(name),
        Some(("fentry" | "fexit", name)) => kernel.has_function(name),
        _ => true,
    }
}

/// The programs of an object that would come to a field which these types do not have; and how many were looked at.
fn unresolved<'obj>(
    builder: impl SkelBuilder<'obj>,
    types: &Path,
    kernel: &KernelBtf,
) -> (Vec<String>, usize) {
    let place: &'obj mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
    let path = CString::new(types.to_str().unwrap()).unwrap();
    let options = libbpf_sys::bpf_object_open_opts {
        sz: size_of::<libbpf_sys::bpf_object_open_opts>() as libbpf_sys::size_t,
        btf_custom_path: path.as_ptr(),
        ..Default::default()
    };
    let mut open = builder.open_opts(options, place).unwrap();
    let object = open.open_object_mut();
    // An array of maps is made after one of them; nothing is written to it.
    let inner = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    let inner = MapHandle::create(MapType::Array, Some("lb_inner"), 4, 8, 1, &inner).unwrap();
    for mut map in object.maps_mut().filter(|map| map.map_type() == MapType::ArrayOfMaps) {
        map.set_inner_map_fd(inner.as_fd()).unwrap();
    }
    let mut looked_at = Vec::new();
    for mut program in object.progs_mut() {
        let is_for = is_for(kernel, &program.section().to_string_lossy());
        program.set_autoload(is_for);
        if is_for {
            looked_at.push(program.name().to_string_lossy().into_owned());
        }
    }
    // SAFETY: the object is open and was not prepared.
    let error = unsafe { libbpf_sys::bpf_object__prepare(object.as_libbpf_object().as_ptr()) };
    assert_eq!(error, 0, "{}: {:?}", types.display(), looked_at);
    let mut bad = Vec::new();
    for program in object.progs().filter(|one| looked_at.iter().any(|name| one.name() == name.as_str())) {
        for at in reached(program.insns()) {
            bad.push(format!("{}, instruction {at}", program.name().to_string_lossy()));
        }
    }
    (bad, looked_at.len())
}

fn insn(code: u8, dst: u8, src: u8, off: i16, imm: i32) -> bpf_insn {
    let mut insn = bpf_insn { code, off, imm, ..Default::default() };
    insn.set_dst_reg(dst);
    insn.set_src_reg(src);
    insn
}

#[test]
fn a_field_that_is_not_there_is_found_unless_a_question_leads_round_it() {
    let (exit, poison) = (insn(0x95, 0, 0, 0, 0), insn(0x85, 0, 0, 0, POISON));
    // r1 = there; if r1 == 0 goto exit; the field.
    let asked = |there| [insn(0xb7, 1, 0, 0, there), insn(0x15, 1, 0, 1, 0), poison, exit];
    assert!(reached(&asked(0)).is_empty());
    assert_eq!(reached(&asked(1)), [2]);
    // Of what is read from memory nothing is known, and two ways that meet know what both know.
    assert_eq!(reached(&[insn(0x61, 1, 10, 0, 0), insn(0x15, 1, 0, 1, 0), poison, exit]), [2]);
    let meet = [
        insn(0x61, 2, 10, 0, 0),
        insn(0xb7, 1, 0, 0, 0),
        insn(0x15, 2, 0, 1, 0),
        insn(0xb7, 1, 0, 0, 1),
        insn(0x15, 1, 0, 1, 0),
        poison,
        exit,
    ];
    assert_eq!(reached(&meet), [5]);
}

#[test]
fn live_lab_no_program_reads_a_field_that_a_kernel_of_the_lab_lacks() {
    crate::log::take_over();
    let listener = |_: Event<'_>| ();
    let stop = AtomicBool::new(false);
    let lab = Lab::new(Lab::default_cache().unwrap(), &listener, &stop);
    for name in ["debian:6.1", "debian:6.12", "debian:6.12-rt", "debian:7", "debian:7-rt"] {
        let image = latebound_lab::obtain(&lab, &name.parse().unwrap()).unwrap().image;
        let file = image.file_name().unwrap().to_str().unwrap().replace("vmlinuz", "vmlinux");
        let types = image.with_file_name(file);
        let kernel = KernelBtf::of(&Btf::from_path(&types).unwrap());
        let each = [
            unresolved(crate::recorder::skeleton::RecorderSkelBuilder::default(), &types, &kernel),
            unresolved(crate::observe::skel::ObserveSkelBuilder::default(), &types, &kernel),
            unresolved(crate::relations::skel::RelationsSkelBuilder::default(), &types, &kernel),
            unresolved(crate::responses::skel::ResponsesSkelBuilder::default(), &types, &kernel),
            unresolved(crate::bound::skel::BoundSkelBuilder::default(), &types, &kernel),
            unresolved(crate::defer::skel::DeferSkelBuilder::default(), &types, &kernel),
        ];
        let bad: Vec<&String> = each.iter().flat_map(|(bad, _)| bad).collect();
        assert!(bad.is_empty(), "{name}: {bad:#?}");
        let programs: usize = each.iter().map(|(_, programs)| programs).sum();
        println!("{name}: {programs} programs");
        assert!(programs >= 100 && each.iter().all(|(_, programs)| *programs > 0), "{name}: {each:?}");
    }
}
