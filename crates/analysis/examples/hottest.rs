//! Prints the ten functions of a perf.data file in which most samples were taken:
//! `cargo run --example hottest -- perf.data`

use std::io::Write;

use export::{frame_name, printable};
use host::objects::SearchPaths;
use prof_analysis::input::{Input, is_of_this_host};
use prof_analysis::notices::Silent;
use prof_analysis::symbols::SymbolSettings;
use prof_analysis::{Analysis, Request};
use profile::queries::{ByLabel, CallTree, FunctionTable};
use profile::{Shape, Show, Weight};
use symbolizer::Options;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("which file? try: hottest perf.data")?;
    let input = Input::open(path.as_ref())?;
    let this_host = is_of_this_host(input.reader.features());
    let paths = SearchPaths::from_environment(None, Vec::new(), this_host);
    let symbols = SymbolSettings { paths, options: Options::default(), reads_sources: false };
    let request = Request { several_events: false, ..Request::all(&symbols) };
    let analysis = Analysis::read(input, &request, &Silent)?;
    let Some(event) = analysis.events.first() else { return Ok(()) };
    let view = analysis.view(&event.profile, Show::default(), Weight::Samples, &Shape::default());
    let tree = CallTree::of(&[&view]);
    let table = FunctionTable::new(&tree, &mut ByLabel::new(tree.frames()));
    let mut functions: Vec<_> = table.rows().map(|(_, key, weights)| (weights[0].self_weight, key)).collect();
    functions.sort_unstable_by(|one, other| other.cmp(one));
    for (samples, key) in functions.into_iter().take(10) {
        let name = tree.frames().get(key as usize).map_or("[no stack]".to_owned(), frame_name);
        writeln!(std::io::stdout(), "{samples:8} {}", printable(&name))?;
    }
    Ok(())
}
