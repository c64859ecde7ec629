//! `prof watch`: profiles of a machine or of processes, all the time, sent to an engine.

mod interval;
mod recordings;

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use analysis::Notices;
use anyhow::{Context, bail};
use clap::Args;
use crossbeam_channel::{Receiver, bounded};
use host::machine::SystemName;
use host::sys::memory;
use host::sys::poll::PollSet;
use host::sys::signals::{SIGHUP, SIGUSR1, SignalFd};
use live::EngineSettings;
use live::snapshot::Snapshot;
use model::Name;
use push::{DEFAULT_SPOOL_BYTES, PushEvent, PushTotals, Pusher, Store};
use recorder::event::Rate;
use recorder::{Options, Target, signals_of_recordings, this_machine};
use symbolizer::NameStyle;

use super::{file_helper, top};
use crate::arguments::numbers::{bytes_with_unit, within};
use crate::arguments::{ConnectionArguments, TargetArguments};
use crate::console::Console;
use interval::Intervals;
use recordings::{CurrentRecording, Recordings};

/// The usual rate: a prime, so that samples do not keep step with periodic work, and so low that nobody notices.
const DEFAULT_HZ: u64 = 19;
/// The longest time that an interval waits for names. With the interval itself it bounds what a sudden end loses.
const MAX_SYMBOL_WAIT: Duration = Duration::from_secs(4);
/// Time between two lines on what was sent.
const REPORT_INTERVAL: Duration = Duration::from_secs(600);
/// Time for sending what waits, at the end.
const FINISH_TIME: Duration = Duration::from_secs(10);
/// Maximum number of intervals on the way to the thread that makes messages of them.
const MAX_INTERVALS: usize = 4;

/// Arguments of `prof watch`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo prof watch --push http://localhost:4040 -a --spool /var/lib/prof/spool
  prof watch --push https://profiles.example.com --token-file token -p 1234
  prof doctor --unit                  a systemd unit for it
SIGHUP reads tokens again, SIGUSR1 prints what was sent and dropped. SIGTERM, SIGINT and all others send what there is and end it.")]
pub struct WatchArguments {
    /// URL of the engine (see prof push) [default: OTEL_EXPORTER_OTLP_ENDPOINT]
    #[arg(long, value_name = "URL")]
    push: Option<String>,
    #[command(flatten)]
    connection: ConnectionArguments,
    /// Keep profiles that cannot be sent yet in this folder; they survive a restart [default: in memory, 16 MB]
    #[arg(long, value_name = "DIR")]
    spool: Option<PathBuf>,
    /// Maximum size of the spool; the oldest profiles are dropped [default: 64M]
    #[arg(long, value_name = "SIZE", requires = "spool", value_parser = bytes_with_unit)]
    spool_size: Option<u64>,
    #[command(flatten)]
    target: TargetArguments,
    /// Samples of the CPU clock per second and CPU
    #[arg(short = 'F', long, value_name = "HZ", default_value_t = DEFAULT_HZ, allow_negative_numbers = true,
          value_parser = within(1..=1000_u64))]
    freq: u64,
    /// Length of the intervals, each of which becomes a profile
    #[arg(long, value_name = "SECS", default_value_t = 10, allow_negative_numbers = true,
          value_parser = within(1..=60_u64))]
    interval: u64,
    /// Do not read how processes name their services (OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES of their environments, and what
    /// OpenTelemetry's libraries publish)
    #[arg(long)]
    no_service: bool,
}

/// Samples and sends until a signal ends it, or the watched processes have ended.
///
/// # Errors
/// Nothing can be recorded, the URL or a file of the connection cannot be used, or the spool cannot.
pub fn run(arguments: &WatchArguments, console: &Console) -> anyhow::Result<ExitCode> {
    memory::map_large_blocks_separately();
    let client = arguments.connection.client(arguments.push.as_deref())?;
    let (protocol, engine_name) = (client.endpoint().protocol, client.endpoint().to_string());
    let store = match &arguments.spool {
        Some(folder) => Store::in_folder(folder, arguments.spool_size.unwrap_or(DEFAULT_SPOOL_BYTES))?,
        None => Store::in_memory(),
    };
    let (target, words) = top::choose_target(&arguments.target, &[])?;
    let user = if let Target::User(user) = target { Some(user) } else { None };
    // Where whole CPUs may be sampled, samples of the user are picked out: so no process is missed that begins later.
    let (picked, attached) = if top::may_watch_all() { (user, None) } else { (None, user) };
    let target = if picked.is_some() { Target::System } else { target };
    let options = Options { users: picked.is_some(), ..options(arguments, target)? };
    let period = options.staggered.unwrap_or_default();
    // Before any thread: threads inherit the mask.
    let signals = Arc::new(SignalFd::new(&signals_of_recordings()).context("cannot wait for signals")?);
    file_helper::enable_while_recording();
    console.say(&format!("sampling {words} at {} Hz, pushing to {engine_name}", arguments.freq));
    let (report, say) = (console.clone(), console.clone());
    let pusher = Pusher::start(client, store, move |event| print_event(&event, &report));
    let pusher = Arc::new(pusher.context("cannot start a thread")?);
    let (news, snapshots) = bounded(MAX_INTERVALS);
    let host = Name::from(SystemName::read().host.as_encoded_bytes()).to_string();
    let intervals = Intervals::new(protocol, period, Some(host)).of_user(picked);
    let sender = Arc::clone(&pusher);
    let sending = thread::Builder::new()
        .name("profiles".to_owned())
        .spawn(move || send_intervals(intervals, &snapshots, &sender, &say))
        .context("cannot start a thread")?;
    let current = Arc::<CurrentRecording>::default();
    let listener = (Arc::clone(&signals), Arc::clone(&current), Arc::clone(&pusher), console.clone());
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || listen(&listener.0, &listener.1, &listener.2, &listener.3))
        .context("cannot start a thread")?;
    let settings = EngineSettings { stacks_unwound: options.copies_stacks(), ..settings(arguments, words) };
    let recordings = Recordings { options, settings, signals, current, news };
    let result = match attached {
        Some(user) => recordings.record_processes_of(user, console),
        None => recordings.record(console, || {}),
    };
    drop(recordings);
    if sending.join().is_err() {
        bail!("an internal error ended the thread that makes profiles");
    }
    let totals = pusher.finish(Instant::now() + FINISH_TIME);
    console.say(&in_words(&totals));
    file_helper::warn_of_silence(console);
    result?;
    Ok(ExitCode::SUCCESS)
}

