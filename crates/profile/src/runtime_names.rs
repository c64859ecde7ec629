//! The names that language runtimes give their functions, taken apart: function, script, and the compiler that made the code.
//!
//! V8 writes `JS:*handle /srv/app.js:4:16`, CPython `py::loads:/usr/lib/python3.12/json/__init__.py`, HotSpot
//! `int com.example.App.handle(java.util.List)`, and Go's linker `main.Map[go.shape.int]` and `runtime.memmove.abi0`.

use std::borrow::Cow;

use bitflags::bitflags;

bitflags! {
    /// The compilers of V8 that made the code of a function, which it has one after the other. Their signs are V8's own.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
    pub struct Tiers: u8 {
        /// `~`: the interpreter Ignition.
        const INTERPRETED = 1;
        /// `^`: Sparkplug, which does not optimize.
        const BASELINE = 2;
        /// `+`: Maglev, which optimizes a little.
        const MID = 4;
        /// `*`: TurboFan, which optimizes.
        const OPTIMIZED = 8;
    }
}

impl Tiers {
    /// Returns the signs of the tiers, the slowest first; empty for other code than V8's.
    pub fn signs(self) -> &'static str {
        // There are few enough to list.
        const SIGNS: [&str; 16] =
            ["", "~", "^", "~^", "+", "~+", "^+", "~^+", "*", "~*", "^*", "~^*", "+*", "~+*", "^+*", "~^+*"];
        SIGNS.get(usize::from(self.bits())).copied().unwrap_or_default()
    }

    fn of_sign(sign: char) -> Self {
        match sign {
            '~' => Self::INTERPRETED,
            '^' => Self::BASELINE,
            '+' => Self::MID,
            '*' => Self::OPTIMIZED,
            _ => Self::empty(),
        }
    }
}

/// A function by the name that people use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuntimeName<'n> {
    /// The function, such as `handle`, or `(anonymous):4` with its line.
    pub function: Cow<'n, str>,
    /// The script that has it, without its folder: `app.js`, `json/__init__.py`; one of the runtime's own keeps what tells so
    /// (`node:internal/vm`, `python3.12/json/__init__.py`). `None` for languages that have none.
    pub script: Option<&'n str>,
    /// The compilers of its code.
    pub tiers: Tiers,
}

/// The kinds of code in V8's names that stand for functions of scripts.
const OF_SCRIPTS: [&str; 5] = ["JS", "LazyCompile", "Function", "Script", "Eval"];

/// Takes the name of a function apart. `is_generated` says that its code was, by a runtime: Java's names look like C's. Returns `None` for
/// a name that has nothing to take off.
pub fn parse(name: &str, is_generated: bool) -> Option<RuntimeName<'_>> {
    of_python(name)
        .or_else(|| of_javascript(name))
        .or_else(|| of_java(name).filter(|_| is_generated))
        .or_else(|| of_go(name))
}

/// Returns true if a module is a script, as [`parse`] names it. One with another ending is none: nothing else tells it from the name of a
/// mapping.
pub(crate) fn is_script(module: &str) -> bool {
    const ENDINGS: [&str; 7] = [".js", ".mjs", ".cjs", ".ts", ".jsx", ".tsx", ".py"];
    is_of_runtime(module) || module.starts_with('<') || ENDINGS.iter().any(|ending| module.ends_with(ending))
}

/// Returns true if a script is part of a runtime's own library.
pub(crate) fn is_of_runtime(script: &str) -> bool {
    let is_numbered = |rest: &str| rest.starts_with(|digit: char| digit.is_ascii_digit());
    script.starts_with("node:")
        || script.starts_with("<frozen")
        || script.strip_prefix("python3.").is_some_and(is_numbered)
}

/// Returns true for a module of Python, as [`python_script`] names it.
pub(crate) fn is_python_script(module: &str) -> bool {
    module.ends_with(".py") || module.starts_with('<')
}

fn of_python(name: &str) -> Option<RuntimeName<'_>> {
    let (function, path) = name.strip_prefix("py::")?.rsplit_once(':')?;
    let script = python_script(path)?;
    Some(RuntimeName { function: function.into(), script: Some(script), tiers: Tiers::empty() })
}

/// Returns the part of a path that people use for a module of Python: from the folder of libraries on, or else the file. A package's
/// `__init__.py` keeps its folder.
pub(crate) fn python_script(path: &str) -> Option<&str> {
    let of_package = |path| match base_name(path) {
        Some("__init__.py") => last_parts(path, 2),
        file => file,
    };
    // `/usr/lib/python3.12/json/decoder.py`; `site-packages` below it are other people's.
    let library = path.rfind("/lib/python3").and_then(|place| path.get(place + "/lib/".len()..));
    match library.filter(|library| !library.contains("-packages/")) {
        Some(library) => Some(library),
        None => of_package(path),
    }
}

fn of_javascript(name: &str) -> Option<RuntimeName<'_>> {
    let (kind, rest) = name.split_once(':')?;
    if !OF_SCRIPTS.contains(&kind) {
        return None;
    }
    // V8 of Node 24 and Deno marks code that was entered in a loop (`o*`), and code for any context (`*'`).
    let looped = rest.strip_prefix('o').unwrap_or(rest);
    let tiers = looped.chars().next().map_or(Tiers::empty(), Tiers::of_sign);
    let rest = if tiers.is_empty() { rest } else { looped.get(1..)? };
    let rest = rest.strip_prefix('\'').filter(|_| !tiers.is_empty()).unwrap_or(rest);
    // The name of a function has no blanks, but for `get x` and the like; the path may have some.
    let (function, place) = match rest.split_once(' ') {
        Some((word @ ("get" | "set" | "async"), behind)) => {
            let end = word.len() + 1 + behind.find(' ')?;
            (rest.get(..end)?, rest.get(end + 1..)?)
        }
        Some(parts) => parts,
        None => return None,
    };
    let (path, line) = without_position(place);
    // Code of `eval` has no path.
    let script = if path.starts_with("node:") { Some(path) } else { base_name(path) };
    let function = match (function, line) {
        ("" | "(anonymous)", Some(line)) if !is_start(place) || !function.is_empty() => {
            format!("(anonymous):{line}").into()
        }
        ("", _) => "(script)".into(),
        _ => function.into(),
    };
    Some(RuntimeName { function, script, tiers })
}

