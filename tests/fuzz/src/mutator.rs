//! Changes bytes as files are damaged, and as those who mean harm would change them.

/// A generator of numbers that are the same for the same seed (xorshift64*).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator. Every seed gives another sequence.
    pub fn new(seed: u64) -> Self {
        // Never zero, which the generator would stay at.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `bound`; 0 where that is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { (self.number() % bound as u64) as usize }
    }
}

/// Numbers at which sizes, counts and offsets turn.
const TELLING: [u64; 22] = [
    0,
    1,
    2,
    7,
    8,
    9,
    16,
    63,
    64,
    104,
    128,
    0xff,
    0x7fff,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 32,
    1 << 61,
    1 << 63,
    u64::MAX - 7,
    u64::MAX,
];

/// `input` with one to eight changes; parts may come from `other`.
pub fn mutate(input: &[u8], other: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..=rng.below(8) {
        change(&mut bytes, other, rng);
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, other: &[u8], rng: &mut Rng) {
    // Headers decide most: half of all changes fall into the first KB.
    let len = bytes.len();
    let reach = if rng.below(2) == 0 { len.min(1024) } else { len };
    let at = rng.below(reach);
    match rng.below(12) {
        0 | 1 => flip(bytes, at, rng),
        2 => overwrite(bytes, at, &[rng.number() as u8]),
        3..=5 => {
            // A number of any width, mostly where numbers lie, in either byte order.
            let width = [1, 2, 4, 8][rng.below(4)];
            let value = TELLING[rng.below(TELLING.len())].to_le_bytes();
            let mut value = value[..width].to_vec();
            if rng.below(4) == 0 {
                value.reverse();
            }
            overwrite(bytes, at / width * width, &value);
        }
        6 => nudge(bytes, at, rng),
        7 => bytes.truncate(rng.below(len + 1)),
        8 => {
            let end = (at + 1 + rng.below(64)).min(len);
            bytes.drain(at.min(end)..end);
        }
        9 => {
            let end = (at + 1 + rng.below(256)).min(len);
            let copy = bytes.get(at..end).unwrap_or(&[]).to_vec();
            let to = rng.below(len + 1);
            bytes.splice(to..to, copy);
        }
        10 => {
            let from = rng.below(other.len());
            let end = (from + 1 + rng.below(512)).min(other.len());
            overwrite(bytes, at, other.get(from..end).unwrap_or(&[]));
        }
        _ => {
            let fill = [0, 0xff, rng.number() as u8][rng.below(3)];
            let count = 1 + rng.below(32);
            overwrite(bytes, at, &vec![fill; count]);
        }
    }
}

fn flip(bytes: &mut [u8], at: usize, rng: &mut Rng) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= 1 << rng.below(8);
    }
}

/// A little more or less than before.
fn nudge(bytes: &mut [u8], at: usize, rng: &mut Rng) {
    let by = rng.below(17) as u8;
    if let Some(byte) = bytes.get_mut(at) {
        *byte = byte.wrapping_add(by).wrapping_sub(8);
    }
}

fn overwrite(bytes: &mut [u8], at: usize, with: &[u8]) {
    bytes.iter_mut().skip(at).zip(with).for_each(|(byte, &new)| *byte = new);
}
