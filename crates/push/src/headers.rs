//! Headers of requests, among them tokens: from files or the environment, and never printed.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use ureq::http::{HeaderName, HeaderValue};

use super::message::MAX_TEXT_BYTES;

/// The sources of headers.
#[derive(Clone, Default, Debug)]
pub struct HeaderSources {
    /// A file with a token, which is sent as `Authorization: Bearer TOKEN`.
    pub token_file: Option<PathBuf>,
    /// A file with a header a line: `NAME: VALUE`.
    pub header_file: Option<PathBuf>,
    /// `OTEL_EXPORTER_OTLP_PROFILES_HEADERS` or `OTEL_EXPORTER_OTLP_HEADERS`: `NAME=VALUE,…` with `%XX` for other characters.
    pub environment: Option<String>,
}

/// Headers that are sent with each request. Their values are secrets.
#[derive(Clone, Default)]
pub(crate) struct Headers(pub(crate) Vec<(HeaderName, HeaderValue)>);

/// The reason why headers cannot be used. It repeats no value.
#[derive(Debug, thiserror::Error)]
pub enum HeaderError {
    /// The file cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A line is no header.
    #[error("line {line} of {} is not NAME: VALUE of a header", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The number of the line.
        line: usize,
    },
    /// A token is empty, or has bytes that a header cannot have.
    #[error("{} has no token that can be sent in a header", path.display())]
    Token {
        /// The file.
        path: PathBuf,
    },
    /// A pair of the environment is no header.
    #[error("OTEL_EXPORTER_OTLP_HEADERS has something else than NAME=VALUE of a header")]
    Environment,
}

impl fmt::Debug for Headers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.0.iter().map(|(name, _)| name.as_str())).finish()
    }
}

impl HeaderSources {
    /// Reads all headers. Of several with the same name, the one of a file counts.
    ///
    /// # Errors
    /// A file cannot be read, or has something else.
    pub(crate) fn read(&self) -> Result<Headers, HeaderError> {
        let mut headers = Headers::default();
        for pair in
            self.environment.iter().flat_map(|text| text.split(',')).filter(|pair| !pair.trim().is_empty())
        {
            let (name, value) = pair.split_once('=').ok_or(HeaderError::Environment)?;
            let header = header(name, &decoded(value)).ok_or(HeaderError::Environment)?;
            headers.set(header);
        }
        if let Some(path) = &self.header_file {
            for (line, number) in text_of(path)?.lines().zip(1..) {
                if line.trim().is_empty() {
                    continue;
                }
                let wrong = || HeaderError::Line { path: path.clone(), line: number };
                let (name, value) = line.split_once(':').ok_or_else(wrong)?;
                headers.set(header(name, value.trim().as_bytes()).ok_or_else(wrong)?);
            }
        }
        if let Some(path) = &self.token_file {
            let wrong = || HeaderError::Token { path: path.clone() };
            let text = text_of(path)?;
            let token = Some(text.trim()).filter(|token| !token.is_empty()).ok_or_else(wrong)?;
            headers.set(header("Authorization", format!("Bearer {token}").as_bytes()).ok_or_else(wrong)?);
        }
        Ok(headers)
    }
}

impl Headers {
    fn set(&mut self, (name, value): (HeaderName, HeaderValue)) {
        self.0.retain(|(known, _)| *known != name);
        self.0.push((name, value));
    }
}

fn header(name: &str, value: &[u8]) -> Option<(HeaderName, HeaderValue)> {
    let mut value = HeaderValue::from_bytes(value).ok()?;
    value.set_sensitive(true);
    Some((HeaderName::from_bytes(name.trim().as_bytes()).ok()?, value))
}

fn text_of(path: &Path) -> Result<String, HeaderError> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(MAX_TEXT_BYTES as u64).read_to_string(&mut text));
    read.map(|_| text).map_err(|error| HeaderError::File { path: path.to_owned(), error })
}

/// Returns the bytes of a text with `%XX`.
fn decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.trim().as_bytes();
    while let Some((&first, next)) = rest.split_first() {
        let code = next.get(..2).filter(|_| first == b'%').and_then(|code| str::from_utf8(code).ok());
        let code = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        bytes.push(code.unwrap_or(first));
        rest = if code.is_some() { next.get(2..).unwrap_or_default() } else { next };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(sources: &HeaderSources) -> Result<Vec<(String, String)>, HeaderError> {
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        Ok(sources.read()?.0.iter().map(|(name, value)| (name.to_string(), text(value))).collect())
    }

    #[test]
    fn files_come_before_the_environment_and_nothing_is_printed() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            Some(path)
        };
        let sources = HeaderSources {
            token_file: file("token", "s3cret\n"),
            header_file: file("headers", "X-Scope-OrgID: team\n\nauthorization: Basic old\n"),
            environment: Some("x-scope-orgid=other, x-more=a%20b%C3%A9".to_owned()),
        };
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let expected =
            [pair("x-more", "a bé"), pair("x-scope-orgid", "team"), pair("authorization", "Bearer s3cret")];
        assert_eq!(read(&sources).unwrap(), expected);
        let printed = format!("{:?} {sources:?}", sources.read().unwrap());
        assert!(!printed.contains("s3cret"), "{printed}");
    }

    #[test]
    fn what_is_no_header_is_named_without_its_value() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("headers");
        for text in ["no colon s3cret", "na me: s3cret", "name: s3cret\u{1}"] {
            std::fs::write(&path, format!("a: b\n{text}\n")).unwrap();
            let error = read(&HeaderSources { header_file: Some(path.clone()), ..HeaderSources::default() });
            let error = error.unwrap_err().to_string();
            assert!(error.contains("line 2") && !error.contains("s3cret"), "{error}");
        }
        let missing =
            HeaderSources { token_file: Some(folder.path().join("none")), ..HeaderSources::default() };
        assert!(read(&missing).unwrap_err().to_string().contains("none"));
        std::fs::write(&path, "\n").unwrap();
        assert!(read(&HeaderSources { token_file: Some(path), ..HeaderSources::default() }).is_err());
    }
}
