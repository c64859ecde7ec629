//! Tool records from bytes.

use decoder::{Attr, Endian, RawRecord};

use super::{ToolRecord, kind};
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
            kind::AUXTRACE => Self::Auxtrace { size: bytes.u64("size")? },
            kind::EVENT_UPDATE => {
                const NAME: u64 = 2;
                let (update, id) = (bytes.u64("type")?, bytes.u64("id")?);
                match update {
                    NAME => Self::EventName { id, name: until_nul(bytes.rest()) },
                    _ => Self::Other,
                }
            }
            kind::HEADER_FEATURE => {
                Self::HeaderFeature { feature: bytes.u64("feat_id")?, body: bytes.rest() }
            }
            kind::COMPRESSED => Self::Compressed(bytes.rest()),
            kind::COMPRESSED2 => {
                let size = bytes.u64("data_size")?;
                Self::Compressed(bytes.bytes("data", size)?)
            }
            _ => Self::Other,
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
