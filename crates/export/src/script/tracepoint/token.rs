//! Splits the line of C that prints a tracepoint into tokens.

/// A token of the line.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Token<'a> {
    Word(&'a str),
    Number(u64),
    Text(String),
    Sign(&'a str),
}

/// Operators and punctuation, those of two characters first.
const SIGNS: &[&str] = &[
    "->", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "(", ")", "{", "}", "[", "]", ",", "?", ":", "+",
    "-", "*", "/", "%", "&", "|", "^", "~", "!", "<", ">", ".", ";", "=",
];

/// Returns all tokens; `None` if a character starts none.
pub(super) fn tokens(text: &str) -> Option<Vec<Token<'_>>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let len = match first {
            '"' => {
                let (text, len) = string(rest)?;
                // Adjacent string literals are concatenated.
                match tokens.last_mut() {
                    Some(Token::Text(before)) => before.push_str(&text),
                    _ => tokens.push(Token::Text(text)),
                }
                len
            }
            '\'' => {
                let (value, len) = character(rest)?;
                tokens.push(Token::Number(value));
                len
            }
            '0'..='9' => {
                let len = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
                tokens.push(Token::Number(number(rest.get(..len)?)?));
                len
            }
            _ if first == '_' || first.is_ascii_alphabetic() => {
                let len = rest.find(|c: char| c != '_' && !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
                tokens.push(Token::Word(rest.get(..len)?));
                len
            }
            _ => {
                let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign))?;
                tokens.push(Token::Sign(sign));
                sign.len()
            }
        };
        rest = rest.get(len..)?.trim_start();
    }
    Some(tokens)
}

/// Parses a string literal: returns its value and its length in the text.
fn string(text: &str) -> Option<(String, usize)> {
    let mut characters = text.char_indices().skip(1);
    let mut literal = String::new();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((literal, at + 1)),
            '\\' => literal.push(match characters.next()?.1 {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                other => other,
            }),
            other => literal.push(other),
        }
    }
    None
}

fn character(text: &str) -> Option<(u64, usize)> {
    let inner = text.get(1..)?;
    let end = inner.get(1..)?.find('\'')? + 1;
    let value = match inner.get(..end)? {
        "\\n" => '\n',
        "\\t" => '\t',
        "\\0" => '\0',
        one => one.chars().last()?,
    };
    Some((u64::from(u32::from(value)), end + 2))
}

/// Parses an integer literal: `12`, `0x1f`, `017`, with any suffix of `u`, `l`, `U`, `L`.
fn number(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(['u', 'U', 'l', 'L']);
    match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None if digits.len() > 1 && digits.starts_with('0') => u64::from_str_radix(digits, 8).ok(),
        None => digits.parse().ok(),
    }
}
