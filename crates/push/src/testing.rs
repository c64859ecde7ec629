//! An engine for tests: a server on a loopback address that answers as it is told, and by default by Pyroscope's rules.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prost::Message;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// Pyroscope's default limits: bytes of an unpacked profile, and its samples.
const MAX_PROFILE_BYTES: usize = 4 << 20;
const MAX_SAMPLES: usize = 16_000;

/// A request that came.
#[derive(Clone, Debug)]
pub struct Received {
    /// The path with the query.
    pub path: String,
    /// The headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, unpacked.
    pub body: Vec<u8>,
}

/// The behaviour of the engine when a request comes.
#[derive(Clone, Debug)]
pub enum Reply {
    /// By the rules: accepts what they allow, and refuses the rest with 400.
    Judge,
    /// With a status, headers and a body.
    Status(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// Closes the connection without an answer.
    Close,
    /// Promises more than it says, and closes.
    Half,
    /// Says nothing for this time, then closes.
    Hang(Duration),
    /// Answers without an end.
    Endless,
}

/// A server that plays an engine until it is dropped.
#[derive(Debug)]
pub struct Engine {
    scheme: &'static str,
    address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Engine {
    /// Starts an engine that answers the first requests in this way, and all others by the rules.
    ///
    /// # Panics
    /// If there is no free port.
    pub fn start(replies: Vec<Reply>) -> Self {
        Self::start_with(replies, "http", |stream| Ok(Box::new(stream)))
    }

    /// Starts an engine that speaks TLS, with a certificate and its private key in DER form.
    ///
    /// # Panics
    /// If there is no free port, or the two do not belong together.
    #[expect(clippy::expect_used, reason = "for tests")]
    pub fn start_tls(replies: Vec<Reply>, certificate: Vec<u8>, key: Vec<u8>) -> Self {
        let key = PrivateKeyDer::Pkcs8(key.into());
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|config| config.with_no_client_auth().with_single_cert(vec![certificate.into()], key));
        let config = Arc::new(config.expect("a certificate with its key"));
        Self::start_with(replies, "https", move |stream| {
            let connection = ServerConnection::new(Arc::clone(&config)).map_err(std::io::Error::other)?;
            Ok(Box::new(StreamOwned::new(connection, stream)))
        })
    }

    #[expect(clippy::expect_used, reason = "for tests")]
    fn start_with(
        replies: Vec<Reply>,
        scheme: &'static str,
        accept: impl Fn(TcpStream) -> std::io::Result<Box<dyn Connection>> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        let received = Arc::<Mutex<Vec<Received>>>::default();
        let (shared, replies) = (Arc::clone(&received), Arc::new(Mutex::new(replies.into_iter())));
        let accept = Arc::new(accept);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (shared, replies, accept) =
                    (Arc::clone(&shared), Arc::clone(&replies), Arc::clone(&accept));
                std::thread::spawn(move || {
                    let next = || {
                        replies.lock().unwrap_or_else(PoisonError::into_inner).next().unwrap_or(Reply::Judge)
                    };
                    let timed = stream.set_read_timeout(Some(Duration::from_secs(60)));
                    let accepted = timed.and_then(|()| accept(stream));
                    drop(accepted.and_then(|mut connection| serve(&mut *connection, &shared, next)));
                });
            }
        });
        Self { scheme, address, received }
    }

    /// Returns the base URL of the engine.
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// Returns the requests that came.
    pub fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A connection, with TLS or without.
trait Connection: Read + Write {}

impl<T: Read + Write> Connection for T {}

fn serve(
    stream: &mut dyn Connection,
    received: &Mutex<Vec<Received>>,
    mut next: impl FnMut() -> Reply,
) -> std::io::Result<()> {
    loop {
        let request = request(stream)?;
        received.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
        match next() {
            Reply::Judge => match refusal(&request) {
                None => answer(stream, 200, &[("Content-Type", "application/x-protobuf".to_owned())], b"")?,
                Some(why) => answer(stream, 400, &[], why.as_bytes())?,
            },
            Reply::Status(status, headers, body) => answer(stream, status, &headers, &body)?,
            Reply::Close => return Ok(()),
            Reply::Half => {
                return stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 100\r\n\r\nhalf");
            }
            Reply::Hang(time) => {
                std::thread::sleep(time);
                return Ok(());
            }
            Reply::Endless => {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\n\r\n")?;
                loop {
                    stream.write_all(&[b'x'; 4096])?;
                }
            }
        }
    }
}

fn answer(
    stream: &mut dyn Connection,
    status: u16,
    headers: &[(&str, String)],
    body: &[u8],
) -> std::io::Result<()> {
    let mut head = format!("HTTP/1.1 {status} Status\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(&[head.as_bytes(), b"\r\n", body].concat())
}

fn request(stream: &mut dyn Connection) -> std::io::Result<Received> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.extend(byte);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut lines = head.lines();
    let path = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or_default().to_owned();
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers: Vec<(String, String)> =
        headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
    let header =
        |name: &str| headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let length = header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    if body.starts_with(&[0x1f, 0x8b]) {
        body = unpacked(&body);
    }
    Ok(Received { path, headers, body })
}

fn unpacked(packed: &[u8]) -> Vec<u8> {
    const GZIP_WINDOW_BITS: i32 = 15 + 16;
    let mut bytes = vec![0; 64 << 20];
    let config = zlib_rs::InflateConfig { window_bits: GZIP_WINDOW_BITS };
    let (bytes, code) = zlib_rs::decompress_slice(&mut bytes, packed, config);
    if code == zlib_rs::ReturnCode::Ok { bytes.to_vec() } else { Vec::new() }
}

