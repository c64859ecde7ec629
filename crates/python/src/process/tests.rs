use std::cell::RefCell;
use std::collections::BTreeMap;

use model::Avma;
use proptest::prelude::*;

use super::*;
use crate::Location;
use crate::layout::{EntryMark, Layout};
use crate::looks::MAX_LOOKED_FRAMES;

const RUNTIME: u64 = 0x60_0000;
const CODE_TYPE: u64 = 0x1000_0000;
const TEXT_TYPE: u64 = 0x1000_1000;
const PID: Pid = Pid(7);
const TID: Tid = Tid(8);
/// The registers and slots in which compilers keep the pointer to bytecode, and the frame.
const POINTER: u8 = 15;
const FRAME: u8 = 3;

/// The memory of an interpreter of 3.11.
#[derive(Default)]
struct Memory {
    pages: RefCell<BTreeMap<u64, [u8; 4096]>>,
    reads: RefCell<usize>,
    /// The numbers of threads in a namespace; there is none without.
    own_numbers: BTreeMap<Tid, Tid>,
}

impl ProcessMemory for Memory {
    fn read(&self, pid: Pid, address: Avma, into: &mut [u8]) -> usize {
        *self.reads.borrow_mut() += 1;
        assert_eq!((pid, address.0 % 4096, into.len()), (PID, 0, 4096));
        let pages = self.pages.borrow();
        let Some(page) = pages.get(&address.0) else { return 0 };
        into.copy_from_slice(page);
        page.len()
    }

    fn own_number(&self, tid: Tid) -> Option<Tid> {
        if self.own_numbers.is_empty() { Some(tid) } else { self.own_numbers.get(&tid).copied() }
    }
}

impl Memory {
    fn put(&self, address: u64, bytes: &[u8]) {
        let mut pages = self.pages.borrow_mut();
        for (address, byte) in (address..).zip(bytes) {
            pages.entry(address & !4095).or_insert([0; 4096])[(address & 4095) as usize] = *byte;
        }
    }

    fn word(&self, address: u64, word: u64) {
        self.put(address, &word.to_le_bytes());
    }

    fn types() -> Self {
        let memory = Self::default();
        for (kind, name) in [(CODE_TYPE, &b"code\0"[..]), (TEXT_TYPE, b"str\0")] {
            memory.word(kind + 24, kind + 512);
            memory.put(kind + 512, name);
        }
        memory
    }

    fn text(&self, at: u64, text: &str) -> u64 {
        self.word(at + 8, TEXT_TYPE);
        self.word(at + 16, text.chars().count() as u64);
        let (kind, data): (u32, Vec<u8>) = match text.is_ascii() {
            true => (1 << 6 | 1 << 5 | 1 << 2, text.bytes().collect()),
            false => (1 << 5 | 4 << 2, text.chars().flat_map(|c| (c as u32).to_le_bytes()).collect()),
        };
        self.put(at + 32, &kind.to_le_bytes());
        self.put(at + if text.is_ascii() { 48 } else { 72 }, &data);
        at
    }

    /// Puts a code object of 100 units of bytecode at `at`, each of its lines with 8 units. Returns the address of its bytecode.
    fn code(&self, at: u64, name: &str, first_line: u32) -> u64 {
        self.word(at + 8, CODE_TYPE);
        self.word(at + 16, 100);
        self.put(at + 72, &first_line.to_le_bytes());
        // A frame has 32 words, 9 of them in front of its variables and its stack.
        self.put(at + 68, &3_u32.to_le_bytes());
        self.put(at + 76, &20_u32.to_le_bytes());
        self.word(at + 112, self.text(at + 0x400, "/app/ä.py"));
        self.word(at + 128, self.text(at + 0x600, name));
        self.word(at + 136, at + 0x800);
        let table: Vec<u8> =
            (0..13).flat_map(|entry| [0x80 | 13 << 3 | 7, if entry == 0 { 0 } else { 2 }]).collect();
        self.word(at + 0x800 + 16, table.len() as u64);
        self.put(at + 0x800 + 32, &table);
        at + 184
    }

