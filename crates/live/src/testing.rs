//! Builds snapshots by hand, for tests.

use std::time::Duration;

use model::{
    AddressKind, Blocked, Frame, Name, ObjectIdentity, Pid, Resolution, Runnable, Space, StackEntry,
    Symbolized, ThreadState, Tid,
};
use profile::{Count, Profile, Where};

use crate::snapshot::{EventStatus, KEPT_APART, SAMPLES, Snapshot, Status};

/// Builds a snapshot from stacks that are written as text.
pub struct SnapshotBuilder {
    snapshot: Snapshot,
    profile: Profile,
    /// The frames of each address, which its offset numbers.
    addresses: Vec<String>,
}

impl Default for SnapshotBuilder {
    fn default() -> Self {
        let (snapshot, profile) = (Snapshot::default(), Profile::new(KEPT_APART));
        Self { snapshot, profile, addresses: Vec::new() }
    }
}

impl SnapshotBuilder {
    /// Adds a stack, outermost frame first: `main;read;_k_vfs_read`. `_k_`, `_i_` and `_j_` mark kernel, inlined and
    /// generated code; kernel functions lie in `kernel.kallsyms`, others in `app`, or what stands after `@`; those after `@` alone are in
    /// no module, and have no name. `[blocked…`, `[runnable…` and `[waiting…` are states of the thread.
    pub fn stack(&mut self, pid: i32, tid: i32, comm: &str, frames: &str, samples: u64) -> &mut Self {
        self.stack_in(None, (pid, tid, comm), frames, samples)
    }

    /// Adds a stack as [`SnapshotBuilder::stack`] does, of a thread in a container.
    pub fn stack_in(
        &mut self,
        container: Option<&str>,
        (pid, tid, comm): (i32, i32, &str),
        frames: &str,
        samples: u64,
    ) -> &mut Self {
        let place = Where { container: container.map(Name::from), ..Where::default() };
        let comm = Name::from(comm);
        let thread = self.profile.thread_on(&comm, Pid(pid), Tid(tid), &place, || comm.clone());
        let frames: Vec<&str> = frames.split(';').collect();
        // Inlined frames share the address of the frame that they were inlined into; all other frames have one each.
        let by_address = frames.chunk_by(|_, next| next.starts_with("_i_"));
        let mut entries: Vec<StackEntry> = by_address.map(|frames| self.entry(frames)).collect();
        entries.reverse();
        let stack = self.profile.stacks.intern(&entries);
        self.profile.add_counts(thread, stack, Count { samples, period: samples });
        self
    }

    /// The address of frames, outermost first.
    fn entry(&mut self, frames: &[&str]) -> StackEntry {
        let text = frames.join(";");
        let number = self.addresses.iter().position(|known| *known == text).unwrap_or_else(|| {
            self.addresses.push(text);
            self.addresses.len() - 1
        });
        let (mark, function) = marked(frames[0]);
        let in_kernel = mark == "_k_";
        let (_, module) = function.split_once('@').unwrap_or((function, "app"));
        let space = match state(function) {
            Some(state) => Space::State(state),
            None if in_kernel => Space::Kernel { build_id: None, text: None },
            None if module.is_empty() => Space::Unmapped { pid: Pid(300), generation: 0 },
            None if mark == "_j_" => Space::Jit { pid: Pid(300), generation: 0, mapping: Name::from(module) },
            None => {
                let path = Name::from(format!("/bin/{module}").as_str());
                Space::Object(ObjectIdentity { path, build_id: None, file: None })
            }
        };
        let is_code = !matches!(space, Space::State(_) | Space::Unmapped { .. });
        let entry = StackEntry {
            offset: number as u64,
            space: self.snapshot.spaces.intern(space),
            kind: AddressKind::InstructionPointer,
            in_kernel,
        };
        if is_code {
            let function = |text: &&str| {
                let (mark, function) = marked(text);
                let name = function.split_once('@').map_or(function, |(name, _)| name);
                Frame { function: name.into(), location: None, inlined: mark == "_i_" }
            };
            let frames = frames.iter().rev().map(function).collect();
            let resolution = Resolution::Resolved(Symbolized { frames, symbol_offset: None });
            self.snapshot.names.insert(entry, resolution);
        }
        entry
    }

    /// Returns the snapshot, with a window of ten seconds on two CPUs.
    pub fn snapshot(&self) -> Snapshot {
        let samples = self.profile.total().samples;
        Snapshot {
            profiles: vec![self.profile.clone()],
            status: Status {
                target: "whole system".to_owned(),
                events: vec![EventStatus {
                    name: "cpu-clock".to_owned(),
                    frequency: Some(997),
                    unit: SAMPLES.to_owned(),
                    is_time: false,
                }],
                cpus: 2,
                covered: Duration::from_secs(10),
                window: Duration::from_secs(10),
                samples,
                complete: Some(samples),
                own_cpu: 0.4,
                own_memory: 23 << 20,
                ..Status::default()
            },
            ..self.snapshot.clone()
        }
    }
}

/// Splits the mark for a kind of code from a function.
fn marked(text: &str) -> (&str, &str) {
    let is_marked = ["_k_", "_i_", "_j_"].iter().any(|mark| text.starts_with(mark));
    text.split_at(if is_marked { 3 } else { 0 })
}

/// The state of a thread that the text of a frame stands for.
fn state(text: &str) -> Option<ThreadState> {
    let text = text.strip_prefix('[')?.strip_suffix(']')?;
    Some(match text.split_once(": ") {
        Some(("blocked", what)) => ThreadState::Blocked(Blocked::For(what.to_owned())),
        Some(("waiting", what)) => ThreadState::Blocked(Blocked::Events(what.to_owned())),
        Some(("runnable", "preempted")) => ThreadState::Runnable(Runnable::Preempted),
        Some(("runnable", _)) => ThreadState::Runnable(Runnable::Woken),
        _ => return None,
    })
}
