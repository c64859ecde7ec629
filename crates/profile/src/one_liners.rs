//! Functions of the standard libraries of Rust and C++ that are one line. Inlined, their samples are their callers': a loop over an array has its
//! time in half a dozen of them.

/// Beginnings of modules and types of Rust whose functions do not do more than one thing.
const PATHS: [&str; 13] = [
    "core::intrinsics::",
    "core::hint::",
    "core::mem::",
    "core::ptr::const_ptr::",
    "core::ptr::mut_ptr::",
    "core::ptr::non_null::",
    "core::ptr::read",
    "core::ptr::write",
    "core::slice::index::",
    "core::ub_checks::",
    "<*const ",
    "<*mut ",
    "<core::ptr::non_null::",
];

/// Rust's integers.
const INTEGERS: [&str; 12] =
    ["u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize"];

/// Beginnings of methods of integers: all but those that parse, print, take powers and roots.
const INTEGER_METHODS: [&str; 20] = [
    "abs",
    "add",
    "backward",
    "checked_",
    "clone",
    "cmp",
    "count_",
    "eq",
    "forward",
    "from_",
    "is_power_of_two",
    "leading_",
    "lt",
    "overflowing_",
    "partial_cmp",
    "rotate_",
    "saturating_",
    "to_",
    "trailing_",
    "wrapping_",
];

/// Traits of Rust with the method that is one line, for types of its standard library.
const TRAIT_METHODS: [(&str, &str); 7] = [
    ("core::iter::range::RangeIteratorImpl", "spec_next"),
    ("core::iter::traits::iterator::Iterator", "next"),
    ("core::ops::index::Index", "index"),
    ("core::ops::index::IndexMut", "index_mut"),
    ("core::ops::deref::Deref", "deref"),
    ("core::ops::deref::DerefMut", "deref_mut"),
    ("core::slice::index::SliceIndex", ""),
];

/// Functions of C++'s standard library by the last part of their names.
const CXX: [&str; 15] = [
    "back", "base", "begin", "cbegin", "cend", "data", "empty", "end", "forward", "front", "get", "max",
    "min", "move", "size",
];

/// Returns true for a function of a standard library that is one line.
pub(crate) fn is_one(function: &str) -> bool {
    if PATHS.iter().any(|path| function.starts_with(path)) {
        return true;
    }
    if function.starts_with("std::") || function.starts_with("__gnu_cxx::") {
        return is_cxx(function);
    }
    let Some((of, method)) = split_method(function) else { return false };
    let of = of.trim_start_matches('<');
    let of = of.strip_prefix("core::num::<impl ").unwrap_or(of);
    if of.split(['>', ' ']).next().is_some_and(|of| INTEGERS.contains(&of)) {
        return INTEGER_METHODS.iter().any(|begin| method.starts_with(begin))
            && !method.starts_with("from_str");
    }
    let is_standard = ["core::", "alloc::", "["].iter().any(|path| of.starts_with(path));
    is_standard
        && TRAIT_METHODS.iter().any(|(of_trait, name)| {
            method.starts_with(name)
                && of.rsplit_once(" as ").is_some_and(|(_, implemented)| implemented.starts_with(of_trait))
        })
}

/// Splits a path before its last part, which is no argument.
fn split_method(function: &str) -> Option<(&str, &str)> {
    let mut depth = 0_i32;
    let bytes = function.as_bytes();
    let at = bytes.iter().enumerate().rposition(|(at, byte)| {
        match byte {
            b'>' if at.checked_sub(1).and_then(|before| bytes.get(before)) != Some(&b'-') => depth += 1,
            b'<' => depth -= 1,
            _ => {}
        }
        depth == 0 && bytes.get(at..at + 2) == Some(b"::") && bytes.get(at + 2) != Some(&b'<')
    })?;
    Some((function.get(..at)?, function.get(at + 2..)?))
}

/// As [`is_one`], of C++.
fn is_cxx(function: &str) -> bool {
    if function.contains("::operator[]") {
        return true;
    }
    let is_iterator =
        function.starts_with("__gnu_cxx::__normal_iterator<") || function.starts_with("__gnu_cxx::operator");
    if is_iterator && function.contains("operator") {
        return true;
    }
    let Some((_, name)) = split_method(function) else { return false };
    CXX.contains(&name.split(['<', '(']).next().unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_one_line_stands_in_a_list() {
        for function in [
            "core::intrinsics::copy_nonoverlapping",
            "<*const u8>::add",
            "core::ptr::const_ptr::<impl *const T>::add",
            "core::num::<impl u64>::wrapping_add",
            "<u64>::wrapping_mul",
            "<usize as core::iter::range::Step>::forward_unchecked",
            "<core::ops::range::Range<usize> as core::iter::traits::iterator::Iterator>::next",
            "<core::slice::iter::Iter<T> as core::iter::traits::iterator::Iterator>::next",
            "<alloc::vec::Vec<T,A> as core::ops::index::Index<I>>::index",
            "<[f64] as core::ops::index::Index<usize>>::index",
            "std::vector<int, std::allocator<int> >::operator[]",
            "std::vector<int, std::allocator<int> >::size",
            "__gnu_cxx::__normal_iterator<int*, std::vector<int, std::allocator<int> > >::operator++",
            "std::forward<int&>",
        ] {
            assert!(is_one(function), "{function}");
        }
        for function in [
            "core::num::<impl core::str::traits::FromStr for u64>::from_str",
            "<u64>::from_str_radix",
            "<u64>::pow",
            "core::num::flt2dec::strategy::grisu::format_exact",
            "<app::Rows as core::iter::traits::iterator::Iterator>::next",
            "core::ptr::drop_in_place<app::Big>",
            "core::slice::sort::unstable::quicksort",
            "<f64>::sin",
            "std::sort<int*>",
            "std::thread::sleep",
            "app::min",
            "::",
            "<",
        ] {
            assert!(!is_one(function), "{function}");
        }
    }
}
