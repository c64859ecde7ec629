//! Places in object files and images.

use std::path::Path;

use elf::{Object, SymbolSource};
use host::objects::{HostObject, ObjectBytes, ObjectStore, own_vdso};
use model::{AddressKind, BuildId, ObjectIdentity, Pid, Reason, Resolution, StackEntry};
use symbolizer::{DataSymbolizer, ObjectFiles, ObjectSymbolizer, Options, Place, minidebug};

use super::Answers;
use super::threads::Threads;

/// Less debug information than this is read faster than a thread is started.
const WORTH_A_THREAD: usize = 1 << 20;

/// Opens the file and its debug files, and resolves.
pub(super) fn resolve_file(
    store: &ObjectStore,
    identity: &ObjectIdentity,
    pids: &[Pid],
    entries: &[StackEntry],
    options: Options,
    threads: &Threads,
) -> Answers {
    match store.open_with_path(identity, pids) {
        Ok((object, path)) => {
            let answers = resolve(store, &object, &path, entries, options, threads);
            store.close(identity);
            answers
        }
        Err(reason) => {
            let resolutions = entries.iter().map(|_| Resolution::Unresolved(reason.clone())).collect();
            Answers { resolutions, notes: Vec::new() }
        }
    }
}

/// The vDSO is an image without a file: ours serves, where it is the recorded one.
pub(super) fn resolve_vdso(
    store: &ObjectStore,
    recorded: Option<BuildId>,
    entries: &[StackEntry],
    options: Options,
    threads: &Threads,
) -> Answers {
    let image = own_vdso().filter(|image| match (recorded, image.build_id()) {
        (Some(recorded), Some(ours)) => ours.same_object(&recorded),
        // Without an id, as perf records it, only a recording of this host can mean ours.
        (None, _) => store.paths().this_host,
        (Some(_), None) => false,
    });
    let cached = || {
        let name = model::Name::from("[vdso]");
        let identity = ObjectIdentity { path: name, build_id: Some(recorded?), file: None };
        store.open_with_path(&identity, &[]).ok()
    };
    if let Some(image) = image {
        return resolve(store, &image, Path::new("[vdso]"), entries, options, threads);
    }
    if let Some((image, path)) = cached() {
        return resolve(store, &image, &path, entries, options, threads);
    }
    let resolutions = entries.iter().map(|_| Resolution::Unresolved(Reason::ImageGone)).collect();
    Answers { resolutions, notes: Vec::new() }
}

fn resolve(
    store: &ObjectStore,
    object: &HostObject,
    path: &Path,
    entries: &[StackEntry],
    options: Options,
    threads: &Threads,
) -> Answers {
    let files = store.debug_files(object, path);
    let notes = files
        .rejected
        .iter()
        .map(|(rejected, reason)| {
            format!("{} is not used for {}: {reason}", rejected.display(), path.display())
        })
        .collect();
    let minidebug = (files.debug.is_none() && !object.has_symbols(SymbolSource::Full))
        .then(|| minidebug(object))
        .flatten()
        .and_then(|bytes| Object::parse(ObjectBytes::Memory(bytes)).ok());
    let object_files = ObjectFiles {
        object,
        debug: files.debug.as_deref(),
        minidebug: minidebug.as_ref(),
        supplementary: files.supplementary.as_deref(),
        package: files.package.as_deref(),
    };
    // Sorted by place, not by kind.
    let (data, code): (Vec<_>, Vec<_>) =
        entries.iter().enumerate().partition(|(_, entry)| entry.kind == AddressKind::Data);
    let places = |of: &[(usize, &StackEntry)]| -> Vec<Place> {
        of.iter().map(|(_, entry)| Place::from(*entry)).collect()
    };
    let mut resolutions = vec![Resolution::Unresolved(Reason::NoSymbolCovers); entries.len()];
    if !data.is_empty() {
        let found = DataSymbolizer::new(&object_files, options).resolve(&places(&data));
        put(&mut resolutions, &data, found);
    }
    if code.is_empty() {
        return Answers { resolutions, notes };
    }
    let symbolizer = ObjectSymbolizer::new(&object_files, options);
    let places = places(&code);
    let plan = symbolizer.plan(&places);
    let walk = |task| {
        symbolizer.walk(&plan, task, &|wanted| {
            store.split_unit(wanted.path.as_deref()?, wanted.folder.as_deref(), path)
        })
    };
    let walks = if plan.bytes() > WORTH_A_THREAD {
        threads.help(plan.tasks(), walk)
    } else {
        (0..plan.tasks()).map(walk).collect()
    };
    put(&mut resolutions, &code, symbolizer.finish(&plan, walks));
    Answers { resolutions, notes }
}

/// Puts what was found of some entries where they came from.
fn put(resolutions: &mut [Resolution], entries: &[(usize, &StackEntry)], found: Vec<Resolution>) {
    for (&(index, _), found) in entries.iter().zip(found) {
        if let Some(slot) = resolutions.get_mut(index) {
            *slot = found;
        }
    }
}
