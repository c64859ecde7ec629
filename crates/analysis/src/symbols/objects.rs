//! Places in object files and images.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use host::objects::{ObjectBytes, ObjectStore, own_vdso};
use model::{AddressKind, BuildId, FileOffset, Name, ObjectIdentity, Pid, Reason, Resolution, StackEntry};
use symbolizer::{
    DataSymbolizer, LookupAddress, ObjectFiles, ObjectIndex, ObjectSymbolizer, Options, SplitUnit, WalkedUnit,
};
use unwinder::{ObjectSections, UnwindTables};

use super::Answers;
use super::object_cache::{FileSetStamp, ObjectCache, Opened};
use super::remarks::MissingUnits;
use super::threads::Threads;

/// Less debug information than this is read faster than a thread is started.
const MIN_PARALLEL_BYTES: usize = 1 << 20;

/// Opens the file and its debug files, and resolves.
pub(super) fn resolve_file(
    store: &ObjectStore,
    kept: &ObjectCache,
    identity: &ObjectIdentity,
    pids: &[Pid],
    entries: &[StackEntry],
    options: Options,
    threads: &Threads<'_>,
) -> Answers {
    if let Some(opened) = kept.opened(identity) {
        return resolve(store, &opened, entries, options, threads);
    }
    match store.open_with_path(identity, pids) {
        Ok((object, path)) => {
            let known = |files: &FileSetStamp| kept.known(identity, files);
            let mut opened = Opened::new(store, object, path, identity.path.clone(), known);
            opened.saves_memory = kept.saves_memory();
            let opened = Arc::new(opened);
            let answers = resolve(store, &opened, entries, options, threads);
            if !opened.has_changed() {
                kept.put(identity, &opened);
            }
            store.close(identity);
            answers
        }
        Err(reason) => Answers::none(entries, &reason),
    }
}

/// Opens the file and its debug files, and resolves addresses of memory, each by the offset of code in the file and the distance to it.
pub(super) fn resolve_variables(
    store: &ObjectStore,
    identity: &ObjectIdentity,
    pids: &[Pid],
    wanted: &[(FileOffset, u64)],
    options: Options,
) -> Vec<Resolution> {
    let Ok((object, path)) = store.open_with_path(identity, pids) else { return Vec::new() };
    let opened = Opened::new(store, object, path, identity.path.clone(), |_| None);
    let symbolizer = DataSymbolizer::new(&object_files(&opened), options);
    let found = wanted.iter().map(|&(code, distance)| symbolizer.resolve_behind(code, distance)).collect();
    let has_changed = opened.has_changed();
    store.close(identity);
    if has_changed { Vec::new() } else { found }
}

/// Returns what names of an object are read from.
fn object_files(opened: &Opened) -> ObjectFiles<'_, ObjectBytes> {
    let Opened { object, files, known, .. } = opened;
    ObjectFiles {
        object: object.as_ref(),
        debug: files.debug.as_deref(),
        minidebug: known.minidebug.as_ref(),
        supplementary: files.supplementary.as_deref(),
        package: files.package.as_deref(),
    }
}

/// The vDSO is an image without a file: ours serves, where it is the recorded one.
pub(super) fn resolve_vdso(
    store: &ObjectStore,
    recorded: Option<BuildId>,
    entries: &[StackEntry],
    options: Options,
    threads: &Threads<'_>,
) -> Answers {
    let image = own_vdso().filter(|image| match (recorded, image.build_id()) {
        (Some(recorded), Some(ours)) => ours.same_object(&recorded),
        // perf records vDSO and kernel without a build id. They are this machine's only if the recording names this host.
        (None, _) => store.paths().own_images,
        (Some(_), None) => false,
    });
    let cached = || {
        let name = Name::from("[vdso]");
        let identity = ObjectIdentity { path: name, build_id: Some(recorded?), file: None };
        store.open_with_path(&identity, &[]).ok()
    };
    match image.map(|image| (Arc::new(image), PathBuf::from("[vdso]"))).or_else(cached) {
        Some((image, path)) => {
            let opened = Opened::new(store, image, path, Name::from("[vdso]"), |_| None);
            resolve(store, &opened, entries, options, threads)
        }
        None => Answers::none(entries, &Reason::ImageGone),
    }
}

/// Resolves, and forgets what was found where a file changed meanwhile.
fn resolve(
    store: &ObjectStore,
    opened: &Opened,
    entries: &[StackEntry],
    options: Options,
    threads: &Threads<'_>,
) -> Answers {
    let answers = resolve_unchanged(store, opened, entries, options, threads);
    if opened.has_changed() {
        let mut answers = Answers::none(entries, &Reason::ChangedWhileRead);
        answers.notes.push(format!("{} is not used: {}", opened.name, Reason::ChangedWhileRead));
        return answers;
    }
    answers
}

