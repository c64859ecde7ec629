//! The terminal: taken over, and given back on every way out.

use std::io::{self, BufWriter, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::style::Print;
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use crossterm::{cursor, execute};
use ratatui::backend::CrosstermBackend;
use ratatui::{Frame, Terminal};

/// Clicks and the wheel, by their cells (xterm's modes 1000 and 1006); not every movement, which slow links would feel.
const MOUSE_ON: &str = "\x1b[?1000h\x1b[?1006h";
const MOUSE_OFF: &str = "\x1b[?1006l\x1b[?1000l";

/// Whether the terminal is ours now, and has to be given back.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// Whether some thread has panicked: its message must not be drawn over.
static PANICKED: AtomicBool = AtomicBool::new(false);

/// The terminal while it is ours. Dropped, it is as before.
pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<BufWriter<Stdout>>>,
}

impl Screen {
    /// Takes the terminal over. A panic of any thread gives it back before its message is printed.
    ///
    /// # Errors
    /// Where there is none, or it cannot be set up.
    pub(crate) fn enter() -> io::Result<Self> {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICKED.store(true, Ordering::Release);
            give_back();
            before(panic);
        }));
        let terminal = Terminal::new(CrosstermBackend::new(BufWriter::with_capacity(1 << 14, io::stdout())));
        take()?;
        Ok(Self { terminal: terminal.inspect_err(|_| give_back())? })
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
        give_back();
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
        give_back();
    }
}

fn take() -> io::Result<()> {
    enable_raw_mode()?;
    TAKEN.store(true, Ordering::Release);
    execute!(io::stdout(), EnterAlternateScreen, EnableBracketedPaste, Print(MOUSE_ON), cursor::Hide)
}

/// Nothing can be done, and nobody told, where this fails: the terminal is gone then.
fn give_back() {
    if !TAKEN.swap(false, Ordering::AcqRel) {
        return;
    }
    let mut stdout = io::stdout();
    let _ = execute!(stdout, Print(MOUSE_OFF), DisableBracketedPaste, LeaveAlternateScreen, cursor::Show);
    let _ = stdout.flush();
    let _ = disable_raw_mode();
}