fn options(arguments: &WatchArguments, target: Target) -> anyhow::Result<Options> {
    let period = 1_000_000_000 / arguments.freq;
    let mut options = Options::new(target);
    arguments.target.apply_limits(&mut options);
    options.events = recorder::event::select("cpu-clock", &this_machine())?;
    options.rate = Some(Rate::Period(period));
    options.staggered = Some(Duration::from_nanos(period));
    options.low_memory = true;
    options.services = !arguments.no_service;
    options.invocation = "prof watch";
    Ok(options)
}

fn settings(arguments: &WatchArguments, target: String) -> EngineSettings {
    EngineSettings {
        target,
        window: Duration::from_secs(arguments.interval),
        interval: Duration::from_secs(arguments.interval),
        intervals_apart: true,
        max_symbol_wait: MAX_SYMBOL_WAIT,
        bounds_inlines: true,
        reads_resources: true,
        stacks_unwound: true,
        names: NameStyle::Linkage,
        time: None,
    }
}

/// Makes messages of intervals, and hands them over.
fn send_intervals(
    mut intervals: Intervals,
    snapshots: &Receiver<Arc<Snapshot>>,
    pusher: &Pusher,
    console: &Console,
) {
    for snapshot in snapshots {
        let lost = snapshot.status.loss.samples;
        if lost > 0 {
            console.say(&format!("{lost} samples were lost in the last interval"));
        }
        match intervals.messages(&snapshot) {
            Ok(messages) => messages.into_iter().for_each(|message| pusher.send(message)),
            Err(error) => console.say(&error.to_string()),
        }
    }
}

/// Reacts to signals, and reports from time to time.
fn listen(signals: &SignalFd, current: &CurrentRecording, pusher: &Pusher, console: &Console) {
    let mut poll = PollSet::default();
    poll.add(signals.as_fd());
    let mut next_report = Instant::now() + REPORT_INTERVAL;
    loop {
        if poll.wait(Some(next_report.saturating_duration_since(Instant::now()))).is_err() {
            return;
        }
        while let Some(received) = signals.next() {
            match received.signal {
                SIGHUP => pusher.read_headers_again(),
                SIGUSR1 => console.say(&in_words(&pusher.totals())),
                _ => current.end_all(),
            }
        }
        if Instant::now() >= next_report {
            console.say(&in_words(&pusher.totals()));
            next_report = Instant::now() + REPORT_INTERVAL;
        }
    }
}

fn print_event(event: &PushEvent, console: &Console) {
    match event {
        PushEvent::Waiting(why) => console.say(&format!("profiles wait: {why}")),
        PushEvent::Resumed => console.say("profiles are sent again"),
        PushEvent::Refused(why) => console.say(&format!("the engine refused profiles: {why}")),
        PushEvent::NotKept(why) => {
            console.say(&format!("the spool cannot be written ({why}); profiles wait in memory"));
        }
        PushEvent::Headers(Ok(())) => console.say("tokens and headers were read again"),
        PushEvent::Headers(Err(why)) => console.say(&format!("the old tokens and headers stay: {why}")),
    }
}

/// Describes what was sent and dropped.
fn in_words(totals: &PushTotals) -> String {
    let PushTotals { sent, sent_bytes, rejected, refused, dropped, waiting, waiting_bytes } = *totals;
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    format!(
        "requests: {sent} sent ({:.1} MB), {waiting} waiting ({:.1} MB), {dropped} dropped, {refused} refused; {rejected} profiles refused in others",
        megabytes(sent_bytes),
        megabytes(waiting_bytes)
    )
}
