//! Sends messages in the background. One thread keeps what waits, so that a message is in its spool soon; another one hangs in requests.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, after, bounded, never, select};
use host::sys::poll::LOOK_INTERVAL;

use super::client::{Answer, Client};
use super::delay::Backoff;
use super::message::Message;
use super::store::Store;

/// Maximum number of messages on the way to the thread that keeps them. An interval of `prof watch` has a few.
const MAX_ON_THE_WAY: usize = 64;

/// The most attempts at a message that the engine may fail at (HTTP 500): with the waits between them 40 s at least, which is more than
/// engines take to restart, and little enough for what follows it.
const MAX_FAILURES: u32 = 7;

/// The totals of a pusher since it started.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PushTotals {
    /// Number of messages that the engine took, among them those that it took in part.
    pub sent: u64,
    /// Bytes of their bodies, compressed.
    pub sent_bytes: u64,
    /// Number of profiles in messages that the engine refused in part.
    pub rejected: u64,
    /// Number of messages that the engine refused.
    pub refused: u64,
    /// Number of messages that were dropped, because they could not be sent for so long that there was no more room for them.
    pub dropped: u64,
    /// Number of messages that wait.
    pub waiting: u64,
    /// Bytes of the messages that wait.
    pub waiting_bytes: u64,
}

/// Something that a person may want to know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PushEvent {
    /// The engine cannot be reached or is busy; the messages wait. Comes once until one is sent.
    Waiting(String),
    /// The engine takes messages again.
    Resumed,
    /// The engine refused a message, or a part of it, with this sentence. Comes once for each sentence in a row.
    Refused(String),
    /// The spool cannot be written, and messages are kept in memory. Comes once until it can.
    NotKept(String),
    /// Tokens and headers were read again, or could not be.
    Headers(Result<(), String>),
}

enum Order {
    Send(Message),
    ReadHeaders,
    /// Sends what waits until then, and ends.
    Finish(Instant),
}

/// Work for the thread that sends.
enum Job {
    Send(Message),
    ReadHeaders,
}

/// The totals of the thread that sends.
enum Done {
    /// Sent a message of this size, compressed.
    Sent(Answer, u64),
    Headers(Result<(), String>),
}

/// Two threads that keep and send messages.
#[derive(Debug)]
pub struct Pusher {
    orders: Sender<Order>,
    totals: Arc<Mutex<PushTotals>>,
    keeper: JoinHandle<()>,
}

impl Pusher {
    /// Starts the threads. They call `report` with what a person may want to know.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(
        client: Client,
        store: Store,
        report: impl FnMut(PushEvent) + Send + 'static,
    ) -> io::Result<Self> {
        let (orders, received) = bounded(MAX_ON_THE_WAY);
        let (jobs, work) = bounded(2);
        let (done, results) = bounded(2);
        let totals = Arc::<Mutex<PushTotals>>::default();
        let mut keeper = Keeper {
            store,
            jobs,
            results,
            report: Box::new(report),
            totals: Arc::clone(&totals),
            backoff: Backoff::default(),
            next_attempt: Instant::now(),
            sending: None,
            is_waiting: false,
            failures: 0,
            is_kept: true,
            last_refusal: String::new(),
        };
        keeper.update_totals();
        // It ends when the channel is closed. It is not waited for, because it may hang in a request.
        std::thread::Builder::new()
            .name("prof-push".to_owned())
            .spawn(move || run_jobs(client, &work, &done))?;
        let keeper =
            std::thread::Builder::new().name("prof-spool".to_owned()).spawn(move || keeper.run(&received))?;
        Ok(Self { orders, totals, keeper })
    }

    /// Hands a message over. Does not wait: if too many are on the way, the message is dropped and counted.
    pub fn send(&self, message: Message) {
        if self.orders.try_send(Order::Send(message)).is_err() {
            lock(&self.totals).dropped += 1;
        }
    }

    /// Has tokens and headers read again.
    pub fn read_headers_again(&self) {
        // It fails only if a disk does not answer.
        let _ = self.orders.try_send(Order::ReadHeaders);
    }

    /// Returns what has been done.
    pub fn totals(&self) -> PushTotals {
        *lock(&self.totals)
    }

    /// Sends what waits, until `until` at the latest, and returns the totals. What is not sent then stays in a spool folder, or is lost.
    pub fn finish(&self, until: Instant) -> PushTotals {
        // It fails only if a disk does not answer.
        let _ = self.orders.send_deadline(Order::Finish(until), until);
        while !self.keeper.is_finished() && Instant::now() < until {
            std::thread::sleep(LOOK_INTERVAL);
        }
        self.totals()
    }
}

