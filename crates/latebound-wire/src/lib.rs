// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generates Rust from a C header that BPF programs, kernel modules and user space share, while a crate is built.
//!
//! clang compiles the header for BPF, and the object's type information (BTF) says where each field lies and which number each
//! enumerator has. So the header is the one source of a contract: there is nothing to keep in step by hand. Owns the rules by
//! which C becomes Rust; knows no probe and no module, and is part of no program that runs later.
//!
//! # Rules
//!
//! What a header defines itself becomes Rust; what it includes does not, but for types that its own fields use.
//!
//! | C | Rust |
//! | --- | --- |
//! | `struct lb_defer_plan { … };` | `#[repr(C)] struct DeferPlan`, fields by the same names, with its size and offsets asserted, `from_bytes` and `to_bytes` |
//! | `enum lb_flight_kind { LB_FLIGHT_SWITCH = 1, … };` | `#[repr(u32)] enum FlightKind { Switch = 1, … }` with `ALL`, `from_raw`, `raw` and `c_name` |
//! | an enumerator `…_COUNT` | `FlightKind::COUNT`, which is no variant |
//! | `enum lb_recorder_constants { LB_RECORDER_SLOTS = 4 };` | `const LB_RECORDER_SLOTS: u32 = 4` |
//! | `union lb_tm_state { struct { __u8 synced; … }; __u64 all; };` | `struct TmState`, by its first member, an unnamed structure as long as the union |
//! | `#define LB_DEFER_ABI 2` | `const LB_DEFER_ABI: u32 = 2` |
//!
//! A Rust enum is matched exhaustively, so a new enumerator breaks the build where something would have to know it. Fields stay
//! numbers, because whatever writes them may be newer. A structure with padding that nobody named,
//! a pointer, another union or a bit field is refused.

mod btf;
mod header;
mod rust;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Why a header does not become Rust.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// clang is not there, or does not take the header.
    #[error("clang does not compile {header}: {said}")]
    Clang {
        /// The header.
        header: PathBuf,
        /// What clang or the system said.
        said: String,
    },
    /// The object's type information cannot be read.
    #[error("the type information of {header} cannot be read: {source}")]
    Btf {
        /// The header.
        header: PathBuf,
        /// What libbpf said.
        source: Box<libbpf_rs::Error>,
    },
    /// Something in the header has no place in a contract, or no name in Rust.
    #[error("{header}: {why}")]
    Contract {
        /// The header.
        header: PathBuf,
        /// What, and what to write instead.
        why: String,
    },
}

/// The Rust source for what a header defines.
///
/// `include` are the folders that the header's own includes are looked for in. Needs clang (`CLANG`, else `clang`) and writes to a
/// temporary folder alone.
///
/// # Errors
/// Where clang does not compile the header, or it holds what the rules refuse.
pub fn rust_of(header: &Path, include: &[PathBuf]) -> Result<String, WireError> {
    rust_of_all(&[header], include)
}

/// The Rust source for what several headers define, with one Rust type for a structure that more than one of them uses.
///
/// # Errors
/// As [`rust_of`], for the first header that has the reason.
pub fn rust_of_all(headers: &[&Path], include: &[PathBuf]) -> Result<String, WireError> {
    let Some(&first) = headers.first() else { return Ok(String::new()) };
    let file = |header: &Path| {
        let path = header.to_owned();
        move |source| WireError::File { path, source }
    };
    let contract = |header: &Path| {
        let header = header.to_owned();
        move |why| WireError::Contract { header, why }
    };
    let mut defined = Vec::new();
    for &header in headers {
        let text = std::fs::read_to_string(header).map_err(file(header))?;
        let absolute = header.canonicalize().map_err(file(header))?;
        defined.push((absolute, header::Defined::of(&text).map_err(contract(header))?));
    }
    let folder = tempfile::tempdir().map_err(file(first))?;
    let (source, object) = (folder.path().join("wire.c"), folder.path().join("wire.o"));
    std::fs::write(&source, header::program(&defined)).map_err(file(first))?;
    let clang = std::env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    let refused = |said: String| WireError::Clang { header: first.to_owned(), said };
    let output = Command::new(&clang)
        .args(["-target", "bpf", "-g", "-O1", "-Wall", "-Werror", "-c", "-o"])
        .arg(&object)
        .arg(&source)
        .args(include.iter().flat_map(|folder| ["-I".as_ref(), folder.as_os_str()]))
        .output()
        .map_err(|error| refused(format!("{}: {error}; install clang", clang.to_string_lossy())))?;
    if !output.status.success() {
        return Err(refused(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let types = libbpf_rs::btf::Btf::from_path(&object)
        .map_err(|source| WireError::Btf { header: first.to_owned(), source: Box::new(source) })?;
    let (mut known, mut rust) = (BTreeSet::new(), String::new());
    for (&header, (_, defined)) in headers.iter().zip(&defined) {
        let read = btf::read(&types, defined, &mut known).map_err(contract(header))?;
        let name = header.file_name().unwrap_or_default().to_string_lossy();
        rust += &rust::source(&name, &read).map_err(contract(header))?;
    }
    Ok(rust)
}

/// For a build script: writes [`rust_of`] the header to `OUT_DIR/<stem>_wire.rs`, and has cargo run the script again when the header or
/// one of the folders changes.
///
/// # Panics
/// Where that fails, with the reason: a build script has nobody else to tell.
pub fn generate(header: &Path, include: &[PathBuf]) {
    let stem = header.file_stem().expect("a header has a name").to_string_lossy();
    generate_all(&stem, &[header], include);
}

/// The same for [`rust_of_all`] these headers, written to `OUT_DIR/<stem>_wire.rs`.
///
/// # Panics
/// As [`generate`].
#[allow(clippy::print_stdout, reason = "a build script speaks to cargo so")]
pub fn generate_all(stem: &str, headers: &[&Path], include: &[PathBuf]) {
    println!("cargo::rerun-if-env-changed=CLANG");
    for path in headers.iter().copied().chain(include.iter().map(PathBuf::as_path)) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR for build scripts"));
    let source = rust_of_all(headers, include).unwrap_or_else(|error| panic!("{error}"));
    let path = out.join(format!("{stem}_wire.rs"));
    std::fs::write(&path, source).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
