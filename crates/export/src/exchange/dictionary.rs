//! The modules, functions, locations, stacks and threads of all samples of a recording, each once, with ids.

use std::collections::HashMap;

use model::{Name, Space, SpaceId};
use profile::{Count, FrameId, FrameKind, PlaceId, StackId, ThreadId, ViewFrame, module_of};
use rustc_hash::FxBuildHasher;

use super::{ExportedRecording, ObjectIds, SampleLabel};
use crate::interner::Interner;
use crate::report;

/// The function of samples without a stack.
const NO_STACK: &str = "[no stack]";

/// A module, or another space that code lies in.
#[derive(Clone, Debug)]
pub(super) struct Mapping {
    /// The path, or the kernel's name of it.
    pub(super) name: String,
    /// The build id in hexadecimal; empty if unknown.
    pub(super) build_id: String,
    /// Identities beside the build id.
    pub(super) ids: ObjectIds,
    /// The range of its addresses that occur, widened to pages. Addresses of objects are offsets in their files.
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) in_kernel: bool,
    /// The kind of generated code; `None` for other code, and if unknown.
    pub(super) generated_kind: Option<&'static str>,
}

/// A function of the dictionary.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Function {
    pub(super) name: String,
    /// The short name of its module; empty if unknown.
    pub(super) module: String,
    /// The source file; empty if unknown.
    pub(super) file: String,
    /// The line at which it starts; 0 if unknown.
    pub(super) start_line: u32,
}

/// A function with a source line.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Line {
    pub(super) function: u32,
    /// The line, and the column below; 0 if unknown.
    pub(super) line: u32,
    pub(super) column: u32,
}

/// An address with its functions, the innermost first. All but the last are inlined.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Location {
    pub(super) mapping: Option<u32>,
    pub(super) address: u64,
    pub(super) lines: Vec<Line>,
    /// The kind of code of the outermost function; `None` if it is no code.
    pub(super) kind: Option<FrameKind>,
}

/// The thread whose samples are exported.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Thread {
    pub(super) comm: String,
    pub(super) ids: Option<(i32, i32)>,
    /// The process; `None` if the profile keeps neither threads nor processes apart.
    pub(super) pid: Option<i32>,
    /// The name of the process, if the profile keeps processes apart.
    pub(super) process: Option<String>,
    /// The labels of another tool.
    pub(super) labels: Vec<SampleLabel>,
}

/// Samples of one thread with one stack.
#[derive(Clone, Copy, Debug)]
pub(super) struct StackCount {
    pub(super) event: usize,
    pub(super) thread: u32,
    pub(super) stack: u32,
    pub(super) count: Count,
}

/// One sample with its time.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimedSample {
    pub(super) thread: u32,
    pub(super) stack: u32,
    /// The time in nanoseconds of the recording's clock; `None` if samples have none.
    pub(super) time: Option<u64>,
    pub(super) cpu: Option<u32>,
    pub(super) count: Count,
}

impl StackCount {
    /// Returns the samples as one without a time, for profiles that keep no single samples.
    pub(super) fn untimed(&self) -> TimedSample {
        TimedSample { thread: self.thread, stack: self.stack, time: None, cpu: None, count: self.count }
    }
}

/// The ids of an event's threads and stacks in the dictionary.
#[derive(Default)]
struct EventIds {
    threads: Vec<u32>,
    /// Filled only if the profile keeps single samples.
    stacks: HashMap<(ThreadId, StackId), u32, FxBuildHasher>,
}

/// The tables of a recording. Ids are indices.
#[derive(Default)]
pub(super) struct Dictionary {
    pub(super) mappings: Vec<Mapping>,
    pub(super) functions: Interner<Function>,
    pub(super) locations: Interner<Location>,
    /// Ids of locations, the innermost first.
    pub(super) stacks: Interner<Vec<u32>>,
    pub(super) threads: Interner<Thread>,
    /// The counted stacks, event by event.
    pub(super) samples: Vec<StackCount>,
    mapping_of_space: HashMap<SpaceId, u32>,
    /// The ids of each event.
    event_ids: Vec<EventIds>,
}

impl Dictionary {
    pub(super) fn new(recording: &ExportedRecording<'_>) -> Self {
        let mut all = Self::default();
        for (event, samples) in recording.events.iter().enumerate() {
            all.add(recording, event, samples);
        }
        all
    }

    /// Returns the single samples of an event in the order of time; none if its profile did not keep them
    /// ([`profile::Detail::samples`]).
    pub(super) fn timed(
        &self,
        recording: &ExportedRecording<'_>,
        event: usize,
    ) -> impl Iterator<Item = TimedSample> {
        let numbers = self.event_ids.get(event);
        let profile = recording.events.get(event).map(|event| event.view.profile());
        profile.zip(numbers).into_iter().flat_map(|(profile, numbers)| {
            profile.samples().iter().filter_map(|sample| {
                Some(TimedSample {
                    thread: *numbers.threads.get(sample.thread.index())?,
                    stack: *numbers.stacks.get(&(sample.thread, sample.stack))?,
                    time: sample.time.map(|time| time.0),
                    cpu: sample.cpu.map(|cpu| cpu.0),
                    count: sample.count(),
                })
            })
        })
    }

