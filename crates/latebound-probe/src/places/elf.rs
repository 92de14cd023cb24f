// SPDX-License-Identifier: MIT OR Apache-2.0
//! Places in an ELF file. The file may be anybody's: nothing of it is trusted, and names of it are escaped where they are said.

use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, ReadRef, SymbolKind};

use super::{Place, escaped, near};

/// A static probe that the compiler copied to more places is refused: each place is a breakpoint.
const MOST_PLACES: usize = 1024;
/// The note of a static probe: its name and type (systemtap's `sys/sdt.h`).
const OWNER: &[u8] = b"stapsdt\0";
const TYPE: u32 = 3;

/// The place of a function's instruction.
pub(super) fn function<'d>(data: impl ReadRef<'d>, symbol: &str, offset: u64) -> Result<Vec<Place>, String> {
    let file = parse(data)?;
    let functions = || {
        let symbols = file.symbols().chain(file.dynamic_symbols());
        symbols.filter(|symbol| symbol.is_definition() && symbol.kind() == SymbolKind::Text)
    };
    let named = functions().filter(|found| found.name_bytes() == Ok(symbol.as_bytes()));
    let mut found: Vec<(u64, u64)> = named.map(|symbol| (symbol.address(), symbol.size())).collect();
    found.sort_unstable();
    found.dedup_by_key(|(address, _)| *address);
    let (address, size) = match found.as_slice() {
        [] => {
            let near = near::said(symbol, functions().filter_map(|symbol| symbol.name().ok()));
            let none =
                if functions().next().is_none() { "; the file has no symbols of functions" } else { "" };
            return Err(format!("the file has no function {}{none}{near}", escaped(symbol)));
        }
        [one] => *one,
        several => {
            return Err(format!(
                "the file has {} functions {}; name one that is there once",
                several.len(),
                escaped(symbol)
            ));
        }
    };
    if offset > 0 && offset >= size {
        return Err(format!("{} has {size:#x} bytes, so no instruction at +{offset:#x}", escaped(symbol)));
    }
    let place = in_file(&file, address.wrapping_add(offset));
    let place = place.ok_or_else(|| format!("{} is not in the file", escaped(symbol)))?;
    Ok(vec![Place { offset: place, semaphore: 0 }])
}

/// The places of a static probe: each to which the compiler copied it.
pub(super) fn static_probe<'d>(
    data: impl ReadRef<'d>,
    provider: &str,
    name: &str,
) -> Result<Vec<Place>, String> {
    let file = parse(data)?;
    let section = file.section_by_name(".note.stapsdt");
    let section = section.ok_or("the file has no static probes (section .note.stapsdt)")?;
    let bytes = section.data().map_err(|error| format!("its static probes cannot be read: {error}"))?;
    let format = Format { wide: file.is_64(), little: file.is_little_endian() };
    let probes = notes(bytes, format);
    // A linker that moves the file later (prelink) moves this section too, and not what the notes say.
    let base = file.section_by_name(".stapsdt.base").map(|base| base.address());
    let mut places = Vec::new();
    for probe in
        probes.iter().filter(|one| one.provider == provider.as_bytes() && one.name == name.as_bytes())
    {
        let moved = base.map_or(0, |base| base.wrapping_sub(probe.base));
        let lost = || "a place of this probe is not in the file".to_owned();
        let offset = in_file(&file, probe.address.wrapping_add(moved)).ok_or_else(lost)?;
        let semaphore = match probe.semaphore {
            0 => 0,
            address => in_file(&file, address.wrapping_add(moved)).ok_or_else(lost)?,
        };
        places.push(Place { offset, semaphore });
    }
    places.sort_unstable();
    places.dedup();
    if places.is_empty() {
        let names: Vec<String> = probes.iter().map(Probe::text).collect();
        let wanted = format!("{provider}:{name}");
        let near = near::said(&wanted, names.iter().map(String::as_str));
        return Err(format!("the file has no static probe {}{near}", escaped(&wanted)));
    }
    if places.len() > MOST_PLACES {
        return Err(format!("that probe is at {} places, and {MOST_PLACES} are the most", places.len()));
    }
    Ok(places)
}

fn parse<'d, R: ReadRef<'d>>(data: R) -> Result<object::File<'d, R>, String> {
    object::File::parse(data).map_err(|error| format!("that is no ELF file of a program or library: {error}"))
}

/// Where in the file what is loaded to this address is.
fn in_file<'d, R: ReadRef<'d>>(file: &object::File<'d, R>, address: u64) -> Option<u64> {
    file.segments().find_map(|segment| {
        let (offset, size) = segment.file_range();
        let within = address.checked_sub(segment.address()).filter(|within| *within < size)?;
        offset.checked_add(within)
    })
}

/// How numbers are written.
#[derive(Clone, Copy)]
struct Format {
    wide: bool,
    little: bool,
}

impl Format {
    fn word(self, bytes: &mut &[u8]) -> Option<u32> {
        let (word, rest) = bytes.split_first_chunk::<4>()?;
        *bytes = rest;
        Some(if self.little { u32::from_le_bytes(*word) } else { u32::from_be_bytes(*word) })
    }

    fn address(self, bytes: &mut &[u8]) -> Option<u64> {
        if !self.wide {
            return self.word(bytes).map(u64::from);
        }
        let (word, rest) = bytes.split_first_chunk::<8>()?;
        *bytes = rest;
        Some(if self.little { u64::from_le_bytes(*word) } else { u64::from_be_bytes(*word) })
    }
}

