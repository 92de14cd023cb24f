// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles each probe: every `src/<probe>/*.bpf.c` is a unit of its own, the units of a folder are linked to one object, and the
//! object's skeleton becomes `<probe>.skel.rs` in `OUT_DIR`. The header `src/<probe>/<probe>.h`, where there is one, is what the probe's C and
//! Rust share; it becomes `<probe>_wire.rs` there.
//!
//! No header of the build machine's kernel is read: `include/latebound/kernel.bpf.h` names the few fields that are
//! used, and CO-RE finds them in the running kernel.

use std::env;
use std::path::{Path, PathBuf};

use libbpf_cargo::SkeletonBuilder;
use libbpf_rs::Linker;

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let abi = PathBuf::from(
        env::var_os("DEP_LATEBOUND_ABI_INCLUDE").expect("latebound-abi tells where its headers are"),
    );
    let include = [here.join("include"), abi];
    let source = here.join("src");
    println!("cargo::rerun-if-changed={}", source.display());
    for folder in &include {
        println!("cargo::rerun-if-changed={}", folder.display());
    }
    // The pairing rule of softirqs is tested natively.
    cc::Build::new()
        .file(source.join("observe/softirq.c"))
        .include(&include[1])
        .warnings_into_errors(true)
        .compile("latebound_probe_softirq");
    for folder in entries(&source).into_iter().filter(|path| path.is_dir()) {
        let units: Vec<PathBuf> =
            entries(&folder).into_iter().filter(|path| path.to_string_lossy().ends_with(".bpf.c")).collect();
        if units.is_empty() {
            continue;
        }
        let probe = folder.file_name().expect("a folder has a name").to_string_lossy().into_owned();
        let header = folder.join(format!("{probe}.h"));
        if header.exists() {
            latebound_wire::generate(&header, &include);
        }
        skeleton(&probe, &units, &include, &out);
    }
}

/// Compiles the units, links them and makes the skeleton.
fn skeleton(probe: &str, units: &[PathBuf], include: &[PathBuf], out: &Path) {
    let arch = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => "x86",
        Ok("aarch64") => "arm64",
        other => panic!("latebound's probes know x86_64 and aarch64, not {other:?}"),
    };
    let object = out.join(format!("{probe}.o"));
    let mut linker = Linker::new(&object).unwrap_or_else(|error| panic!("{}: {error:#}", object.display()));
    for unit in units {
        let stem = unit.file_name().and_then(|name| name.to_str()?.strip_suffix(".bpf.c"));
        let compiled = out.join(format!("{probe}-{}.o", stem.expect("a unit's name ends with .bpf.c")));
        let mut arguments: Vec<String> =
            include.iter().map(|folder| format!("-I{}", folder.display())).collect();
        arguments.extend(
            [format!("-D__TARGET_ARCH_{arch}").as_str(), "-mcpu=v3", "-Wall", "-Werror"].map(str::to_owned),
        );
        SkeletonBuilder::new()
            .source(unit)
            .obj(&compiled)
            .clang_args(arguments)
            .build()
            .unwrap_or_else(|error| panic!("{}: {error:#}", unit.display()));
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

fn entries(folder: &Path) -> Vec<PathBuf> {
    let read = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut found: Vec<PathBuf> = read.flatten().map(|entry| entry.path()).collect();
    found.sort();
    found
}