    /// Returns the counted stacks of an event.
    pub(super) fn samples_of(&self, event: usize) -> impl Iterator<Item = &StackCount> {
        self.samples.iter().filter(move |samples| samples.event == event)
    }

    /// Returns the functions of a stack with their locations, the outermost first.
    pub(super) fn lines_of(&self, stack: u32) -> impl Iterator<Item = (&Location, &Line)> {
        let locations = self.stacks.values.get(stack as usize).into_iter().flatten().rev();
        let locations = locations.filter_map(|&location| self.locations.values.get(location as usize));
        locations.flat_map(|location| location.lines.iter().rev().map(move |line| (location, line)))
    }

    /// Returns the kind of code at a location, as `profile.frame.type` of OpenTelemetry's conventions names it; `None` if it is no code.
    /// Languages that compilers make machine code of are known by their source files.
    pub(super) fn frame_type(&self, location: &Location) -> Option<&'static str> {
        let mapping = self.mappings.get(location.mapping? as usize)?;
        if mapping.in_kernel {
            return Some("kernel");
        }
        let function =
            location.lines.last().and_then(|line| self.functions.values.get(line.function as usize));
        let extension =
            function.and_then(|function| function.file.rsplit_once('.')).map(|(_, extension)| extension);
        Some(mapping.generated_kind.unwrap_or(match extension {
            Some("go") => "go",
            Some("rs") => "rust",
            _ => "native",
        }))
    }

    /// Returns the number of samples of each thread, by its id.
    pub(super) fn samples_by_thread(&self) -> Vec<u64> {
        let mut sums = vec![0_u64; self.threads.values.len()];
        for counted in &self.samples {
            if let Some(sum) = sums.get_mut(counted.thread as usize) {
                *sum = sum.saturating_add(counted.count.samples);
            }
        }
        sums
    }

    /// Returns the samples, as those of one event, with what they refer to.
    pub(super) fn of_samples(&self, samples: &[&StackCount]) -> Self {
        let mut some = Self::default();
        let mut mappings: HashMap<u32, u32> = HashMap::new();
        let mut stacks: HashMap<u32, u32> = HashMap::new();
        for sample in samples {
            let Some(thread) = self.threads.values.get(sample.thread as usize) else { continue };
            let thread = some.threads.intern(thread.clone());
            let stack = *stacks.entry(sample.stack).or_insert_with(|| {
                let locations = self.stacks.values.get(sample.stack as usize).into_iter().flatten();
                let locations =
                    locations.filter_map(|&location| self.locations.values.get(location as usize));
                let locations = locations.map(|location| {
                    let lines = location.lines.iter().filter_map(|line| {
                        let function = self.functions.values.get(line.function as usize)?;
                        Some(Line { function: some.functions.intern(function.clone()), ..*line })
                    });
                    let lines = lines.collect();
                    let mapping = location.mapping.and_then(|number| {
                        let mapping = self.mappings.get(number as usize)?;
                        Some(*mappings.entry(number).or_insert_with(|| {
                            some.mappings.push(mapping.clone());
                            (some.mappings.len() - 1) as u32
                        }))
                    });
                    some.locations.intern(Location { mapping, lines, ..location.clone() })
                });
                let locations = locations.collect();
                some.stacks.intern(locations)
            });
            some.samples.push(StackCount { event: 0, thread, stack, count: sample.count });
        }
        some
    }

    fn add(&mut self, recording: &ExportedRecording<'_>, event: usize, of_event: &super::ExportedEvent<'_>) {
        let view = of_event.view;
        let profile = view.profile();
        let threads: Vec<u32> = profile
            .threads()
            .iter()
            .map(|thread| {
                let ids = thread.ids.map(|(pid, tid)| (pid.0, tid.0));
                let process = thread.process.as_ref().map(|(_, name)| name.to_string());
                let pid = thread.process.as_ref().map(|(pid, _)| pid.0).or(ids.map(|(pid, _)| pid));
                let labels = thread.labels.and_then(|number| recording.labels.get(number as usize));
                let labels = labels.cloned().unwrap_or_default();
                self.threads.intern(Thread { comm: thread.comm.to_string(), ids, pid, process, labels })
            })
            .collect();
        let mut stacks = HashMap::default();
        let is_timed = profile.detail().samples.is_some();
        let mut counts: Vec<_> = profile.counts().collect();
        counts.sort_unstable_by_key(|&(thread, stack, _)| (thread, stack));
        let mut frames = Vec::new();
        let mut lines = HashMap::default();
        for (thread, stack, count) in counts {
            frames.clear();
            view.located_stack(thread, stack, &mut frames);
            if frames.is_empty() {
                // Filters omit the whole stack.
                continue;
            }
            let mut locations = Vec::new();
            let functions = frames.iter().filter_map(|&(frame, place)| Some((frame, place?)));
            let functions: Vec<(FrameId, (PlaceId, u32))> = functions.collect();
            for of_place in functions.chunk_by(|(_, one), (_, other)| one == other).rev() {
                locations.push(self.location(recording, view, of_place, &mut lines));
            }
            if locations.is_empty() {
                locations.push(self.no_stack());
            }
            let number = self.stacks.intern(locations);
            if is_timed {
                stacks.insert((thread, stack), number);
            }
            self.samples.push(StackCount { event, thread: threads[thread.index()], stack: number, count });
        }
        self.event_ids.push(EventIds { threads, stacks });
    }

    /// Interns the location of frames at one address, given the outermost first.
    fn location(
        &mut self,
        recording: &ExportedRecording<'_>,
        view: &profile::View<'_>,
        frames: &[(FrameId, (PlaceId, u32))],
        lines: &mut HashMap<FrameId, Line, FxBuildHasher>,
    ) -> u32 {
        let lines = frames.iter().rev().map(|&(frame, _)| {
            *lines.entry(frame).or_insert_with(|| self.line(&view.frames().frames()[frame.index()]))
        });
        let lines = lines.collect();
        let entry =
            frames.first().and_then(|(_, (place, _))| view.profile().stacks.places().get(place.index()));
        let mapping = entry.and_then(|entry| {
            let space = recording.spaces.find(entry.space)?;
            let ids = || recording.object_ids.get(&entry.space).cloned().unwrap_or_default();
            let facts = || (ids(), recording.generated_code_kinds.get(&entry.space).copied());
            self.mapping(entry.space, space, (entry.offset, entry.in_kernel), facts)
        });
        let address = entry.map_or(0, |entry| entry.offset);
        let kind = entry.filter(|_| mapping.is_some()).map(|entry| {
            let is_generated =
                matches!(recording.spaces.find(entry.space), Some(Space::Jit { .. } | Space::JitDump { .. }));
            match (entry.in_kernel, is_generated) {
                (true, _) => FrameKind::Kernel,
                (false, true) => FrameKind::Jit,
                (false, false) => FrameKind::User,
            }
        });
        self.locations.intern(Location { mapping, address, lines, kind })
    }

    fn line(&mut self, frame: &ViewFrame) -> Line {
        let at = frame.line.as_ref();
        let function = self.functions.intern(Function {
            name: report::function(frame),
            module: report::module(frame),
            file: at.map_or_else(String::new, |at| Name::from(&*at.file).to_string()),
            start_line: at.map_or(0, |at| at.start_line),
        });
        Line { function, line: at.map_or(0, |at| at.line), column: at.map_or(0, |at| at.column) }
    }

    fn no_stack(&mut self) -> u32 {
        let (module, file) = (String::new(), String::new());
        let function =
            self.functions.intern(Function { name: NO_STACK.to_owned(), module, file, start_line: 0 });
        let lines = vec![Line { function, line: 0, column: 0 }];
        self.locations.intern(Location { mapping: None, address: 0, lines, kind: None })
    }

    /// Interns the mapping of a space, and widens it to cover the address. Asks for `facts` of a new one.
    pub(super) fn mapping(
        &mut self,
        id: SpaceId,
        space: &Space,
        (address, in_kernel): (u64, bool),
        facts: impl FnOnce() -> (ObjectIds, Option<&'static str>),
    ) -> Option<u32> {
        const PAGE: u64 = 4096;
        let name = match space {
            Space::Object(object) => object.path.to_string(),
            Space::Vdso { .. } => "[vdso]".to_owned(),
            Space::Kernel { .. } => "[kernel.kallsyms]".to_owned(),
            Space::KernelModule { name, .. } => name.to_string(),
            _ => module_of(space)?.to_string(),
        };
        let build_id = match space {
            Space::Object(object) => object.build_id.as_ref(),
            Space::Vdso { build_id }
            | Space::Kernel { build_id, .. }
            | Space::KernelModule { build_id, .. } => build_id.as_ref(),
            _ => None,
        };
        let start = address & !(PAGE - 1);
        let end = start.saturating_add(PAGE);
        let next = self.mappings.len() as u32;
        let number = *self.mapping_of_space.entry(id).or_insert(next);
        if number == next {
            let build_id = build_id.map_or_else(String::new, ToString::to_string);
            let (ids, generated_kind) = facts();
            self.mappings.push(Mapping { name, build_id, ids, start, end, in_kernel, generated_kind });
        }
        let mapping = self.mappings.get_mut(number as usize)?;
        (mapping.start, mapping.end) = (mapping.start.min(start), mapping.end.max(end));
        Some(number)
    }
}
