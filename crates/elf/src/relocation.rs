use model::Svma;
use object::Endianness;

/// A relocation (ELF specification, "Relocation").
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Relocation {
    /// `r_offset`: the place to be filled in.
    pub address: Svma,
    /// The index of the symbol in the table that `sh_link` names; 0 for none.
    pub symbol: u32,
    /// The relocation's type, as the machine defines it.
    pub kind: u32,
    /// `r_addend`; nothing in a table without addends (`SHT_REL`), where it stands in the place to be filled in.
    pub addend: Option<i64>,
}

const SHT_RELA: u32 = 4;
const SHT_REL: u32 = 9;

pub(crate) fn relocations(
    bytes: &[u8],
    section_kind: u32,
    is_64: bool,
    endian: Endianness,
) -> impl Iterator<Item = Relocation> {
    let entry_size = match (section_kind, is_64) {
        (SHT_REL, false) => 8,
        (SHT_RELA, false) => 12,
        (SHT_REL, true) => 16,
        (SHT_RELA, true) => 24,
        _ => usize::MAX,
    };
    bytes.chunks_exact(entry_size).filter_map(move |entry| relocation(entry, is_64, endian))
}

fn relocation(entry: &[u8], is_64: bool, endian: Endianness) -> Option<Relocation> {
    use object::Endian as _;
    if is_64 {
        let address = endian.read_u64(*entry.first_chunk()?);
        let info = endian.read_u64(*entry.get(8..)?.first_chunk()?);
        let addend = entry.get(16..).and_then(|rest| rest.first_chunk());
        Some(Relocation {
            address: Svma(address),
            symbol: (info >> 32) as u32,
            kind: info as u32,
            addend: addend.map(|addend| endian.read_i64(*addend)),
        })
    } else {
        let address = endian.read_u32(*entry.first_chunk()?);
        let info = endian.read_u32(*entry.get(4..)?.first_chunk()?);
        let addend = entry.get(8..).and_then(|rest| rest.first_chunk());
        Some(Relocation {
            address: Svma(address.into()),
            symbol: info >> 8,
            kind: info & 0xff,
            addend: addend.map(|addend| endian.read_i32(*addend).into()),
        })
    }
}
