//! Parses folded stacks: a line for each stack, `outermost;…;innermost COUNT`, as inferno, stackcollapse-perf.pl, async-profiler and
//! others write them.

use std::collections::HashMap;

use model::{
    AddressKind, Frame, Name, Pid, Reason, Resolution, Space, SpaceId, SpaceTable, StackEntry, Svma, Tid,
};
use profile::StackTable;
use symbolizer::{NameStyle, Resolutions, display_name};

use super::{ForeignError, ForeignProfile, Format, MAX_DEPTH, Quantity, Samples, Thread, resolved};

/// Lines by which folded stacks are recognised.
const TELLING_LINES: usize = 20;
/// Bytes in which these lines must lie.
const TELLING_BYTES: usize = 64 << 10;
/// The longest name of a thread, in bytes: `TASK_COMM_LEN` of the kernel, without the terminator.
const MAX_COMM_BYTES: usize = 15;
/// The name of the first frame where stacks do not begin with their thread. inferno draws a frame of this name below all.
const ALL: &[u8] = b"all";

/// Functions that threads begin with. Whatever is called below them, the frame under them is no function.
const ENTRIES: [&[u8]; 16] = [
    b"_start",
    b"_dl_start_user",
    b"_dl_start",
    b"__GI___clone3",
    b"runtime.goexit",
    b"runtime.goexit.abi0",
    b"runtime.mstart.abi0",
    b"clone",
    b"__clone",
    b"clone3",
    b"__clone3",
    b"start_thread",
    b"__libc_start_main",
    b"__libc_start_call_main",
    b"ret_from_fork_asm_[k]",
    b"ret_from_fork_[k]",
];

/// Returns true if the bytes begin with folded stacks: lines with a count at their end, some of which have several frames, or a single
/// line in all. Lines that begin with `#` may precede them, if no script begins so.
pub(super) fn is_folded(bytes: &[u8]) -> bool {
    let start = bytes.get(..TELLING_BYTES).unwrap_or(bytes);
    let is_cut = start.len() < bytes.len() || !start.ends_with(b"\n");
    let mut lines: Vec<&[u8]> = lines(start).take(TELLING_LINES + 1).collect();
    if lines.len() > 1 && (is_cut || lines.len() > TELLING_LINES) {
        lines.pop();
    }
    let is_text = |byte: &u8| *byte >= b' ' || matches!(byte, b'\t' | b'\x1b');
    let is_only = lines.len() == 1 && start.len() == bytes.len();
    !bytes.starts_with(b"#!")
        && lines.iter().all(|line| line.iter().all(is_text))
        && (is_only || lines.iter().any(|line| line.contains(&b';')))
        && lines.iter().all(|line| split_count(line).is_some())
}

/// Parses folded stacks. Lines without a count are left out and counted.
///
/// # Errors
/// [`ForeignError::TwoCounts`] if the lines have two counts each.
pub(super) fn parse(bytes: &[u8]) -> Result<ForeignProfile, ForeignError> {
    let stacks = || lines(bytes).filter_map(split_count).map(|(stack, _)| stack);
    if stacks().next().is_some() && stacks().all(|stack| split_count(stack).is_some()) {
        return Err(ForeignError::TwoCounts);
    }
    let tells_threads = stacks().any(begins_with_thread) || stacks().all(|stack| first_frame(stack) == ALL);
    let mut builder = Builder { tells_threads, ..Builder::default() };
    let (mut bad, mut first_bad) = (0_u64, 0);
    for (line, number) in bytes.split(|&byte| byte == b'\n').zip(1_u64..) {
        let line = line.trim_ascii();
        if line.starts_with(b"#") {
            continue;
        }
        match split_count(line) {
            Some((stack, count)) => builder.push(stack, count),
            None if line.is_empty() => {}
            None => {
                bad += 1;
                first_bad = if bad == 1 { number } else { first_bad };
            }
        }
    }
    let mut profile = builder.finish();
    if bad > 0 {
        profile.remarks.push(format!(
            "{} not read: there is no count at the end (line {first_bad}{})",
            export::summary::counted(bad, "line was", "lines were"),
            if bad > 1 { " is the first" } else { "" }
        ));
    }
    Ok(profile)
}

/// The lines that are neither empty nor comments (Austin writes what it measured as `# mode: wall`), without blanks around them.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = bytes.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    lines.filter(|line| !line.is_empty() && !line.starts_with(b"#"))
}

