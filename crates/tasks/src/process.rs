//! Reads the goroutines of one process.

use elf::{Machine, Object, Section};
use model::{BLOCK_BYTES, Pid, ProcessMemory, Svma, TruncationReason};
use rustc_hash::FxHashMap;
use symbolizer::{GoFrame, GoLineTable};

use crate::call::{CALL_BYTES, Call};
use crate::layout::Layout;
use crate::memory_pages::{MAX_RUN_BYTES, MemoryPages, word_at};
use crate::program::GoProgram;
use crate::snapshot::{Choice, Counts, Snapshot, TaskStack};

/// A process that runs a Go program. Keeps what it has learnt of the program's code.
#[derive(Debug)]
pub struct GoProcess {
    program: GoProgram,
    /// The difference of addresses in the process and in the program's file.
    bias: u64,
    /// By return address (Svma); `None` where none can be.
    sites: FxHashMap<u64, Option<Site>>,
}

/// What is known of a return address.
#[derive(Clone, Copy, Debug)]
struct Site {
    /// The function that it is in (Svma).
    function: u64,
    /// The call before it.
    call: Option<Call>,
    role: Role,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    /// `runtime.goexit`, which every goroutine returns to: the end of the stack.
    End,
    /// `runtime.systemstack_switch`: the goroutine has not stopped, but runs on the stack of its thread.
    Running,
    /// A function of the runtime, or of the compiler's, which stack traces leave out.
    Hidden,
    /// A method that the compiler generated to call another. It may jump there instead.
    Wrapper,
    Shown,
}

/// A goroutine that waits.
struct Parked {
    address: u64,
    /// What must be the same in a second look.
    state: State,
    reason: u8,
    started: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct State {
    stack: (u64, u64),
    sp: u64,
    pc: u64,
    bp: u64,
    status: u32,
    goid: u64,
    waitsince: u64,
}

/// Why there is no stack.
enum Lapse {
    /// It is no chain of calls.
    Torn,
    /// The goroutine does not wait.
    Running,
}

/// Values of `atomicstatus` (Go's `src/runtime/runtime2.go`), and the bit that says that the garbage collector scans the stack.
const WAITING: u32 = 4;
const DEAD: u32 = 6;
const SCAN: u32 = 0x1000;

impl GoProcess {
    /// Knows a process in which a program's addresses are higher by `bias` than in its file.
    pub fn new(program: GoProgram, bias: u64) -> Self {
        Self { program, bias, sites: FxHashMap::default() }
    }

    /// Reads the goroutines that `choice` wants, with `object`, the file of the program. `None` where the list cannot be read.
    pub fn snapshot<D: AsRef<[u8]>>(
        &mut self,
        object: &Object<D>,
        memory: (&dyn ProcessMemory, Pid),
        choice: &Choice<'_>,
    ) -> Option<Snapshot> {
        let new_pages = || MemoryPages::new(memory.0, memory.1);
        let variable = |address: u64| new_pages().word(address.wrapping_add(self.bias));
        // In this order, the list has at least so many (`allgadd` in Go's `src/runtime/proc.go`).
        let (count, list) = (variable(self.program.count)?, variable(self.program.list)?);
        let mut snapshot = Snapshot::default();
        let most = count.min(choice.max_tasks);
        snapshot.counts.unread = count - most;
        // The fewer are read together, the fewer go on meanwhile; so many have their stacks read in one call, where these are neighbours.
        let batch = MAX_RUN_BYTES / BLOCK_BYTES;
        for from in (0..most).step_by(batch as usize) {
            let length = batch.min(most - from);
            if (choice.is_over)() {
                snapshot.counts.unread = snapshot.counts.unread.saturating_add(most - from);
                break;
            }
            let address = list.checked_add(from * 8)?;
            let pointers = new_pages().bytes(address, length as usize * 8)?;
            let (pointers, _) = pointers.as_chunks::<8>();
            let tasks = pointers.iter().map(|pointer| u64::from_le_bytes(*pointer));
            let tasks: Vec<u64> = tasks.filter(|&task| task != 0 && (choice.wants)(task)).collect();
            self.read(object, &new_pages, &tasks, choice, &mut snapshot);
        }
        Some(snapshot)
    }