/// Returns true for the place of a whole script.
fn is_start(place: &str) -> bool {
    place.ends_with(":1:1") || (place.ends_with(":1") && without_position(place).1 == Some("1"))
}

/// Splits `/srv/app.js:4:16` into the path and the line, as text.
fn without_position(place: &str) -> (&str, Option<&str>) {
    let number = |text: &str| text.rsplit_once(':').filter(|(_, digits)| is_number(digits)).is_some();
    let split = |text| match number(text) {
        true => text.rsplit_once(':'),
        false => None,
    };
    match split(place).map(|(before, last)| (split(before), before, last)) {
        Some((Some((path, line)), ..)) => (path, Some(line)),
        Some((None, path, line)) => (path, Some(line)),
        None => (place, None),
    }
}

/// Takes the result and the parameters off `int com.example.App.handle(java.util.List)`.
fn of_java(name: &str) -> Option<RuntimeName<'_>> {
    let head = name.strip_suffix(')')?.split_once('(')?.0;
    let function = head.rsplit_once(' ').map_or(head, |(_, function)| function);
    let is_method = function.contains('.') && !function.contains(['<', ':', '*', '&']);
    is_method.then(|| RuntimeName { function: function.into(), script: None, tiers: Tiers::empty() })
}

/// Takes the shapes of types and the mark of an ABI off a name of Go.
fn of_go(name: &str) -> Option<RuntimeName<'_>> {
    let shape = name.split_once("[go.shape.").map(|(head, rest)| {
        let tail = rest.rsplit_once(']').map_or("", |(_, tail)| tail);
        format!("{head}[…]{tail}").into()
    });
    let function = shape.or_else(|| Some(name.strip_suffix(".abi0")?.into()))?;
    Some(RuntimeName { function, script: None, tiers: Tiers::empty() })
}

fn base_name(path: &str) -> Option<&str> {
    path.rsplit('/').next().filter(|file| !file.is_empty())
}

/// Returns the last parts of a path.
fn last_parts(path: &str, count: usize) -> Option<&str> {
    let slash = path.rmatch_indices('/').nth(count - 1);
    slash.map_or(Some(path), |(place, _)| path.get(place + 1..))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_the_names_that_people_use() {
        let of = |name: &str| {
            let found = parse(name, true)?;
            Some((found.function.into_owned(), found.script.unwrap_or("-").to_owned(), found.tiers.signs()))
        };
        for (name, function, script, tiers) in [
            ("JS:*handle /srv/app.js:4:16", "handle", "app.js", "*"),
            ("JS:~handle /srv/app.js:4:16", "handle", "app.js", "~"),
            ("LazyCompile:^fib /tmp/a b.js:1:13", "fib", "a b.js", "^"),
            ("JS:+get size /srv/app.js:4", "get size", "app.js", "+"),
            ("JS:*(anonymous) /srv/app.js:7:3", "(anonymous):7", "app.js", "*"),
            ("JS:~ /srv/app.js:1:1", "(script)", "app.js", "~"),
            ("LazyCompile:~ /srv/app.js:1", "(script)", "app.js", "~"),
            ("JS:* /srv/app.js:10:17", "(anonymous):10", "app.js", "*"),
            ("JS:* /srv/app.js:1:20", "(anonymous):1", "app.js", "*"),
            ("JS:*sixty :1:10", "sixty", "-", "*"),
            ("JS:*compileFunction node:internal/vm:73:1", "compileFunction", "node:internal/vm", "*"),
            ("JS:+'handle /srv/app.js:4:16", "handle", "app.js", "+"),
            ("JS:o*handle /srv/app.js:4:16", "handle", "app.js", "*"),
            ("JS:o+'handle /srv/app.js:4:16", "handle", "app.js", "+"),
            ("JS:*open /srv/app.js:4:16", "open", "app.js", "*"),
            ("JS:open /srv/app.js:4:16", "open", "app.js", ""),
            ("py::sixty:/home/me/shares.py", "sixty", "shares.py", ""),
            ("py::loads:/usr/lib/python3.12/json/__init__.py", "loads", "python3.12/json/__init__.py", ""),
            (
                "py::get:/opt/lib/python3.12/site-packages/requests/__init__.py",
                "get",
                "requests/__init__.py",
                "",
            ),
            ("py::_call:<frozen importlib._bootstrap>", "_call", "<frozen importlib._bootstrap>", ""),
            ("int com.example.App.handle(java.util.List)", "com.example.App.handle", "-", ""),
            ("slices.SortFunc[go.shape.[]int,go.shape.int]", "slices.SortFunc[…]", "-", ""),
            ("runtime.memmove.abi0", "runtime.memmove", "-", ""),
        ] {
            assert_eq!(of(name), Some((function.to_owned(), script.to_owned(), tiers)), "{name}");
        }
        for plain in ["main", "std::vector<int>::push_back", "JS:", "py::", "Interpreter", "f()", "", "JS:*x"]
        {
            assert_eq!(of(plain), None, "{plain}");
        }
        assert_eq!(parse("int app::f(long)", false), None, "of a compiler");
    }
}