fn resolve_unchanged(
    store: &ObjectStore,
    opened: &Opened,
    entries: &[StackEntry],
    options: Options,
    threads: &Threads<'_>,
) -> Answers {
    let Opened { path, name, files, known, .. } = opened;
    let mut notes: Vec<String> = files
        .rejected
        .iter()
        .map(|(rejected, reason)| format!("{} is not used for {name}: {reason}", rejected.display()))
        .collect();
    notes.extend(known.minidebug_error.iter().map(|what| format!("{name}: {what}")));
    let object_files = object_files(opened);
    // The entries are sorted by address, not by kind: separates data from code.
    let (data, code): (Vec<_>, Vec<_>) =
        entries.iter().enumerate().partition(|(_, entry)| entry.kind == AddressKind::Data);
    let places = |of: &[(usize, &StackEntry)]| -> Vec<LookupAddress> {
        of.iter().map(|(_, entry)| LookupAddress::from(*entry)).collect()
    };
    let mut resolutions = vec![Resolution::Unresolved(Reason::NoSymbolCovers); entries.len()];
    if !data.is_empty() {
        let found = DataSymbolizer::new(&object_files, options).resolve(&places(&data));
        put(&mut resolutions, &data, found);
    }
    if code.is_empty() {
        return Answers { resolutions, notes, ..Answers::default() };
    }
    let index = known.index.get_or_init(|| {
        Arc::new(match opened.saves_memory && object_files.has_large_tables() {
            true => ObjectIndex::without_symbols(options.names),
            false => ObjectIndex::new(&object_files, options.names),
        })
    });
    let places = places(&code);
    let symbolizer = ObjectSymbolizer::for_addresses(&object_files, Arc::clone(index), options, &places);
    // The symbols of a large library are 20 MB of its file, and the heads of all units of a debug build more.
    opened.end_step();
    if index.has_too_many_symbols() {
        notes.push(format!("{name} has too many symbols: those at the end are not used"));
    }
    let mut plan = symbolizer.plan(&places);
    opened.end_step();
    let mut walks = Vec::new();
    let authors = Mutex::new(opened.authors());
    loop {
        let walk = |task| {
            symbolizer.walk(&plan, task, &|wanted| {
                let unit = store.split_unit(wanted.path.as_deref()?, wanted.folder.as_deref(), path)?;
                authors.lock().unwrap_or_else(PoisonError::into_inner).extend(unit.source().author());
                Some(unit)
            })
        };
        if plan.bytes() > MIN_PARALLEL_BYTES {
            walks.extend(threads.help(plan.tasks(), walk));
        } else {
            walks.extend((0..plan.tasks()).map(walk));
        }
        if !plan.next_pass(&walks) {
            break;
        }
    }
    let missing: BTreeSet<&SplitUnit> = walks.iter().filter_map(WalkedUnit::missing_split_unit).collect();
    let missing_units = missing.first().map(|first| MissingUnits {
        object: name.clone(),
        first: split_path(first),
        count: missing.len(),
    });
    put(&mut resolutions, &code, symbolizer.finish(&plan, walks));
    delimit_nameless(opened, entries, &mut resolutions);
    let described =
        files.debug_path.as_ref().map_or_else(|| name.to_string(), |path| path.display().to_string());
    notes.extend(symbolizer.damaged_sections().map(|what| format!("{described}: {what}")));
    let cut_names = Some((name.clone(), index.cut_names())).filter(|&(_, count)| count > 0);
    let authors = authors.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().collect();
    let has_more = object_files.has_more_than_symbols();
    Answers { resolutions, notes, cut_names, missing_units, authors, has_more }
}

/// Returns the path of the file that holds the rest of a unit, as the compiler stated it.
fn split_path(unit: &SplitUnit) -> String {
    let path = |path: &Option<Vec<u8>>| PathBuf::from(OsStr::from_bytes(path.as_deref().unwrap_or_default()));
    Name::from(path(&unit.folder).join(path(&unit.path)).as_os_str().as_bytes()).to_string()
}

/// Finds the bounds of functions without a name in the unwind tables, so that there are as many as there are functions.
fn delimit_nameless(opened: &Opened, entries: &[StackEntry], resolutions: &mut [Resolution]) {
    let mut tables = None;
    let code = |entry: &StackEntry| entry.kind != AddressKind::Data;
    for (entry, resolution) in entries.iter().zip(resolutions).filter(|(entry, _)| code(entry)) {
        let Resolution::Unresolved(reason) = resolution else { continue };
        if !matches!(reason, Reason::NoSymbols | Reason::Stripped | Reason::NoSymbolCovers) {
            continue;
        }
        let make = || ObjectSections::from_object(&opened.object).map(UnwindTables::new);
        let Some(tables) = tables.get_or_insert_with(make) else { return };
        let LookupAddress { address: found, lookup } = LookupAddress::from(entry);
        if let Some(function) = tables.function_at(lookup) {
            let before = opened.object.svma_of(lookup).map_or(0, |address| address.0 - function.start.0);
            let offset = before.saturating_add(found.0.saturating_sub(lookup.0));
            let reason = reason.clone();
            *resolution = Resolution::Delimited { reason, start: function.start, offset };
        }
    }
}

/// Puts what was found of some entries where they came from.
fn put(resolutions: &mut [Resolution], entries: &[(usize, &StackEntry)], found: Vec<Resolution>) {
    for (&(index, _), found) in entries.iter().zip(found) {
        if let Some(slot) = resolutions.get_mut(index) {
            *slot = found;
        }
    }
}