    /// Reads some goroutines, all together.
    fn read<'m, D: AsRef<[u8]>>(
        &mut self,
        object: &Object<D>,
        new_pages: &dyn Fn() -> MemoryPages<'m>,
        tasks: &[u64],
        choice: &Choice<'_>,
        snapshot: &mut Snapshot,
    ) {
        let layout = self.program.layout;
        let mut first = new_pages();
        first.fetch(tasks.iter().map(|&task| (task, layout.size() as u64)));
        let mut parked = Vec::new();
        for &address in tasks {
            let Some(task) = Parked::read(&mut first, address, &layout) else {
                snapshot.counts.unread += 1;
                continue;
            };
            snapshot.counts.seen += u64::from(task.state.status & !SCAN != DEAD);
            if task.state.status & !SCAN == WAITING {
                parked.push(task);
            }
        }
        let mut stacks = new_pages();
        stacks.fetch(parked.iter().map(|task| {
            let rest = task.state.stack.1.saturating_sub(task.state.sp);
            (task.state.sp, rest.min(BLOCK_BYTES))
        }));
        let lines = std::cell::OnceCell::new();
        let mut site = |address: u64| {
            let code = || lines.get_or_init(|| GoLineTable::of_object(object)).as_ref();
            let address = address.wrapping_sub(self.bias);
            if self.sites.len() as u64 >= choice.max_tasks {
                self.sites.clear();
            }
            // To read the table takes longer than all else, and a torn stack has many words that are no code.
            let is_code = |section: &Section| section.is_executable() && section.covers(Svma(address));
            let find = || {
                object.sections().iter().any(is_code).then_some(())?;
                Site::find(code()?, object, self.program.machine, address)
            };
            *self.sites.entry(address).or_insert_with(find)
        };
        let found: Vec<_> = parked
            .iter()
            .map(|task| task.walk(&mut stacks, &mut site, self.bias, choice.max_frames))
            .collect();
        let mut again = new_pages();
        again.fetch(parked.iter().map(|task| (task.address, layout.size() as u64)));
        for (task, found) in parked.iter().zip(found) {
            let is_same =
                Parked::read(&mut again, task.address, &layout).is_some_and(|now| now.is_still(task));
            let Counts { parked, whole, torn, cut, .. } = &mut snapshot.counts;
            match found {
                Err(Lapse::Running) => continue,
                // It is the runtime's own.
                Ok(stack) if is_same && stack.frames.is_empty() && stack.cut.is_none() => continue,
                Ok(stack) if is_same => {
                    *(if stack.cut.is_some() { cut } else { whole }) += 1;
                    *snapshot.stacks.entry(stack).or_default() += 1;
                }
                _ => *torn += 1,
            }
            *parked += 1;
        }
    }

    /// Returns where goroutines were started whose `go` statement has this return address (Avma): `main.main (main.go:41)`. `None` for the
    /// main goroutine, and those of the runtime.
    pub fn started_in<D: AsRef<[u8]>>(&self, object: &Object<D>, address: u64) -> Option<String> {
        let lines = GoLineTable::of_object(object)?;
        // The function without inlined calls, as Go's own traces say.
        let frame = lines.find(address.wrapping_sub(self.bias).checked_sub(1)?).pop()?;
        let name = Some(String::from_utf8_lossy(frame.name)).filter(|name| is_shown(name))?;
        let place = frame.location.map(|location| {
            let file = location.file.to_string();
            format!(" ({}:{})", file.rsplit('/').next().unwrap_or_default(), location.line)
        });
        Some(format!("{name}{}", place.unwrap_or_default()))
    }

    /// Returns the words by which the process calls a reason to wait, in at most [`model::Name::MAX_BYTES`].
    pub fn reason<D: AsRef<[u8]>>(
        &self,
        object: &Object<D>,
        (memory, pid): (&dyn ProcessMemory, Pid),
        reason: u8,
    ) -> Option<String> {
        let entry = self.program.reasons?.checked_add(u64::from(reason) * 16)?;
        let (text, length) = MemoryPages::new(memory, pid).pair(entry.wrapping_add(self.bias))?;
        let length =
            usize::try_from(length).ok().filter(|length| (1..model::Name::MAX_BYTES).contains(length))?;
        // Text is constant, and may not be in memory.
        let bytes = object.bytes_at(Svma(text.wrapping_sub(self.bias)))?.get(..length)?;
        str::from_utf8(bytes).ok().map(str::to_owned)
    }
}

impl Parked {
    fn read(pages: &mut MemoryPages<'_>, address: u64, layout: &Layout) -> Option<Self> {
        let bytes = pages.bytes(address, layout.size())?;
        let word = |at: usize| word_at(&bytes, at);
        let state = State {
            stack: (word(Layout::STACK)?, word(Layout::STACK + 8)?),
            sp: word(layout.sp)?,
            pc: word(layout.pc)?,
            bp: word(layout.bp)?,
            status: word(layout.status)? as u32,
            goid: word(layout.goid)?,
            waitsince: word(layout.waitsince)?,
        };
        let reason = bytes.get(layout.waitreason).copied()?;
        Some(Self { address, state, reason, started: word(layout.gopc)? })
    }

