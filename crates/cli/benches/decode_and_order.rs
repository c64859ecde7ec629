//! Reading a frame-pointer recording, putting it into order and decoding every record of it, in bytes per second,
//! beside only copying the same bytes (`cat file > /dev/null`).

use std::fs::File;
use std::hint::black_box;
use std::io::Read;

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use decoder::record::Lost;
use decoder::values::U64s;
use decoder::{Attr, AttrFlags, Endian, RawRecord, Record, RecordLayout, SampleFormat, SampleId};
use model::{CpuId, Name, Pid, Tid, Timestamp};
use perfdata::features::{EventDescription, Features};
use perfdata::write::{FileWriter, RecordWriter};
use perfdata::{Reader, Source};

/// Samples in the recording: 64 MB of them.
const SAMPLES: u64 = 300_000;
/// Frames in each call chain.
const FRAMES: u64 = 18;
const CPUS: u64 = 4;

fn event(ids: Vec<u64>) -> EventDescription {
    let sample_format = SampleFormat::IDENTIFIER
        | SampleFormat::IP
        | SampleFormat::TID
        | SampleFormat::TIME
        | SampleFormat::CPU
        | SampleFormat::PERIOD
        | SampleFormat::CALLCHAIN;
    let attr = Attr { kind: 1, size: 128, sample_format, flags: AttrFlags::SAMPLE_ID_ALL, ..Attr::default() };
    EventDescription { attr, name: Name::from("cpu-clock"), ids }
}

/// Four rings, drained one after the other in rounds, as recorders do.
fn write_recording(file: &File) -> std::io::Result<()> {
    let event = event((1..=CPUS).collect());
    let layout = RecordLayout::new(&event.attr, Endian::NATIVE);
    let mut writer = FileWriter::create(file, &[event])?;
    let zeros = [0; 256];
    let blank = RawRecord { kind: decoder::kind::SAMPLE, misc: 2, body: &zeros };
    let mut bytes = Vec::new();
    for round in 0..SAMPLES / 4000 {
        for cpu in 0..CPUS {
            bytes.clear();
            for number in 0..1000 {
                let time = round * 1_000_000 + number * 1000 + cpu;
                let chain: Vec<u8> = (0..FRAMES)
                    .flat_map(|depth| Endian::NATIVE.u64_bytes(0x40_0000 + depth * 64 + number % 7))
                    .collect();
                let Ok(mut sample) = layout.decode_sample(&blank) else { continue };
                sample.identifier = Some(cpu + 1);
                sample.ip = Some(0x40_0000 + number % 7);
                sample.thread = Some((Pid(100), Tid(100 + cpu as i32)));
                sample.time = Some(Timestamp(time));
                sample.cpu = Some(CpuId(cpu as u32));
                sample.period = Some(1);
                sample.callchain = Some(U64s::new(&chain, Endian::NATIVE));
                let written = layout.encode(&Record::Sample(sample), &mut bytes);
                debug_assert!(written.is_ok());
            }
            let sample_id = SampleId { time: Some(Timestamp(round * 1_000_000)), ..SampleId::default() };
            let lost = Record::Lost(Lost { id: cpu + 1, lost: 1, sample_id });
            debug_assert!(layout.encode(&lost, &mut bytes).is_ok());
            writer.append(&bytes)?;
        }
        writer.finished_round()?;
    }
    writer.finish(&Features::default()).map(drop)
}

/// What every command does before it looks at a record.
fn decode_in_order(file: &File) -> Result<u64, perfdata::Error> {
    let file = file.try_clone().map_err(|source| perfdata::Error::Io { offset: 0, len: 0, source })?;
    let mut records = Reader::open(Source::File(Box::new(file)))?.in_time_order();
    let mut frames = 0;
    while let Some(record) = records.next_record()? {
        if let Ok(Record::Sample(sample)) = record.decode() {
            frames += black_box(&sample).callchain.map_or(0, |chain| chain.len() as u64);
        }
    }
    Ok(frames)
}

/// `cat file > /dev/null`
fn copy(mut file: &File) -> std::io::Result<u64> {
    use std::io::{Seek, SeekFrom};
    file.seek(SeekFrom::Start(0))?;
    let mut buffer = vec![0; 128 << 10];
    let mut total = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(total),
            count => total += black_box(&buffer).len().min(count) as u64,
        }
    }
}

fn bench(criterion: &mut Criterion) {
    let Ok(file) = tempfile::tempfile() else { return };
    if write_recording(&file).is_err() {
        return;
    }
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    let mut group = criterion.benchmark_group("frame_pointer_recording");
    group.throughput(Throughput::Bytes(size)).sample_size(10).sampling_mode(SamplingMode::Flat);
    group.bench_function(BenchmarkId::new("decode_in_order", size >> 20), |bencher| {
        bencher.iter(|| decode_in_order(&file));
    });
    group.bench_function(BenchmarkId::new("copy", size >> 20), |bencher| bencher.iter(|| copy(&file)));
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
