// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the shared C natively, and tells dependants where the headers are (`DEP_LATEBOUND_ABI_INCLUDE`).

fn main() {
    println!("cargo::rerun-if-changed=include");
    println!("cargo::rerun-if-changed=src/native.c");
    println!("cargo::rerun-if-changed=src/native_devices.c");
    println!("cargo::rerun-if-changed=src/native_thread_model.c");
    println!("cargo::rerun-if-changed=src/native_bound_record.c");
    let here = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let include = std::path::Path::new(&here).join("include");
    println!("cargo::metadata=include={}", include.display());
    cc::Build::new()
        .file("src/native.c")
        .file("src/native_devices.c")
        .file("src/native_thread_model.c")
        .file("src/native_bound_record.c")
        .include(&include)
        .warnings_into_errors(true)
        .compile("latebound_abi");
}