    /// Returns true if nothing has changed since `before` but what the garbage collector changes.
    fn is_still(&self, before: &Self) -> bool {
        let bare = |state: State| State { status: state.status & !SCAN, waitsince: 0, ..state };
        // The collector notes since when a goroutine waits where nobody has.
        let is_since = [0, self.state.waitsince].contains(&before.state.waitsince);
        bare(self.state) == bare(before.state) && self.reason == before.reason && is_since
    }

    /// Follows the frame pointers of the goroutine.
    fn walk(
        &self,
        stacks: &mut MemoryPages<'_>,
        site: &mut dyn FnMut(u64) -> Option<Site>,
        bias: u64,
        max_frames: u16,
    ) -> Result<TaskStack, Lapse> {
        let State { stack, sp, pc, bp, .. } = self.state;
        let top = site(pc).ok_or(Lapse::Torn)?;
        if top.role == Role::Running {
            return Err(Lapse::Running);
        }
        let mut stack_of =
            TaskStack { started: self.started, reason: self.reason, frames: Vec::new(), cut: None };
        let (mut callee, mut low, mut frame) = (top, sp.max(stack.0), bp);
        for _ in 0..max_frames {
            // Frames are ever further out, so there is no circle.
            let is_in_stack =
                frame >= low && frame % 8 == 0 && frame.checked_add(16).is_some_and(|end| end <= stack.1);
            if !is_in_stack {
                stack_of.cut = Some(TruncationReason::RuleFailed);
                return Ok(stack_of);
            }
            let Some((next, address)) = stacks.pair(frame) else {
                stack_of.cut = Some(TruncationReason::PageNotInMemory);
                return Ok(stack_of);
            };
            let caller = site(address).ok_or(Lapse::Torn)?;
            if caller.role == Role::End {
                return Ok(stack_of);
            }
            match caller.call {
                Some(Call::Direct(target)) if target == callee.function => {}
                // A wrapper may have jumped to the method.
                Some(Call::Direct(target)) if is_wrapper(site, target, bias) => {}
                Some(Call::Indirect) => {}
                _ => return Err(Lapse::Torn),
            }
            if caller.role == Role::Shown {
                stack_of.frames.push(address);
            }
            (callee, low, frame) = (caller, frame.saturating_add(16), next);
        }
        stack_of.cut = Some(TruncationReason::AddressLimit(max_frames));
        Ok(stack_of)
    }
}

/// Returns true if the function that begins at an address (Svma) is a wrapper.
fn is_wrapper(site: &mut dyn FnMut(u64) -> Option<Site>, function: u64, bias: u64) -> bool {
    let first = function.wrapping_add(bias).wrapping_add(1);
    site(first).is_some_and(|site| site.role == Role::Wrapper && site.function == function)
}

impl Site {
    /// Looks up a return address (Svma).
    fn find<D: AsRef<[u8]>>(
        lines: &GoLineTable<'_>,
        object: &Object<D>,
        machine: Machine,
        address: u64,
    ) -> Option<Self> {
        let inside = address.checked_sub(1)?;
        let function = lines.function_start(inside)?;
        let frames = lines.find(inside);
        let last = frames.last()?;
        let role = match last.name {
            b"runtime.goexit" => Role::End,
            b"runtime.systemstack_switch" => Role::Running,
            _ if frames.iter().any(is_frame_shown) => Role::Shown,
            _ if last.is_wrapper => Role::Wrapper,
            _ => Role::Hidden,
        };
        let before = object.bytes_at(Svma(address.checked_sub(CALL_BYTES)?));
        let before = before.and_then(|bytes| bytes.get(..CALL_BYTES as usize));
        let call = before.and_then(|before| Call::before(machine, before, address));
        Some(Self { function, call, role })
    }
}

fn is_frame_shown(frame: &GoFrame<'_>) -> bool {
    !frame.is_wrapper && is_shown(&String::from_utf8_lossy(frame.name))
}

