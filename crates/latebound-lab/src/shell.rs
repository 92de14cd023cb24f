// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words for a shell and back. Pure.

use crate::error::LabError;

/// One word as a POSIX shell reads it.
pub(crate) fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./-_".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
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
        fn any_words_come_back_as_they_were(words in proptest::collection::vec(any::<String>(), 0..6)) {
            prop_assert_eq!(split(&join(&words)).unwrap(), words);
        }
    }
}
