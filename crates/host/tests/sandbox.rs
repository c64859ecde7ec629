//! What a confined worker can do, and what not. One test: a worker is forked while nothing else runs.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::net::TcpListener;
use std::process::Command;

use prof_host::sys::sandbox;
use prof_host::sys::spawn::ExitStatus;

#[test]
fn a_worker_reads_and_writes_what_is_open_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("victim");
    fs::write(&path, "precious").unwrap();
    let mut open = File::create(folder.path().join("result")).unwrap();
    let attempts: [(&str, &dyn Fn() -> bool); 11] = [
        ("write a file", &|| OpenOptions::new().write(true).open(&path).is_ok()),
        ("create a file", &|| File::create(folder.path().join("new")).is_ok()),
        ("cut a file", &|| OpenOptions::new().write(true).truncate(true).open(&path).is_ok()),
        ("delete a file", &|| fs::remove_file(&path).is_ok()),
        ("rename a file", &|| fs::rename(&path, folder.path().join("new")).is_ok()),
        ("link a file", &|| fs::hard_link(&path, folder.path().join("new")).is_ok()),
        ("make a folder", &|| fs::create_dir(folder.path().join("new")).is_ok()),
        ("change rights", &|| fs::set_permissions(&path, permissions()).is_ok()),
        ("start a program", &|| Command::new("/bin/true").status().is_ok()),
        ("open a socket", &|| TcpListener::bind("127.0.0.1:0").is_ok()),
        ("write its own memory by file", &|| OpenOptions::new().write(true).open("/proc/self/mem").is_ok()),
    ];
    let status = sandbox::run(|confined| {
        let read = fs::read(&path).is_ok_and(|bytes| bytes == b"precious");
        let threads = std::thread::spawn(|| 7).join().is_ok_and(|seven| seven == 7);
        let written = open.write_all(b"result").is_ok();
        match confined {
            Ok(()) if read && threads && written => {}
            _ => return 100,
        }
        let done = attempts.iter().position(|(_, attempt)| attempt());
        done.map_or(42, |number| u8::try_from(number).unwrap())
    })
    .unwrap();
    if let ExitStatus::Code(number @ 0..11) = status {
        panic!("it could {}", attempts[usize::try_from(number).unwrap()].0);
    }
    assert_eq!(status, ExitStatus::Code(42));
    assert_eq!(fs::read(folder.path().join("result")).unwrap(), b"result");
    assert_eq!(fs::read(&path).unwrap(), b"precious");
}

fn permissions() -> fs::Permissions {
    use std::os::unix::fs::PermissionsExt;
    fs::Permissions::from_mode(0o777)
}