    fn frame(&self, at: u64, code: u64, previous: u64, is_entry: bool) {
        self.word(at + 32, code);
        self.word(at + 48, previous);
        self.word(at + 56, code + 184 + 16);
        self.put(at + 68, &[is_entry.into(), 0]);
    }
}

fn process() -> PythonProcess {
    process_with(Layout::of_version(0x030b_07f0, &[]).unwrap())
}

fn process_with(layout: Layout) -> PythonProcess {
    let interpreter = Interpreter {
        layout,
        runtime: Svma(RUNTIME - 0x1000),
        code_type: Svma(CODE_TYPE - 0x1000),
        text_type: Svma(TEXT_TYPE - 0x1000),
        has_tail_calls: false,
        eval: Vec::new(),
        glue: Vec::new(),
    };
    PythonProcess::new(Arc::new(interpreter), 0x1000)
}

fn activation(pointer: u64, frame: u64) -> Activation {
    activation_at(None, &[(POINTER, pointer), (FRAME, frame)])
}

fn activation_at(site: Option<u64>, places: &[(u8, u64)]) -> Activation {
    let candidate = |&(place, word): &(u8, u64)| Candidate::new(Some(Location::from_number(place)), word);
    Activation { site: site.map(Avma), end: None, candidates: places.iter().filter_map(candidate).collect() }
}

const MAIN: u64 = 0x20_0000;
const WORK: u64 = 0x21_0000;
const KEY: u64 = 0x22_0000;
const FRAMES: u64 = 0x30_0000;

/// `main` calls `work`, which calls a C function that calls `key`.
fn three_functions() -> Memory {
    let memory = Memory::types();
    for (at, name, line) in [(MAIN, "main", 10), (WORK, "C.work", 30), (KEY, "key", 50)] {
        memory.code(at, name, line);
    }
    memory.frame(FRAMES, MAIN, 0, true);
    memory.frame(FRAMES + 0x100, WORK, FRAMES, false);
    memory.frame(FRAMES + 0x200, KEY, FRAMES + 0x100, true);
    memory
}

fn names(runs: Option<Vec<Run>>) -> Vec<String> {
    let run = |run: Run| {
        let shown = |frame: &PythonFrame| format!("{}:{}", frame.function.name, frame.line);
        let joined = |frames: &[PythonFrame]| frames.iter().map(shown).collect::<Vec<_>>().join(" ");
        let end = if run.is_complete { "" } else { "…" };
        joined(&run.frames) + end + &joined(&run.lasting)
    };
    runs.unwrap().into_iter().map(run).collect()
}

/// `key` behind its 17th unit, in `work` behind the first.
fn key_in_work() -> [Activation; 2] {
    [activation(KEY + 184 + 36, FRAMES + 0x200), activation(WORK + 184 + 2, FRAMES + 0x100)]
}

#[test]
fn runs_have_their_functions_and_lines() {
    let memory = three_functions();
    let runs = process().runs(&memory, (PID, TID), Timestamp(1), &key_in_work());
    assert_eq!(runs.as_ref().unwrap()[0].frames[0].function.file, "/app/ä.py");
    assert_eq!(names(runs), ["key:52", "C.work:30 main:11"]);
}

