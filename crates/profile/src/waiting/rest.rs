//! Where threads rest that have nothing to do: event loops, workers of a pool, and the own threads of runtimes.

use model::{Blocked, ThreadState};

use crate::{FrameId, Label, ViewFrame};

/// The beginnings of functions that wait for work and for nothing else: no request waits for what comes back from them.
const FUNCTIONS: [&str; 34] = [
    // Go: its monitor, threads without a goroutine, the collector's workers
    "runtime.sysmon",
    "runtime.stopm",
    "runtime.findRunnable",
    "runtime.findrunnable",
    "runtime.templateThread",
    "runtime.gcBgMarkWorker",
    "runtime.bgsweep",
    "runtime.bgscavenge",
    "runtime.sigNoteSleep",
    "os/signal.loop",
    // tokio, rayon, std's own
    "tokio::runtime::park::",
    "tokio::runtime::scheduler::multi_thread::park::",
    "tokio::runtime::scheduler::multi_thread::worker::Context::park",
    "tokio::runtime::blocking::pool::Inner::run",
    "rayon_core::sleep::Sleep::sleep",
    // node and libuv
    "uv__io_poll",
    "node::PlatformWorkerThread",
    "node::(anonymous namespace)::PlatformWorkerThread",
    "node::WorkerThreadsTaskRunner",
    "node::inspector::(anonymous namespace)::StartIoThreadMain",
    // HotSpot, where its symbols are there
    "WorkerThread::run",
    "WorkerThreads::",
    "GangWorker::loop",
    "AbstractGangWorker::",
    "CompileQueue::get",
    "VMThread::wait_for_vm_operation",
    "VMThread::loop",
    "WatcherThread::sleep",
    "ConcurrentGCThread::",
    "G1ServiceThread::",
    "os::signal_wait",
    "JavaThread::wait_for_object_deoptimization",
    // Python
    "_worker",
    "EventLoop.select",
];

/// Threads that HotSpot starts for itself, by the beginnings of the names that it gives them.
const THREADS_OF_HOTSPOT: [&str; 15] = [
    "C1 CompilerThre",
    "C2 CompilerThre",
    "Common-Cleaner",
    "Finalizer",
    "G1 ",
    "GC Thread#",
    "Monitor Deflati",
    "Notification Th",
    "Reference Handl",
    "Service Thread",
    "Shenandoah",
    "Signal Dispatch",
    "Sweeper thread",
    "VM Periodic Tas",
    "VM Thread",
];

/// Which frames are such places.
pub(super) struct Rests(Vec<bool>);

impl Rests {
    pub(super) fn new(frames: &[ViewFrame]) -> Self {
        Self(frames.iter().map(|frame| is_rest(&frame.label)).collect())
    }

    /// Returns true if a frame of the stack is one.
    pub(super) fn contain(&self, stack: &[FrameId]) -> bool {
        stack.iter().any(|frame| self.0.get(frame.index()).copied().unwrap_or(false))
    }
}

/// Returns true for the name of a thread that a Java virtual machine started for itself.
pub(super) fn is_thread_of_runtime(name: &str) -> bool {
    THREADS_OF_HOTSPOT.iter().any(|start| name.starts_with(start))
}

fn is_rest(label: &Label) -> bool {
    match label {
        Label::Function(name, _) => FUNCTIONS.iter().any(|start| match *start {
            // A whole name: programs have functions that begin like it.
            "_worker" => **name == **start,
            start => name.starts_with(start),
        }),
        Label::State(ThreadState::Blocked(Blocked::Events(_))) => true,
        Label::State(ThreadState::Blocked(Blocked::For(what))) => what.starts_with("accept"),
        _ => false,
    }
}
