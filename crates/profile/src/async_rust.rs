//! Folds the frames of async Rust code, so that its stacks read like the source.
//!
//! An `async fn` compiles to a function that makes a future, and a closure with the body. The closures of its callers poll
//! that closure, through the `Future::poll` of every wrapper between them. Their own callers are frames of the runtime: the
//! start of its thread, its scheduler, guards against panics. Folding gives the closure the name of the function, and leaves
//! out the frames that only poll or only lead to a poll. Frames in which the runtime does work of its own (timers, sockets)
//! stay.

/// The treatment of a frame when async frames are folded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Fold {
    /// The frame stays.
    Keep,
    /// The frame merges with its caller if both have the same name.
    Merge,
    /// The frame is left out, except as the innermost frame of a stack.
    Pass,
}

/// Returns the name to show for a frame, and the treatment of the frame.
pub(crate) fn fold(name: &str) -> (&str, Fold) {
    let function = without_closures(name);
    if only_polls(function) {
        (function, Fold::Pass)
    } else if function.len() < name.len() {
        (function, Fold::Merge)
    } else {
        (name, Fold::Keep)
    }
}

/// Removes the names of closures at the end, as the legacy and the v0 mangling write them: returns `server::handle` for
/// `server::handle::{{closure}}` and for `server::handle::{closure#0}::{closure#1}`.
fn without_closures(name: &str) -> &str {
    let mut function = name;
    while let Some((outer, last)) = function.rsplit_once("::") {
        let is_closure = last == "{{closure}}"
            || (last.starts_with("{closure#") || last.starts_with("{async_")) && last.ends_with('}');
        if !is_closure || outer.is_empty() {
            break;
        }
        function = outer;
    }
    function
}

/// Modules whose functions schedule and poll tasks, and do nothing else that takes time.
const RUNTIMES: [&str; 13] = [
    "tokio::runtime::blocking::",
    "tokio::runtime::context::",
    "tokio::runtime::coop::",
    "tokio::runtime::runtime::",
    "tokio::runtime::scheduler::",
    "tokio::runtime::task::",
    "tokio::loom::",
    "tokio::task::coop::",
    "tokio::task::local::",
    "async_executor::",
    "async_task::",
    "futures_executor::",
    "futures_util::",
];

/// Functions of the standard library that appear between those frames: starts of threads, guards against panics, thread-local
/// variables.
const STD_WRAPPERS: [&str; 9] = [
    "core::panic::unwind_safe::AssertUnwindSafe<",
    "std::panic::catch_unwind",
    "std::panicking::catch_unwind",
    "std::panicking::try",
    "std::sys::backtrace::__rust_begin_short_backtrace",
    "std::sys_common::backtrace::__rust_begin_short_backtrace",
    "std::thread::Builder::spawn_unchecked",
    "std::thread::lifecycle::spawn_unchecked",
    "std::thread::local::LocalKey<",
];

/// Returns true if a function does nothing but poll a future, or call a function that does.
fn only_polls(function: &str) -> bool {
    let polls = without_arguments(function).rsplit_once("::").is_some_and(|(of, method)| match method {
        "poll" => of.ends_with("::Future>"),
        "poll_unpin" | "try_poll" => of.contains("futures_"),
        _ => false,
    });
    polls || leads_on(function)
}

/// Returns true if a function of a runtime or of the standard library does nothing but call what a thread or a task was started with.
pub(crate) fn leads_on(function: &str) -> bool {
    let path = function.trim_start_matches('<');
    if RUNTIMES.iter().chain(&STD_WRAPPERS).any(|module| path.starts_with(module)) {
        return true;
    }
    let Some((of, method)) = without_arguments(function).rsplit_once("::") else { return false };
    match method {
        // A call through a pointer to a function or a closure.
        "call_once" | "call_mut" | "call" | "call_once{{vtable.shim}}" => {
            let of = of.rsplit_once(" as ").map_or(of, |(_, of)| of);
            of.starts_with("core::ops::function::Fn")
        }
        "thread_start" => path.starts_with("std::sys::"),
        _ => false,
    }
}

/// Removes the generic arguments (`::<…>`) at the end of a function's name.
fn without_arguments(function: &str) -> &str {
    if !function.ends_with('>') {
        return function;
    }
    let mut depth = 0_usize;
    for (at, byte) in function.bytes().enumerate().rev() {
        match byte {
            // The `>` of an arrow (`->`) in a function type is not a bracket.
            b'>' if at.checked_sub(1).and_then(|before| function.as_bytes().get(before)) != Some(&b'-') => {
                depth += 1
            }
            b'<' => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 {
            return function.get(..at).and_then(|front| front.strip_suffix("::")).unwrap_or(function);
        }
    }
    function
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_of_async_functions_have_their_names() {
        assert_eq!(fold("server::handle::{{closure}}"), ("server::handle", Fold::Merge));
        assert_eq!(fold("server::handle::{{closure}}::{{closure}}"), ("server::handle", Fold::Merge));
        assert_eq!(fold("server::handle::{closure#0}"), ("server::handle", Fold::Merge));
        assert_eq!(fold("<T as server::Handler>::handle::<u8>::{closure#12}").1, Fold::Merge);
        assert_eq!(fold("server::handle"), ("server::handle", Fold::Keep));
        assert_eq!(fold("{{closure}}"), ("{{closure}}", Fold::Keep));
        assert_eq!(fold("::{{closure}}"), ("::{{closure}}", Fold::Keep));
    }

    #[test]
    fn what_only_polls_is_known_by_its_trait_or_its_runtime() {
        for polls in [
            "<core::pin::Pin<P> as core::future::future::Future>::poll",
            "<core::pin::Pin<&mut server::main::{closure#0}> as core::future::future::Future>::poll",
            "<tokio::future::poll_fn::PollFn<F> as core::future::future::Future>::poll::{{closure}}",
            "tokio::runtime::task::harness::Harness<T,S>::poll",
            "<tokio::runtime::task::core::Core<fn() -> u8, S>>::poll::<u8>",
            "futures_util::future::future::FutureExt::poll_unpin",
            "<F as futures_core::future::TryFuture>::try_poll",
            "tokio::runtime::scheduler::multi_thread::worker::Context::run_task::{{closure}}",
            "tokio::loom::std::unsafe_cell::UnsafeCell<T>::with_mut",
            "<core::panic::unwind_safe::AssertUnwindSafe<F> as core::ops::function::FnOnce<()>>::call_once",
            "<alloc::boxed::Box<dyn core::ops::function::FnOnce<(), Output = ()> + core::marker::Send> as \
             core::ops::function::FnOnce<()>>::call_once",
            "core::ops::function::FnOnce::call_once{{vtable.shim}}",
            "<std::sys::thread::unix::Thread>::new::thread_start",
            "std::panicking::catch_unwind::do_call",
        ] {
            assert_eq!(fold(polls).1, Fold::Pass, "{polls}");
        }
        for works in [
            "poll",
            "mio::poll::Poll::poll",
            "server::poll",
            "<A as Stream>::poll_next",
            "a<b>",
            ">",
            "-><",
            "tokio::runtime::time::Driver::process_at_time",
            "tokio::runtime::io::driver::Driver::turn",
            "<F as axum::handler::Handler<((),),S>>::call",
            "server::Fn::call",
        ] {
            assert_ne!(fold(works).1, Fold::Pass, "{works}");
        }
    }
}
