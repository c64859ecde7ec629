//! The code of a function on the screen. A thread of its own reads and annotates it.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use analysis::annotate::HAS_DISASSEMBLY;
use crossterm::event::KeyCode;
use export::annotate::{AnnotatedFunction, Heat, Listing, ListingRow, rows};
use host::timed_worker::{Outcome, TimedWorker};
use live::function_code::{CodeQuery, LiveCode};
use live::snapshot::Function;

use super::app::App;
use crate::source_files::SourceFiles;

/// The longest time to wait for files of a function, as file systems may not answer.
const PATIENCE: Duration = Duration::from_secs(20);
/// Maximum number of rows of a listing. All of them are made again for each snapshot.
const MAX_ROWS: usize = 20_000;
/// Columns by which the left and right keys scroll.
const COLUMN_STEP: usize = 8;

/// The code of a function, as far as it is known.
#[derive(Clone, Debug)]
pub(crate) struct CodeView {
    /// The function.
    pub(crate) function: Function,
    /// Its rows, or why there are none; `None` until they are known.
    pub(crate) rows: Option<Result<Vec<ListingRow>, String>>,
    /// The first row on the screen.
    pub(crate) first: usize,
    /// Number of columns that are scrolled out on the left.
    pub(crate) shift: usize,
    /// True if the function has no samples in the window any more.
    pub(crate) is_stale: bool,
    /// True while a request has not been answered.
    is_asked: bool,
}

/// An answer to a query: rows, or why there are none.
#[derive(Debug)]
pub(crate) struct CodeAnswer {
    /// The function.
    pub(crate) function: Function,
    /// Its rows, or why there are none.
    pub(crate) rows: Result<Vec<ListingRow>, String>,
}

/// A query for code, with the name and unit of the event for the listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CodeRequest {
    query: CodeQuery,
    event: String,
    unit: String,
    lost: u64,
}

impl App {
    /// Opens the code of a function and returns the request for it. Where no sample lies in the function itself, shows its callers and
    /// callees instead, with a message.
    pub(crate) fn open_code(&mut self, function: Function) -> Option<CodeRequest> {
        if !HAS_DISASSEMBLY {
            self.message =
                Some("this build shows no instructions: its feature `disassembly` is off".to_owned());
            return None;
        }
        let query = CodeQuery::new(&self.snapshot, &self.scope, &function);
        if query.is_empty() {
            self.focus.clear();
            self.show_callers(function);
            self.message = Some(
                "no sample is in the code of this function: these are its callers and callees".to_owned(),
            );
            return None;
        }
        self.code =
            Some(CodeView { function, rows: None, first: 0, shift: 0, is_stale: false, is_asked: true });
        Some(self.request(query))
    }

    /// Returns the request for the code that is shown, with the samples of a new snapshot.
    pub(crate) fn refresh_code(&mut self) -> Option<CodeRequest> {
        let function = self.code.as_ref().filter(|code| !code.is_asked && !self.paused)?.function.clone();
        let query = CodeQuery::new(&self.snapshot, &self.scope, &function);
        let code = self.code.as_mut()?;
        code.is_stale = query.is_empty();
        code.is_asked = !code.is_stale;
        code.is_asked.then(|| self.request(query))
    }

    fn request(&self, query: CodeQuery) -> CodeRequest {
        let status = &self.snapshot.status;
        let event = status.events.get(self.scope.event as usize).cloned().unwrap_or_default();
        // The weights of time are nanoseconds.
        let unit = if event.is_time { "ns".to_owned() } else { event.unit };
        CodeRequest { query, event: event.name, unit, lost: status.loss.samples }
    }

    /// Shows an answer, if its function is still the one on the screen. The row at the top stays there.
    pub(crate) fn receive_code(&mut self, answer: CodeAnswer) {
        let Some(code) = self.code.as_mut().filter(|code| code.function == answer.function) else { return };
        code.is_asked = false;
        let address = |rows: &Vec<ListingRow>| rows.get(code.first..)?.iter().find_map(|row| row.address);
        let top = code.rows.as_ref().and_then(|rows| rows.as_ref().ok()).and_then(address);
        if let (Some(top), Ok(rows), true) = (top, &answer.rows, code.first > 0)
            && let Some(place) = rows.iter().position(|row| row.address == Some(top))
        {
            code.first = place;
        }
        code.rows = Some(answer.rows);
    }

