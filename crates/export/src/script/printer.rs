//! Formats a sample as a block of text.

use decoder::attr::{
    HW_BRANCH_INSTRUCTIONS, SW_BPF_OUTPUT, SW_PAGE_FAULTS, SW_PAGE_FAULTS_MAJ, SW_PAGE_FAULTS_MIN,
    TYPE_HARDWARE, TYPE_SOFTWARE,
};
use decoder::record::{Cgroup, CpuMode};
use decoder::{Attr, Sample, SampleFormat};
use model::{AddressKind, EventIndex, Name};
use std::collections::HashMap;

use super::address::{AddressStyle, LocatedAddress, display, name};
use super::branches::{self, Ends};
use super::chain_lines::ChainLineId;
use super::fields::{EventKind, FieldError, FieldSelection, Fields};
use super::gapped_text::{GappedText, SymbolGap};
use super::tracepoint::TracepointFormat;

/// The attr and the name of an event.
#[derive(Clone, Copy, Debug)]
pub struct ScriptEvent<'a> {
    /// The attr with which it was opened.
    pub attr: &'a Attr,
    /// Its name.
    pub name: &'a Name,
}

/// The stack of a sample.
#[derive(Clone, Copy, Debug)]
pub enum SampleStack<'a> {
    /// The samples of the event have no call chains: the sampled instruction.
    Instruction(LocatedAddress),
    /// A call chain, innermost address first.
    Chain(&'a [ChainLineId]),
}

/// Formats samples as `perf script` prints them.
#[derive(Debug)]
pub struct Printer {
    events: Vec<Event>,
    // With a keyed hash: a hostile file chooses the ids.
    cgroups: HashMap<u64, Name>,
    /// True to print times with nine decimals.
    nanoseconds: bool,
}

#[derive(Debug)]
struct Event {
    fields: Fields,
    style: AddressStyle,
    /// The name, aligned and with a colon: `   cpu-clock: `.
    name: Box<[u8]>,
    has_chains: bool,
    default_period: u64,
    form: Form,
    format: Option<TracepointFormat>,
}

/// The form in which samples of an event are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Ordinary,
    /// Page faults: the data address is mapped, and printed with symbol and object.
    DataAddress,
    /// Branches sampled one by one (Intel BTS): `from => to`.
    Branch,
    /// The raw data come from a BPF program.
    BpfOutput,
}

impl Form {
    fn from_attr(attr: &Attr) -> Self {
        match (attr.kind, attr.config) {
            (TYPE_HARDWARE, HW_BRANCH_INSTRUCTIONS) if attr.sample_period == 1 && !attr.is_frequency() => {
                Self::Branch
            }
            (TYPE_SOFTWARE, SW_PAGE_FAULTS | SW_PAGE_FAULTS_MIN | SW_PAGE_FAULTS_MAJ) => Self::DataAddress,
            (TYPE_SOFTWARE, SW_BPF_OUTPUT) => Self::BpfOutput,
            _ => Self::Ordinary,
        }
    }
}

impl Printer {
    /// Creates a printer for the events of a recording. `inlined` is true to print inlined functions in call chains.
    ///
    /// # Errors
    /// If the samples do not have what `selection` asks for.
    pub fn new(
        events: &[ScriptEvent<'_>],
        selection: &FieldSelection,
        inlined: bool,
    ) -> Result<Self, FieldError> {
        let kind = |event: &ScriptEvent<'_>| EventKind::from_attr_type(event.attr.kind);
        let has_chains = |event: &ScriptEvent<'_>| event.attr.sample_format.contains(SampleFormat::CALLCHAIN);
        let chains_in_tracepoints =
            events.iter().any(|event| kind(event) == EventKind::Tracepoint && has_chains(event));
        let width = events.iter().map(|event| event.name.to_string().len()).max().unwrap_or(0);
        let build = |event: &ScriptEvent<'_>| {
            // The first event of a kind decides for all of the kind, so that columns line up.
            let first = events.iter().find(|other| kind(other) == kind(event) && !other.attr.is_dummy());
            let first = first.unwrap_or(event);
            let name = event.name.to_string();
            let fields = selection.resolve(
                kind(event),
                &first.name.to_string(),
                first.attr.sample_format,
                chains_in_tracepoints,
            )?;
            Ok(Event {
                fields,
                style: AddressStyle::new(fields, inlined),
                name: format!("{name:>width$}: ").into_bytes().into(),
                has_chains: has_chains(event),
                default_period: event.attr.sample_period,
                form: Form::from_attr(event.attr),
                format: None,
            })
        };
        Ok(Self {
            events: events.iter().map(build).collect::<Result<_, _>>()?,
            cgroups: HashMap::new(),
            nanoseconds: false,
        })
    }

