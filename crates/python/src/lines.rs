//! The location table of a code object (`co_linetable`, since 3.11): `Objects/locations.md` of CPython 3.11, `InternalDocs/code_objects.md`
//! later.

/// The lines of bytecode.
#[derive(Default, Debug)]
pub(crate) struct Lines {
    /// The first unit of each range of bytecode (units of two bytes), and its line; `None` where it has none. Ascending.
    ranges: Vec<(u32, Option<u32>)>,
}

impl Lines {
    /// Parses a table. What is wrong in it ends it.
    pub(crate) fn parse(table: &[u8], first_line: u32) -> Self {
        let mut lines = Self::default();
        let (mut unit, mut line) = (0_u32, i64::from(first_line));
        let mut rest = table;
        while let Some((entry, next)) = Entry::parse(rest) {
            rest = next;
            line = line.saturating_add(entry.line_delta.unwrap_or(0));
            let found = entry.line_delta.and_then(|_| u32::try_from(line).ok());
            if lines.ranges.last().is_none_or(|(_, last)| *last != found) {
                lines.ranges.push((unit, found));
            }
            unit = unit.saturating_add(entry.units);
        }
        lines.ranges.shrink_to_fit();
        lines
    }

    /// Returns the line of the bytecode at an offset in bytes.
    pub(crate) fn at(&self, offset: u64) -> Option<u32> {
        let next = self.ranges.partition_point(|(unit, _)| u64::from(*unit) * 2 <= offset);
        self.ranges.get(next.checked_sub(1)?)?.1
    }

    /// Returns the smallest and the largest line; `None` where there is none.
    pub(crate) fn range(&self) -> Option<(u32, u32)> {
        let lines = || self.ranges.iter().filter_map(|(_, line)| *line);
        Some((lines().min()?, lines().max()?))
    }

    /// Returns the number of bytes that it takes in memory.
    pub(crate) fn size(&self) -> usize {
        self.ranges.capacity() * size_of::<(u32, Option<u32>)>()
    }
}

/// One entry of a table.
struct Entry {
    /// The units of bytecode that it is about.
    units: u32,
    /// The difference to the line of the entry before; `None` where the bytecode has no line.
    line_delta: Option<i64>,
}

impl Entry {
    /// Parses the first entry. Returns `None` at the end, or where it is wrong.
    fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (&first, mut rest) = bytes.split_first().filter(|(first, _)| **first & 0x80 != 0)?;
        let code = first >> 3 & 15;
        let line_delta = match code {
            15 => None,
            14 => {
                let delta = signed(&mut rest)?;
                // The end line, the column, the end column.
                (0..3).try_for_each(|_| number(&mut rest).map(drop))?;
                Some(delta)
            }
            13 => Some(signed(&mut rest)?),
            10..=12 => {
                rest = rest.get(2..)?;
                Some(i64::from(code - 10))
            }
            _ => {
                rest = rest.get(1..)?;
                Some(0)
            }
        };
        Some((Self { units: u32::from(first & 7) + 1, line_delta }, rest))
    }
}

/// Reads a number in groups of 6 bits, the lowest first. Bit 6 of each byte but the last is set.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(6) {
        let byte = *bytes.split_off_first()?;
        value |= u64::from(byte & 0x3f) << shift;
        if byte & 0x40 == 0 {
            return Some(value);
        }
    }
    None
}

/// Reads a number whose lowest bit is its sign.
fn signed(bytes: &mut &[u8]) -> Option<i64> {
    let value = number(bytes)?;
    let magnitude = i64::try_from(value >> 1).ok()?;
    Some(if value & 1 == 1 { -magnitude } else { magnitude })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of a first byte.
    fn start(code: u8, units: u8) -> u8 {
        0x80 | code << 3 | (units - 1)
    }

    #[test]
    fn each_form_of_entries_is_read() {
        let table = [
            &[start(13, 1), 0][..],                        // line 10
            &[start(0, 8), 0x11],                          // the same line, 8 units
            &[start(11, 2), 3, 9],                         // line 11
            &[start(15, 1)],                               // no line
            &[start(14, 1), 0x40 | 0b00_1000, 1, 5, 0, 0], // 36 lines on: line 47
            &[start(13, 3), 0b11],                         // line 46
            &[0x01],                                       // not an entry
            &[start(13, 1), 4],
        ]
        .concat();
        let lines = Lines::parse(&table, 10);
        let found: Vec<_> = (0..18).map(|unit| lines.at(unit * 2)).collect();
        let expected = [&[Some(10); 9][..], &[Some(11); 2], &[None], &[Some(47)], &[Some(46); 5]].concat();
        assert_eq!(found, expected);
        assert_eq!(lines.range(), Some((10, 47)));
        assert_eq!(Lines::parse(&[], 1).at(0), None);
    }

    #[test]
    fn wrong_tables_are_harmless() {
        for table in [&[0xff_u8; 4096][..], &[0xf0, 0x7f], &[0xe8; 3], &[start(14, 8); 1000], &[start(13, 8)]]
        {
            let lines = Lines::parse(table, u32::MAX);
            assert!((0..10_000).all(|offset| lines.at(offset).is_none_or(|line| line > 0)));
        }
    }
}
