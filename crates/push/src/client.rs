//! Sends messages, and judges what engines answer.

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use model::Name;
use prost::Message as _;
use ureq::Agent;
use ureq::http::Response;
use ureq::tls::TlsConfig;

use super::delay::retry_after;
use super::endpoint::{Endpoint, Protocol};
use super::headers::{HeaderError, HeaderSources, Headers};
use super::message::{MAX_TEXT_BYTES, Message};

/// Maximum length of an engine's sentence, in characters.
const MAX_SENTENCE_CHARS: usize = 300;

/// The settings of a client.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// The place to send to.
    pub endpoint: Endpoint,
    /// The sources of tokens and other headers.
    pub headers: HeaderSources,
    /// A file with the certificates of authorities that are trusted instead of the system's.
    pub authorities: Option<PathBuf>,
    /// Time limit for a request with its answer.
    pub timeout: Duration,
}

/// Sends messages to one engine. Follows no redirects, so that tokens go nowhere else.
#[derive(Debug)]
pub struct Client {
    settings: ClientSettings,
    agent: Agent,
    headers: Headers,
}

/// The reason why there can be no client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Headers cannot be used.
    #[error(transparent)]
    Headers(#[from] HeaderError),
    /// The file has no certificates.
    #[error("{} has no certificates in PEM form", .0.display())]
    Authorities(PathBuf),
}

/// The answer to a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The engine took all of it.
    Accepted,
    /// The engine took a part. Sending it again would make it twice.
    Partial {
        /// Number of profiles that it refused.
        rejected: u64,
        /// The engine's sentence.
        sentence: String,
    },
    /// The engine will not take it, however often it is sent.
    Refused {
        /// The status, with the engine's sentence.
        sentence: String,
    },
    /// The engine may take it later.
    Later {
        /// True if it may be the message that the engine fails at: an attempt too many is one too many for all that follow.
        may_be_its_fault: bool,
        /// The status or the fault of the connection.
        sentence: String,
        /// The time to wait, if the engine says so.
        after: Option<Duration>,
        /// True if waiting alone does not help: somebody must change a token or a certificate.
        needs_help: bool,
    },
}

/// `ExportProfilesServiceResponse`.
#[derive(Clone, PartialEq, prost::Message)]
struct ExportResponse {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<PartialSuccess>,
}

/// `ExportProfilesPartialSuccess`.
#[derive(Clone, PartialEq, prost::Message)]
struct PartialSuccess {
    #[prost(int64, tag = "1")]
    rejected_profiles: i64,
    #[prost(string, tag = "2")]
    error_message: String,
}

/// `google.rpc.Status`, the body of an error.
#[derive(Clone, PartialEq, prost::Message)]
struct Status {
    #[prost(string, tag = "2")]
    message: String,
}

