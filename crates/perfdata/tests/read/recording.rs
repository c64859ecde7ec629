//! Recordings made by hand, in either byte order.

use decoder::record::{Comm, Lost, Mmap};
use decoder::{
    Attr, AttrFlags, CpuMode, Endian, RawRecord, Record, RecordLayout, Sample, SampleFormat, SampleId,
    values::U64s,
};
use model::{CpuId, Pid, Tid, Timestamp};
use prof_perfdata::features::Features;
use prof_perfdata::{EntryKind, Reader};

/// The events of a recording and its records, encoded.
pub(crate) struct Recording {
    pub(crate) endian: Endian,
    pub(crate) attrs: Vec<(Attr, Vec<u64>)>,
    pub(crate) records: Vec<Vec<u8>>,
    pub(crate) features: Features,
}

pub(crate) fn attr(config: u64) -> Attr {
    Attr {
        kind: 1,
        size: 128,
        config,
        sample_format: SampleFormat::IDENTIFIER
            | SampleFormat::IP
            | SampleFormat::TID
            | SampleFormat::TIME
            | SampleFormat::CPU
            | SampleFormat::PERIOD
            | SampleFormat::CALLCHAIN,
        flags: AttrFlags::SAMPLE_ID_ALL | AttrFlags::MMAP | AttrFlags::COMM,
        ..Attr::default()
    }
}

pub(crate) fn tool_record(kind: u32, body: &[u8], endian: Endian) -> Vec<u8> {
    let mut bytes = endian.u32_bytes(kind).to_vec();
    bytes.extend(endian.u16_bytes(0));
    bytes.extend(endian.u16_bytes(body.len() as u16 + 8));
    bytes.extend_from_slice(body);
    bytes
}

