//! LLVM's sample profile as text (`llvm/include/llvm/ProfileData/SampleProfReader.h`): for each function its samples by line, and the
//! functions that were inlined into it, by the lines of their calls.
//!
//! Lines count from the start of their function. A number behind a dot tells blocks of one line apart: the base discriminator.
//!
//! LLVM takes the numbers for how often code was executed. Samples of a clock say how long it ran, which is the best estimate that they
//! allow. What a line called says nothing of how often the line ran: so the samples of callees only divide the line's own count among
//! the called functions.

use std::collections::BTreeMap;
use std::io::{self, Write};

use model::{Frame, SourceLocation};

use super::{ProgramPlace, ProgramSamples, Written, add};

/// A line of a function, relative to its start, and the base discriminator.
type Position = (u32, u32);

/// The samples of a function, with what is inlined into it.
#[derive(Default, Debug)]
struct FunctionSamples {
    lines: BTreeMap<Position, LineSamples>,
    inlined: BTreeMap<(Position, String), FunctionSamples>,
}

/// The samples of a line.
#[derive(Default, Debug)]
struct LineSamples {
    samples: u64,
    weight: u64,
    /// The functions that it calls, with the weight of the stacks with that call.
    called: BTreeMap<String, u64>,
}

impl FunctionSamples {
    /// Returns the samples of the function that is inlined by these calls, outermost frame first. Returns the position in it, too. `None`
    /// where a frame has no line, or a name that the format cannot hold.
    fn innermost(&mut self, frames: &[Frame]) -> Option<(&mut Self, Position)> {
        let (innermost, callers) = frames.split_first()?;
        let mut samples = self;
        let mut callees = frames.iter().rev().skip(1);
        for caller in callers.iter().rev() {
            let position = position(caller.location.as_ref()?)?;
            let callee = usable_name(&callees.next()?.function)?;
            samples = samples.inlined.entry((position, callee.to_owned())).or_default();
        }
        Some((samples, position(innermost.location.as_ref()?)?))
    }

    fn total(&self) -> u64 {
        let own = self.lines.values().map(|line| line.weight);
        own.chain(self.inlined.values().map(Self::total)).fold(0, u64::saturating_add)
    }

    fn write(&self, depth: usize, output: &mut dyn Write) -> io::Result<()> {
        for (&position, line) in self.lines.iter().filter(|(_, line)| line.weight > 0) {
            write!(output, "{:depth$}{}: {}", "", text_of(position), line.weight)?;
            for (callee, weight) in line.called_shares() {
                write!(output, " {callee}:{weight}")?;
            }
            writeln!(output)?;
        }
        for ((position, callee), samples) in &self.inlined {
            let total = samples.total();
            if total > 0 {
                writeln!(output, "{:depth$}{}: {callee}:{total}", "", text_of(*position))?;
                samples.write(depth + 1, output)?;
            }
        }
        Ok(())
    }
}

impl LineSamples {
    /// Returns the called functions with their shares of the line's own weight.
    fn called_shares(&self) -> impl Iterator<Item = (&str, u64)> {
        let all = self.called.values().map(|&weight| u128::from(weight)).sum::<u128>().max(1);
        let share = move |called: u64| u128::from(self.weight) * u128::from(called) / all;
        let shares = self.called.iter().map(move |(callee, &called)| (&**callee, share(called) as u64));
        shares.filter(|&(_, share)| share > 0)
    }
}

pub(super) fn write(samples: &ProgramSamples, output: &mut dyn Write) -> io::Result<Written> {
    let mut written = Written::default();
    let mut functions: BTreeMap<&str, FunctionSamples> = BTreeMap::new();
    for &(stack, count) in &samples.counts {
        let weight = count.weight(samples.weight);
        let innermost = samples.innermost(stack);
        if innermost.is_some_and(lacks_start) {
            add(&mut written.without_start, count.samples);
        }
        if let Some(place) = innermost
            && let Some((function, position)) = function_at(&mut functions, place)
        {
            let line = function.lines.entry(position).or_default();
            add(&mut line.weight, weight);
            add(&mut line.samples, count.samples);
            add(&mut written.samples, count.samples);
            add(&mut written.weight, weight);
        }
        let mut callee = None;
        for place in samples.stacks.entries(stack) {
            let place = samples.places.get(place.index()).and_then(Option::as_ref);
            if let (Some(callee), Some(caller)) = (callee, place)
                && let Some(callee) = name_of(callee)
                && let Some((function, position)) = function_at(&mut functions, caller)
            {
                let called = &mut function.lines.entry(position).or_default().called;
                add(called.entry(callee.to_owned()).or_default(), weight);
            }
            callee = place;
        }
    }
    let mut functions: Vec<_> =
        functions.into_iter().map(|(name, samples)| (samples.total(), name, samples)).collect();
    functions.retain(|(total, ..)| *total > 0);
    functions.sort_by(|(one, name, _), (other, other_name, _)| (other, name).cmp(&(one, other_name)));
    written.functions = functions.len();
    let mut entries: BTreeMap<&str, Position> = BTreeMap::new();
    for (name, location) in &samples.entries {
        // The parts of a function that lie elsewhere (`.cold`) are not where it is entered.
        if let Some(position) = position(location)
            && let Some(whole) =
                usable_name(name).filter(|whole| !name.contains(".cold") && !whole.is_empty())
        {
            entries.insert(whole, position);
        }
    }
    for (total, name, samples) in &functions {
        let entry = entries.get(name).and_then(|position| samples.lines.get(position));
        writeln!(output, "{name}:{total}:{}", entry.map_or(0, |line| line.weight))?;
        samples.write(1, output)?;
    }
    Ok(written)
}

