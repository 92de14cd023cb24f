// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles every `src/<probe>/<probe>.bpf.c` and generates its skeleton as `<probe>.skel.rs` in `OUT_DIR`.
//!
//! No header of the build machine's kernel is read: `include/latebound/kernel.bpf.h` names the few fields that are
//! used, and CO-RE finds them in the running kernel.

use std::env;
use std::path::{Path, PathBuf};

use libbpf_cargo::SkeletonBuilder;

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let abi = env::var("DEP_LATEBOUND_ABI_INCLUDE").expect("latebound-abi tells where its headers are");
    let arch = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => "x86",
        Ok("aarch64") => "arm64",
        other => panic!("latebound's probes know x86_64 and aarch64, not {other:?}"),
    };
    println!("cargo::rerun-if-changed=include");
    println!("cargo::rerun-if-changed={abi}");
    // The pairing rule of softirqs is tested natively.
    let softirq = here.join("src/observe/softirq.c");
    println!("cargo::rerun-if-changed={}", softirq.display());
    cc::Build::new()
        .file(&softirq)
        .include(&abi)
        .warnings_into_errors(true)
        .compile("latebound_probe_softirq");
    for header in files(&here.join("src"), ".h") {
        println!("cargo::rerun-if-changed={}", header.display());
    }
    for source in files(&here.join("src"), ".bpf.c") {
        println!("cargo::rerun-if-changed={}", source.display());
        let stem = source.file_name().and_then(|n| n.to_str()).and_then(|n| n.strip_suffix(".bpf.c"));
        let skeleton = out.join(format!("{}.skel.rs", stem.expect("files() gives only .bpf.c files")));
        SkeletonBuilder::new()
            .source(&source)
            .clang_args([
                "-I".to_owned(),
                here.join("include").display().to_string(),
                "-I".to_owned(),
                abi.clone(),
                format!("-D__TARGET_ARCH_{arch}"),
                "-mcpu=v3".to_owned(),
                "-Wall".to_owned(),
                "-Werror".to_owned(),
            ])
            .build_and_generate(&skeleton)
            .unwrap_or_else(|error| panic!("{}: {error:#}", source.display()));
    }
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("src is there")
        .flatten()
        .map(|entry| entry.path())
        .flat_map(|path| if path.is_dir() { files(&path, ending) } else { vec![path] })
        .filter(|path| path.to_string_lossy().ends_with(ending))
        .collect();
    found.sort();
    found
}
