//! The functions in the user's own programs that are not the user's: those of cargo's packages and of Rust's own libraries, which are compiled
//! into the programs. Their sources lie in other folders.

use std::collections::{HashMap, HashSet};

use model::{Frame, Name, Resolution, SpaceId, StackEntry};
use rustc_hash::FxBuildHasher;

use crate::Analysis;
use crate::annotate::Annotator;
use crate::user_modules::UserModules;

/// The folder that cargo unpacks packages of a registry to, wherever its home is; behind it come the registry and the package.
const REGISTRY: &str = "/registry/src/";
/// The same for packages of repositories: behind it come the repository with a number, and the revision.
const CHECKOUTS: &str = "/git/checkouts/";
/// Folders of Rust's own libraries, as their debug information states them: as they were built, and where rustup has their sources.
const OF_RUST: [&str; 2] = ["/rustc/", "/.rustup/"];

/// Rust's own libraries, which names alone tell.
const LIBRARIES: [&str; 3] = ["core", "alloc", "std"];

/// Maximum number of crates, and functions whose names have none, whose sources are looked up: the hottest. Each takes 0.2 ms without
/// optimization, and a page with 1,200 functions took half as long again where all were.
const MAX_LOOKUPS: usize = 250;

/// The package that each function is of, by the module and the name.
pub type Packages = HashMap<(String, String), String>;

/// Functions of one crate; or those of one name, where that has no crate, as names of inlined functions.
#[derive(Default)]
struct Group<'a> {
    functions: HashSet<&'a str>,
    samples: u64,
    /// Where the first of the functions was seen.
    place: Option<(&'a str, StackEntry)>,
}

/// Finds the functions whose sources lie among packages or in Rust's own libraries, as far as debug information states that.
pub fn packages(analysis: &Analysis, own: &UserModules, annotator: &Annotator<'_>) -> Packages {
    let profiles = || analysis.events.iter().chain(&analysis.thread_time).map(|event| &event.profile);
    let frames_at = |entry: &StackEntry| frames(analysis.symbols.resolutions.get(entry));
    // `std` is a namespace of C++, too.
    let is_rust = |frame: &Frame| matches!(crate_of(&frame.function), Some("core" | "alloc"));
    let module = |(id, space)| Some((id, profile::module_of(space)?.to_string()));
    let mut modules: HashMap<SpaceId, String, FxBuildHasher> =
        analysis.spaces.iter().filter_map(module).filter(|(_, module)| own.contains(module)).collect();
    let mut of_rust: HashSet<SpaceId, FxBuildHasher> = HashSet::default();
    for entry in profiles().flat_map(|profile| profile.stacks.places()) {
        if modules.contains_key(&entry.space)
            && !of_rust.contains(&entry.space)
            && frames_at(entry).iter().any(is_rust)
        {
            of_rust.insert(entry.space);
        }
    }
    modules.retain(|space, _| of_rust.contains(space));
    if modules.is_empty() {
        return Packages::default();
    }
    let mut groups: HashMap<(SpaceId, &str), Group<'_>> = HashMap::new();
    for (_, entry, samples) in profiles().flat_map(|profile| profile.places()) {
        if !modules.contains_key(&entry.space) {
            continue;
        }
        for Frame { function, .. } in frames_at(entry) {
            let key = crate_of(function).unwrap_or(function);
            if !LIBRARIES.contains(&key) {
                let group = groups.entry((entry.space, key)).or_default();
                group.functions.insert(function);
                group.samples = group.samples.saturating_add(samples);
                group.place.get_or_insert((function, *entry));
            }
        }
    }
    let mut hottest: Vec<_> = groups.into_iter().collect();
    hottest.sort_unstable_by_key(|(key, group)| (std::cmp::Reverse(group.samples), *key));
    hottest.truncate(MAX_LOOKUPS);
    let lines = annotator.resolve(hottest.iter().filter_map(|(_, group)| Some(group.place?.1)));
    let mut packages = Packages::default();
    for ((space, _), group) in hottest {
        let (Some(module), Some((name, place))) = (modules.get(&space), group.place) else { continue };
        let frame = frames(lines.resolutions.get(&place)).iter().find(|frame| *frame.function == *name);
        let file = frame.and_then(|frame| frame.location.as_ref()).map(|location| &*location.file);
        let Some(package) = file.and_then(package_of) else { continue };
        let names = group.functions.into_iter().map(|name| Name::from(name).to_string());
        packages.extend(names.map(|name| ((module.clone(), name), package.clone())));
    }
    packages
}

/// Returns the crate that the name of a function of Rust begins with: that of the type, where it is a method of one.
fn crate_of(function: &str) -> Option<&str> {
    let mut rest = function.trim_start_matches(['<', '&', '*', '[', '(']);
    for word in ["mut ", "const ", "dyn "] {
        rest = rest.strip_prefix(word).unwrap_or(rest);
    }
    let (name, _) = rest.split_once("::")?;
    let is_identifier = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (is_identifier && !name.is_empty()).then_some(name)
}

fn frames(resolution: Option<&Resolution>) -> &[Frame] {
    match resolution {
        Some(Resolution::Resolved(symbolized)) => &symbolized.frames,
        _ => &[],
    }
}

/// Returns what a source file is of, in words; `None` for the user's own.
fn package_of(file: &str) -> Option<String> {
    let folder = |behind: &str, skipped: usize| {
        let (_, path) = file.split_once(behind)?;
        // `serde_json-1.0.140`, `serde-7b1f3a`.
        let (package, _) = path.split('/').nth(skipped)?.rsplit_once('-')?;
        Some(format!("crate {}", Name::from(package)))
    };
    if let Some(package) = folder(REGISTRY, 1).or_else(|| folder(CHECKOUTS, 0)) {
        return Some(package);
    }
    OF_RUST.iter().any(|folder| file.contains(folder)).then(|| "the language's own library".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_of_the_crate_of_its_type() {
        for (function, expected) in [
            ("serde_json::ser::to_string", Some("serde_json")),
            (
                "<&mut serde_json::ser::Serializer<W> as serde::ser::Serializer>::serialize_str",
                Some("serde_json"),
            ),
            ("<[my_app::Row] as core::fmt::Debug>::fmt", Some("my_app")),
            ("<dyn regex::Re as X>::f", Some("regex")),
            ("branch<(), gimli::read::Error>", None),
            ("main", None),
            ("::x", None),
        ] {
            assert_eq!(crate_of(function), expected, "{function}");
        }
    }

    #[test]
    fn packages_lie_in_the_folders_of_cargo_and_of_rust() {
        for (file, expected) in [
            (
                "/home/me/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/serde_json-1.0.2/src/ser.rs",
                Some("crate serde_json"),
            ),
            ("/opt/cargo/git/checkouts/regex-7b1f3a/0ea/src/lib.rs", Some("crate regex")),
            (
                "/rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library/core/src/num/mod.rs",
                Some("the language's own library"),
            ),
            ("/usr/src/app/src/main.rs", None),
            ("src/registry/src/x", None),
            ("", None),
        ] {
            assert_eq!(package_of(file).as_deref(), expected, "{file}");
        }
    }
}
