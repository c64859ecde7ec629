//! A sweep over any program's code, held against the other symbolizers: `cargo xtask sweep`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use elf::{Object, SymbolSource};
use host::objects::HostObject;
use prof_symbolizer::{NameStyle, Options};

use super::{oracle, resolve};

/// What a sweep found.
#[derive(Default)]
pub(super) struct Found {
    /// Addresses at which the oracles agree.
    agreed: usize,
    /// We say the same.
    same: usize,
    /// We name the function by another of its symbols, and else say the same.
    alias: usize,
    wrong: Vec<String>,
}

/// Asks for every `step`th byte of the executable sections of `object`. The oracles look at `reference`: the same code
/// with debug information, where `object` has it elsewhere.
pub(super) fn sweep(object: &Path, reference: &Path, debug_dirs: Vec<PathBuf>, step: usize) -> Found {
    let parsed = Object::parse(std::fs::read(object).unwrap()).unwrap();
    let code = parsed.sections().iter().filter(|section| section.is_executable());
    let addresses: Vec<u64> = code
        .flat_map(|section| (section.address.0..section.address.0 + section.size).step_by(step))
        .collect();
    let options = Options { names: NameStyle::Linkage, inlines: true, locations: true, ..Options::default() };
    let aliases = Aliases::of(object, reference, &debug_dirs);
    let ours = resolve::resolve(object, debug_dirs, options, &addresses);
    let agreed = oracle::agreed(reference, &addresses);
    let mut found = Found::default();
    for ((address, expected), ours) in addresses.iter().zip(agreed).zip(&ours) {
        let Some(expected) = expected else { continue };
        found.agreed += 1;
        let ours = oracle::told(ours);
        if ours == expected || as_go_tells(&ours) == as_go_tells(&expected) {
            found.same += 1;
        } else if aliases.same_but_for_the_function(&ours, &expected) {
            found.alias += 1;
        } else {
            found.wrong.push(format!("{address:#x} is {ours:?}, expected {expected:?}"));
        }
    }
    found
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { agreed, same, alias, wrong } = self;
        let right = (same + alias) as f64 / (*agreed).max(1) as f64 * 100.0;
        writeln!(
            f,
            "{agreed} addresses agreed on: {same} the same, {alias} by another name of the function, {} not: {right:.3} %",
            wrong.len()
        )?;
        wrong.iter().take(20).try_for_each(|line| writeln!(f, "  {line}"))
    }
}

impl Found {
    pub(super) fn is_right(&self) -> bool {
        self.agreed > 0 && self.wrong.len() * 1000 <= self.agreed
    }
}

/// A Go program's own table has `[...]` for what stands in brackets.
fn as_go_tells(frames: &[oracle::Told]) -> Vec<oracle::Told> {
    let name = |name: &str| match (name.find('['), name.rfind(']')) {
        (Some(open), Some(close)) if open < close => format!("{}[...]{}", &name[..open], &name[close + 1..]),
        _ => name.to_owned(),
    };
    frames.iter().map(|(function, file, line)| (name(function), file.clone(), *line)).collect()
}

/// The objects that have symbols of `path`: itself and its debug file.
fn with_symbols(path: &Path, debug_dirs: Vec<PathBuf>) -> Vec<Arc<HostObject>> {
    let store = resolve::store(debug_dirs);
    let object = resolve::open(&store, path);
    let debug = store.debug_files(&object, path).debug;
    std::iter::once(object).chain(debug).collect()
}

/// Where each symbol's code starts: several names of one place are one function.
struct Aliases(HashMap<String, Vec<u64>>);

impl Aliases {
    fn of(object: &Path, reference: &Path, debug_dirs: &[PathBuf]) -> Self {
        let mut places: HashMap<String, Vec<u64>> = HashMap::new();
        for file in [object, reference].into_iter().flat_map(|path| with_symbols(path, debug_dirs.to_vec())) {
            for source in [SymbolSource::Full, SymbolSource::Dynamic] {
                for symbol in file.symbols(source).filter(|symbol| !symbol.is_undefined()) {
                    let name = oracle::plain(&String::from_utf8_lossy(symbol.name())).to_owned();
                    places.entry(name).or_default().push(symbol.address.0);
                }
            }
        }
        Self(places)
    }

    fn same_but_for_the_function(&self, ours: &[oracle::Told], expected: &[oracle::Told]) -> bool {
        let (Some((our, inlined)), Some((their, expected))) = (ours.split_last(), expected.split_last())
        else {
            return false;
        };
        let places = |name: &str| self.0.get(name).map(Vec::as_slice).unwrap_or_default();
        let meet = places(&our.0).iter().any(|place| places(&their.0).contains(place));
        inlined == expected && (&our.1, our.2) == (&their.1, their.2) && meet
    }
}
