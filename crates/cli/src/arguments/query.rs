//! What every reader of a recording may be asked.

use analysis::input::{Input, is_of_this_host};
use analysis::symbols::SymbolSettings;
use analysis::{Measure, Request};
use clap::Args;

use super::{DebuginfodArguments, SampleArguments, StackArguments, SymbolArguments};

/// Which samples, which frames, and where their names come from.
#[derive(Args)]
pub struct QueryArguments {
    #[command(flatten)]
    pub samples: SampleArguments,
    #[command(flatten)]
    pub stacks: StackArguments,
    #[command(flatten)]
    pub symbols: SymbolArguments,
    #[command(flatten)]
    pub debuginfod: DebuginfodArguments,
}

impl QueryArguments {
    /// Returns the settings for names of this recording, with or without source lines.
    pub fn settings(&self, input: &Input, locations: bool) -> SymbolSettings {
        let this_host = is_of_this_host(input.reader.features());
        let mut settings = self.symbols.settings(self.stacks.inlines(), this_host);
        settings.options.locations = locations;
        settings
    }

    /// The query that these arguments ask for, without detail.
    pub fn request<'r>(&'r self, settings: &'r SymbolSettings) -> Request<'r> {
        Request {
            filter: self.samples.filter(),
            measure: self.stacks.time().map_or(Measure::Samples, Measure::Time),
            wakers: self.stacks.wakers(),
            kernel: self.stacks.kernel(),
            servers: self.debuginfod.servers(),
            event: self.samples.event.as_deref(),
            ..Request::all(settings)
        }
    }

    /// The filters in words; empty for none.
    pub fn in_words(&self) -> String {
        let words = [self.samples.description(), self.stacks.description()];
        words.into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join(", ")
    }
}