#[test]
fn functions_that_have_gone_on_have_the_callers_that_they_had() {
    let (memory, mut process) = (three_functions(), process());
    (0..200).for_each(|time| {
        process.runs(&memory, (PID, TID), Timestamp(time), &key_in_work());
    });
    memory.threads(FRAMES + 0x200);
    look_at(&mut process, &memory, TID, 250);
    // Another function runs where `key` ran, and called from elsewhere.
    memory.frame(FRAMES + 0x200, MAIN, 0, true);
    let again = process.runs(&memory, (PID, TID), Timestamp(300), &key_in_work());
    assert_eq!(names(again), ["key:52", "C.work:30 main:11"]);
    // Another thread runs what this one ran, as long as all agree.
    let other = process.runs(&memory, (PID, Tid(9)), Timestamp(301), &key_in_work());
    assert_eq!(names(other), ["key:52", "C.work:30 main:11"]);
    let nowhere = process.runs(&memory, (PID, TID), Timestamp(302), &[activation(0x7000_0000, 0x7000_0000)]);
    assert_eq!(names(nowhere), ["…"]);
}

#[test]
fn the_interpreters_own_code_is_no_function() {
    let memory = three_functions();
    // `main` makes an object, whose `__init__` is `work`.
    let own = 0x23_0000;
    memory.code(own, "__init__", 0);
    memory.word(own + 112, memory.text(own + 0x700, "__init__"));
    memory.frame(FRAMES + 0x100, own, FRAMES, false);
    memory.frame(FRAMES + 0x200, WORK, FRAMES + 0x100, false);
    let work = [activation(WORK + 184 + 2, FRAMES + 0x200)];
    assert_eq!(names(process().runs(&memory, (PID, TID), Timestamp(1), &work)), ["C.work:30 main:11"]);
}

#[test]
fn a_frame_in_place_of_the_callers_is_not_the_caller() {
    let (memory, mut process) = (three_functions(), process());
    let work = [activation(WORK + 184 + 2, FRAMES + 0x100)];
    // `work` and `main` have returned, and a function of larger frames runs where `main` ran.
    let other = memory.code(0x23_0000, "other", 90) - 184;
    memory.put(other + 76, &21_u32.to_le_bytes());
    memory.frame(FRAMES, other, 0, true);
    assert_eq!(names(process.runs(&memory, (PID, TID), Timestamp(1), &work)), ["C.work:30…"]);
    memory.threads(FRAMES + 0x100);
    let known = |process: &mut PythonProcess, time| {
        look_at(process, &memory, TID, time);
        names(process.runs(&memory, (PID, TID), Timestamp(time), &work))
    };
    memory.frame(FRAMES, MAIN, 0, true);
    assert_eq!(known(&mut process, 2), ["C.work:30 main:11"]);
    // The generator `other` has its frame elsewhere, and calls from any place of the stack.
    memory.frame(FRAMES, other, 0, true);
    memory.put(FRAMES + 69, &[1]);
    assert_eq!(known(&mut process, 3), ["C.work:30 other:91"]);
}

/// 3.14 has tags in its references. Without a global lock, threads run copies of the bytecode.
#[test]
fn copies_of_bytecode_are_known_by_the_code_objects_of_frames() {
    const COPIES: u64 = 0x24_0000;
    let memory = three_functions();
    let mut layout = Layout::of_version(0x030b_07f0, &[]).unwrap();
    layout.code.thread_bytecode = Some(176);
    for (object, entries) in [(MAIN, COPIES), (WORK, COPIES + 0x100)] {
        memory.word(object + 176, entries);
        memory.word(entries, 3);
        memory.word(entries + 8, object + 184);
        memory.word(entries + 24, entries + 0x1000);
    }
    memory.frame(FRAMES, MAIN, 0, true);
    memory.frame(FRAMES + 0x100, WORK, FRAMES, false);
    memory.word(FRAMES + 32, MAIN | 1);
    memory.word(FRAMES + 0x100 + 32, WORK | 1);
    memory.word(FRAMES + 56, COPIES + 0x1000 + 36);
    let (mut process, in_copy) = (process_with(layout), COPIES + 0x1100 + 2);
    let runs = |process: &mut PythonProcess, pointer, time| {
        let run = [activation(pointer, FRAMES + 0x100)];
        names(process.runs(&memory, (PID, TID), Timestamp(time), &run))
    };
    assert_eq!(runs(&mut process, in_copy, 1), ["C.work:30 main:12"]);
    assert_eq!(runs(&mut process, WORK + 184 + 36, 2), ["C.work:32 main:12"], "the first thread");
    // The thread has ended.
    memory.word(COPIES + 0x100 + 24, 0);
    assert_eq!(runs(&mut process, in_copy, 2 + TRUSTED_NANOSECONDS), ["…"]);
    memory.word(COPIES + 0x100, u64::MAX);
    assert_eq!(runs(&mut process, WORK + 184 + 36, 3 * TRUSTED_NANOSECONDS), ["C.work:32 main:12"]);
}

