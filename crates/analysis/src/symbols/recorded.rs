//! Names that the recording itself carries: simpleperf reads them on the machine that it records.

use std::borrow::Cow;
use std::collections::HashMap;

use model::{Avma, Name, Resolution, Space, StackEntry};
use perfdata::Reader;
use perfdata::features::{FileKind, RecordedFile, RecordedSymbol};
use symbolizer::{FunctionRanges, NameStyle, display_name};

use super::named;

/// The functions of recorded files, by the path in their mappings.
#[derive(Default)]
pub(super) struct RecordedNames {
    style: NameStyle,
    files: HashMap<Name, Functions>,
    kernel: Option<Functions>,
}

struct Functions {
    map: FunctionRanges,
    /// The number to add to a place's offset to get an address of the file.
    shift: u64,
}

impl RecordedNames {
    /// Takes what the recording tells, and says what of it is damaged.
    pub(super) fn new(recording: &Reader, style: NameStyle) -> (Self, Option<perfdata::Error>) {
        let (files, error) = recording.features().recorded_files(recording.endian());
        (Self::of(files, style), error)
    }

    fn of(files: Vec<RecordedFile>, style: NameStyle) -> Self {
        let mut names = Self { style, ..Self::default() };
        for file in files {
            // Addresses in files of other kinds cannot be computed at the lookup.
            let Some(shift) = shift(&file) else { continue };
            let functions = Functions { map: functions(&file), shift };
            if functions.map.is_empty() {
                continue;
            }
            match file.kind {
                FileKind::Kernel => names.kernel = Some(functions),
                _ => drop(names.files.insert(file.path, functions)),
            }
        }
        names
    }

    fn functions_of(&self, space: &Space) -> Option<&Functions> {
        match space {
            Space::Object(object) => self.files.get(&object.path),
            Space::Kernel { .. } | Space::KernelModule { .. } => self.kernel.as_ref(),
            _ => None,
        }
    }

    /// Names what is still without a name; why it had none elsewhere does not matter then.
    pub(super) fn complete(&self, space: &Space, entries: &[StackEntry], resolutions: &mut [Resolution]) {
        let Some(functions) = self.functions_of(space) else { return };
        for (entry, resolution) in entries.iter().zip(resolutions) {
            if resolution.reason().is_some()
                && let Some(found) = functions.resolve(entry, self.style)
            {
                *resolution = found;
            }
        }
    }
}

impl Functions {
    fn resolve(&self, entry: &StackEntry, style: NameStyle) -> Option<Resolution> {
        let address = Avma(entry.lookup_offset().wrapping_add(self.shift));
        let (name, start) = self.map.find(address)?;
        let name = display_name(name.as_bytes(), style);
        Some(named(&name, entry.offset.wrapping_add(self.shift).checked_sub(start.0)))
    }
}

fn shift(file: &RecordedFile) -> Option<u64> {
    match (file.kind, file.first_offset) {
        (FileKind::Kernel | FileKind::Dex, _) => Some(0),
        (FileKind::Elf, Some(offset)) => Some(file.first_address.wrapping_sub(offset)),
        // Old recordings count from the start of the mapping, which a place does not know; but where the first segment
        // lies at address 0 it lies at offset 0, too.
        (FileKind::Elf, None) => (file.first_address == 0).then_some(0),
        _ => None,
    }
}