/// Splits a line into its stack and its count; `None` if it has no count. Some tools write counts with a fraction.
fn split_count(line: &[u8]) -> Option<(&[u8], f64)> {
    let blank = line.iter().rposition(u8::is_ascii_whitespace)?;
    let (stack, count) = (line.get(..blank)?.trim_ascii_end(), line.get(blank + 1..)?);
    let is_number = count.first()?.is_ascii_digit()
        && count.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'+' | b'-'));
    let count: f64 = std::str::from_utf8(count).ok().filter(|_| is_number)?.parse().ok()?;
    (count.is_finite() && !stack.is_empty()).then_some((stack, count))
}

fn first_frame(stack: &[u8]) -> &[u8] {
    stack.split(|&byte| byte == b';').next().unwrap_or_default()
}

/// Returns true if the first frame of a stack is the name of its thread: a thread with its number, or a short name below what threads
/// begin with.
fn begins_with_thread(stack: &[u8]) -> bool {
    let mut frames = stack.split(|&byte| byte == b';');
    let first = frames.next().unwrap_or_default();
    if split_thread(first).1.is_some() {
        return true;
    }
    let begins = |frame: &[u8]| frame.ends_with(b"_[k]") || ENTRIES.contains(&frame);
    let is_name = first.len() <= MAX_COMM_BYTES && !first.starts_with(b"[") && !begins(first);
    is_name && frames.next().is_some_and(begins)
}

/// Splits the first frame into the name of a thread and its ids: `name-PID/TID` of inferno, `[name tid=TID]` of async-profiler.
fn split_thread(frame: &[u8]) -> (&[u8], Option<(Option<Pid>, Tid)>) {
    let number = |digits: &[u8]| std::str::from_utf8(digits).ok()?.parse::<i32>().ok().filter(|id| *id >= 0);
    let last = |byte: u8| frame.iter().rposition(|&other| other == byte);
    let of_inferno = || {
        let slash = last(b'/')?;
        let tid = number(frame.get(slash + 1..)?)?;
        let dash = frame.get(..slash)?.iter().rposition(|&byte| byte == b'-')?;
        let pid = number(frame.get(dash + 1..slash)?)?;
        Some((frame.get(..dash)?, Some((Some(Pid(pid)), Tid(tid)))))
    };
    let of_async_profiler = || {
        let inner = frame.strip_prefix(b"[")?.strip_suffix(b"]")?;
        let at = inner.windows(5).rposition(|part| part == b" tid=")?;
        Some((inner.get(..at)?, Some((None, Tid(number(inner.get(at + 5..)?)?)))))
    };
    of_inferno().or_else(of_async_profiler).unwrap_or((frame, None))
}

/// Builds the profile line by line.
#[derive(Default)]
struct Builder {
    tells_threads: bool,
    spaces: SpaceTable,
    stacks: StackTable,
    resolutions: Resolutions,
    /// Entries by the text of their frame.
    entries: HashMap<Vec<u8>, StackEntry>,
    threads: Vec<Thread>,
    thread_numbers: HashMap<Vec<u8>, u32>,
    samples: Vec<Samples>,
    values: Vec<u64>,
    /// The sum of counts that were read, and that of those that were added: fractions are carried from line to line.
    read: f64,
    added: u64,
    cut: u64,
    chain: Vec<StackEntry>,
}

impl Builder {
    fn push(&mut self, stack: &[u8], count: f64) {
        let value = if count.fract() == 0.0 && self.read.fract() == 0.0 {
            count as u64
        } else {
            ((self.read + count) as u64).saturating_sub(self.added)
        };
        self.read += count;
        self.added = self.added.saturating_add(value);
        let mut frames = stack.split(|&byte| byte == b';');
        let thread = self.thread(if self.tells_threads { frames.next().unwrap_or_default() } else { ALL });
        self.chain.clear();
        // The innermost frames first.
        while let Some(frame) = frames.next_back() {
            if self.chain.len() == MAX_DEPTH {
                self.cut += 1;
                break;
            }
            let entry = self.entry(frame.trim_ascii());
            self.chain.push(entry);
        }
        if value > 0 {
            let stack = self.stacks.intern(&self.chain);
            self.samples.push(Samples { thread, stack });
            self.values.push(value);
        }
    }