#[test]
fn another_function_at_the_same_address_is_told_apart() {
    let (memory, mut process) = (three_functions(), process());
    process.runs(&memory, (PID, TID), Timestamp(1), &key_in_work());
    memory.code(KEY, "later", 70);
    memory.word(KEY + 128, memory.text(KEY + 0x700, "later"));
    let later = process.runs(&memory, (PID, TID), Timestamp(1 + TRUSTED_NANOSECONDS), &key_in_work());
    assert_eq!(names(later)[0], "later:72");
    // It can no longer be read, so that nobody knows better.
    memory.pages.borrow_mut().clear();
    let ended = process.runs(&memory, (PID, TID), Timestamp(2 + 2 * TRUSTED_NANOSECONDS), &key_in_work());
    assert_eq!(names(ended)[0], "later:72…");
}

#[test]
fn what_only_looks_like_python_is_not_believed() {
    let runs = |memory: &Memory, time| process().runs(memory, (PID, TID), Timestamp(time), &key_in_work());
    assert_eq!(runs(&Memory::default(), 1), None, "it cannot be read");
    let memory = three_functions();
    memory.put(CODE_TYPE + 512, b"kode");
    assert_eq!(runs(&memory, 1), None);
    let memory = three_functions();
    memory.word(KEY + 16, 1 << 60);
    memory.word(WORK + 128, 8);
    memory.word(MAIN + 136, u64::MAX - 8);
    assert_eq!(names(runs(&memory, 1)), ["…", "…"]);
}

#[test]
fn cycles_and_deep_stacks_end() {
    let memory = three_functions();
    memory.frame(FRAMES, MAIN, FRAMES + 0x100, false);
    let runs = process().runs(&memory, (PID, TID), Timestamp(1), &key_in_work()).unwrap();
    assert!(!runs[1].is_complete && runs[1].frames.len() <= MAX_LOOKED_FRAMES + 1);
    let memory = three_functions();
    (0..100_000).for_each(|depth| {
        memory.frame(0x4000_0000 + depth * 4096, MAIN, 0x4000_0000 + (depth + 1) * 4096, false);
    });
    *memory.reads.borrow_mut() = 0;
    let deep = [activation(MAIN + 184 + 2, 0x4000_0000)];
    assert_eq!(process().runs(&memory, (PID, TID), Timestamp(1), &deep).unwrap().len(), 1);
    assert!(*memory.reads.borrow() <= 96, "{}", memory.reads.borrow());
}

