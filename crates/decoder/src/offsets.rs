//! Where fields lie in records, in bytes from their beginning: for who changes or passes on records without decoding them.

use crate::flags::SampleFormat;
use crate::header::HEADER_SIZE;
use crate::layout::{SAMPLE_HEAD, TRAILER};

/// `type` of `struct perf_event_header`, 32 bits.
pub const KIND: usize = 0;
/// `misc` of `struct perf_event_header`, 16 bits.
pub const MISC: usize = 4;
/// `size` of `struct perf_event_header`, 16 bits.
pub const SIZE: usize = 6;
/// The process in MMAP, MMAP2, COMM, FORK, EXIT and NAMESPACES, 32 bits (`perf_event_open(2)`).
pub const PROCESS: usize = 8;
/// The thread in MMAP, MMAP2, COMM and NAMESPACES, 32 bits.
pub const THREAD: usize = 12;
/// The process that runs next or ran before in SWITCH_CPU_WIDE, 32 bits.
pub const OTHER_PROCESS: usize = 8;
/// The parent process in FORK and EXIT, 32 bits.
pub const PARENT_PROCESS: usize = 12;
/// The thread in FORK and EXIT, 32 bits.
pub const TASK_THREAD: usize = 16;
/// The time in THROTTLE and UNTHROTTLE, 64 bits.
pub const THROTTLE_TIME: usize = 8;
/// The id of the event's instance in THROTTLE and UNTHROTTLE, 64 bits.
pub const THROTTLE_STREAM: usize = 24;
/// The number of lost records in LOST, 64 bits.
pub const LOST_COUNT: usize = 16;
/// The time in FORK and EXIT, 64 bits. That in the trail of a FORK is earlier: the process is not there yet.
pub const TASK_TIME: usize = 24;

/// Returns the offset in a sample of this format of one of [`SAMPLE_HEAD`]'s parts. TID is the process, 32 bits, and then the
/// thread.
pub const fn in_sample(format: SampleFormat, part: SampleFormat) -> usize {
    let (mut offset, mut parts) = (HEADER_SIZE, SAMPLE_HEAD.as_slice());
    while let [first, rest @ ..] = parts {
        if first.bits() == part.bits() {
            break;
        }
        offset += if format.contains(*first) { 8 } else { 0 };
        parts = rest;
    }
    offset
}

/// Returns the offset in a sample of this format of its thread, 32 bits.
pub const fn thread_in_sample(format: SampleFormat) -> usize {
    in_sample(format, SampleFormat::TID) + 4
}

/// Returns how far before the end of a record that is no sample a part of its trailer begins (`sample_id_all`).
pub const fn from_end(format: SampleFormat, part: SampleFormat) -> usize {
    let (mut distance, mut parts) = (0, TRAILER.as_slice());
    while let [rest @ .., last] = parts {
        distance += if format.contains(*last) { 8 } else { 0 };
        if last.bits() == part.bits() {
            break;
        }
        parts = rest;
    }
    distance
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_behind_those_before_them() {
        let format = SampleFormat::IDENTIFIER | SampleFormat::IP | SampleFormat::TID | SampleFormat::TIME;
        assert_eq!(in_sample(format, SampleFormat::IDENTIFIER), 8);
        assert_eq!((in_sample(format, SampleFormat::TID), thread_in_sample(format)), (24, 28));
        assert_eq!(in_sample(format, SampleFormat::CPU), 40);
        assert_eq!(in_sample(format | SampleFormat::ADDR, SampleFormat::CPU), 48);
        let format = format | SampleFormat::CPU;
        assert_eq!(from_end(format, SampleFormat::IDENTIFIER), 8);
        assert_eq!((from_end(format, SampleFormat::TIME), from_end(format, SampleFormat::TID)), (24, 32));
    }
}
