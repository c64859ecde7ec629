//! zstd as the container uses it: pieces of one frame that is flushed after each piece and never ended.

use std::io::{self, Write};

use ::zstd::stream::raw::{InBuffer, Operation, OutBuffer};

/// Unpacks the pieces of one stream.
pub(crate) struct Decoder(::zstd::stream::raw::Decoder<'static>);

impl Decoder {
    pub(crate) fn new() -> io::Result<Self> {
        ::zstd::stream::raw::Decoder::new().map(Self)
    }

    /// Unpacks what `input` gives into `output` from `filled` on. Returns how many bytes of `input` are used up, where
    /// in `output` the result ends, and zstd's error, before which it may have made progress.
    pub(crate) fn run(
        &mut self,
        input: &[u8],
        output: &mut [u8],
        filled: usize,
    ) -> (usize, usize, io::Result<()>) {
        let mut input = InBuffer::around(input);
        let mut output = OutBuffer::around_pos(output, filled);
        let result = self.0.run(&mut input, &mut output);
        (input.pos(), output.pos(), result.map(drop))
    }
}

/// Packs one stream, piece by piece.
pub(crate) struct Encoder(::zstd::stream::write::Encoder<'static, Vec<u8>>);

impl Encoder {
    pub(crate) fn new(level: i32) -> io::Result<Self> {
        ::zstd::stream::write::Encoder::new(Vec::new(), level).map(Self)
    }

    /// The next piece, which holds all of `part`.
    pub(crate) fn pack(&mut self, part: &[u8]) -> io::Result<Vec<u8>> {
        self.0.write_all(part)?;
        self.0.flush()?;
        Ok(std::mem::take(self.0.get_mut()))
    }
}
