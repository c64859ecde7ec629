//! A machine made up for tests of views.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::collections::HashMap;
use std::sync::Arc;

use model::{
    AddressKind, Frame, Name, ObjectIdentity, Pid, Reason, Resolution, Space, SpaceTable, StackEntry,
    Symbolized, Tid,
};
use prof_profile::{Detail, FrameKind, Label, Profile, Show, View, Weight};

/// Two objects, a kernel and generated code; functions by offset.
pub(crate) struct World {
    pub(crate) spaces: SpaceTable,
    pub(crate) names: HashMap<StackEntry, Resolution>,
    pub(crate) profile: Profile,
}

impl World {
    pub(crate) fn new(detail: Detail) -> Self {
        Self { spaces: SpaceTable::default(), names: HashMap::new(), profile: Profile::new(detail) }
    }

    pub(crate) fn entry(&mut self, space: Space, offset: u64, functions: &[&str]) -> StackEntry {
        let in_kernel = matches!(space, Space::Kernel { .. });
        let kind = AddressKind::ReturnAddress;
        let entry = StackEntry { offset, space: self.spaces.intern(space), kind, in_kernel };
        let frames: Vec<_> = functions
            .iter()
            .enumerate()
            .map(|(index, function)| Frame {
                function: Arc::from(*function),
                location: None,
                inlined: index + 1 < functions.len(),
            })
            .collect();
        let resolution = if frames.is_empty() {
            Resolution::Unresolved(Reason::NoSymbols)
        } else {
            Resolution::Resolved(Symbolized { frames: frames.into(), symbol_offset: None })
        };
        self.names.insert(entry, resolution);
        entry
    }

    pub(crate) fn user(&mut self, offset: u64, functions: &[&str]) -> StackEntry {
        let identity = ObjectIdentity { path: Name::from("/usr/bin/app"), build_id: None, file: None };
        self.entry(Space::Object(identity), offset, functions)
    }

    pub(crate) fn kernel(&mut self, offset: u64, functions: &[&str]) -> StackEntry {
        self.entry(Space::Kernel { build_id: None, text: None }, offset, functions)
    }

    pub(crate) fn add(&mut self, tid: i32, entries: &[StackEntry], period: u64) {
        let stack = self.profile.stacks.intern(entries);
        self.profile.add(&Name::from("app"), Pid(1), Tid(tid), stack, period);
    }

    pub(crate) fn view(&self, show: Show, weight: Weight) -> View<'_> {
        View::new(&self.profile, &self.spaces, |_, entry| self.names.get(entry), show, weight)
    }

    pub(crate) fn rows(&self, show: Show, weight: Weight) -> Vec<String> {
        let view = self.view(show, weight);
        let mut rows = Vec::new();
        view.tree(0.0).rows(|frames, weight, left_out| {
            assert_eq!(left_out, 0);
            let frames: Vec<_> =
                frames.iter().map(|frame| text(&view.frames().frames()[frame.index()])).collect();
            rows.push(format!("{} {weight}", frames.join(";")));
        });
        rows.sort();
        rows
    }
}

pub(crate) fn text(frame: &prof_profile::ViewFrame) -> String {
    let name = match &frame.label {
        Label::Comm(comm) => comm.to_string(),
        Label::Thread(comm, pid, tid) => format!("{comm}-{pid}/{tid}"),
        Label::Cpu(cpu) => format!("CPU {}", cpu.0),
        Label::Container(name) | Label::Cgroup(name) => name.to_string(),
        Label::Process(comm, pid) => format!("{comm}-{pid}"),
        Label::Function(function, None) => function.to_string(),
        Label::Function(function, Some(module)) => format!("{module}!{function}"),
        Label::Module(module, offset) => format!("[{module} {offset:?}]"),
        Label::Unknown(offset) => format!("[? {offset:?}]"),
        Label::Truncated(reason) => format!("[{reason}]"),
        Label::State(state) => format!("[{state}]"),
        Label::NotSampled => "[not sampled]".to_owned(),
    };
    match frame.kind {
        FrameKind::User => name,
        FrameKind::Kernel => name + "/k",
        FrameKind::Inlined => name + "/i",
        FrameKind::Jit => name + "/j",
    }
}
