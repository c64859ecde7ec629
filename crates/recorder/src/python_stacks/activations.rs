//! Activations as bytes: they wait with their sample for its turn.

use python::{Activation, Candidate, Location};

/// A word has the place in its highest byte: addresses of programs end below 2^56.
const LOCATION_SHIFT: u32 = 56;

/// Appends activations: for each the number of its candidates, and the candidates, 8 bytes each.
pub(crate) fn encode_activations(activations: &[Activation], out: &mut Vec<u8>) {
    for activation in activations {
        out.extend((activation.len() as u64).to_ne_bytes());
        for Candidate { location, word } in activation {
            out.extend((u64::from(location.number()) << LOCATION_SHIFT | word).to_ne_bytes());
        }
    }
}

/// Decodes what [`encode_activations`] has appended.
pub(crate) fn decode_activations(bytes: &[u8]) -> Vec<Activation> {
    let mut words = bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word));
    let mut activations = Vec::new();
    while let Some(count) = words.next() {
        let candidate = |word: u64| {
            let location = Location::from_number((word >> LOCATION_SHIFT) as u8);
            Candidate { location, word: word & ((1 << LOCATION_SHIFT) - 1) }
        };
        activations.push(words.by_ref().take(usize::try_from(count).unwrap_or(0)).map(candidate).collect());
    }
    activations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activations_come_back() {
        let candidate = |place: Option<Location>, word| Candidate::new(place, word).unwrap();
        let activations = [
            vec![
                candidate(Location::register(15), 0x7fff_1234_5678),
                candidate(Location::slot(191 * 8), 0xff_ffff_ffff_fffe),
            ],
            vec![],
            vec![candidate(Location::slot(0), 0x10000)],
        ];
        let mut bytes = Vec::new();
        encode_activations(&activations, &mut bytes);
        assert_eq!(decode_activations(&bytes), activations);
        assert_eq!(decode_activations(&[0xff; 20]).len(), 1, "whatever it is, it ends");
    }
}
