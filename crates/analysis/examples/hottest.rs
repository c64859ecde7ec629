//! Prints the ten functions of a perf.data file in which most samples were taken:
//! `cargo run --example hottest -- perf.data`

use std::collections::HashMap;
use std::io::Write;

use host::objects::SearchPaths;
use prof_analysis::input::{Input, is_of_this_host};
use prof_analysis::notices::Silent;
use prof_analysis::symbols::SymbolSettings;
use prof_analysis::{Analysis, Request};
use profile::{Detail, SampleFilter, Show, Weight};
use symbolizer::Options;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("which file? try: hottest perf.data")?;
    let input = Input::open(path.as_ref())?;
    let this_host = is_of_this_host(input.reader.features());
    let paths = SearchPaths::from_environment(None, Vec::new(), this_host);
    let request = Request {
        filter: SampleFilter::default(),
        detail: Detail::default(),
        symbols: &SymbolSettings { paths, options: Options::default() },
        kernel: true,
        debuginfod: false,
        event: None,
        several_events: false,
    };
    let analysis = Analysis::read(input, &request, &Silent)?;
    let Some(event) = analysis.events.first() else { return Ok(()) };
    let view = analysis.view(&event.profile, Show::default(), Weight::Samples);
    let mut functions: HashMap<String, u64> = HashMap::new();
    view.tree(0.0).rows(|frames, samples, _| {
        let innermost = frames.last().map(|frame| &view.frames().frames()[frame.index()].label);
        *functions.entry(format!("{innermost:?}")).or_default() += samples;
    });
    let mut functions: Vec<_> = functions.into_iter().collect();
    functions.sort_by_key(|(name, samples)| (std::cmp::Reverse(*samples), name.clone()));
    for (name, samples) in functions.iter().take(10) {
        writeln!(std::io::stdout(), "{samples:8} {name}")?;
    }
    Ok(())
}
