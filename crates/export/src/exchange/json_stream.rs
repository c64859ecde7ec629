//! Streaming writer of JSON objects, whose columns are as long as the recording.

use std::io::{self, Write};

use serde::{Serialize, Serializer};
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

/// A column of a table, which is made while it is written.
pub(super) type Column<'c> = Box<dyn FnOnce(&mut dyn Write) -> serde_json::Result<()> + 'c>;

/// Returns a column with these values.
pub(super) fn column<'c>(values: impl IntoIterator<Item: Serialize> + 'c) -> Column<'c> {
    Box::new(|output| serde_json::Serializer::new(output).collect_seq(values))
}

/// Returns a column with the same value this many times.
pub(super) fn repeated<'c>(value: impl Serialize + Clone + 'c, length: usize) -> Column<'c> {
    column(std::iter::repeat_n(value, length))
}

/// Writes a table as an object with its columns and its length.
pub(super) fn table<'c>(
    output: &mut dyn Write,
    length: usize,
    columns: impl IntoIterator<Item = (&'static str, Column<'c>)>,
) -> io::Result<()> {
    let mut table = Object::begin(output)?;
    for (name, column) in columns {
        column(table.key(name)?)?;
    }
    table.value("length", &length.into())?;
    table.end()
}
