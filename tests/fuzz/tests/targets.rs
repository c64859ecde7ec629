//! Every target on its seeds, on what was once found, and on some mutations of both.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use prof_fuzz::mutator::{Rng, mutate};
use prof_fuzz::objects::{self, CODE};
use prof_fuzz::{TARGETS, seeds};

/// What was found with this target before.
fn regressions(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions").join(name);
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    entries.map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect()
}

#[test]
fn nothing_panics() {
    let mut rng = Rng::new(20);
    for target in TARGETS {
        let mut inputs = (target.seeds)();
        assert!(!inputs.is_empty() && inputs.iter().all(|input| input.len() > 60), "{}", target.name);
        inputs.extend(regressions(target.name));
        inputs.iter().for_each(|input| (target.run)(input));
        for _ in 0..200 {
            let input = &inputs[rng.below(inputs.len())];
            let other = &inputs[rng.below(inputs.len())];
            (target.run)(&mutate(input, other, &mut rng));
        }
    }
}

#[test]
fn seeds_are_sound() {
    for bytes in [seeds::file(), seeds::pipe(), seeds::compressed()] {
        let mut reader = perfdata::Reader::open(perfdata::Source::File(Box::new(bytes))).unwrap();
        let mut samples = 0;
        while let Some(entry) = reader.next_entry().unwrap() {
            if entry.record.kind() == decoder::kind::SAMPLE {
                let (raw, layout) = reader.record_and_layout(entry.record).unwrap();
                layout.decode(&raw).unwrap();
                samples += 1;
            }
            reader.release(entry.record);
        }
        assert_eq!(samples, 24);
        assert!(reader.notices().is_empty(), "{:?}", reader.notices());
    }
}

/// The functions at the first bytes of an object's code, innermost first.
fn functions(bytes: &[u8], at: u64) -> Vec<String> {
    let object = elf::Object::parse(bytes).unwrap();
    let files = symbolizer::ObjectFiles {
        object: &object,
        debug: None,
        minidebug: None,
        supplementary: None,
        package: None,
    };
    let symbolizer = symbolizer::ObjectSymbolizer::new(&files, symbolizer::Options::default());
    let offset = model::FileOffset(CODE + at);
    let plan = symbolizer.plan(&[symbolizer::LookupAddress { address: offset, lookup: offset }]);
    let walks = (0..plan.tasks()).map(|task| symbolizer.walk(&plan, task, &|_| None)).collect();
    match symbolizer.finish(&plan, walks).remove(0) {
        model::Resolution::Resolved(found) => {
            found.frames.iter().map(|frame| frame.function.to_string()).collect()
        }
        _ => Vec::new(),
    }
}

#[test]
fn seeds_have_names() {
    for seed in objects::seeds().iter().take(2) {
        assert_eq!(functions(seed, 0x20), ["work", "work"], "with an inlined call");
    }
    assert_eq!(functions(&objects::seeds()[0], 0x410), ["foo::bar"]);
    let seeds = |name: &str| (TARGETS.iter().find(|target| target.name == name).unwrap().seeds)();
    for table in seeds("gopclntab") {
        assert_eq!(functions(&objects::go_program(&table), 0x50), ["main.main"]);
    }
    for packed in seeds("minidebug") {
        let wrapped = objects::object(&[(".gnu_debugdata", &packed)]);
        let unpacked =
            symbolizer::minidebug(&elf::Object::parse(wrapped.as_slice()).unwrap()).unwrap().unwrap();
        assert_eq!(functions(&unpacked, 4), ["work"]);
    }
}

#[test]
fn stubs_at_the_end_of_memory_have_no_next_address() {
    let mut bytes = objects::object(&[(".plt", &[0xff; 64])]);
    let headers = u64::from_le_bytes(bytes[0x28..0x30].try_into().unwrap()) as usize;
    // Of the first section: executable, and at the last address that a stub fits at.
    bytes[headers + 64 + 8] = 4;
    bytes[headers + 64 + 16..][..8].copy_from_slice(&(u64::MAX - 15).to_le_bytes());
    assert_eq!(functions(&bytes, 0), Vec::<String>::new());
}

#[test]
fn deep_nesting_is_no_deep_recursion() {
    let target = TARGETS.iter().find(|target| target.name == "tracing_data").unwrap();
    for open in ["(", "-", "!", "~(", "REC->state ? ", "1 + (", "__print_symbolic(", "*", "(u8)"] {
        let print = format!("\"%d\", {}", open.repeat(100_000));
        (target.run)(&seeds::tracing_data_printing(&[&print]));
    }
}
