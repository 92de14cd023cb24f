// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes Rust of the headers, compiles the shared C natively, and tells dependants where the headers are
//! (`DEP_LATEBOUND_ABI_INCLUDE`).

use std::path::{Path, PathBuf};

/// The C that Rust calls.
const NATIVE: [&str; 3] = ["src/native.c", "src/native_thread_model.c", "src/native_bound_record.c"];

fn main() {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let include = here.join("include");
    println!("cargo::rerun-if-changed={}", include.display());
    println!("cargo::metadata=include={}", include.display());
    let mut native = cc::Build::new();
    for file in NATIVE {
        println!("cargo::rerun-if-changed={file}");
        native.file(file);
    }
    native.include(&include).warnings_into_errors(true).compile("latebound_abi");

    let header = |name: &str| include.join("latebound").join(name);
    let folders = [include.clone()];
    for device in ["bound_device.h", "defer.h", "tune.h"] {
        latebound_wire::generate(&header(device), &folders);
    }
    // One file, because the memory of the bound holds the model.
    let [model, callers, memory] = ["thread_model_types.h", "callers.h", "bound_record_types.h"].map(header);
    latebound_wire::generate_all("bound", &[&model, &callers, &memory], &folders);
    latebound_wire::generate(Path::new("src/native_world.h"), &folders);
}
