//! pprof's format as `go build -pgo` takes it (Go's `src/internal/profile` and `src/cmd/internal/pgo`): calls with their lines,
//! relative to the start line of the calling function, and functions by their linker names.

use std::io::{self, Write};

use profile::Count;

use super::super::pprof::{
    FunctionMessage, LineMessage, LocationMessage, MappingMessage, ProfileMessage, SampleMessage,
    ValueTypeMessage, compress,
};
use super::super::signed;
use super::super::string_table::StringTable;
use super::{ProgramPlace, ProgramSamples, Written, add};
use crate::interner::Interner;

/// A function: its name, its file, and the line at which it starts.
type FunctionKey<'a> = (&'a str, &'a str, u32);

/// A location: each of its functions, the innermost first, with the line in it.
type LocationKey = Vec<(u32, u32)>;

pub(super) fn write(samples: &ProgramSamples, output: &mut dyn Write) -> io::Result<Written> {
    let mut strings = StringTable::new();
    let mut kind = |name: &str, unit: &str| ValueTypeMessage {
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
        sample.push(SampleMessage {
            location_id,
            value: vec![signed(number), signed(period)],
            label: Vec::new(),
        });
    }
    written.functions = functions.values.len();
    let mapping = MappingMessage::symbolized(1, &samples.path, &samples.build_id, &mut strings);
    let location = locations.values.iter().zip(1..).map(|(lines, id)| {
        let line = lines.iter().map(|&(function, line)| LineMessage {
            function_id: u64::from(function) + 1,
            line: line.into(),
            column: 0,
        });
        LocationMessage { id, mapping_id: 1, address: id, line: line.collect() }
    });
    let location = location.collect();
    let function = functions.values.iter().zip(1..).map(|(&(name, file, start_line), id)| {
        let (name, filename) = (strings.intern(name).into(), strings.intern(file).into());
        FunctionMessage { id, name, system_name: name, filename, start_line: start_line.into() }
    });
    let profile = ProfileMessage {
        sample_type: vec![samples_count, cpu],
        sample,
        mapping: vec![mapping],
        location,
        function: function.collect(),
        time_nanos: samples.started_unix_ns.map_or(0, signed),
        duration_nanos: signed(samples.duration_ns),
        period_type: Some(cpu),
        period: period(samples),
        ..ProfileMessage::default()
    };
    let profile = ProfileMessage { string_table: strings.into_bytes(), ..profile };
    output.write_all(&compress(&profile)?)?;
    Ok(written)
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
