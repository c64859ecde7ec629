//! Parses `printf` directives and formats an argument with one.

use super::super::address::safe;

/// A directive: `%-8s`, `%#llx`, `%.*s`, `%pS`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Directive {
    left: bool,
    plus: bool,
    blank: bool,
    alternate: bool,
    zero: bool,
    width: Option<usize>,
    pub(super) precision: Option<usize>,
    /// True if the width is an argument.
    pub(super) width_argument: bool,
    /// True if the precision is an argument.
    pub(super) precision_argument: bool,
    /// The size of an integer, in bits.
    bits: u32,
    /// The conversion letter: `d`, `s`, `p`, …
    pub(super) conversion: char,
    /// The letters after `%p`: `S`, `I4`, …
    pub(super) pointer: String,
}

/// The greatest width and precision that is applied.
const MAX_WIDTH: usize = 512;

impl Directive {
    /// Parses the directive at the start of `text`, without its `%`; returns it and its length in bytes.
    pub(super) fn parse(text: &str, long_bits: u32) -> Option<(Self, usize)> {
        let mut directive = Self { bits: 32, ..Self::default() };
        let mut characters = text.char_indices().peekable();
        while let Some(&(_, flag)) = characters.peek() {
            match flag {
                '-' => directive.left = true,
                '+' => directive.plus = true,
                ' ' => directive.blank = true,
                '#' => directive.alternate = true,
                '0' => directive.zero = true,
                _ => break,
            }
            characters.next();
        }
        let number = |characters: &mut std::iter::Peekable<std::str::CharIndices<'_>>| {
            let mut value = None;
            while let Some(digit) = characters.peek().and_then(|(_, digit)| digit.to_digit(10)) {
                value = Some((value.unwrap_or(0) * 10 + digit as usize).min(MAX_WIDTH));
                characters.next();
            }
            value
        };
        if characters.next_if(|(_, c)| *c == '*').is_some() {
            directive.width_argument = true;
        } else {
            directive.width = number(&mut characters);
        }
        if characters.next_if(|(_, c)| *c == '.').is_some() {
            if characters.next_if(|(_, c)| *c == '*').is_some() {
                directive.precision_argument = true;
            } else {
                directive.precision = Some(number(&mut characters).unwrap_or(0));
            }
        }
        loop {
            let (at, character) = characters.next()?;
            match character {
                'h' => directive.bits = if directive.bits == 16 { 8 } else { 16 },
                'l' => directive.bits = if directive.bits == 32 { long_bits } else { 64 },
                'L' | 'q' | 'j' => directive.bits = 64,
                'z' | 'Z' | 't' => directive.bits = long_bits,
                _ => {
                    directive.conversion = character;
                    let mut len = at + character.len_utf8();
                    if character == 'p' {
                        directive.pointer = pointer_kind(text.get(len..).unwrap_or_default()).to_owned();
                        len += directive.pointer.len();
                    }
                    return Some((directive, len));
                }
            }
        }
    }

    /// Sets the width from an argument. A negative one aligns to the left.
    pub(super) fn set_width(&mut self, value: i64) {
        self.left |= value < 0;
        self.width = Some(usize::try_from(value.unsigned_abs()).unwrap_or(MAX_WIDTH).min(MAX_WIDTH));
    }

    /// Appends text, cut to the precision, with unsafe characters replaced.
    pub(super) fn text(&self, out: &mut Vec<u8>, text: &str) {
        let end = self.precision.and_then(|precision| text.char_indices().nth(precision));
        let text = end.map_or(text, |(at, _)| text.get(..at).unwrap_or(text));
        let before = out.len();
        safe(out, text);
        if self.width.is_some() {
            self.pad(out, before, text.chars().count());
        }
    }

    /// Appends an integer.
    pub(super) fn integer(&self, out: &mut Vec<u8>, value: u64) {
        let unused = 64 - self.bits;
        let unsigned = value << unused >> unused;
        let signed = (value << unused) as i64 >> unused;
        let before = out.len();
        if self.conversion == 'c' {
            let character = char::from(value as u8);
            let shown = if character.is_ascii_graphic() || character == ' ' { character } else { '\u{fffd}' };
            safe(out, shown.encode_utf8(&mut [0; 4]));
            return self.pad(out, before, 1);
        }
        let alternate = self.alternate && unsigned != 0;
        let (sign, radix, magnitude) = match self.conversion {
            'd' | 'i' if signed < 0 => ("-", 10, signed.unsigned_abs()),
            'd' | 'i' if self.plus => ("+", 10, unsigned),
            'd' | 'i' if self.blank => (" ", 10, unsigned),
            'x' => (if alternate { "0x" } else { "" }, 16, unsigned),
            'X' => (if alternate { "0X" } else { "" }, 16, unsigned),
            'o' => (if alternate { "0" } else { "" }, 8, unsigned),
            _ => ("", 10, unsigned),
        };
        // 2^64 has 22 octal digits.
        let mut digits = [0; 22];
        let mut first = digits.len();
        let mut rest = magnitude;
        loop {
            first -= 1;
            let set = if self.conversion == 'X' { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
            digits[first] = set[(rest % radix) as usize];
            rest /= radix;
            if rest == 0 {
                break;
            }
        }
        let digits = &digits[first..];
        let mut zeroes = self.precision.unwrap_or(1).saturating_sub(digits.len());
        if self.zero && !self.left && self.precision.is_none() {
            zeroes = self.width.unwrap_or(0).saturating_sub(sign.len() + digits.len());
        }
        out.extend_from_slice(sign.as_bytes());
        out.extend(std::iter::repeat_n(b'0', zeroes));
        out.extend_from_slice(digits);
        self.pad(out, before, out.len() - before);
    }

    /// Pads the text from `before` on, which has `count` characters, to the width.
    fn pad(&self, out: &mut Vec<u8>, before: usize, count: usize) {
        let missing = self.width.unwrap_or(0).saturating_sub(count);
        let blanks = std::iter::repeat_n(b' ', missing);
        if self.left {
            out.extend(blanks);
        } else if missing > 0 {
            out.splice(before..before, blanks);
        }
    }
}