/// Returns true if Go's own stack traces show a function (`showfuncinfo` in Go's `src/runtime/traceback.go`): all but those of the runtime
/// that programs cannot name.
fn is_shown(name: &str) -> bool {
    let is_upper = |part: &str| part.starts_with(|first: char| first.is_ascii_uppercase());
    match name.strip_prefix("runtime.") {
        Some(own) => own.rsplit_once('.').map_or(is_upper(own), |(receiver, method)| {
            is_upper(method) && is_upper(receiver.trim_start_matches("(*"))
        }),
        None => name.contains('.'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Avma;

    /// Words of a stack from this address on; nothing else can be read.
    struct Stack(u64, Vec<u64>);

    impl ProcessMemory for Stack {
        fn read(&self, _: Pid, address: Avma, into: &mut [u8]) -> usize {
            let bytes: Vec<u8> = self.1.iter().flat_map(|word| word.to_le_bytes()).collect();
            let Some(found) = address.0.checked_sub(self.0).and_then(|at| bytes.get(at as usize..)) else {
                return 0;
            };
            let length = found.len().min(into.len());
            into[..length].copy_from_slice(&found[..length]);
            length
        }
    }

    const BASE: u64 = 0x10_0000;

    /// The function at 0x100 calls that at 0x200, directly; 0x300 is a wrapper, 0x400 the end; 0x500 is no call; all else no code.
    fn site(address: u64) -> Option<Site> {
        let (call, role) = match address {
            0x110 => (Some(Call::Direct(0x200)), Role::Shown),
            0x120 => (Some(Call::Indirect), Role::Shown),
            0x130 => (Some(Call::Direct(0x300)), Role::Shown),
            0x210 => (Some(Call::Indirect), Role::Hidden),
            0x301 => (None, Role::Wrapper),
            0x401 => (None, Role::End),
            0x510 => (None, Role::Shown),
            0x601 => (None, Role::Running),
            _ => return None,
        };
        Some(Site { function: address & !0xff, call, role })
    }

    fn walk(pc: u64, words: &[u64], bp: u64, max_frames: u16) -> Result<TaskStack, &'static str> {
        let memory = Stack(BASE, words.to_vec());
        let stack = (BASE, BASE + words.len() as u64 * 8);
        let state = State { stack, sp: BASE, pc, bp, status: WAITING, goid: 1, waitsince: 0 };
        let task = Parked { address: 0, state, reason: 1, started: 0 };
        let mut pages = MemoryPages::new(&memory, Pid(1));
        task.walk(&mut pages, &mut site, 0, max_frames).map_err(|lapse| match lapse {
            Lapse::Torn => "torn",
            Lapse::Running => "running",
        })
    }

    #[test]
    fn frame_pointers_lead_to_the_end_of_a_stack() {
        let frames =
            |words: &[u64], most| walk(0x210, words, BASE, most).map(|stack| (stack.frames, stack.cut));
        assert_eq!(frames(&[BASE + 16, 0x110, 0, 0x401], 9), Ok((vec![0x110], None)));
        assert_eq!(frames(&[BASE + 16, 0x130, 0, 0x401], 9), Ok((vec![0x130], None)), "a wrapper has jumped");
        let limit = Some(TruncationReason::AddressLimit(1));
        assert_eq!(frames(&[BASE + 16, 0x110, 0, 0x401], 1), Ok((vec![0x110], limit)));
        let cut = Some(TruncationReason::RuleFailed);
        assert_eq!(frames(&[BASE, 0x120, 0, 0x401], 9), Ok((vec![0x120], cut)), "a circle");
        assert_eq!(frames(&[u64::MAX, 0x120, 0, 0], 9), Ok((vec![0x120], cut)));
        assert_eq!(frames(&[BASE + 17, 0x120, 0, 0], 9), Ok((vec![0x120], cut)));
    }

    #[test]
    fn what_is_no_chain_of_calls_is_torn() {
        // The function at 0x500 calls nothing; what has called 0x200 does not call 0x100; data are no code.
        for words in [[BASE + 16, 0x510, 0, 0x401], [BASE + 16, 0x120, 0, 0x110], [0, 0x777, 0, 0]] {
            assert_eq!(walk(0x210, &words, BASE, 9).map(|_| ()), Err("torn"), "{words:x?}");
        }
        assert_eq!(walk(0x777, &[0, 0x401], BASE, 9).map(|_| ()), Err("torn"));
        assert_eq!(walk(0x601, &[0, 0x401], BASE, 9).map(|_| ()), Err("running"));
    }

    #[test]
    fn functions_are_shown_as_go_shows_them() {
        for name in ["main.main", "runtime.Gosched", "runtime.(*Frames).Next", "internal/sync.(*Mutex).Lock"]
        {
            assert!(is_shown(name), "{name}");
        }
        for name in ["runtime.gopark", "runtime.(*mheap).alloc", "runtime.(*mheap).Alloc", "_start"] {
            assert!(!is_shown(name), "{name}");
        }
    }

    #[test]
    fn pages_that_cannot_be_read_are_left_out() {
        let words = vec![7; 3 * BLOCK_BYTES as usize / 8];
        let memory = Stack(BASE, words);
        let mut pages = MemoryPages::new(&memory, Pid(1));
        pages.fetch([(BASE - BLOCK_BYTES, 9 * BLOCK_BYTES), (u64::MAX - 9, 100)].into_iter());
        assert_eq!(pages.word(BASE + BLOCK_BYTES - 4), Some(7 << 32), "across two blocks");
        assert_eq!(pages.pair(BASE + 2 * BLOCK_BYTES - 8), Some((7, 7)));
        assert_eq!((pages.word(BASE - 4), pages.word(BASE + 3 * BLOCK_BYTES)), (None, None));
        assert_eq!((pages.word(u64::MAX - 4), pages.pair(u64::MAX)), (None, None));
    }
}
