//! Running a program under gdb, and what it was like at each stop.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use elf::{Object, SectionReader};
use model::{Avma, FileOffset, FrameAddress};
use prof_unwinder::{
    AddressSpace, Architecture, Innermost, Mapping, ObjectNumber, ObjectSections, Objects, ReadMemory,
    Registers, StackCopy, UnwindTables, Unwinder, UnwoundStack,
};

/// What gdb's Python runs before the script of a test: `stop()` writes down where the program stands.
const PRELUDE: &str = r#"
import gdb
for setting in ("pagination off", "confirm off", "debuginfod enabled off", "disable-randomization off",
                "backtrace past-main on", "backtrace past-entry on", "breakpoint pending on", "width 0",
                "print inferior-events off", "print thread-events off", "auto-load safe-path /"):
    gdb.execute("set " + setting, to_string=True)
gdb.execute("handle SIGUSR1 nostop noprint pass", to_string=True)
gdb.execute("handle SIGILL nostop noprint pass", to_string=True)
REGISTERS = "rax rdx rcx rbx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 rip".split()
MASK = (1 << 64) - 1

def write(*words):
    gdb.write("\n" + " ".join(str(word) for word in words) + "\n")

def pointer(frame, register):
    return int(frame.read_register(register)) & MASK

def maps():
    with open("/proc/%d/maps" % gdb.selected_inferior().pid) as lines:
        return [line.split(None, 5) for line in lines]

def stop():
    frame = gdb.newest_frame()
    write("STOP", *[pointer(frame, register) for register in REGISTERS])
    regions = []
    for parts in maps():
        start, end = (int(part, 16) for part in parts[0].split("-"))
        path = parts[5].strip() if len(parts) > 5 else ""
        write("MAP", start, end, int(parts[2], 16), int("x" in parts[1]), path or "-")
        if "w" in parts[1]:
            regions.append((start, end))
    lowest = {}
    interrupted = True
    index = 0
    while frame is not None and index < 400:
        if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):
            sp = pointer(frame, "rsp")
            for region in regions:
                if region[0] <= sp < region[1]:
                    lowest[region] = min(sp, lowest.get(region, sp))
            symbol = frame.name() or "?"
            if frame.pc() != 0:
                write("FRAME", frame.pc(), int(interrupted), symbol.replace(" ", "_"))
            interrupted = frame.type() == gdb.SIGTRAMP_FRAME
        frame = frame.older()
        index += 1
    for region, sp in lowest.items():
        size = min(region[1] - sp, 1 << 18)
        data = gdb.selected_inferior().read_memory(sp, size).tobytes()
        write("MEMORY", sp, data.hex())
    write("END")

def run_to(place):
    gdb.execute("break " + place, to_string=True)
    gdb.execute("run >/dev/null 2>&1" if gdb.selected_inferior().pid == 0 else "continue", to_string=True)
    if gdb.selected_inferior().pid == 0:
        raise gdb.GdbError("the program ended before " + place)

def step(instructions):
    for _ in range(instructions):
        gdb.execute("stepi", to_string=True)
        if gdb.selected_inferior().pid == 0:
            return
        stop()
"#;

/// The program at one moment.
#[derive(Default)]
pub(crate) struct Stop {
    registers: Vec<u64>,
    maps: Vec<(u64, u64, u64, bool, String)>,
    memory: Vec<(u64, Vec<u8>)>,
    /// gdb's backtrace, without inlined frames.
    pub(crate) frames: Vec<u64>,
    names: Vec<String>,
    /// For each, whether it is where the thread was interrupted.
    pub(crate) interrupted: Vec<bool>,
    program: PathBuf,
}

/// Runs `program` under gdb, and `script` in gdb's Python.
pub(crate) fn run_to_stops(program: &Path, script: &str) -> Vec<Stop> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stops.py");
    let finish = "\nif gdb.selected_inferior().pid: gdb.execute('kill', to_string=True)\n";
    std::fs::write(&path, format!("{PRELUDE}\n{script}{finish}")).unwrap();
    let output = Command::new("timeout")
        .args(["-k", "5", "120", "gdb", "-nx", "-q", "-batch", "-x"])
        .arg(&path)
        .arg(program)
        .env("LC_ALL", "C")
        .output()
        .expect("gdb runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let mut stops = Vec::new();
    let mut stop = Stop::default();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |index: usize| words[index].parse::<u64>().unwrap();
        match words[0] {
            "STOP" => {
                stop = Stop { program: program.to_owned(), ..Stop::default() };
                stop.registers = words[1..].iter().map(|word| word.parse().unwrap()).collect();
            }
            "MAP" => stop.maps.push((number(1), number(2), number(3), number(4) == 1, words[5].to_owned())),
            "FRAME" => {
                stop.frames.push(number(1));
                stop.interrupted.push(number(2) == 1);
                stop.names.push(words[3].to_owned());
            }
            "MEMORY" => stop.memory.push((number(1), bytes(words[2]))),
            "END" => stops.push(core::mem::take(&mut stop)),
            _ => {}
        }
    }
    assert!(output.status.success() && !stops.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    stops
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|index| u8::from_str_radix(&hex[index * 2..index * 2 + 2], 16).unwrap()).collect()
}

