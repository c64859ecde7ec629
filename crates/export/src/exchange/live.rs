//! Stacks that are counted while a recording runs, an interval at a time, for engines for profiles.

use std::collections::HashMap;
use std::io;

use model::{Space, SpaceId};
use profile::{Count, FrameKind};

use super::ObjectIds;
use super::batch::{Batch, ProfileKind};
use super::dictionary::{Dictionary, Function, Line, Location, StackCount, Thread};
use super::ingest::{self, IngestedProfile};
use super::otlp::{self, RequestLimits};
use super::resource::Resource;

/// The counted stacks of an interval. Threads, locations and stacks get numbers, which later calls refer to.
pub struct LiveInterval {
    dictionary: Dictionary,
    kinds: Vec<ProfileKind>,
    resources: HashMap<i32, Resource>,
    started_unix_ns: u64,
    duration_ns: u64,
    display_name: fn(&str) -> String,
}

/// The place of code.
#[derive(Clone, Copy, Debug)]
pub struct LivePlace<'a> {
    /// The number of its space.
    pub id: SpaceId,
    /// The space.
    pub space: &'a Space,
    /// The offset in the space.
    pub offset: u64,
    /// True for code of the kernel.
    pub in_kernel: bool,
    /// The kind of generated code, as `profile.frame.type` names it.
    pub generated_kind: Option<&'static str>,
}

impl LiveInterval {
    /// Makes an empty interval with profiles of these kinds. It starts at a time in nanoseconds since 1970, and has a length in nanoseconds.
    /// `display_name` makes the name that users read of a function's linkage name.
    pub fn new(
        kinds: Vec<ProfileKind>,
        started_unix_ns: u64,
        duration_ns: u64,
        display_name: fn(&str) -> String,
    ) -> Self {
        let (dictionary, resources) = Default::default();
        Self { dictionary, kinds, resources, started_unix_ns, duration_ns, display_name }
    }

    /// Returns the number of all threads of this name in a process.
    pub fn thread(&mut self, pid: i32, comm: &str) -> u32 {
        self.dictionary.threads.intern(Thread {
            comm: comm.to_owned(),
            ids: None,
            pid: Some(pid),
            process: None,
            labels: Vec::new(),
        })
    }

    /// Returns the number of a location. `functions` are the linkage names of its functions with their modules, the innermost first.
    pub fn location<'f>(
        &mut self,
        place: LivePlace<'_>,
        functions: impl Iterator<Item = (&'f str, &'f str)>,
    ) -> u32 {
        let all = &mut self.dictionary.functions;
        let line = |(name, module): (&str, &str)| {
            let (name, module, file) = (name.to_owned(), module.to_owned(), String::new());
            Line { function: all.intern(Function { name, module, file, start_line: 0 }), line: 0, column: 0 }
        };
        let lines = functions.map(line).collect();
        let facts = || (ObjectIds::default(), place.generated_kind);
        let mapping = self.dictionary.mapping(place.id, place.space, (place.offset, place.in_kernel), facts);
        let kind = if place.in_kernel { FrameKind::Kernel } else { FrameKind::User };
        let kind = mapping.map(|_| kind);
        self.dictionary.locations.intern(Location { mapping, address: place.offset, lines, kind })
    }

    /// Returns the number of a stack of locations, the innermost first.
    pub fn stack(&mut self, locations: Vec<u32>) -> u32 {
        self.dictionary.stacks.intern(locations)
    }

    /// Adds samples of an event (its position among the kinds).
    pub fn count(&mut self, event: usize, thread: u32, stack: u32, count: Count) {
        self.dictionary.samples.push(StackCount { event, thread, stack, count });
    }

    /// Sets the resource of a process.
    pub fn set_resource(&mut self, pid: i32, resource: Resource) {
        self.resources.insert(pid, resource);
    }

    /// Returns the interval as OTLP export requests, as [`super::requests`] does.
    ///
    /// # Errors
    /// A request cannot be compressed, for want of memory.
    pub fn requests(&self, limits: RequestLimits) -> io::Result<Vec<Vec<u8>>> {
        otlp::requests(&self.batch(), limits)
    }

    /// Returns the interval as profiles for Pyroscope's `/ingest`, as [`super::ingested_profiles`] does.
    ///
    /// # Errors
    /// As [`Self::requests`].
    pub fn ingested_profiles(&self, limits: RequestLimits) -> io::Result<Vec<IngestedProfile>> {
        ingest::profiles(&self.batch(), limits)
    }

    fn batch(&self) -> Batch<'_> {
        Batch {
            dictionary: &self.dictionary,
            kinds: self.kinds.clone(),
            resources: &self.resources,
            started_unix_ns: self.started_unix_ns,
            duration_ns: self.duration_ns,
            display_name: &self.display_name,
        }
    }
}
