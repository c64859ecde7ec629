//! Unwind tables of generated code by address and time.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use elf::Segment;
use generated::{JitDump, Placement};
use model::{Avma, FileOffset, Svma, Timestamp};
use rustc_hash::FxBuildHasher;
use unwinder::{ObjectNumber, ObjectSections, Section, UnwindTables};

use crate::table_bytes::TableBytes;
use crate::user_state::native_architecture;

/// The maximum number of loads kept for one address, the newest ones.
const MAX_LOADS_AT_ADDRESS: usize = 1024;
/// The maximum number of functions below an address that are tried, the nearest first. Functions of runtimes overlap older ones only.
const MAX_STARTS_TRIED: usize = 16;

/// The first object number of a table of generated code; lower ones are those of spaces. All numbers are small enough for the unwinder
/// to remember rules of single locations.
const FIRST_OBJECT: u32 = 1 << 22;
/// The number of object numbers for tables of generated code.
const OBJECTS: u32 = 1 << 22;

/// The address that each function has in its table. It is not 0, as functions at 0 in `.eh_frame` are those that the linker dropped.
const CODE: Svma = Svma(1 << 32);

/// Returns the object number of a space, which never is that of a table of generated code.
pub(crate) fn number_of_space(space: u32) -> ObjectNumber {
    ObjectNumber(if space < FIRST_OBJECT { space } else { space.saturating_add(OBJECTS) })
}

/// Gives out object numbers for tables, each once. All tables that one unwinder uses need different ones.
#[derive(Default, Debug)]
pub struct TableNumbers(u32);

impl TableNumbers {
    fn next(&mut self) -> Option<ObjectNumber> {
        let number = FIRST_OBJECT + self.0;
        (self.0 < OBJECTS).then(|| {
            self.0 += 1;
            ObjectNumber(number)
        })
    }
}

type Tables = Arc<UnwindTables<TableBytes>>;

/// The unwind tables of the code that one jitdump describes, by address and time. Reads no file.
#[derive(Default, Debug)]
pub struct GeneratedTables {
    /// Loads by first address, each list in the order of times.
    loads: BTreeMap<u64, Vec<Load>>,
    tables: HashMap<ObjectNumber, Table, FxBuildHasher>,
    /// The number of each table, by its bytes and the size of the code.
    numbers: HashMap<(Arc<[u8]>, u64), ObjectNumber, FxBuildHasher>,
    /// The number of placements of the dump that were added.
    taken: usize,
}

#[derive(Clone, Copy, Debug)]
struct Load {
    time: Timestamp,
    size: u64,
    /// `None` where the dump has no unwind table for this code.
    table: Option<ObjectNumber>,
}

impl GeneratedTables {
    /// Adds the placements that a dump has gained since the last call, which must have been for the same dump. Without `has_times` the
    /// newest code at an address counts for all times.
    pub fn add_new(&mut self, dump: &JitDump, has_times: bool, objects: &mut TableNumbers) {
        // A dump without any table is not kept.
        if !dump.has_unwinding_info() {
            return;
        }
        let placements = dump.placements();
        for placement in placements.get(self.taken..).unwrap_or_default() {
            let table = self.table_of(dump, placement, objects);
            let time = if has_times { placement.time } else { Timestamp(0) };
            self.add(placement.start, Load { time, size: placement.size, table });
        }
        self.taken = placements.len();
    }

    /// Returns the tables with this number.
    pub fn tables(&self, object: ObjectNumber) -> Option<Arc<UnwindTables<TableBytes>>> {
        self.tables.get(&object)?.get()
    }

    /// Returns the number of loads that were added.
    pub(crate) fn loads(&self) -> usize {
        self.taken
    }

    /// Returns true if there is no table.
    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    fn add(&mut self, start: Avma, load: Load) {
        let loads = self.loads.entry(start.0).or_default();
        let index = loads.partition_point(|known| known.time <= load.time);
        loads.insert(index, load);
        if loads.len() > MAX_LOADS_AT_ADDRESS {
            loads.remove(0);
        }
    }

    fn table_of(
        &mut self,
        dump: &JitDump,
        placement: &Placement,
        objects: &mut TableNumbers,
    ) -> Option<ObjectNumber> {
        let info = dump.unwinding_info(placement.offset)?;
        let (bytes, size): (Arc<[u8]>, u64) = (info.eh_frame.into(), placement.size);
        if let Some(&number) = self.numbers.get(&(Arc::clone(&bytes), size)) {
            return Some(number);
        }
        let address = CODE.checked_add(info.eh_frame_address)?;
        let number = objects.next()?;
        let table = Table { bytes: Arc::clone(&bytes), address, size, built: OnceLock::new() };
        self.tables.insert(number, table);
        self.numbers.insert((bytes, size), number);
        Some(number)
    }

    /// Returns the code at an address at a time: when it was loaded, the object number of its table, and its offset in the function.
    pub fn find(&self, address: Avma, time: Timestamp) -> Option<(Timestamp, ObjectNumber, FileOffset)> {
        let below = self.loads.range(..=address.0).rev().take(MAX_STARTS_TRIED);
        let covering = below.filter_map(|(&start, loads)| {
            let before = loads.partition_point(|load| load.time <= time);
            let load = loads.get(before.checked_sub(1)?)?;
            let offset = address.0 - start;
            (offset < load.size).then_some((load, offset))
        });
        // The newest load counts, and of several at the same time the nearest one.
        let (load, offset) =
            covering.reduce(|nearest, other| if other.0.time > nearest.0.time { other } else { nearest })?;
        Some((load.time, load.table?, FileOffset(offset)))
    }
}

