//! The procedure linkage table: stubs that jump to functions of other objects. Linkers give them no symbols.
//!
//! The instructions of a stub tell its target: it jumps through a slot of the global offset table, and a relocation
//! names the function whose address the dynamic linker stores there. Unlike counting entries, this works with the
//! layout of every linker (`.plt`, `.plt.sec`, `.plt.got`; System V ABI, AMD64 supplement, "Procedure
//! Linkage Table").

use elf::{Machine, Object, Relocation, Section, SymbolSource};
use rustc_hash::FxHashMap;

use crate::MAX_TABLE_ENTRIES;

/// A stub of the procedure linkage table.
pub(crate) struct PltEntry {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// The function that it jumps to.
    pub(crate) target: PltTarget,
}

/// The function whose address the dynamic linker stores in the slot of a stub.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PltTarget {
    /// The function of this name, as an offset in the strings of the dynamic symbols.
    Named(NameOffset),
    /// The function that the resolver at this address returns. The symbol of an indirect function (`STT_GNU_IFUNC`) of
    /// the object has this address.
    Resolved(u64),
}

/// The offset of a name in the dynamic strings; never 0.
type NameOffset = u32;

/// Maximum number of stubs and of relocations that are read of an object; no real program has more.
const MAX_ENTRIES: usize = 1 << 20;

/// Returns all stubs whose target is known.
pub(crate) fn entries<D: AsRef<[u8]>>(object: &Object<D>) -> Vec<PltEntry> {
    let machine = object.machine();
    if !matches!(machine, Machine::X86_64 | Machine::I386 | Machine::AARCH64) {
        return Vec::new();
    }
    let stubs: Vec<&Section> =
        object.sections().iter().filter(|section| section.is_executable() && is_plt(&section.name)).collect();
    if stubs.is_empty() {
        return Vec::new();
    }
    let slots = GotSlots::read(object);
    let mut entries = Vec::new();
    // For all sections together: a hostile file may have many sections over the same bytes.
    let mut left = MAX_ENTRIES;
    for section in stubs {
        let Ok(code) = object.section_bytes(section) else { continue };
        let entry_size = match (section.entry_size, &*section.name) {
            (size @ (8 | 16), _) => size,
            (_, b".plt.got") if machine != Machine::AARCH64 => 8,
            // Static programs: entries are single jumps, and the linker does not state their size.
            _ if machine == Machine::X86_64
                && code.chunks(8).take(2).all(|entry| entry.starts_with(&[0xff, 0x25])) =>
            {
                8
            }
            _ => 16,
        };
        let chunks = code.chunks_exact(entry_size as usize).take(left);
        left = left.saturating_sub(code.len() / entry_size as usize);
        for (index, entry) in (0_u64..).zip(chunks) {
            // Stops where addresses would overflow.
            let Some(start) = section.address.0.checked_add(index.saturating_mul(entry_size)) else { break };
            let target = match machine {
                Machine::AARCH64 => slots.aarch64_target(entry, start),
                _ => slots.x86_target(entry, start, machine),
            };
            if let Some(target) = target {
                entries.push(PltEntry { start, end: start.saturating_add(entry_size), target });
            }
        }
    }
    entries
}

/// Returns true if an address lies in a procedure linkage table of the object.
pub(crate) fn covers<D>(object: &Object<D>, address: u64) -> bool {
    let sections = object.sections().iter();
    let mut tables = sections.filter(|section| section.is_executable() && is_plt(&section.name));
    tables.any(|section| address.checked_sub(section.address.0).is_some_and(|offset| offset < section.size))
}

fn is_plt(name: &[u8]) -> bool {
    matches!(name, b".plt" | b".plt.sec" | b".plt.got" | b".plt.bnd" | b".iplt")
}

/// Returns true for `R_…_IRELATIVE` (processor supplements of the System V ABI).
fn is_indirect(kind: u32, machine: Machine) -> bool {
    match machine {
        Machine::X86_64 => kind == 37,
        Machine::I386 => kind == 42,
        Machine::AARCH64 => kind == 1032,
        _ => false,
    }
}

fn target<D: AsRef<[u8]>>(
    object: &Object<D>,
    relocation: &Relocation,
    names: &[NameOffset],
) -> Option<PltTarget> {
    if is_indirect(relocation.kind, object.machine()) {
        // A relocation without an addend has it in the relocated word, which has 32 bits.
        let in_place =
            || Some(i32::from_le_bytes(*object.bytes_at(relocation.address)?.first_chunk()?).into());
        let resolver = relocation.addend.or_else(in_place)? as u64;
        return Some(PltTarget::Resolved(if object.is_64() {
            resolver
        } else {
            resolver & u64::from(u32::MAX)
        }));
    }
    let name = names.get(relocation.symbol as usize).copied().filter(|&name| name != 0)?;
    Some(PltTarget::Named(name))
}

