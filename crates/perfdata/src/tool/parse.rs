//! Tool records from bytes.

use decoder::{Attr, Endian, RawRecord};

use super::{AuxtraceError, CpuMap, EventUpdate, IdIndexEntry, ToolRecord, kind};
use crate::bytes::{Bytes, until_nul};
use crate::error::Error;
use crate::features::parse::build_id_record;
use crate::sections::Piece;

impl<'a> ToolRecord<'a> {
    /// Decodes a tool record; `None` for a type that this version does not know.
    ///
    /// # Errors
    /// [`Error::Cut`], [`Error::Field`] or [`Error::Attr`] where its bytes are damaged.
    pub fn parse(raw: &RawRecord<'a>, endian: Endian) -> Result<Option<Self>, Error> {
        let Some(name) = kind::name(raw.kind) else { return Ok(None) };
        let mut bytes = Bytes::new(raw.body, name, endian);
        let bytes = &mut bytes;
        Ok(Some(match raw.kind {
            kind::HEADER_ATTR => header_attr(raw.body, endian)?,
            kind::HEADER_EVENT_TYPE => match Piece::parse(raw.body, endian) {
                Some(piece) => Self::Section(piece),
                None => Self::HeaderEventType { id: bytes.u64("id")?, name: until_nul(bytes.rest()) },
            },
            kind::HEADER_TRACING_DATA | kind::SIMPLEPERF_TRACING_DATA => {
                let size = bytes.u32("size")?;
                let rest = bytes.rest();
                // perf's record has at most some bytes of padding there.
                let is_inside =
                    raw.kind == kind::SIMPLEPERF_TRACING_DATA || rest.len() >= (size as usize).max(8);
                let inside = rest.get(..size as usize).unwrap_or(rest);
                Self::HeaderTracingData { size, inside: if is_inside { inside } else { &[] } }
            }
            kind::HEADER_BUILD_ID => Self::HeaderBuildId(build_id_record(raw.body, raw.misc, endian, true)?),
            kind::FINISHED_ROUND => Self::FinishedRound,
            kind::ID_INDEX => {
                let count = bytes.u64("nr")?;
                Self::IdIndex(bytes.list(count, |bytes| {
                    Ok(IdIndexEntry {
                        id: bytes.u64("id")?,
                        index: bytes.u64("idx")?,
                        cpu: bytes.u64("cpu")?,
                        tid: bytes.u64("tid")?,
                    })
                })?)
            }
            kind::AUXTRACE_INFO => {
                let kind = bytes.u32("type")?;
                bytes.u32("padding")?;
                let count = bytes.remaining() as u64 / 8;
                Self::AuxtraceInfo { kind, private: bytes.list(count, |bytes| bytes.u64("priv"))? }
            }
            kind::AUXTRACE => Self::Auxtrace {
                size: bytes.u64("size")?,
                offset: bytes.u64("offset")?,
                reference: bytes.u64("reference")?,
                index: bytes.u32("idx")?,
                tid: bytes.u32("tid")?,
                cpu: bytes.u32("cpu")?,
            },
            kind::AUXTRACE_ERROR => Self::AuxtraceError(auxtrace_error(bytes)?),
            kind::THREAD_MAP => {
                let count = bytes.u64("nr")?;
                Self::ThreadMap(
                    bytes
                        .list(count, |bytes| Ok((bytes.u64("pid")?, until_nul(bytes.bytes("comm", 16)?))))?,
                )
            }
            kind::CPU_MAP => Self::CpuMap(CpuMap::parse(bytes)?),
            kind::STAT_CONFIG => {
                let count = bytes.u64("nr")?;
                Self::StatConfig(bytes.list(count, |bytes| Ok((bytes.u64("tag")?, bytes.u64("val")?)))?)
            }
            kind::STAT => Self::Stat {
                id: bytes.u64("id")?,
                cpu: bytes.u32("cpu")?,
                thread: bytes.u32("thread")?,
                value: bytes.u64("val")?,
                enabled: bytes.u64("ena")?,
                running: bytes.u64("run")?,
            },
            kind::STAT_ROUND => Self::StatRound { kind: bytes.u64("type")?, time: bytes.u64("time")? },
            kind::EVENT_UPDATE => {
                let update = bytes.u64("type")?;
                let id = bytes.u64("id")?;
                let update = match update {
                    0 => EventUpdate::Unit(until_nul(bytes.rest())),
                    1 => EventUpdate::Scale(f64::from_bits(bytes.u64("scale")?)),
                    2 => EventUpdate::Name(until_nul(bytes.rest())),
                    3 => EventUpdate::Cpus(CpuMap::parse(bytes)?),
                    unknown => EventUpdate::Unknown(unknown),
                };
                Self::EventUpdate { id, update }
            }
            kind::TIME_CONV => {
                let (shift, mult, zero) =
                    (bytes.u64("time_shift")?, bytes.u64("time_mult")?, bytes.u64("time_zero")?);
                let short = if bytes.remaining() >= 16 {
                    Some((bytes.u64("time_cycles")?, bytes.u64("time_mask")?))
                } else {
                    None
                };
                Self::TimeConv { shift, mult, zero, short }
            }
            kind::HEADER_FEATURE => {
                Self::HeaderFeature { feature: bytes.u64("feat_id")?, body: bytes.rest() }
            }
            kind::COMPRESSED => Self::Compressed(bytes.rest()),
            kind::COMPRESSED2 => {
                let size = bytes.u64("data_size")?;
                Self::Compressed(bytes.bytes("data", size)?)
            }
            kind::FINISHED_INIT => Self::FinishedInit,
            kind::BPF_METADATA => {
                let program = until_nul(bytes.bytes("prog_name", 64)?);
                let count = bytes.u64("nr_entries")?;
                let variables = bytes.list(count, |bytes| {
                    Ok((
                        until_nul(bytes.bytes("event_name", 64)?),
                        until_nul(bytes.bytes("event_value", 256)?),
                    ))
                })?;
                Self::BpfMetadata { program, variables }
            }
            kind::SCHEDSTAT_CPU => {
                let (timestamp, cpu) = (bytes.u64("timestamp")?, bytes.u32("cpu")?);
                let version = bytes.u16("version")?;
                bytes.u16("padding")?;
                Self::SchedstatCpu { timestamp, cpu, version, body: bytes.rest() }
            }
            kind::SCHEDSTAT_DOMAIN => {
                let (timestamp, cpu) = (bytes.u64("timestamp")?, bytes.u32("cpu")?);
                let (version, domain) = (bytes.u16("version")?, bytes.u16("domain")?);
                Self::SchedstatDomain { timestamp, cpu, version, domain, body: bytes.rest() }
            }
            _ => return Ok(None),
        }))
    }
}

