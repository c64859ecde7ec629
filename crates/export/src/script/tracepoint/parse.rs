//! Parses `print fmt`.

use model::Name;

use super::expression::{Binary, Cast, Expression, Piece, Print, Unary};
use super::field::{Field, size_of_type};
use super::printf::Directive;
use super::token::{Token, tokens};

/// The greatest nesting depth of expressions that is parsed; formats of kernels are far below.
const MAX_DEPTH: usize = 96;

/// Parses a line of C; returns `None` if it goes beyond the subset that is supported.
pub(super) fn print(text: &str, fields: &[Field], long_size: u8) -> Option<Print> {
    let tokens = tokens(text)?;
    let mut parser = Parser { tokens: &tokens, fields, depth: 0 };
    let Some(Token::Text(format)) = parser.next() else { return None };
    let format = pieces(format, if long_size == 4 { 32 } else { 64 })?;
    let mut arguments = Vec::new();
    while parser.eat(",") {
        arguments.push(parser.expression()?);
    }
    parser.tokens.is_empty().then_some(Print { format, arguments })
}

/// Splits a format into literals and directives.
fn pieces(format: &str, long_bits: u32) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = format;
    while let Some((before, behind)) = rest.split_once('%') {
        literal.push_str(before);
        if let Some(behind) = behind.strip_prefix('%') {
            literal.push('%');
            rest = behind;
            continue;
        }
        let (directive, len) = Directive::parse(behind, long_bits)?;
        pieces.push(Piece::Literal(safe_literal(&std::mem::take(&mut literal))));
        pieces.push(Piece::Directive(directive));
        rest = behind.get(len..)?;
    }
    literal.push_str(rest);
    pieces.push(Piece::Literal(safe_literal(&literal)));
    Some(pieces)
}

/// Returns a literal with line breaks, tabs and unsafe characters replaced.
fn safe_literal(literal: &str) -> String {
    Name::from(literal.replace(['\n', '\r', '\t'], " ").as_str()).to_string()
}

