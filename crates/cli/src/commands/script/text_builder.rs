//! Formats samples as text with gaps, which [`super::text_writer`] fills with symbols.

use analysis::aggregate::SeenIn;
use analysis::explained_filter::ExplainedFilter;
use anyhow::bail;
use decoder::values::U64s;
use decoder::{CpuMode, Record, Sample};
use export::script::{
    AddressStyle, ChainLineId, ChainLineTable, GappedText, LocatedAddress, Printer, SampleStack,
};
use model::{AddressKind, Avma, EventIndex, Pid, Tid};
use profile::SampleFacts;
use tracker::{AddressSpace, ChainItem, SampleSink, TrackedSample, Tracker, chain_items};

use super::line_cache::{LineCache, LineKey};
use super::text_writer::{BatchSender, SampleBatch};

/// Size of a batch of text: some hundred thousand samples, because each batch reads debug information again for its new addresses.
const BATCH_BYTES: usize = 16 << 20;
/// Size of the cached lines at which they are dropped.
const MAX_LINE_BYTES: usize = 64 << 20;

/// Formats the samples that a filter admits, and sends them in batches.
pub(super) struct TextBuilder<'o> {
    /// The events to print; all if empty.
    pub(super) admitted: Vec<EventIndex>,
    /// Maximum number of addresses printed of a call chain.
    pub(super) max_stack: usize,
    printer: Printer,
    admission: ExplainedFilter,
    text: GappedText,
    lines: ChainLineTable,
    reset_lines: bool,
    line_cache: LineCache,
    /// The lines of the current call chain; reused to save allocations.
    chain: Vec<ChainLineId>,
    /// Number of spaces that have been sent.
    spaces: usize,
    /// The processes in which each space was seen.
    seen_in: SeenIn,
    sender: BatchSender<'o>,
    counts: SampleCounts,
}

/// Counts of samples.
#[derive(Clone, Copy, Default)]
pub(super) struct SampleCounts {
    /// All samples of the recording.
    pub(super) all: u64,
    /// Samples that the filter admits.
    pub(super) admitted: u64,
    /// Samples whose event the recording describes only after them.
    pub(super) undescribed: u64,
}

impl<'o> TextBuilder<'o> {
    /// Creates a builder that sends to `sender`.
    pub(super) fn new(printer: Printer, admission: ExplainedFilter, sender: BatchSender<'o>) -> Self {
        Self {
            admitted: Vec::new(),
            max_stack: usize::MAX,
            printer,
            admission,
            text: GappedText::default(),
            lines: ChainLineTable::default(),
            reset_lines: false,
            line_cache: LineCache::default(),
            chain: Vec::new(),
            spaces: 0,
            seen_in: SeenIn::default(),
            sender,
            counts: SampleCounts::default(),
        }
    }

    /// Returns the counts so far.
    pub(super) fn counts(&self) -> SampleCounts {
        self.counts
    }

    /// Sends the current batch.
    ///
    /// # Errors
    /// The writer has failed; it returns the reason itself.
    pub(super) fn flush(&mut self, tracker: &Tracker) -> anyhow::Result<()> {
        let new_spaces = tracker.spaces().iter_from(self.spaces);
        let spaces: Vec<_> = new_spaces.map(|(_, space)| space.clone()).collect();
        self.spaces += spaces.len();
        let batch = SampleBatch {
            text: std::mem::take(&mut self.text),
            lines: self.lines.drain_new(),
            spaces,
            seen_in: self.seen_in.clone(),
            reset_lines: std::mem::take(&mut self.reset_lines),
        };
        if self.sender.send(batch).is_none() {
            bail!("the samples cannot be written");
        }
        if self.lines.memory_bytes() + self.sender.line_bytes() > MAX_LINE_BYTES {
            self.lines.clear();
            self.line_cache.clear();
            self.reset_lines = true;
        }
        Ok(())
    }