fn header_attr<'a>(body: &'a [u8], endian: Endian) -> Result<ToolRecord<'a>, Error> {
    let attr = Attr::parse(body, endian).map_err(|source| Error::Attr {
        section: "HEADER_ATTR",
        index: 0,
        source,
    })?;
    let ids = body.get(attr.size as usize..).unwrap_or(&[]);
    let ids = ids.chunks_exact(8).filter_map(|id| Some(endian.u64(*id.first_chunk()?))).collect();
    Ok(ToolRecord::HeaderAttr { attr: Box::new(attr), ids })
}

fn auxtrace_error<'a>(bytes: &mut Bytes<'a>) -> Result<AuxtraceError<'a>, Error> {
    let kind = bytes.u32("type")?;
    let code = bytes.u32("code")?;
    let cpu = bytes.u32("cpu")?;
    let pid = bytes.u32("pid")?;
    let tid = bytes.u32("tid")?;
    // 0: the first form, whose message begins where later ones have a time.
    let format = bytes.u32("fmt")?;
    let ip = bytes.u64("ip")?;
    let time = if format == 0 { 0 } else { bytes.u64("time")? };
    let rest = bytes.rest();
    let message = until_nul(rest.get(..64).unwrap_or(rest));
    Ok(AuxtraceError { kind, code, cpu, pid, tid, ip, time, message })
}