/// What a note says of a static probe.
struct Probe<'d> {
    address: u64,
    base: u64,
    semaphore: u64,
    provider: &'d [u8],
    name: &'d [u8],
}

impl<'d> Probe<'d> {
    fn of(mut bytes: &'d [u8], format: Format) -> Option<Probe<'d>> {
        let address = format.address(&mut bytes)?;
        let base = format.address(&mut bytes)?;
        let semaphore = format.address(&mut bytes)?;
        let mut texts = bytes.split(|byte| *byte == 0);
        Some(Probe { address, base, semaphore, provider: texts.next()?, name: texts.next()? })
    }

    fn text(&self) -> String {
        format!("{}:{}", String::from_utf8_lossy(self.provider), String::from_utf8_lossy(self.name))
    }
}

/// The static probes of the section, up to the first note that is none.
fn notes(mut bytes: &[u8], format: Format) -> Vec<Probe<'_>> {
    let mut found = Vec::new();
    while let Some(note) = next_note(&mut bytes, format) {
        let (owner, kind, description) = note;
        if owner == OWNER && kind == TYPE {
            found.extend(Probe::of(description, format));
        }
    }
    found
}

fn next_note<'d>(bytes: &mut &'d [u8], format: Format) -> Option<(&'d [u8], u32, &'d [u8])> {
    let owner = format.word(bytes)? as usize;
    let description = format.word(bytes)? as usize;
    let kind = format.word(bytes)?;
    let mut take = |length: usize| {
        let taken = bytes.get(..length)?;
        // Padded to four bytes; the last one may lack it.
        *bytes = bytes.get(length.checked_next_multiple_of(4)?..).unwrap_or_default();
        Some(taken)
    };
    Some((take(owner)?, kind, take(description)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn own() -> Vec<u8> {
        std::fs::read("/proc/self/exe").unwrap()
    }

    #[test]
    fn functions_of_this_program_are_found_where_they_are() {
        let bytes = own();
        let file = object::File::parse(bytes.as_slice()).unwrap();
        let main = file.symbols().find(|symbol| symbol.name() == Ok("main")).unwrap();
        let [place] = function(bytes.as_slice(), "main", 0).unwrap()[..] else { panic!("one place") };
        let code = file.section_by_name(".text").unwrap();
        let within = usize::try_from(main.address() - code.address()).unwrap();
        let here = usize::try_from(place.offset).unwrap();
        assert_eq!(bytes[here..here + 8], code.data().unwrap()[within..within + 8]);
        assert_eq!(function(bytes.as_slice(), "main", 1).unwrap()[0].offset, place.offset + 1);
        let said = function(bytes.as_slice(), "main", main.size()).unwrap_err();
        assert!(said.contains("no instruction at"), "{said}");
        let said = function(bytes.as_slice(), "mian", 0).unwrap_err();
        assert!(said.contains("no function mian; near it: ") && said.contains("main"), "{said}");
        assert!(static_probe(bytes.as_slice(), "no", "probe").is_err());
    }

    fn note(owner: &[u8], kind: u32, description: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [owner.len() as u32, description.len() as u32, kind] {
            bytes.extend(word.to_le_bytes());
        }
        for part in [owner, description] {
            bytes.extend(part);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    fn described(address: u64, semaphore: u64, texts: &[u8]) -> Vec<u8> {
        let mut bytes: Vec<u8> = [address, 1, semaphore].into_iter().flat_map(u64::to_le_bytes).collect();
        bytes.extend(texts);
        bytes
    }

    #[test]
    fn notes_of_static_probes_are_read_and_others_passed_over() {
        let format = Format { wide: true, little: true };
        let mut bytes = note(b"GNU\0", TYPE, b"something");
        bytes.extend(note(OWNER, TYPE, &described(64, 8, b"app\0frame\0-4@%eax\0")));
        bytes.extend(note(OWNER, 4, &described(65, 0, b"app\0other\0\0")));
        bytes.extend(note(OWNER, TYPE, b"short"));
        bytes.extend(note(OWNER, TYPE, &described(66, 0, b"app\0last\0\0")));
        let found: Vec<(String, u64, u64)> =
            notes(&bytes, format).iter().map(|one| (one.text(), one.address, one.semaphore)).collect();
        assert_eq!(found, [("app:frame".to_owned(), 64, 8), ("app:last".to_owned(), 66, 0)]);
    }

    proptest! {
        #[test]
        fn any_notes_and_any_file_are_read_without_harm(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            wide in any::<bool>(),
            little in any::<bool>(),
        ) {
            let found = notes(&bytes, Format { wide, little }).len();
            prop_assert!(found <= bytes.len() / 12);
            let _ = function(bytes.as_slice(), "main", 0);
        }

        #[test]
        fn a_file_that_is_changed_anywhere_in_its_head_is_read_without_harm(
            changes in proptest::collection::vec((0usize..4096, any::<u8>()), 1..8),
        ) {
            // Of the smallest program that there is: it is read again for each case.
            let mut bytes = std::fs::read("/bin/true").unwrap();
            for (place, byte) in changes {
                if let Some(at) = bytes.get_mut(place) {
                    *at = byte;
                }
            }
            let _ = function(bytes.as_slice(), "main", 0);
            let _ = static_probe(bytes.as_slice(), "a", "b");
        }
    }
}
