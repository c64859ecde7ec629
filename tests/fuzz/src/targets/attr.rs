//! An attr, in both byte orders.

use decoder::{Attr, Endian, RecordLayout, SampleFormat};

use crate::seeds;

pub(super) fn run(bytes: &[u8]) {
    for endian in [Endian::Little, Endian::Big] {
        let Ok(attr) = Attr::parse(bytes, endian) else { continue };
        let _ = RecordLayout::new(&attr, endian);
        let _ = perfdata::events::name_of(&attr);
        let again = attr.to_bytes(endian);
        assert_eq!(Attr::parse(&again, endian), Ok(attr), "written and read again");
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for endian in [Endian::Little, Endian::Big] {
        for size in [64, 72, 112, 128, 144, 160] {
            let attr = Attr { size, ..seeds::attr(SampleFormat::all()) };
            seeds.push(attr.to_bytes(endian));
        }
    }
    seeds
}