/// The functions whose addresses the slots of the global offset table get.
struct GotSlots {
    by_address: FxHashMap<u64, PltTarget>,
    /// The functions in the order of the relocations for lazy binding.
    lazy: Vec<Option<PltTarget>>,
    /// The address of `_GLOBAL_OFFSET_TABLE_`, which 32-bit position-independent stubs add to their operands.
    table: u64,
}

impl GotSlots {
    fn read<D: AsRef<[u8]>>(object: &Object<D>) -> Self {
        let symbols = object.symbols(SymbolSource::Dynamic).take(MAX_TABLE_ENTRIES);
        let names: Vec<NameOffset> = symbols.map(|symbol| symbol.name_offset).collect();
        let mut left = MAX_ENTRIES;
        let mut slots = Self { by_address: FxHashMap::default(), lazy: Vec::new(), table: 0 };
        slots.table = [".got.plt", ".got"]
            .iter()
            .find_map(|name| object.section(name))
            .map_or(0, |section| section.address.0);
        for section in object.sections() {
            let lazy = matches!(&*section.name, b".rela.plt" | b".rel.plt");
            let others = matches!(&*section.name, b".rela.dyn" | b".rel.dyn" | b".rela.iplt" | b".rel.iplt");
            if !lazy && !others {
                continue;
            }
            for relocation in object.relocations(section) {
                if left == 0 {
                    return slots;
                }
                left -= 1;
                let target = target(object, &relocation, &names);
                if lazy {
                    slots.lazy.push(target);
                }
                if let Some(target) = target {
                    slots.by_address.insert(relocation.address.0, target);
                }
            }
        }
        slots
    }

    fn at(&self, slot: u64) -> Option<PltTarget> {
        self.by_address.get(&slot).copied()
    }

    /// Finds the target of an x86 stub: `jmp *slot(%rip)`, `jmp *slot` or `jmp *offset(%ebx)`; else `push $index` of a
    /// lazy-binding entry.
    fn x86_target(&self, entry: &[u8], start: u64, machine: Machine) -> Option<PltTarget> {
        let jump = (0..entry.len().saturating_sub(5)).find_map(|at| {
            let operand = i32::from_le_bytes(*entry.get(at + 2..)?.first_chunk()?);
            match (entry.get(at)?, entry.get(at + 1)?, machine) {
                (0xff, 0x25, Machine::X86_64) => {
                    let next = start.wrapping_add(at as u64 + 6);
                    self.at(next.wrapping_add_signed(operand.into()))
                }
                (0xff, 0x25, _) => self.at(u64::from(operand as u32)),
                (0xff, 0xa3, Machine::I386) => {
                    self.at(self.table.wrapping_add_signed(operand.into()) & u64::from(u32::MAX))
                }
                _ => None,
            }
        });
        jump.or_else(|| {
            let at = entry.iter().position(|&byte| byte == 0x68).filter(|&at| at <= 4)?;
            let index = u32::from_le_bytes(*entry.get(at + 1..)?.first_chunk()?);
            // 32-bit entries push an offset in the relocation table, whose entries have 8 bytes.
            let index = if machine == Machine::I386 { index / 8 } else { index };
            self.lazy.get(index as usize).copied().flatten()
        })
    }

    /// Finds the target of an AArch64 stub: `adrp x16, page; ldr x17, [x16, #offset]`.
    fn aarch64_target(&self, entry: &[u8], start: u64) -> Option<PltTarget> {
        let words: Vec<u32> = entry
            .chunks_exact(4)
            .filter_map(|word| word.first_chunk().copied().map(u32::from_le_bytes))
            .collect();
        words.windows(2).enumerate().find_map(|(index, pair)| {
            let &[adrp, load] = pair else { return None };
            if adrp & 0x9f00_0000 != 0x9000_0000 || load & 0xffc0_0000 != 0xf940_0000 {
                return None;
            }
            let pages = i64::from(adrp >> 29 & 3) | i64::from(((adrp << 8) as i32) >> 13) << 2;
            let page = start.wrapping_add(index as u64 * 4) & !0xfff;
            let slot = page.wrapping_add_signed(pages << 12).wrapping_add(u64::from(load >> 10 & 0xfff) * 8);
            self.at(slot)
        })
    }
}
