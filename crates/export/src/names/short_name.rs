//! Shortens names of functions for frames that are too narrow for the whole name.
//!
//! A name is parsed as the parts of a path. A narrow frame omits the first parts: it shows `Attr.visitApply` for
//! `void com.sun.tools.javac.comp.Attr.visitApply(JCMethodInvocation)`, and `Vec::push` for `alloc::vec::Vec<T>::push`.
//! Return types, parameters and template arguments are never shown. A name of another form is shown whole.

use std::fmt::Write as _;
use std::ops::Range;

/// A name split into parts, each with the separator that follows it. A part consists of ranges of the name, so that the
/// script of a picture needs only numbers to restore it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FunctionName {
    parts: Vec<Part>,
}

/// Ranges of bytes of the name.
type Part = Vec<Range<usize>>;

fn part(range: Range<usize>) -> Part {
    std::iter::once(range).collect()
}

/// The least number of columns for a name that is cut, with its ellipsis. A shorter beginning tells nothing.
const MIN_COLUMNS: usize = 5;

/// The greatest depth of qualified names within names that is parsed.
const MAX_DEPTH: usize = 4;

impl FunctionName {
    pub(crate) fn parse(name: &str) -> Self {
        let whole = || vec![part(0..name.len())];
        let is_plain = |byte: &u8| !matches!(byte, b':' | b'.' | b'(' | b'<' | b'/');
        if name.starts_with('[') || name.as_bytes().iter().all(is_plain) {
            return Self { parts: whole() };
        }
        let text = Text(name.as_bytes());
        let parts = text.class_descriptor().or_else(|| text.signature()).or_else(|| text.dotted());
        Self { parts: parts.unwrap_or_else(whole) }
    }

    /// Returns the longest form of the name that fits into `columns`: all parts, the last two (class and method), the last
    /// one, or its beginning with an ellipsis. Empty if even that does not fit.
    pub(crate) fn fit(&self, name: &str, columns: usize) -> String {
        let text = |parts: &[Part]| -> String {
            parts.iter().flatten().filter_map(|range| name.get(range.clone())).collect()
        };
        let mut last = String::new();
        let count = self.parts.len();
        // Three or more parts without the first ones would look like a whole path.
        for first in [0, count.saturating_sub(2), count.saturating_sub(1)] {
            last = text(&self.parts[first..]);
            if last.chars().count() <= columns {
                return last;
            }
        }
        match columns {
            0..MIN_COLUMNS => String::new(),
            _ => last.chars().take(columns - 1).chain(['…']).collect(),
        }
    }

    /// Encodes the parts for the script of a picture: `START-END,START-END START …`, in UTF-16 units of the name. Omits an
    /// end where the next range starts or the name ends. Returns `None` if the name is its only part.
    pub(crate) fn cuts(&self, name: &str) -> Option<String> {
        if self.parts == [part(0..name.len())] {
            return None;
        }
        let unit = |at: usize| name.get(..at).map_or(at, |before| before.encode_utf16().count());
        let mut cuts = String::new();
        let mut ranges = self.parts.iter().flat_map(|part| part.iter().enumerate()).peekable();
        while let Some((number, range)) = ranges.next() {
            let separator = if number > 0 { "," } else { " " };
            if !cuts.is_empty() {
                cuts.push_str(separator);
            }
            let next = ranges.peek().map_or(name.len(), |(_, next)| next.start);
            // Writing to a string cannot fail.
            let _ = write!(cuts, "{}", unit(range.start));
            if range.end != next {
                let _ = write!(cuts, "-{}", unit(range.end));
            }
        }
        Some(cuts)
    }
}

/// The bytes of a name. All separators of parts are ASCII, so ranges never split a character.
#[derive(Clone, Copy)]
struct Text<'n>(&'n [u8]);

/// The state of parsing a path.
#[derive(Default)]
struct Path {
    parts: Vec<Part>,
    /// The current part.
    open: Part,
    has_parameters: bool,
}