/// The table of functions of one size.
#[derive(Debug)]
struct Table {
    /// `.eh_frame`.
    bytes: Arc<[u8]>,
    address: Svma,
    size: u64,
    built: OnceLock<Option<Tables>>,
}

impl Table {
    fn get(&self) -> Option<Tables> {
        self.built.get_or_init(|| self.build()).clone()
    }

    fn build(&self) -> Option<Tables> {
        let code = Segment {
            file_offset: FileOffset(0),
            address: CODE,
            file_size: self.size,
            memory_size: self.size,
            executable: true,
            writable: false,
        };
        // The unwinder never reads the code itself.
        let file = TableBytes::new([]);
        let mut sections = ObjectSections::new(native_architecture()?, file, vec![code]);
        sections.eh_frame =
            Some(Section { address: self.address, bytes: TableBytes::new(Arc::clone(&self.bytes)) });
        Some(Arc::new(UnwindTables::new(sections)))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn record(dump: &mut Vec<u8>, kind: u64, time: u64, body: &[u8]) {
        dump.extend(words(&[(16 + body.len() as u64) << 32 | kind, time]));
        dump.extend(body);
    }

    fn load(dump: &mut Vec<u8>, time: u64, address: u64, size: u64, number: u64) {
        let body = [words(&[1, address, address, size, number]), b"f\0".to_vec(), vec![0xcc; size as usize]];
        record(dump, 0, time, &body.concat());
    }

    fn unwinding(dump: &mut Vec<u8>, eh_frame: &[u8]) {
        record(dump, 4, 0, &[words(&[eh_frame.len() as u64, 0, 0]), eh_frame.to_vec()].concat());
    }

    fn header() -> Vec<u8> {
        words(&[1 << 32 | 0x4a69_5444, 62 << 32 | 40, 42 << 32, 7, 0])
    }

    fn tables(bytes: &[u8], has_times: bool) -> GeneratedTables {
        let mut dump = JitDump::for_unwinding(100, 1000);
        dump.read(&mut Cursor::new(bytes)).unwrap();
        let mut tables = GeneratedTables::default();
        tables.add_new(&dump, has_times, &mut TableNumbers::default());
        tables.add_new(&dump, has_times, &mut TableNumbers::default());
        tables
    }

    fn replaced() -> Vec<u8> {
        let mut dump = header();
        unwinding(&mut dump, b"table of one");
        load(&mut dump, 10, 0x1000, 0x40, 1);
        load(&mut dump, 20, 0x1000, 0x40, 2);
        unwinding(&mut dump, b"table of other");
        load(&mut dump, 30, 0x1010, 0x20, 3);
        unwinding(&mut dump, b"table of one");
        load(&mut dump, 10, 0x5000, 0x40, 4);
        record(&mut dump, 1, 40, &words(&[1, 0, 0x1000, 0x7000, 0x40, 1]));
        dump
    }

    #[test]
    fn an_address_has_the_table_of_what_lay_there() {
        let tables = tables(&replaced(), true);
        let find =
            |address, time| tables.find(Avma(address), Timestamp(time)).map(|(_, table, at)| (table, at.0));
        let one = find(0x1000, 10).unwrap().0;
        let other = find(0x1010, 30).unwrap().0;
        assert_ne!(one, other);
        assert_eq!(find(0x103f, 19), Some((one, 0x3f)));
        assert_eq!((find(0x1000, 9), find(0x1040, 19), find(0xfff, 19)), (None, None, None));
        assert_eq!(find(0x1000, 20), None, "its newest code has no table");
        assert_eq!(find(0x1011, 30), Some((other, 1)));
        assert_eq!(find(0x5000, 30), Some((one, 0)), "equal tables are one");
        assert_eq!((find(0x7001, 39), find(0x7001, 40)), (None, Some((one, 1))), "it has moved");
        assert!(tables.tables(one).is_some() && tables.tables(ObjectNumber(1)).is_none());
    }

    #[test]
    fn without_times_the_last_code_at_an_address_counts() {
        let tables = tables(&replaced(), false);
        assert_eq!(tables.find(Avma(0x1000), Timestamp(1)), None);
        assert!(tables.find(Avma(0x5000), Timestamp(1)).is_some());
    }

    #[test]
    fn a_dump_without_tables_takes_no_memory() {
        let mut dump = header();
        load(&mut dump, 10, 0x1000, 0x40, 1);
        let tables = tables(&dump, true);
        assert!(tables.is_empty() && tables.loads.is_empty());
    }

    #[test]
    fn what_a_dump_says_too_much_is_left_out() {
        let mut dump = header();
        for number in 0..200_u64 {
            unwinding(&mut dump, &number.to_le_bytes());
            load(&mut dump, number, 0x1000, 0x40, number);
        }
        assert_eq!(tables(&dump, true).loads(), 100);
        let mut dump = header();
        for number in 0..90_u64 {
            unwinding(&mut dump, &[number as u8; 100]);
            load(&mut dump, number, 0x1000, 0x40, number);
        }
        assert_eq!(tables(&dump, true).tables.len(), 10, "1000 bytes, and the one that is more");
    }

    #[test]
    fn numbers_of_spaces_are_none_of_tables() {
        let mut numbers = TableNumbers(OBJECTS - 1);
        let last = numbers.next().unwrap();
        assert_eq!(numbers.next(), None);
        assert!(number_of_space(FIRST_OBJECT - 1).0 < FIRST_OBJECT && number_of_space(FIRST_OBJECT) > last);
    }
}
