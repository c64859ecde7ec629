//! `prof push`: sends a recording to an engine for profiles.

use std::fs::File;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use analysis::Notices;
use anyhow::{Context, bail};
use clap::Args;
use export::exchange::{self, ExportedRecording, Format, RequestLimits};
use push::{Answer, Backoff, Client, Message, Protocol, read_messages};

use super::exported::{self, ExportOptions};
use super::summary;
use crate::arguments::{ConnectionArguments, QueryArguments};
use crate::console::Console;
use crate::input;
use crate::output::Output;
use crate::sandbox;

/// The limits of a request: Pyroscope accepts 16,000 samples in a profile and bursts of 2 MB by default.
pub const REQUEST_LIMITS: RequestLimits = RequestLimits { samples: 15_000, bytes: 2_000_000 };
/// For how long an engine is waited for.
#[derive(Clone, Copy)]
struct Patience {
    /// Time for which messages are sent again that the engine does not accept now.
    again: Duration,
    /// Time for each request, even when that time has passed.
    request: Duration,
}

/// The patience of `prof push`.
const PATIENT: Patience = Patience { again: Duration::from_secs(30), request: Duration::MAX };
/// The patience behind a recorded command, which somebody waits for.
const IMPATIENT: Patience = Patience { again: Duration::from_secs(5), request: Duration::from_secs(1) };

/// Arguments of `prof push`.
#[derive(Args)]
#[command(after_help = "\
Engines:
  http://HOST:4318                OTLP: OpenTelemetry Collector with --feature-gates service.profilesSupport
  http://HOST:4040                OTLP: Grafana Pyroscope 2
  pyroscope+http://HOST:4040      /ingest with pprof: older Pyroscope
  (none)                          OTEL_EXPORTER_OTLP_ENDPOINT
Examples:
  prof push prof.data http://localhost:4040
  prof push --token-file token prof.data https://profiles.example.com")]
pub struct PushArguments {
    /// Recording
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// URL of the engine [default: OTEL_EXPORTER_OTLP_ENDPOINT]
    #[arg(value_name = "URL")]
    url: Option<String>,
    #[command(flatten)]
    connection: ConnectionArguments,
    /// Keep threads of the same name apart, by their ids: engines then have a series for each
    #[arg(long)]
    thread_ids: bool,
    /// Omit source lines, which take time to look up
    #[arg(long)]
    no_lines: bool,
    #[command(flatten)]
    query: QueryArguments,
}

/// Sends a recording, a profile for each process and event.
///
/// # Errors
/// The recording cannot be read or has no matching samples, or the engine does not take it.
pub fn run(arguments: &PushArguments, console: &Console) -> anyhow::Result<ExitCode> {
    let client = arguments.connection.client(arguments.url.as_deref())?;
    let options = options(arguments.thread_ids, !arguments.no_lines);
    send_recording(&arguments.file, &client, PATIENT, &options, &arguments.query, console)
}

/// Sends a recording that was made just now, without filters. Gives up after 5 s.
///
/// # Errors
/// As [`run`].
pub fn send_whole(recording: &Path, client: &Client, console: &Console) -> anyhow::Result<ExitCode> {
    send_recording(recording, client, IMPATIENT, &options(false, true), &QueryArguments::default(), console)
}

fn options(thread_ids: bool, lines: bool) -> ExportOptions {
    ExportOptions { format: Format::Otlp, merge_threads: false, thread_ids, lines }
}

fn send_recording(
    recording: &Path,
    client: &Client,
    patience: Patience,
    options: &ExportOptions,
    query: &QueryArguments,
    console: &Console,
) -> anyhow::Result<ExitCode> {
    let until = Instant::now() + patience.again;
    let fetches = query.debuginfod.fetches(console)?;
    let (output, mut written) = Output::nameless()?;
    let protocol = client.endpoint().protocol;
    // The process that reads the recording has no network.
    let made = sandbox::produce(console, output, fetches, |output| {
        let input = input::open(Some(recording), console)?;
        exported::with_recording(options, query, input, "push", console, |recording| {
            for message in messages(recording, protocol)? {
                output.write_all(&message.to_bytes())?;
            }
            Ok(())
        })
    })?;
    if made != ExitCode::SUCCESS {
        return Ok(made);
    }
    written.rewind().context("cannot read the temporary file")?;
    // What took time until here does not count for those who are patient.
    let until = if patience.request == Duration::MAX { Instant::now() + patience.again } else { until };
    send_all(&written, client, (until, patience.request), console)?;
    Ok(ExitCode::SUCCESS)
}

fn messages(recording: &ExportedRecording<'_>, protocol: Protocol) -> anyhow::Result<Vec<Message>> {
    Ok(match protocol {
        Protocol::Otlp => {
            let bodies = exchange::requests(recording, REQUEST_LIMITS)?.into_iter();
            bodies.map(|body| Message { query: String::new(), body }).collect()
        }
        Protocol::Pyroscope => {
            let profiles = exchange::ingested_profiles(recording, REQUEST_LIMITS)?.into_iter();
            profiles.map(|profile| Message { query: profile.query, body: profile.body }).collect()
        }
    })
}

/// Sends the messages in a file, and says how many.
fn send_all(
    file: &File,
    client: &Client,
    limits: (Instant, Duration),
    console: &Console,
) -> anyhow::Result<()> {
    let (mut sent, mut bytes, mut refused) = (0_u64, 0, None);
    for message in read_messages(file) {
        let message = message.context("cannot read the temporary file")?;
        match send(&message, client, limits, console) {
            Answer::Accepted => (sent, bytes) = (sent + 1, bytes + message.body.len()),
            Answer::Partial { rejected, sentence } => {
                (sent, bytes) = (sent + 1, bytes + message.body.len());
                refused.get_or_insert(format!("{rejected} profiles were refused: {sentence}"));
            }
            Answer::Refused { sentence } => drop(refused.get_or_insert(sentence)),
            Answer::Later { sentence, .. } => bail!("cannot push to {}: {sentence}", client.endpoint()),
        }
    }
    if let Some(sentence) = refused {
        bail!("cannot push all to {}: {sentence}", client.endpoint());
    }
    let requests = if sent == 1 { "1 request".to_owned() } else { format!("{sent} requests") };
    console.say(&format!("pushed {requests} with {} to {}", summary::bytes(bytes as u64), client.endpoint()));
    Ok(())
}

/// Sends a message, again and again until a time if the engine may take it later, and with this time for each request if that has passed.
fn send(
    message: &Message,
    client: &Client,
    (until, least): (Instant, Duration),
    console: &Console,
) -> Answer {
    let mut backoff = Backoff::default();
    let mut is_first = true;
    loop {
        let left = || until.saturating_duration_since(Instant::now());
        let answer = client.send_within(message, left().max(least));
        let Answer::Later { sentence, after, needs_help, .. } = &answer else { return answer };
        let (wait, left) = (backoff.next(*after), left());
        if *needs_help || left.is_zero() || after.is_some_and(|after| after > left) {
            return answer;
        }
        // The last attempt is at the end.
        let wait = wait.min(left);
        let line = format!("{sentence}; trying again in {:.1} s", wait.as_secs_f64());
        if std::mem::take(&mut is_first) {
            console.say(&line)
        } else {
            console.detail(&line)
        }
        std::thread::sleep(wait);
    }
}
