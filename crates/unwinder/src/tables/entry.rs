//! One FDE and its CIE, copied from their section to find a row.

use alloc::vec;
use alloc::vec::Vec;

use elf::ReadAt;

use super::Section;

/// The kind of the two sections, whose entries refer to each other in different ways (LSB core specification,
/// 10.6.1.1; DWARF 5,
/// 6.4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SectionKind {
    EhFrame,
    DebugFrame,
}

/// A section with nothing but a CIE and an FDE that refers to it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) bytes: Vec<u8>,
    /// The offset of the FDE, behind the CIE.
    pub(super) fde: usize,
    /// The stated address of the first byte, by which those of the FDE are at their own. Those of the CIE are not: what it says
    /// relative to its place (of a personality routine) is never asked for.
    pub(super) address: u64,
}

/// The maximum size of an FDE or CIE; longer ones count as malformed. Its program is run anew for each address in it. The longest of real
/// programs have a few kilobytes.
const MAX_ENTRY_BYTES: u64 = 1 << 20;

impl Entry {
    /// Reads the FDE at an offset, and its CIE; `None` where there is none.
    pub(super) fn read<D: ReadAt>(section: &Section<D>, kind: SectionKind, offset: u64) -> Option<Self> {
        let fde = Bounds::read(section, kind, offset)?;
        let mut pointer = [0; 8];
        let width = fde.pointer_width;
        let pointer_at = offset.checked_add(fde.header as u64)?;
        if section.read_at(pointer_at, pointer.get_mut(..width)?) != width {
            return None;
        }
        let pointer = u64::from_le_bytes(pointer);
        // A CIE has in its place 0, or all bits.
        let cie_at = match (kind, width) {
            (SectionKind::EhFrame, _) => pointer_at.checked_sub(pointer).filter(|_| pointer != 0)?,
            (SectionKind::DebugFrame, 4) if pointer == u64::from(u32::MAX) => return None,
            (SectionKind::DebugFrame, _) => pointer,
        };
        let cie = Bounds::read(section, kind, cie_at)?;
        let mut bytes = vec![0; cie.length.checked_add(fde.length)?];
        let (cie_bytes, fde_bytes) = bytes.split_at_mut(cie.length);
        if section.read_at(cie_at, cie_bytes) != cie.length
            || section.read_at(offset, fde_bytes) != fde.length
        {
            return None;
        }
        remove_marks(cie_bytes.get_mut(cie.header + cie.pointer_width..)?);
        let distance = match kind {
            SectionKind::EhFrame => cie.length.checked_add(fde.header)? as u64,
            SectionKind::DebugFrame => 0,
        };
        fde_bytes
            .get_mut(fde.header..fde.header + width)?
            .copy_from_slice(distance.to_le_bytes().get(..width)?);
        let address = section.address.0.wrapping_add(offset).wrapping_sub(cie.length as u64);
        Some(Self { bytes, fde: cie.length, address })
    }
}

/// Removes the marks from all CIEs of a section, up to the first entry that cannot be one.
pub(super) fn remove_all_marks(section: &mut [u8], kind: SectionKind) {
    let mut rest = section;
    while let Some(Bounds { length, header, pointer_width }) = Bounds::read(&&*rest, kind, 0)
        && let Some((entry, behind)) = core::mem::take(&mut rest).split_at_mut_checked(length)
    {
        let id = entry.get(header..header + pointer_width).unwrap_or_default();
        let cie_id = if kind == SectionKind::EhFrame { 0 } else { 0xff };
        if id.iter().all(|byte| *byte == cie_id) {
            remove_marks(entry.get_mut(header + pointer_width..).unwrap_or_default());
        }
        rest = behind;
    }
}

/// The lengths of an entry and its parts.
struct Bounds {
    /// All of it, in bytes.
    length: usize,
    /// Bytes before the reference to the CIE.
    header: usize,
    /// Bytes of that reference.
    pointer_width: usize,
}

impl Bounds {
    fn read(section: &impl ReadAt, kind: SectionKind, offset: u64) -> Option<Self> {
        let length = u32::from_le_bytes(section.array(offset)?);
        let (header, length, is_64) = if length == u32::MAX {
            (12, u64::from_le_bytes(section.array(offset.checked_add(4)?)?), true)
        } else {
            (4, u64::from(length), false)
        };
        let pointer_width = if is_64 && kind == SectionKind::DebugFrame { 8 } else { 4 };
        let is_possible = (pointer_width as u64..=MAX_ENTRY_BYTES).contains(&length);
        let length = usize::try_from(length).ok().filter(|_| is_possible)?.checked_add(header)?;
        Some(Self { length, header, pointer_width })
    }
}

/// Removes the marks `B` and `G` from the augmentation string of a CIE, as gimli refuses a CIE with characters that it does not know.
/// They stand for no data, and change nothing that unwinding needs: return addresses are signed with the B key, and the frame's memory
/// is tagged (DWARF for the Arm 64-bit Architecture, section "Common information entry").
///
/// `body` is the CIE from its version on. It keeps its length: at its end are that many more `DW_CFA_nop`.
pub(super) fn remove_marks(body: &mut [u8]) {
    let is_mark = |byte: &u8| matches!(byte, b'B' | b'G');
    let Some(string_and_rest) = body.get_mut(1..) else { return };
    if !string_and_rest.iter().take_while(|byte| **byte != 0).any(is_mark) {
        return;
    }
    let mut in_string = true;
    let mut kept: Vec<u8> = string_and_rest.to_vec();
    kept.retain(|byte| {
        in_string &= *byte != 0;
        !in_string || !is_mark(byte)
    });
    kept.resize(string_and_rest.len(), 0);
    string_and_rest.copy_from_slice(&kept);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without_marks(body: &[u8]) -> Vec<u8> {
        let mut body = body.to_vec();
        remove_marks(&mut body);
        body
    }

    #[test]
    fn marks_go_and_the_rest_moves_up() {
        assert_eq!(without_marks(b"\x01zRB\0\x01\x7cB"), b"\x01zR\0\x01\x7cB\0");
        assert_eq!(without_marks(b"\x01zPLRBG\0BG"), b"\x01zPLR\0BG\0\0");
        assert_eq!(without_marks(b"\x04B\0\x08"), b"\x04\0\x08\0");
        for same in [&b"\x01zRS\0BG"[..], b"B\0B", b"\x01", b""] {
            assert_eq!(without_marks(same), same);
        }
        assert_eq!(without_marks(b"\x01BBB"), b"\x01\0\0\0", "a string without an end");
    }
}
