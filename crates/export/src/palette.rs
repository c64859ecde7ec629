//! Colours that say where a frame ran.

use inferno::flamegraph::color::Color;

/// The colour of the frame that has all samples, which ran nowhere.
pub(crate) const ALL: Color = Color { r: 222, g: 216, b: 203 };

/// The colour of a frame by the suffix of its label (see [`crate::frame_name`]): amber for the kernel, aqua for
/// inlined functions, green for generated code, grey for what has no name; all others red. Equal labels
/// have equal colours, in every picture.
pub(crate) fn colour_of(label: &str) -> Color {
    let hash = fnv(label.as_bytes());
    // Two shades that do not depend on each other, each of 0 to `range`.
    let shade = |range: u64| (hash % (range + 1)) as u8;
    let other = |range: u64| ((hash >> 32) % (range + 1)) as u8;
    let (r, g, b) = if label.ends_with("_[k]") {
        (232 + shade(18), 165 + other(35), 30)
    } else if label.ends_with("_[i]") {
        (80 + shade(25), 190 + other(25), 195 + shade(25))
    } else if label.ends_with("_[j]") {
        (85 + shade(25), 190 + other(40), 85 + shade(25))
    } else if label.starts_with('[') && label.ends_with(']') {
        let grey = 165 + shade(25);
        (grey, grey, grey)
    } else {
        (205 + shade(45), 75 + other(55), 60 + shade(25))
    };
    Color { r, g, b }
}

/// FNV-1a, folded once more so that short labels that differ in their last letter differ in all bits.
fn fnv(bytes: &[u8]) -> u64 {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    (hash ^ (hash >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_apart() {
        let kernel = colour_of("do_syscall_64_[k]");
        assert!(kernel.r > kernel.g && kernel.g > kernel.b);
        let nameless = colour_of("[libc.so.6]");
        assert!(nameless.r == nameless.g && nameless.g == nameless.b);
        let generated = colour_of("[anon]_[j]");
        assert!(generated.g > generated.r);
        assert_eq!(colour_of("main"), colour_of("main"));
        assert_ne!(colour_of("main"), colour_of("maim"));
    }
}
