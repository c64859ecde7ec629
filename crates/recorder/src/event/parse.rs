//! Text to event terms, without knowledge of the machine.

use super::EventError;
use super::modifiers::Modifiers;
use super::terms::GENERAL;

/// One event as typed, cut into its parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Term<'a> {
    /// The whole event.
    pub(super) text: &'a str,
    /// The event's name: `cycles`, `sched:sched_switch`, `mem:0x1000/4:rw`. The text behind its only colon may be modifiers
    /// (`cycles:u`).
    pub(super) body: &'a str,
    /// The text between slashes: `event=0xc0,umask=1`. `None` without slashes.
    pub(super) config: Option<&'a str>,
    /// The letters behind the last colon or slash.
    pub(super) modifiers: &'a str,
}

/// Events that are scheduled together, or one alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Group<'a> {
    pub(super) terms: Vec<Term<'a>>,
    /// The letters behind the closing brace.
    pub(super) modifiers: &'a str,
    /// True if there were braces.
    pub(super) braces: bool,
}

/// Cuts a list at its commas, groups at their braces, events at their slashes and modifiers.
pub(super) fn parse(list: &str) -> Result<Vec<Group<'_>>, EventError> {
    let malformed = |text: &str, problem| Err(EventError::Malformed { text: text.to_owned(), problem });
    let mut groups = Vec::new();
    for part in split(list) {
        if part.is_empty() {
            return malformed(list, "a name is missing");
        }
        if let Some(inner) = part.strip_prefix('{') {
            let Some((inner, modifiers)) = inner.rsplit_once('}') else {
                return malformed(part, "the closing brace is missing");
            };
            let modifiers = match modifiers.strip_prefix(':') {
                Some(letters) => letters,
                None if modifiers.is_empty() => "",
                None => return malformed(part, "only :MODIFIERS can follow the closing brace"),
            };
            let terms: Vec<_> = split(inner).into_iter().map(term).collect::<Result<_, _>>()?;
            groups.push(Group { terms, modifiers, braces: true });
        } else {
            groups.push(Group { terms: vec![term(part)?], modifiers: "", braces: false });
        }
    }
    Ok(groups)
}

/// Cuts at commas that are in no braces and between no slashes.
fn split(list: &str) -> Vec<&str> {
    let (mut parts, mut start, mut braces, mut slashes) = (Vec::new(), 0, 0_i32, false);
    for (at, letter) in list.char_indices() {
        match letter {
            '{' => braces += 1,
            '}' => (braces, slashes) = (braces - 1, false),
            '/' if !has_path(list.get(start..at).unwrap_or("")) => slashes = !slashes,
            ',' if braces <= 0 && !slashes && !within_parameters(list.get(start..at).unwrap_or("")) => {
                parts.push(list.get(start..at).unwrap_or(""));
                (start, slashes) = (at + 1, false);
            }
            _ => {}
        }
    }
    parts.push(list.get(start..).unwrap_or(""));
    parts.into_iter().map(str::trim).collect()
}

/// Returns true if slashes in the event that begins so are part of a path or a length (`uprobe:/bin/x:main`, `mem:1/4`).
fn has_path(event: &str) -> bool {
    let event = event.trim_start_matches(['{', ' ']);
    ["uprobe:", "kprobe:", "mem:"].iter().any(|form| event.starts_with(form))
}

/// Returns true if the event that begins so has opened its parameters and not yet closed them (`mem:1/4:w/period=5`).
fn within_parameters(event: &str) -> bool {
    has_path(event) && event.rsplit_once('/').is_some_and(|(_, last)| is_parameter(last))
}

/// Returns true if `text` begins with a term that each event takes.
fn is_parameter(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| GENERAL.contains(&name))
}

/// Cuts the parameters off an event whose own form has slashes: `mem:1/4:w/period=5/u` → `mem:1/4:w`, `period=5`, `u`.
fn parameters(text: &str) -> Option<(&str, &str, &str)> {
    let (rest, modifiers) = text.rsplit_once('/')?;
    let (body, config) = rest.rsplit_once('/')?;
    is_parameter(config).then_some((body, config, modifiers))
}

/// Cuts the modifiers off an event whose own form has colons: `mem:ADDR:rw:u`, `uprobe:PATH:SYMBOL:u`, `kprobe:FUNCTION:k`.
/// In `uprobe:PATH:a::k` there are none: `a::k` is a symbol.
fn trailing_modifiers(body: &str) -> Option<(&str, &str)> {
    let (before, letters) = body.rsplit_once(':')?;
    if before.starts_with("mem:") {
        let is_access = letters.chars().all(|letter| "rwx".contains(letter));
        return (!is_access).then_some((before, letters));
    }
    let own_colons = if before.starts_with("uprobe:") { 2 } else { 1 };
    let is_modifiers =
        !letters.is_empty() && letters.chars().all(|letter| Modifiers::LETTERS.contains(letter));
    let is_whole = before.matches(':').count() >= own_colons && !before.ends_with(':');
    (is_modifiers && is_whole).then_some((before, letters))
}

