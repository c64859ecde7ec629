//! Errors in the text of an event.

use thiserror::Error;

/// The reason why a list of events is refused. Each message names the event as it was typed.
#[derive(Clone, PartialEq, Eq, Error, Debug)]
pub enum EventError {
    /// The text is neither the name of an event nor one of the forms.
    #[error("there is no event {name:?}{}", suggestion(nearest.as_deref()).unwrap_or("; prof list shows those of this machine".to_owned()))]
    Unknown {
        /// As typed.
        name: String,
        /// A name that exists and looks like it.
        nearest: Option<String>,
    },
    /// The text is incomplete, or has a part too many.
    #[error("the event {text:?} is not well-formed: {problem}")]
    Malformed {
        /// As typed.
        text: String,
        /// The fault of the text.
        problem: &'static str,
    },
    /// The PMU does not have a term between the slashes, or its value does not fit.
    #[error(
        "the event {text:?}: {pmu} does not take {term:?}{}; there are {known}",
        suggestion(nearest.as_deref()).unwrap_or_default()
    )]
    Term {
        /// As typed.
        text: String,
        /// The term.
        term: String,
        /// The PMU.
        pmu: String,
        /// The terms that it knows.
        known: String,
        /// The closest of them, if it differs little.
        nearest: Option<String>,
    },
    /// Tracepoints cannot be read.
    #[error(
        "cannot look for tracepoints in /sys/kernel/tracing: {cause}; try as root, or: sudo mount {remedy} /sys/kernel/tracing"
    )]
    Tracepoints {
        /// The error of the operating system.
        cause: String,
        /// The options of `mount(8)` that make them readable.
        remedy: &'static str,
    },
    /// The object file has no such symbol, or the kernel no such probes.
    #[error("cannot probe {path}: {problem}{}", suggestion(nearest.as_deref()).unwrap_or_default())]
    Probe {
        /// The object file.
        path: String,
        /// The fault of the probe.
        problem: String,
        /// A symbol that looks like the one asked for.
        nearest: Option<String>,
    },
    /// A letter behind the colon is no modifier.
    #[error("the event {text:?} has a modifier {letter:?}; there are u k h G H I p P D e S")]
    Modifier {
        /// As typed.
        text: String,
        /// The letter.
        letter: char,
    },
}

fn suggestion(nearest: Option<&str>) -> Option<String> {
    nearest.map(|name| format!("; did you mean {name}?"))
}