    /// Prints times with nine decimals.
    pub fn show_nanoseconds(&mut self) {
        self.nanoseconds = true;
    }

    /// Sets the format of a tracepoint's raw data.
    pub fn set_format(&mut self, event: EventIndex, format: TracepointFormat) {
        if let Some(event) = self.events.get_mut(event.0 as usize) {
            event.format = Some(format);
        }
    }

    /// Records the path of a cgroup.
    pub fn add_cgroup(&mut self, cgroup: &Cgroup<'_>) {
        self.cgroups.insert(cgroup.id, Name::new(cgroup.path));
    }

    /// Returns the number of events.
    pub fn event_count(&self) -> usize {
        self.events.len()
    }

    /// Returns the fields that are printed of an event's samples.
    pub fn fields(&self, event: EventIndex) -> Fields {
        self.event(event).map_or(Fields::empty(), |event| event.fields)
    }

    /// Returns the style in which stacks of an event are printed; `None` if they are not printed.
    pub fn style(&self, event: EventIndex) -> Option<AddressStyle> {
        self.event(event).filter(|event| event.fields.contains(Fields::IP)).map(|event| event.style)
    }

    fn event(&self, event: EventIndex) -> Option<&Event> {
        self.events.get(event.0 as usize)
    }

    /// Appends a sample of `event` in a thread named `comm`. `stack` is needed where [`Printer::style`] is not `None`.
    /// `locate` maps another address of the process, in the kernel or in user space.
    pub fn sample(
        &mut self,
        event: EventIndex,
        sample: &Sample<'_>,
        comm: &Name,
        stack: Option<SampleStack<'_>>,
        locate: &mut dyn FnMut(u64) -> LocatedAddress,
        text: &mut GappedText,
    ) {
        let Some(event) = self.events.get(event.0 as usize) else { return };
        let fields = event.fields;
        if fields.is_empty() {
            return;
        }
        let has = |field| fields.contains(field);
        start(event, sample, comm, self.nanoseconds, &mut text.bytes);
        if has(Fields::PERIOD) {
            let period = sample.period.unwrap_or(event.default_period);
            display(&mut text.bytes, format_args!("{period:10} "));
        }
        if has(Fields::EVENT) {
            text.bytes.extend_from_slice(&event.name);
        }
        if event.form == Form::Branch {
            return single_branch(event, sample, stack, locate, text);
        }
        if has(Fields::TRACE)
            && let (Some(format), Some(raw)) = (&event.format, sample.raw)
        {
            format.print(raw, &mut text.bytes);
        }
        if has(Fields::ADDR) {
            data_address(event, sample, locate, text);
        }
        match stack {
            Some(SampleStack::Chain(chain)) if has(Fields::IP) => {
                text.bytes.push(b'\n');
                text.push_chain(chain);
            }
            Some(SampleStack::Instruction(instruction)) if has(Fields::IP) => {
                text.bytes.push(b' ');
                text.push_gap(SymbolGap::Line(instruction, event.style));
            }
            _ => {}
        }
        branch_stack(fields, sample, locate, text);
        if event.form == Form::BpfOutput
            && has(Fields::BPF_OUTPUT)
            && let Some(raw) = sample.raw
        {
            bpf_output(&mut text.bytes, raw);
        }
        if has(Fields::CGROUP) {
            text.bytes.push(b' ');
            match sample.cgroup.and_then(|id| self.cgroups.get(&id)) {
                Some(path) => display(&mut text.bytes, format_args!("{path}")),
                None => text.bytes.extend_from_slice(b"unknown"),
            }
        }
        text.bytes.push(b'\n');
    }
}

/// Appends `comm  pid/tid [cpu] time: `. Prints −1 for what a sample does not have, as perf does.
fn start(event: &Event, sample: &Sample<'_>, comm: &Name, nanoseconds: bool, out: &mut Vec<u8>) {
    let has = |field| event.fields.contains(field);
    if has(Fields::COMM) {
        if has(Fields::IP) && event.has_chains {
            name(out, comm);
        } else {
            let before = out.len();
            name(out, comm);
            let missing = (before + 16).saturating_sub(out.len());
            out.splice(before..before, core::iter::repeat_n(b' ', missing));
        }
        out.push(b' ');
    }
    let (pid, tid) = sample.thread.map_or((-1, -1), |(pid, tid)| (pid.0, tid.0));
    match (has(Fields::PID), has(Fields::TID)) {
        (true, true) => display(out, format_args!("{pid:5}/{tid:<5} ")),
        (true, false) => display(out, format_args!("{pid:5} ")),
        (false, true) => display(out, format_args!("{tid:5} ")),
        (false, false) => {}
    }
    if has(Fields::CPU) {
        match sample.cpu {
            Some(cpu) => display(out, format_args!("[{:03}] ", cpu.0)),
            None => out.extend_from_slice(b"[-01] "),
        }
    }
    if has(Fields::MISC) {
        misc(out, sample.mode);
    }
    if has(Fields::TIME) {
        let time = sample.time.map_or(u64::MAX, |time| time.0);
        let (seconds, rest) = (time / 1_000_000_000, time % 1_000_000_000);
        match nanoseconds {
            true => display(out, format_args!("{seconds:5}.{rest:09}: ")),
            false => display(out, format_args!("{seconds:5}.{:06}: ", rest / 1000)),
        }
    }
}

