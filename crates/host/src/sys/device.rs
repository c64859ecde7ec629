//! Classifies character devices by their numbers (`Documentation/admin-guide/devices.txt` of the kernel).

use std::io::{self, IsTerminal};
use std::os::unix::fs::MetadataExt;

fn major_minor(device: u64) -> (u32, u32) {
    (libc::major(device), libc::minor(device))
}

/// Returns true if a character device discards what is written to it: `/dev/null`, `/dev/zero`, `/dev/full`.
pub fn is_sink(device: u64) -> bool {
    matches!(major_minor(device), (1, 3 | 5 | 7))
}

/// Returns true if a character device is a terminal: a virtual console, a serial line, a pseudoterminal, or a standard descriptor of
/// this process that is a terminal.
pub fn is_terminal(device: u64) -> bool {
    match major_minor(device) {
        (4, _) | (5, 0 | 1) | (136..=143, _) => true,
        _ => {
            let is_ours = |number: u32, is_terminal: bool| {
                let its = std::fs::metadata(format!("/proc/self/fd/{number}"));
                is_terminal && its.is_ok_and(|its| its.rdev() == device)
            };
            is_ours(0, io::stdin().is_terminal())
                || is_ours(1, io::stdout().is_terminal())
                || is_ours(2, io::stderr().is_terminal())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_by_name() {
        let number = |path: &str| std::fs::metadata(path).unwrap().rdev();
        for (path, sink, terminal) in [
            ("/dev/null", true, false),
            ("/dev/full", true, false),
            ("/dev/tty", false, true),
            ("/dev/urandom", false, false),
        ] {
            assert_eq!((is_sink(number(path)), is_terminal(number(path))), (sink, terminal), "{path}");
        }
    }
}
