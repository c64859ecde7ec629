//! Live recordings with stack copies, unwound here, beside what the kernel's walk over frame pointers found at the very
//! same moments.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test stops where it cannot go on, and says what it skips"
)]

use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use decoder::{Endian, RawRecord, Record, RecordLayout};
use host::objects::{BlockBytes, ObjectStore, SearchPaths};
use model::Timestamp;
use prof_recorder::event::Rate;
use prof_recorder::{
    CallChain, Chunk, Consumer, Control, Ending, Options, Recording, RecordingSink, Workload,
};
use stacks::{ChainUnwinder, ProcessMapsCache, UserState};
use tracker::{ChainItem, Orderer, Tracker, chain_items};
use unwinder::{Architecture, NoMemory, StackEnd};

/// Keeps everything.
#[derive(Default)]
struct Everything {
    layouts: Vec<(Vec<u64>, RecordLayout)>,
    bytes: Vec<u8>,
}

impl RecordingSink for Everything {
    fn begin(&mut self, recording: &Recording) -> io::Result<()> {
        for event in &recording.events {
            self.layouts.push((event.ids.clone(), RecordLayout::new(&event.attr, Endian::NATIVE)));
        }
        Ok(())
    }

    fn started(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn finished_round(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn checkpoint(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn end(&mut self, _: &Ending) -> io::Result<()> {
        Ok(())
    }
}

impl Consumer for Everything {
    fn consume(&mut self, chunk: Chunk) -> io::Result<Option<Vec<u8>>> {
        self.bytes.extend_from_slice(&chunk.bytes);
        Ok(Some(chunk.bytes))
    }
}

/// The user side of one sample: the kernel's walk, ours, and how ours ends.
struct Pair {
    kernels: Vec<u64>,
    ours: Vec<u64>,
    end: StackEnd,
}

/// Builds `recursion.c`, records it and unwinds it. `None`, and a line that says so, where that is not possible.
fn record(flags: &[&str], rounds: u32) -> Option<Vec<Pair>> {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("recursion");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/recursion.c");
    let built = Command::new("gcc").args(flags).arg("-o").arg(&program).arg(source).status();
    if !built.is_ok_and(|status| status.success()) {
        eprintln!("skipped: gcc is not installed");
        return None;
    }
    let words = vec![program.into_os_string(), rounds.to_string().into()];
    let mut options =
        Options::of_command(Workload { words, environment: Vec::new(), output_to_stderr: true });
    options.call_chain = CallChain::Stacks { size: Some(32 << 10), keep: true };
    options.rate = Some(Rate::Frequency(2000));
    let mut everything = Everything::default();
    let control = Control::with_signals().unwrap();
    if let Err(error) = prof_recorder::record(&options, &control, &mut everything, Vec::new(), &mut |_| ()) {
        eprintln!("skipped: {error}");
        return None;
    }
    Some(unwind(&everything))
}

fn unwind(everything: &Everything) -> Vec<Pair> {
    let any = &everything.layouts.last().unwrap().1;
    let mut orderer = Orderer::default();
    let mut rest = &everything.bytes[..];
    while let Ok((raw, size)) = RawRecord::parse(rest, Endian::NATIVE) {
        orderer.push(any.time_of(&raw).unwrap_or(Timestamp(0)), raw);
        rest = &rest[size..];
    }
    orderer.finish();
    let store = ObjectStore::<BlockBytes>::new(SearchPaths::from_environment(None, Vec::new(), true));
    let (mut tracker, mut maps_cache) = (Tracker::new(), ProcessMapsCache::new(Arc::new(store)));
    let (mut unwinder, mut pairs) = (ChainUnwinder::default(), Vec::new());
    while let Some((_, raw)) = orderer.pop() {
        let id = any.id_of(&raw).unwrap_or(0);
        let layout =
            everything.layouts.iter().find(|(ids, _)| ids.contains(&id)).map_or(any, |(_, layout)| layout);
        let record = layout.decode(&raw).unwrap();
        tracker.apply(&record);
        let Record::Sample(sample) = record else { continue };
        let Some(state) = UserState::from_sample(&sample, Architecture::X86_64) else { continue };
        let (pid, tid) = sample.thread.unwrap();
        if tracker.comm(pid, tid).as_bytes() != b"recursion" {
            continue;
        }
        let maps = maps_cache.get(&mut tracker, pid);
        let end = unwinder.unwind(&maps, &state, &mut NoMemory, &mut Vec::new()).end;
        let items = chain_items(sample.callchain.unwrap().iter(), sample.mode);
        let kernels = items.filter_map(|item| match item {
            ChainItem::Address { address, context: Some(tracker::AddressSpace::User), .. } => Some(address),
            _ => None,
        });
        let ours = unwinder.stack().addresses().map(|frame| frame.address().0).collect();
        for frame in &unwinder.stack().frames[1..] {
            let before = model::Avma(frame.address.address().0 - 1);
            assert!(maps.space.find(before).unwrap().executable);
        }
        pairs.push(Pair { kernels: kernels.collect(), ours, end });
    }
    pairs
}

#[test]
#[cfg(target_arch = "x86_64")]
fn stacks_of_programs_with_frame_pointers_are_those_of_the_kernel() {
    // An optimizing gcc leaves out the frames of leaf functions, whatever it is told.
    let flags = ["-O0"];
    let Some(pairs) = record(&flags, 1_500) else { return };
    // The dynamic linker and the C library have no frame pointers: there is something to compare only where the program
    // itself runs. Its code is close to its `_start`, the last frame, and far from the C library, which calls `main`.
    let in_program = |pair: &&Pair| match pair.ours[..] {
        [ip, .., library, start] => start.abs_diff(ip) < 1 << 20 && start.abs_diff(library) > 1 << 20,
        _ => false,
    };
    let pairs: Vec<&Pair> = pairs.iter().filter(in_program).collect();
    assert!(pairs.len() > 500, "{}", pairs.len());
    let (mut same, mut unfinished, mut wrong) = (0, 0, Vec::new());
    for &pair in &pairs {
        // The kernel's walk ends at `main`, since the C library has no frame pointers. It leaves out the caller of a
        // function that has not made its frame yet, or has it undone.
        let walked = &pair.kernels[..pair.kernels.len().min(pair.ours.len())];
        let mut without_caller = pair.ours.clone();
        without_caller.remove(1);
        if pair.ours.starts_with(walked) {
            same += 1;
        } else if without_caller.starts_with(walked) {
            unfinished += 1;
        } else {
            wrong.push(pair);
        }
    }
    let judged = same + wrong.len();
    eprintln!(
        "{} samples: {same} the same, {unfinished} in prologues or epilogues, {} not",
        pairs.len(),
        wrong.len()
    );
    for pair in wrong.iter().take(2) {
        eprintln!("kernel {:x?}\nours   {:x?} {:?}", pair.kernels, pair.ours, pair.end);
    }
    assert!(wrong.len() * 1000 <= judged, "{} of {judged} differ", wrong.len());
    assert!(unfinished * 20 < pairs.len(), "{unfinished} of {} were left out", pairs.len());
}

#[test]
#[cfg(target_arch = "x86_64")]
fn stacks_of_programs_without_frame_pointers_are_complete() {
    for flags in [&["-O2", "-fomit-frame-pointer"][..], &["-O2", "-static"], &["-O1", "-static-pie"]] {
        let Some(pairs) = record(flags, 3_000) else { return };
        let complete = pairs.iter().filter(|pair| pair.end == StackEnd::Complete).count();
        eprintln!("{flags:?}: {complete} of {} complete", pairs.len());
        assert!(pairs.len() > 200 && complete * 1000 >= pairs.len() * 995, "{complete} of {}", pairs.len());
        let deepest = pairs.iter().map(|pair| pair.ours.len()).max();
        // main's callers in the C library, main, 40 levels, mix, work.
        assert!(deepest >= Some(43), "{deepest:?}");
    }
}