/// Appends the letters of the privilege level. perf tests its number as a set of bits, so that the hypervisor's level has
/// three letters.
fn misc(out: &mut Vec<u8>, mode: CpuMode) {
    let letters = match mode {
        CpuMode::Kernel => "K",
        CpuMode::User => "U",
        CpuMode::Hypervisor => "KUH",
        CpuMode::GuestKernel => "G",
        CpuMode::GuestUser => "KGg",
        _ => "",
    };
    display(out, format_args!("{letters:<6}"));
}

fn data_address(
    event: &Event,
    sample: &Sample<'_>,
    locate: &mut dyn FnMut(u64) -> LocatedAddress,
    text: &mut GappedText,
) {
    let address = sample.addr.unwrap_or(0);
    display(&mut text.bytes, format_args!("{address:16x}"));
    if !matches!(event.form, Form::DataAddress | Form::Branch) {
        return;
    }
    let mut located = locate(address);
    if event.form == Form::DataAddress {
        located.entry.kind = AddressKind::Data;
    }
    if event.fields.contains(Fields::SYM) {
        text.bytes.push(b' ');
        text.push_gap(SymbolGap::Symbol(located, event.fields.contains(Fields::SYMOFF)));
    }
    if event.fields.contains(Fields::DSO) {
        text.bytes.extend_from_slice(b" (");
        text.push_gap(SymbolGap::Object(located));
        text.bytes.push(b')');
    }
}

/// Appends the rest of a branch that was sampled by itself: `from => to`.
fn single_branch(
    event: &Event,
    sample: &Sample<'_>,
    stack: Option<SampleStack<'_>>,
    locate: &mut dyn FnMut(u64) -> LocatedAddress,
    text: &mut GappedText,
) {
    if event.fields.contains(Fields::IP) {
        match stack {
            Some(SampleStack::Chain(chain)) => {
                text.bytes.push(b'\n');
                text.push_chain(chain);
            }
            Some(SampleStack::Instruction(instruction)) => {
                text.bytes.push(b' ');
                text.push_gap(SymbolGap::Line(instruction, event.style));
            }
            None => {}
        }
    }
    if sample.addr.is_some() {
        text.bytes.extend_from_slice(b" => ");
        data_address(event, sample, locate, text);
    }
    text.bytes.push(b'\n');
}

fn branch_stack(
    fields: Fields,
    sample: &Sample<'_>,
    locate: &mut dyn FnMut(u64) -> LocatedAddress,
    text: &mut GappedText,
) {
    let ends = [
        (Fields::BRSTACK, Ends::Addresses),
        (Fields::BRSTACKSYM, Ends::Symbols),
        (Fields::BRSTACKOFF, Ends::Offsets),
    ];
    let Some((_, ends)) = ends.into_iter().find(|&(field, _)| fields.contains(field)) else { return };
    for branch in sample.branch_stack.iter().flat_map(|stack| stack.iter()) {
        branches::branch(text, &branch, ends, fields.contains(Fields::DSO), locate);
    }
}

/// Appends the output of a BPF program: eight bytes a line, in hexadecimal and as text; and as a string, if it is one.
fn bpf_output(out: &mut Vec<u8>, raw: &[u8]) {
    out.push(b'\n');
    for (index, line) in raw.chunks(8).enumerate() {
        let head = if index == 0 { "BPF output:" } else { "" };
        display(out, format_args!("{head:>17} {:04x}:", index * 8));
        line.iter().for_each(|byte| display(out, format_args!(" {byte:02x}")));
        display(out, format_args!("{:1$}", "", (8 - line.len()) * 3 + 2));
        out.extend(
            line.iter().map(|&byte| if byte.is_ascii_graphic() || byte == b' ' { byte } else { b'.' }),
        );
        display(out, format_args!("{:1$}\n", "", 8 - line.len()));
    }
    let string = raw.split(|&byte| byte == 0).next().unwrap_or_default();
    let padding = raw.get(string.len()..).unwrap_or_default();
    let is_text = string.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ');
    if is_text && !padding.is_empty() && padding.iter().all(|&byte| byte == 0) {
        display(out, format_args!("{:>17} \"", "BPF string:"));
        out.extend_from_slice(string);
        out.extend_from_slice(b"\"\n");
    }
}