impl Recording {
    /// Two events, `samples` samples, and some of everything else.
    pub(crate) fn new(endian: Endian, samples: u64) -> Self {
        let attrs = vec![(attr(0), vec![11, 12]), (attr(2), vec![21])];
        let layout = RecordLayout::new(&attrs[0].0, endian);
        let mut records = Vec::new();
        let mut push = |record: Record<'_>| {
            let mut bytes = Vec::new();
            layout.encode(&record, &mut bytes).unwrap();
            records.push(bytes);
        };
        let id = |time, id| SampleId {
            thread: Some((Pid(7), Tid(8))),
            time: Some(Timestamp(time)),
            cpu: Some(CpuId(1)),
            identifier: Some(id),
            ..SampleId::default()
        };
        push(Record::Comm(Comm { pid: Pid(7), tid: Tid(8), comm: b"burn", exec: true, sample_id: id(0, 0) }));
        push(Record::Mmap(Mmap {
            pid: Pid(7),
            tid: Tid(8),
            start: 0x40_0000,
            len: 0x1000,
            page_offset: 0,
            path: b"/usr/bin/burn",
            extended: None,
            data: false,
            mode: CpuMode::User,
            scan_cut_short: false,
            sample_id: id(5, 11),
        }));
        for number in 0..samples {
            let chain: Vec<u8> =
                (0..number % 9).flat_map(|depth| endian.u64_bytes(0x40_0000 + depth * 16)).collect();
            push(Record::Sample(Sample {
                mode: CpuMode::User,
                exact_ip: false,
                identifier: Some([11, 12, 21][number as usize % 3]),
                ip: Some(0x40_0000 + number),
                thread: Some((Pid(7), Tid(8))),
                time: Some(Timestamp(1000 + number)),
                addr: None,
                id: None,
                stream_id: None,
                cpu: Some(CpuId(0)),
                period: Some(1),
                read: None,
                callchain: Some(U64s::new(&chain, endian)),
                raw: None,
                branch_stack: None,
                user_registers: None,
                user_stack: None,
                weight: None,
                data_source: None,
                transaction: None,
                interrupt_registers: None,
                physical_address: None,
                cgroup: None,
                data_page_size: None,
                code_page_size: None,
                aux: None,
            }));
        }
        push(Record::Lost(Lost { id: 21, lost: 3, sample_id: id(9999, 21) }));
        Self { endian, attrs, records, features: Features::default() }
    }

    pub(crate) fn data(&self) -> Vec<u8> {
        self.records.concat()
    }

    fn u64s(&self, values: &[u64]) -> Vec<u8> {
        values.iter().flat_map(|&value| self.endian.u64_bytes(value)).collect()
    }

    /// The shape of a file, around `data` as its records.
    pub(crate) fn file_with(&self, data: &[u8]) -> Vec<u8> {
        let mut ids = Vec::new();
        let mut attrs = Vec::new();
        for (attr, attr_ids) in &self.attrs {
            attrs.extend(attr.to_bytes(self.endian));
            attrs.extend(self.u64s(&[104 + ids.len() as u64, attr_ids.len() as u64 * 8]));
            ids.extend(self.u64s(attr_ids));
        }
        let sections = self.features.to_sections(self.endian);
        let mut flags = [0_u64; 4];
        for (bit, _) in &sections {
            flags[*bit as usize / 64] |= 1 << (bit % 64);
        }
        let attrs_at = 104 + ids.len() as u64;
        let data_at = attrs_at + attrs.len() as u64;
        let mut file = match self.endian {
            Endian::Little => b"PERFILE2".to_vec(),
            Endian::Big => b"2ELIFREP".to_vec(),
        };
        let entry = 16 + u64::from(self.attrs[0].0.size);
        let words = [104, entry, attrs_at, attrs.len() as u64, data_at, data.len() as u64, 0, 0];
        file.extend(self.u64s(&words));
        file.extend(self.u64s(&flags));
        file.extend(ids);
        file.extend(attrs);
        file.extend(data);
        let mut at = file.len() as u64 + 16 * sections.len() as u64;
        for (_, body) in &sections {
            file.extend(self.u64s(&[at, body.len() as u64]));
            at += body.len() as u64;
        }
        sections.iter().for_each(|(_, body)| file.extend(body));
        file
    }

    pub(crate) fn file(&self) -> Vec<u8> {
        self.file_with(&self.data())
    }

    /// The shape of a pipe, around `data`.
    pub(crate) fn pipe_with(&self, data: &[u8]) -> Vec<u8> {
        let mut pipe = match self.endian {
            Endian::Little => b"PERFILE2".to_vec(),
            Endian::Big => b"2ELIFREP".to_vec(),
        };
        pipe.extend(self.u64s(&[16]));
        for (attr, ids) in &self.attrs {
            let mut body = attr.to_bytes(self.endian);
            body.extend(self.u64s(ids));
            pipe.extend(tool_record(64, &body, self.endian));
        }
        for (bit, section) in self.features.to_sections(self.endian) {
            let mut body = self.u64s(&[bit.into()]);
            body.extend(section);
            pipe.extend(tool_record(80, &body, self.endian));
        }
        pipe.extend(data);
        pipe
    }

    /// The records as the pieces of one zstd frame, with a round's end after each.
    pub(crate) fn compressed(&self, piece: usize, kind: u32) -> Vec<u8> {
        use std::io::Write;
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
        let mut data = Vec::new();
        for bytes in self.data().chunks(piece) {
            encoder.write_all(bytes).unwrap();
            encoder.flush().unwrap();
            let packed = std::mem::take(encoder.get_mut());
            let mut body = Vec::new();
            if kind == 83 {
                body.extend(self.u64s(&[packed.len() as u64]));
            }
            body.extend(&packed);
            if kind == 83 {
                body.resize(body.len().next_multiple_of(8), 0);
            }
            data.extend(tool_record(kind, &body, self.endian));
            data.extend(tool_record(68, &[], self.endian));
        }
        data
    }
}

/// All records of the kernel's types, with the positions of their events; each is released when it was read.
pub(crate) fn kernel_records(reader: &mut Reader) -> Vec<(Option<u32>, Vec<u8>)> {
    let endian = reader.endian();
    let mut records = Vec::new();
    while let Some(entry) = reader.next_entry().unwrap() {
        if entry.kind == EntryKind::Kernel {
            let raw = reader.record(entry.record).unwrap();
            records.push((entry.record.event().map(|event| event.0), whole(&raw, endian)));
        }
        reader.release(entry.record);
    }
    records
}

fn whole(raw: &RawRecord<'_>, endian: Endian) -> Vec<u8> {
    let mut bytes = tool_record(raw.kind, raw.body, endian);
    bytes[4..6].copy_from_slice(&endian.u16_bytes(raw.misc));
    bytes
}
