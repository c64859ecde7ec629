//! Functions of synthetic memory, laid out as Node.js 20 and 24 lay it out.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::layout::tests::constants;
use crate::layout::{Instructions, Layout};

const PID: Pid = Pid(7);
/// Addresses of objects, untagged.
const MAPS: u64 = 0x1000_0000;
const FUNCTION: u64 = 0x2000_0000;
const SHARED: u64 = 0x2001_0000;
const SCOPE: u64 = 0x2002_0000;
const SCRIPT: u64 = 0x2003_0000;
const BYTECODE: u64 = 0x2004_0000;
const TEXTS: u64 = 0x2005_0000;
const CODE: u64 = 0x2006_0000;
const ARRAYS: u64 = 0x2007_0000;
const STREAM: u64 = 0x3000_0000;
const START: u64 = STREAM + 0x40;

struct Memory {
    pages: RefCell<BTreeMap<u64, [u8; 4096]>>,
    layout: Layout,
}

impl ProcessMemory for Memory {
    fn read(&self, pid: Pid, address: Avma, into: &mut [u8]) -> usize {
        assert_eq!(pid, PID);
        let pages = self.pages.borrow();
        for (index, byte) in into.iter_mut().enumerate() {
            let address = address.0 + index as u64;
            let Some(page) = pages.get(&(address & !4095)) else { return index };
            *byte = page[(address & 4095) as usize];
        }
        into.len()
    }
}

fn tag(address: u64) -> u64 {
    address | 1
}

fn small(number: i32) -> u64 {
    (number as u32 as u64) << 32
}

impl Memory {
    /// Returns memory with a function `spin` of `/app/x.js`, from line 3, column 5 to line 5, which is interpreted.
    fn new(version: &str) -> Self {
        let memory = Self { pages: RefCell::default(), layout: Layout::new(&constants(version)).unwrap() };
        let types = memory.layout.types.clone();
        memory.object(FUNCTION, types.first_function);
        memory.word(FUNCTION + memory.layout.function_shared, tag(SHARED));
        memory.shared(SHARED, SCOPE, "spin", 0x1d);
        memory.object(SCRIPT, types.script);
        memory.word(
            SCRIPT + 8,
            memory.text(TEXTS, "// one\r\nlet two;\n    let x; function spin(n) {\n  return n;\n}\n"),
        );
        memory.word(SCRIPT + 16, memory.text(TEXTS + 0x400, "/app/x.js"));
        memory.word(SCRIPT + 24, 0);
        memory.word(SCRIPT + 32, 0);
        memory.word(SCRIPT + 56, small(0));
        memory.word(SCRIPT + 64, small(12));
        memory.object(BYTECODE, types.bytecode);
        memory.word(SHARED + 8, tag(BYTECODE));
        // Bytecode 10 is of the character 50, in line 4.
        memory.word(BYTECODE + memory.layout.bytecode.positions, memory.table(ARRAYS, &[(10, 50, -1)]));
        memory
    }

    fn put(&self, address: u64, bytes: &[u8]) {
        let mut pages = self.pages.borrow_mut();
        for (address, byte) in (address..).zip(bytes) {
            pages.entry(address & !4095).or_insert([0; 4096])[(address & 4095) as usize] = *byte;
        }
    }

    fn word(&self, address: u64, word: u64) {
        self.put(address, &word.to_le_bytes());
    }

    /// Makes an object of a type, and the map of that type.
    fn object(&self, at: u64, kind: u16) -> u64 {
        let map = MAPS + 0x100 * (u64::from(kind) % 0x400);
        self.word(at, tag(map));
        self.word(map, tag(MAPS - 0x1000));
        self.put(map + 12, &kind.to_le_bytes());
        self.word(MAPS - 0x1000, tag(MAPS - 0x1000));
        self.put(MAPS - 0x1000 + 12, &self.layout.types.map.to_le_bytes());
        tag(at)
    }

    fn text(&self, at: u64, text: &str) -> u64 {
        self.object(at, 40);
        self.put(at + 12, &(text.len() as u32).to_le_bytes());
        self.put(at + 16, text.as_bytes());
        tag(at)
    }

    fn bytes(&self, at: u64, bytes: &[u8]) -> u64 {
        self.object(at, 190);
        self.word(at + 8, small(bytes.len() as i32));
        self.put(at + 16, bytes);
        tag(at)
    }

    fn array(&self, at: u64, elements: &[u64]) -> u64 {
        self.object(at, self.layout.types.fixed_array);
        self.word(at + 8, small(elements.len() as i32));
        for (index, element) in elements.iter().enumerate() {
            self.word(at + 16 + 8 * index as u64, *element);
        }
        tag(at)
    }

