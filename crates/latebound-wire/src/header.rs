// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a header defines by name, and the program by which clang tells about it. Text in, text out.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;

/// The tags and constants that a header defines itself, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Defined {
    pub(crate) structs: Vec<String>,
    pub(crate) enums: Vec<String>,
    /// Macros without parameters whose value is a number.
    pub(crate) macros: Vec<String>,
}

/// Before the names of what only the program below holds.
pub(crate) const OWN: &str = "lb_wire_";

fn tag<'a>(line: &'a str, keyword: &str) -> Option<&'a str> {
    let rest = line.strip_prefix(keyword)?.strip_prefix(' ')?;
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))?;
    rest[end..].trim_start().starts_with('{').then_some(&rest[..end])
}

/// `#define NAME value` where the value begins as a number does.
fn constant(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("#define ")?;
    let (name, value) = rest.split_once(char::is_whitespace)?;
    let is_name = name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    let value = value.trim_start();
    let is_number = value.starts_with(|c: char| c.is_ascii_digit() || c == '(') || value.starts_with("LB_");
    (name.starts_with("LB_") && is_name && is_number).then_some(name)
}

impl Defined {
    /// # Errors
    /// Where it defines nothing, or a name twice.
    pub(crate) fn of(text: &str) -> Result<Defined, String> {
        let mut defined = Defined::default();
        for line in text.lines() {
            if let Some(name) = tag(line, "struct") {
                defined.structs.push(name.to_owned());
            } else if let Some(name) = tag(line, "enum") {
                defined.enums.push(name.to_owned());
            } else if let Some(name) = constant(line) {
                defined.macros.push(name.to_owned());
            }
        }
        let mut seen = BTreeSet::new();
        let all = defined.structs.iter().chain(&defined.enums).chain(&defined.macros);
        if let Some(twice) = all.clone().find(|name| !seen.insert(name.as_str())) {
            return Err(format!("{twice} is defined twice; give one of them another name"));
        }
        if seen.is_empty() {
            return Err("nothing is defined that begins a line with struct, enum or #define LB_".to_owned());
        }
        Ok(defined)
    }
}

/// A program that uses everything that these headers define, so that clang says what it is.
pub(crate) fn program(headers: &[(PathBuf, Defined)]) -> String {
    let mut program = String::new();
    for (name, of) in [("8", "char"), ("16", "short"), ("32", "int"), ("64", "long long")] {
        let _ = writeln!(program, "typedef unsigned {of} __u{name};\ntypedef signed {of} __s{name};");
    }
    for (header, _) in headers {
        let _ = writeln!(program, "#include \"{}\"", header.display());
    }
    for name in headers.iter().flat_map(|(_, defined)| &defined.structs) {
        let _ = writeln!(program, "struct {name} {OWN}struct_{name};");
    }
    for name in headers.iter().flat_map(|(_, defined)| &defined.enums) {
        let _ = writeln!(program, "enum {name} {OWN}enum_{name};");
    }
    let macros: Vec<&String> = headers.iter().flat_map(|(_, defined)| &defined.macros).collect();
    if !macros.is_empty() {
        let _ = writeln!(program, "enum {OWN}macros {{");
        for name in &macros {
            let _ = writeln!(program, "\t{OWN}{name} = ({name}),");
        }
        let _ = writeln!(program, "}};\nenum {OWN}macros {OWN}enum_{OWN}macros;");
        for name in &macros {
            let _ = writeln!(
                program,
                "_Static_assert((unsigned long long)({name}) <= 0xffffffffULL, \"{name} has more than 32 bits\");"
            );
        }
    }
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_numbers_are_found_and_nothing_else() {
        let text = "struct lb_a {\n\tstruct lb_b b;\n};\nstruct lb_c;\nstruct lb_d *d;\nenum lb_e { LB_X };\n\
                    #define LB_N 4U\n#define LB_M LB_N\n#define LB_F(x) (x)\n#define LB_INLINE static\n#define LATEBOUND_H\n";
        let defined = Defined::of(text).unwrap();
        assert_eq!(defined.structs, ["lb_a"]);
        assert_eq!(defined.enums, ["lb_e"]);
        assert_eq!(defined.macros, ["LB_N", "LB_M"]);
    }

    #[test]
    fn a_name_that_is_defined_twice_is_refused() {
        let error = Defined::of("struct lb_a {\n};\nenum lb_a {\n};\n").unwrap_err();
        assert!(error.contains("lb_a"), "{error}");
    }
}