impl Text<'_> {
    /// Parses `Lcom/sun/Attr;::visitApply`, the form in which Java agents name methods. [`crate::safe_label`] has replaced
    /// the semicolon by a colon.
    fn class_descriptor(self) -> Option<Vec<Part>> {
        let end = self.find(0, b":::").or_else(|| self.find(0, b";::"))?;
        if !self.0.starts_with(b"L") || self.0.contains(&b' ') {
            return None;
        }
        let mut parts = self.split(1..end, b"/");
        let method_end = self.find(end, b"(").unwrap_or(self.0.len());
        if let Some(class) = parts.last_mut() {
            class.push(end + 1..end + 3);
        }
        parts.push(part(end + 3..method_end));
        Some(parts)
    }

    /// Parses a path with `::`, or a name with parameters.
    fn signature(self) -> Option<Vec<Part>> {
        let mut path = Path::default();
        self.read(0..self.0.len(), 0, &mut path)?;
        let Path { mut parts, open, has_parameters } = path;
        if parts.is_empty() && !has_parameters && self.find(0, b"<").is_none() {
            return None;
        }
        match &open[..] {
            [range] if parts.is_empty() => parts = self.split(range.clone(), b"."),
            _ => parts.push(open),
        }
        Some(self.joined(parts))
    }

    /// Parses Java methods without parameters, and Go packages with their directories.
    fn dotted(self) -> Option<Vec<Part>> {
        let whole = 0..self.0.len();
        if self.0.contains(&b' ') {
            return None;
        }
        if let Some(folder) = self.0.iter().rposition(|&byte| byte == b'/') {
            let is_package = folder > 0 && self.0[folder..].contains(&b'.') && !self.0.starts_with(b"/");
            return is_package.then(|| self.split(whole, b"/"));
        }
        let parts = self.split(whole, b".");
        let is_class = |part: &Part| part[0].len() > 1 && self.0[part[0].start].is_ascii_uppercase();
        let of_package =
            parts.len() >= 3 && parts[parts.len().checked_sub(2)?..].first().is_some_and(is_class);
        of_package.then_some(parts)
    }

    /// Parses a path into `path`; returns `None` if the range is no path.
    fn read(self, range: Range<usize>, depth: usize, path: &mut Path) -> Option<()> {
        let end = range.end;
        let (mut at, mut start) = (range.start, range.start);
        // The start of the current part.
        let mut part = at;
        let mut spaces = false;
        while at < end {
            match self.0[at] {
                b'o' if at == part && self.is_operator(at) => {
                    at = self.operator_end(at + b"operator".len(), end);
                    if self.0[at..end].starts_with(b" <") {
                        path.push_range(start..at);
                        at = self.closing_bracket(at + 1)? + 1;
                        start = at;
                    }
                }
                b'<' if at == range.start && depth < MAX_DEPTH => {
                    let close = self.closing_bracket(at)?;
                    let inner = at + 1..close;
                    if self.0[inner.clone()].starts_with(b"impl ") {
                        at = close + 1;
                        continue;
                    }
                    let of = self.find(inner.start, b" as ").filter(|&of| of < close).unwrap_or(close);
                    if !self.0[inner.start].is_ascii_alphabetic() {
                        path.open.push(inner.start..of);
                    } else {
                        self.read(inner.start..of, depth + 1, path)?;
                    }
                    (at, start) = (close + 1, close + 1);
                }
                // `make.<locals>.<listcomp>` of Python, `ArrayList.<init>` of Java
                b'<' if at == part || self.0[at - 1] == b'.' => at = self.closing_bracket(at)? + 1,
                b'<' => {
                    path.push_range(start..at);
                    at = self.closing_bracket(at)? + 1;
                    start = at;
                }
                b'(' if at > part
                    && (self.is_word(at - 1) || matches!(self.0[at - 1], b'>' | b')' | b'=')) =>
                {
                    path.push_range(start..at);
                    at = self.closing_bracket(at)? + 1;
                    start = at;
                    path.has_parameters = true;
                    if !self.0[at..end].starts_with(b"::") {
                        return self.has_only_qualifiers(at..end).then_some(());
                    }
                    path.has_parameters = false;
                }
                b'(' | b'{' | b'[' => at = self.closing_bracket(at)? + 1,
                b':' if self.0[at..end].starts_with(b"::") => {
                    let arguments = at + 2;
                    let is_turbofish = self.0.get(arguments) == Some(&b'<')
                        && !self.0[arguments + 1..].starts_with(b"impl ");
                    let close = if is_turbofish { self.closing_bracket(arguments) } else { None };
                    let follows = close.map(|close| &self.0[close + 1..end]);
                    if let (Some(close), true) = (close, follows.is_some_and(is_path_end)) {
                        path.push_range(start..at);
                        (at, start) = (close + 1, close + 1);
                        continue;
                    }
                    path.push_range(start..at + 2);
                    path.parts.push(std::mem::take(&mut path.open));
                    at += 2;
                    (start, part) = (at, at);
                }
                b' ' => {
                    // The text before a space is the return type, if parameters follow.
                    *path = Path::default();
                    spaces = true;
                    at += 1;
                    (start, part) = (at, at);
                }
                _ => at += 1,
            }
        }
        path.push_range(start..end);
        (!spaces && !path.open.is_empty()).then_some(())
    }

    /// Returns true if the range behind the parameters has qualifiers only.
    fn has_only_qualifiers(self, range: Range<usize>) -> bool {
        let rest = &self.0[range];
        let qualifiers: [&[u8]; 6] = [b" const", b" volatile", b"&", b" noexcept", b" [", b" ("];
        rest.is_empty() || rest == b".cold" || qualifiers.iter().any(|qualifier| rest.starts_with(qualifier))
    }

    /// Joins closures, and the parts that follow them, to the function that encloses them.
    fn joined(self, parts: Vec<Part>) -> Vec<Part> {
        let is_closure =
            |part: &Part| part.first().is_some_and(|range| self.0.get(range.start) == Some(&b'{'));
        let mut joined: Vec<Part> = Vec::with_capacity(parts.len());
        let mut in_closure = false;
        for part in parts {
            let closure = is_closure(&part);
            match joined.last_mut() {
                Some(function) if closure || in_closure => function.extend(part),
                _ => joined.push(part),
            }
            in_closure = closure;
        }
        joined
    }

    fn split(self, range: Range<usize>, separator: &[u8; 1]) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut start = range.start;
        for at in range.clone().filter(|&at| self.0[at] == separator[0]) {
            // What is in brackets says little without the function that it belongs to.
            if at > start && self.0.get(at + 1) != Some(&b'<') {
                parts.push(part(start..at + 1));
                start = at + 1;
            }
        }
        // A separator at the end belongs to the last part.
        match parts.last_mut() {
            Some(last) if start == range.end => last[0].end = range.end,
            _ => parts.push(part(start..range.end)),
        }
        parts
    }

    fn find(self, from: usize, what: &[u8]) -> Option<usize> {
        self.0.get(from..)?.windows(what.len()).position(|window| window == what).map(|at| from + at)
    }

    fn is_word(self, at: usize) -> bool {
        self.0[at].is_ascii_alphanumeric()
            || matches!(self.0[at], b'_' | b'$' | b'~')
            || !self.0[at].is_ascii()
    }

    fn is_operator(self, at: usize) -> bool {
        self.0[at..].starts_with(b"operator") && self.0.get(at + 8).is_some_and(|_| !self.is_word(at + 8))
    }

    /// Returns the end of an operator's name, which may contain brackets and spaces.
    fn operator_end(self, from: usize, end: usize) -> usize {
        let rest = &self.0[from..end];
        if rest.starts_with(b"()") || rest.starts_with(b"[]") {
            return from + 2;
        }
        let symbols = rest.iter().take_while(|byte| !byte.is_ascii_alphanumeric() && **byte != b'(').count();
        if rest.starts_with(b" ") {
            let parameters = rest.iter().position(|&byte| byte == b'(');
            return from + parameters.unwrap_or(rest.len());
        }
        // `operator< <T>` and `operator<<<T>` end in template arguments.
        let symbol = [&b"<=>"[..], b"<<=", b">>=", b"->*", b"<<", b">>", b"->", b"<=", b">=", b"<", b">"];
        let symbol = symbol.iter().find(|symbol| rest.starts_with(symbol));
        from + symbol.map_or(symbols, |symbol| symbol.len())
    }

    /// Returns the position of the bracket that closes the one at `open`.
    fn closing_bracket(self, open: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for at in open..self.0.len() {
            match self.0[at] {
                b'<' | b'(' | b'{' | b'[' => depth += 1,
                // The arrow of a function type.
                b'>' if self.0[at - 1] == b'-' => {}
                b'>' | b')' | b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    if depth == 0 {
                        return Some(at);
                    }
                }
                _ => {}
            }
        }
        None
    }
}

