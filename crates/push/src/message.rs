//! Messages: bodies of requests, packed.

use std::io::{self, Read};

/// Maximum size of a message, in bytes: far more than engines accept.
const MAX_MESSAGE_BYTES: u64 = 64 << 20;
/// Maximum size, in bytes, of what there is beside a profile: its labels in a query, a file with headers, the headers of an answer, and what
/// the engine says, which is a sentence.
pub(super) const MAX_TEXT_BYTES: usize = 64 << 10;

/// The body of a request, compressed with gzip.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// The query of the URL: `KEY=VALUE&…`, or nothing.
    pub query: String,
    /// The compressed body.
    pub body: Vec<u8>,
}

impl Message {
    /// Returns how many bytes [`Self::to_bytes`] has.
    pub fn size(&self) -> u64 {
        (2 * size_of::<u64>() + self.query.len() + self.body.len()) as u64
    }

    /// Returns the message as bytes, which [`read_messages`] reads: two lengths, the query, the body.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = (self.query.len() as u64).to_le_bytes().to_vec();
        bytes.extend((self.body.len() as u64).to_le_bytes());
        bytes.extend(self.query.as_bytes());
        bytes.extend(&self.body);
        bytes
    }

    fn read(from: &mut impl Read) -> io::Result<Option<Self>> {
        let mut lengths = Vec::new();
        from.by_ref().take(16).read_to_end(&mut lengths)?;
        let (query, body) = match lengths.as_chunks::<8>() {
            ([], []) => return Ok(None),
            ([query, body], []) => (u64::from_le_bytes(*query), u64::from_le_bytes(*body)),
            _ => return Err(io::ErrorKind::UnexpectedEof.into()),
        };
        if query > MAX_TEXT_BYTES as u64 || body > MAX_MESSAGE_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut bytes = |length: u64| {
            let mut bytes = Vec::new();
            from.take(length).read_to_end(&mut bytes)?;
            if bytes.len() as u64 == length {
                Ok(bytes)
            } else {
                Err(io::Error::from(io::ErrorKind::UnexpectedEof))
            }
        };
        let query = String::from_utf8(bytes(query)?).map_err(|_| io::ErrorKind::InvalidData)?;
        if !query.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Some(Self { query, body: bytes(body)? }))
    }
}

/// Reads messages that [`Message::to_bytes`] wrote one behind the other.
pub fn read_messages(mut from: impl Read) -> impl Iterator<Item = io::Result<Message>> {
    std::iter::from_fn(move || Message::read(&mut from).transpose())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_read_as_they_were_written() {
        let one = Message { query: "name=a%20b".to_owned(), body: b"body".to_vec() };
        let two = Message { query: String::new(), body: Vec::new() };
        let bytes = [one.to_bytes(), two.to_bytes()].concat();
        let read: io::Result<Vec<Message>> = read_messages(&bytes[..]).collect();
        assert_eq!(read.unwrap(), [one, two]);
        for cut in 1..bytes.len() {
            let read: Vec<_> = read_messages(&bytes[..cut]).take(5).collect();
            assert!(read.len() <= 3, "{cut}");
        }
        let mut long = bytes.clone();
        long[8..16].fill(0xff);
        assert!(read_messages(&long[..]).next().unwrap().is_err());
    }
}
