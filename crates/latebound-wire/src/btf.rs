// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the object's type information to plain descriptions. Refuses what has no place in a contract.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use libbpf_rs::btf::types::{self, MemberAttr};
use libbpf_rs::btf::{Btf, BtfKind, BtfType, HasSize};

use crate::header::{Defined, OWN};

/// The type of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    /// A number of so many bytes.
    Number { bytes: usize, signed: bool },
    /// A structure, by its tag.
    Struct(String),
    /// So many of them.
    Array(Box<Type>, usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) of: Type,
    pub(crate) offset: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Struct {
    pub(crate) tag: String,
    pub(crate) bytes: usize,
    pub(crate) fields: Vec<Field>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Enum {
    pub(crate) tag: String,
    /// Name and number, in the header's order.
    pub(crate) members: Vec<(String, u32)>,
}

/// All that a header says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contract {
    pub(crate) structs: Vec<Struct>,
    pub(crate) enums: Vec<Enum>,
    /// Macros and their numbers.
    pub(crate) constants: Vec<(String, u32)>,
}

fn text(name: Option<&OsStr>) -> String {
    name.unwrap_or_default().to_string_lossy().into_owned()
}

/// What one header says. `known` are the structures that are described already, and then those of this header too.
pub(crate) fn read(
    btf: &Btf<'_>,
    defined: &Defined,
    known: &mut BTreeSet<String>,
) -> Result<Contract, String> {
    let mut contract = Contract::default();
    for tag in &defined.structs {
        structure(btf, tag, known, &mut contract.structs)?;
    }
    for tag in &defined.enums {
        contract.enums.push(Enum { tag: tag.clone(), members: members(btf, tag)? });
    }
    if !defined.macros.is_empty() {
        let own = |(name, number): (String, u32)| (name[OWN.len()..].to_owned(), number);
        let all = members(btf, &format!("{OWN}macros"))?.into_iter().map(own);
        contract.constants = all.filter(|(name, _)| defined.macros.contains(name)).collect();
    }
    Ok(contract)
}

fn members(btf: &Btf<'_>, tag: &str) -> Result<Vec<(String, u32)>, String> {
    let of: types::Enum<'_> =
        btf.type_by_name(tag).ok_or_else(|| format!("enum {tag} is not in the object; define it whole"))?;
    let member = |member: types::EnumMember<'_>| {
        let name = text(member.name);
        // Compilers of 32-bit enumerators tell numbers above 2^31 as negative ones (clang 14).
        let number = u32::try_from(member.value).or_else(|_| i32::try_from(member.value).map(|n| n as u32));
        number.map(|number| (name.clone(), number)).map_err(|_| format!("{name} has more than 32 bits"))
    };
    of.iter().map(member).collect()
}

fn structure(
    btf: &Btf<'_>,
    tag: &str,
    known: &mut BTreeSet<String>,
    structs: &mut Vec<Struct>,
) -> Result<(), String> {
    if !known.insert(tag.to_owned()) {
        return Ok(());
    }
    let of: types::Struct<'_> =
        btf.type_by_name(tag).ok_or_else(|| format!("struct {tag} is not in the object; define it whole"))?;
    let fields = members_of(btf, &of, &format!("struct {tag}"), known, structs)?;
    structs.push(Struct { tag: tag.to_owned(), bytes: of.size(), fields });
    Ok(())
}

