//! Builds snapshots by hand, for tests.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use model::{AddressKind, Name, ObjectIdentity, Pid, Space, SpaceId, StackEntry};
use profile::FrameKind;

use crate::snapshot::{
    CountedStack, EventStatus, Frame, FrameNode, Function, LookupAddress, Snapshot, Span, StackNode,
    StateKind, Status, Task,
};

/// The next [`Snapshot::numbering`]: each snapshot that is built here numbers its functions anew.
static NUMBERINGS: AtomicU64 = AtomicU64::new(1);

/// Builds a snapshot from stacks that are written as text.
#[derive(Default)]
pub struct SnapshotBuilder {
    functions: Vec<Function>,
    /// The frames of each address.
    addresses: Vec<Vec<Frame>>,
    tasks: Vec<Task>,
    /// Without the empty stack.
    stack_nodes: Vec<StackNode>,
    stacks: Vec<CountedStack>,
}

impl SnapshotBuilder {
    /// Adds a stack, outermost frame first: `main;read;_k_vfs_read`. `_k_`, `_i_` and `_j_` mark kernel, inlined and
    /// generated code; kernel functions lie in `kernel.kallsyms`, others in `app`, or what stands after `@`. `[blocked…`,
    /// `[runnable…` and `[waiting…` are states of the thread.
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
        let task = Task { pid, tid, comm: comm.into(), container: container.map(Arc::from) };
        let task = position(&mut self.tasks, task);
        let frames: Vec<Frame> = frames
            .split(';')
            .map(|text| {
                let (kind, text) = match text.get(..3) {
                    Some("_k_") => (FrameKind::Kernel, &text[3..]),
                    Some("_i_") => (FrameKind::Inlined, &text[3..]),
                    Some("_j_") => (FrameKind::Jit, &text[3..]),
                    _ => (FrameKind::User, text),
                };
                let in_kernel = kind == FrameKind::Kernel;
                let state = state_kind(text);
                let default = match in_kernel {
                    true => "kernel.kallsyms",
                    false if state.is_some() => "",
                    false => "app",
                };
                let (name, module) = text.split_once('@').unwrap_or((text, default));
                let function = Function { name: name.into(), module: module.into() };
                Frame { function: position(&mut self.functions, function), kind, in_kernel, state }
            })
            .collect();
        // Inlined frames share the address of the frame that they were inlined into; all other frames have one each.
        let by_address = frames.chunk_by(|_, next| next.kind == FrameKind::Inlined);
        let mut stack = 0;
        for frames in by_address {
            let address = position(&mut self.addresses, frames.to_vec());
            stack = 1 + position(&mut self.stack_nodes, StackNode { caller: stack, address });
        }
        self.stacks.push(CountedStack { event: 0, task, stack, samples, weight: samples });
        self
    }

    /// Returns [`Snapshot::frame_nodes`] and [`Snapshot::leaf_nodes`].
    fn frame_nodes(&self) -> (Vec<FrameNode>, Vec<u32>) {
        // Without the root, which would be equal to a frame node of the first function.
        let (mut frame_nodes, mut leaf_nodes) = (Vec::new(), vec![0]);
        for &StackNode { caller, address } in &self.stack_nodes {
            let mut leaf: u32 = leaf_nodes[caller as usize];
            for &frame in &self.addresses[address as usize] {
                leaf = 1 + position(&mut frame_nodes, FrameNode { caller: leaf, frame });
            }
            leaf_nodes.push(leaf);
        }
        frame_nodes.insert(0, FrameNode::ROOT);
        (frame_nodes, leaf_nodes)
    }

    /// Returns the snapshot, with a window of ten seconds on two CPUs.
    pub fn snapshot(&self) -> Snapshot {
        let samples = self.stacks.iter().map(|stack| stack.samples).sum();
        let (mut addresses, mut frames) = (Vec::new(), Vec::new());
        for of_address in &self.addresses {
            let start = frames.len() as u32;
            frames.extend_from_slice(of_address);
            let function = of_address.first().map_or(0, |frame| frame.function);
            addresses.push(lookup_address(
                function,
                &self.functions[function as usize],
                start..frames.len() as u32,
            ));
        }
        let (frame_nodes, leaf_nodes) = self.frame_nodes();
        Snapshot {
            functions: self.functions.iter().cloned().collect(),
            addresses: addresses.into_iter().collect(),
            frame_nodes: frame_nodes.into_iter().collect(),
            leaf_nodes: leaf_nodes.into_iter().collect(),
            stack_nodes: [StackNode { caller: 0, address: 0 }]
                .iter()
                .chain(&self.stack_nodes)
                .copied()
                .collect(),
            numbering: NUMBERINGS.fetch_add(1, Ordering::Relaxed),
            recording: None,
            tasks: self.tasks.clone(),
            stacks: self.stacks.clone(),
            status: Status {
                target: "whole system".to_owned(),
                events: vec![EventStatus {
                    name: "cpu-clock".to_owned(),
                    frequency: Some(997),
                    unit: "samples".to_owned(),
                    is_time: false,
                }],
                cpus: 2,
                span: Span::Window,
                covered: Duration::from_secs(10),
                window: Duration::from_secs(10),
                samples,
                complete: Some(samples),
                own_cpu: 0.4,
                own_memory: 23 << 20,
                ..Status::default()
            },
        }
    }
}

/// The address of a function, given by its number. Functions lie 0x100 bytes apart in their object or in the kernel.
fn lookup_address(number: u32, function: &Function, frames: Range<u32>) -> LookupAddress {
    let in_kernel = &*function.module == "kernel.kallsyms";
    let space = match (in_kernel, &*function.module) {
        (true, _) => Space::Kernel { build_id: None, text: None },
        (false, "") => Space::Unmapped { pid: Pid(300), generation: 0 },
        (false, module) => {
            let path = Name::from(format!("/bin/{module}").as_str());
            Space::Object(ObjectIdentity { path, build_id: None, file: None })
        }
    };
    let offset = if in_kernel { 0xffff_ffff_8100_0000 } else { 0x1000 } + 0x100 * u64::from(number);
    let kind = AddressKind::InstructionPointer;
    let space_number = SpaceId(u32::from(in_kernel));
    LookupAddress {
        entry: StackEntry { offset, space: space_number, kind, in_kernel },
        space: Arc::new(space),
        frames,
        is_resolved: true,
    }
}

/// The state of a thread that the text of a frame stands for.
fn state_kind(text: &str) -> Option<StateKind> {
    let states = [
        ("[running: ", StateKind::Running),
        ("[runnable", StateKind::Runnable),
        ("[blocked", StateKind::Blocked),
        ("[waiting: ", StateKind::AtRest),
        ("[unknown: switches", StateKind::Unknown),
    ];
    states.iter().find(|(prefix, _)| text.starts_with(prefix)).map(|(_, state)| *state)
}

fn position<T: PartialEq>(list: &mut Vec<T>, item: T) -> u32 {
    let known = list.iter().position(|known| *known == item);
    known.unwrap_or_else(|| {
        list.push(item);
        list.len() - 1
    }) as u32
}
