//! The terminal: taken over, and given back on every way out.

use std::io::{self, BufWriter, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use host::sys::terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::{Frame, Terminal};

/// The alternate screen, pasted text as such, clicks and the wheel by their cells (xterm's modes 1049, 2004, 1000 and 1006; not
/// every movement, which slow links would feel), and no cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?2004h\x1b[?1000h\x1b[?1006h\x1b[?25l";
/// The reverse, after a reset of colours.
const LEAVE: &[u8] = b"\x1b[0m\x1b[?1006l\x1b[?1000l\x1b[?2004l\x1b[?1049l\x1b[?25h";

/// True if some thread has panicked: its message must not be drawn over.
static PANICKED: AtomicBool = AtomicBool::new(false);

/// The terminal while it is ours. Dropped, it is as before.
pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<BufWriter<Stdout>>>,
}

impl Screen {
    /// Takes the terminal over. A panic of any thread gives it back before its message is printed, and so does every signal
    /// that ends the process, and an end for want of memory.
    ///
    /// # Errors
    /// Where there is none, or it cannot be set up.
    pub(crate) fn enter() -> io::Result<Self> {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICKED.store(true, Ordering::Release);
            terminal::restore();
            before(panic);
        }));
        let terminal = Terminal::new(CrosstermBackend::new(BufWriter::with_capacity(1 << 14, io::stdout())));
        take()?;
        Ok(Self { terminal: terminal.inspect_err(|_| terminal::restore())? })
    }

    /// Draws; only cells that changed since the last time are written.
    ///
    /// # Errors
    /// Where the terminal is gone.
    pub(crate) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        if PANICKED.load(Ordering::Acquire) {
            return Err(io::Error::other("an internal error; please report it with the message above"));
        }
        self.terminal.draw(draw)?;
        Ok(())
    }

    /// Forgets what is on the terminal: the next drawing writes all of it.
    ///
    /// # Errors
    /// Where the terminal is gone.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        // `Terminal::clear` asks the terminal where its cursor is, and another thread would read the answer.
        let size = self.terminal.size()?;
        self.terminal.resize(size.into())
    }

    /// Gives the terminal back, stops this process until somebody continues it, and takes the terminal again.
    ///
    /// # Errors
    /// Where the terminal is gone.
    pub(crate) fn suspend(&mut self) -> io::Result<()> {
        terminal::restore();
        host::sys::signals::stop_own_process();
        self.resume()
    }

    /// Takes the terminal again, after this process was stopped by others.
    ///
    /// # Errors
    /// Where the terminal is gone.
    pub(crate) fn resume(&mut self) -> io::Result<()> {
        take()?;
        self.clear()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        terminal::restore();
    }
}

fn take() -> io::Result<()> {
    terminal::enter_raw_mode(LEAVE)?;
    let mut stdout = io::stdout();
    stdout.write_all(ENTER.as_bytes())?;
    stdout.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::thread;

    #[test]
    #[ignore = "started by another test, in a terminal of its own"]
    fn a_thread_panics_in_a_terminal() {
        let mut screen = Screen::enter().unwrap();
        screen.draw(|_| {}).unwrap();
        thread::spawn(|| panic!("what went wrong")).join().unwrap_err();
        assert!(screen.draw(|_| {}).is_err(), "the message would be drawn over");
    }

    #[test]
    #[ignore = "started by another test, in a terminal of its own"]
    fn the_drawing_thread_panics_in_a_terminal() {
        let mut screen = Screen::enter().unwrap();
        screen.draw(|_| panic!("what went wrong")).unwrap();
    }

    #[test]
    fn a_panic_of_any_thread_gives_the_terminal_back_before_its_message() {
        for which in ["a_thread_panics_in_a_terminal", "the_drawing_thread_panics_in_a_terminal"] {
            let ourselves = std::env::current_exe().unwrap();
            let test = format!("{}::{which}", module_path!().split_once("::").unwrap().1);
            // A terminal of 0 × 0 cells is what script(1) makes where its own input is none.
            let command = format!(
                "stty rows 24 cols 80; stty -g; '{}' --ignored --exact --nocapture {test}; stty -g",
                ourselves.display()
            );
            let script = Command::new("script")
                .args(["-qec", &command, "/dev/null"])
                .env("TERM", "xterm-256color")
                .env("RUST_BACKTRACE", "0")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn();
            let Ok(mut script) = script else {
                println!("skipped: no script(1) here");
                return;
            };
            // Held open: at its end, script would end the terminal.
            let input = script.stdin.take();
            let output = script.wait_with_output().unwrap();
            drop(input);
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let is_of_stty = |line: &str| {
                line.contains(':') && line.trim().chars().all(|c| c == ':' || c.is_ascii_hexdigit())
            };
            let settings: Vec<&str> = said.lines().filter(|line| is_of_stty(line)).collect();
            let [before, after] = settings[..] else { panic!("{test} of {settings:?}: {said:?}") };
            assert_eq!(before.trim(), after.trim(), "{said:?}");
            let place =
                |text: &str| said.find(text).unwrap_or_else(|| panic!("{which}: no {text:?} in {said:?}"));
            let message = place("what went wrong");
            for (taken, given_back) in
                [("\x1b[?1049h", "\x1b[?1049l"), ("\x1b[?25l", "\x1b[?25h"), ("\x1b[?1000h", "\x1b[?1000l")]
            {
                assert!(place(taken) < place(given_back) && place(given_back) < message, "{which}: {said:?}");
                assert!(!said[message..].contains(taken), "{which}: taken again: {said:?}");
            }
        }
    }
}
