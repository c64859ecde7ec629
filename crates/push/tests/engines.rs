//! What a client and a pusher do with engines that are busy, broken or hostile.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use prof_push::testing::{Engine, Reply};
use prof_push::{Answer, Client, ClientSettings, Endpoint, HeaderSources, Message, PushEvent, Pusher, Store};

fn client_of(url: &str, token: Option<&Path>) -> Client {
    client_with(url, token, None)
}

fn client_with(url: &str, token: Option<&Path>, authorities: Option<&Path>) -> Client {
    let headers = HeaderSources { token_file: token.map(Path::to_owned), ..HeaderSources::default() };
    let (endpoint, authorities) = (Endpoint::parse(url).unwrap(), authorities.map(Path::to_owned));
    let timeout = Duration::from_secs(2);
    Client::new(ClientSettings { endpoint, headers, authorities, timeout }).unwrap()
}

fn client(engine: &Engine) -> Client {
    client_of(&engine.url(), None)
}

/// A message that no engine understands; the replies in these tests do not depend on it.
fn message(number: u8) -> Message {
    Message { query: String::new(), body: vec![number; 20] }
}

fn status(status: u16, headers: Vec<(&'static str, String)>) -> Reply {
    Reply::Status(status, headers, b"a sentence".to_vec())
}

#[test]
fn engines_that_break_are_asked_again_and_those_that_refuse_are_not() {
    for (reply, is_later) in [
        (status(429, vec![("Retry-After", "3".to_owned())]), true),
        (status(503, Vec::new()), true),
        (Reply::Close, true),
        (Reply::Half, true),
        (Reply::Hang(Duration::from_secs(4)), true),
        (status(400, Vec::new()), false),
        (status(413, Vec::new()), false),
        (status(500, Vec::new()), true),
        (status(302, vec![("Location", "http://127.0.0.1:1/".to_owned())]), false),
        (Reply::Status(200, vec![("Content-Type", "text/html".to_owned())], b"<html>".to_vec()), false),
    ] {
        let engine = Engine::start(vec![reply.clone()]);
        let answer = client(&engine).send(&message(1));
        match (&answer, is_later) {
            (Answer::Later { needs_help: false, .. }, true) | (Answer::Refused { .. }, false) => {}
            _ => panic!("{reply:?}: {answer:?}"),
        }
        assert_eq!(engine.received().len(), 1, "{reply:?}");
    }
}

#[test]
fn an_endless_answer_ends() {
    let engine = Engine::start(vec![Reply::Endless]);
    let begin = Instant::now();
    assert!(matches!(client(&engine).send(&message(1)), Answer::Refused { .. } | Answer::Later { .. }));
    assert!(begin.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_token_goes_to_no_other_host() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "s3cret").unwrap();
    let other = Engine::start(Vec::new());
    for code in [301, 302, 307, 308] {
        let engine = Engine::start(vec![status(code, vec![("Location", other.url())])]);
        let answer = client_of(&engine.url(), Some(&token)).send(&message(1));
        let Answer::Refused { sentence } = answer else { panic!("{answer:?}") };
        assert!(sentence.contains("not followed") && !sentence.contains("s3cret"), "{sentence}");
        let sent = &engine.received()[0].headers;
        assert!(sent.contains(&("authorization".to_owned(), "Bearer s3cret".to_owned())), "{sent:?}");
    }
    assert!(other.received().is_empty());
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn accepted() -> Reply {
    Reply::Status(200, Vec::new(), Vec::new())
}

#[test]
fn what_cannot_be_sent_waits_in_order_and_is_said_once() {
    let folder = tempfile::tempdir().unwrap();
    let spool = folder.path().join("spool");
    let mut replies = vec![status(503, Vec::new()), Reply::Close, status(400, Vec::new())];
    replies.extend(vec![accepted(); 5]);
    let engine = Engine::start(replies);
    let events = Arc::<Mutex<Vec<PushEvent>>>::default();
    let shared = Arc::clone(&events);
    let store = Store::in_folder(&spool, 1 << 20).unwrap();
    let pusher =
        Pusher::start(client(&engine), store, move |event| shared.lock().unwrap().push(event)).unwrap();
    (1..=4).for_each(|number| pusher.send(message(number)));
    wait_until("all are sent", || pusher.totals().sent == 3);
    let totals = pusher.finish(Instant::now() + Duration::from_secs(10));
    assert_eq!((totals.sent, totals.refused, totals.dropped, totals.waiting), (3, 1, 0, 0));
    let bodies: Vec<u8> = engine.received().iter().map(|request| request.body[0]).collect();
    assert_eq!(bodies, [1, 1, 1, 2, 3, 4], "the oldest first; one that is refused is not sent again");
    let events = events.lock().unwrap();
    let [PushEvent::Waiting(why), PushEvent::Resumed, PushEvent::Refused(_)] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert!(why.contains("503"), "{why}");
    assert_eq!(std::fs::read_dir(spool).unwrap().count(), 0);
}

#[test]
fn an_engine_that_restarts_loses_nothing_and_one_that_fails_at_a_message_stops_no_others() {
    // Two attempts at the first, one at the second; then the engine fails at a message for good, with waits of no time.
    let fails = || status(500, vec![("Retry-After", "0".to_owned())]);
    let mut replies = vec![fails(), fails(), accepted(), fails(), accepted()];
    replies.extend(vec![fails(); 7]);
    replies.extend(vec![accepted(); 1]);
    let engine = Engine::start(replies);
    let pusher = Pusher::start(client(&engine), Store::in_memory(), |_| ()).unwrap();
    (1..=4).for_each(|number| pusher.send(message(number)));
    let totals = pusher.finish(Instant::now() + Duration::from_secs(60));
    assert_eq!((totals.sent, totals.refused, totals.dropped, totals.waiting), (3, 1, 0, 0));
    let bodies: Vec<u8> = engine.received().iter().map(|request| request.body[0]).collect();
    assert_eq!(bodies, [1, 1, 1, 2, 2, 3, 3, 3, 3, 3, 3, 3, 4]);
}

#[test]
fn a_spool_survives_a_process_that_ends() {
    let folder = tempfile::tempdir().unwrap();
    let spool = folder.path().join("spool");
    let open = || Store::in_folder(&spool, 1 << 20).unwrap();
    // Nobody listens there.
    let pusher = Pusher::start(client_of("http://127.0.0.1:1", None), open(), |_| ()).unwrap();
    (1..=3).for_each(|number| pusher.send(message(number)));
    wait_until("all are kept", || pusher.totals().waiting == 3);
    drop(pusher);
    let engine = Engine::start(vec![accepted(); 3]);
    // Its threads end in the background.
    wait_until("the spool is free", || Store::in_folder(&spool, 1 << 20).is_ok());
    let pusher = Pusher::start(client(&engine), open(), |_| ()).unwrap();
    wait_until("all are sent", || pusher.totals().sent == 3);
}

#[test]
fn a_new_token_is_sent_when_headers_are_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "old").unwrap();
    let engine = Engine::start(vec![status(401, Vec::new()), accepted()]);
    let pusher = Pusher::start(client_of(&engine.url(), Some(&token)), Store::in_memory(), |_| ()).unwrap();
    pusher.send(message(1));
    wait_until("it was refused", || engine.received().len() == 1);
    std::fs::write(&token, "new").unwrap();
    pusher.read_headers_again();
    wait_until("it was sent", || pusher.totals().sent == 1);
    let tokens = engine.received().into_iter().flat_map(|request| request.headers);
    let tokens: Vec<String> =
        tokens.filter(|(name, _)| name == "authorization").map(|(_, value)| value).collect();
    assert_eq!(tokens, ["Bearer old", "Bearer new"]);
}

