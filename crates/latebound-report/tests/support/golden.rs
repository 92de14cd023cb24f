// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text compared with a file in `tests/golden`. `LATEBOUND_BLESS=1` writes the file anew; read the difference then.

use std::path::Path;

pub(crate) fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("LATEBOUND_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; LATEBOUND_BLESS=1 writes it", path.display()));
    let differs = text.lines().zip(expected.lines()).position(|(a, b)| a != b);
    let at = differs.unwrap_or(text.lines().count().min(expected.lines().count()));
    assert!(
        text == expected,
        "{name} differs from line {} on:\n got  {:?}\n file {:?}\nLATEBOUND_BLESS=1 writes it anew",
        at + 1,
        text.lines().nth(at),
        expected.lines().nth(at)
    );
}
