//! Data sources of memory accesses (`union perf_mem_data_src`), transactions and page sizes as text, in perf's words
//! (`tools/perf/util/mem-events.c`).

use super::number;

/// Appends the names of the bits that are set, joined by ` or `, and returns how many there are.
fn alternatives(out: &mut Vec<u8>, bits: u64, names: &[&str]) -> usize {
    let mut count = 0;
    for name in names.iter().enumerate().filter(|&(bit, _)| bits >> bit & 1 != 0).map(|(_, name)| name) {
        if count > 0 {
            out.extend_from_slice(b" or ");
        }
        out.extend_from_slice(name.as_bytes());
        count += 1;
    }
    count
}

const LEVELS: [&str; 14] = [
    "N/A",
    "HIT",
    "MISS",
    "L1",
    "LFB",
    "L2",
    "L3",
    "Local RAM",
    "Remote RAM (1 hop)",
    "Remote RAM (2 hops)",
    "Remote Cache (1 hop)",
    "Remote Cache (2 hops)",
    "I/O",
    "Uncached",
];
const LEVEL_HIT: u64 = 2;
const LEVEL_MISS: u64 = 4;
const HOPS: [&str; 5] = ["N/A", "core, same node", "node, same socket", "socket, same board", "board"];
const SNOOPS: [&str; 5] = ["N/A", "None", "Hit", "Miss", "HitM"];
const SNOOPS_EXTENDED: [&str; 2] = ["Fwd", "Peer"];
const TLB: [&str; 7] = ["N/A", "HIT", "MISS", "L1", "L2", "Walker", "Fault"];

/// Appends a data source: `1e05080021 |OP N/A|LVL N/A or N/A|SNP N/A|TLB N/A|LCK N/A|BLK  N/A`.
pub(super) fn data_source(out: &mut Vec<u8>, value: u64) {
    number::hex(out, value, 16);
    let field = |shift: u32, bits: u32| value >> shift & ((1 << bits) - 1);
    let operation = field(0, 5);
    out.extend_from_slice(b" |OP ");
    let operations = [(1, "N/A"), (2, "LOAD"), (4, "STORE"), (8, "PFETCH"), (16, "EXEC")];
    let name = operations.into_iter().find(|(bit, _)| operation & bit != 0).map_or("No", |(_, name)| name);
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"|LVL ");
    level(out, field(5, 14), field(33, 4), field(37, 1) != 0, field(43, 3));
    out.extend_from_slice(b"|SNP ");
    let snoops = alternatives(out, field(19, 5), &SNOOPS);
    let extended = field(38, 2);
    if snoops > 0 && extended != 0 {
        out.extend_from_slice(b" or ");
    }
    if alternatives(out, extended, &SNOOPS_EXTENDED) + snoops == 0 {
        out.extend_from_slice(b"N/A");
    }
    out.extend_from_slice(b"|TLB ");
    let tlb = field(26, 7);
    if alternatives(out, tlb & !(LEVEL_HIT | LEVEL_MISS), &TLB) == 0 {
        out.extend_from_slice(b"N/A");
    }
    hit_or_miss(out, tlb);
    out.extend_from_slice(b"|LCK ");
    out.extend_from_slice(match field(24, 2) {
        lock if lock & 1 != 0 => b"N/A",
        lock if lock & 2 != 0 => b"Yes",
        _ => b"No",
    });
    out.extend_from_slice(b"|BLK ");
    match field(40, 3) {
        blocked if blocked & 1 != 0 || blocked == 0 => out.extend_from_slice(b" N/A"),
        blocked => {
            let reasons = [(2, " Data"), (4, " Addr")];
            for (_, name) in reasons.into_iter().filter(|(bit, _)| blocked & bit != 0) {
                out.extend_from_slice(name.as_bytes());
            }
        }
    }
}

