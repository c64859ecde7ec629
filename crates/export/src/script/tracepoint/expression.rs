//! The syntax tree of the line of C that prints a tracepoint.

use super::field::Field;
use super::printf::Directive;

/// A parsed line: `"format", argument, argument`.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Print {
    pub(super) format: Vec<Piece>,
    pub(super) arguments: Vec<Expression>,
}

/// A piece of a format.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Piece {
    /// Literal text, with unsafe characters and line breaks replaced.
    Literal(String),
    /// A directive that prints the next argument.
    Directive(Directive),
}

/// An argument of a format, as a parsed expression.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Expression {
    Number(u64),
    Text(String),
    /// A name that the kernel did not replace by its value (`jiffies`, `vmemmap_base`, a constant). It evaluates to 0, as
    /// in perf, because recordings do not have its value.
    Word(String),
    /// A field, by its index.
    Field(usize),
    Element(Box<Expression>, Box<Expression>),
    Unary(Unary, Box<Expression>),
    Binary(Binary, Box<Expression>, Box<Expression>),
    Choice(Box<Expression>, Box<Expression>, Box<Expression>),
    Cast(Cast, Box<Expression>),
    /// `__print_flags(value, delimiter, …)`
    Flags(Box<Expression>, String, Vec<(i64, String)>),
    /// `__print_symbolic(value, …)`
    Symbolic(Box<Expression>, Vec<(i64, String)>),
    /// `__print_hex(bytes, len)`; with blanks between or not.
    Hex(Box<Expression>, Box<Expression>, bool),
    /// `__print_array(values, count, size of one)`
    Array(Box<Expression>, Box<Expression>, Box<Expression>),
    /// `__get_str(field)`
    Str(usize),
    /// `__get_bitmask(field)`, `__get_cpumask(field)`
    Bitmask(usize),
    /// `__get_dynamic_array(field)`, `__get_sockaddr(field)`
    Dynamic(usize),
    /// `__get_dynamic_array_len(field)`
    DynamicLen(usize),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unary {
    Minus,
    Complement,
    Not,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Binary {
    Or,
    And,
    BitOr,
    BitXor,
    BitAnd,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    ShiftLeft,
    ShiftRight,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// A cast: `(unsigned char)`, `(void *)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cast {
    /// The size of the type in bytes; 8 for pointers.
    pub(super) size: usize,
    pub(super) signed: bool,
    /// The size of the type that a pointer points at; `None` for other types.
    pub(super) element: Option<usize>,
}

impl Cast {
    pub(super) fn apply(self, value: u64) -> u64 {
        match (self.size, self.signed) {
            (1, false) => u64::from(value as u8),
            (1, true) => value as i8 as u64,
            (2, false) => u64::from(value as u16),
            (2, true) => value as i16 as u64,
            (4, false) => u64::from(value as u32),
            (4, true) => value as i32 as u64,
            _ => value,
        }
    }
}

impl Unary {
    pub(super) fn apply(self, value: u64) -> u64 {
        match self {
            Self::Minus => value.wrapping_neg(),
            Self::Complement => !value,
            Self::Not => u64::from(value == 0),
        }
    }
}

impl Binary {
    fn compares(self) -> bool {
        use Binary::*;
        matches!(self, Equal | NotEqual | Less | LessEqual | Greater | GreaterEqual)
    }

    /// Returns the operator with this sign, and its precedence.
    pub(super) fn from_sign(sign: &str) -> Option<(Self, u8)> {
        Some(match sign {
            "||" => (Self::Or, 1),
            "&&" => (Self::And, 2),
            "|" => (Self::BitOr, 3),
            "^" => (Self::BitXor, 4),
            "&" => (Self::BitAnd, 5),
            "==" => (Self::Equal, 6),
            "!=" => (Self::NotEqual, 6),
            "<" => (Self::Less, 7),
            "<=" => (Self::LessEqual, 7),
            ">" => (Self::Greater, 7),
            ">=" => (Self::GreaterEqual, 7),
            "<<" => (Self::ShiftLeft, 8),
            ">>" => (Self::ShiftRight, 8),
            "+" => (Self::Add, 9),
            "-" => (Self::Subtract, 9),
            "*" => (Self::Multiply, 10),
            "/" => (Self::Divide, 10),
            "%" => (Self::Remainder, 10),
            _ => return None,
        })
    }

    /// Applies the operator. Undefined results are 0. `unsigned` is true to compare and divide unsigned operands.
    pub(super) fn apply(self, left: u64, right: u64, unsigned: bool) -> u64 {
        let (a, b) = (left as i64, right as i64);
        let shift = u32::try_from(right).unwrap_or(u32::MAX);
        match self {
            Self::Less if unsigned => u64::from(left < right),
            Self::LessEqual if unsigned => u64::from(left <= right),
            Self::Greater if unsigned => u64::from(left > right),
            Self::GreaterEqual if unsigned => u64::from(left >= right),
            Self::Divide if unsigned => left.checked_div(right).unwrap_or(0),
            Self::Remainder if unsigned => left.checked_rem(right).unwrap_or(0),
            Self::Or => u64::from(left != 0 || right != 0),
            Self::And => u64::from(left != 0 && right != 0),
            Self::BitOr => left | right,
            Self::BitXor => left ^ right,
            Self::BitAnd => left & right,
            Self::Equal => u64::from(left == right),
            Self::NotEqual => u64::from(left != right),
            Self::Less => u64::from(a < b),
            Self::LessEqual => u64::from(a <= b),
            Self::Greater => u64::from(a > b),
            Self::GreaterEqual => u64::from(a >= b),
            Self::ShiftLeft => left.checked_shl(shift).unwrap_or(0),
            Self::ShiftRight => left.checked_shr(shift).unwrap_or(0),
            Self::Add => left.wrapping_add(right),
            Self::Subtract => left.wrapping_sub(right),
            Self::Multiply => left.wrapping_mul(right),
            Self::Divide => a.checked_div(b).unwrap_or(0) as u64,
            Self::Remainder => a.checked_rem(b).unwrap_or(0) as u64,
        }
    }
}

impl Expression {
    /// Returns true if its type in C is an unsigned number of 64 bits.
    pub(super) fn is_unsigned(&self, fields: &[Field]) -> bool {
        match self {
            Self::Cast(cast, _) => cast.size == 8 && (!cast.signed || cast.element.is_some()),
            Self::Field(index) => fields
                .get(*index)
                .is_some_and(|field| field.size == 8 && !field.signed && field.element.is_none()),
            Self::Unary(_, value) => value.is_unsigned(fields),
            Self::Binary(operator, left, right) => {
                // Comparisons have the type int.
                !matches!(operator, Binary::Or | Binary::And)
                    && !operator.compares()
                    && (left.is_unsigned(fields) || right.is_unsigned(fields))
            }
            Self::Choice(_, then, otherwise) => then.is_unsigned(fields) || otherwise.is_unsigned(fields),
            _ => false,
        }
    }

    /// Evaluates a constant expression; returns `None` for one with fields.
    pub(super) fn constant(&self) -> Option<u64> {
        Some(match self {
            Self::Number(value) => *value,
            Self::Word(_) => 0,
            Self::Unary(operator, value) => operator.apply(value.constant()?),
            Self::Binary(operator, left, right) => {
                let unsigned = left.is_unsigned(&[]) || right.is_unsigned(&[]);
                operator.apply(left.constant()?, right.constant()?, unsigned)
            }
            Self::Cast(cast, value) => cast.apply(value.constant()?),
            Self::Choice(condition, then, otherwise) => {
                if condition.constant()? != 0 {
                    then.constant()?
                } else {
                    otherwise.constant()?
                }
            }
            _ => return None,
        })
    }
}
