//! pprof's format as `go build -pgo` takes it (Go's `src/internal/profile` and `src/cmd/internal/pgo`): calls with their lines,
//! relative to the start line of the calling function, and functions by their linker names.

use std::collections::BTreeMap;
use std::io::{self, Write};

use profile::Count;

use super::super::pprof::{Function, Line, Location, Mapping, Profile, Sample, ValueType, compress};
use super::super::signed;
use super::super::string_table::StringTable;
use super::{Agreement, ProgramPlace, ProgramSamples, Written, add};
use crate::interner::Interner;

/// A function: its name, its file, and the line at which it starts.
type FunctionKey<'a> = (&'a str, &'a str, u32);

/// A location: each of its functions, the innermost first, with the line in it.
type LocationKey = Vec<(u32, u32)>;

/// A call as Go weighs it: the calling function, the line of the call, and the called function.
type Call = (u32, u32, u32);

pub(super) fn write(samples: &ProgramSamples, output: &mut dyn Write) -> io::Result<Written> {
    let mut strings = StringTable::new();
    let mut kind = |name: &str, unit: &str| ValueType {
        kind: strings.intern(name).into(),
        unit: strings.intern(unit).into(),
    };
    // As in the profiles of runtime/pprof. Go weighs by the samples.
    let samples_count = kind("samples", "count");
    let cpu = kind("cpu", "nanoseconds");
    let mut functions = Interner::<FunctionKey<'_>>::default();
    let mut locations = Interner::<LocationKey>::default();
    let mut written = Written::default();
    let mut sample = Vec::new();
    let mut counts: BTreeMap<Call, u64> = BTreeMap::new();
    for &(stack, count) in &samples.counts {
        let places = samples.stacks.entries(stack).map(|place| samples.places.get(place.index()));
        let places = places.map(|place| place.and_then(Option::as_ref));
        // What Go code called outside of it, a system call or the kernel, is time of the calling function. Beyond other code on the
        // stack, nobody knows who called whom.
        let own = places.skip_while(Option::is_none).map_while(|place| place);
        // A function that calls by a generated wrapper calls what that calls, as in the profiles of runtime/pprof: the compiler asks which
        // method an interface call reaches.
        let own = own.filter(|place| !place.frames.is_empty());
        let location_id: Vec<u64> =
            own.map(|place| u64::from(locations.intern(location(place, &mut functions))) + 1).collect();
        if location_id.is_empty() {
            continue;
        }
        let Count { samples: number, period } = count;
        add(&mut written.samples, number);
        add(&mut written.weight, number);
        let innermost = location_id.iter().filter_map(|&id| locations.values.get(id as usize - 1));
        for call in calls(innermost.map(Vec::as_slice)) {
            add(counts.entry(call).or_default(), number);
        }
        sample.push(Sample { location_id, value: vec![signed(number), signed(period)], label: Vec::new() });
    }
    written.functions = functions.values.len();
    written.agreement = Agreement::estimate(counts.into_values());
    let mapping = Mapping {
        id: 1,
        memory_start: 0,
        memory_limit: 0,
        file_offset: 0,
        filename: strings.intern(&samples.path).into(),
        build_id: strings.intern(&samples.build_id).into(),
        has_functions: true,
        has_filenames: true,
        has_line_numbers: true,
        has_inline_frames: true,
    };
    let location = locations.values.iter().zip(1..).map(|(lines, id)| {
        let line = lines.iter().map(|&(function, line)| Line {
            function_id: u64::from(function) + 1,
            line: line.into(),
            column: 0,
        });
        Location { id, mapping_id: 1, address: id, line: line.collect() }
    });
    let location = location.collect();
    let function = functions.values.iter().zip(1..).map(|(&(name, file, start_line), id)| {
        let (name, filename) = (strings.intern(name).into(), strings.intern(file).into());
        Function { id, name, system_name: name, filename, start_line: start_line.into() }
    });
    let profile = Profile {
        sample_type: vec![samples_count, cpu],
        sample,
        mapping: vec![mapping],
        location,
        function: function.collect(),
        string_table: Vec::new(),
        time_nanos: samples.started_unix_ns.map_or(0, signed),
        duration_nanos: signed(samples.duration_ns),
        period_type: Some(cpu),
        period: period(samples),
        comment: Vec::new(),
        default_sample_type: 0,
    };
    let profile = Profile { string_table: strings.texts, ..profile };
    output.write_all(&compress(&profile)?)?;
    Ok(written)
}

/// Returns the calls that Go weighs of a stack, innermost location first: those in its two innermost locations (`NewGraph` in
/// `src/internal/profile/graph.go`).
fn calls<'l>(stack: impl Iterator<Item = &'l [(u32, u32)]>) -> Vec<Call> {
    let lines: Vec<(u32, u32)> = stack.take(2).flatten().copied().collect();
    let calls = lines.iter().zip(lines.iter().skip(1));
    calls.map(|(&(callee, _), &(caller, line))| (caller, line, callee)).collect()
}

fn location<'a>(place: &'a ProgramPlace, functions: &mut Interner<FunctionKey<'a>>) -> LocationKey {
    let line = |frame: &'a model::Frame| {
        let at = frame.location.as_ref();
        let file = at.map_or("", |at| &*at.file);
        let function = functions.intern((&*frame.function, file, at.map_or(0, |at| at.start_line)));
        (function, at.map_or(0, |at| at.line))
    };
    place.frames.iter().map(line).collect()
}

/// Returns the mean period of the samples.
fn period(samples: &ProgramSamples) -> i64 {
    let sum = |of: fn(&Count) -> u64| {
        samples.counts.iter().map(|(_, count)| of(count)).fold(0, u64::saturating_add)
    };
    let (periods, count) = (sum(|count| count.period), sum(|count| count.samples));
    signed(periods.checked_div(count).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_those_of_the_two_innermost_locations() {
        let (leaf, inlined, caller, root) = (1, 2, 3, 4);
        let stack: [&[(u32, u32)]; 3] = [&[(leaf, 70), (inlined, 30)], &[(caller, 20)], &[(root, 10)]];
        assert_eq!(calls(stack.into_iter()), [(inlined, 30, leaf), (caller, 20, inlined)]);
        // Which line of the called function was sampled is nothing to the call.
        let other: [&[(u32, u32)]; 2] = [&[(leaf, 71), (inlined, 30)], &[(caller, 20)]];
        assert_eq!(calls(other.into_iter()), calls(stack.into_iter()));
        assert_eq!(calls([&[(leaf, 70)][..]].into_iter()), []);
    }
}
