//! Colours that say where a frame ran.

use inferno::flamegraph::color::Color;

/// The colour of the frame that has all samples, which ran nowhere.
pub(crate) const ALL: Color = Color { r: 222, g: 216, b: 203 };

/// The colour of a frame by its label (see [`crate::frame_name`]): grey for what has no name, wherever it ran; else by the
/// suffix amber for the kernel, aqua for inlined functions, green for generated code; all others red. Equal labels have equal
/// colours, in every picture.
pub(crate) fn colour_of(label: &str) -> Color {
    let hash = fnv(label.as_bytes());
    // Two shades that do not depend on each other, each of 0 to `range`.
    let shade = |range: u64| (hash % (range + 1)) as u8;
    let other = |range: u64| ((hash >> 32) % (range + 1)) as u8;
    let (r, g, b) = if is_nameless(label) {
        let grey = 165 + shade(25);
        (grey, grey, grey)
    } else if label.ends_with("_[k]") {
        (232 + shade(18), 165 + other(35), 30)
    } else if label.ends_with("_[i]") {
        (80 + shade(25), 190 + other(25), 195 + shade(25))
    } else if label.ends_with("_[j]") {
        (85 + shade(25), 190 + other(40), 85 + shade(25))
    } else {
        (205 + shade(45), 75 + other(55), 60 + shade(25))
    };
    Color { r, g, b }
}

/// `[module]`, `[module+0x12]_[k]`, `[unknown]`.
fn is_nameless(label: &str) -> bool {
    let name = ["_[k]", "_[i]", "_[j]"].iter().find_map(|suffix| label.strip_suffix(suffix)).unwrap_or(label);
    name.starts_with('[') && name.ends_with(']')
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
        for nameless in ["[libc.so.6]", "[anon]_[j]", "[anon+0x7f00]_[j]", "[ext4]_[k]", "[unknown]"] {
            let colour = colour_of(nameless);
            assert!(colour.r == colour.g && colour.g == colour.b, "{nameless}");
        }
        let generated = colour_of("fib a.js:1_[j]");
        assert!(generated.g > generated.r);
        assert_eq!(colour_of("main"), colour_of("main"));
        assert_ne!(colour_of("main"), colour_of("maim"));
    }
}
