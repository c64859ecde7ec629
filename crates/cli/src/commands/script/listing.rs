//! Samples as they come, to text as soon as their symbols are known.

use std::io::Write;

use anyhow::Context;
use decoder::values::U64s;
use decoder::{CpuMode, Record, Sample};
use export::script::{LineId, Lines, Place, Printer, Stack, Style, Symbols as Known, Text};
use model::{AddressKind, Avma, EventIndex, Pid, Resolution, Space, SpaceId, SpaceTable, StackEntry, Tid};
use profile::{SampleFacts, SampleFilter};
use tracker::{AddressSpace, ChainItem, Tracker, chain_items};

use crate::pipeline::aggregate::SeenIn;
use crate::pipeline::replay::{Moment, Sink};
use crate::pipeline::symbols::{Symbolizing, Symbols};

use super::frames::{Frame, Frames};

/// So much waits for its symbols: some hundred thousand samples, since symbol tables are read anew for each lot of new
/// places.
const MOST_TEXT: usize = 32 << 20;
/// Lines and names in memory are forgotten at this size.
const MOST_LINES: usize = 64 << 20;
const MOST_PLACES: usize = 1 << 20;

/// Prints the samples that a filter admits.
pub(super) struct Listing<'o> {
    /// Only these events; all, if empty.
    pub(super) admitted: Vec<EventIndex>,
    /// Addresses printed of a call chain.
    pub(super) max_stack: usize,
    printer: Printer,
    filter: SampleFilter,
    text: Text,
    lines: Lines,
    frames: Frames,
    /// The chain at hand; kept for its memory.
    chain: Vec<LineId>,
    symbolizing: Symbolizing,
    symbols: Symbols,
    /// Places of the text that are not call chains.
    seen_in: SeenIn,
    output: &'o mut dyn Write,
    undescribed: u64,
}

impl<'o> Listing<'o> {
    /// Has printed nothing yet.
    pub(super) fn new(
        printer: Printer,
        filter: SampleFilter,
        symbolizing: Symbolizing,
        output: &'o mut dyn Write,
    ) -> Self {
        Self {
            admitted: Vec::new(),
            max_stack: usize::MAX,
            printer,
            filter,
            text: Text::default(),
            lines: Lines::default(),
            frames: Frames::default(),
            chain: Vec::new(),
            symbolizing,
            symbols: Symbols::default(),
            seen_in: SeenIn::default(),
            output,
            undescribed: 0,
        }
    }

    /// Samples whose events the recording described too late.
    pub(super) fn undescribed(&self) -> u64 {
        self.undescribed
    }

    /// Files that were found and not used, one sentence each.
    pub(super) fn notes(&mut self) -> &[String] {
        self.symbols.notes.sort();
        self.symbols.notes.dedup();
        &self.symbols.notes
    }