type Tables = UnwindTables<SectionReader<Vec<u8>>>;

/// Files by their path.
#[derive(Default)]
pub(crate) struct Files {
    numbers: HashMap<String, ObjectNumber>,
    tables: Vec<Option<Arc<Tables>>>,
}

impl Files {
    fn number(&mut self, path: &str) -> ObjectNumber {
        let tables = &mut self.tables;
        *self.numbers.entry(path.to_owned()).or_insert_with(|| {
            let file = std::fs::read(path).ok();
            let object = file.and_then(|bytes| Object::parse(bytes).ok());
            tables.push(
                object
                    .and_then(|object| ObjectSections::from_object(&Arc::new(object)))
                    .map(UnwindTables::new)
                    .map(Arc::new),
            );
            ObjectNumber(tables.len() as u32 - 1)
        })
    }
}

impl Objects for Files {
    type Bytes = SectionReader<Vec<u8>>;

    fn tables(&mut self, object: ObjectNumber) -> Option<Arc<Tables>> {
        self.tables[object.0 as usize].clone()
    }
}

struct Memory<'a>(&'a [(u64, Vec<u8>)]);

impl ReadMemory for Memory<'_> {
    fn read_word(&mut self, address: u64) -> Option<u64> {
        self.0.iter().find_map(|(start, bytes)| StackCopy { start: *start, bytes }.word(address))
    }
}

impl Stop {
    /// Unwinds with a copy of at most 64 KiB and the other memory beyond it.
    pub(crate) fn unwind(&self) -> UnwoundStack {
        self.unwind_copy(65_528, true)
    }

    /// Unwinds with a copy of at most `size` bytes.
    pub(crate) fn unwind_copy(&self, size: usize, with_memory: bool) -> UnwoundStack {
        self.unwind_registers(&[], size, with_memory)
    }

    /// Unwinds with the instruction and stack pointers alone, as `/proc/PID/task/TID/syscall` has them.
    pub(crate) fn unwind_from_outside(&self) -> UnwoundStack {
        let architecture = Architecture::X86_64;
        let known = [architecture.stack_pointer(), architecture.program_counter()];
        self.unwind_registers(&known, usize::MAX, false)
    }

    /// Unwinds with only the `known` registers, or all where there are none.
    fn unwind_registers(&self, known: &[u8], size: usize, with_memory: bool) -> UnwoundStack {
        let mut files = Files::default();
        let mut space = AddressSpace::default();
        for (start, end, offset, executable, path) in &self.maps {
            let object = path.starts_with('/').then(|| files.number(path));
            space.insert(Mapping {
                range: Avma(*start)..Avma(*end),
                file_offset: FileOffset(*offset),
                object,
                executable: *executable,
            });
        }
        let mut registers = Registers::new(Architecture::X86_64);
        for (number, value) in (0..).zip(&self.registers) {
            if known.is_empty() || known.contains(&number) {
                registers.set(number, *value);
            }
        }
        let sp = registers.stack_pointer().unwrap();
        let copied =
            self.memory.iter().find(|(start, bytes)| *start <= sp && sp - start < bytes.len() as u64);
        let bytes = copied.map_or(&[][..], |(start, bytes)| &bytes[(sp - start) as usize..]);
        let stack = StackCopy { start: sp, bytes: &bytes[..bytes.len().min(size)] };
        let mut unwound = UnwoundStack::default();
        let mut memory = Memory(if with_memory { &self.memory } else { &[] });
        let innermost = Innermost { registers: &registers, stack };
        Unwinder::default().unwind(&space, &mut files, &innermost, &mut memory, &mut unwound);
        unwound
    }

    /// The name of the function at an address, as binutils' symbol table has it.
    pub(crate) fn name_of(&self, address: FrameAddress<Avma>) -> String {
        let address = match address {
            FrameAddress::InstructionPointer(address) => address.0,
            FrameAddress::ReturnAddress(address) => address.0 - 1,
        };
        let Some((start, _, offset, _, path)) =
            self.maps.iter().find(|(start, end, ..)| *start <= address && address < *end)
        else {
            return "unmapped".to_owned();
        };
        let Ok(object) = Object::parse(std::fs::read(path).unwrap_or_default()) else {
            return path.clone();
        };
        let Some(svma) = object.svma_of(FileOffset(address - start + offset)) else {
            return path.clone();
        };
        let mut best: Option<(u64, String)> = None;
        for symbol in object.symbols(elf::SymbolSource::Full) {
            if symbol.address.0 <= svma.0 && best.as_ref().is_none_or(|(known, _)| *known < symbol.address.0)
            {
                best = Some((symbol.address.0, String::from_utf8_lossy(symbol.name()).into_owned()));
            }
        }
        best.map_or_else(|| path.clone(), |(_, name)| name)
    }

    /// For a failed assertion.
    pub(crate) fn describe(&self) -> String {
        format!("{}: gdb sees {:?}, we end as {:?}", self.program.display(), self.names, self.unwind().end)
    }
}
