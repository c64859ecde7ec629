//! The augmentation string of a CIE, which says what data it and its FDEs have beside the standard ones.

use alloc::vec::Vec;

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