fn functions(file: &RecordedFile) -> FunctionRanges {
    // Where two symbols overlap, the one that begins later is the better name.
    let mut symbols: Vec<&RecordedSymbol> = file.symbols.iter().collect();
    symbols.sort_by_key(|symbol| symbol.address);
    let names: Vec<Cow<'_, str>> =
        symbols.iter().map(|symbol| String::from_utf8_lossy(symbol.name.as_bytes())).collect();
    let functions = symbols.iter().zip(&names);
    FunctionRanges::new(functions.map(|(symbol, name)| (symbol.address, symbol.size.into(), &**name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{AddressKind, ObjectIdentity, Reason, SpaceId};

    fn file(path: &str, kind: FileKind, first: (u64, Option<u64>)) -> RecordedFile {
        let symbol = |address, size, name: &str| RecordedSymbol { address, size, name: Name::from(name) };
        RecordedFile {
            path: Name::from(path),
            kind,
            first_address: first.0,
            first_offset: first.1,
            symbols: vec![symbol(0x2100, 0x100, "_ZN1a1bEv"), symbol(0x2180, 0x10, "inner")],
        }
    }

    fn object(path: &str) -> Space {
        Space::Object(ObjectIdentity { path: Name::from(path), build_id: None, file: None })
    }

    fn name(
        names: &RecordedNames,
        space: &Space,
        offset: u64,
        kind: AddressKind,
    ) -> Option<(String, Option<u64>)> {
        let entry = StackEntry { offset, space: SpaceId(1), kind, in_kernel: false };
        match names.functions_of(space)?.resolve(&entry, names.style)? {
            Resolution::Resolved(found) => Some((found.frames[0].function.to_string(), found.symbol_offset)),
            _ => None,
        }
    }

    #[test]
    fn places_become_addresses_of_their_file() {
        let names = RecordedNames::of(
            vec![
                file("/lib/a.so", FileKind::Elf, (0x2000, Some(0x1000))),
                file("/lib/old.so", FileKind::Elf, (0x2000, None)),
                file("/app/a.jar", FileKind::Dex, (0, None)),
                file("/lib/a.ko", FileKind::KernelModule, (0, None)),
                file("[kernel.kallsyms]", FileKind::Kernel, (0, None)),
            ],
            NameStyle::Demangled,
        );
        let at = |path, offset| name(&names, &object(path), offset, AddressKind::InstructionPointer);
        assert_eq!(at("/lib/a.so", 0x1104), Some(("a::b".to_owned(), Some(4))));
        assert_eq!(at("/lib/a.so", 0x1184), Some(("inner".to_owned(), Some(4))));
        assert_eq!(at("/lib/a.so", 0x1190), Some(("a::b".to_owned(), Some(0x90))));
        assert_eq!(at("/lib/a.so", 0x2104), None);
        // Where its first segment was mapped from is not known: no name is better than a wrong one.
        assert_eq!(at("/lib/old.so", 0x2104), None);
        assert_eq!(at("/app/a.jar", 0x2104), Some(("a::b".to_owned(), Some(4))));
        assert_eq!(at("/lib/a.ko", 0x2104), None);
        let kernel = Space::Kernel { build_id: None, text: None };
        let returned = name(&names, &kernel, 0x2200, AddressKind::ReturnAddress);
        assert_eq!(returned, Some(("a::b".to_owned(), Some(0x100))));
    }

    #[test]
    fn names_found_elsewhere_and_ends_of_stacks_stay() {
        let names = RecordedNames::of(vec![file("/a", FileKind::Elf, (0, Some(0)))], NameStyle::Linkage);
        let entry = |offset| StackEntry {
            offset,
            space: SpaceId(1),
            kind: AddressKind::InstructionPointer,
            in_kernel: false,
        };
        let mut resolutions = [
            named("known", Some(0)),
            Resolution::Unresolved(Reason::FileMissing),
            Resolution::Unresolved(Reason::FileMissing),
        ];
        names.complete(&object("/a"), &[entry(0x2100), entry(0x2100), entry(0x9000)], &mut resolutions);
        let shown = resolutions.map(|resolution| match resolution {
            Resolution::Resolved(found) => found.frames[0].function.to_string(),
            Resolution::Unresolved(reason) | Resolution::Delimited { reason, .. } => format!("{reason:?}"),
        });
        assert_eq!(shown, ["known", "_ZN1a1bEv", "FileMissing"]);
    }
}
