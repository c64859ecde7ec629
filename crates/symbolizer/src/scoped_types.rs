//! C++ names with `sr` before any type (`srSt7is_sameIT_iE5value` for `std::is_same<T, int>::value`), as GCC and Clang write
//! them into the types of function templates. The demangler knows few types there.

/// Maximum number of names that are parsed in place of one.
const MAX_ATTEMPTS: usize = 64;

/// Demangles a name in which a type stands before `::`, with `parse`, which does not know that. Replaces each such name
/// by `sizeof` of the type, which counts for later substitutions in the same way. That is in the types of parameters or of
/// the result, which are not shown. Returns `None` where it would be shown, or no replacement can be parsed.
pub(crate) fn demangle(mangled: &str, parse: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let with = |operator| {
        let mut search = Search { operator, parse, attempts: MAX_ATTEMPTS };
        search.replace(mangled, mangled.len())
    };
    // Elsewhere the letters may be types.
    let has_expression = tokens(mangled).any(|(start, end)| matches!(text(mangled, start, end), "X" | "D"));
    if !has_expression {
        return None;
    }
    // What is shown of it would differ for `alignof`.
    with("st").filter(|name| with("at").as_ref() == Some(name))
}

struct Search<'p> {
    operator: &'static str,
    parse: &'p dyn Fn(&str) -> Option<String>,
    attempts: usize,
}

impl Search<'_> {
    /// Replaces the names before `end`, the last one first, in each way that they can be read.
    fn replace(&mut self, mangled: &str, end: usize) -> Option<String> {
        let before = |&(start, _): &(usize, usize)| start < end;
        let tokens: Vec<(usize, usize)> = tokens(mangled).collect();
        let is_scoped = |&&(start, _): &&(usize, usize)| text(mangled, start, start + 2) == "sr";
        let Some(&(at, _)) = tokens.iter().filter(|token| before(token)).rfind(is_scoped) else {
            self.attempts = self.attempts.checked_sub(1)?;
            return (self.parse)(mangled);
        };
        let behind = || tokens.iter().copied().filter(|&(start, _)| start > at + 2);
        for (name, name_end) in behind().filter(|&(start, end)| is_identifier(mangled, start, end)) {
            if self.attempts == 0 {
                return None;
            }
            // The type ends with an identifier, or with the end of template arguments or of a nested name.
            let follows = behind().chain(tokens.iter().copied().filter(|&(start, _)| start == at + 2));
            let type_end = follows.filter(|&(_, end)| end == name);
            if type_end
                .into_iter()
                .all(|(start, end)| text(mangled, start, end) != "E" && !is_identifier(mangled, start, end))
            {
                continue;
            }
            let replaced = |name_end: usize| {
                let parts = [text(mangled, 0, at), self.operator, text(mangled, at + 2, name)];
                parts.concat() + text(mangled, name_end, mangled.len())
            };
            // The name may have template arguments.
            let has_arguments = text(mangled, name_end, name_end + 1) == "I";
            let argument_ends = behind().filter(|&(start, end)| {
                has_arguments && start > name_end && text(mangled, start, end) == "E"
            });
            let ends: Vec<usize> =
                std::iter::once(name_end).chain(argument_ends.map(|(_, end)| end)).collect();
            for replaced in ends.into_iter().map(replaced).collect::<Vec<_>>() {
                if let Some(found) = self.replace(&replaced, at) {
                    return Some(found);
                }
            }
        }
        // The two letters may be parts of something else.
        self.replace(mangled, at)
    }
}

fn text(mangled: &str, start: usize, end: usize) -> &str {
    mangled.get(start..end).unwrap_or_default()
}

fn is_identifier(mangled: &str, start: usize, end: usize) -> bool {
    end > start + 1 && text(mangled, start, start + 1).starts_with(|first: char| first.is_ascii_digit())
}

/// Splits a mangled name into identifiers (with their lengths) and single characters: the start and end of each.
fn tokens(mangled: &str) -> impl Iterator<Item = (usize, usize)> {
    let bytes = mangled.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at;
        let rest = bytes.get(start..).filter(|rest| !rest.is_empty())?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        // Numbers of parameters (`T0_`), substitutions (`S1_`), array sizes (`A2_`) and literals (`Li3E`, `Lin3E`) are no
        // lengths.
        let before = bytes.get(..start).unwrap_or_default();
        let is_number = match before.strip_suffix(b"n").unwrap_or(before) {
            [.., b'T' | b'S' | b'A'] => true,
            [.., b'L', kind] => kind.is_ascii_lowercase(),
            _ => false,
        };
        let length = text(mangled, start, start + digits).parse::<usize>().ok().filter(|_| !is_number);
        let end =
            length.map(|length| (start + digits).saturating_add(length)).filter(|&end| end <= bytes.len());
        at = end.unwrap_or(start + 1);
        Some((start, at))
    })
}
