//! From text with gaps to text, on a thread of its own: while names are looked up and text is written, the next samples
//! are read.

use std::collections::HashSet;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Scope, ScopedJoinHandle};

use analysis::aggregate::SeenIn;
use analysis::symbols::{Symbolizing, Symbols};
use anyhow::Context;
use crossbeam_channel::{Receiver, Sender, bounded};
use export::script::{ChainLine, ChainLineTexts, GappedText, SymbolLookup};
use model::{Name, Resolution, Space, SpaceId, SpaceTable, StackEntry};
use perfdata::features::Features;

/// So many places stay known between batches.
const MAX_RESOLUTIONS: usize = 1 << 20;

/// Samples that have been read, and what is new in them.
pub(super) struct SampleBatch {
    /// The samples.
    pub(super) text: GappedText,
    /// Lines of call chains that were in no batch before.
    pub(super) lines: Vec<ChainLine>,
    /// Spaces that were in no batch before.
    pub(super) spaces: Vec<Space>,
    /// The processes of all spaces.
    pub(super) seen_in: SeenIn,
    /// True if the numbers of lines start anew.
    pub(super) reset_lines: bool,
}

/// Takes batches, until it is dropped or fails.
pub(super) struct BatchSender<'a> {
    batches: Sender<SampleBatch>,
    emptied: Receiver<GappedText>,
    line_bytes: &'a AtomicUsize,
}

impl BatchSender<'_> {
    /// Hands a batch over; waits where the one before is still at work. `None` where it failed: it says why itself.
    pub(super) fn send(&self, batch: SampleBatch) -> Option<()> {
        self.batches.send(batch).ok()
    }

    /// Memory for the next text.
    pub(super) fn empty_text(&self) -> GappedText {
        self.emptied.try_recv().unwrap_or_default()
    }

    /// The memory that texts of lines take.
    pub(super) fn line_bytes(&self) -> usize {
        self.line_bytes.load(Ordering::Relaxed)
    }
}

/// Finishes batches in their order.
pub(super) struct TextWriter<'o> {
    symbolizing: Symbolizing,
    output: &'o mut (dyn Write + Send),
    symbols: Symbols,
    spaces: SpaceTable,
    /// Paths of kernel modules in the recording's list of build ids.
    listed_modules: HashSet<Name>,
    lines: ChainLineTexts,
}

impl<'o> TextWriter<'o> {
    /// Has written nothing yet.
    pub(super) fn new(
        symbolizing: Symbolizing,
        features: &Features,
        output: &'o mut (dyn Write + Send),
    ) -> Self {
        let (symbols, spaces, lines) = Default::default();
        let listed_modules = features.build_ids.iter().map(|entry| entry.path.clone()).collect();
        Self { symbolizing, output, symbols, spaces, listed_modules, lines }
    }

    /// Starts the thread. It returns what a user should be told of files that were found and not used.
    ///
    /// # Errors
    /// Where there can be no thread; the thread's own are those of the output.
    pub(super) fn start<'scope>(
        mut self,
        line_bytes: &'scope AtomicUsize,
        scope: &'scope Scope<'scope, '_>,
    ) -> anyhow::Result<(BatchSender<'scope>, ScopedJoinHandle<'scope, anyhow::Result<Vec<String>>>)>
    where
        'o: 'scope,
    {
        // A batch is handed over when the one before is done: there are never more than two.
        let (sender, batches) = bounded::<SampleBatch>(0);
        let (recycled, emptied) = bounded(1);
        let work = move || {
            for mut batch in batches {
                self.finish(&mut batch)?;
                line_bytes.store(self.lines.bytes(), Ordering::Relaxed);
                // Where nobody wants it any more, it is dropped.
                let _ = recycled.try_send(batch.text);
            }
            Ok(self.symbols.remarks())
        };
        let thread = std::thread::Builder::new()
            .name("prof-writer".to_owned())
            .spawn_scoped(scope, work)
            .context("cannot start a thread to write with")?;
        Ok((BatchSender { batches: sender, emptied, line_bytes }, thread))
    }

    /// Looks up what is new, and writes the text.
    fn finish(&mut self, batch: &mut SampleBatch) -> anyhow::Result<()> {
        for space in batch.spaces.drain(..) {
            self.spaces.intern(space);
        }
        if batch.reset_lines {
            self.lines.clear();
        }
        if self.symbols.resolutions.len() > MAX_RESOLUTIONS {
            self.symbols.resolutions = symbolizer::Resolutions::default();
        }
        let places = batch.text.places().chain(batch.lines.iter().map(|line| &line.place));
        let mut new: Vec<StackEntry> = places.map(|place| place.entry).collect();
        // Many processes run the same code.
        new.sort_unstable();
        new.dedup();
        new.retain(|entry| self.symbols.resolutions.get(entry).is_none());
        let seen_in = &batch.seen_in;
        self.symbolizing.resolve(new, &self.spaces, |space| seen_in.pids(space), &mut self.symbols);
        let names = Names { symbols: &self.symbols, spaces: &self.spaces, modules: &self.listed_modules };
        self.lines.format(&batch.lines, &names);
        Ok(batch.text.fill(&self.lines, &names, self.output)?)
    }
}

/// The names and spaces that the text asks for.
struct Names<'a> {
    symbols: &'a Symbols,
    spaces: &'a SpaceTable,
    modules: &'a HashSet<Name>,
}

impl SymbolLookup for Names<'_> {
    fn resolution(&self, entry: &StackEntry) -> Option<&Resolution> {
        self.symbols.resolutions.get(entry)
    }

    fn space(&self, id: SpaceId) -> &Space {
        self.spaces.get(id)
    }

    fn lists_module(&self, path: &Name) -> bool {
        self.modules.contains(path)
    }
}
