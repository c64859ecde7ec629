//! The attr of an event that counts.

use decoder::{Attr, AttrFlags, ReadFormat, SampleFormat};

use super::Aggregation;
use crate::attr::size_with;
use crate::event::Event;
use crate::options::{Options, PrivilegeLevels, Target};

/// The format of all counts: the times for which the event was enabled and running, its id, and its lost samples.
const FORMAT: ReadFormat = ReadFormat::TOTAL_TIME_ENABLED
    .union(ReadFormat::TOTAL_TIME_RUNNING)
    .union(ReadFormat::ID)
    .union(ReadFormat::LOST);

/// Returns the attr of an event that counts and takes no samples. Events of a group are read together (`PERF_FORMAT_GROUP`), except
/// where tasks report for themselves.
pub(super) fn counter(event: &Event, options: &Options, aggregation: Aggregation) -> Attr {
    let mut flags = event.modifiers.flags() | AttrFlags::DISABLED;
    match options.levels {
        PrivilegeLevels::AsSelected => {}
        PrivilegeLevels::User => flags |= AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
        PrivilegeLevels::Kernel => flags |= AttrFlags::EXCLUDE_USER,
    }
    flags.set(AttrFlags::INHERIT, options.inherits());
    flags.set(AttrFlags::INHERIT_THREAD, options.inherits() && options.threads_only);
    flags.set(AttrFlags::ENABLE_ON_EXEC, options.target == Target::Command && options.delay.is_none());
    let tasks = aggregation == Aggregation::PerTask;
    let reports = tasks && options.inherits();
    flags.set(AttrFlags::INHERIT_STAT | AttrFlags::SAMPLE_ID_ALL | AttrFlags::WATERMARK, reports);
    let mut read_format = FORMAT;
    read_format.set(ReadFormat::GROUP, event.leader.is_some() && !tasks);
    let sample_format = if reports {
        SampleFormat::IDENTIFIER | SampleFormat::TID | SampleFormat::TIME
    } else {
        SampleFormat::empty()
    };
    Attr { size: size_with(&event.attr), read_format, flags, sample_format, ..event.attr.clone() }
}

/// Returns the attr of an event that counts nothing, and whose running time is the time of a thread on a CPU. Where another event
/// there ran for less, it lacked a counter.
pub(super) fn presence(options: &Options, user_only: bool) -> Attr {
    let mut flags = AttrFlags::DISABLED | AttrFlags::EXCLUDE_GUEST;
    flags.set(AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV, user_only);
    flags.set(AttrFlags::INHERIT, options.inherits());
    flags.set(AttrFlags::INHERIT_THREAD, options.inherits() && options.threads_only);
    flags.set(AttrFlags::ENABLE_ON_EXEC, options.target == Target::Command && options.delay.is_none());
    Attr { read_format: FORMAT, flags, ..crate::attr::dummy() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::select;
    use model::Pid;

    fn attr(list: &str, options: &Options, aggregation: Aggregation) -> Attr {
        counter(&select(list, &Vec::new()).unwrap()[0], options, aggregation)
    }

    #[test]
    fn a_counter_takes_no_samples() {
        let command = Options::new(Target::Command);
        let alone = attr("cycles:u", &command, Aggregation::Total);
        assert_eq!(
            (alone.sample_period, alone.sample_format, alone.read_format),
            (0, SampleFormat::empty(), FORMAT)
        );
        assert!(
            alone.flags.contains(AttrFlags::INHERIT | AttrFlags::ENABLE_ON_EXEC | AttrFlags::EXCLUDE_KERNEL)
        );
        assert!(!alone.flags.intersects(AttrFlags::INHERIT_STAT | AttrFlags::FREQ));
        let group = attr("{cycles,instructions}", &command, Aggregation::PerCpu);
        assert!(group.read_format.contains(ReadFormat::GROUP));
        let whole = attr("cycles", &Options::new(Target::System), Aggregation::Total);
        assert!(!whole.flags.intersects(AttrFlags::INHERIT | AttrFlags::ENABLE_ON_EXEC));
    }

    #[test]
    fn tasks_report_at_their_ends() {
        let processes = Options::new(Target::Processes(vec![Pid(1)]));
        let reporting = attr("{cs,faults}", &processes, Aggregation::PerTask);
        assert!(
            reporting.flags.contains(AttrFlags::INHERIT | AttrFlags::INHERIT_STAT | AttrFlags::SAMPLE_ID_ALL)
        );
        assert!(!reporting.read_format.contains(ReadFormat::GROUP));
        let single = attr("cs", &Options { inherit: false, ..processes }, Aggregation::PerTask);
        assert!(!single.flags.contains(AttrFlags::INHERIT_STAT), "nothing is taken over");
    }
}
