//! Words of frames as bytes: they wait with their sample for its turn.

use javascript::FrameWords;
use stacks::IndexedWords;

/// Appends words: for each frame its number, and its words, 8 bytes each.
pub(crate) fn encode_words(words: &[IndexedWords], out: &mut Vec<u8>) {
    for IndexedWords { index, words } in words {
        for word in [*index, words.function, words.bytecode, words.offset] {
            out.extend(word.to_ne_bytes());
        }
    }
}

/// Decodes what [`encode_words`] has appended into `words`, in place of what they hold.
pub(crate) fn decode_words(bytes: &[u8], words: &mut Vec<IndexedWords>) {
    words.clear();
    words.extend(bytes.as_chunks::<32>().0.iter().map(|frame| {
        let mut next = frame.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word));
        let mut word = || next.next().unwrap_or(0);
        let index = word();
        IndexedWords { index, words: FrameWords { function: word(), bytecode: word(), offset: word() } }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back() {
        let frame = |index| IndexedWords {
            index,
            words: FrameWords { function: index + 1, bytecode: index + 2, offset: u64::MAX - index },
        };
        let (words, mut bytes, mut found) = ([frame(0), frame(7)], Vec::new(), vec![frame(9)]);
        encode_words(&words, &mut bytes);
        decode_words(&bytes, &mut found);
        assert_eq!(found, words);
        decode_words(&[0xff; 40], &mut found);
        assert_eq!(found.len(), 1, "whatever it is, it ends");
    }
}
