//! Stands in for `zstd_codec` in builds without the feature `zstd`: nothing can be packed or unpacked, and the error says
//! which build can.

use std::io;

/// Cannot be made.
pub(crate) enum Decoder {}

impl Decoder {
    pub(crate) fn new() -> io::Result<Self> {
        Err(absent())
    }

    pub(crate) fn run(&mut self, _: &[u8], _: &mut [u8], _: usize) -> (usize, usize, io::Result<()>) {
        match *self {}
    }
}

/// Cannot be made.
pub(crate) enum Encoder {}

impl Encoder {
    pub(crate) fn new(_: i32) -> io::Result<Self> {
        Err(absent())
    }

    pub(crate) fn pack(&mut self, _: &[u8]) -> io::Result<Vec<u8>> {
        match *self {}
    }
}

fn absent() -> io::Error {
    let why = "this prof was built without the cargo feature `zstd`; try: cargo install --path crates/cli";
    io::Error::new(io::ErrorKind::Unsupported, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_names_the_feature() {
        let errors = [Decoder::new().err(), Encoder::new(1).err()];
        assert!(
            errors.into_iter().flatten().filter(|error| error.to_string().contains("feature `zstd`")).count()
                == 2
        );
    }
}
