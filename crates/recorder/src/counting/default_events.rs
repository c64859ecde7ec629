//! The events that are counted where none is named.

use crate::event::{Catalogue, Event, EventError, select};

/// The clock for programs. It comes first, since rates are per second of it.
const TASK_CLOCK: &str = "task-clock";
/// The clock for whole CPUs, on which no single task runs.
const CPU_CLOCK: &str = "cpu-clock";
/// The events beside the clock.
const BASIC: &str = "context-switches,cpu-migrations,page-faults,cycles,instructions,branches,branch-misses";

/// The events that are counted where none is named: a clock, scheduling, faults and the usual counters of the processor. Those that the
/// machine lacks are not refused.
///
/// # Errors
/// None on a machine whose catalogue can be read.
pub fn default_events(catalogue: &dyn Catalogue, whole_cpus: bool) -> Result<Vec<Event>, EventError> {
    let clock = if whole_cpus { CPU_CLOCK } else { TASK_CLOCK };
    let events = select(&format!("{clock},{BASIC}"), catalogue)?.into_iter();
    Ok(events.map(|event| Event { is_default: true, ..event }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_event_has_a_name_of_the_grammar() {
        let names = |whole| -> Vec<String> {
            let events = default_events(&Vec::new(), whole).unwrap();
            assert!(events.iter().all(|event| event.is_default));
            events.into_iter().map(|event| event.name).collect()
        };
        assert_eq!(names(false)[..2], ["task-clock", "context-switches"]);
        assert_eq!(names(true)[0], "cpu-clock");
        assert_eq!(names(false).len(), 8);
    }
}
