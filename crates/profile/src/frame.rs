//! The frames of views, and the table that keeps each once.

use std::sync::Arc;

use model::{CpuId, Name, Pid, SourceLocation, Space, ThreadState, Tid, TruncationReason};

use crate::index::Index;
use crate::runtime_names::{self, Tiers};
use crate::start_frames::StartPart;

/// A frame of a view. Equal frames are drawn as one.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ViewFrame {
    /// The name, or what stands in for one.
    pub label: Label,
    /// The kind of code.
    pub kind: FrameKind,
    /// The line of the source, where the view shows lines and it is known.
    pub line: Option<SourceLocation>,
}

impl ViewFrame {
    /// Returns the frame with no module beside the name of its function.
    #[must_use]
    pub fn without_module(&self) -> Self {
        match &self.label {
            Label::Function(name, Some(_)) => {
                Self { label: Label::Function(Arc::clone(name), None), ..self.clone() }
            }
            _ => self.clone(),
        }
    }
}

/// The name of a frame, before a format makes text of it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Label {
    /// The root of all stacks of threads with this name.
    Comm(Name),
    /// The root of all stacks of one thread.
    Thread(Name, Pid, Tid),
    /// The root of all threads of one process.
    Process(Name, Pid),
    /// The root of all threads on one CPU.
    Cpu(CpuId),
    /// The root of all threads in one container, or of those in none.
    Container(Name),
    /// The root of all threads in one cgroup, by its path.
    Cgroup(Name),
    /// A function, with its module where the view shows modules.
    Function(Arc<str>, Option<Name>),
    /// A place without a name in this module; with the start of its function where that is known, with its own offset where
    /// the view shows addresses.
    Module(Name, Option<u64>),
    /// An address of which not even the module is known, where the view shows addresses with it.
    Unknown(Option<u64>),
    /// The stack ends early here.
    Truncated(TruncationReason),
    /// The state of a thread with the stack below, in a profile of time.
    State(ThreadState),
    /// CPU time that has no samples.
    NotSampled,
}

impl Label {
    /// Returns true if it is a thread, a process or the like, not yet a function.
    pub fn is_thread(&self) -> bool {
        matches!(
            self,
            Self::Comm(_)
                | Self::Thread(..)
                | Self::Process(..)
                | Self::Cpu(_)
                | Self::Container(_)
                | Self::Cgroup(_)
        )
    }
}

/// The kind of code that a frame ran.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FrameKind {
    /// In user space, or not code at all.
    User,
    /// In the kernel.
    Kernel,
    /// Within its caller, as the compiler put it there.
    Inlined,
    /// In generated code.
    Jit,
}

/// The number of a frame among those of a view or of a call tree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct FrameId(u32);

impl FrameId {
    /// The frame at this position; there are at most 2^32.
    pub fn from_index(index: usize) -> Self {
        Self(index as u32)
    }

    /// The position in [`FrameTable::frames`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Marks of a frame that filters set, and its part in the start of a thread. Frames with the same text may have different marks, where they are
/// of two modules.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub(crate) struct Marks {
    /// A reason for its samples to stay.
    pub(crate) keeps: bool,
    /// A new outermost frame.
    pub(crate) roots: bool,
    /// What it has to do with the start of a program or thread, where these are to be folded.
    pub(crate) starts: StartPart,
}

/// Frames, each kept once.
#[derive(Default, Debug)]
pub struct FrameTable {
    frames: Vec<ViewFrame>,
    /// The marks of filters: a part of what makes frames differ.
    marks: Vec<Marks>,
    /// The compilers that made the code of each frame's function, which are all one frame.
    tiers: Vec<Tiers>,
    index: Index,
}

impl FrameTable {
    pub(crate) fn marks(&self, frame: FrameId) -> Marks {
        self.marks[frame.index()]
    }

    /// Returns true if two frames are of the same function, inlined or not.
    pub(crate) fn same_function(&self, one: FrameId, other: FrameId) -> bool {
        self.frames[one.index()].label == self.frames[other.index()].label
    }

    /// Returns all frames of the view. A [`FrameId`] is a position in this list.
    pub fn frames(&self) -> &[ViewFrame] {
        &self.frames
    }

    /// Returns the compilers that made the code of each frame's function, in the order of [`Self::frames`].
    pub fn tiers(&self) -> &[Tiers] {
        &self.tiers
    }

    /// The number of a frame.
    pub fn intern(&mut self, frame: ViewFrame) -> FrameId {
        self.intern_marked(frame, Marks::default(), Tiers::empty())
    }

    pub(crate) fn intern_marked(&mut self, frame: ViewFrame, marks: Marks, tiers: Tiers) -> FrameId {
        let (frames, all_marks) = (&self.frames, &self.marks);
        let next = frames.len() as u32;
        let hash = self.index.hash_of(&frame);
        let is = |number: u32| frames[number as usize] == frame && all_marks[number as usize] == marks;
        let number = self.index.find_or_add(hash, is, next);
        if number == next {
            // 2^32 distinct names do not fit into memory.
            self.frames.push(frame);
            self.marks.push(marks);
            self.tiers.push(tiers);
        } else if let Some(known) = self.tiers.get_mut(number as usize) {
            *known |= tiers;
        }
        FrameId(number)
    }
}

/// The short name of the module that a space is, without brackets; `None` where there is none.
pub fn module_of(space: &Space) -> Option<Name> {
    let bare =
        |name: &[u8]| Name::new(name.strip_prefix(b"[").and_then(|n| n.strip_suffix(b"]")).unwrap_or(name));
    Some(match space {
        Space::Object(object) => bare(object.path.base_name()),
        Space::Vdso { .. } => Name::from("vdso"),
        Space::Kernel { .. } => Name::from("kernel.kallsyms"),
        Space::KernelModule { name, .. } => bare(&kernel_module_name(name.base_name())),
        Space::KernelSymbol { name } => name.clone(),
        Space::Jit { mapping: path, .. } | Space::JitDump { path, .. } => bare(path.base_name()),
        Space::JavaScript { name } => {
            let text = name.to_string();
            match runtime_names::parse(&text, true).and_then(|name| name.script) {
                Some(script) => Name::from(script),
                None => bare(name.as_bytes()),
            }
        }
        Space::TaskLabel { .. } => return None,
        Space::Python { file, function } if file.is_empty() => bare(function.as_bytes()),
        Space::Python { file, .. } => {
            let path = file.to_string();
            Name::from(runtime_names::python_script(&path).unwrap_or(&path))
        }
        Space::Unmapped { .. } | Space::Truncated(_) | Space::State(_) | Space::Foreign(_) => return None,
    })
}

/// The kernel's own name of a module (`/proc/modules`) from its file's: `iwl-mvm.ko.xz` is `iwl_mvm`.
fn kernel_module_name(file: &[u8]) -> Vec<u8> {
    match file.windows(3).position(|part| part == b".ko") {
        Some(end) => file[..end].iter().map(|&byte| if byte == b'-' { b'_' } else { byte }).collect(),
        None => file.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_have_one_name_whatever_the_recording_calls_them() {
        let module = |name: &str| {
            module_of(&Space::KernelModule { name: Name::from(name), build_id: None, start: 0 }).unwrap()
        };
        for name in ["[iwl_mvm]", "/lib/modules/6.1/kernel/iwl-mvm.ko", "/lib/modules/6.1/iwl-mvm.ko.xz"] {
            assert_eq!(module(name), Name::from("iwl_mvm"));
        }
        assert_eq!(module("[bpf]"), Name::from("bpf"));
    }
}
