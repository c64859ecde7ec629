//! The events of a recording: what weighs their samples, and how the user names one.

use decoder::{Attr, SampleFormat};
use perfdata::Event;
use profile::Weight;

/// Returns the quantity that makes the stacks of an event heavy where nothing else is asked for. Where one event of a
/// group takes the samples and reads all (`:S`), samples say how often that one has counted; what the others have is
/// in the periods.
pub fn weight_of(attr: &Attr) -> Weight {
    let is_read = attr.sample_format.contains(SampleFormat::READ);
    Weight::fitting(attr.is_frequency() || is_read, attr.is_cpu_clock())
}

/// Returns true if `name` means this event: by its whole name, or without its modifiers (`cycles` for `cycles:P`).
pub fn is_named(event: &Event, name: &str) -> bool {
    let whole = event.name.as_bytes();
    let bare = without_modifiers(whole);
    whole == name.as_bytes() || bare == name.as_bytes()
}

/// The name up to its modifiers. A tracepoint's `system:name` has a colon of its own.
fn without_modifiers(name: &[u8]) -> &[u8] {
    match name.iter().rposition(|&byte| byte == b':') {
        Some(colon) if name[colon + 1..].iter().all(|byte| b"ukhHGpPDeSIW".contains(byte)) => &name[..colon],
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_a_group_that_is_read_weigh_what_they_have_counted() {
        let page_faults =
            Attr { kind: decoder::attr::TYPE_SOFTWARE, config: 2, sample_period: 1000, ..Attr::default() };
        assert_eq!(weight_of(&page_faults), Weight::Samples);
        let read = Attr { sample_format: SampleFormat::READ, ..page_faults };
        assert_eq!(weight_of(&read), Weight::Period);
        assert_eq!(weight_of(&Attr { config: 0, ..read }), Weight::Samples, "the clock");
    }

    #[test]
    fn modifiers_are_told_from_tracepoints() {
        assert_eq!(without_modifiers(b"cycles:Pu"), b"cycles");
        assert_eq!(without_modifiers(b"sched:sched_switch"), b"sched:sched_switch");
        assert_eq!(without_modifiers(b"cpu-clock"), b"cpu-clock");
    }
}
