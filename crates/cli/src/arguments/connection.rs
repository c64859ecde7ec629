//! Where profiles are pushed, and with which tokens and certificates.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use push::{Client, ClientSettings, Endpoint, HeaderSources};

/// Time limit for a request, as OpenTelemetry's exporters have it.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// Arguments that say how to reach an engine. Tokens never stand on the command line, which everybody can read.
#[derive(Args, Clone, Default, Debug)]
#[command(next_help_heading = "Connection")]
pub struct ConnectionArguments {
    /// Send the engine the token in FILE (Authorization: Bearer TOKEN)
    #[arg(long, value_name = "FILE", help_heading = "Connection", hide_short_help = true)]
    token_file: Option<PathBuf>,
    /// Send the engine the headers in FILE, each on a line NAME: VALUE [default: those in OTEL_EXPORTER_OTLP_HEADERS]
    #[arg(long, value_name = "FILE", help_heading = "Connection", hide_short_help = true)]
    header_file: Option<PathBuf>,
    /// Trust the certificate authorities in FILE (PEM) for the engine, instead of the system's
    #[arg(long, value_name = "FILE", help_heading = "Connection", hide_short_help = true)]
    ca_file: Option<PathBuf>,
}

impl ConnectionArguments {
    /// Returns a client for `url`, or for the endpoint of OTLP that the environment names.
    ///
    /// # Errors
    /// There is no URL, it has another form or a password in it, or a file with tokens or certificates cannot be used.
    pub fn client(&self, url: Option<&str>) -> anyhow::Result<Client> {
        let endpoint = match url {
            Some(url) => Some(Endpoint::parse(url)?),
            None => Endpoint::from_environment(variable).context("OTEL_EXPORTER_OTLP_ENDPOINT")?,
        };
        let endpoint = endpoint.context(
            "there is no URL to push to; try: http://HOST:4318 (OpenTelemetry), http://HOST:4040 (Pyroscope), or OTEL_EXPORTER_OTLP_ENDPOINT",
        )?;
        let of_otlp = |name: &str| {
            variable(&format!("OTEL_EXPORTER_OTLP_PROFILES_{name}"))
                .or_else(|| variable(&format!("OTEL_EXPORTER_OTLP_{name}")))
        };
        let timeout = of_otlp("TIMEOUT").and_then(|text| text.parse().ok()).map(Duration::from_millis);
        Ok(Client::new(ClientSettings {
            endpoint,
            headers: HeaderSources {
                token_file: self.token_file.clone(),
                header_file: self.header_file.clone(),
                environment: of_otlp("HEADERS"),
            },
            authorities: self.ca_file.clone().or_else(|| of_otlp("CERTIFICATE").map(PathBuf::from)),
            timeout: timeout.filter(|timeout| !timeout.is_zero()).unwrap_or(DEFAULT_TIMEOUT),
        })?)
    }
}

/// Returns the value of a variable of the environment, if it is not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
