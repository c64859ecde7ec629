//! The names that an archive carries, unpacked.

use std::sync::Arc;

use model::{
    AddressKind, Frame, Name, ObjectIdentity, Pid, Reason, Resolution, SourceLocation, Space, SpaceId,
    StackEntry, Svma, Symbolized,
};
use symbolizer::NameStyle;
use symbolizer::archived::{ArchivedNames, HeldBytes, encode};

pub(super) fn run(bytes: &[u8]) {
    let (names, error) = ArchivedNames::parse(bytes, NameStyle::Demangled, HeldBytes::new(1 << 30));
    if let Some(error) = error {
        drop(error.to_string());
    }
    let (contents, (functions, files)) = (names.contents(), names.names());
    // Each address takes four bytes at least, each name one.
    let addresses: usize = contents.iter().map(|of| of.addresses).sum();
    assert!(4 * addresses + functions.len() + files.len() <= bytes.len(), "more than there are bytes for");
    for of in contents {
        let _ = names.resolve(of.space, &entry(0x1000));
    }
}

fn entry(offset: u64) -> StackEntry {
    StackEntry { offset, space: SpaceId(0), kind: AddressKind::ReturnAddress, in_kernel: false }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let object =
        Space::Object(ObjectIdentity { path: Name::from("/bin/program"), build_id: None, file: None });
    let generated = Space::Jit { pid: Pid(7), generation: 1, mapping: Name::from("//anon") };
    let location = SourceLocation {
        file: Arc::from("/src/main.rs"),
        line: 7,
        column: 3,
        discriminator: 0,
        start_line: 0,
    };
    let inner = Frame { function: Arc::from("_ZN4core3fmt5writeE"), location: Some(location), inlined: true };
    let outer = Frame { function: Arc::from("main"), location: None, inlined: false };
    let found = Symbolized { frames: [inner, outer].into(), symbol_offset: Some(16) };
    let found = Resolution::Resolved(found);
    let nameless = Resolution::Delimited { reason: Reason::Stripped, start: Svma(0x1a40), offset: 16 };
    let entries: Vec<StackEntry> = (0..8).map(|number| entry(0x1000 + 16 * number)).collect();
    let spaces = [object, generated];
    let (entries, found) = (&entries, [&found, &nameless]);
    let all = spaces.iter().zip(found);
    let all = all.flat_map(|(space, found)| entries.iter().map(move |entry| (space, entry, found)));
    vec![encode(all)]
}