/// A certificate for a name, signed by itself, in PEM and in DER form, and its key in DER form; `None` without openssl(1).
fn certificate(folder: &Path, name: &str) -> Option<(PathBuf, Vec<u8>, Vec<u8>)> {
    let openssl = |args: &[&str]| {
        let status = Command::new("openssl").args(args).current_dir(folder).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    let (subject, names) = (format!("/CN={name}"), format!("subjectAltName={name}"));
    let made = openssl(&[
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        "key.pem",
        "-out",
        "cert.pem",
        "-days",
        "2",
        "-subj",
        &subject,
        "-addext",
        &names,
        "-addext",
        "basicConstraints=CA:FALSE",
    ]) && openssl(&["x509", "-in", "cert.pem", "-outform", "DER", "-out", "cert.der"])
        && openssl(&["pkcs8", "-topk8", "-nocrypt", "-in", "key.pem", "-outform", "DER", "-out", "key.der"]);
    if !made {
        let _ = writeln!(std::io::stderr(), "skipped: openssl is not installed");
        return None;
    }
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    Some((folder.join("cert.pem"), read("cert.der"), read("key.der")))
}

#[test]
fn certificates_have_to_be_trusted_and_of_the_host() {
    let folder = tempfile::tempdir().unwrap();
    let Some((authority, der, key)) = certificate(folder.path(), "IP:127.0.0.1") else { return };
    let engine = Engine::start_tls(vec![accepted(); 3], der, key);
    let needs_help = |answer: Answer| matches!(answer, Answer::Later { needs_help: true, .. });
    assert!(needs_help(client_of(&engine.url(), None).send(&message(1))), "nobody answers for it");
    assert_eq!(engine.received().len(), 0);
    let trusting = client_with(&engine.url(), None, Some(&authority));
    let answer = trusting.send(&message(1));
    assert_eq!(answer, Answer::Accepted);
    let other = tempfile::tempdir().unwrap();
    let Some((authority, der, key)) = certificate(other.path(), "DNS:elsewhere.example") else { return };
    let engine = Engine::start_tls(vec![accepted()], der, key);
    let answer = client_with(&engine.url(), None, Some(&authority)).send(&message(1));
    assert!(needs_help(answer.clone()), "{answer:?}");
    assert_eq!(engine.received().len(), 0, "of another host");
    let nothing = other.path().join("key.der");
    let settings = |authorities| ClientSettings {
        endpoint: Endpoint::parse(&engine.url()).unwrap(),
        headers: HeaderSources::default(),
        authorities,
        timeout: Duration::from_secs(2),
    };
    assert!(Client::new(settings(Some(nothing))).unwrap_err().to_string().contains("no certificates"));
}
