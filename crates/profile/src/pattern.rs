//! Patterns that choose functions and modules by their names.

use std::borrow::Cow;

use regex_lite::Regex;
use thiserror::Error;

use crate::short_names::short_name;

/// A pattern as it is typed.
///
/// Plain text is looked for anywhere in a function's name, ignoring case unless it has a capital letter; `/…/` is a
/// regular expression. With `mod:` before it, it is about the name of the module. A place without a function is called
/// `[module]`, or `[unknown]`.
#[derive(Clone, Debug)]
pub struct Pattern {
    typed: String,
    of_module: bool,
    matcher: Matcher,
}

#[derive(Clone, Debug)]
enum Matcher {
    Text(String),
    /// In lower case.
    TextOfAnyCase(String),
    Expression(Regex),
}

/// The reason why a text is no pattern.
#[derive(Error, Debug)]
pub enum PatternError {
    /// Nothing was typed.
    #[error("a pattern without a letter matches everything")]
    Empty,
    /// The text between slashes is no regular expression.
    #[error("`{expression}` is no regular expression")]
    Expression {
        /// The text that was typed.
        expression: String,
        /// The parser's error.
        source: regex_lite::Error,
    },
}

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// Where nothing is typed, and where a regular expression is wrong.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let (of_module, rest) = match text.strip_prefix("mod:") {
            // `mod::function` is a path.
            Some(rest) if !rest.starts_with(':') => (true, rest),
            _ => (false, text),
        };
        Self::new(text, of_module, rest)
    }

    /// Parses a pattern that is about modules, whether or not it begins with `mod:`.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_module(text: &str) -> Result<Self, PatternError> {
        Self::new(text, true, text.strip_prefix("mod:").unwrap_or(text))
    }

    fn new(typed: &str, of_module: bool, rest: &str) -> Result<Self, PatternError> {
        let expression = rest.strip_prefix('/').and_then(|rest| rest.strip_suffix('/'));
        let matcher =
            match expression {
                Some("") => return Err(PatternError::Empty),
                Some(expression) => Matcher::Expression(Regex::new(expression).map_err(|source| {
                    PatternError::Expression { expression: expression.to_owned(), source }
                })?),
                None if rest.is_empty() => return Err(PatternError::Empty),
                None if rest.chars().any(char::is_uppercase) => Matcher::Text(rest.to_owned()),
                None => Matcher::TextOfAnyCase(rest.to_lowercase()),
            };
        Ok(Self { typed: typed.to_owned(), of_module, matcher })
    }

    /// The pattern as it was typed.
    pub fn typed(&self) -> &str {
        &self.typed
    }

    /// Returns true if a frame with this function, by its whole or its short name, in this module, is meant.
    pub fn matches(&self, function: &str, module: Option<&str>) -> bool {
        if self.of_module {
            return module.is_some_and(|module| self.is_in(module));
        }
        self.is_in(function) || matches!(short_name(function), Cow::Owned(short) if self.is_in(&short))
    }

    /// Returns true if this is the very name of the function that was typed, whole or short.
    pub fn is_exactly(&self, function: &str) -> bool {
        !self.of_module && (self.typed == function || self.typed == short_name(function))
    }

    fn is_in(&self, name: &str) -> bool {
        match &self.matcher {
            Matcher::Text(text) => name.contains(text),
            Matcher::TextOfAnyCase(text) => name.to_lowercase().contains(text),
            Matcher::Expression(expression) => expression.is_match(name),
        }
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        (&self.typed, self.of_module) == (&other.typed, other.of_module)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_ignores_case_until_a_capital_is_typed() {
        let matches =
            |pattern: &str, name: &str| Pattern::parse(pattern).unwrap().matches(name, Some("libc.so.6"));
        assert!(matches("alloc", "std::Alloc::new") && matches("Alloc", "std::Alloc::new"));
        assert!(!matches("ALLOC", "std::Alloc::new"));
        assert!(matches("/^std::.*new$/", "std::Alloc::new") && !matches("/^Alloc/", "std::Alloc::new"));
        assert!(matches("mod:libc", "f") && !matches("libc", "f") && !matches("mod:libm", "f"));
        assert!(matches("mod::f", "a::mod::f"), "a path is no prefix");
        assert!(matches("/", "operator/"), "one slash is text");
        let method = "<app::Rows<u8> as core::iter::Iterator>::next";
        assert!(matches("/^app::Rows<u8>::next$/", method) && matches("Iterator>::next", method));
    }

    #[test]
    fn what_is_no_pattern_says_why() {
        assert!(matches!(Pattern::parse(""), Err(PatternError::Empty)));
        assert!(matches!(Pattern::parse("//"), Err(PatternError::Empty)));
        assert!(matches!(Pattern::parse("mod:"), Err(PatternError::Empty)));
        assert!(matches!(Pattern::parse("/(/"), Err(PatternError::Expression { .. })));
    }
}