struct Parser<'a> {
    tokens: &'a [Token<'a>],
    fields: &'a [Field],
    depth: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a Token<'a>> {
        self.tokens.first()
    }

    fn next(&mut self) -> Option<&'a Token<'a>> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first)
    }

    fn is(&self, sign: &str) -> bool {
        matches!(self.peek(), Some(Token::Sign(found)) if *found == sign)
    }

    fn eat(&mut self, sign: &str) -> bool {
        let found = self.is(sign);
        if found {
            self.next();
        }
        found
    }

    fn expect(&mut self, sign: &str) -> Option<()> {
        self.eat(sign).then_some(())
    }

    fn expression(&mut self) -> Option<Expression> {
        self.depth += 1;
        let found = if self.depth > MAX_DEPTH { None } else { self.choice() };
        self.depth -= 1;
        found
    }

    fn choice(&mut self) -> Option<Expression> {
        let condition = self.binary(0)?;
        if !self.eat("?") {
            return Some(condition);
        }
        let then = self.expression()?;
        self.expect(":")?;
        let otherwise = self.expression()?;
        Some(Expression::Choice(Box::new(condition), Box::new(then), Box::new(otherwise)))
    }

    fn binary(&mut self, weakest: u8) -> Option<Expression> {
        let mut left = self.unary()?;
        while let Some(Token::Sign(sign)) = self.peek()
            && let Some((operator, strength)) = Binary::from_sign(sign)
            && strength > weakest
        {
            self.next();
            let right = self.binary(strength)?;
            left = Expression::Binary(operator, Box::new(left), Box::new(right));
        }
        Some(left)
    }

    fn unary(&mut self) -> Option<Expression> {
        self.depth += 1;
        let found = if self.depth > MAX_DEPTH { None } else { self.prefixed() };
        self.depth -= 1;
        found
    }

    fn prefixed(&mut self) -> Option<Expression> {
        for (sign, operator) in [("-", Unary::Minus), ("~", Unary::Complement), ("!", Unary::Not)] {
            if self.eat(sign) {
                return Some(Expression::Unary(operator, Box::new(self.unary()?)));
            }
        }
        // `&field` means the bytes of the field, which is what the field itself evaluates to.
        self.eat("&");
        if self.is("(") {
            if let Some((cast, rest)) = self.cast() {
                self.tokens = rest;
                return Some(Expression::Cast(cast, Box::new(self.unary()?)));
            }
            self.next();
            let inner = self.expression()?;
            self.expect(")")?;
            return self.element(inner);
        }
        let primary = match self.next()? {
            Token::Number(value) => Expression::Number(*value),
            Token::Text(text) => Expression::Text(text.clone()),
            Token::Word("REC") => {
                self.expect("->")?;
                Expression::Field(self.field()?)
            }
            Token::Word("sizeof") => self.size()?,
            Token::Word(word) if self.is("(") => self.function(word)?,
            Token::Word(word) => Expression::Word((*word).to_owned()),
            Token::Sign(_) => return None,
        };
        self.element(primary)
    }

    fn element(&mut self, mut of: Expression) -> Option<Expression> {
        while self.eat("[") {
            let index = self.expression()?;
            self.expect("]")?;
            of = Expression::Element(Box::new(of), Box::new(index));
        }
        Some(of)
    }

    fn field(&mut self) -> Option<usize> {
        let Token::Word(name) = self.next()? else { return None };
        self.fields.iter().position(|field| field.name == *name)
    }

    /// Parses a cast such as `(unsigned long *)`, without consuming it; returns it with the tokens behind it.
    fn cast(&self) -> Option<(Cast, &'a [Token<'a>])> {
        let inner = self.tokens.get(1..)?;
        let end = inner.iter().position(|token| *token == Token::Sign(")"))?;
        let (kind, rest) = (inner.get(..end)?, inner.get(end + 1..)?);
        let cast = type_of(kind)?;
        // `(x) & y` is a cast of `&y` only if x can be nothing but a type.
        match rest.first()? {
            Token::Sign("(" | "~" | "!") | Token::Word(_) | Token::Number(_) | Token::Text(_) => {
                Some((cast, rest))
            }
            Token::Sign("-" | "&" | "*") if kind.len() > 1 => Some((cast, rest)),
            Token::Sign(_) => None,
        }
    }

    fn size(&mut self) -> Option<Expression> {
        self.expect("(")?;
        let size = if let Some(end) = self.tokens.iter().position(|token| *token == Token::Sign(")"))
            && let Some(cast) = self.tokens.get(..end).and_then(type_of)
        {
            self.tokens = self.tokens.get(end..)?;
            cast.size
        } else {
            match self.expression()? {
                Expression::Field(field) => self.fields.get(field)?.size,
                Expression::Element(of, _) => match *of {
                    Expression::Field(field) => self.fields.get(field)?.element?,
                    _ => return None,
                },
                _ => return None,
            }
        };
        self.expect(")")?;
        Some(Expression::Number(size as u64))
    }

    fn function(&mut self, name: &str) -> Option<Expression> {
        self.expect("(")?;
        let found = match name {
            "__print_flags" | "__print_flags_u64" => {
                let value = Box::new(self.expression()?);
                self.expect(",")?;
                let Token::Text(delimiter) = self.next()? else { return None };
                Expression::Flags(value, delimiter.clone(), self.table()?)
            }
            "__print_symbolic" | "__print_symbolic_u64" => {
                let value = Box::new(self.expression()?);
                Expression::Symbolic(value, self.table()?)
            }
            "__print_hex" | "__print_hex_str" => {
                let bytes = Box::new(self.expression()?);
                self.expect(",")?;
                Expression::Hex(bytes, Box::new(self.expression()?), name == "__print_hex")
            }
            "__print_array" => {
                let values = Box::new(self.expression()?);
                self.expect(",")?;
                let count = Box::new(self.expression()?);
                self.expect(",")?;
                Expression::Array(values, count, Box::new(self.expression()?))
            }
            "__get_str" | "__get_rel_str" => Expression::Str(self.field()?),
            "__get_bitmask" | "__get_cpumask" | "__get_rel_bitmask" | "__get_rel_cpumask" => {
                Expression::Bitmask(self.field()?)
            }
            "__get_dynamic_array" | "__get_rel_dynamic_array" | "__get_sockaddr" | "__get_rel_sockaddr" => {
                Expression::Dynamic(self.field()?)
            }
            "__get_dynamic_array_len" | "__get_rel_dynamic_array_len" => {
                Expression::DynamicLen(self.field()?)
            }
            "__builtin_expect" => {
                let value = self.expression()?;
                self.expect(",")?;
                self.expression()?;
                value
            }
            _ => return None,
        };
        self.expect(")")?;
        Some(found)
    }

    /// Parses a table of values and names: `, { 1, "S" }, { 2, "D" }`.
    fn table(&mut self) -> Option<Vec<(i64, String)>> {
        let mut table = Vec::new();
        while self.eat(",") {
            self.expect("{")?;
            let value = match (self.peek(), self.tokens.get(1)) {
                // The name of a constant that the kernel did not replace by its value. -1 does not occur as a value.
                (Some(Token::Word(_)), Some(Token::Sign(","))) => {
                    self.next();
                    -1
                }
                _ => self.expression()?.constant()? as i64,
            };
            self.expect(",")?;
            match self.peek()? {
                Token::Text(name) => {
                    table.push((value, name.clone()));
                    self.next();
                }
                // `{ 0, ((void *)0) }` ends a table that a macro made.
                _ => {
                    self.expression()?;
                }
            }
            self.expect("}")?;
        }
        Some(table)
    }
}

/// Parses a type: words, then stars.
fn type_of(tokens: &[Token<'_>]) -> Option<Cast> {
    let mut words = Vec::new();
    let mut pointers = 0;
    for token in tokens {
        match token {
            Token::Word("REC") => return None,
            Token::Word(word) if pointers == 0 => words.push(*word),
            Token::Sign("*") if !words.is_empty() => pointers += 1,
            // `(const char * const)`
            Token::Word("const") => {}
            _ => return None,
        }
    }
    let kind = words.join(" ");
    if words.is_empty() {
        return None;
    }
    let unsigned = words.iter().any(|word| {
        let bare = word.trim_start_matches('_');
        *word == "unsigned" || bare.starts_with('u') || matches!(bare, "size_t" | "gfp_t" | "bool")
    });
    let size = size_of_type(&kind, 8);
    Some(if pointers > 0 {
        Cast { size: 8, signed: false, element: Some(if pointers == 1 { size } else { 8 }) }
    } else {
        Cast { size, signed: !unsigned, element: None }
    })
}