    fn thread(&mut self, frame: &[u8]) -> u32 {
        if let Some(&known) = self.thread_numbers.get(frame) {
            return known;
        }
        let (name, ids) = split_thread(frame);
        let thread = Thread {
            comm: Name::new(name),
            pid: ids.and_then(|(pid, _)| pid),
            tid: ids.map(|(_, tid)| tid),
            labels: Vec::new(),
        };
        let number = self.threads.len() as u32;
        self.threads.push(thread);
        self.thread_numbers.insert(frame.to_vec(), number);
        number
    }

    fn entry(&mut self, text: &[u8]) -> StackEntry {
        if let Some(&known) = self.entries.get(text) {
            return known;
        }
        // Frames have no address: their number stands for one.
        let offset = self.entries.len() as u64;
        let (space, in_kernel, resolution) = self.frame(text);
        let entry = StackEntry { offset, space, kind: AddressKind::InstructionPointer, in_kernel };
        self.resolutions.insert(entry, resolution);
        self.entries.insert(text.to_vec(), entry);
        entry
    }

    /// Returns the space of a frame, whether it is the kernel's, and its name.
    fn frame(&mut self, text: &[u8]) -> (SpaceId, bool, Resolution) {
        let (name, kind) = split_kind(text);
        let user = Space::Unmapped { pid: Pid::NONE, generation: 0 };
        let kernel = Space::Kernel { build_id: None, text: None };
        let space = match kind {
            Kind::Kernel => kernel,
            Kind::Generated => {
                Space::Jit { pid: Pid::NONE, generation: 0, mapping: Name::from("[generated code]") }
            }
            Kind::User | Kind::Inlined => user,
        };
        let in_kernel = kind == Kind::Kernel;
        let nameless = Resolution::Unresolved(Reason::NotInProfile);
        if matches!(name, b"[unknown]" | b"") {
            return (self.spaces.intern(space), in_kernel, nameless);
        }
        if let Some((module, start)) = module(name) {
            let reason = Reason::NotInProfile;
            let nameless = match start {
                Some(start) => Resolution::Delimited { reason, start: Svma(start), offset: 0 },
                None => nameless,
            };
            let space = match kind {
                Kind::Kernel if module.starts_with(b"kernel") => space,
                Kind::Kernel => Space::KernelModule { name: Name::new(module), build_id: None, start: 0 },
                _ => Space::Object(model::ObjectIdentity {
                    path: Name::new(module),
                    build_id: None,
                    file: None,
                }),
            };
            return (self.spaces.intern(space), in_kernel, nameless);
        }
        let function = display_name(name, NameStyle::Demangled);
        let frame = Frame { function: function.into(), location: None, inlined: kind == Kind::Inlined };
        (self.spaces.intern(space), in_kernel, resolved(vec![frame]))
    }

    fn finish(self) -> ForeignProfile {
        let mut remarks = Vec::new();
        if self.cut > 0 {
            remarks.push(format!(
                "{} outermost frames left out: more than {MAX_DEPTH} are not read",
                export::summary::counted(self.cut, "stack has its", "stacks have their")
            ));
        }
        ForeignProfile {
            format: Format::Folded,
            quantities: vec![Quantity { name: "samples".to_owned(), unit: "count".to_owned() }],
            default_quantity: 0,
            spaces: self.spaces,
            stacks: self.stacks,
            resolutions: self.resolutions,
            unresolved: Vec::new(),
            threads: self.threads,
            tells_threads: self.tells_threads,
            samples: self.samples,
            values: self.values,
            started_unix_ns: None,
            duration_ns: None,
            remarks,
        }
    }
}

/// The kind of code that the suffix of a frame states.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    User,
    Kernel,
    Inlined,
    Generated,
}

/// Splits a frame into its name and its kind. async-profiler marks code of Java's first compiler `_[1]` and interpreted code `_[0]`.
fn split_kind(frame: &[u8]) -> (&[u8], Kind) {
    let kinds: [(&[u8], Kind); 5] = [
        (b"_[k]", Kind::Kernel),
        (b"_[i]", Kind::Inlined),
        (b"_[j]", Kind::Generated),
        (b"_[1]", Kind::Generated),
        (b"_[0]", Kind::User),
    ];
    let found = kinds.iter().find_map(|&(suffix, kind)| Some((frame.strip_suffix(suffix)?, kind)));
    found.unwrap_or((frame, Kind::User))
}

