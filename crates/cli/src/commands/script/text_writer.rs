//! Fills the gaps in formatted samples with symbols and writes the text, on a thread of its own, while the next samples are read.

use std::collections::HashSet;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Scope, ScopedJoinHandle};

use analysis::aggregate::SeenIn;
use analysis::symbols::{Symbolizing, Symbols};
use anyhow::Context;
use crossbeam_channel::{Sender, bounded};
use export::script::{ChainLine, ChainLineTexts, GappedText, SymbolLookup};
use model::{Name, Resolution, Space, SpaceId, SpaceTable, StackEntry};
use perfdata::features::Features;

/// Maximum number of symbolized addresses kept between batches.
const MAX_RESOLUTIONS: usize = 1 << 20;

/// A batch of formatted samples, and the lines and spaces that are new in it.
pub(super) struct SampleBatch {
    /// The formatted samples.
    pub(super) text: GappedText,
    /// Lines of call chains that no earlier batch contains.
    pub(super) lines: Vec<ChainLine>,
    /// Spaces that no earlier batch contains.
    pub(super) spaces: Vec<Space>,
    /// The processes in which each space was seen.
    pub(super) seen_in: SeenIn,
    /// True if the writer must drop all lines, because their numbers start at 0 again.
    pub(super) reset_lines: bool,
}

/// Sends batches to the writer, which ends when this is dropped.
pub(super) struct BatchSender<'a> {
    batches: Sender<SampleBatch>,
    line_bytes: &'a AtomicUsize,
}

impl BatchSender<'_> {
    /// Sends a batch; blocks while the writer works on the previous one. Returns `None` if the writer has failed, which returns the
    /// error itself.
    pub(super) fn send(&self, batch: SampleBatch) -> Option<()> {
        self.batches.send(batch).ok()
    }

    /// Returns the size of the cached texts of lines, in bytes.
    pub(super) fn line_bytes(&self) -> usize {
        self.line_bytes.load(Ordering::Relaxed)
    }
}

/// Symbolizes and writes batches in their order.
pub(super) struct TextWriter<'o> {
    symbolizing: Symbolizing,
    output: &'o mut (dyn Write + Send),
    symbols: Symbols,
    spaces: SpaceTable,
    /// Paths of kernel modules in the build id list of the recording.
    listed_modules: HashSet<Name>,
    lines: ChainLineTexts,
}

impl<'o> TextWriter<'o> {
    /// Creates a writer.
    pub(super) fn new(
        symbolizing: Symbolizing,
        features: &Features,
        output: &'o mut (dyn Write + Send),
    ) -> Self {
        let (symbols, spaces, lines) = Default::default();
        let listed_modules = features.build_ids.iter().map(|entry| entry.path.clone()).collect();
        Self { symbolizing, output, symbols, spaces, listed_modules, lines }
    }

    /// Starts the thread. The thread returns remarks on files that were found but not used.
    ///
    /// # Errors
    /// The thread cannot be started. The thread itself returns errors of the output.
    pub(super) fn start<'scope>(
        mut self,
        line_bytes: &'scope AtomicUsize,
        scope: &'scope Scope<'scope, '_>,
    ) -> anyhow::Result<(BatchSender<'scope>, ScopedJoinHandle<'scope, anyhow::Result<Vec<String>>>)>
    where
        'o: 'scope,
    {
        // With capacity 0, a batch is accepted when the previous one is written, so there are at most two.
        let (sender, batches) = bounded::<SampleBatch>(0);
        let work = move || {
            for batch in batches {
                self.finish(batch)?;
                line_bytes.store(self.lines.memory_bytes(), Ordering::Relaxed);
            }
            Ok(self.symbols.remarks())
        };
        let thread = std::thread::Builder::new()
            .name("prof-writer".to_owned())
            .spawn_scoped(scope, work)
            .context("cannot start a thread to write with")?;
        Ok((BatchSender { batches: sender, line_bytes }, thread))
    }

    /// Symbolizes the new addresses of a batch and writes its text.
    fn finish(&mut self, mut batch: SampleBatch) -> anyhow::Result<()> {
        for space in batch.spaces {
            self.spaces.intern(space);
        }
        if batch.reset_lines {
            self.lines.clear();
        }
        if self.symbols.resolutions.len() > MAX_RESOLUTIONS {
            self.symbols.resolutions = symbolizer::Resolutions::default();
        }
        let of_lines = batch.lines.iter().map(|line| line.address.entry);
        let mut new: Vec<StackEntry> =
            of_lines.chain(batch.text.addresses().map(|address| address.entry)).collect();
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

/// The symbols and spaces for the text.
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
