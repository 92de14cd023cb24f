// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words for a shell and back. Pure.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::error::LabError;

/// One word as a POSIX shell reads it.
pub(crate) fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./-_".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// A name of any bytes as one word. Bytes that are no UTF-8 are given as printf(1) takes them, as a script is text.
pub(crate) fn quote_bytes(name: &OsStr) -> String {
    if let Some(text) = name.to_str() {
        return quote(text);
    }
    let mut word = String::new();
    for chunk in name.as_bytes().utf8_chunks() {
        if !chunk.valid().is_empty() {
            word += &format!("'{}'", chunk.valid().replace('\'', "'\\''"));
        }
        for byte in chunk.invalid() {
            word += &format!("\"$(printf '\\{byte:03o}')\"");
        }
    }
    word
}

/// Many words.
pub(crate) fn join(words: &[String]) -> String {
    words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")
}

/// The words of a line that was quoted with single or double quotes or backslashes, as Python's `shlex.join` writes them.
pub(crate) fn split(line: &str) -> Result<Vec<String>, LabError> {
    let open = || LabError::unexpected("a command line", format!("a quote is not closed in: {line}"));
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next().ok_or_else(open)? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next().ok_or_else(open)? {
                        '"' => break,
                        '\\' => word.push(chars.next().ok_or_else(open)?),
                        c => word.push(c),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(chars.next().ok_or_else(open)?),
            c if c.is_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quotes_of_python_are_read() {
        assert_eq!(
            split("qemu -append 'a=\"b c\" d='\"'\"'e'\"'\"'' ''").unwrap(),
            ["qemu", "-append", "a=\"b c\" d='e'", ""]
        );
        assert!(split("a 'b").is_err());
    }

    proptest! {
        #[test]
        fn a_shell_gives_any_bytes_back(bytes in proptest::collection::vec(1u8.., 0..12)) {
            let script = format!("printf %s {}", quote_bytes(OsStr::from_bytes(&bytes)));
            let said = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            prop_assert_eq!(said.stdout, bytes);
        }

        #[test]
        fn any_words_come_back_as_they_were(words in proptest::collection::vec(any::<String>(), 0..6)) {
            prop_assert_eq!(split(&join(&words)).unwrap(), words);
        }
    }
}