    /// Maps the instruction pointer of a sample without a call chain.
    fn instruction(&mut self, tracked: &mut TrackedSample<'_>, pid: Pid) -> LocatedAddress {
        let address = tracked.sample.ip.unwrap_or(0);
        let context = AddressSpace::of_mode(tracked.sample.mode);
        let entry = tracked.tracker.map_address(pid, context, Avma(address), AddressKind::InstructionPointer);
        self.seen_in.see(pid, &[entry]);
        LocatedAddress { address, entry }
    }

    /// Stores the lines of a call chain in `self.chain`.
    fn map(&mut self, tracked: &mut TrackedSample<'_>, pid: Pid, style: AddressStyle) {
        self.chain.clear();
        if let Some(chain) = tracked.sample.callchain {
            self.map_part(tracked, pid, style, chain, tracked.sample.mode);
        }
        if let Some(user) = tracked.deferred {
            self.map_part(tracked, pid, style, user, CpuMode::User);
        }
        self.chain.truncate(self.max_stack);
    }

    fn map_part(
        &mut self,
        tracked: &mut TrackedSample<'_>,
        pid: Pid,
        style: AddressStyle,
        chain: U64s<'_>,
        mode: CpuMode,
    ) {
        let Self { line_cache, lines, seen_in, .. } = self;
        let TrackedSample { tracker, event, .. } = tracked;
        let generation = tracker.generation(pid);
        for item in chain_items(chain.iter(), mode) {
            if let ChainItem::Address { address, kind, context } = item {
                let frame = LineKey { generation, address, event: *event, kind, context };
                self.chain.push(line_cache.get_or_find(frame, || {
                    let entry = tracker.map_address(pid, context, Avma(address), kind);
                    seen_in.see(pid, &[entry]);
                    lines.intern(style, LocatedAddress { address, entry })
                }));
            }
        }
    }

    /// Returns the reason why the filter admitted no sample; `None` if it admitted some, or there are none.
    pub(super) fn why_none(&self) -> Option<String> {
        self.admission.why_none()
    }

    fn admits(
        &mut self,
        sample: &Sample<'_>,
        event: EventIndex,
        comm: &model::Name,
        (container, cgroup): (Option<&model::Name>, Option<&model::Name>),
    ) -> bool {
        let (pid, tid) = thread(sample);
        let facts =
            SampleFacts { comm, pid, tid, cpu: sample.cpu, event, time: sample.time, container, cgroup };
        (self.admitted.is_empty() || self.admitted.contains(&event)) && self.admission.admits(&facts)
    }
}

impl SampleSink for TextBuilder<'_> {
    type Error = anyhow::Error;

    fn sample(&mut self, mut tracked: TrackedSample<'_>) -> anyhow::Result<()> {
        let (event, sample) = (tracked.event, tracked.sample);
        let (pid, tid) = thread(sample);
        let comm = tracked.tracker.comm(pid, tid).clone();
        let container = tracked.tracker.container(pid, sample.cgroup).cloned();
        let cgroup = sample.cgroup.and_then(|id| tracked.tracker.cgroup(id)).cloned();
        self.counts.all += 1;
        if !self.admits(sample, event, &comm, (container.as_ref(), cgroup.as_ref())) {
            return Ok(());
        }
        self.counts.admitted += 1;
        if event.0 as usize >= self.printer.event_count() {
            self.counts.undescribed += 1;
            return Ok(());
        }
        let stack = match self.printer.style(event) {
            Some(style) if sample.callchain.is_some() => {
                self.map(&mut tracked, pid, style);
                Some(SampleStack::Chain(&self.chain))
            }
            Some(_) => Some(SampleStack::Instruction(self.instruction(&mut tracked, pid))),
            None => None,
        };
        let (tracker, seen_in) = (&mut *tracked.tracker, &mut self.seen_in);
        let mut place = |address| {
            let entry = tracker.map_address(pid, None, Avma(address), AddressKind::InstructionPointer);
            seen_in.see(pid, &[entry]);
            LocatedAddress { address, entry }
        };
        self.printer.sample(event, sample, &comm, stack, &mut place, &mut self.text);
        if self.text.memory_bytes() > BATCH_BYTES {
            self.flush(tracked.tracker)?;
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