fn run_jobs(mut client: Client, jobs: &Receiver<Job>, done: &Sender<Done>) {
    for job in jobs {
        let result = match job {
            Job::Send(message) => Done::Sent(client.send(&message), message.body.len() as u64),
            Job::ReadHeaders => Done::Headers(client.read_headers_again().map_err(|error| error.to_string())),
        };
        if done.send(result).is_err() {
            return;
        }
    }
}

struct Keeper {
    store: Store,
    jobs: Sender<Job>,
    results: Receiver<Done>,
    report: Box<dyn FnMut(PushEvent) + Send>,
    totals: Arc<Mutex<PushTotals>>,
    backoff: Backoff,
    next_attempt: Instant,
    /// The number of the message that is being sent.
    sending: Option<u64>,
    /// True since an attempt has failed.
    is_waiting: bool,
    /// How often the engine has failed at the oldest message.
    failures: u32,
    /// False since the spool could not be written.
    is_kept: bool,
    last_refusal: String,
}

impl Keeper {
    fn run(&mut self, orders: &Receiver<Order>) {
        let mut until = None;
        let results = self.results.clone();
        loop {
            if until.is_some() && self.store.is_empty() && self.sending.is_none() {
                return;
            }
            let attempt = match self.sending.is_some() || self.store.is_empty() {
                true => never(),
                false => after(self.next_attempt.saturating_duration_since(Instant::now())),
            };
            let end = until
                .map_or_else(never, |until: Instant| after(until.saturating_duration_since(Instant::now())));
            select! {
                recv(orders) -> order => match order {
                    Ok(Order::Finish(at)) => {
                        (until, self.next_attempt) = (Some(at), Instant::now());
                    }
                    Ok(order) => self.execute(order),
                    Err(_) => return,
                },
                recv(results) -> result => match result {
                    Ok(result) => self.judge(result),
                    Err(_) => return,
                },
                recv(attempt) -> _ => self.attempt(),
                recv(end) -> _ => return,
            }
            self.update_totals();
        }
    }

    fn execute(&mut self, order: Order) {
        match order {
            Order::Send(message) => {
                let pushed = self.store.push(message);
                if let (Err(error), true) = (&pushed, self.is_kept) {
                    (self.report)(PushEvent::NotKept(error.to_string()));
                }
                self.is_kept = pushed.is_ok();
            }
            // Another one waits already if there is no room.
            Order::ReadHeaders => drop(self.jobs.try_send(Job::ReadHeaders)),
            Order::Finish(_) => {}
        }
    }

    fn attempt(&mut self) {
        if let Some(message) = self.store.oldest() {
            let number = self.store.number_of_oldest();
            self.sending = self.jobs.try_send(Job::Send(message)).is_ok().then_some(number);
        }
    }

    fn judge(&mut self, done: Done) {
        match done {
            Done::Sent(answer, size) => {
                let number = self.sending.take();
                self.judge_answer(answer, size, number);
            }
            Done::Headers(read) => {
                // A new token may be what was missing.
                self.next_attempt = Instant::now();
                (self.report)(PushEvent::Headers(read));
            }
        }
    }

    fn judge_answer(&mut self, answer: Answer, size: u64, number: Option<u64>) {
        let mut totals = lock(&self.totals);
        let (is_taken, rejected, refusal) = match answer {
            Answer::Later { sentence, may_be_its_fault: true, .. } if self.failures + 1 >= MAX_FAILURES => {
                (false, 0, sentence)
            }
            Answer::Later { sentence, after, may_be_its_fault, .. } => {
                drop(totals);
                self.failures += u32::from(may_be_its_fault);
                self.next_attempt = Instant::now() + self.backoff.next(after);
                if !std::mem::replace(&mut self.is_waiting, true) {
                    (self.report)(PushEvent::Waiting(sentence));
                }
                return;
            }
            Answer::Refused { sentence } => (false, 0, sentence),
            Answer::Partial { rejected, sentence } => (true, rejected, sentence),
            Answer::Accepted => (true, 0, String::new()),
        };
        totals.rejected += rejected;
        if is_taken {
            totals.sent += 1;
            totals.sent_bytes += size;
        } else {
            totals.refused += 1;
        }
        drop(totals);
        // There may have been no room for it while it was on the way.
        if number == Some(self.store.number_of_oldest()) {
            self.store.remove_oldest();
        }
        (self.backoff, self.next_attempt, self.failures) = (Backoff::default(), Instant::now(), 0);
        if std::mem::take(&mut self.is_waiting) {
            (self.report)(PushEvent::Resumed);
        }
        if !refusal.is_empty() && refusal != self.last_refusal {
            (self.report)(PushEvent::Refused(refusal.clone()));
        }
        self.last_refusal = refusal;
    }

    fn update_totals(&mut self) {
        let mut totals = lock(&self.totals);
        totals.dropped += self.store.take_dropped();
        (totals.waiting, totals.waiting_bytes) = (self.store.len() as u64, self.store.bytes());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while it holds the lock; if it did, the numbers would still be consistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