    /// Handles a key while code is shown. Returns false for keys that do the same as in other views.
    pub(crate) fn code_key(&mut self, key: KeyCode) -> bool {
        let page = self.page;
        let Some(code) = &mut self.code else { return false };
        match key {
            KeyCode::Esc | KeyCode::Char('q') => self.code = None,
            KeyCode::Up => code.scroll(-1, page),
            KeyCode::Down => code.scroll(1, page),
            KeyCode::PageUp => code.scroll(1 - isize::try_from(page).unwrap_or(2), page),
            KeyCode::PageDown => code.scroll(isize::try_from(page).unwrap_or(2) - 1, page),
            KeyCode::Home => code.first = 0,
            KeyCode::End => code.scroll(isize::MAX, page),
            KeyCode::Left => code.shift = code.shift.saturating_sub(COLUMN_STEP),
            KeyCode::Right => code.shift = (code.shift + COLUMN_STEP).min(usize::from(u16::MAX)),
            KeyCode::Tab => code.next_hot(page),
            KeyCode::Enter => {}
            // Keys that choose samples or views, or stop the screen.
            KeyCode::Char('?' | '1'..='4' | ' ' | 'w' | 'z' | 'k' | 'u' | 'i' | 'e') => return false,
            _ => {}
        }
        true
    }
}

impl CodeView {
    fn len(&self) -> usize {
        self.rows.as_ref().and_then(|rows| rows.as_ref().ok()).map_or(0, Vec::len)
    }

    /// Scrolls by rows, within the listing.
    pub(crate) fn scroll(&mut self, by: isize, page: usize) {
        let last = self.len().saturating_sub(page);
        self.first = self.first.saturating_add_signed(by).min(last);
    }

    /// Scrolls so that the next hot row below the middle of the screen is in the middle; starts again from the top after the last.
    fn next_hot(&mut self, page: usize) {
        let Some(Ok(rows)) = &self.rows else { return };
        let middle = self.first + page / 2;
        let hot = |(_, row): &(usize, &ListingRow)| row.heat == Heat::Hot;
        let next = rows.iter().enumerate().skip(middle + 1).find(hot);
        if let Some((place, _)) = next.or_else(|| rows.iter().enumerate().find(hot)) {
            self.first = place.saturating_sub(page / 2);
        }
    }
}

/// Starts the thread that answers requests. It ends when the sender is dropped. Of requests that wait, only the last is answered.
///
/// # Errors
/// Where there can be no thread.
pub(crate) fn start(tell: impl Fn(CodeAnswer) + Send + 'static) -> std::io::Result<Sender<CodeRequest>> {
    let (sender, asked) = channel();
    thread::Builder::new().name("code".to_owned()).spawn(move || answer(&asked, &tell))?;
    Ok(sender)
}

/// What is kept between answers.
#[derive(Default)]
struct Reading {
    code: LiveCode,
    sources: Option<(Function, SourceFiles<'static>)>,
}

fn answer(asked: &Receiver<CodeRequest>, tell: &dyn Fn(CodeAnswer)) {
    // Files may lie where nothing answers: whoever reads them may be left behind, with what it has read.
    let mut worker = TimedWorker::default();
    let mut reading = Reading::default();
    while let Ok(request) = asked.recv() {
        let request = asked.try_iter().last().unwrap_or(request);
        let function = request.query.function.clone();
        let mut taken = std::mem::take(&mut reading);
        let outcome = worker.run(PATIENCE, move || {
            let rows = taken.rows(&request);
            (taken, rows)
        });
        let rows = match outcome {
            Outcome::Done((taken, rows)) => {
                reading = taken;
                rows
            }
            Outcome::Pending(_) => Err(format!("its files were not read within {} s", PATIENCE.as_secs())),
            Outcome::Refused => Err("no thread is left to read its files".to_owned()),
        };
        tell(CodeAnswer { function, rows });
    }
}

impl Reading {
    fn rows(&mut self, request: &CodeRequest) -> Result<Vec<ListingRow>, String> {
        let function = &request.query.function;
        let annotated = self.code.annotate(&request.query);
        let annotated = annotated.ok_or_else(|| "no code is known at its samples".to_owned())?;
        if self.sources.as_ref().is_none_or(|(of, _)| of != function) {
            self.sources = Some((function.clone(), SourceFiles::new(&[])));
        }
        let sources = self.sources.as_ref().map(|(_, sources)| sources);
        let owners = self.code.source_owners();
        Ok(listed(request, &annotated, &|path| sources?.text(path, &owners)))
    }
}

fn listed(
    request: &CodeRequest,
    annotated: &AnnotatedFunction,
    sources: &export::SourceReader<'_>,
) -> Vec<ListingRow> {
    let listing = Listing {
        event: &request.event,
        unit: &request.unit,
        total: request.query.total,
        lost: request.lost,
        sources,
        full: false,
        colour: false,
    };
    let mut listed = Vec::new();
    let cut = rows(&listing, std::slice::from_ref(annotated), &mut |row| {
        listed.push(row);
        if listed.len() < MAX_ROWS { Ok(()) } else { Err(()) }
    });
    if cut.is_err() {
        let text = format!("… only {MAX_ROWS} rows are shown; try: prof annotate");
        listed.push(ListingRow { text, heat: Heat::None, address: None });
    }
    listed
}