    /// Looks up what is new, and writes the text.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub(super) fn flush(&mut self, tracker: &Tracker) -> anyhow::Result<()> {
        let spaces = tracker.spaces();
        let known = &self.symbols.resolutions;
        let places = self.text.places().chain(self.lines.fresh_places());
        let new: Vec<StackEntry> =
            places.map(|place| place.entry).filter(|entry| known.get(entry).is_none()).collect();
        self.symbolizing.resolve(new, spaces, |space| self.seen_in.pids(space), &mut self.symbols);
        let names = Names { symbols: &self.symbols, spaces };
        self.text.fill(&mut self.lines, &names, self.output).context("cannot write the samples")?;
        if self.lines.bytes() > MOST_LINES {
            self.lines.clear();
            self.frames.clear();
        }
        if self.symbols.resolutions.len() > MOST_PLACES {
            self.symbols.resolutions = symbolizer::Resolutions::default();
        }
        Ok(())
    }

    /// The instruction of a sample without a call chain.
    fn instruction(&mut self, moment: &mut Moment<'_>, pid: Pid) -> Place {
        let address = moment.sample.ip.unwrap_or(0);
        let context = AddressSpace::of_mode(moment.sample.mode);
        let entry = moment.tracker.map_address(pid, context, Avma(address), AddressKind::InstructionPointer);
        self.seen_in.see(pid, &[entry]);
        Place { address, entry }
    }

    /// Puts the lines of a call chain into `self.chain`.
    fn map(&mut self, moment: &mut Moment<'_>, pid: Pid, style: Style) {
        self.chain.clear();
        if let Some(chain) = moment.sample.callchain {
            self.map_part(moment, pid, style, chain, moment.sample.mode);
        }
        if let Some(user) = moment.deferred {
            self.map_part(moment, pid, style, user, CpuMode::User);
        }
        self.chain.truncate(self.max_stack);
    }

    fn map_part(&mut self, moment: &mut Moment<'_>, pid: Pid, style: Style, chain: U64s<'_>, mode: CpuMode) {
        let Self { frames, lines, seen_in, .. } = self;
        let Moment { tracker, event, .. } = moment;
        let generation = tracker.generation(pid);
        for item in chain_items(chain.iter(), mode) {
            if let ChainItem::Address { address, kind, context } = item {
                let frame = Frame { generation, address, event: *event, kind, context };
                self.chain.push(frames.get_or_find(frame, || {
                    let entry = tracker.map_address(pid, context, Avma(address), kind);
                    seen_in.see(pid, &[entry]);
                    lines.add(style, Place { address, entry })
                }));
            }
        }
    }

    fn admits(&self, sample: &Sample<'_>, event: EventIndex, comm: &model::Name) -> bool {
        let (pid, tid) = thread(sample);
        let facts = SampleFacts { comm, pid, tid, cpu: sample.cpu, event, time: sample.time };
        (self.admitted.is_empty() || self.admitted.contains(&event)) && self.filter.admits(&facts)
    }
}

impl Sink for Listing<'_> {
    fn sample(&mut self, mut moment: Moment<'_>) -> anyhow::Result<()> {
        let (event, sample) = (moment.event, moment.sample);
        let (pid, tid) = thread(sample);
        let comm = moment.tracker.comm(pid, tid).clone();
        if !self.admits(sample, event, &comm) {
            return Ok(());
        }
        if event.0 as usize >= self.printer.events() {
            self.undescribed = self.undescribed.saturating_add(1);
            return Ok(());
        }
        let stack = match self.printer.style(event) {
            Some(style) if sample.callchain.is_some() => {
                self.map(&mut moment, pid, style);
                Some(Stack::Chain(&self.chain))
            }
            Some(_) => Some(Stack::Instruction(self.instruction(&mut moment, pid))),
            None => None,
        };
        let (tracker, seen_in) = (&mut *moment.tracker, &mut self.seen_in);
        let mut place = |address| {
            let entry = tracker.map_address(pid, None, Avma(address), AddressKind::InstructionPointer);
            seen_in.see(pid, &[entry]);
            Place { address, entry }
        };
        self.printer.sample(event, sample, &comm, stack, &mut place, &mut self.text);
        if self.text.size() > MOST_TEXT {
            self.flush(moment.tracker)?;
        }
        Ok(())
    }

    fn record(&mut self, record: &Record<'_>) {
        if let Record::Cgroup(cgroup) = record {
            self.printer.add_cgroup(cgroup);
        }
    }
}

fn thread(sample: &Sample<'_>) -> (Pid, Tid) {
    sample.thread.unwrap_or((Pid::NONE, Tid(-1)))
}

/// What the text asks about places.
struct Names<'a> {
    symbols: &'a Symbols,
    spaces: &'a SpaceTable,
}

impl Known for Names<'_> {
    fn resolution(&self, entry: &StackEntry) -> Option<&Resolution> {
        self.symbols.resolutions.get(entry)
    }

    fn space(&self, id: SpaceId) -> &Space {
        self.spaces.get(id)
    }
}
