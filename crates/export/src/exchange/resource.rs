//! What a process is a part of, in the terms of OpenTelemetry's semantic conventions.

/// The attributes of a process's profiles: its service, host, container and program.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Resource {
    /// The attributes, each key once.
    pub attributes: Vec<(String, ResourceValue)>,
    /// The number of attributes that the process states beyond those that are kept.
    pub dropped: u32,
}

/// The value of an attribute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ResourceValue {
    /// A text. Some engines make a label of each: it should be the same for as many profiles as possible.
    Text(String),
    /// The value of an attribute that is a number, such as a process id.
    Number(i64),
}

impl Resource {
    /// The key of the service's name, by which engines tell profiles apart.
    pub const SERVICE_NAME: &str = "service.name";

    /// Sets an attribute, unless it has a value already.
    pub fn set(&mut self, key: &str, value: ResourceValue) {
        if !self.attributes.iter().any(|(known, _)| known == key) {
            self.attributes.push((key.to_owned(), value));
        }
    }

    /// Returns the text of an attribute; `None` if it has none.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.attributes.iter().find_map(|(known, value)| match value {
            ResourceValue::Text(text) if known == key => Some(text.as_str()),
            _ => None,
        })
    }
}