/// Returns the module of a frame that stands for a place without a name in it, and the offset of its function: `[libc.so.6]`,
/// `[libc.so.6+0x1a40]`. Frames with blanks are others.
fn module(name: &[u8]) -> Option<(&[u8], Option<u64>)> {
    let inner = name.strip_prefix(b"[")?.strip_suffix(b"]")?;
    let offset_at = inner.windows(3).rposition(|part| part == b"+0x");
    let offset = offset_at.and_then(|at| std::str::from_utf8(inner.get(at + 3..)?).ok());
    let offset = offset.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let module = offset.and(offset_at).and_then(|at| inner.get(..at)).unwrap_or(inner);
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-/".contains(byte) || *byte >= 0x80;
    (!module.is_empty() && module.iter().all(is_name)).then_some((module, offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(text: &str) -> u64 {
        parse(text.as_bytes()).unwrap().values.iter().sum()
    }

    #[test]
    fn folded_stacks_are_told_from_other_text() {
        for text in [
            "main;a;b 12\nmain;c 7\n",
            "a;b 1",
            "main 20\n",
            "# austin: 3.6.0\n# mode: wall\n\nP1;T1:7;/x/a.py:main:3 300\n",
            "operator new(int);f 3\r\ng 4\r\n",
            "a;b 0.5\n",
        ] {
            assert!(is_folded(text.as_bytes()), "{text:?}");
        }
        for text in [
            "",
            "a;b\n",
            "main 12\nother 7\n",
            "# a comment\n",
            "#!/bin/sh\nx;y 3\n",
            "a;b 1\nfor i in 1 2; do\n",
            "a;\u{1}b 1\n",
        ] {
            assert!(!is_folded(text.as_bytes()), "{text:?}");
        }
    }

    #[test]
    fn fractions_are_carried_so_that_the_total_is_right() {
        assert_eq!(total("a;b 0.5\na;c 0.5\na;d 1.25\na;e 1.75\n"), 4);
        assert_eq!(total("a;b 9007199254740993\na;c 1\n"), (1 << 53) + 1);
        assert_eq!(total("a;b 3e2\n"), 300);
    }

    #[test]
    fn a_comparison_is_refused_and_a_name_that_ends_in_a_number_is_not() {
        assert_eq!(parse(b"a;b 1 2\na;c 3 4\n").unwrap_err(), ForeignError::TwoCounts);
        assert_eq!(total("a;operator 5 2\na;c 4\n"), 6);
    }

    #[test]
    fn lines_without_a_count_are_counted() {
        let profile = parse(b"a;b 1\nnonsense\na;c 2\nmore\n").unwrap();
        assert_eq!(profile.values, [1, 2]);
        assert_eq!(
            profile.remarks,
            ["2 lines were not read: there is no count at the end (line 2 is the first)"]
        );
    }

    #[test]
    fn the_first_frame_is_a_thread_where_it_lies_below_what_threads_begin_with() {
        let names = |text: &str| {
            let profile = parse(text.as_bytes()).unwrap();
            let names: Vec<String> = profile.threads.iter().map(|thread| thread.comm.to_string()).collect();
            (profile.tells_threads, names)
        };
        assert_eq!(names("work;_start;main 3\nsh;x 1\n"), (true, vec!["work".into(), "sh".into()]));
        assert_eq!(names("[main tid=7];java/lang/Thread.run;a 3\n"), (true, vec!["main".into()]));
        assert_eq!(names("work-12/13;main 3\n"), (true, vec!["work".into()]));
        assert_eq!(names("java/lang/Thread.run;a 3\nmain;b 1\n"), (false, vec!["all".into()]));
        assert_eq!(names("[unknown];start_thread;a 3\n"), (false, vec!["all".into()]));
        assert_eq!(names("all;a 3\nall;b 1\n"), (true, vec!["all".into()]));
    }

    #[test]
    fn suffixes_say_the_kind_of_code_and_brackets_the_module() {
        assert_eq!(split_kind(b"read_[k]"), (b"read".as_slice(), Kind::Kernel));
        assert_eq!(split_kind(b"a/b.c_[1]"), (b"a/b.c".as_slice(), Kind::Generated));
        assert_eq!(split_kind(b"f[k]"), (b"f[k]".as_slice(), Kind::User));
        assert_eq!(module(b"[libc.so.6]"), Some((b"libc.so.6".as_slice(), None)));
        assert_eq!(module(b"[libc.so.6+0x1a]"), Some((b"libc.so.6".as_slice(), Some(0x1a))));
        for name in [b"[libc.so.6+0xyz]".as_slice(), b"[not sampled]", b"[]", b"f"] {
            assert_eq!(module(name), None);
        }
    }
}
