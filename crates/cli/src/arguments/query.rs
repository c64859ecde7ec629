//! Arguments of all commands that read a recording.

use analysis::input::{Input, is_of_this_host};
use analysis::symbols::SymbolSettings;
use analysis::{Measure, Request};
use clap::{Args, Command};
use profile::SampleFilter;

use super::{DebuginfodArguments, SampleArguments, StackArguments, SymbolArguments};

/// Arguments that select samples and frames, and say where names come from.
#[derive(Args, Default)]
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
    /// Returns the page of `prof help filters`.
    pub fn page() -> Command {
        let page = Command::new("prof")
            .override_usage("prof flame|view|report|explain|diff|annotate|export|script [FILTERS] …");
        let about = "What selects samples and functions, in every command that reads a recording";
        Self::augment_args(page.disable_help_flag(true)).about(about).long_about(None)
    }

    /// Returns the symbol settings for this recording, with source lines if `locations` is set.
    pub fn settings(&self, input: &Input, locations: bool) -> SymbolSettings {
        let this_host = is_of_this_host(input.reader.features());
        let mut settings = self.symbols.settings(self.stacks.inlines(), this_host);
        settings.options.locations = locations;
        settings
    }

    /// Returns the request for the analysis, without details.
    pub fn request<'r>(&'r self, settings: &'r SymbolSettings) -> Request<'r> {
        Request {
            filter: SampleFilter { parallelism: self.stacks.parallelism(), ..self.samples.filter() },
            measure: self.stacks.time().map_or(Measure::Samples, Measure::Time),
            wakers: self.stacks.wakers(),
            kernel: self.stacks.kernel(),
            unmapped_addresses: false,
            servers: self.debuginfod.servers(),
            event: self.samples.event.as_deref(),
            ..Request::all(settings)
        }
    }

    /// Describes the filters; empty without any.
    pub fn description(&self) -> String {
        let words = [self.samples.description(), self.stacks.description()];
        words.into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join(", ")
    }
}