/// Returns true if a path ends here or continues with another part, so that the brackets before can be its arguments.
fn is_path_end(rest: &[u8]) -> bool {
    rest.is_empty() || rest.starts_with(b"::") || rest.starts_with(b"(")
}

impl Path {
    fn push_range(&mut self, range: Range<usize>) {
        if !range.is_empty() {
            self.open.push(range);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The name as it is shown in frames of ample and of little room.
    fn shown(name: &str) -> (String, String) {
        let parsed = FunctionName::parse(name);
        let last = parsed.parts.len().saturating_sub(2);
        let short = FunctionName { parts: parsed.parts[last..].to_vec() };
        (parsed.fit(name, usize::MAX), short.fit(name, usize::MAX))
    }

    #[test]
    fn java_is_known_by_class_and_method() {
        let attr = "com.sun.tools.javac.comp.Attr.visitApply";
        for name in [
            attr,
            "void com.sun.tools.javac.comp.Attr.visitApply(com.sun.tools.javac.tree.JCTree$JCMethodInvocation)",
            "java.util.List<java.lang.String> com.sun.tools.javac.comp.Attr.visitApply(int, long[])",
        ] {
            assert_eq!(shown(name), (attr.into(), "Attr.visitApply".into()), "{name}");
        }
        assert_eq!(shown("Lcom/sun/Attr:::visitApply").1, "Attr::visitApply");
        assert_eq!(
            shown("java.lang.Object a.b.Operators$$Lambda$189/0x00007fa3101308f0.apply(java.lang.Object)").1,
            "Operators$$Lambda$189/0x00007fa3101308f0.apply"
        );
        for same in ["Interpreter", "StubRoutines (1)", "vtable stub", "Thread.run"] {
            assert_eq!(shown(same).0, same);
        }
    }

    #[test]
    fn functions_within_others_keep_their_brackets() {
        for (name, short) in [
            ("make.<locals>.<listcomp>", "make.<locals>.<listcomp>"),
            ("Index.add.<locals>.best", "add.<locals>.best"),
            ("<module> (app.py)", "<module> (app.py)"),
            ("java.util.ArrayList.<init>", "util.ArrayList.<init>"),
        ] {
            assert_eq!(shown(name), (name.into(), short.into()), "{name}");
        }
    }

    #[test]
    fn c_plus_plus_is_known_by_class_and_method() {
        for (name, full, short) in [
            ("blink::LayoutBox::ComputeSize", "blink::LayoutBox::ComputeSize", "LayoutBox::ComputeSize"),
            (
                "std::unique_ptr<int, std::default_delete<int> > a::b::make<int>(int&&) const",
                "a::b::make",
                "b::make",
            ),
            (
                "void (anonymous namespace)::run(int)",
                "(anonymous namespace)::run",
                "(anonymous namespace)::run",
            ),
            ("std::vector<int, A>::operator[]", "std::vector::operator[]", "vector::operator[]"),
            ("a::F::operator()(int) const", "a::F::operator()", "F::operator()"),
            ("bool std::operator< <char>(A const&, B)", "std::operator<", "std::operator<"),
            ("std::ostream& std::operator<< <T>(std::ostream&)", "std::operator<<", "std::operator<<"),
            (
                "a::T::operator unsigned long() const",
                "a::T::operator unsigned long",
                "T::operator unsigned long",
            ),
            ("operator new(unsigned long)", "operator new", "operator new"),
            (
                "a::f(int)::{lambda(int)#1}::operator()(int) const",
                "a::f::{lambda(int)#1}::operator()",
                "a::f::{lambda(int)#1}::operator()",
            ),
            ("main(int, char**)", "main", "main"),
            ("a::~a", "a::~a", "a::~a"),
        ] {
            assert_eq!(shown(name), (full.into(), short.into()), "{name}");
        }
    }

    #[test]
    fn rust_and_go_are_known_by_module_and_function() {
        for (name, full, short) in [
            ("alloc::vec::Vec<T,A>::push", "alloc::vec::Vec::push", "Vec::push"),
            ("<alloc::vec::Vec<T> as core::clone::Clone>::clone", "alloc::vec::Vec::clone", "Vec::clone"),
            ("<&mut W as core::fmt::Write>::write_str", "&mut W::write_str", "&mut W::write_str"),
            ("core::iter::map::<u8, fn(u8) -> u8>", "core::iter::map", "iter::map"),
            ("a::b::c::{{closure}}", "a::b::c::{{closure}}", "b::c::{{closure}}"),
            ("core::slice::<impl [T]>::sort", "core::slice::<impl [T]>::sort", "<impl [T]>::sort"),
            ("github.com/a/b.(*Server).Serve", "github.com/a/b.(*Server).Serve", "a/b.(*Server).Serve"),
            ("runtime.mallocgc", "runtime.mallocgc", "runtime.mallocgc"),
        ] {
            assert_eq!(shown(name), (full.into(), short.into()), "{name}");
        }
    }

    #[test]
    fn what_is_no_path_stays_as_it_is() {
        for name in [
            "do_syscall_64",
            "foo.isra.0.cold",
            "[libc.so.6]",
            "[truncated: stack copy too small]",
            "LazyCompile:*fib /tmp/deep.js:1:13",
            "JS:~(anonymous) /tmp/a b.js:1",
            "/usr/lib/x.so",
            "a<b",
            "f(",
            ")",
            "operator",
            "",
            "::",
        ] {
            assert_eq!(shown(name).0, name);
        }
        assert_eq!(shown("py::<lambda>:/tmp/a.py").1, "py::<lambda>:/tmp/a.py");
    }

    #[test]
    fn a_narrow_frame_keeps_the_right_end() {
        let name = "com.sun.tools.Attr.visitApply(int)";
        let parsed = FunctionName::parse(name);
        let fitting = [
            (40, "com.sun.tools.Attr.visitApply"),
            (20, "Attr.visitApply"),
            (10, "visitApply"),
            (8, "visitAp…"),
            (2, ""),
        ];
        for (columns, text) in fitting {
            assert_eq!(parsed.fit(name, columns), text);
        }
        assert_eq!(parsed.cuts(name).as_deref(), Some("0 4 8 14 19-29"));
        assert_eq!(FunctionName::parse("main").cuts("main"), None);
        let name = "ä::Vec<T>::push";
        assert_eq!(FunctionName::parse(name).cuts(name).as_deref(), Some("0 3-6,9 11"));
    }

    proptest! {
        #[test]
        fn hostile_names_are_only_ever_cut(name in "[a-cop:<>(){}\\[\\] ./;&ä-]{0,40}|\\PC{0,20}", columns in 0_usize..30) {
            let parsed = FunctionName::parse(&name);
            let mut end = 0;
            for range in parsed.parts.iter().flatten() {
                prop_assert!(range.start >= end && range.end <= name.len(), "{:?}", parsed);
                prop_assert!(name.get(range.clone()).is_some());
                end = range.end;
            }
            prop_assert!(parsed.fit(&name, columns).chars().count() <= columns);
            parsed.cuts(&name);
        }
    }
}