#[test]
fn functions_without_end_take_bounded_memory() {
    let (memory, mut process) = (Memory::types(), process());
    for number in 0..1000 {
        memory.code(MAIN, &"long".repeat(200), 1);
        // Many lines: the table is of the largest size that is read.
        memory.word(MAIN + 0x800 + 16, 3000);
        memory.put(MAIN + 0x800 + 32, &[0x80 | 13 << 3, 2].repeat(1500));
        let at = 0x50_0000 + number * 0x2000;
        memory.pages.borrow_mut().retain(|page, _| !(0x50_0000..CODE_TYPE).contains(page));
        let pages = memory.pages.borrow().clone();
        for (page, bytes) in pages.range(MAIN..MAIN + 0x2000) {
            memory.put(page - MAIN + at, bytes);
        }
        let run = [activation(at + 184 + 2, FRAMES)];
        let found = process.runs(&memory, (PID, TID), Timestamp(number), &run).unwrap();
        assert_eq!(found[0].frames.len(), 1);
    }
    assert!(process.codes.by_bytecode.len() < 1000 && process.codes.bytes < MAX_CODE_BYTES + (1 << 20));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn damaged_memory_does_no_harm(
        damage in prop::collection::vec((any::<usize>(), 0_u64..512, 0_u8..5, any::<u64>()), 1..8),
        words_are_damaged in any::<bool>(),
    ) {
        let memory = three_functions();
        let pages: Vec<u64> = memory.pages.borrow().keys().copied().collect();
        let mut word = 0;
        for (page, offset, kind, chosen) in damage {
            word = match kind {
                0 => chosen,
                1 => 0,
                2 => u64::MAX,
                3 => chosen % 4096,
                _ => pages[chosen as usize % pages.len()] + (chosen >> 32) % 4096,
            };
            memory.word(pages[page % pages.len()] + 8 * offset, word);
        }
        let damaged = [activation(word, FRAMES + 0x200), activation(WORK + 184 + 2, word)];
        let activations = if words_are_damaged { damaged } else { key_in_work() };
        let mut python = process();
        for time in [1, 200_000_000] {
            let runs = python.runs(&memory, (PID, TID), Timestamp(time), &activations);
            for frame in runs.iter().flatten().flat_map(|run| &run.frames) {
                prop_assert!(frame.function.name.chars().count() < 1 << 14, "names are bounded");
            }
        }
    }
}

#[test]
fn each_call_of_the_evaluator_has_places_of_its_own() {
    const OTHER_POINTER: u8 = 12;
    let (memory, mut process) = (three_functions(), process());
    let usual = activation_at(Some(0x9000), &[(POINTER, KEY + 184 + 36), (FRAME, FRAMES + 0x200)]);
    // This call leaves the pointer of the caller where the other one has that of the function.
    let other = activation_at(
        Some(0x9100),
        &[(POINTER, WORK + 184 + 2), (FRAME, FRAMES + 0x200), (OTHER_POINTER, KEY + 184 + 36)],
    );
    for time in 0..400 {
        process.runs(&memory, (PID, TID), Timestamp(2 * time), std::slice::from_ref(&usual));
        if time % 4 == 0 {
            process.runs(&memory, (PID, TID), Timestamp(2 * time + 1), std::slice::from_ref(&other));
        }
    }
    for activation in [usual, other] {
        let runs = process.runs(&memory, (PID, TID), Timestamp(1_000), &[activation]);
        assert_eq!(names(runs), ["key:52"]);
    }
}

const INTERPRETER: u64 = 0x40_0000;
const THREADS: u64 = 0x41_0000;
const NATIVE: u64 = 0x43_0000;

impl Memory {
    /// Puts the list of threads: another one, and then one that runs `frame` in a native frame at `NATIVE`.
    fn threads(&self, frame: u64) {
        self.word(RUNTIME + 40, INTERPRETER);
        self.word(INTERPRETER + 16, THREADS);
        self.word(THREADS + 8, THREADS + 0x1000);
        self.word(THREADS + 160, 77);
        self.word(THREADS + 0x1000 + 160, TID.0 as u64);
        self.word(THREADS + 0x1000 + 56, NATIVE);
        self.word(NATIVE + 8, frame);
        self.word(NATIVE + 16, THREADS + 0x2000);
        self.word(THREADS + 0x2000 + 16, 0);
    }
}

/// Looks at a thread, if it is found.
fn look_at(process: &mut PythonProcess, memory: &Memory, tid: Tid, time: u64) {
    let view = process.view(memory, (PID, tid), Timestamp(time));
    let look = view.and_then(|view| view.look(memory, Timestamp(time)));
    look.into_iter().for_each(|look| process.add_look(look));
}

