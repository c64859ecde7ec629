//! Sets of CPUs: `struct perf_record_cpu_map_data`.

use std::fmt;

use crate::bytes::Bytes;
use crate::error::Error;

/// A set of CPUs as a recording states it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CpuMap {
    /// "Any CPU" is among them.
    pub any: bool,
    /// The CPUs, as first and last of each run, ascending as recorded.
    pub ranges: Vec<(u32, u32)>,
}

impl CpuMap {
    fn push(&mut self, cpu: u32) {
        match self.ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(cpu) => *last = cpu,
            _ => self.ranges.push((cpu, cpu)),
        }
    }

    /// Reads the kind (0 numbers, 1 mask, 2 range) and its data. The structures are packed.
    pub(super) fn parse(bytes: &mut Bytes<'_>) -> Result<Self, Error> {
        let mut map = Self { any: false, ranges: Vec::new() };
        match bytes.u16("type")? {
            0 => {
                let count = bytes.u16("nr")?;
                for _ in 0..count {
                    match bytes.u16("cpu")? {
                        u16::MAX => map.any = true,
                        cpu => map.push(cpu.into()),
                    }
                }
            }
            1 => {
                let count = bytes.u16("nr")?;
                let long_size = bytes.u16("long_size")?;
                if long_size == 8 {
                    // The words are aligned to their size, counted from the record's start.
                    bytes.u16("padding")?;
                }
                for word in 0..u32::from(count) {
                    let (mask, bits) = match long_size {
                        4 => (u64::from(bytes.u32("mask")?), 32),
                        8 => (bytes.u64("mask")?, 64),
                        other => return Err(bytes.wrong("long_size", 2, other.into(), "expected 4 or 8")),
                    };
                    (0..bits)
                        .filter(|bit| mask & (1 << bit) != 0)
                        .for_each(|bit| map.push(word * bits + bit));
                }
            }
            2 => {
                map.any = bytes.u8("any_cpu")? != 0;
                bytes.u8("padding")?;
                let range = (bytes.u16("start_cpu")?.into(), bytes.u16("end_cpu")?.into());
                map.ranges.push(range);
            }
            other => return Err(bytes.wrong("type", 2, other.into(), "expected 0, 1 or 2")),
        }
        Ok(map)
    }
}

impl fmt::Display for CpuMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        if self.any {
            f.write_str("any")?;
            separator = ",";
        }
        for &(first, last) in &self.ranges {
            write!(f, "{separator}{first}")?;
            if last != first {
                write!(f, "-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}