impl Client {
    /// Makes a client. Reads headers and certificates, and connects to nobody yet.
    ///
    /// # Errors
    /// A file cannot be read, or has something else.
    pub fn new(settings: ClientSettings) -> Result<Self, ClientError> {
        let headers = settings.headers.read()?;
        let roots = match &settings.authorities {
            Some(path) => {
                host::http::certificates_of(path).ok_or_else(|| ClientError::Authorities(path.clone()))?
            }
            None => host::http::root_certificates(),
        };
        let config = Agent::config_builder()
            .user_agent(concat!("prof/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(host::http::CONNECT_TIMEOUT.min(settings.timeout)))
            .timeout_global(Some(settings.timeout))
            .max_response_header_size(MAX_TEXT_BYTES)
            .tls_config(TlsConfig::builder().root_certs(roots).build())
            .build();
        Ok(Self { agent: config.into(), headers, settings })
    }

    /// Returns the place that it sends to.
    pub fn endpoint(&self) -> &Endpoint {
        &self.settings.endpoint
    }

    /// Reads tokens and other headers again, and keeps the old ones if that fails.
    ///
    /// # Errors
    /// A file cannot be read, or has something else.
    pub fn read_headers_again(&mut self) -> Result<(), HeaderError> {
        self.headers = self.settings.headers.read()?;
        Ok(())
    }

    /// Sends a message and waits for the answer as long as the settings say.
    pub fn send(&self, message: &Message) -> Answer {
        self.send_within(message, self.settings.timeout)
    }

    /// Sends a message and waits for the answer, at most for `time` if the settings allow more.
    pub fn send_within(&self, message: &Message, time: Duration) -> Answer {
        let Endpoint { protocol, .. } = self.settings.endpoint;
        let url = self.settings.endpoint.with_query(&message.query);
        let mut request = self.agent.post(&url);
        match protocol {
            Protocol::Otlp => {
                request = request
                    .header("Content-Type", "application/x-protobuf")
                    .header("Content-Encoding", "gzip");
            }
            // A file of pprof is compressed by itself.
            Protocol::Pyroscope => request = request.header("Content-Type", "application/octet-stream"),
        }
        for (name, value) in &self.headers.0 {
            request = request.header(name, value);
        }
        let mut config = request.config().timeout_global(Some(time.min(self.settings.timeout)));
        if host::http::is_local(&url) {
            // A proxy would resolve a loopback address to itself.
            config = config.proxy(None);
        }
        let request = config.build();
        let mut response = match request.send(&message.body[..]) {
            Ok(response) => response,
            Err(error) => return unreachable(&error.to_string()),
        };
        let mut body = Vec::new();
        let read = response.body_mut().as_reader().take(MAX_TEXT_BYTES as u64 + 1).read_to_end(&mut body);
        let is_whole = body.len() <= MAX_TEXT_BYTES;
        match read {
            // An error has been said already, whether its sentence is whole or not.
            Err(error) if response.status().is_success() => {
                unreachable(&format!("the answer broke off: {error}"))
            }
            _ => judge(protocol, &response, &body, is_whole),
        }
    }
}

fn unreachable(why: &str) -> Answer {
    let needs_help = ["certificate", "UnknownIssuer", "tls", "Tls"].iter().any(|word| why.contains(word));
    Answer::Later { sentence: plain(why), after: None, needs_help, may_be_its_fault: false }
}

/// Judges an answer with this body, of which more may follow if it is not whole.
fn judge<B>(protocol: Protocol, response: &Response<B>, body: &[u8], is_whole: bool) -> Answer {
    let header =
        |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_protobuf = matches!(
        header("content-type").split(';').next(),
        Some("application/x-protobuf" | "application/protobuf")
    );
    let status = response.status().as_u16();
    if (200..300).contains(&status) {
        if body.is_empty() {
            return Answer::Accepted;
        }
        let answer = (is_whole && is_protobuf && protocol == Protocol::Otlp)
            .then(|| ExportResponse::decode(body).ok());
        let Some(answer) = answer.flatten() else {
            let kind = plain(header("content-type"));
            return Answer::Refused {
                sentence: format!(
                    "no engine for profiles answers there, but with {status} and something else ({kind})"
                ),
            };
        };
        let partial = answer
            .partial_success
            .filter(|part| part.rejected_profiles != 0 || !part.error_message.is_empty());
        return partial.map_or(Answer::Accepted, |part| Answer::Partial {
            rejected: u64::try_from(part.rejected_profiles).unwrap_or(0),
            sentence: format!("HTTP status {status}: {}", plain(&part.error_message)),
        });
    }
    let text = match is_protobuf.then(|| Status::decode(body).ok()).flatten() {
        Some(status) => plain(&status.message),
        None => plain(&String::from_utf8_lossy(body)),
    };
    let sentence = if text.is_empty() {
        format!("HTTP status {status}")
    } else {
        format!("HTTP status {status}: {text}")
    };
    match status {
        300..=399 => Answer::Refused {
            sentence: format!(
                "HTTP status {status}: a redirect to {}, which is not followed",
                plain(header("location"))
            ),
        },
        // Engines answer 500 while they start and end.
        429 | 500 | 502..=504 => {
            let after = retry_after(header("retry-after"));
            Answer::Later { sentence, after, needs_help: false, may_be_its_fault: status == 500 }
        }
        401 | 403 => Answer::Later { sentence, after: None, needs_help: true, may_be_its_fault: false },
        _ => Answer::Refused { sentence },
    }
}

/// Returns the first line of what somebody else says, bounded and without characters that a terminal may take for something else.
fn plain(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    let line: String = line.chars().take(MAX_SENTENCE_CHARS).collect();
    Name::from(line.as_str()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        judge(Protocol::Otlp, &response.body(()).unwrap(), body, true)
    }

    const PROTOBUF: (&str, &str) = ("Content-Type", "application/x-protobuf");

    #[test]
    fn only_empty_answers_and_those_of_an_engine_are_a_success() {
        assert_eq!(answer(200, &[], b""), Answer::Accepted);
        assert_eq!(answer(200, &[PROTOBUF], &ExportResponse::default().encode_to_vec()), Answer::Accepted);
        let partial = PartialSuccess { rejected_profiles: 2, error_message: "too old\n\x1b[2J".to_owned() };
        let body = ExportResponse { partial_success: Some(partial) }.encode_to_vec();
        assert_eq!(
            answer(200, &[PROTOBUF], &body),
            Answer::Partial { rejected: 2, sentence: "HTTP status 200: too old".to_owned() }
        );
        let is_refused = |answer| matches!(answer, Answer::Refused { .. });
        assert!(is_refused(answer(200, &[("Content-Type", "text/html")], b"<html>")));
        assert!(is_refused(answer(200, &[PROTOBUF], b"<html>")));
        assert!(is_refused(answer(200, &[("Content-Type", "application/json")], b"{}")));
    }

    #[test]
    fn some_statuses_are_worth_another_attempt() {
        for (status, needs_help) in
            [(429, false), (500, false), (502, false), (503, false), (504, false), (401, true), (403, true)]
        {
            let Answer::Later { needs_help: needs, .. } = answer(status, &[], b"") else {
                panic!("{status}")
            };
            assert_eq!(needs, needs_help, "{status}");
        }
        let busy = answer(503, &[("Retry-After", "7")], b"busy");
        let after = Some(Duration::from_secs(7));
        assert_eq!(
            busy,
            Answer::Later {
                sentence: "HTTP status 503: busy".to_owned(),
                after,
                needs_help: false,
                may_be_its_fault: false
            }
        );
        for status in [400, 404, 413, 422, 501] {
            let said = format!("HTTP status {status}: why");
            assert_eq!(answer(status, &[], b"why\nmore"), Answer::Refused { sentence: said }, "{status}");
        }
        let body = Status { message: "bad profile".to_owned() }.encode_to_vec();
        assert_eq!(
            answer(400, &[PROTOBUF], &body),
            Answer::Refused { sentence: "HTTP status 400: bad profile".to_owned() }
        );
        let Answer::Refused { sentence } = answer(307, &[("Location", "http://elsewhere/")], b"") else {
            panic!()
        };
        assert!(sentence.contains("elsewhere") && sentence.contains("not followed"), "{sentence}");
    }
}
