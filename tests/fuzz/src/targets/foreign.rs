//! Profiles of other tools.

use std::collections::HashMap;
use std::io::Write;

use analysis::foreign::ForeignProfile;
use export::exchange::{self, ExportedEvent, ExportedRecording, Format};
use model::{AddressKind, Name, Pid, Space, SpaceTable, StackEntry, Tid};
use profile::{Profile, Shape, Show, View, Weight};

pub(super) fn run(bytes: &[u8]) {
    let _ = ForeignProfile::may_begin_with(bytes.get(..64).unwrap_or(bytes));
    if let Ok(Some(read)) = ForeignProfile::parse(bytes) {
        assert!(read.quantities().contains(read.default_quantity()));
    }
}

pub(super) fn folded_seeds() -> Vec<Vec<u8>> {
    vec![
        b"work;_start;main;a::b<c>;[libc.so.6];read_[k] 12\nwork;_start;main;d_[i];[unknown] 7.5\nsh;x;[sh+0x1a] 1e3\n".to_vec(),
        b"[main tid=7];java/lang/Thread.run_[0];a/b.c_[j];d_[1] 10\n[pool-1 tid=8];java/lang/Thread.run;e 2 3\n".to_vec(),
    ]
}

/// A profile that our own writer makes, compressed and not.
pub(super) fn pprof_seeds() -> Vec<Vec<u8>> {
    let mut spaces = SpaceTable::default();
    let space = spaces.intern(Space::Unmapped { pid: Pid(1), generation: 0 });
    let mut profile = Profile::default();
    for offset in 1..9 {
        let entry = |offset| StackEntry {
            offset,
            space,
            kind: AddressKind::InstructionPointer,
            in_kernel: offset == 4,
        };
        let stack = profile.stacks.intern(&[entry(offset), entry(offset / 2), entry(1)]);
        profile.add(&Name::from("work"), Pid(1), Tid(2), stack, 1000 * offset);
    }
    let view =
        View::shaped(&profile, &spaces, |_, _| None, Show::default(), Weight::Period, &Shape::default());
    let event = ExportedEvent {
        name: "cpu".to_owned(),
        view: &view,
        unit: None,
        is_clock: true,
        time: None,
        period: None,
        frequency: None,
        stated: Vec::new(),
    };
    let recording = ExportedRecording {
        events: vec![event],
        spaces: &spaces,
        title: "work",
        caveats: Vec::new(),
        started_unix_ns: Some(1),
        duration_ns: 9,
        labels: &[],
        resources: HashMap::new(),
        generated_code_kinds: HashMap::new(),
        object_ids: HashMap::new(),
        display_name: &str::to_owned,
        gaps: &[],
        waits: &[],
    };
    let mut packed = Vec::new();
    // Writing to memory does not fail.
    let _ = exchange::write(&recording, Format::Pprof, &mut packed).and_then(|()| packed.flush());
    let unpacked = unpacked(&packed);
    vec![packed, unpacked]
}

/// Unpacks what was packed by our own writer.
fn unpacked(packed: &[u8]) -> Vec<u8> {
    const GZIP_WINDOW_BITS: i32 = 15 + 16;
    let mut bytes = vec![0; 1 << 16];
    let config = zlib_rs::InflateConfig { window_bits: GZIP_WINDOW_BITS };
    let (written, _) = zlib_rs::decompress_slice(&mut bytes, packed, config);
    written.to_vec()
}
