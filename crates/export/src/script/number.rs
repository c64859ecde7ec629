//! Numbers aligned as by C's `printf`. Faster than `core::fmt`, which matters with a dozen numbers in each sample.

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
    let mut text = [b' '; 16];
    let digits = hex_digits(&mut text, value);
    blanks(out, width.saturating_sub(16));
    out.extend_from_slice(&text[16 - digits.max(width.min(16))..]);
}

/// Writes the hexadecimal digits of `value` to the end of `text`, leaves the bytes before them, and returns how many digits
/// there are.
pub(super) fn hex_digits(text: &mut [u8; 16], value: u64) -> usize {
    let digits = (64 - (value | 1).leading_zeros() as usize).div_ceil(4);
    for (index, digit) in text.iter_mut().rev().take(digits).enumerate() {
        *digit = b"0123456789abcdef"[(value >> (index * 4)) as usize & 0xf];
    }
    digits
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

/// The decimal digits of the numbers from 0 to 99.
const PAIRS: &[u8; 200] = b"0001020304050607080910111213141516171819\
    2021222324252627282930313233343536373839\
    4041424344454647484950515253545556575859\
    6061626364656667686970717273747576777879\
    8081828384858687888990919293949596979899";

/// The size of the buffer that digits are formatted in: enough for 64 bits, and for most widths.
const BUFFER_BYTES: usize = 24;

fn padded_decimal(out: &mut Vec<u8>, value: u64, width: usize, filler: u8) {
    let mut text = [filler; BUFFER_BYTES];
    let mut first = BUFFER_BYTES;
    let mut rest = value;
    while rest >= 10 {
        let pair = (rest % 100) as usize * 2;
        rest /= 100;
        first -= 2;
        text[first..first + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    if rest > 0 || first == BUFFER_BYTES {
        first -= 1;
        text[first] = b'0' + rest as u8;
    }
    out.extend(core::iter::repeat_n(filler, width.saturating_sub(BUFFER_BYTES)));
    out.extend_from_slice(&text[first.min(BUFFER_BYTES - width.min(BUFFER_BYTES))..]);
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
        fn as_the_standard_library_formats(value in any::<u64>(), shift in 0_u32..64, width in 0_usize..30) {
            let value = value >> shift;
            prop_assert_eq!(text(|out| decimal(out, value, width)), format!("{value:width$}"));
            prop_assert_eq!(text(|out| zero_decimal(out, value, width)), format!("{value:0width$}"));
            prop_assert_eq!(text(|out| hex(out, value, width)), format!("{value:width$x}"));
            let value = value as i64;
            prop_assert_eq!(text(|out| signed(out, value, width)), format!("{value:width$}"));
        }
    }
}