fn level(out: &mut Vec<u8>, level: u64, number: u64, remote: bool, hops: u64) {
    let before = out.len();
    if remote {
        out.extend_from_slice(b"Remote ");
    }
    let mut count = 0;
    if hops == 0 {
        count = alternatives(out, level & !(LEVEL_HIT | LEVEL_MISS), &LEVELS);
    } else {
        out.extend_from_slice(HOPS.get(hops as usize).unwrap_or(&"hops").as_bytes());
        out.push(b' ');
    }
    if number != 0 {
        if count > 0 {
            out.extend_from_slice(b" or ");
        }
        let name = match number {
            5 => "L2 MHB",
            6 => "Memory-side Cache",
            7 => "L0",
            8 => "Uncached",
            9 => "CXL",
            0xa => "I/O",
            0xb => "Any cache",
            0xc => "LFB/MAB",
            0xd => "RAM",
            0xe => "PMEM",
            0xf => "N/A",
            _ => "",
        };
        if name.is_empty() {
            out.push(b'L');
            number::decimal(out, number, 0);
        } else {
            out.extend_from_slice(name.as_bytes());
        }
    }
    if out.len() == before {
        out.extend_from_slice(b"N/A");
    }
    hit_or_miss(out, level);
}

fn hit_or_miss(out: &mut Vec<u8>, bits: u64) {
    if bits & LEVEL_HIT != 0 {
        out.extend_from_slice(b" hit");
    }
    if bits & LEVEL_MISS != 0 {
        out.extend_from_slice(b" miss");
    }
}

/// Appends a page size: `4K`, `2M`, or `N/A` for 0.
pub(super) fn page_size(out: &mut Vec<u8>, bytes: u64) {
    if bytes == 0 {
        return out.extend_from_slice(b"N/A");
    }
    let steps = (0..6).take_while(|step| bytes >> (10 * step) >= 1024).count();
    number::decimal(out, bytes >> (10 * steps), 0);
    out.push(b"BKMGTPE"[steps]);
}

/// Appends the flags (`PERF_TXN_*`) and the abort code of a transaction.
pub(super) fn transaction(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(b" txn:0x");
    number::hex(out, value, 0);
    let flags =
        ["elision", "transaction", "sync", "async", "retry", "conflict", "capacity-write", "capacity-read"];
    for (bit, name) in flags.into_iter().enumerate().filter(|&(bit, _)| value >> bit & 1 != 0) {
        out.push(if value & ((1 << bit) - 1) & 0xff == 0 { b' ' } else { b'|' });
        out.extend_from_slice(name.as_bytes());
    }
    if value >> 32 != 0 {
        out.extend_from_slice(b" abort:0x");
        number::hex(out, value >> 32, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn data_sources_in_perfs_words() {
        let none = text(|out| data_source(out, 0x1e_0508_0021));
        assert_eq!(none, "      1e05080021 |OP N/A|LVL N/A or N/A|SNP N/A|TLB N/A|LCK N/A|BLK  N/A");
        // A load that hit L1, with a locked instruction and a hit in the first TLB.
        let load = 2 | (2 | 8) << 5 | 2 << 19 | 2 << 24 | (2 | 8 | 16) << 26;
        let expected = "|OP LOAD|LVL L1 hit|SNP None|TLB L1 or L2 hit|LCK Yes|BLK  N/A";
        assert!(text(|out| data_source(out, load)).ends_with(expected));
    }

    #[test]
    fn page_sizes_and_transactions() {
        let sizes = [0, 512, 4096, 2 << 20, 1 << 30].map(|size| text(|out| page_size(out, size)));
        assert_eq!(sizes, ["N/A", "512B", "4K", "2M", "1G"]);
        assert_eq!(text(|out| page_size(out, u64::MAX)), "15E");
        assert_eq!(
            text(|out| transaction(out, 5 << 32 | 0b1010)),
            " txn:0x50000000a transaction|async abort:0x5"
        );
    }
}
