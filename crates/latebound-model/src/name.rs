// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Name`]: what events call threads, handlers, functions and system calls.
//!
//! Owns how a name is held. Never says what has it.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::ops::Deref;

use compact_str::CompactString;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

/// A name in an event: of a thread, a handler, a function, a system call.
///
/// Events come by the million, and nearly all names have at most 15 bytes (`TASK_COMM_LEN`, include/linux/sched.h). So one of up to 24
/// bytes is held in place and costs no allocation; a longer one is held elsewhere. In documents it is a string.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Name(CompactString);

impl Name {
    /// One that the program has anyway.
    pub const fn of_static(name: &'static str) -> Name {
        Name(CompactString::const_new(name))
    }

    /// Of bytes from elsewhere, with those that are not UTF-8 replaced.
    #[inline]
    pub fn of_bytes(bytes: &[u8]) -> Name {
        match str::from_utf8(bytes) {
            Ok(name) => Name::from(name),
            Err(_) => Name(CompactString::from_utf8_lossy(bytes)),
        }
    }

    /// The text.
    #[inline]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl Deref for Name {
    type Target = str;

    #[inline]
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl From<&str> for Name {
    #[inline]
    fn from(name: &str) -> Name {
        Name(CompactString::new(name))
    }
}

impl From<&String> for Name {
    fn from(name: &String) -> Name {
        Name::from(name.as_str())
    }
}

impl From<String> for Name {
    fn from(name: String) -> Name {
        Name(CompactString::from(name))
    }
}

impl From<Cow<'_, str>> for Name {
    fn from(name: Cow<'_, str>) -> Name {
        Name(CompactString::from(name))
    }
}

impl From<Name> for String {
    fn from(name: Name) -> String {
        name.0.into_string()
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialEq<String> for Name {
    fn eq(&self, other: &String) -> bool {
        self.as_str() == other
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl JsonSchema for Name {
    fn inline_schema() -> bool {
        String::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        String::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        String::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_takes_as_much_room_as_a_string() {
        assert_eq!(size_of::<Name>(), size_of::<String>());
        assert_eq!(size_of::<Option<Name>>(), size_of::<Option<String>>());
        const CALL: Name = Name::of_static("a name that has more bytes than are held in place");
        assert_eq!(CALL.len(), 49);
    }

    #[test]
    fn a_name_has_the_schema_of_a_string() {
        assert_eq!(schemars::schema_for!(Name), schemars::schema_for!(String));
        assert_eq!(
            schemars::schema_for!(BTreeMap<Name, Name>),
            schemars::schema_for!(BTreeMap<String, String>)
        );
    }

    proptest! {
        /// Of any length, also of names that are not held in place.
        #[test]
        fn a_name_is_written_and_read_and_shown_as_a_string(text in "\\PC{0,40}", width in 0usize..50) {
            let name = Name::from(text.as_str());
            prop_assert_eq!(&name, &text);
            let json = serde_json::to_string(&name).unwrap();
            prop_assert_eq!(&json, &serde_json::to_string(&text).unwrap());
            prop_assert_eq!(&serde_json::from_str::<Name>(&json).unwrap(), &name);
            prop_assert_eq!(&serde_json::from_value::<Name>(serde_json::Value::from(text.clone())).unwrap(), &name);
            prop_assert_eq!(format!("{name:>width$} {name:?}"), format!("{text:>width$} {text:?}"));
            prop_assert_eq!(String::from(name), text);
        }

        #[test]
        fn bytes_that_are_no_text_are_replaced_as_in_a_string(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let name = Name::of_bytes(&bytes);
            prop_assert_eq!(name.as_str(), String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn names_have_the_order_of_strings(one in "[a-c]{0,30}", other in "[a-c]{0,30}") {
            prop_assert_eq!(Name::from(&one).cmp(&Name::from(&other)), one.cmp(&other));
        }
    }
}
