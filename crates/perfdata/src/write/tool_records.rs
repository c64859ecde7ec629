//! Records that tools write between the kernel's (`tools/lib/perf/include/perf/event.h`).

use decoder::{Attr, Endian};

use crate::tool::kind::{COMPRESSED, EVENT_UPDATE, HEADER_ATTR};

/// A record of `kind` around `body`, padded with zeros to eight bytes: perf of Linux 7 stops at records whose size is no
/// multiple of that. `None` where that is more than a record can hold.
pub(super) fn record(kind: u32, body: &[u8]) -> Option<Vec<u8>> {
    record_with_misc(kind, 0, body)
}

/// As [`record`], with `misc` in its header.
pub(super) fn record_with_misc(kind: u32, misc: u16, body: &[u8]) -> Option<Vec<u8>> {
    let size = body.len().checked_add(8)?.checked_next_multiple_of(8)?;
    let mut bytes = header(kind, misc, size)?;
    bytes.extend_from_slice(body);
    bytes.resize(size, 0);
    Some(bytes)
}

/// A `COMPRESSED` record around a piece of the zstd stream. Zeros behind it would be taken for a part of the stream, so its
/// size is what the piece needs, as in perf's.
pub(super) fn compressed(piece: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = header(COMPRESSED, 0, piece.len().checked_add(8)?)?;
    bytes.extend_from_slice(piece);
    Some(bytes)
}

fn header(kind: u32, misc: u16, size: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(size);
    bytes.extend_from_slice(&Endian::NATIVE.u32_bytes(kind));
    bytes.extend_from_slice(&Endian::NATIVE.u16_bytes(misc));
    bytes.extend_from_slice(&Endian::NATIVE.u16_bytes(u16::try_from(size).ok()?));
    Some(bytes)
}

/// `HEADER_ATTR` records of an event: more than one where its ids do not fit into one. Readers add them up by attr,
/// so an event with more ids than fit is described by its first record only; all its ids also stand in the records
/// themselves.
pub(super) fn header_attr(attr: &Attr, ids: &[u64]) -> Option<Vec<u8>> {
    let mut body = attr.to_bytes(Endian::NATIVE);
    let room = decoder::MAX_RECORD_BYTES.saturating_sub(8).saturating_sub(body.len()) / 8;
    for &id in ids.iter().take(room) {
        body.extend_from_slice(&Endian::NATIVE.u64_bytes(id));
    }
    record(HEADER_ATTR, &body)
}

/// `EVENT_UPDATE` of kind "name": pipes have no other place for an event's name.
pub(super) fn event_name(id: u64, name: &[u8]) -> Option<Vec<u8>> {
    const NAME: u64 = 2;
    let mut body = Vec::new();
    body.extend_from_slice(&Endian::NATIVE.u64_bytes(NAME));
    body.extend_from_slice(&Endian::NATIVE.u64_bytes(id));
    body.extend_from_slice(name);
    body.push(0);
    record(EVENT_UPDATE, &body)
}
