//! The filter that is typed after `/`.
//!
//! Words are separated by spaces and must all match. `comm:`, `pid:`, `tid:` and `container:` choose samples (`container:host` chooses
//! those outside of any container). `func:`, `mod:` and words without a prefix choose rows, and highlight frames of the flame graph.
//! A text matches if it has all letters of the word in their order; a lower-case letter also matches its upper case.

use export::report;
use profile::{HOST, Thread, ViewFrame};

use crate::snapshot::{container_of, ids_of};

/// A parsed filter.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    comms: Vec<String>,
    pids: Vec<i32>,
    tids: Vec<i32>,
    containers: Vec<String>,
    functions: Vec<String>,
    modules: Vec<String>,
    words: Vec<String>,
}

impl Filter {
    /// Parses a filter. Every text is one: a prefix without a valid value is ignored, as while it is being typed.
    pub fn parse(text: &str) -> Self {
        let mut filter = Self::default();
        for word in text.split_whitespace() {
            let (key, value) = word.split_once(':').unwrap_or(("", word));
            let text = || value.to_owned();
            let number = || value.parse::<i32>().ok();
            match key {
                // `std::vec` is a path, not a prefix with a value.
                _ if value.starts_with(':') => filter.words.push(word.to_owned()),
                _ if value.is_empty() => {}
                "comm" => filter.comms.push(text()),
                "pid" => filter.pids.extend(number()),
                "tid" => filter.tids.extend(number()),
                // The value may hold colons, as the names of containers do.
                "container" => filter.containers.push(text()),
                "func" => filter.functions.push(text()),
                "mod" => filter.modules.push(text()),
                _ => filter.words.push(word.to_owned()),
            }
        }
        filter
    }

    /// Returns true if samples of this thread count.
    pub fn admits(&self, thread: &Thread) -> bool {
        let (pid, tid) = ids_of(thread);
        let container = || container_of(thread).map_or_else(|| HOST.to_owned(), ToString::to_string);
        (self.pids.is_empty() || self.pids.contains(&pid))
            && (self.tids.is_empty() || self.tids.contains(&tid))
            && all_match(&self.comms, || thread.comm.to_string())
            && all_match(&self.containers, container)
    }

    /// Returns true if the filter restricts the rows of functions.
    pub fn chooses_functions(&self) -> bool {
        !(self.functions.is_empty() && self.modules.is_empty() && self.words.is_empty())
    }

    /// Returns true if the row of this function is shown.
    pub fn shows(&self, frame: &ViewFrame) -> bool {
        if !self.chooses_functions() {
            return true;
        }
        let (name, module) = (report::function(frame), report::module(frame));
        self.functions.iter().all(|text| matches(text, &name))
            && self.modules.iter().all(|text| matches(text, &module))
            && self.words.iter().all(|text| matches(text, &name) || matches(text, &module))
    }

    /// Returns true if the row of this thread is shown.
    pub fn shows_task(&self, thread: &Thread) -> bool {
        let (pid, tid) = ids_of(thread);
        let container = container_of(thread).map(ToString::to_string);
        self.words.iter().all(|text| {
            matches(text, &thread.comm.to_string())
                || container.as_ref().is_some_and(|container| matches(text, container))
                || pid.to_string().contains(text)
                || tid.to_string().contains(text)
        })
    }
}

/// Returns true if all patterns match a text, which is asked for if there are any.
fn all_match(patterns: &[String], text: impl FnOnce() -> String) -> bool {
    patterns.is_empty() || {
        let text = text();
        patterns.iter().all(|pattern| matches(pattern, &text))
    }
}

/// Returns true if the letters of `pattern` occur in `text`, in their order.
fn matches(pattern: &str, text: &str) -> bool {
    let mut rest = text.chars();
    pattern.chars().all(|wanted| {
        rest.any(|found| {
            found == wanted
                || !wanted.is_uppercase()
                    && found.is_uppercase()
                    && found.to_lowercase().eq(wanted.to_lowercase())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::KEPT_APART;
    use model::{Name, Pid, Tid};
    use profile::{FrameKind, Label, Threads, Where};

    fn function(name: &str, module: &str) -> ViewFrame {
        let label = Label::Function(name.into(), Some(Name::from(module)));
        ViewFrame { label, kind: FrameKind::User, line: None }
    }

    fn thread(container: Option<&str>) -> Thread {
        let mut threads = Threads::new(KEPT_APART);
        let place = Where { container: container.map(Name::from), ..Where::default() };
        let comm = Name::from("worker");
        threads.number_on(&comm, Pid(12), Tid(13), &place, || comm.clone());
        threads.list()[0].clone()
    }

    #[test]
    fn letters_match_in_their_order() {
        assert!(matches("mloc", "malloc"));
        assert!(matches("hm", "HashMap::insert"));
        assert!(!matches("HM", "hashmap"));
        assert!(!matches("ba", "ab"));
        assert!(matches("", "anything"));
    }

    #[test]
    fn every_word_must_hold() {
        let filter = Filter::parse("func:alloc mod:libc std::");
        assert!(filter.shows(&function("std::alloc", "libc.so.6")));
        assert!(!filter.shows(&function("std::alloc", "app")));
        assert!(!filter.shows(&function("alloc", "libc.so.6")));
        let task = thread(None);
        assert!(filter.admits(&task), "rows are chosen, not samples");
        assert!(Filter::parse("comm:wrk pid:12 tid:13").admits(&task));
        assert!(!Filter::parse("pid:13").admits(&task));
        assert!(Filter::parse("pid: comm:").admits(&task), "nothing is chosen while typing");
        let inside = thread(Some("docker:0123456789ab"));
        assert!(
            Filter::parse("container:host").admits(&task) && !Filter::parse("container:host").admits(&inside)
        );
        assert!(
            Filter::parse("container:docker:0123").admits(&inside)
                && Filter::parse("container:").admits(&task)
        );
        assert!(
            !Filter::parse("container:docker").admits(&task) && Filter::parse("0123").shows_task(&inside)
        );
        assert!(Filter::parse("13").shows_task(&task) && !Filter::parse("99").shows_task(&task));
    }
}
