//! Snapshots made by hand, for tests.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use model::{AddressKind, Name, ObjectIdentity, Pid, Space, SpaceId, StackEntry};
use profile::FrameKind;

use crate::snapshot::{
    Branch, Call, CountedStack, Doing, EventStatus, Frame, Function, Place, Snapshot, Span, Status, Task,
};

/// Each snapshot that is made here numbers its functions by itself.
static NUMBERINGS: AtomicU64 = AtomicU64::new(1);

/// A snapshot in the making.
#[derive(Default)]
pub struct Build {
    functions: Vec<Function>,
    /// The frames of each place.
    places: Vec<Vec<Frame>>,
    tasks: Vec<Task>,
    /// But for the empty stack.
    calls: Vec<Call>,
    stacks: Vec<CountedStack>,
}

impl Build {
    /// Adds a stack, outermost frame first: `main;read;_k_vfs_read`. `_k_`, `_i_` and `_j_` mark kernel, inlined and
    /// generated code; kernel functions lie in `kernel.kallsyms`, others in `app`, or what stands after `@`. `[blocked…`,
    /// `[runnable…` and `[waiting…` are states of the thread.
    pub fn stack(&mut self, pid: i32, tid: i32, comm: &str, frames: &str, samples: u64) -> &mut Self {
        self.stack_in(None, (pid, tid, comm), frames, samples)
    }

    /// As [`Build::stack`], of a thread in a container.
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
                let state = doing(text);
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
        // Inlined frames lie where their callers do: each other frame is a place of its own.
        let of_places = frames.chunk_by(|_, next| next.kind == FrameKind::Inlined);
        let mut stack = 0;
        for frames in of_places {
            let place = position(&mut self.places, frames.to_vec());
            stack = 1 + position(&mut self.calls, Call { caller: stack, place });
        }
        self.stacks.push(CountedStack { event: 0, task, stack, samples, weight: samples });
        self
    }

    /// Each stack by its frames.
    fn branches(&self) -> (Vec<Branch>, Vec<u32>) {
        // But for the root, which is equal to a call of the first function.
        let (mut branches, mut tips) = (Vec::new(), vec![0]);
        for &Call { caller, place } in &self.calls {
            let mut tip: u32 = tips[caller as usize];
            for &frame in &self.places[place as usize] {
                tip = 1 + position(&mut branches, Branch { caller: tip, frame });
            }
            tips.push(tip);
        }
        branches.insert(0, Branch::ROOT);
        (branches, tips)
    }

    /// The snapshot, of ten seconds of two CPUs.
    pub fn snapshot(&self) -> Snapshot {
        let samples = self.stacks.iter().map(|stack| stack.samples).sum();
        let (mut places, mut frames) = (Vec::new(), Vec::new());
        for of_place in &self.places {
            let start = frames.len() as u32;
            frames.extend_from_slice(of_place);
            let function = of_place.first().map_or(0, |frame| frame.function);
            places.push(place(function, &self.functions[function as usize], start..frames.len() as u32));
        }
        let (branches, tips) = self.branches();
        Snapshot {
            functions: self.functions.iter().cloned().collect(),
            places: places.into_iter().collect(),
            branches: branches.into_iter().collect(),
            tips: tips.into_iter().collect(),
            calls: [Call { caller: 0, place: 0 }].iter().chain(&self.calls).copied().collect(),
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

/// Functions lie one behind the other, in the object or the kernel that they are of.
fn place(number: u32, function: &Function, frames: Range<u32>) -> Place {
    let in_kernel = &*function.module == "kernel.kallsyms";
    let space = match (in_kernel, &*function.module) {
        (true, _) => Space::Kernel { build_id: None, text_address: None },
        (false, "") => Space::Unmapped { pid: Pid(300), generation: 0 },
        (false, module) => {
            let path = Name::from(format!("/bin/{module}").as_str());
            Space::Object(ObjectIdentity { path, build_id: None, file: None })
        }
    };
    let offset = if in_kernel { 0xffff_ffff_8100_0000 } else { 0x1000 } + 0x100 * u64::from(number);
    let kind = AddressKind::InstructionPointer;
    let space_number = SpaceId(u32::from(in_kernel));
    Place {
        entry: StackEntry { offset, space: space_number, kind, in_kernel },
        space: Arc::new(space),
        frames,
        looked_for: true,
    }
}

/// What a frame says that a thread does.
fn doing(text: &str) -> Option<Doing> {
    let states = [
        ("[running: ", Doing::Running),
        ("[runnable", Doing::Runnable),
        ("[blocked", Doing::Blocked),
        ("[waiting: ", Doing::AtRest),
        ("[unknown: switches", Doing::Unknown),
    ];
    states.iter().find(|(begin, _)| text.starts_with(begin)).map(|(_, doing)| *doing)
}

fn position<T: PartialEq>(list: &mut Vec<T>, item: T) -> u32 {
    let known = list.iter().position(|known| *known == item);
    known.unwrap_or_else(|| {
        list.push(item);
        list.len() - 1
    }) as u32
}