#[test]
fn callers_are_known_from_a_look_at_any_time() {
    let (memory, mut process) = (three_functions(), process());
    memory.threads(FRAMES + 0x200);
    let [key, work] = key_in_work();
    (0..200).for_each(|time| {
        process.runs(&memory, (PID, TID), Timestamp(time), std::slice::from_ref(&work));
    });
    look_at(&mut process, &memory, Tid(78), 200);
    look_at(&mut process, &memory, TID, 200);
    // Another function runs where `key` ran.
    memory.frame(FRAMES + 0x200, MAIN, 0, true);
    let gone = |process: &mut PythonProcess, tid, time| {
        names(process.runs(&memory, (PID, tid), Timestamp(time), std::slice::from_ref(&key)))
    };
    assert_eq!(gone(&mut process, TID, 201), ["key:52"]);
    assert_eq!(
        gone(&mut process, Tid(78), 202),
        ["key:52"],
        "a thread that is not found runs what others ran"
    );
    // Lists without an end.
    memory.word(THREADS + 0x1000 + 8, THREADS);
    memory.word(INTERPRETER, INTERPRETER);
    look_at(&mut process, &memory, Tid(78), 203);
    memory.word(RUNTIME + 40, u64::MAX);
    look_at(&mut process, &memory, TID, 204);
}

#[test]
fn a_thread_in_a_namespace_is_found_by_its_own_number() {
    let mut memory = three_functions();
    memory.threads(FRAMES + 0x200);
    // The thread whose number is that of the sampled one in our namespace is another one there.
    memory.own_numbers = [(Tid(PID.0), Tid(1)), (Tid(5_077), TID), (TID, Tid(3))].into();
    let [key, work] = key_in_work();
    let gone = |tid| {
        let mut process = process();
        memory.frame(FRAMES + 0x200, KEY, FRAMES + 0x100, true);
        (0..200).for_each(|time| {
            process.runs(&memory, (PID, tid), Timestamp(time), std::slice::from_ref(&work));
        });
        look_at(&mut process, &memory, tid, 200);
        memory.frame(FRAMES + 0x200, MAIN, 0, true);
        names(process.runs(&memory, (PID, tid), Timestamp(201), std::slice::from_ref(&key)))
    };
    assert_eq!(gone(Tid(5_077)), ["key:52"]);
    assert_eq!(gone(TID), ["key:52…"]);
    assert_eq!(gone(Tid(9)), ["key:52…"], "it has ended");
}

#[test]
fn functions_that_last_are_outside_of_what_is_not_known() {
    let (memory, mut process) = (three_functions(), process());
    memory.threads(FRAMES + 0x100);
    let mut key = activation(KEY + 184 + 36, FRAMES + 0x300);
    key.end = Some(NATIVE + 0x100);
    let run = |process: &mut PythonProcess, time, key: &Activation| {
        names(process.runs(&memory, (PID, TID), Timestamp(time), std::slice::from_ref(key)))
    };
    (0..3).for_each(|time| look_at(&mut process, &memory, TID, 100 + time));
    assert_eq!(run(&mut process, 150, &key), ["key:52…"], "nobody knows what ran then");
    (0..3).for_each(|time| look_at(&mut process, &memory, TID, 200 + time));
    assert_eq!(run(&mut process, 150, &key), ["key:52…C.work:31 main:11"]);
    let elsewhere = Activation { end: Some(NATIVE + 0x1000), ..key.clone() };
    assert_eq!(run(&mut process, 150, &elsewhere), ["key:52…"], "another call of the evaluator");
    let unknown = Activation { candidates: Vec::new(), ..key.clone() };
    assert_eq!(run(&mut process, 150, &unknown), ["C.work:31 main:11"], "nothing else ran before and behind");
    look_at(&mut process, &memory, TID, 1_000_000_000);
    assert_eq!(run(&mut process, 999_999_999, &key), ["key:52…"], "long after the looks before");
    memory.threads(FRAMES);
    look_at(&mut process, &memory, TID, 151);
    assert_eq!(run(&mut process, 150, &key), ["key:52…main:11"], "`work` has returned at times");
}

