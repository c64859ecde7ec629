//! Files with raw user stacks (`perf record --call-graph dwarf`, `prof record --keep-stacks`): samples are unwound in
//! batches, in parallel, before they are handed on.

use std::sync::Arc;
use std::thread;

use decoder::{CpuMode, Endian, Sample, context};
use host::objects::{ObjectStore, SearchPaths};
use model::{Name, Pid};
use perfdata::Description;
use recorder::unwind::{ChainUnwinder, Snapshot, Snapshots, UserState};
use tracker::{AddressSpace, ChainItem, Tracker, chain_items};
use unwinder::{Architecture, NoMemory, Registers, StackCopy};

use super::input::is_of_this_host;

/// A batch is unwound when it has so many samples, or so many bytes of stack.
const MOST_SAMPLES: usize = 4096;
const MOST_BYTES: usize = 16 << 20;

/// Fewer samples than this are not worth a thread.
const LEAST_PER_THREAD: usize = 64;

/// Samples that wait to be unwound, together with the mappings at their moment.
pub struct UserStacks {
    architecture: Option<Architecture>,
    snapshots: Snapshots,
    unwinders: Vec<ChainUnwinder>,
    jobs: Vec<Job>,
    /// The stack copies of all jobs.
    stacks: Vec<u8>,
}

/// One sample to be unwound.
struct Job {
    snapshot: Arc<Snapshot>,
    registers: Registers,
    stack_start: u64,
    /// Where in `stacks`.
    stack: std::ops::Range<usize>,
    /// The kernel's part of the chain at first, the whole chain in the end.
    chain: Vec<u64>,
}

impl UserStacks {
    /// For the samples of a recording.
    pub fn of(recording: &Description) -> Self {
        let features = recording.features();
        let paths = SearchPaths::from_environment(None, Vec::new(), is_of_this_host(features));
        // A file that doesn't say is taken as one of ours.
        let machine = features.arch.as_ref().map_or(std::env::consts::ARCH.as_bytes(), Name::as_bytes);
        let architecture = match machine {
            b"x86_64" | b"amd64" => Some(Architecture::X86_64),
            b"aarch64" | b"arm64" => Some(Architecture::Aarch64),
            _ => None,
        };
        let threads = thread::available_parallelism().map_or(1, |count| count.get());
        Self {
            architecture: architecture.filter(|_| recording.endian() == Endian::Little),
            snapshots: Snapshots::new(Arc::new(ObjectStore::new(paths))),
            unwinders: (0..threads).map(|_| ChainUnwinder::default()).collect(),
            jobs: Vec::new(),
            stacks: Vec::new(),
        }
    }

    /// Takes a sample into the batch, if its user stack is there to be unwound. The tracker must be at its moment, and
    /// stay there until the batch has been unwound.
    pub fn take(&mut self, sample: &Sample<'_>, tracker: &mut Tracker) -> bool {
        let (Some(architecture), Some((pid, _))) = (self.architecture, sample.thread) else { return false };
        let Some(state) = UserState::of(sample, architecture).filter(|_| pid != Pid::NONE) else {
            return false;
        };
        // What the kernel has walked itself is taken as it is: a chain of frame pointers says more than a copy of no bytes.
        if has_user_part(sample) && state.stack.bytes.is_empty() {
            return false;
        }
        let start = self.stacks.len();
        self.stacks.extend_from_slice(state.stack.bytes);
        self.jobs.push(Job {
            snapshot: self.snapshots.of(tracker, pid),
            registers: state.registers,
            stack_start: state.stack.start,
            stack: start..self.stacks.len(),
            chain: kernel_part(sample),
        });
        true
    }

    /// Whether the batch should be unwound now.
    pub fn is_full(&self) -> bool {
        self.jobs.len() >= MOST_SAMPLES || self.stacks.len() >= MOST_BYTES
    }

    /// Unwinds the batch: the call chains of the samples taken, in their order, in the byte order of this machine's
    /// recordings.
    pub fn unwind(&mut self) -> Vec<Vec<u8>> {
        let threads = (self.jobs.len() / LEAST_PER_THREAD).clamp(1, self.unwinders.len());
        let stacks = &self.stacks;
        let share = self.jobs.len().div_ceil(threads).max(1);
        let shares = self.jobs.chunks_mut(share).zip(&mut self.unwinders);
        if threads == 1 {
            shares.for_each(|(jobs, unwinder)| unwind_all(jobs, stacks, unwinder));
        } else {
            thread::scope(|scope| {
                for (jobs, unwinder) in shares {
                    scope.spawn(move || unwind_all(jobs, stacks, unwinder));
                }
            });
        }
        self.stacks.clear();
        self.jobs
            .drain(..)
            .map(|job| job.chain.iter().flat_map(|address| address.to_le_bytes()).collect())
            .collect()
    }
}

fn unwind_all(jobs: &mut [Job], stacks: &[u8], unwinder: &mut ChainUnwinder) {
    for job in jobs {
        let stack = StackCopy { start: job.stack_start, bytes: &stacks[job.stack.clone()] };
        let state = UserState { registers: job.registers.clone(), stack };
        unwinder.unwind(&job.snapshot, &state, &mut NoMemory, &mut job.chain);
    }
}

fn has_user_part(sample: &Sample<'_>) -> bool {
    sample.callchain.is_some_and(|chain| {
        chain_items(chain.iter(), sample.mode).any(|item| {
            matches!(
                item,
                ChainItem::Address { context: Some(AddressSpace::User), .. } | ChainItem::Deferred(_)
            )
        })
    })
}

/// The chain up to its user part. Without a chain, the sampled instruction is all that the kernel's side has.
fn kernel_part(sample: &Sample<'_>) -> Vec<u64> {
    let user = [context::USER, context::USER_DEFERRED];
    match (sample.callchain, sample.ip) {
        (None, Some(ip)) if sample.mode == CpuMode::Kernel => vec![context::KERNEL, ip],
        (None, _) => Vec::new(),
        (Some(chain), _) => chain.iter().take_while(|value| !user.contains(value)).collect(),
    }
}
