//! The same samples, unwound while recording (in the ring or in their turn) and unwound later from a recording that keeps stack copies,
//! have the same stacks.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test stops where it cannot go on, and says what it skips"
)]

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use analysis::Error;
use analysis::input::Input;
use analysis::notices::Silent;
use analysis::replay::replay;
use decoder::{Endian, RawRecord, context, kind};
use host::files::{DestinationKind, NameInFolder};
use host::objects::SearchPaths;
use model::{Tid, Timestamp, TruncationReason};
use recorder::event::Rate;
use recorder::unwind::{ChunkEncoder, Mechanisms, UnwindingStage};
use recorder::{
    CallChain, Chunk, Consumer, Control, Ending, FileSink, Options, Place, Recording, RecordingSink,
    RingKind, Workload,
};
use tracker::{SampleSink, TrackedSample};

/// What the rings gave, in the order of the calls.
#[derive(Default)]
struct Everything {
    recording: Option<Recording>,
    calls: Vec<Call>,
}

enum Call {
    Started,
    Chunk(RingKind, Vec<u8>),
    FinishedRound,
}

impl RecordingSink for Everything {
    fn begin(&mut self, recording: &Recording) -> io::Result<()> {
        self.recording = Some(recording.clone());
        Ok(())
    }

    fn started(&mut self) -> io::Result<()> {
        self.calls.push(Call::Started);
        Ok(())
    }

    fn finished_round(&mut self) -> io::Result<()> {
        self.calls.push(Call::FinishedRound);
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
        self.calls.push(Call::Chunk(chunk.ring, chunk.bytes));
        Ok(None)
    }
}

/// The user part of each sample's chain.
type Chains = BTreeMap<(Tid, Timestamp), Vec<u64>>;

#[derive(Default)]
struct Collected(Chains);

impl SampleSink for Collected {
    type Error = Error;

    fn sample(&mut self, sample: TrackedSample<'_>) -> Result<(), Error> {
        let sample = sample.sample;
        let (Some((_, tid)), Some(time)) = (sample.thread, sample.time) else { return Ok(()) };
        let chain = sample.callchain.into_iter().flat_map(|chain| chain.iter());
        self.0.insert((tid, time), chain.skip_while(|value| *value != context::USER).collect());
        Ok(())
    }
}

impl Everything {
    /// Plays all calls through the stage into a file, and returns its chains, and the number of samples that were unwound in the ring.
    fn chains(&self, keep_stacks: bool, in_ring: bool) -> (Chains, usize) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prof.data");
        let place = Place::Destination(DestinationKind::Name(NameInFolder::find(&path).unwrap()));
        let file = FileSink::new(place, None, Vec::new());
        let mut stage = UnwindingStage::new(ChunkEncoder::new(file), keep_stacks, Mechanisms::all());
        stage.begin(self.recording.as_ref().unwrap()).unwrap();
        let mut shrunk = 0;
        for call in &self.calls {
            match call {
                Call::Started => stage.started().unwrap(),
                Call::FinishedRound => stage.finished_round().unwrap(),
                Call::Chunk(ring, bytes) => {
                    let mut written = Chunk::new(*ring, Vec::new());
                    let mut rest = &bytes[..];
                    while let Ok((raw, size)) = RawRecord::parse(rest, Endian::NATIVE) {
                        let (record, behind) = rest.split_at(size);
                        let until = Instant::now() + Duration::from_secs(60);
                        if in_ring
                            && raw.kind == kind::SAMPLE
                            && stage.shorten_sample(record, until, &mut written)
                        {
                            shrunk += 1;
                        } else {
                            written.bytes.extend_from_slice(record);
                        }
                        rest = behind;
                    }
                    written.bytes.extend_from_slice(rest);
                    stage.consume(written).unwrap();
                }
            }
        }
        stage.end(&Ending::default()).unwrap();
        let paths = SearchPaths::from_environment(None, Vec::new(), true);
        let mut collected = Collected::default();
        replay(Input::open(&path).unwrap(), &paths, &Silent, &mut collected)
            .map_err(|error| error.to_string())
            .unwrap();
        (collected.0, shrunk)
    }
}

/// Records a program whose stacks are up to 43 frames deep, with copies of this size.
fn record(flags: &[&str], folder: &Path, copy_bytes: u32) -> Option<Everything> {
    let program = folder.join("recursion");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../recorder/tests/fixtures/recursion.c");
    let built = Command::new("gcc").args(flags).arg("-o").arg(&program).arg(source).status();
    if !built.is_ok_and(|status| status.success()) {
        eprintln!("skipped: gcc is not installed");
        return None;
    }
    let words = vec![program.into_os_string(), "2000".into()];
    let workload = Workload { words, environment: Vec::new(), output_to_stderr: true };
    let mut options = Options::of_command(workload);
    options.call_chain = CallChain::Stacks { size: Some(copy_bytes), keep: true };
    options.rate = Some(Rate::Frequency(2000));
    let mut everything = Everything::default();
    let control = Control::with_signals().unwrap();
    if let Err(error) = recorder::record(&options, &control, &mut everything, Vec::new(), &mut |_| ()) {
        eprintln!("skipped: {error}");
        return None;
    }
    Some(everything)
}

/// The frames of a chain without the marker of the reason why there are no more, and true if it had none.
fn frames(chain: &[u64]) -> (&[u64], bool) {
    match chain.split_last() {
        Some((last, inner)) if TruncationReason::from_marker(*last).is_some() => (inner, false),
        _ => (chain, true),
    }
}

#[test]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn copies_unwound_later_give_the_stacks_that_were_unwound_while_recording() {
    let builds: [&[&str]; 3] =
        [&["-O0"], &["-O2", "-fomit-frame-pointer"], &["-O2", "-static", "-fomit-frame-pointer"]];
    for flags in builds {
        // With the smaller size, about half of the stacks are deeper than their copies.
        for copy_bytes in [32 << 10, 1 << 10] {
            let folder = tempfile::tempdir().unwrap();
            let Some(everything) = record(flags, folder.path(), copy_bytes) else { return };
            let (later, _) = everything.chains(true, false);
            let (in_turn, _) = everything.chains(false, false);
            let (in_ring, shrunk) = everything.chains(false, true);
            assert!(later.len() > 200, "{flags:?}: {}", later.len());
            assert!(shrunk * 2 > later.len(), "{flags:?}: {shrunk} of {} unwound in the ring", later.len());
            let mut complete = 0;
            for recorded in [&in_turn, &in_ring] {
                assert!(recorded.keys().eq(later.keys()), "{flags:?}: not the same samples");
                for (sample, later) in &later {
                    let ((found, is_whole), (expected, _)) = (frames(later), frames(&recorded[sample]));
                    // Only what lies beyond a copy may be found in other stacks, or by the kernel's walk.
                    match is_whole {
                        true => assert_eq!(*later, recorded[sample], "{flags:?} {copy_bytes} {sample:?}"),
                        false => assert!(expected.starts_with(found), "{later:x?} {expected:x?}"),
                    }
                    complete += usize::from(is_whole && !later.is_empty());
                }
            }
            let (complete, all) = (complete / 2, later.len());
            eprintln!("{flags:?} {copy_bytes}: {complete} of {all} complete, {shrunk} in the ring");
            let share = if copy_bytes > 1 << 10 { 95 } else { 10 };
            assert!(complete * 100 >= all * share, "{flags:?} {copy_bytes}: {complete} of {all} complete");
        }
    }
}