    fn table(&self, at: u64, entries: &[(i64, i64, i64)]) -> u64 {
        let (mut bytes, mut before) = (Vec::new(), (0, 0));
        for (code, offset, inlined) in entries {
            let raw = (offset + 1) << 1 | (inlined + 1) << 31;
            for number in [code - before.0, raw - before.1] {
                let mut bits = ((number << 1) ^ (number >> 63)) as u64;
                while bits >= 0x80 {
                    bytes.push(bits as u8 | 0x80);
                    bits >>= 7;
                }
                bytes.push(bits as u8);
            }
            before = (*code, raw);
        }
        self.bytes(at, &bytes)
    }

    /// Makes a `SharedFunctionInfo` and its `ScopeInfo`, with one local variable.
    fn shared(&self, at: u64, scope: u64, name: &str, start: i32) {
        let name_at = scope + 0x1000;
        self.object(at, self.layout.types.shared);
        self.word(at + self.layout.shared.name, tag(scope));
        self.word(at + self.layout.shared.script, tag(SCRIPT));
        self.object(scope, self.layout.types.scope_info);
        let is_new = self.layout.types.shared_wrapper.is_some();
        let flags = 3 << 12 | 1 << 14 | if is_new { 4 } else { 2 };
        let place = [small(start), small(0x3c)];
        let names =
            [self.text(name_at, "n"), small(7), self.text(name_at + 0x100, name), small(-1), tag(MAPS)];
        let mut words = vec![if is_new { flags as u64 } else { small(flags) }, 0, small(1)];
        if is_new {
            words.extend(place);
        }
        words.extend(names);
        words.extend(place);
        for (index, word) in words.iter().enumerate() {
            self.word(scope + 8 + 8 * index as u64, *word);
        }
    }

    /// Makes code of a kind at [`START`], with a function `inner` that is inlined from the byte 0x20 on.
    fn code(&self, kind: u32) {
        let Self { layout, .. } = self;
        let Instructions::Stream { code, stream, start } = layout.code.instructions else { panic!() };
        self.object(STREAM, layout.types.instructions);
        self.put(STREAM + 0x40, &[0x90; 0x4000]);
        self.word(STREAM + code, self.object(CODE, layout.types.code));
        self.word(CODE + stream, tag(STREAM));
        self.word(CODE + start, START);
        self.put(CODE + layout.code.flags, &kind.to_le_bytes());
        self.put(CODE + layout.code.size, &0x3000_u32.to_le_bytes());
        self.word(CODE + layout.code.positions, self.table(ARRAYS + 0x100, &[(0, 50, -1), (0x20, 59, 0)]));
        self.shared(SHARED + 0x1000, SCOPE + 0x4000, "inner", 0x1d);
        let position = (50_i64 + 1) << 1;
        let inlined = [&position.to_le_bytes()[..], &1_u32.to_le_bytes(), &[0; 4]].concat();
        let mut elements = vec![0; 12];
        let data = &layout.code.deoptimization;
        elements[data.literals as usize] = self.array(ARRAYS + 0x400, &[tag(MAPS), tag(SHARED + 0x1000) | 2]);
        elements[data.shared as usize] = match layout.types.shared_wrapper {
            Some(kind) => {
                self.word(ARRAYS + 0x800 + layout.shared.wrapped, tag(SHARED));
                self.object(ARRAYS + 0x800, kind)
            }
            None => tag(SHARED),
        };
        elements[data.inlining_positions as usize] = self.bytes(ARRAYS + 0x900, &inlined);
        self.word(CODE + layout.code.data, self.array(ARRAYS + 0xa00, &elements));
    }

