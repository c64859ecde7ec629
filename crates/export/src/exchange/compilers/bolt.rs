//! BOLT's profile (`.fdata`) in the form without branch records: a line for each sampled address, as symbol, offset and count.
//!
//! Source of the format: `bolt/include/bolt/Profile/DataReader.h` of LLVM. Fields are separated by blanks, and a backslash makes a
//! blank in a name a part of it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use super::{LinkedFunction, ProgramSamples, Written, add};

/// The kind of a location: an offset from a symbol.
const SYMBOL: u8 = 1;

pub(super) fn write(samples: &ProgramSamples, output: &mut dyn Write) -> io::Result<Written> {
    let mut written = Written::default();
    let mut lines: BTreeMap<(&str, u64), u64> = BTreeMap::new();
    for &(stack, count) in &samples.counts {
        let Some(place) = samples.innermost(stack) else { continue };
        let Some(function) = function_at(&samples.symbols, place.address) else { continue };
        let weight = count.weight(samples.weight);
        add(&mut written.samples, count.samples);
        add(&mut written.weight, weight);
        add(lines.entry((&function.name, place.address - function.start)).or_default(), weight);
    }
    writeln!(output, "no_lbr {}", field(&samples.event))?;
    for (&(name, offset), count) in &lines {
        writeln!(output, "{SYMBOL} {} {offset:x} {count}", field(name))?;
    }
    written.functions = lines.keys().map(|&(name, _)| name).collect::<BTreeSet<_>>().len();
    Ok(written)
}

/// Returns the function that covers an address.
fn function_at(functions: &[LinkedFunction], address: u64) -> Option<&LinkedFunction> {
    let after = functions.partition_point(|function| function.start <= address);
    functions.get(after.checked_sub(1)?).filter(|function| address < function.end)
}

/// Returns a name as one field of a line.
fn field(name: &str) -> String {
    let mut field = String::with_capacity(name.len());
    for letter in name.chars() {
        match letter {
            ' ' | '\\' => field.extend(['\\', letter]),
            letter if letter.is_control() => field.push('?'),
            letter => field.push(letter),
        }
    }
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_field_of_one_line() {
        assert_eq!(field("main/1"), "main/1");
        assert_eq!(field("a b\\c\nd"), "a\\ b\\\\c?d");
    }

    #[test]
    fn addresses_between_functions_belong_to_none() {
        let function = |start, end| LinkedFunction { start, end, name: String::from("f") };
        let functions = [function(16, 32), function(48, 64)];
        let start_at = |address| function_at(&functions, address).map(|function| function.start);
        assert_eq!([15, 16, 31, 32, 48, 64].map(start_at), [None, Some(16), Some(16), None, Some(48), None]);
    }
}
