//! The bytes of feature sections that are a list of fields: one description for reading and writing.

use decoder::Endian;
use model::Name;

use super::{
    ClockData, Compression, CpuCache, CpuCounts, Features, GroupDescription, NumaNode, PmuCapabilities, bit,
};
use crate::bytes::Bytes;
use crate::error::Error;

/// perf pads strings to a multiple of this (`NAME_ALIGN` in `tools/perf/util/header.c`).
pub(super) const STRING_ALIGNMENT: usize = 64;

/// The body of a section that is being written.
pub(super) struct Body {
    pub(super) bytes: Vec<u8>,
    pub(super) endian: Endian,
}

impl Body {
    pub(super) fn u32s(&mut self, values: &[u32]) {
        values.iter().for_each(|value| value.encode(self));
    }

    pub(super) fn u64s(&mut self, values: &[u64]) {
        values.iter().for_each(|value| value.encode(self));
    }

    /// A number of elements. No section holds 2^32 of anything: their strings alone would not fit into memory.
    pub(super) fn count(&mut self, count: usize) {
        self.u32s(&[count as u32]);
    }

    /// Text, a NUL, and padding up to `padded` bytes.
    pub(super) fn padded(&mut self, text: &Name, padded: usize) {
        let end = self.bytes.len() + padded;
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.resize(end, 0);
    }
}

/// A value in a section.
pub(super) trait Field: Sized {
    /// Parses the value; `name` is for errors.
    fn parse(bytes: &mut Bytes<'_>, name: &'static str) -> Result<Self, Error>;
    /// Appends the value.
    fn encode(&self, body: &mut Body);
    /// Returns true if a section with this value alone would say nothing, so that it is not written.
    fn is_absent(&self) -> bool {
        false
    }
}

macro_rules! number {
    ($number:ident, $bytes:ident) => {
        impl Field for $number {
            fn parse(bytes: &mut Bytes<'_>, name: &'static str) -> Result<Self, Error> {
                bytes.$number(name)
            }

            fn encode(&self, body: &mut Body) {
                body.bytes.extend_from_slice(&body.endian.$bytes(*self));
            }
        }
    };
}

number!(u32, u32_bytes);
number!(u64, u64_bytes);

/// `struct perf_header_string`: the padded length, the bytes, a NUL, padding.
impl Field for Name {
    fn parse(bytes: &mut Bytes<'_>, name: &'static str) -> Result<Self, Error> {
        bytes.string(name)
    }

    fn encode(&self, body: &mut Body) {
        let padded = (self.as_bytes().len() + 1).next_multiple_of(STRING_ALIGNMENT);
        body.count(padded);
        body.padded(self, padded);
    }
}

/// The number of elements (u32), then these.
impl<T: Field> Field for Vec<T> {
    fn parse(bytes: &mut Bytes<'_>, name: &'static str) -> Result<Self, Error> {
        let count = bytes.u32(name)?;
        bytes.list(count.into(), |bytes| T::parse(bytes, name))
    }

    fn encode(&self, body: &mut Body) {
        body.count(self.len());
        self.iter().for_each(|element| element.encode(body));
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

/// A value that is there in each section that has bytes.
impl<T: Field> Field for Option<T> {
    fn parse(bytes: &mut Bytes<'_>, name: &'static str) -> Result<Self, Error> {
        T::parse(bytes, name).map(Some)
    }

    fn encode(&self, body: &mut Body) {
        self.iter().for_each(|value| value.encode(body));
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

/// True by the presence of its section, which has no bytes.
impl Field for bool {
    fn parse(_: &mut Bytes<'_>, _: &'static str) -> Result<Self, Error> {
        Ok(true)
    }

    fn encode(&self, _: &mut Body) {}

    fn is_absent(&self) -> bool {
        !self
    }
}

impl<A: Field, B: Field> Field for (A, B) {
    fn parse(bytes: &mut Bytes<'_>, name: &'static str) -> Result<Self, Error> {
        Ok((A::parse(bytes, name)?, B::parse(bytes, name)?))
    }

    fn encode(&self, body: &mut Body) {
        self.0.encode(body);
        self.1.encode(body);
    }
}

/// The fields of a structure in their order, with their names in errors, behind its version if it has one. Any version is read: later
/// ones add fields at the end.
macro_rules! structure {
    ($structure:ident [$($version:literal)?] { $($field:ident: $name:literal),* }) => {
        impl Field for $structure {
            fn parse(bytes: &mut Bytes<'_>, _: &'static str) -> Result<Self, Error> {
                let version: &[u32] = &[$($version)?];
                for _ in version {
                    bytes.u32("version")?;
                }
                $(let $field = Field::parse(bytes, $name)?;)*
                Ok(Self { $($field),* })
            }

            fn encode(&self, body: &mut Body) {
                body.u32s(&[$($version)?]);
                $(self.$field.encode(body);)*
            }
        }
    };
}

structure!(CpuCounts [] { available: "available", online: "online" });
structure!(NumaNode [] { node: "node", total: "total", free: "free", cpus: "cpus" });
structure!(GroupDescription [] { name: "name", leader: "leader", members: "members" });
structure!(CpuCache [] {
    level: "level", line_size: "line size", sets: "sets", ways: "ways", kind: "type", size: "size", cpus: "cpus"
});
structure!(Compression [0] { kind: "type", level: "level", ratio: "ratio", mmap_len: "mmap_len" });
structure!(ClockData [1] { clockid: "clockid", wall_clock: "wall clock", clock: "clock" });
structure!(PmuCapabilities [] { capabilities: "capabilities", pmu: "pmu" });

/// The sections that are fields only, each with its member of [`Features`] and its name in errors.
macro_rules! sections {
    ($($bit:ident: $member:ident, $name:literal;)*) => {
        /// Parses a section into the features. Returns false if it is not one of these.
        pub(super) fn parse(features: &mut Features, feature: u32, bytes: &mut Bytes<'_>) -> Result<bool, Error> {
            match feature {
                $(bit::$bit => features.$member = Field::parse(bytes, $name)?,)*
                _ => return Ok(false),
            }
            Ok(true)
        }

        /// Appends the body of one of these sections. Returns false if there is nothing to say.
        pub(super) fn encode(features: &Features, feature: u32, body: &mut Body) -> bool {
            match feature {
                $(bit::$bit if !features.$member.is_absent() => features.$member.encode(body),)*
                _ => return false,
            }
            true
        }
    };
}

sections! {
    HOSTNAME: hostname, "hostname";
    OSRELEASE: os_release, "release";
    VERSION: version, "version";
    ARCH: arch, "machine";
    NRCPUS: cpus, "CPUs";
    CPUDESC: cpu_description, "model";
    CPUID: cpu_id, "id";
    TOTAL_MEM: total_memory, "total";
    CMDLINE: command_line, "arguments";
    NUMA_TOPOLOGY: numa_topology, "nodes";
    BRANCH_STACK: branch_stack, "";
    PMU_MAPPINGS: pmu_mappings, "pmus";
    GROUP_DESC: groups, "groups";
    STAT: stat, "";
    SAMPLE_TIME: sample_time, "sample time";
    CLOCKID: clock_resolution, "resolution";
    DIR_FORMAT: directory_version, "version";
    COMPRESSED: compression, "compression";
    CPU_PMU_CAPS: cpu_pmu_capabilities, "capabilities";
    CLOCK_DATA: clock, "clock";
    HYBRID_TOPOLOGY: hybrid_topology, "pmus";
    PMU_CAPS: pmu_capabilities, "pmus";
}
