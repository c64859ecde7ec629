//! The attr of an event that counts.

use decoder::{Attr, AttrFlags, ReadFormat, SampleFormat};

use super::Split;
use crate::attr::size_with;
use crate::event::Event;
use crate::options::{Options, PrivilegeLevels, Target};

/// What each count is read with.
const FORMAT: ReadFormat = ReadFormat::TOTAL_TIME_ENABLED
    .union(ReadFormat::TOTAL_TIME_RUNNING)
    .union(ReadFormat::ID)
    .union(ReadFormat::LOST);

/// The attr of an event that counts and takes no samples. A group's leader, and what reads it, has `PERF_FORMAT_GROUP`, except
/// where tasks report for themselves.
pub(super) fn counter(event: &Event, options: &Options, split: Split) -> Attr {
    let mut flags = event.modifiers.flags() | AttrFlags::DISABLED;
    match options.levels {
        PrivilegeLevels::AsSelected => {}
        PrivilegeLevels::User => flags |= AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
        PrivilegeLevels::Kernel => flags |= AttrFlags::EXCLUDE_USER,
    }
    flags.set(AttrFlags::INHERIT, options.inherits());
    flags.set(AttrFlags::INHERIT_THREAD, options.inherits() && options.threads_only);
    flags.set(AttrFlags::ENABLE_ON_EXEC, options.target == Target::Command && options.delay.is_none());
    let tasks = split == Split::Tasks;
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

/// The attr of the event that only tells for how long a thread was on a CPU: its time running, beside which others are seen to
/// have lacked a counter.
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

    fn attr(list: &str, options: &Options, split: Split) -> Attr {
        counter(&select(list, &Vec::new()).unwrap()[0], options, split)
    }

    #[test]
    fn a_counter_takes_no_samples() {
        let command = Options::new(Target::Command);
        let alone = attr("cycles:u", &command, Split::None);
        assert_eq!(
            (alone.sample_period, alone.sample_format, alone.read_format),
            (0, SampleFormat::empty(), FORMAT)
        );
        assert!(
            alone.flags.contains(AttrFlags::INHERIT | AttrFlags::ENABLE_ON_EXEC | AttrFlags::EXCLUDE_KERNEL)
        );
        assert!(!alone.flags.intersects(AttrFlags::INHERIT_STAT | AttrFlags::FREQ));
        let group = attr("{cycles,instructions}", &command, Split::Cpus);
        assert!(group.read_format.contains(ReadFormat::GROUP));
        let whole = attr("cycles", &Options::new(Target::System), Split::None);
        assert!(!whole.flags.intersects(AttrFlags::INHERIT | AttrFlags::ENABLE_ON_EXEC));
    }

    #[test]
    fn tasks_report_at_their_ends() {
        let processes = Options::new(Target::Processes(vec![Pid(1)]));
        let reporting = attr("{cs,faults}", &processes, Split::Tasks);
        assert!(
            reporting.flags.contains(AttrFlags::INHERIT | AttrFlags::INHERIT_STAT | AttrFlags::SAMPLE_ID_ALL)
        );
        assert!(!reporting.read_format.contains(ReadFormat::GROUP));
        let single = attr("cs", &Options { inherit: false, ..processes }, Split::Tasks);
        assert!(!single.flags.contains(AttrFlags::INHERIT_STAT), "nothing is taken over");
    }
}