    fn at_address(&self, address: u64) -> u64 {
        let mut bytes = [0; 8];
        self.read(PID, Avma(address), &mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn process(&self) -> JavaScriptProcess {
        JavaScriptProcess::new(Arc::new(V8::for_tests(self.layout.clone())))
    }

    fn at(&self, process: &mut JavaScriptProcess, time: u64, frames: &[FrameOf]) -> Option<Vec<String>> {
        let found = process.find(self, PID, Timestamp(time), frames.iter().copied())?;
        let shown = |found: &Found| match found {
            Found::Functions(frames) => {
                let one = |frame: &JavaScriptFrame| format!("{} @{}", frame.function.name, frame.line);
                frames.iter().map(one).collect::<Vec<_>>().join(" < ")
            }
            other => format!("{other:?}"),
        };
        Some(found.iter().map(shown).collect())
    }
}

fn words(memory: &Memory) -> FrameWords {
    let offset = 10 + memory.layout.bytecode.data as i32 - 1;
    FrameWords { function: tag(FUNCTION), bytecode: tag(BYTECODE), offset: small(offset) }
}

const SECOND: u64 = 1_000_000_000;

#[test]
fn interpreted_functions_have_their_name_place_and_line() {
    for version in ["18", "20", "22", "24"] {
        let memory = Memory::new(version);
        let mut process = memory.process();
        let frame = FrameOf::Interpreted(Some(words(&memory)));
        let found = memory.at(&mut process, 0, &[frame, FrameOf::Interpreted(None)]).unwrap();
        assert_eq!(found, ["JS:~spin /app/x.js:3:13 @4", "Unknown"], "{version}");
        assert_eq!(memory.at(&mut process, 0, &[]), Some(Vec::new()));
    }
}

#[test]
fn a_function_that_the_collector_has_moved_is_known_by_its_bytecode_and_no_other_takes_its_place() {
    let memory = Memory::new("20");
    let mut process = memory.process();
    let frames = [FrameOf::Interpreted(Some(words(&memory)))];
    let known = memory.at(&mut process, 0, &frames).unwrap();
    // Another closure lies where the function lay.
    memory.shared(SHARED + 0x2000, SCOPE + 0x8000, "other", 0x1d);
    memory.word(SHARED + 0x2000 + 8, memory.object(BYTECODE + 0x1000, memory.layout.types.bytecode));
    memory.word(FUNCTION + memory.layout.function_shared, tag(SHARED + 0x2000));
    assert_eq!(memory.at(&mut process, SECOND, &frames).unwrap(), known);
    assert_eq!(memory.at(&mut memory.process(), SECOND, &frames).unwrap(), ["Unknown"], "not met before");
    // Now the bytecode is gone, too.
    memory.word(SHARED + 8, tag(BYTECODE + 0x1000));
    assert_eq!(memory.at(&mut process, 2 * SECOND, &frames).unwrap(), ["Unknown"]);
}

#[test]
fn optimized_code_leads_to_its_function_and_to_those_that_were_inlined() {
    for version in ["20", "22", "24"] {
        let memory = Memory::new(version);
        let baseline = memory.layout.code.baseline;
        memory.code(baseline + 2);
        let mut process = memory.process();
        let generated = |offset: u64| FrameOf::Generated(Avma(START + offset), Some(words(&memory)));
        let frames = [generated(0x10), generated(0x2fff), generated(0x3001)];
        let found = memory.at(&mut process, 0, &frames).unwrap();
        let outer = "JS:*spin /app/x.js:3:13 @4";
        let inlined = format!("JS:*inner /app/x.js:3:13 @5 < {outer}");
        assert_eq!(found, [outer, &inlined, "Unknown"], "{version}");
        let plain = |offset: u64| FrameOf::Generated(Avma(START + offset), None);
        assert_eq!(memory.at(&mut process, 0, &[plain(0x10), plain(0x5000_0000)]).unwrap(), [outer, "Other"]);
        // Other code has taken the place.
        memory.word(CODE + memory.layout.code.data, memory.array(ARRAYS + 0xf00, &[]));
        assert_eq!(memory.at(&mut process, SECOND / 3, &[plain(0x10)]).unwrap(), [outer], "it ran before");
        assert_eq!(memory.at(&mut process, SECOND, &[plain(0x10)]).unwrap(), ["Other"]);
        memory.put(CODE + memory.layout.code.flags, &3_u32.to_le_bytes());
        assert_eq!(memory.at(&mut process, 3 * SECOND, &[plain(0x10)]).unwrap(), ["Regexp"]);
    }
}

#[test]
fn code_of_other_kinds_does_not_use_up_the_searches_for_functions() {
    let memory = Memory::new("20");
    memory.code(memory.layout.code.baseline + 2);
    let mut process = memory.process();
    memory.at(&mut process, 0, &[FrameOf::Interpreted(Some(words(&memory)))]).unwrap();
    for number in 0..=MAX_MISSES as u64 {
        let other = FrameOf::Generated(Avma(0x5000_0000 + number * PAGE_BYTES), None);
        assert_eq!(memory.at(&mut process, 0, &[other]).unwrap(), ["Other"]);
    }
    let function = FrameOf::Generated(Avma(START + 0x10), Some(words(&memory)));
    assert_eq!(memory.at(&mut process, 0, &[function]).unwrap(), ["JS:*spin /app/x.js:3:13 @4"]);
}

#[test]
fn what_was_known_of_a_process_stays_when_it_has_ended() {
    let memory = Memory::new("20");
    memory.code(memory.layout.code.baseline + 2);
    let mut process = memory.process();
    let frames = [
        FrameOf::Interpreted(Some(words(&memory))),
        FrameOf::Generated(Avma(START + 0x2fff), Some(words(&memory))),
    ];
    let known = memory.at(&mut process, 0, &frames);
    memory.pages.borrow_mut().clear();
    assert_eq!(memory.at(&mut process, SECOND, &frames), known);
    assert_eq!(memory.at(&mut memory.process(), SECOND, &frames), None);
}

#[test]
fn code_of_sparkplug_is_known_by_its_bytecode() {
    let memory = Memory::new("20");
    memory.code(memory.layout.code.baseline);
    memory.word(CODE + memory.layout.code.data, tag(BYTECODE));
    let mut process = memory.process();
    let of = |words| [FrameOf::Generated(Avma(START + 0x10), words)];
    let others = FrameWords { bytecode: tag(BYTECODE + 0x1000), ..words(&memory) };
    // The map of code is not known before any function is.
    assert_eq!(memory.at(&mut process, 0, &of(None)).unwrap(), ["Other"]);
    assert_eq!(memory.at(&mut process, 0, &of(Some(others))).unwrap(), ["Unknown"], "a caller's words");
    assert_eq!(
        memory.at(&mut process, 0, &of(Some(words(&memory)))).unwrap(),
        ["JS:^spin /app/x.js:3:13 @3"]
    );
    assert_eq!(
        memory.at(&mut process, 0, &of(None)).unwrap(),
        ["JS:^spin /app/x.js:3:13 @3"],
        "known by now"
    );
}

#[test]
fn hostile_objects_end_nowhere() {
    let memory = Memory::new("20");
    let frames = [FrameOf::Interpreted(Some(words(&memory)))];
    // A name made of itself, and a chain of strings.
    let name = SCOPE + 0x1100;
    memory.object(name, 41);
    memory.word(name + 16, tag(name));
    memory.word(name + 24, tag(name));
    assert_eq!(memory.at(&mut memory.process(), 0, &frames).unwrap(), ["JS:~ /app/x.js:3:13 @4"]);
    memory.object(name, 45);
    assert_eq!(memory.at(&mut memory.process(), 0, &frames).unwrap(), ["JS:~ /app/x.js:3:13 @4"]);
    // A map that is its own object, lengths without end, pointers to nowhere.
    for (address, word) in [
        (SCRIPT + 8, u64::MAX),
        (SCRIPT + 8, tag(0x7000_0000_0000)),
        (SCOPE + 24, small(i32::MAX)),
        (SCOPE + 24, small(-1)),
        (SCOPE + 8, u64::MAX),
        (SHARED + 16, tag(SHARED)),
        (SHARED, tag(SHARED)),
        (FUNCTION, 1),
        (BYTECODE, u64::MAX),
    ] {
        memory.word(address, word);
        memory.at(&mut memory.process(), 0, &frames);
    }
    for word in [0, 1, u64::MAX, tag(MAPS), tag(u64::MAX / 2)] {
        let words = FrameWords { function: word, bytecode: word, offset: word };
        for frame in [FrameOf::Interpreted(Some(words)), FrameOf::Generated(Avma(word), Some(words))] {
            memory.at(&mut memory.process(), 0, &[frame]);
        }
    }
    assert_eq!(memory.at(&mut memory.process(), 0, &[FrameOf::Generated(Avma(0x66_0000_0000), None)]), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn damaged_memory_does_no_harm(
        version in prop_oneof![Just("18"), Just("20"), Just("22"), Just("24")],
        tier in 0_u32..4,
        damage in prop::collection::vec((any::<usize>(), 0_u64..512, 0_u8..6, any::<u64>()), 1..8),
        words_are_damaged in any::<bool>(),
    ) {
        let memory = Memory::new(version);
        if version != "18" {
            memory.code(memory.layout.code.baseline + tier);
        }
        let pages: Vec<u64> = memory.pages.borrow().keys().copied().collect();
        let mut word = 0;
        for (page, offset, kind, chosen) in damage {
            let address = pages[page % pages.len()] + 8 * offset;
            let elsewhere = pages[chosen as usize % pages.len()] + (chosen >> 32) % 4096;
            word = match kind {
                0 => chosen,
                1 => 0,
                2 => u64::MAX,
                3 => tag(elsewhere & !7),
                4 => small(chosen as i32),
                _ => memory.at_address(address) ^ 1 << (chosen % 64),
            };
            memory.word(address, word);
        }
        let sound = words(&memory);
        let damaged = FrameWords { function: word, bytecode: word, offset: word };
        let words = Some(if words_are_damaged { damaged } else { sound });
        let frames = [
            FrameOf::Interpreted(words),
            FrameOf::Generated(Avma(START + 0x10), words),
            FrameOf::Generated(Avma(START + 0x2fff), None),
        ];
        let mut process = memory.process();
        for time in [0, SECOND] {
            let found = memory.at(&mut process, time, &frames).unwrap_or_default();
            prop_assert!(found.iter().all(|name| name.chars().count() < 1 << 14), "names are bounded");
        }
    }
}
