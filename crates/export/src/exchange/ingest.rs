//! Profiles for Pyroscope's receiver `/ingest`: a file of pprof for each process and event, whose name and labels stand in the URL.

use std::fmt::Write;
use std::io;

use super::batch::{Batch, in_order};
use super::dictionary::StackCount;
use super::otlp::RequestLimits;
use super::pprof;
use super::resource::{Resource, ResourceValue};

/// A profile of one process and event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IngestedProfile {
    /// The query of the URL: name, labels, time and format.
    pub query: String,
    /// The file of pprof.
    pub body: Vec<u8>,
}

/// Returns all samples as profiles with at most as many samples as `limits` say.
pub(super) fn profiles(batch: &Batch<'_>, limits: RequestLimits) -> io::Result<Vec<IngestedProfile>> {
    let samples = in_order(batch);
    let key = |sample: &StackCount| (batch.process_of(sample), sample.event);
    let mut profiles = Vec::new();
    for samples in samples.chunk_by(|one, other| key(one) == key(other)) {
        for samples in samples.chunks(limits.samples.max(1)) {
            let first = samples.first();
            let Some(kind) = first.and_then(|sample| batch.kinds.get(sample.event)) else { continue };
            let dictionary = batch.dictionary.of_samples(samples);
            let of_process = Batch { dictionary: &dictionary, kinds: vec![kind.clone()], ..batch.clone() };
            let resource = batch.resource_of(first.and_then(|sample| batch.process_of(sample)));
            let body = pprof::compress(&pprof::profile(&of_process, std::iter::empty()))?;
            profiles.push(IngestedProfile { query: query(batch, &resource), body });
        }
    }
    Ok(profiles)
}

fn query(batch: &Batch<'_>, resource: &Resource) -> String {
    let service = resource.text(Resource::SERVICE_NAME).unwrap_or_default();
    let labels = resource.attributes.iter().filter(|(key, _)| key != Resource::SERVICE_NAME);
    // Process ids would make a series of each process.
    let labels = labels.filter_map(|(key, value)| match value {
        ResourceValue::Text(text) => Some(format!("{}={}", label_name(key), label_value(text))),
        ResourceValue::Number(_) => None,
    });
    let labels: Vec<String> = labels.collect();
    let name = format!("{}{{{}}}", label_value(service), labels.join(","));
    let from = batch.started_unix_ns / 1_000_000_000;
    let until = batch.started_unix_ns.saturating_add(batch.duration_ns).div_ceil(1_000_000_000);
    format!("name={}&from={from}&until={until}&format=pprof&spyName=prof", encoded(&name))
}

/// Returns a key as the name of a label, which has letters, digits and underscores.
fn label_name(key: &str) -> String {
    let plain = |character: char| if character.is_ascii_alphanumeric() { character } else { '_' };
    let name: String = key.chars().map(plain).collect();
    if name.starts_with(|first: char| first.is_ascii_digit()) { format!("_{name}") } else { name }
}

/// Returns a value without the characters that part labels.
fn label_value(text: &str) -> String {
    text.replace(
        |character: char| matches!(character, '{' | '}' | '=' | ',' | '"') || character.is_control(),
        "_",
    )
}

/// Returns a text with `%XX` for all but the plainest characters.
fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        match byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            true => encoded.push(char::from(byte)),
            // Writing to a string does not fail.
            false => drop(write!(encoded, "%{byte:02X}")),
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_labels_cannot_leave_their_place() {
        assert_eq!(label_name("host.name"), "host_name");
        assert_eq!(label_name("1x{"), "_1x_");
        assert_eq!(label_value("a{b}=\"c\",d\n"), "a_b___c__d_");
        assert_eq!(encoded("a b&c=é"), "a%20b%26c%3D%C3%A9");
    }
}