/// Returns the sentence with which the engine refuses a request; `None` for one by the rules.
fn refusal(request: &Received) -> Option<String> {
    if request.path.starts_with("/ingest?name=") {
        return (request.body.is_empty() || !request.path.contains("format=pprof"))
            .then(|| "no profile".to_owned());
    }
    if request.path != "/v1development/profiles" {
        return Some(format!("no such path: {}", request.path));
    }
    if request.body.len() > MAX_PROFILE_BYTES {
        return Some(format!("the profile has {} bytes", request.body.len()));
    }
    let Ok(data) = Export::decode(&*request.body) else { return Some("no protobuf".to_owned()) };
    let Some(dictionary) = &data.dictionary else {
        return Some("missing profile metadata dictionary".to_owned());
    };
    for resource in &data.resources {
        let attributes = resource.resource.iter().flat_map(|resource| &resource.attributes);
        let texts = attributes
            .filter(|attribute| attribute.value.as_ref().is_some_and(|value| !value.text.is_empty()));
        if texts.clone().count() > 26 || !texts.clone().any(|attribute| attribute.key == "service.name") {
            return Some("no service, or too many labels".to_owned());
        }
        for profile in resource.scopes.iter().flat_map(|scope| &scope.profiles) {
            if let Some(why) = refusal_of_profile(profile, dictionary) {
                return Some(why);
            }
        }
    }
    data.resources.is_empty().then(|| "missing resource profiles".to_owned())
}

fn refusal_of_profile(profile: &Profile, dictionary: &Dictionary) -> Option<String> {
    let text = |index: i32| dictionary.strings.get(usize::try_from(index).ok()?);
    let kind = |kind: Option<&ValueType>| {
        kind.and_then(|kind| Some((text(kind.kind)?.clone(), text(kind.unit)?.clone())))
    };
    let Some(sample_type) = kind(profile.sample_type.as_ref()) else {
        return Some("sample type is missing".to_owned());
    };
    let Some(period_type) = kind(profile.period_type.as_ref()) else {
        return Some("period type is missing".to_owned());
    };
    if sample_type.0 == "samples" && period_type.0 == "cpu" && profile.period <= 0 {
        return Some("CPU samples stand for no time".to_owned());
    }
    if profile.samples.len() > MAX_SAMPLES {
        return Some(format!("the profile has {} samples", profile.samples.len()));
    }
    let is_valid = |sample: &SentSample| {
        let has_stack = usize::try_from(sample.stack).is_ok_and(|stack| stack < dictionary.stacks.len());
        sample.values.len() == 1 && has_stack
    };
    (!profile.samples.iter().all(is_valid)).then(|| "a sample has no value or no stack".to_owned())
}

/// `ExportProfilesServiceRequest`, as far as the rules concern it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Export {
    /// Resources with their profiles.
    #[prost(message, repeated, tag = "1")]
    pub resources: Vec<ResourceProfiles>,
    /// The tables that profiles refer to.
    #[prost(message, optional, tag = "2")]
    pub dictionary: Option<Dictionary>,
}

/// `ProfilesDictionary`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Dictionary {
    /// `string_table`.
    #[prost(string, repeated, tag = "5")]
    pub strings: Vec<String>,
    /// `stack_table`, not decoded.
    #[prost(bytes = "vec", repeated, tag = "7")]
    pub stacks: Vec<Vec<u8>>,
}

/// `ResourceProfiles`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ResourceProfiles {
    /// The resource.
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    /// The scopes.
    #[prost(message, repeated, tag = "2")]
    pub scopes: Vec<ScopeProfiles>,
}

/// `Resource`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Resource {
    /// The attributes.
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

/// `KeyValue`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct KeyValue {
    /// The key.
    #[prost(string, tag = "1")]
    pub key: String,
    /// The value.
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

/// `AnyValue`, of texts and numbers.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AnyValue {
    /// The text; empty for others.
    #[prost(string, tag = "1")]
    pub text: String,
    /// The number; 0 for others.
    #[prost(int64, tag = "3")]
    pub number: i64,
}

/// `ScopeProfiles`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ScopeProfiles {
    /// The profiles.
    #[prost(message, repeated, tag = "2")]
    pub profiles: Vec<Profile>,
}

/// `Profile`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Profile {
    /// `sample_type`.
    #[prost(message, optional, tag = "1")]
    pub sample_type: Option<ValueType>,
    /// The samples.
    #[prost(message, repeated, tag = "2")]
    pub samples: Vec<SentSample>,
    /// `time_unix_nano`.
    #[prost(fixed64, tag = "3")]
    pub started: u64,
    /// `duration_nano`.
    #[prost(uint64, tag = "4")]
    pub duration: u64,
    /// `period_type`.
    #[prost(message, optional, tag = "5")]
    pub period_type: Option<ValueType>,
    /// The period.
    #[prost(int64, tag = "6")]
    pub period: i64,
}

/// `ValueType`: indices of strings.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ValueType {
    /// The type.
    #[prost(int32, tag = "1")]
    pub kind: i32,
    /// The unit.
    #[prost(int32, tag = "2")]
    pub unit: i32,
}

/// `Sample`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SentSample {
    /// The index of the stack.
    #[prost(int32, tag = "1")]
    pub stack: i32,
    /// The values.
    #[prost(int64, repeated, tag = "4")]
    pub values: Vec<i64>,
}
