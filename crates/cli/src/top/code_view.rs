//! The code of a function on the screen. A thread of its own reads and annotates it.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use export::annotate::{AnnotatedFunction, Heat, Listing, ListingRow, rows};
use host::timed_worker::{Outcome, TimedWorker};
use live::function_code::{CodeQuery, LiveCode};
use live::snapshot::Function;

use crate::source_files::SourceFiles;

/// The longest time to wait for files of a function, as file systems may not answer.
const PATIENCE: Duration = Duration::from_secs(20);
/// Maximum number of rows of a listing. All of them are made again for each snapshot.
const MAX_ROWS: usize = 20_000;
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
    pub(crate) is_asked: bool,
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
    pub(crate) query: CodeQuery,
    pub(crate) event: String,
    pub(crate) unit: String,
    pub(crate) lost: u64,
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
    pub(crate) fn next_hot(&mut self, page: usize) {
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
