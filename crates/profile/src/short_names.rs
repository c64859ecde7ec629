//! Short names of functions, for people: what a C++ or Rust name spells out and nobody reads is left out.
//!
//! Of template and generic arguments two are shown, two levels deep; defaulted ones (allocators, comparators) are not shown, and
//! `<A as B>::method` is `A::method`. The short name depends on the function alone.

use std::borrow::Cow;

/// Arguments that stand for themselves where nobody chose others, by their beginnings.
const DEFAULTED: [&str; 7] = [
    "std::allocator<",
    "std::char_traits<",
    "std::default_delete<",
    "std::equal_to<",
    "std::hash<",
    "std::less<",
    "alloc::alloc::Global",
];
/// The number of arguments that are shown.
const SHOWN_ARGUMENTS: usize = 2;
/// How deep arguments of arguments are shown.
const SHOWN_DEPTH: usize = 2;
/// C++'s string as its library has it, without what is defaulted, and as everybody writes it.
const STRING: (&str, &str) = ("std::__cxx11::basic_string<char>", "std::string");

/// Returns the short name of a function; the name itself where there is nothing to leave out, or its brackets do not match.
pub fn short_name(name: &str) -> Cow<'_, str> {
    if !name.contains('<') {
        return Cow::Borrowed(name);
    }
    match shortened(name, 0) {
        Some(short) if short.chars().count() < name.chars().count() => Cow::Owned(short),
        _ => Cow::Borrowed(name),
    }
}

fn shortened(name: &str, depth: usize) -> Option<String> {
    let mut short = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find('<') {
        let (before, bracket) = rest.split_at(at);
        short.push_str(before);
        if let Some(operator) = operator_of(&short, bracket) {
            short.push_str(operator);
            rest = bracket.get(operator.len()..)?;
            continue;
        }
        let close = closing(bracket)?;
        let inner = bracket.get(1..close)?;
        rest = bracket.get(close + 1..)?;
        let is_type = short.is_empty() || short.ends_with(['(', ' ', '&', '*', ',']);
        if is_type && rest.starts_with("::") {
            let of = split(inner, " as ").next()?;
            let of = shortened(of, depth)?;
            let is_path = of.starts_with(|first: char| first.is_alphabetic() || first == '_')
                && split(&of, " ").nth(1).is_none();
            match is_path {
                true => short.push_str(&of),
                false => short.extend(["<", &of, ">"]),
            }
        } else if is_type || short.ends_with('.') {
            // `<module>`, `<frozen runpy>`, `make.<locals>`: a name.
            short.extend(["<", inner, ">"]);
        } else if depth >= SHOWN_DEPTH {
            short.push_str("<…>");
        } else {
            let arguments: Vec<&str> = split(inner, ",").map(str::trim).collect();
            let is_chosen = |&(at, argument): &(usize, &&str)| {
                at == 0 || !DEFAULTED.iter().any(|default| argument.starts_with(default))
            };
            let chosen: Vec<&&str> =
                arguments.iter().enumerate().filter(is_chosen).map(|(_, argument)| argument).collect();
            let mut shown = Vec::new();
            for argument in chosen.iter().take(SHOWN_ARGUMENTS) {
                shown.push(shortened(argument, depth + 1)?);
            }
            if chosen.len() > SHOWN_ARGUMENTS {
                shown.push("…".to_owned());
            }
            short.extend(["<", &shown.join(", "), ">"]);
        }
    }
    short.push_str(rest);
    Some(short.replace(STRING.0, STRING.1))
}

/// Returns the operator that a name goes on with, if it ends in the word before one.
fn operator_of<'n>(before: &str, rest: &'n str) -> Option<&'n str> {
    if !before.ends_with("operator") {
        return None;
    }
    let operator = ["<=>", "<<=", "<<", "<=", "<"].into_iter().find(|operator| rest.starts_with(operator))?;
    rest.get(..operator.len())
}

/// Returns the place of the bracket that closes the one at the beginning. The `>` of an arrow closes none.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut before) = (0_usize, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.checked_sub(1)?,
            b'>' if before != b'-' && before != b'=' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return (byte == b'>').then_some(at);
        }
        before = byte;
    }
    None
}

/// Splits text at a separator outside of all brackets.
fn split<'n>(text: &'n str, separator: &'n str) -> impl Iterator<Item = &'n str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let (mut depth, mut before) = (0_i32, 0);
        for (at, byte) in text.bytes().enumerate() {
            match byte {
                _ if depth == 0
                    && text
                        .as_bytes()
                        .get(at..)
                        .is_some_and(|rest| rest.starts_with(separator.as_bytes())) =>
                {
                    rest = text.get(at + separator.len()..);
                    return text.get(..at);
                }
                b'<' | b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' => depth -= 1,
                b'>' if before != b'-' && before != b'=' => depth -= 1,
                _ => {}
            }
            before = byte;
        }
        rest.take()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_nobody_reads_is_left_out() {
        for (name, short) in [
            ("main", "main"),
            ("<f64>::sin", "f64::sin"),
            ("<alloc::vec::Vec<T, A> as core::ops::index::Index<I>>::index", "alloc::vec::Vec<T, A>::index"),
            ("<[T] as core::slice::Sort>::sort", "<[T]>::sort"),
            ("<&mut app::Rows<u8, alloc::alloc::Global> as Iterator>::next", "<&mut app::Rows<u8>>::next"),
            (
                "core::ops::function::FnOnce::call_once::<fn() -> u8, ()>",
                "core::ops::function::FnOnce::call_once::<fn() -> u8, ()>",
            ),
            (
                "std::vector<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >, std::allocator<int> >::push_back",
                "std::vector<std::string>::push_back",
            ),
            (
                "std::_Rb_tree<int, std::pair<int const, long>, std::_Select1st<int>, std::less<int>, std::allocator<int> >::find",
                "std::_Rb_tree<int, std::pair<int const, long>, …>::find",
            ),
            ("std::map<A<B<C>>, D>::at", "std::map<A<B<C>>, D>::at"),
            ("std::map<A<B<C, E>>, D>::at", "std::map<A<B<…>>, D>::at"),
            ("app::operator<< <int>", "app::operator<< <int>"),
            ("app::V::operator<=>", "app::V::operator<=>"),
            ("app::V::operator->", "app::V::operator->"),
            ("<module> (t.py)", "<module> (t.py)"),
            ("make.<locals>.<listcomp>", "make.<locals>.<listcomp>"),
            ("main::{lambda(std::less<int>)#1}::operator()", "main::{lambda(std::less<int>)#1}::operator()"),
            ("broken<", "broken<"),
            ("a>b<c", "a>b<c"),
        ] {
            assert_eq!(short_name(name), short, "{name}");
        }
    }

    proptest! {
        #[test]
        fn no_name_is_longer_for_it(name in "[a-c<>(),:& as\\[\\]-]{0,40}") {
            prop_assert!(short_name(&name).chars().count() <= name.chars().count(), "{}", short_name(&name));
        }
    }
}
