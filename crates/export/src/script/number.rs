//! Numbers as C's `printf` aligns them, without the cost of `core::fmt`: there are a dozen in each sample.

/// Appends `value` in decimal, right-aligned in `width` characters.
pub(super) fn decimal(out: &mut Vec<u8>, value: u64, width: usize) {
    padded_decimal(out, value, width, b' ');
}

/// Appends `value` in decimal, filled with zeroes to `width` digits.
pub(super) fn zero_decimal(out: &mut Vec<u8>, value: u64, width: usize) {
    padded_decimal(out, value, width, b'0');
}

/// Appends `value` in decimal, right-aligned in `width` characters.
pub(super) fn signed(out: &mut Vec<u8>, value: i64, width: usize) {
    if value >= 0 {
        return decimal(out, value.unsigned_abs(), width);
    }
    let mut digits = Vec::with_capacity(20);
    decimal(&mut digits, value.unsigned_abs(), 0);
    blanks(out, width.saturating_sub(digits.len() + 1));
    out.push(b'-');
    out.extend_from_slice(&digits);
}

/// Appends `value` in hexadecimal, right-aligned in `width` characters.
pub(super) fn hex(out: &mut Vec<u8>, value: u64, width: usize) {
    let digits = (64 - (value | 1).leading_zeros() as usize).div_ceil(4);
    blanks(out, width.saturating_sub(digits));
    for index in (0..digits).rev() {
        out.push(b"0123456789abcdef"[(value >> (index * 4)) as usize & 0xf]);
    }
}

/// Appends `text`, right-aligned in `width` bytes.
pub(super) fn right(out: &mut Vec<u8>, text: &[u8], width: usize) {
    blanks(out, width.saturating_sub(text.len()));
    out.extend_from_slice(text);
}

/// Appends `text`, left-aligned in `width` bytes.
pub(super) fn left(out: &mut Vec<u8>, text: &[u8], width: usize) {
    out.extend_from_slice(text);
    blanks(out, width.saturating_sub(text.len()));
}

/// Appends `count` blanks.
pub(super) fn blanks(out: &mut Vec<u8>, count: usize) {
    out.extend(core::iter::repeat_n(b' ', count));
}

fn padded_decimal(out: &mut Vec<u8>, value: u64, width: usize, filler: u8) {
    // 2^64 has twenty digits.
    let mut digits = [0; 20];
    let mut first = digits.len();
    let mut rest = value;
    loop {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    let digits = &digits[first..];
    out.extend(core::iter::repeat_n(filler, width.saturating_sub(digits.len())));
    out.extend_from_slice(digits);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    proptest! {
        #[test]
        fn as_the_standard_library_formats(value in any::<u64>(), shift in 0_u32..64, width in 0_usize..25) {
            let value = value >> shift;
            prop_assert_eq!(text(|out| decimal(out, value, width)), format!("{value:width$}"));
            prop_assert_eq!(text(|out| zero_decimal(out, value, width)), format!("{value:0width$}"));
            prop_assert_eq!(text(|out| hex(out, value, width)), format!("{value:width$x}"));
            let value = value as i64;
            prop_assert_eq!(text(|out| signed(out, value, width)), format!("{value:width$}"));
        }
    }
}
