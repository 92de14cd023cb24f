// SPDX-License-Identifier: MIT OR Apache-2.0
//! From descriptions to Rust source.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::btf::{Contract, Enum, Struct, Type};

/// The ending of the tag of an enum whose members are single numbers, not kinds of one thing.
const CONSTANTS: &str = "_constants";
/// The ending of an enumerator that says how many there are.
const COUNT: &str = "_COUNT";

fn camel(text: &str) -> String {
    let word = |word: &str| {
        let mut chars = word.chars();
        let first = chars.next().map(|c| c.to_ascii_uppercase());
        first.into_iter().chain(chars.map(|c| c.to_ascii_lowercase())).collect::<String>()
    };
    text.split('_').map(word).collect()
}

fn type_name(tag: &str) -> String {
    camel(tag.strip_prefix("lb_").unwrap_or(tag))
}

fn field_name(name: &str) -> String {
    // Words of Rust that headers use as names.
    match name {
        "type" | "as" | "in" | "ref" | "move" | "where" | "loop" | "match" => format!("r#{name}"),
        _ => name.to_owned(),
    }
}

fn rust_type(of: &Type) -> Result<String, String> {
    Ok(match of {
        Type::Number { bytes, signed } => {
            let sign = if *signed { 'i' } else { 'u' };
            match bytes {
                1 | 2 | 4 | 8 => format!("{sign}{}", bytes * 8),
                other => return Err(format!("a number of {other} bytes")),
            }
        }
        Type::Struct(tag) => type_name(tag),
        Type::Array(element, len) => format!("[{}; {len}]", rust_type(element)?),
    })
}

/// The text that all names begin with, up to an underscore and never all of one.
fn common_prefix(names: &[&str]) -> usize {
    let Some(first) = names.first() else { return 0 };
    let same = |end: usize| names.iter().all(|name| name.len() > end && name[..end] == first[..end]);
    let mut ends = first.char_indices().filter(|(_, c)| *c == '_').map(|(at, _)| at + 1);
    // A variant cannot begin with a digit.
    let named = |end: usize| names.iter().all(|name| !name[end..].starts_with(|c: char| c.is_ascii_digit()));
    ends.rfind(|&end| same(end) && named(end)).unwrap_or(0)
}

pub(crate) fn source(header: &str, contract: &Contract) -> Result<String, String> {
    let mut out = format!("// Generated from {header} while the crate is built.\n");
    for (name, number) in &contract.constants {
        constant(&mut out, header, name, *number);
    }
    for of in &contract.enums {
        match of.tag.ends_with(CONSTANTS) {
            true => of.members.iter().for_each(|(name, number)| constant(&mut out, header, name, *number)),
            false => enumeration(&mut out, header, of)?,
        }
    }
    for of in &contract.structs {
        structure(&mut out, header, of)?;
    }
    Ok(out)
}

fn constant(out: &mut String, header: &str, name: &str, number: u32) {
    let _ = writeln!(out, "/// `{name}` of {header}.\npub const {name}: u32 = {number};");
}

fn enumeration(out: &mut String, header: &str, of: &Enum) -> Result<(), String> {
    let tag = &of.tag;
    let name = type_name(tag);
    let (counts, kinds): (Vec<_>, Vec<_>) = of.members.iter().partition(|(name, _)| name.ends_with(COUNT));
    let all: Vec<&str> = of.members.iter().map(|(name, _)| name.as_str()).collect();
    let prefix = common_prefix(&all);
    let mut numbers = BTreeSet::new();
    if let Some((twice, number)) = kinds.iter().find(|(_, number)| !numbers.insert(*number)) {
        return Err(format!(
            "enum {tag}: {twice} is {number}, as another one is; every kind needs a number of its own"
        ));
    }
    let variant = |name: &str| camel(&name[prefix..]);
    let _ = writeln!(out, "/// `enum {tag}` of {header}.");
    let _ = writeln!(
        out,
        "#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]\n#[repr(u32)]\npub enum {name} {{"
    );
    for (c_name, number) in &kinds {
        let _ = writeln!(out, "    /// `{c_name}`.\n    {} = {number},", variant(c_name));
    }
    let _ = writeln!(out, "}}\n#[allow(dead_code, reason = \"generated whole\")]\nimpl {name} {{");
    let list: Vec<String> = kinds.iter().map(|(name, _)| format!("Self::{}", variant(name))).collect();
    let _ = writeln!(
        out,
        "    /// Every one, in the header's order.\n    pub const ALL: [Self; {}] = [{}];",
        list.len(),
        list.join(", ")
    );
    for (c_name, number) in &counts {
        let _ = writeln!(out, "    /// `{c_name}`.\n    pub const {}: usize = {number};", &c_name[prefix..]);
    }
    let _ = writeln!(
        out,
        "    /// The one of this number, if there is one.\n    pub const fn from_raw(raw: u32) -> Option<Self> {{\n        match raw {{"
    );
    for (c_name, number) in &kinds {
        let _ = writeln!(out, "            {number} => Some(Self::{}),", variant(c_name));
    }
    let _ = writeln!(
        out,
        "            _ => None,\n        }}\n    }}\n    /// Its number.\n    pub const fn raw(self) -> u32 {{\n        self as u32\n    }}\n    /// Its name in C.\n    pub const fn c_name(self) -> &'static str {{\n        match self {{"
    );
    for (c_name, _) in &kinds {
        let _ = writeln!(out, "            Self::{} => \"{c_name}\",", variant(c_name));
    }
    let _ = writeln!(out, "        }}\n    }}\n}}");
    Ok(())
}

