//! A debuginfod client against servers that behave, and servers that don't.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use model::{BuildId, Reason};
use prof_host::debuginfod::{Artifact, Client, FetchError, Settings};
use prof_host::objects::{SearchPaths, own_vdso};

/// A server that answers each request for a path as told, and counts them. It ends with the test's process.
struct Server {
    url: String,
    requests: Arc<AtomicUsize>,
}

fn serve(answer: impl Fn(&str, &mut TcpStream) + Send + 'static) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&requests);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let Some(Ok(request)) = lines.next() else { continue };
            // The client's other headers: closing with unread bytes would reset the connection.
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            count.fetch_add(1, Ordering::SeqCst);
            answer(request.split(' ').nth(1).unwrap(), &mut stream);
        }
    });
    Server { url, requests }
}

/// An answer with a length, and a body that may be another one.
fn reply(stream: &mut TcpStream, status: &str, length: usize, body: &[u8]) {
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    // Who has heard enough hangs up.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
}

/// An object with a build id.
fn object() -> (BuildId, Vec<u8>) {
    let image = own_vdso().unwrap();
    (image.build_id().unwrap(), image.data().to_vec())
}

struct Case {
    _cache: tempfile::TempDir,
    settings: Settings,
    id: BuildId,
}

fn case(servers: &[&Server]) -> Case {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings {
        servers: servers.iter().map(|server| server.url.clone()).collect(),
        cache: folder.path().join("debuginfod_client"),
        total_timeout: Duration::from_secs(100),
        answer_timeout: Duration::from_secs(50),
        max_file_bytes: 1 << 20,
    };
    Case { settings, id: object().0, _cache: folder }
}

impl Case {
    fn fetch(&self) -> Result<std::path::PathBuf, FetchError> {
        Client::new(self.settings.clone()).fetch(&self.id, Artifact::DebugInfo, &mut |_, _| {})
    }

    /// What lies in the cache, below the build id.
    fn kept(&self) -> Vec<(String, u64)> {
        let Ok(entries) = std::fs::read_dir(self.settings.cache.join(self.id.to_string())) else {
            return Vec::new();
        };
        let entry = |entry: std::fs::DirEntry| {
            (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().len())
        };
        entries.map(|found| entry(found.unwrap())).collect()
    }
}

#[test]
fn what_comes_is_kept_as_elfutils_keeps_it() {
    let (id, bytes) = object();
    let path = format!("/buildid/{id}/debuginfo");
    let size = bytes.len();
    let server = serve(move |asked, stream| match asked == path {
        true => reply(stream, "200 OK", bytes.len(), &bytes),
        false => reply(stream, "404 Not Found", 0, b""),
    });
    let without = serve(|_, stream| reply(stream, "404 Not Found", 4, b"gone"));
    let case = case(&[&without, &server]);
    let mut seen = (0, None);
    let mut client = Client::new(case.settings.clone());
    let found = client.fetch(&id, Artifact::DebugInfo, &mut |done, size| seen = (done, size)).unwrap();
    assert_eq!(found, case.settings.cache.join(id.to_string()).join("debuginfo"));
    assert_eq!(seen, (size as u64, Some(size as u64)));
    assert_eq!(case.kept(), [("debuginfo".to_owned(), size as u64)]);
    assert_eq!(case.fetch().unwrap(), found);
    assert_eq!(server.requests.load(Ordering::SeqCst), 1, "the cache is asked first");
    assert_eq!(without.requests.load(Ordering::SeqCst), 1);
    let paths = SearchPaths {
        symfs: None,
        debug_dirs: Vec::new(),
        build_id_cache: None,
        debuginfod_cache: Some(case.settings.cache.clone()),
        this_host: true,
        own_images: true,
    };
    let store: prof_host::objects::ObjectStore = prof_host::objects::ObjectStore::new(paths);
    let identity =
        model::ObjectIdentity { path: model::Name::from("/no/such"), build_id: Some(id), file: None };
    assert_eq!(store.open(&identity, &[]).unwrap_err(), Reason::FileMissing, "it is not the executable");
}

#[test]
fn what_no_server_has_is_not_asked_for_again_at_once() {
    let server = serve(|_, stream| reply(stream, "404 Not Found", 0, b""));
    let case = case(&[&server]);
    assert!(matches!(case.fetch(), Err(FetchError::NotFound)));
    assert!(matches!(case.fetch(), Err(FetchError::RecentlyNotFound)));
    assert_eq!(server.requests.load(Ordering::SeqCst), 1);
    assert_eq!(case.kept(), [("debuginfo".to_owned(), 0)], "elfutils' mark");
    std::fs::write(case.settings.cache.join("cache_miss_s"), "0\n").unwrap();
    assert!(matches!(case.fetch(), Err(FetchError::NotFound)));
    assert_eq!(server.requests.load(Ordering::SeqCst), 2);
}

