//! Where profiles are sent.

use std::fmt;

/// The path that a base endpoint gets (OTLP/HTTP of the profiles' development version).
const PROFILES_PATH: &str = "/v1development/profiles";
/// The path of Pyroscope's own receiver.
const INGEST_PATH: &str = "/ingest";
/// The beginning of a URL of Pyroscope's own receiver.
const PYROSCOPE: &str = "pyroscope+";

/// The way in which an engine receives profiles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// OTLP over HTTP, as protobuf.
    Otlp,
    /// Pyroscope's `/ingest`, with profiles of pprof.
    Pyroscope,
}

/// A place to send profiles to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Endpoint {
    /// The protocol.
    pub protocol: Protocol,
    url: String,
}

/// The reason why a URL is none to send profiles to. It does not repeat the URL, which may contain a password.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EndpointError {
    /// The scheme is unknown.
    #[error("a URL to push to begins with http://, https://, pyroscope+http:// or pyroscope+https://")]
    Scheme,
    /// The URL contains a user or a password.
    #[error(
        "the URL contains a user or a password, which everybody on this machine could read; try: --token-file FILE, or --header-file FILE"
    )]
    Password,
    /// No host, or something behind the path.
    #[error("the URL to push to has to be http(s)://HOST[:PORT][/PATH], without ? and #")]
    Form,
}

impl Endpoint {
    /// Parses a URL. A base URL of OTLP gets the path of profiles, one of Pyroscope that of its receiver.
    ///
    /// # Errors
    /// The URL has another form, or a password in it.
    pub fn parse(text: &str) -> Result<Self, EndpointError> {
        let (protocol, url, path) = match text.strip_prefix(PYROSCOPE) {
            Some(url) => (Protocol::Pyroscope, url, INGEST_PATH),
            None => (Protocol::Otlp, text, PROFILES_PATH),
        };
        let url = checked(url)?.trim_end_matches('/');
        let url = if url.ends_with(path) { url.to_owned() } else { format!("{url}{path}") };
        Ok(Self { protocol, url })
    }

    /// Returns the endpoint of OTLP that the environment names, by `variable`: `OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT` is used as it is,
    /// `OTEL_EXPORTER_OTLP_ENDPOINT` is a base.
    ///
    /// # Errors
    /// Parses as [`Self::parse`] does.
    pub fn from_environment(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, EndpointError> {
        if let Some(url) = variable("OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT") {
            return Ok(Some(Self { protocol: Protocol::Otlp, url: checked(&url)?.to_owned() }));
        }
        variable("OTEL_EXPORTER_OTLP_ENDPOINT").map(|url| Self::parse(&url)).transpose()
    }

    /// Returns the URL for a request with this query, which is empty or `KEY=VALUE&…`.
    pub(crate) fn with_query(&self, query: &str) -> String {
        if query.is_empty() { self.url.clone() } else { format!("{}?{query}", self.url) }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.url)
    }
}

/// Returns the URL if it is one of HTTP without user, password, query and fragment.
fn checked(url: &str) -> Result<&str, EndpointError> {
    let rest =
        url.strip_prefix("http://").or_else(|| url.strip_prefix("https://")).ok_or(EndpointError::Scheme)?;
    if rest.contains('@') {
        return Err(EndpointError::Password);
    }
    let host = rest.split('/').next().unwrap_or_default();
    let is_plain =
        url.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#' | b'\\' | b'"'));
    if host.is_empty() || !is_plain { Err(EndpointError::Form) } else { Ok(url) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_urls_get_the_path_of_their_protocol() {
        let of = |text: &str| Endpoint::parse(text).map(|endpoint| (endpoint.protocol, endpoint.to_string()));
        let otlp = |url: &str| Ok((Protocol::Otlp, url.to_owned()));
        assert_eq!(of("http://h:4318"), otlp("http://h:4318/v1development/profiles"));
        assert_eq!(of("https://h/otlp/"), otlp("https://h/otlp/v1development/profiles"));
        assert_eq!(of("https://h/v1development/profiles"), otlp("https://h/v1development/profiles"));
        assert_eq!(
            of("pyroscope+http://h:4040"),
            Ok((Protocol::Pyroscope, "http://h:4040/ingest".to_owned()))
        );
    }

    #[test]
    fn passwords_and_other_forms_are_refused() {
        for (url, error) in [
            ("h:4318", EndpointError::Scheme),
            ("ftp://h", EndpointError::Scheme),
            ("http://user:secret@h", EndpointError::Password),
            ("https://token@h/x", EndpointError::Password),
            ("http://", EndpointError::Form),
            ("http:///x", EndpointError::Form),
            ("http://h/?x=1", EndpointError::Form),
            ("http://h/a b", EndpointError::Form),
            ("pyroscope+grpc://h", EndpointError::Scheme),
        ] {
            let refused = Endpoint::parse(url);
            assert_eq!(refused, Err(error), "{url}");
            assert!(!refused.unwrap_err().to_string().contains("secret"));
        }
    }

    #[test]
    fn the_environment_names_an_endpoint_or_a_base() {
        let of = |set: &[(&str, &str)]| {
            let value =
                |name: &str| set.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).to_owned());
            Endpoint::from_environment(value).unwrap().map(|endpoint| endpoint.to_string())
        };
        let (base, own) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT");
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[(base, "http://h:4318")]).as_deref(), Some("http://h:4318/v1development/profiles"));
        assert_eq!(of(&[(base, "http://h"), (own, "http://p/x")]).as_deref(), Some("http://p/x"));
    }
}
