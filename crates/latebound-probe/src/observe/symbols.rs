// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of the kernel's functions, from the text of `/proc/kallsyms`.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, BufRead};

/// Names of functions by address. Remembers what it found, and what it did not.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    names: HashMap<u64, Option<String>>,
}

impl Symbols {
    /// The name of the function at this address; the address itself where no name was found.
    pub(super) fn name(&self, address: u64) -> String {
        match self.names.get(&address) {
            Some(Some(name)) => name.clone(),
            _ => format!("{address:#x}"),
        }
    }

    /// Whether these addresses were all looked up already.
    pub(super) fn knows(&self, addresses: &[u64]) -> bool {
        addresses.iter().all(|address| self.names.contains_key(address))
    }

    /// Looks these addresses up in lines of `address type name [module]`. All addresses are 0 where the kernel
    /// hides them (`kernel.kptr_restrict`).
    pub(super) fn learn(&mut self, addresses: &[u64], mut kallsyms: impl BufRead) -> io::Result<()> {
        let wanted: BTreeSet<u64> =
            addresses.iter().copied().filter(|address| !self.names.contains_key(address)).collect();
        let mut line = String::new();
        loop {
            line.clear();
            if kallsyms.read_line(&mut line)? == 0 {
                break;
            }
            let mut words = line.split_whitespace();
            let (Some(address), Some(_), Some(name)) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            let Ok(address) = u64::from_str_radix(address, 16) else { continue };
            // A function may have several names; padding symbols (`__pfx_`) never begin where a function does.
            if wanted.contains(&address) {
                self.names.entry(address).or_insert_with(|| Some(name.to_owned()));
            }
        }
        for address in wanted {
            self.names.entry(address).or_insert(None);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_named_by_their_first_symbol_or_by_their_address() {
        let mut symbols = Symbols::default();
        let text = "ffffffff81000000 T first\nffffffff81000000 t second\nffffffffc0000010 t in_module\t[module]\nbroken\n";
        symbols.learn(&[0xffff_ffff_8100_0000, 0xffff_ffff_c000_0010, 0x10], text.as_bytes()).unwrap();
        assert_eq!(symbols.name(0xffff_ffff_8100_0000), "first");
        assert_eq!(symbols.name(0xffff_ffff_c000_0010), "in_module");
        assert_eq!(symbols.name(0x10), "0x10");
        assert!(symbols.knows(&[0x10]) && !symbols.knows(&[0x11]));
    }
}