/// Returns the samples of the function at a place, inlined ones included, and the position in it.
fn function_at<'a, 's>(
    functions: &'s mut BTreeMap<&'a str, FunctionSamples>,
    place: &'a ProgramPlace,
) -> Option<(&'s mut FunctionSamples, Position)> {
    // A place without lines must not add empty functions.
    let is_located = |frame: &Frame| frame.location.as_ref().and_then(position).is_some();
    if !place.frames.iter().all(|frame| is_located(frame) && usable_name(&frame.function).is_some()) {
        return None;
    }
    functions.entry(name_of(place)?).or_default().innermost(&place.frames)
}

/// Returns true if all functions at a place have a line, and one of them does not say at which line it starts.
fn lacks_start(place: &ProgramPlace) -> bool {
    let locations = || place.frames.iter().map(|frame| frame.location.as_ref());
    locations().all(|location| location.is_some_and(|location| location.line > 0))
        && locations().flatten().any(|location| location.start_line == 0)
}

/// Returns the name of the function that has the code at a place.
fn name_of(place: &ProgramPlace) -> Option<&str> {
    usable_name(&place.frames.last()?.function)
}

/// Returns the position of a location in its function; `None` where the debug information lacks the line or the start of the function.
fn position(location: &SourceLocation) -> Option<Position> {
    if location.line == 0 || location.start_line == 0 {
        return None;
    }
    // LLVM keeps 16 bits, of negative differences too (`FunctionSamples::getOffset`): code may come from a macro further up.
    let offset = location.line.wrapping_sub(location.start_line) & 0xffff;
    Some((offset, base_discriminator(location.discriminator)))
}

/// Returns the base discriminator in a discriminator, as LLVM encodes it: a prefix code of 1, 7 or 14 bits
/// (`DILocation::getBaseDiscriminatorFromDiscriminator`).
fn base_discriminator(discriminator: u32) -> u32 {
    if discriminator & 1 != 0 {
        return 0;
    }
    let code = discriminator >> 1;
    if code & 0x20 != 0 { (code >> 1) & 0xfe0 | code & 0x1f } else { code & 0x1f }
}

fn text_of((line, discriminator): Position) -> String {
    if discriminator == 0 { line.to_string() } else { format!("{line}.{discriminator}") }
}

/// Returns a linkage name without the suffixes that optimizations add, which LLVM ignores too (`FunctionSamples::getCanonicalFnName`).
/// `None` for a name that would break a line of the format.
fn usable_name(name: &str) -> Option<&str> {
    const SUFFIXES: [&str; 7] =
        [".llvm.", ".cold", ".part.", ".isra.", ".constprop.", ".lto_priv.", ".localalias"];
    let ends = SUFFIXES.iter().filter_map(|suffix| name.find(suffix)).filter(|&end| end > 0);
    let name = ends.min().map_or(name, |end| &name[..end]);
    let is_broken = |letter: char| letter.is_whitespace() || letter.is_control();
    let starts_well = name.starts_with(|first: char| !first.is_ascii_digit() && first != '!');
    (starts_well && !name.contains(is_broken)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_discriminators_are_decoded_as_llvm_encodes_them() {
        // As `DILocation::encodeDiscriminator` of LLVM 14 returns for these base discriminators.
        assert_eq!([0, 2, 4, 6].map(base_discriminator), [0, 1, 2, 3]);
        assert_eq!(base_discriminator(0x3e), 31);
        // 32 takes the long form: the low five bits, the mark, then the rest.
        assert_eq!(base_discriminator((0x20 | (1 << 6)) << 1), 32);
        // A duplication factor alone.
        assert_eq!(base_discriminator(1), 0);
    }

    #[test]
    fn suffixes_of_optimizations_are_left_out() {
        assert_eq!(usable_name("_Z3foov.llvm.123"), Some("_Z3foov"));
        assert_eq!(usable_name("foo.part.0.cold"), Some("foo"));
        assert_eq!(usable_name("foo.__uniq.42"), Some("foo.__uniq.42"));
        assert_eq!(usable_name("main.main"), Some("main.main"));
        for broken in ["a b", "1:2", "a\nb:1:1", "", "!CFG"] {
            assert_eq!(usable_name(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn callees_get_shares_of_what_the_line_itself_has() {
        let called = [("f", 3000), ("g", 1000), ("rare", 1)].map(|(name, weight)| (name.to_owned(), weight));
        let line = LineSamples { samples: 40, weight: 40, called: called.into() };
        assert_eq!(line.called_shares().collect::<Vec<_>>(), [("f", 29), ("g", 9)]);
    }

    #[test]
    fn a_place_that_lacks_the_start_of_its_function_is_told_from_one_without_lines() {
        let location = |line, start_line| {
            Some(SourceLocation { file: "f.c".into(), line, column: 0, discriminator: 0, start_line })
        };
        let place = |locations: &[Option<SourceLocation>]| {
            let frame = |location: &Option<SourceLocation>| Frame {
                function: "f".into(),
                location: location.clone(),
                inlined: false,
            };
            ProgramPlace { address: 0, frames: locations.iter().map(frame).collect() }
        };
        assert!(lacks_start(&place(&[location(7, 3), location(9, 0)])));
        assert!(!lacks_start(&place(&[location(7, 3)])));
        assert!(!lacks_start(&place(&[location(0, 0)])));
        assert!(!lacks_start(&place(&[location(7, 0), None])));
    }
}
