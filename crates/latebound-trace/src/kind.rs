// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which kind of trace a file is, by how it begins.

use crate::dat::MAGIC;
use crate::error::TraceError;
use crate::source::ReadAt;

/// A kind of trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceKind {
    /// trace.dat: [`crate::TraceFile`].
    TraceDat,
    /// perf.data: [`crate::PerfTrace`].
    PerfData,
    /// Perhaps ftrace text: [`crate::TextTrace`] says whether it is.
    Text,
}

impl TraceKind {
    /// By the first bytes; what has a zero byte among them and is of no known kind is refused.
    pub fn of<R: ReadAt + ?Sized>(source: &R) -> Result<TraceKind, TraceError> {
        let failed = |source| TraceError::Read { part: "the beginning", offset: 0, source };
        let length = source.len().map_err(failed)?;
        let mut first = vec![0; length.min(16) as usize];
        source.read_exact_at(0, &mut first).map_err(failed)?;
        match first.as_slice() {
            [] => Err(TraceError::Empty),
            bytes if bytes.starts_with(MAGIC) => Ok(TraceKind::TraceDat),
            bytes if bytes.starts_with(b"PERFILE2") || bytes.starts_with(b"2ELIFREP") => {
                Ok(TraceKind::PerfData)
            }
            bytes if bytes.contains(&0) => {
                Err(TraceError::UnknownKind { found: bytes.escape_ascii().to_string() })
            }
            _ => Ok(TraceKind::Text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_its_beginning() {
        for (bytes, kind) in [
            (&b"\x17\x08\x44tracing7\0"[..], TraceKind::TraceDat),
            (b"PERFILE2\x68", TraceKind::PerfData),
            (b"2ELIFREP\0\0", TraceKind::PerfData),
            (b"# tracer: nop\n", TraceKind::Text),
        ] {
            assert_eq!(TraceKind::of(bytes).unwrap(), kind);
        }
        assert!(matches!(TraceKind::of(&b""[..]), Err(TraceError::Empty)));
        let error = TraceKind::of(&b"\x7fELF\0"[..]).err().unwrap().to_string();
        assert!(error.contains("ELF"), "{error}");
    }
}