/// Returns the letters after `%p` that select a format (`Documentation/core-api/printk-formats.rst`).
fn pointer_kind(rest: &str) -> &str {
    let kinds = [
        "I6c", "I4", "I6", "i4", "i6", "ISpc", "ISc", "ISp", "IS", "iS", "Ub", "UB", "Ul", "UL", "U", "M",
        "m", "F", "f", "S", "s",
    ];
    // `%p is` is a pointer and a word, `%pf` a function.
    kinds.into_iter().find(|kind| rest.starts_with(kind)).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn integer(format: &str, value: i64) -> String {
        let (directive, len) = Directive::parse(&format[1..], 64).unwrap();
        assert_eq!(len, format.len() - 1);
        let mut out = Vec::new();
        directive.integer(&mut out, value as u64);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn integers_as_in_c() {
        assert_eq!(integer("%d", -5), "-5");
        assert_eq!(integer("%5d", -5), "   -5");
        assert_eq!(integer("%-5d", 5), "5    ");
        assert_eq!(integer("%05d", -5), "-0005");
        assert_eq!(integer("%08lx", 0x1234), "00001234");
        assert_eq!(integer("%#x", 255), "0xff");
        assert_eq!(integer("%#010llx", 255), "0x000000ff");
        assert_eq!(integer("%#x", 0), "0");
        assert_eq!(integer("%u", -1), "4294967295");
        assert_eq!(integer("%llu", -1), "18446744073709551615");
        assert_eq!(integer("%hhu", 257), "1");
        assert_eq!(integer("%hd", 0x1_ffff), "-1");
        assert_eq!(integer("%.3d", 7), "007");
        assert_eq!(integer("%c", 65), "A");
        assert_eq!(integer("%o", 8), "10");
    }

    #[test]
    fn text_and_pointers() {
        let directive = |format: &str| Directive::parse(format, 64).unwrap().0;
        let text = |format: &str, text: &str| {
            let mut out = b"=".to_vec();
            directive(format).text(&mut out, text);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text("-8s", "ab"), "=ab      ");
        assert_eq!(text("4s", "ab\n"), "= ab\u{fffd}");
        assert_eq!(text(".2s", "abc"), "=ab");
        assert_eq!(directive("pS+1").pointer, "S");
        assert_eq!(directive("pI6c ").pointer, "I6c");
        assert_eq!(directive("p lock").pointer, "");
        assert!(directive(".*s").precision_argument);
        assert_eq!(integer("%99999999999999999999d", 1).len(), MAX_WIDTH);
    }
}
