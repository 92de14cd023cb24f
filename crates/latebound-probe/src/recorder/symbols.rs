// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names for kernel addresses, from the text of `/proc/kallsyms`. Never reads anything else.

use std::ops::Range;

/// Variables of the kernel whose places are asked for: some kernels name functions only (CONFIG_KALLSYMS_ALL).
const VARIABLES: [&str; 4] = ["__irq_regs", "__per_cpu_offset", "__preempt_count", "pcpu_hot"];

/// The kernel's functions by address. Empty where the kernel hides addresses from this user.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    /// Each with where its name is in `names`.
    by_address: Vec<(u64, Range<usize>)>,
    /// Some 100,000 names, one after the other, of which a handful is ever asked for.
    names: String,
    /// In the order of [`VARIABLES`].
    variables: [Option<u64>; VARIABLES.len()],
}

impl Symbols {
    /// Reads `/proc/kallsyms`; empty where it cannot be read or shows only zeros (`kernel.kptr_restrict`).
    pub(crate) fn load() -> Symbols {
        std::fs::read_to_string("/proc/kallsyms").map(|text| Symbols::parse(&text)).unwrap_or_default()
    }

    /// From lines of `address type name`. Data symbols are left out but for [`VARIABLES`], and so is the padding before functions (`__pfx_`).
    pub(crate) fn parse(text: &str) -> Symbols {
        let mut found = Symbols::default();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            let is_function = matches!(kind, "t" | "T" | "w" | "W");
            let variable = || VARIABLES.iter().position(|of| *of == name);
            let place = if is_function { None } else { variable() };
            if (is_function && name.starts_with("__pfx_")) || (!is_function && place.is_none()) {
                continue;
            }
            let Some(address) = u64::from_str_radix(address, 16).ok().filter(|&address| address != 0) else {
                continue;
            };
            match place {
                Some(place) => found.variables[place] = Some(address),
                None => {
                    let start = found.names.len();
                    found.names.push_str(name);
                    found.by_address.push((address, start..found.names.len()));
                }
            }
        }
        // Stable, so that the first of several names of one address stays the one that is shown.
        found.by_address.sort_by_key(|(address, _)| *address);
        found.by_address.dedup_by_key(|(address, _)| *address);
        found
    }

    /// Whether no address has a name.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_address.is_empty()
    }

    /// The address of a function.
    pub(crate) fn address(&self, name: &str) -> Option<u64> {
        self.by_address
            .iter()
            .find(|(_, found)| &self.names[found.clone()] == name)
            .map(|(address, _)| *address)
    }

    /// The address of a variable, one of [`VARIABLES`]. Of a variable that each CPU has, what the CPU's own offset is added to.
    pub(crate) fn variable(&self, name: &str) -> Option<u64> {
        self.variables[VARIABLES.iter().position(|of| *of == name)?]
    }

    /// The function that an address lies in, and how far behind its beginning.
    pub(crate) fn find(&self, address: u64) -> Option<(&str, u64)> {
        let after = self.by_address.partition_point(|(start, _)| *start <= address);
        let (start, name) = self.by_address.get(after.checked_sub(1)?)?;
        Some((&self.names[name.clone()], address - start))
    }

    /// `name+0xoffset`, or the bare address.
    pub(crate) fn frame(&self, address: u64) -> String {
        match self.find(address) {
            Some((name, offset)) => format!("{name}+{offset:#x}"),
            None => format!("{address:#x}"),
        }
    }

    /// The name of the function that begins at or before this address, or the bare address.
    pub(crate) fn function(&self, address: u64) -> String {
        self.find(address).map_or_else(|| format!("{address:#x}"), |(name, _)| name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_named_by_the_function_it_lies_in() {
        let symbols = Symbols::parse(
            "ffff2000 t second\nffff1000 T first\nffff1000 T alias\nffff1800 d data\nffff1ff0 t __pfx_second\n",
        );
        assert_eq!(symbols.frame(0xffff_1004), "first+0x4");
        assert_eq!(symbols.frame(0xffff_1ff8), "first+0xff8");
        assert_eq!(symbols.frame(0xffff_2000), "second+0x0");
        assert_eq!(symbols.frame(0x10), "0x10");
        assert_eq!(symbols.function(0xffff_2010), "second");
        assert_eq!(symbols.address("second"), Some(0xffff_2000));
        assert_eq!(symbols.variable("__irq_regs"), None);
    }

    #[test]
    fn places_of_variables_are_kept_of_those_that_are_asked_for() {
        let symbols =
            Symbols::parse("0000000000023e80 d __irq_regs\nffff1800 d data\nffff1ff0 R __per_cpu_offset\n");
        assert_eq!(symbols.variable("__irq_regs"), Some(0x2_3e80));
        assert_eq!(symbols.variable("__per_cpu_offset"), Some(0xffff_1ff0));
        assert_eq!(symbols.variable("data"), None);
        assert!(symbols.is_empty());
    }

    #[test]
    fn hidden_addresses_name_nothing() {
        let symbols = Symbols::parse("0000000000000000 T first\ngarbage\n");
        assert!(symbols.is_empty());
        assert_eq!(symbols.frame(0xffff_0000), "0xffff0000");
    }
}
