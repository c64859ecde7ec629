//! Files of this machine to frames, as the command does it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use elf::{Object, SymbolSource};
use host::objects::{HostObject, ObjectBytes, ObjectStore, SearchPaths};
use model::{FileOffset, Name, ObjectIdentity, Resolution, Svma};
use prof_symbolizer::{LookupAddress, ObjectFiles, ObjectIndex, ObjectSymbolizer, Options, minidebug};

/// Answers for addresses as the object states them. What is kept of the object changes none of them: they are asked for
/// all at once, as a command does, and then again in lots, as the live view does.
pub(crate) fn resolve(
    path: &Path,
    debug_dirs: Vec<PathBuf>,
    options: Options,
    addresses: &[u64],
) -> Vec<Resolution> {
    let store = store(debug_dirs);
    let object = open(&store, path);
    let files = store.debug_files(&object, path);
    let minidebug = unpacked_minidebug(&object, files.debug.is_some());
    let object_files = ObjectFiles {
        object: &object,
        debug: files.debug.as_deref(),
        minidebug: minidebug.as_ref(),
        supplementary: files.supplementary.as_deref(),
        package: files.package.as_deref(),
    };
    let place = |&address: &u64| {
        let offset = object.file_offset_of(Svma(address)).unwrap_or(FileOffset(u64::MAX));
        LookupAddress { address: offset, lookup: offset }
    };
    let places: Vec<LookupAddress> = addresses.iter().map(place).collect();
    let index = Arc::new(ObjectIndex::new(&object_files, options.names));
    let resolve = |index: &Arc<ObjectIndex>, places: &[LookupAddress]| {
        let symbolizer = ObjectSymbolizer::for_addresses(&object_files, Arc::clone(index), options, places);
        let mut plan = symbolizer.plan(places);
        let mut walks = Vec::new();
        loop {
            walks.extend((0..plan.tasks()).map(|task| {
                symbolizer.walk(&plan, task, &|wanted| {
                    store.split_unit(wanted.path.as_deref()?, wanted.folder.as_deref(), path)
                })
            }));
            if !plan.next_pass(&walks) {
                break;
            }
        }
        symbolizer.finish(&plan, walks)
    };
    let answers = resolve(&index, &places);
    // The second lot learns where the functions lie, the third uses it.
    let middle = places.len() / 2;
    for range in [0..places.len(), middle..places.len(), 0..middle] {
        assert_eq!(resolve(&index, &places[range.clone()]), answers[range]);
        index.release_unpacked();
    }
    // Nor does it matter whether symbols are kept.
    let has_full = |file: Option<&HostObject>| file.is_some_and(|file| file.has_symbols(SymbolSource::Full));
    if has_full(Some(&object)) || has_full(files.debug.as_deref()) {
        let index = Arc::new(ObjectIndex::without_symbols(options.names));
        for range in [0..middle, middle..places.len()] {
            assert_eq!(resolve(&index, &places[range.clone()]), answers[range]);
        }
    }
    answers
}

pub(crate) fn store(debug_dirs: Vec<PathBuf>) -> ObjectStore {
    let mut paths = SearchPaths::from_environment(None, debug_dirs, true);
    // What lies in the home folder of whoever runs this says nothing about the files at hand.
    paths.build_id_cache = None;
    paths.debuginfod_cache = None;
    ObjectStore::new(paths)
}

pub(crate) fn open(store: &ObjectStore, path: &Path) -> Arc<HostObject> {
    let name = Name::from(path.to_str().unwrap());
    store.open(&ObjectIdentity { path: name, build_id: None, file: None }, &[]).unwrap()
}

fn unpacked_minidebug(object: &HostObject, has_debug: bool) -> Option<HostObject> {
    if has_debug || object.has_symbols(SymbolSource::Full) {
        return None;
    }
    Object::parse(ObjectBytes::Memory(minidebug(object).ok()??, None)).ok()
}