/// One event.
fn term(text: &str) -> Result<Term<'_>, EventError> {
    let malformed = |problem| Err(EventError::Malformed { text: text.to_owned(), problem });
    let whole = |body| Ok(Term { text, body, config: None, modifiers: "" });
    if text.is_empty() {
        return malformed("a name is missing");
    }
    if has_path(text) {
        // The forms of probes and breakpoints have colons and slashes of their own.
        let (body, config, modifiers) = match parameters(text) {
            Some((body, config, modifiers)) => (body, Some(config), modifiers.trim_start_matches(':')),
            None => (text, None, ""),
        };
        let last = if modifiers.is_empty() { trailing_modifiers(body) } else { None };
        let (body, modifiers) = last.unwrap_or((body, modifiers));
        return Ok(Term { text, body, config, modifiers });
    }
    if let Some((pmu, rest)) = text.split_once('/') {
        let Some((config, modifiers)) = rest.rsplit_once('/') else {
            return malformed("the second slash is missing");
        };
        let modifiers = modifiers.strip_prefix(':').unwrap_or(modifiers);
        return Ok(Term { text, body: pmu, config: Some(config), modifiers });
    }
    // Whether `a:b` is a tracepoint or an event with modifiers depends on the machine: `select` decides.
    match text.rsplit_once(':') {
        Some((body, modifiers)) if body.contains(':') => Ok(Term { text, body, config: None, modifiers }),
        _ => whole(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(list: &str) -> Vec<String> {
        let term = |term: &Term<'_>| match term.config {
            Some(config) => format!("{}/{config}/:{}", term.body, term.modifiers),
            None => format!("{}:{}", term.body, term.modifiers),
        };
        let group = |group: &Group<'_>| {
            let terms: Vec<_> = group.terms.iter().map(term).collect();
            if group.braces { format!("{{{}}}{}", terms.join(" "), group.modifiers) } else { terms.join(" ") }
        };
        parse(list).unwrap().iter().map(group).collect()
    }

    #[test]
    fn lists_groups_and_slashes() {
        assert_eq!(shape("cycles:u,cs"), ["cycles:u:", "cs:"]);
        assert_eq!(shape("cpu/event=0xc0,umask=1/pp,r1a8:k"), ["cpu/event=0xc0,umask=1/:pp", "r1a8:k:"]);
        assert_eq!(shape("{cycles,cpu/a=1,b/u}:S,cs"), ["{cycles: cpu/a=1,b/:u}S", "cs:"]);
        assert_eq!(shape("sched:sched_switch,sched:sched_*:k"), ["sched:sched_switch:", "sched:sched_*:k"]);
        assert_eq!(shape("mem:0x1000/4:rw,cs:u"), ["mem:0x1000/4:rw:", "cs:u:"]);
        assert_eq!(shape("uprobe:/bin/a:main+4%return,cs"), ["uprobe:/bin/a:main+4%return:", "cs:"]);
        assert_eq!(
            shape("uprobe:/bin/a:main:u,uprobe:/bin/a:k"),
            ["uprobe:/bin/a:main:u", "uprobe:/bin/a:k:"]
        );
        assert_eq!(shape("uprobe:/bin/a:b::k"), ["uprobe:/bin/a:b::k:"]);
        assert_eq!(shape("kprobe:vfs_read+4%return:k,kprobe:u"), ["kprobe:vfs_read+4%return:k", "kprobe:u:"]);
        assert_eq!(
            shape("mem:0x1000/8:w/period=5,name=x/u,mem:0x1000/8:w:k,mem:16:u,cs"),
            ["mem:0x1000/8:w/period=5,name=x/:u", "mem:0x1000/8:w:k", "mem:16:u", "cs:"]
        );
        assert_eq!(
            shape(
                "uprobe:/bin/a:f%return/name=hit,max-stack=2/,sched:sched_switch/call-graph=no,period=2/k,cs"
            ),
            [
                "uprobe:/bin/a:f%return/name=hit,max-stack=2/:",
                "sched:sched_switch/call-graph=no,period=2/:k",
                "cs:"
            ]
        );
        assert_eq!(
            shape("raw_syscalls:sys_enter,irq:softirq_entry"),
            ["raw_syscalls:sys_enter:", "irq:softirq_entry:"]
        );
    }

    #[test]
    fn incomplete_lists_are_refused() {
        for text in ["", "cycles,", ",cs", "{cycles", "{a,b}x", "cpu/event=1", "{}"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
