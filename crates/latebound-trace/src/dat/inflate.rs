// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decompression of sections and chunks. Sizes are checked by the caller; this never writes past the buffer it is given.

use flate2::{Decompress, FlushDecompress, Status};
use zstd_safe::DCtx;

use crate::error::TraceError;

/// What a trace.dat is compressed with (version 7; version 6 never is).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Nothing.
    None,
    /// Zstandard frames.
    Zstd,
    /// zlib streams.
    Zlib,
}

impl Compression {
    pub(crate) fn from_name(name: &str) -> Result<Compression, TraceError> {
        match name {
            "" | "none" => Ok(Compression::None),
            "zstd" => Ok(Compression::Zstd),
            "zlib" => Ok(Compression::Zlib),
            _ => Err(TraceError::UnknownCompression { found: name.to_owned() }),
        }
    }

    /// The most bytes that so many compressed ones can become. What claims more is not believed, and no room is made for it.
    pub(crate) const fn most(self, stored: u64) -> u64 {
        let each = match self {
            Compression::None => 1,
            // A block of at most 128 KiB takes 3 bytes of header and one that is repeated (RFC 8878, 3.1.1.2).
            Compression::Zstd => (128 << 10) / 4,
            // "In the limit": https://zlib.net/zlib_tech.html, Maximum Compression Factor.
            Compression::Zlib => 1032,
        };
        stored.saturating_mul(each)
    }
}

/// A decompressor with its working memory, to be used again and again.
#[derive(Default)]
pub(crate) struct Inflater {
    zstd: Option<DCtx<'static>>,
    zlib: Option<Decompress>,
}

impl Inflater {
    /// Decompresses `input` into `output` and says how many bytes came out, or why none did.
    pub(crate) fn inflate(
        &mut self,
        compression: Compression,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<usize, String> {
        match compression {
            Compression::None => Err("the file says that nothing in it is compressed".to_owned()),
            Compression::Zstd => self
                .zstd
                .get_or_insert_with(DCtx::create)
                .decompress(output, input)
                .map_err(|code| zstd_safe::get_error_name(code).to_owned()),
            Compression::Zlib => {
                let zlib = self.zlib.get_or_insert_with(|| Decompress::new(true));
                zlib.reset(true);
                match zlib.decompress(input, output, FlushDecompress::Finish) {
                    Ok(Status::StreamEnd) => Ok(zlib.total_out() as usize),
                    Ok(_) => Err("the stream does not end where it should".to_owned()),
                    Err(error) => Err(error.to_string()),
                }
            }
        }
    }
}