/// The fields of a structure, those of its unnamed unions among them.
fn members_of(
    btf: &Btf<'_>,
    of: &types::Struct<'_>,
    what: &str,
    known: &mut BTreeSet<String>,
    structs: &mut Vec<Struct>,
) -> Result<Vec<Field>, String> {
    let mut fields = Vec::new();
    let mut end = 0;
    for member in of.iter() {
        let name = text(member.name);
        let place = format!("{what}, {name}");
        let MemberAttr::Normal { offset } = member.attr else {
            return Err(format!("{place}: a bit field; write a number and flags"));
        };
        let kind = btf.type_by_id(member.ty).ok_or_else(|| format!("{place}: has no type"))?;
        let offset = offset as usize / 8;
        if offset != end {
            return Err(format!("{place}: {} bytes of padding before it; name them", offset - end));
        }
        if name.is_empty() {
            let (view, bytes) = first_view(btf, kind, &place)?;
            let inner = members_of(btf, &view, &place, known, structs)?;
            fields.extend(inner.into_iter().map(|field| Field { offset: field.offset + offset, ..field }));
            end = offset + bytes;
            continue;
        }
        let (field, bytes) = field_type(btf, kind, &place, known, structs)?;
        end = offset + bytes;
        fields.push(Field { name, of: field, offset });
    }
    if end != of.size() {
        return Err(format!("{what}: {} bytes of padding at its end; name them", of.size() - end));
    }
    Ok(fields)
}

/// What the bytes of a union are called: its first member, where that is an unnamed structure as long as the union.
fn first_view<'b>(
    btf: &'b Btf<'b>,
    of: BtfType<'b>,
    place: &str,
) -> Result<(types::Struct<'b>, usize), String> {
    let refused = || format!("{place}: a union, of which nobody knows which it is; write numbers");
    let union = types::Union::try_from(of.skip_mods_and_typedefs()).map_err(|_| refused())?;
    let first = union.iter().next().filter(|first| text(first.name).is_empty()).ok_or_else(refused)?;
    let kind: BtfType<'_> = btf.type_by_id(first.ty).ok_or_else(refused)?;
    let view = types::Struct::try_from(kind.skip_mods_and_typedefs()).map_err(|_| refused())?;
    if view.size() != union.size() {
        return Err(refused());
    }
    Ok((view, union.size()))
}

fn field_type(
    btf: &Btf<'_>,
    of: BtfType<'_>,
    place: &str,
    known: &mut BTreeSet<String>,
    structs: &mut Vec<Struct>,
) -> Result<(Type, usize), String> {
    let of = of.skip_mods_and_typedefs();
    if let Ok(number) = types::Int::try_from(of) {
        let bytes = usize::from(number.bits) / 8;
        // clang calls char signed, and what headers keep in it is text or flags.
        let signed = matches!(number.encoding, types::IntEncoding::Signed)
            && (bytes > 1 || text(number.name()) == "signed char");
        return Ok((Type::Number { bytes, signed }, bytes));
    }
    if let Ok(number) = types::Enum::try_from(of) {
        return Ok((Type::Number { bytes: number.size(), signed: false }, number.size()));
    }
    if let Ok(array) = types::Array::try_from(of) {
        let (element, bytes) = field_type(btf, array.contained_type(), place, known, structs)?;
        let capacity = array.capacity();
        return Ok((Type::Array(Box::new(element), capacity), bytes * capacity));
    }
    if let Ok(inner) = types::Struct::try_from(of) {
        let tag = text(inner.name());
        if tag.is_empty() {
            return Err(format!("{place}: a structure without a name; give it one"));
        }
        structure(btf, &tag, known, structs)?;
        return Ok((Type::Struct(tag), inner.size()));
    }
    let tag = text(of.name());
    if of.kind() == BtfKind::Union && !tag.is_empty() {
        let (view, bytes) = first_view(btf, of, place)?;
        if known.insert(tag.clone()) {
            let fields = members_of(btf, &view, &format!("union {tag}"), known, structs)?;
            structs.push(Struct { tag: tag.clone(), bytes, fields });
        }
        return Ok((Type::Struct(tag), bytes));
    }
    let what = match of.kind() {
        BtfKind::Ptr => "a pointer, which means nothing on the other side",
        BtfKind::Union => "a union, of which nobody knows which it is",
        _ => "of a kind that the rules do not know",
    };
    Err(format!("{place}: {what}; write numbers"))
}
