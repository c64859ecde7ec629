//! Sets up the terminal for the live view, and restores it however the program ends.

use std::io::{self, BufWriter, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use host::sys::terminal;
use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::layout::{Rect, Size};
use ratatui::{Frame, Terminal, TerminalOptions, Viewport};

/// Escape sequences that switch to the alternate screen (xterm's mode 1049), mark pasted text (2004), report clicks and the
/// wheel with their cells (1000, 1006), and hide the cursor. Movements of the mouse are not reported: they would load slow links.
const ENTER: &str = "\x1b[?1049h\x1b[?2004h\x1b[?1000h\x1b[?1006h\x1b[?25l";
/// Escape sequences that reset colours, and undo [`ENTER`].
const LEAVE: &[u8] = b"\x1b[0m\x1b[?1006l\x1b[?1000l\x1b[?2004l\x1b[?1049l\x1b[?25h";

/// True if a thread has panicked. Drawing would then overwrite its message.
static PANICKED: AtomicBool = AtomicBool::new(false);

/// Maximum number of columns and rows that are drawn, in cells: more than a screen of 8K has in a small font. A terminal may claim 65,535 in each direction,
/// and each cell takes a hundred bytes.
const MAX_SIZE: Size = Size { width: 1536, height: 512 };

/// The terminal in raw mode, on the alternate screen. Dropping it restores the terminal.
pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<BufWriter<Stdout>>>,
    /// The part of the terminal that is drawn, in cells.
    area: Rect,
}

impl Screen {
    /// Sets up the terminal, and a panic hook that restores it before it prints the message of a panic. Signals that end the
    /// process and failed allocations restore the terminal, too.
    ///
    /// # Errors
    /// Fails if there is no terminal, or it cannot be set up.
    pub(crate) fn enter() -> io::Result<Self> {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICKED.store(true, Ordering::Release);
            terminal::restore();
            before(panic);
        }));
        let backend = CrosstermBackend::new(BufWriter::with_capacity(1 << 14, io::stdout()));
        let area = backend.size().map(drawn_area);
        set_up()?;
        let open = |area| {
            let options = TerminalOptions { viewport: Viewport::Fixed(area) };
            Ok(Self { terminal: Terminal::with_options(backend, options)?, area })
        };
        area.and_then(open).inspect_err(|_| terminal::restore())
    }

    /// Draws a frame, and writes only the cells that changed since the last drawing.
    ///
    /// # Errors
    /// Fails if the terminal is gone.
    pub(crate) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        if PANICKED.load(Ordering::Acquire) {
            return Err(io::Error::other("an internal error; please report it with the message above"));
        }
        if drawn_area(self.terminal.size()?) != self.area {
            self.clear()?;
        }
        self.terminal.draw(draw)?;
        Ok(())
    }

    /// Makes the next drawing write all cells.
    ///
    /// # Errors
    /// Fails if the terminal is gone.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        // `Terminal::clear` asks the terminal where its cursor is, and another thread would read the answer.
        self.area = drawn_area(self.terminal.size()?);
        self.terminal.resize(self.area)
    }

    /// Restores the terminal, stops this process until it is continued (`SIGCONT`), and sets the terminal up again.
    ///
    /// # Errors
    /// Fails if the terminal is gone.
    pub(crate) fn suspend(&mut self) -> io::Result<()> {
        terminal::restore();
        host::sys::signals::stop_own_process();
        self.resume()
    }

    /// Sets the terminal up again, after another process has stopped this one.
    ///
    /// # Errors
    /// Fails if the terminal is gone.
    pub(crate) fn resume(&mut self) -> io::Result<()> {
        set_up()?;
        self.clear()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        terminal::restore();
    }
}

/// Returns the part of a terminal of this size that is drawn.
fn drawn_area(size: Size) -> Rect {
    Rect::new(0, 0, size.width.min(MAX_SIZE.width), size.height.min(MAX_SIZE.height))
}

fn set_up() -> io::Result<()> {
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
    fn a_terminal_that_claims_any_size_takes_bounded_memory() {
        assert_eq!(drawn_area(Size { width: 300, height: 80 }), Rect::new(0, 0, 300, 80));
        let area = drawn_area(Size { width: u16::MAX, height: u16::MAX });
        assert!((area.area() as usize) * 2 * size_of::<ratatui::buffer::Cell>() <= 128 << 20, "{area:?}");
    }

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
            // script(1) makes a terminal of 0 × 0 cells if its own input is not a terminal.
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
            // Held open, because script(1) closes its terminal at the end of its input.
            let input = script.stdin.take();
            let output = script.wait_with_output().unwrap();
            drop(input);
            let output = String::from_utf8_lossy(&output.stdout).into_owned();
            let is_stty_line = |line: &str| {
                line.contains(':') && line.trim().chars().all(|c| c == ':' || c.is_ascii_hexdigit())
            };
            let settings: Vec<&str> = output.lines().filter(|line| is_stty_line(line)).collect();
            let [before, after] = settings[..] else { panic!("{test} of {settings:?}: {output:?}") };
            assert_eq!(before.trim(), after.trim(), "{output:?}");
            let position = |text: &str| {
                output.find(text).unwrap_or_else(|| panic!("{which}: no {text:?} in {output:?}"))
            };
            let message = position("what went wrong");
            for (set, reset) in
                [("\x1b[?1049h", "\x1b[?1049l"), ("\x1b[?25l", "\x1b[?25h"), ("\x1b[?1000h", "\x1b[?1000l")]
            {
                assert!(position(set) < position(reset) && position(reset) < message, "{which}: {output:?}");
                assert!(!output[message..].contains(set), "{which}: set again: {output:?}");
            }
        }
    }
}
