//! Streaming writer of JSON objects, whose columns are as long as the recording.

use std::io::{self, Write};

use serde_json::Value;

/// A JSON object whose members are written one by one.
pub(super) struct Object<'o> {
    output: &'o mut dyn Write,
    is_empty: bool,
}

impl<'o> Object<'o> {
    pub(super) fn begin(output: &'o mut dyn Write) -> io::Result<Self> {
        output.write_all(b"{")?;
        Ok(Self { output, is_empty: true })
    }

    pub(super) fn output(&mut self) -> &mut dyn Write {
        self.output
    }

    /// Starts a member, whose value the caller writes.
    pub(super) fn key(&mut self, key: &str) -> io::Result<&mut dyn Write> {
        if !self.is_empty {
            self.output.write_all(b",")?;
        }
        self.is_empty = false;
        serde_json::to_writer(&mut *self.output, key)?;
        self.output.write_all(b":")?;
        Ok(self.output)
    }

    pub(super) fn value(&mut self, key: &str, value: &Value) -> io::Result<()> {
        Ok(serde_json::to_writer(self.key(key)?, value)?)
    }

    pub(super) fn column(&mut self, key: &str, column: &Column) -> io::Result<()> {
        column.write(self.key(key)?)
    }

    /// Writes a list whose values are made one by one.
    pub(super) fn list(&mut self, key: &str, values: impl Iterator<Item = Value>) -> io::Result<()> {
        let output = self.key(key)?;
        output.write_all(b"[")?;
        for (number, value) in values.enumerate() {
            if number > 0 {
                output.write_all(b",")?;
            }
            serde_json::to_writer(&mut *output, &value)?;
        }
        output.write_all(b"]")
    }

    pub(super) fn end(self) -> io::Result<()> {
        self.output.write_all(b"}")
    }
}

/// A column of a table.
pub(super) enum Column {
    Numbers(Vec<u32>),
    /// Numbers, or `null`.
    Optional(Vec<Option<u32>>),
    /// Numbers, or -1.
    Signed(Vec<i64>),
    Large(Vec<u64>),
    Fractions(Vec<f64>),
    Texts(Vec<String>),
    Values(Vec<Value>),
    /// The same value this many times.
    Repeated(Value, usize),
}

impl Column {
    fn write(&self, output: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Numbers(column) => serde_json::to_writer(output, column)?,
            Self::Optional(column) => serde_json::to_writer(output, column)?,
            Self::Signed(column) => serde_json::to_writer(output, column)?,
            Self::Large(column) => serde_json::to_writer(output, column)?,
            Self::Fractions(column) => serde_json::to_writer(output, column)?,
            Self::Texts(column) => serde_json::to_writer(output, column)?,
            Self::Values(column) => serde_json::to_writer(output, column)?,
            Self::Repeated(value, length) => {
                let text = value.to_string();
                for number in 0..*length {
                    output.write_all(if number == 0 { b"[" } else { b"," })?;
                    output.write_all(text.as_bytes())?;
                }
                output.write_all(if *length == 0 { b"[]" } else { b"]" })?;
            }
        }
        Ok(())
    }
}

/// Writes a table as an object with its columns and its length.
pub(super) fn table(output: &mut dyn Write, length: usize, columns: &[(&str, Column)]) -> io::Result<()> {
    let mut table = Object::begin(output)?;
    for (name, column) in columns {
        table.column(name, column)?;
    }
    table.value("length", &length.into())?;
    table.end()
}