fn structure(out: &mut String, header: &str, of: &Struct) -> Result<(), String> {
    let Struct { tag, bytes, fields } = of;
    let name = type_name(tag);
    let _ = writeln!(
        out,
        "/// `struct {tag}` of {header}.\n#[derive(Clone, Copy, Debug, PartialEq, Eq)]\n#[repr(C)]\npub struct {name} {{"
    );
    for field in fields {
        let rust = rust_type(&field.of).map_err(|why| format!("struct {tag}, {}: {why}", field.name))?;
        let _ = writeln!(out, "    /// `{}`.\n    pub {}: {rust},", field.name, field_name(&field.name));
    }
    let _ = writeln!(out, "}}\nconst _: () = assert!(size_of::<{name}>() == {bytes});");
    for field in fields {
        let _ = writeln!(
            out,
            "const _: () = assert!(std::mem::offset_of!({name}, {}) == {});",
            field_name(&field.name),
            field.offset
        );
    }
    let _ = writeln!(
        out,
        "#[allow(dead_code, reason = \"generated whole\")]\nimpl {name} {{\n    \
             /// All of it zero.\n    \
             pub const ZERO: Self = {{\n        \
                 // SAFETY: it is made of numbers alone, and zero is one of each.\n        \
                 unsafe {{ std::mem::zeroed() }}\n    \
             }};\n    \
             /// From its bytes in memory; `None` where these are too few. More are left alone.\n    \
             pub fn from_bytes(bytes: &[u8]) -> Option<Self> {{\n        \
                 let bytes: &[u8; {bytes}] = bytes.first_chunk()?;\n        \
                 // SAFETY: there are as many bytes as it has; any of them make numbers, and it is made of numbers without padding.\n        \
                 Some(unsafe {{ std::ptr::read_unaligned(bytes.as_ptr().cast()) }})\n    \
             }}\n    \
             /// Its bytes in memory.\n    \
             pub const fn to_bytes(self) -> [u8; {bytes}] {{\n        \
                 // SAFETY: the same size (asserted above), and no byte of it is padding.\n        \
                 unsafe {{ std::mem::transmute(self) }}\n    \
             }}\n}}\n\
         impl Default for {name} {{\n    \
             fn default() -> Self {{\n        Self::ZERO\n    }}\n}}"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_prefix_ends_at_an_underscore_and_leaves_no_name_empty() {
        assert_eq!(common_prefix(&["LB_FLIGHT_SWITCH", "LB_FLIGHT_WAKING"]), 10);
        assert_eq!(common_prefix(&["LB_A", "LB_A_B"]), 3);
        assert_eq!(common_prefix(&["LB_V_1", "LB_V_2"]), 3);
        assert_eq!(common_prefix(&["BEGIN", "DONE"]), 0);
    }

    #[test]
    fn two_kinds_of_one_number_are_refused() {
        let members = vec![("LB_K_A".to_owned(), 1), ("LB_K_B".to_owned(), 1)];
        let of = Contract { enums: vec![Enum { tag: "lb_k".to_owned(), members }], ..Contract::default() };
        assert!(source("k.h", &of).unwrap_err().contains("LB_K_B is 1"));
    }
}
