// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles each probe: every `src/<probe>/*.bpf.c` is a unit of its own, the units of a folder are linked to one object (first the one
//! that bears the probe's name, which defines the maps that several of them use), and the object's skeleton becomes `<probe>.skel.rs`
//! in `OUT_DIR`. The header `src/<probe>/<probe>.h`, where there is one, is what the probe's C and Rust share; it becomes `<probe>_wire.rs`
//! there, and `include/latebound/vector.h` becomes `vector_wire.rs`.
//!
//! No header of the build machine's kernel is read: `include/latebound/kernel.bpf.h` names the few fields that are
//! used, and CO-RE finds them in the running kernel.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use libbpf_cargo::SkeletonBuilder;
use libbpf_rs::{Linker, libbpf_sys};

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let abi = PathBuf::from(
        env::var_os("DEP_LATEBOUND_ABI_INCLUDE").expect("latebound-abi tells where its headers are"),
    );
    let include = [here.join("include"), abi, libbpf_headers(&out)];
    let source = here.join("src");
    println!("cargo::rerun-if-changed={}", source.display());
    println!("cargo::rerun-if-env-changed=CLANG");
    for folder in &include[..2] {
        println!("cargo::rerun-if-changed={}", folder.display());
    }
    // The pairing rule of softirqs is tested natively.
    cc::Build::new()
        .file(source.join("observe/softirq.c"))
        .include(&include[1])
        .warnings_into_errors(true)
        .compile("latebound_probe_softirq");
    latebound_wire::generate(&include[0].join("latebound/vector.h"), &include[..2]);
    for folder in entries(&source).into_iter().filter(|path| path.is_dir()) {
        let mut units: Vec<PathBuf> =
            entries(&folder).into_iter().filter(|path| path.to_string_lossy().ends_with(".bpf.c")).collect();
        if units.is_empty() {
            continue;
        }
        let probe = folder.file_name().expect("a folder has a name").to_string_lossy().into_owned();
        // libbpf's linker finds a map only where it is defined before other units use it.
        let first = folder.join(format!("{probe}.bpf.c"));
        units.sort_by_key(|unit| *unit != first);
        let header = folder.join(format!("{probe}.h"));
        if header.exists() {
            latebound_wire::generate(&header, &include[..2]);
        }
        skeleton(&probe, &units, &include, &out);
    }
}

/// Compiles the units, links them and makes the skeleton.
fn skeleton(probe: &str, units: &[PathBuf], include: &[PathBuf], out: &Path) {
    let arch = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => "x86",
        Ok("aarch64") => "arm64",
        Ok("riscv64") => "riscv",
        other => panic!("latebound's probes know x86_64, aarch64 and riscv64, not {other:?}"),
    };
    let object = out.join(format!("{probe}.o"));
    let mut linker = Linker::new(&object).unwrap_or_else(|error| panic!("{}: {error:#}", object.display()));
    for unit in units {
        let stem = unit.file_name().and_then(|name| name.to_str()?.strip_suffix(".bpf.c"));
        let compiled = out.join(format!("{probe}-{}.o", stem.expect("a unit's name ends with .bpf.c")));
        compile(unit, arch, include, &compiled);
        linker.add_file(&compiled).unwrap_or_else(|error| panic!("{}: {error:#}", compiled.display()));
    }
    linker.link().unwrap_or_else(|error| panic!("{}: {error:#}", object.display()));
    let skeleton = out.join(format!("{probe}.skel.rs"));
    SkeletonBuilder::new()
        .obj(&object)
        .reference_obj(true)
        .generate(&skeleton)
        .unwrap_or_else(|error| panic!("{}: {error:#}", object.display()));
}

/// Compiles one unit. Not by `SkeletonBuilder`, which links what it compiles: libbpf's linker takes a map that is only declared in a file
/// for one that is defined there, when it meets its own output again.
fn compile(unit: &Path, arch: &str, include: &[PathBuf], to: &Path) {
    let clang = env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    let output = Command::new(&clang)
        .args(["-target", "bpf", "-mcpu=v3", "-g", "-O2", "-Wall", "-Werror", "-fno-stack-protector"])
        .arg(format!("-D__TARGET_ARCH_{arch}"))
        .args(include.iter().flat_map(|folder| ["-I".as_ref(), folder.as_os_str()]))
        .args(["-c".as_ref(), unit.as_os_str(), "-o".as_ref(), to.as_os_str()])
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}; install clang", clang.to_string_lossy()));
    assert!(output.status.success(), "{}: {}", unit.display(), String::from_utf8_lossy(&output.stderr));
}

/// Lays out the headers of the libbpf that programs are linked and loaded with, and gives the folder to include from.
fn libbpf_headers(out: &Path) -> PathBuf {
    let folder = out.join("libbpf");
    let headers = folder.join("bpf");
    std::fs::create_dir_all(&headers).unwrap_or_else(|error| panic!("{}: {error}", headers.display()));
    for (name, text) in libbpf_sys::API_HEADERS {
        let path = headers.join(name);
        std::fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    folder
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let read = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut found: Vec<PathBuf> = read.flatten().map(|entry| entry.path()).collect();
    found.sort();
    found
}