#[test]
fn a_call_has_no_frames_of_another_one() {
    let (memory, mut process) = (three_functions(), process());
    // A generator runs in the call of its caller at the look, and in one of its own (`throw`) at the sample.
    memory.threads(FRAMES + 0x200);
    memory.frame(FRAMES + 0x200, KEY, FRAMES + 0x100, false);
    look_at(&mut process, &memory, TID, 1);
    let [mut key, mut work] = key_in_work();
    memory.frame(FRAMES + 0x200, KEY, FRAMES + 0x100, true);
    (key.end, work.end) = (Some(NATIVE - 0x1000), Some(NATIVE + 0x100));
    assert_eq!(
        names(process.runs(&memory, (PID, TID), Timestamp(2), &[key, work])),
        ["key:52", "C.work:30 main:11"]
    );
}

#[test]
fn the_slot_of_the_frame_is_where_threads_have_it() {
    let (memory, mut process) = (three_functions(), process());
    memory.threads(FRAMES + 0x100);
    // An earlier call of the same function, from elsewhere.
    memory.frame(FRAMES + 0x300, WORK, 0, true);
    let slot = |distance| Location::slot(distance).unwrap().number();
    let mut work = activation_at(
        Some(0x9000),
        &[(POINTER, WORK + 184 + 36), (FRAME, FRAMES + 0x300), (slot(0x40), FRAMES + 0x100)],
    );
    // `_PyCFrame.current_frame` lies 0x40 bytes below.
    work.end = Some(NATIVE + 8 + 0x40);
    let run = |process: &mut PythonProcess, time| {
        names(process.runs(&memory, (PID, TID), Timestamp(time), std::slice::from_ref(&work)))
    };
    assert_eq!(run(&mut process, 0), ["C.work:32"]);
    for time in 1..4 {
        look_at(&mut process, &memory, TID, time);
        run(&mut process, time);
    }
    assert_eq!(run(&mut process, 4), ["C.work:32 main:11"]);
}

#[test]
fn what_called_natively_has_its_frame_in_the_call() {
    const ENTRY: u64 = 0x44_0000;
    let mut layout = Layout::of_version(0x030b_07f0, &[]).unwrap();
    layout.frame.entry = EntryMark::Owner(3);
    let (memory, mut process) = (three_functions(), process_with(layout));
    memory.threads(FRAMES + 0x200);
    // Runs begin in frames on the native stack: that of `key`, and outside of it that of `work` and `main`.
    for (entry, previous, first) in [(ENTRY, FRAMES + 0x100, FRAMES + 0x200), (ENTRY + 0x200, 0, FRAMES)] {
        memory.word(entry + 48, previous);
        memory.put(entry + 69, &[3]);
        memory.word(first + 48, entry);
    }
    // An earlier call of the same function, from elsewhere.
    memory.frame(FRAMES + 0x300, WORK, FRAMES + 0x200, false);
    let slot = Location::slot(0x40).unwrap().number();
    let mut unknown = activation_at(None, &[(slot, FRAMES + 0x100)]);
    unknown.end = Some(ENTRY + 48 + 0x40);
    let mut work = activation(WORK + 184 + 36, FRAMES + 0x300);
    work.end = Some(ENTRY + 0x200 + 48 + 0x40);
    let activations = [unknown, work];
    let run = |process: &mut PythonProcess, time| {
        names(process.runs(&memory, (PID, TID), Timestamp(time), &activations))
    };
    assert_eq!(run(&mut process, 0), ["…", "C.work:32 key:51"]);
    for time in 1..4 {
        look_at(&mut process, &memory, TID, time);
        run(&mut process, time);
    }
    assert_eq!(run(&mut process, 4)[1], "C.work:32 main:11");
}
