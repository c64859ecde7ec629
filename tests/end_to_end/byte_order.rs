//! A recording from a machine of the other byte order: a real one with every number swapped must say what the original
//! says.

use std::ffi::OsStr;
use std::path::Path;

use decoder::{Endian, RecordLayout};
use perfdata::tool::kind::FINISHED_ROUND;
use perfdata::{EntryKind, Reader, Source};

use super::prof::{folder, may_record, prof, record, run};
use super::programs;

/// The header's size, and that of an attr with its section of ids.
const HEADER: u64 = 104;
const ATTR: u64 = 128;

fn words(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_be_bytes()).collect()
}

/// The recording as a machine with the most significant byte first would have written it. Records of tools are left out,
/// but for the ends of rounds: none of them says anything of a sample.
fn swapped(bytes: Vec<u8>) -> Vec<u8> {
    let mut reader = Reader::open(Source::File(Box::new(bytes))).unwrap();
    assert_eq!(reader.endian(), Endian::Little);
    let mut data = Vec::new();
    while let Some(entry) = reader.next_entry().unwrap() {
        match entry.kind {
            EntryKind::Kernel => {
                let event = entry.record.event().map_or(0, |event| event.0 as usize);
                let other = RecordLayout::new(&reader.events()[event].attr, Endian::Big);
                let (raw, layout) = reader.record_and_layout(entry.record).unwrap();
                other.encode(&layout.decode(&raw).unwrap(), &mut data).unwrap();
            }
            EntryKind::RoundEnd => {
                data.extend(FINISHED_ROUND.to_be_bytes());
                data.extend([0, 0, 0, 8]);
            }
            EntryKind::Tool | EntryKind::Unknown => {}
        }
    }
    let (mut ids, mut attrs) = (Vec::new(), Vec::new());
    for event in reader.events() {
        let mut attr = event.attr.clone();
        attr.size = ATTR as u32;
        attrs.extend(attr.to_bytes(Endian::Big));
        attrs.extend(words(&[HEADER + ids.len() as u64, event.ids.len() as u64 * 8]));
        ids.extend(words(&event.ids));
    }
    let sections = reader.features().to_sections(Endian::Big);
    let mut flags = [0_u64; 4];
    for (bit, _) in &sections {
        flags[*bit as usize / 64] |= 1 << (bit % 64);
    }
    let attrs_at = HEADER + ids.len() as u64;
    let data_at = attrs_at + attrs.len() as u64;
    let mut file = b"2ELIFREP".to_vec();
    file.extend(words(&[HEADER, ATTR + 16, attrs_at, attrs.len() as u64, data_at, data.len() as u64, 0, 0]));
    file.extend(words(&flags));
    file.extend([ids, attrs, data].concat());
    let mut at = file.len() as u64 + 16 * sections.len() as u64;
    for (_, body) in &sections {
        file.extend(words(&[at, body.len() as u64]));
        at += body.len() as u64;
    }
    sections.iter().for_each(|(_, body)| file.extend(body));
    file
}

fn compare(folder: &Path, file: &Path) {
    let other = folder.join("other-order.data");
    std::fs::write(&other, swapped(std::fs::read(file).unwrap())).unwrap();
    let fields = "comm,pid,tid,cpu,time,event,period,addr,ip,sym,symoff,dso";
    let ours = |arguments: &[&str], file: &Path| run(prof(arguments).arg("-i").arg(file)).ok().stdout;
    for arguments in [&["script", "-F", fields][..], &["flame", "--folded", "--event", "cpu-clock"]] {
        let (here, there) = (ours(arguments, file), ours(arguments, &other));
        assert!(here.len() > 1000, "{arguments:?} prints nothing");
        assert_eq!(String::from_utf8_lossy(&there), String::from_utf8_lossy(&here), "{arguments:?}");
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_recording_reads_the_same_in_either_byte_order() {
    if !may_record() {
        return;
    }
    let folder = folder();
    let Some(program) = programs::c("paths") else { return };
    let flags = ["-e", "page-faults", "--call-graph", "fp", "--data", "--switch-events"];
    let command = [program.as_os_str(), OsStr::new("1"), OsStr::new("100")];
    let (file, run) = record(folder.path(), &flags, &command);
    run.ok();
    compare(folder.path(), &file);
}