#[test]
fn what_was_not_asked_for_is_not_kept() {
    let another = serve(|_, stream| {
        let mut bytes = object().1;
        let id = object().0.as_bytes().to_vec();
        let at = bytes.windows(id.len()).position(|window| window == id).unwrap();
        bytes[at] ^= 1;
        reply(stream, "200 OK", bytes.len(), &bytes);
    });
    let page = serve(|_, stream| reply(stream, "200 OK", 14, b"<html>hi</html"));
    let nothing = serve(|_, stream| reply(stream, "200 OK", 0, b""));
    for server in [&another, &page, &nothing] {
        let case = case(&[server]);
        let error = case.fetch().unwrap_err();
        assert!(matches!(error, FetchError::WrongFile { .. }), "{error}");
        assert_eq!(case.kept(), []);
    }
    let case = case(&[&another]);
    assert!(matches!(case.fetch(), Err(FetchError::WrongFile { reason: Reason::BuildIdDiffers { .. }, .. })));
}

#[test]
fn a_body_that_breaks_off_is_not_kept() {
    let server = serve(|_, stream| {
        let bytes = object().1;
        reply(stream, "200 OK", bytes.len(), &bytes[..bytes.len() / 2]);
    });
    let case = case(&[&server]);
    let error = case.fetch().unwrap_err();
    assert!(matches!(error, FetchError::Server { .. }), "{error}");
    assert_eq!(case.kept(), []);
}

#[test]
fn a_body_without_an_end_is_cut_off() {
    let stated = serve(|_, stream| reply(stream, "200 OK", 1 << 40, b"x"));
    let endless = serve(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
        while stream.write_all(&[0x7f; 4096]).is_ok() {}
    });
    for server in [&stated, &endless] {
        let case = case(&[server]);
        let error = case.fetch().unwrap_err();
        assert!(matches!(error, FetchError::TooLarge { limit: 0x10_0000, .. }), "{error}");
        assert_eq!(case.kept(), []);
    }
}

#[test]
fn the_time_for_all_downloads_together_has_an_end() {
    let drips = serve(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
        while stream.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let mut case = case(&[&drips]);
    case.settings.total_timeout = Duration::from_millis(700);
    let mut client = Client::new(case.settings.clone());
    let begin = Instant::now();
    let error = client.fetch(&case.id, Artifact::DebugInfo, &mut |_, _| {}).unwrap_err();
    assert!(matches!(error, FetchError::TimeLimit(_)), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(60), "the body alone would take an hour and a half");
    let again = client.fetch(&case.id, Artifact::Executable, &mut |_, _| {}).unwrap_err();
    assert!(matches!(again, FetchError::TimeLimit(_)), "{again}");
    assert_eq!(drips.requests.load(Ordering::SeqCst), 1);
    assert_eq!(case.kept(), []);
}

#[test]
fn a_silent_server_is_waited_for_once() {
    let silent = serve(|_, stream| {
        let stream = stream.try_clone().unwrap();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_secs(300));
            drop(stream);
        });
    });
    let mut case = case(&[&silent]);
    case.settings.answer_timeout = Duration::from_millis(300);
    let mut client = Client::new(case.settings.clone());
    for artifact in [Artifact::DebugInfo, Artifact::Executable] {
        client.fetch(&case.id, artifact, &mut |_, _| {}).unwrap_err();
    }
    assert_eq!(silent.requests.load(Ordering::SeqCst), 1);
    assert_eq!(case.kept(), [], "silence is no answer: nothing is noted as missing");
}

#[test]
fn a_server_that_is_not_there_is_told() {
    let unused = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", unused.local_addr().unwrap());
    drop(unused);
    let mut case = case(&[]);
    case.settings.servers = vec![url.clone()];
    let error = case.fetch().unwrap_err().to_string();
    assert!(error.starts_with(&format!("{url}/buildid/")), "{error}");
    let broken = serve(|_, stream| reply(stream, "500 Internal Server Error", 0, b""));
    case.settings.servers = vec![broken.url.clone()];
    let error = case.fetch().unwrap_err().to_string();
    assert!(error.contains("HTTP status 500"), "{error}");
    assert_eq!(case.kept(), []);
}
