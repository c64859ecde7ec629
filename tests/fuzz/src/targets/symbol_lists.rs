//! Lists of symbols in text: the kernel's, and those that runtimes write about generated code.

use generated::PerfMapSearch;
use model::Avma;
use symbolizer::{Kallsyms, NameStyle, display_name};

pub(super) fn run_kallsyms(bytes: &[u8]) {
    let table = Kallsyms::parse(&String::from_utf8_lossy(bytes));
    let _ = (table.addresses_hidden(), table.is_empty(), table.text_address(model::TextSymbol::Text));
    for address in [0, 0xffff_ffff_8100_0fff, 0xffff_ffff_c000_1080, u64::MAX - 1] {
        let _ = table.find_caller(Avma(address), Avma(address + 1));
    }
}

pub(super) fn run_perf_map(bytes: &[u8]) {
    let addresses = [0, 0x1000, 0x7fff_0000_0010, u64::MAX].map(Avma);
    let mut search = PerfMapSearch::new(addresses);
    for line in bytes.rsplit(|&byte| byte == b'\n') {
        if search.push_line(line).is_break() {
            break;
        }
    }
    for address in addresses {
        if let Some(found) = search.find(address) {
            assert!(!found.name.is_empty() && found.start <= address, "{} at {:?}", found.name, found.start);
        }
    }
}

pub(super) fn run_names(bytes: &[u8]) {
    for name in bytes.split(|&byte| byte == b'\n').take(64) {
        let shown = display_name(name, NameStyle::Demangled);
        assert!(
            shown.len() <= name.len().saturating_mul(3).max(1 << 15),
            "a name grew to {} bytes",
            shown.len()
        );
    }
}

pub(super) fn kallsyms_seeds() -> Vec<Vec<u8>> {
    vec![
        b"ffffffff81000000 T _stext\nffffffff81000000 T _text\nffffffff81000ff0 t __pfx_work\nffffffff81001000 t work\n\
          ffffffffc0001000 t helper\t[ext4]\nffffffffc0001100 T ext4_open\t[ext4]\n"
            .to_vec(),
    ]
}

pub(super) fn perf_map_seeds() -> Vec<Vec<u8>> {
    vec![b"1000 20 LazyCompile:~one a.js:1\n7fff00000000 1f0 two\n0x7fff00000100 0x10 three with blanks\n1000 40 newer\n".to_vec()]
}

pub(super) fn name_seeds() -> Vec<Vec<u8>> {
    vec![
        b"_ZN4core3ptr13drop_in_place17h0123456789abcdefE\n_RNvCs1234_7mycrate3foo\n_ZNSt6vectorIiSaIiEE9push_backEOi"
            .to_vec(),
        b"_RNvMsr_NtCs3ssYzQotkvD_3std4pathNtB5_7PathBuf3newCs15kBYyAo9fc_7mycrate\n_Z1fSt4pairIiiESt4pairIS_S_E\n_Z3foov@@V_1"
            .to_vec(),
    ]
}
