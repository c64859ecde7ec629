//! The colours of frames, by the kind of code and by what threads did.

use std::collections::BTreeSet;

use inferno::flamegraph::color::Color;

use crate::waiting::{MARK, State, state_of, unmarked};

/// The colour of the frame of all samples.
pub(crate) const ALL: Color = Color { r: 222, g: 216, b: 203 };

/// Red, green and blue.
pub type Rgb = (u8, u8, u8);

/// The legend of a profile of thread time. The colours differ for red-green colour-blind users as well: running code is
/// warm and dark or green, time off the CPU is blue or violet.
pub const THREAD_TIME_LEGEND: [(&str, Rgb); 5] = [
    ("on the CPU for 5 % or more", (228, 102, 72)),
    ("off the CPU for 95 % or more", (168, 184, 212)),
    ("blocked", rgb(BLOCKED)),
    ("waiting for events", rgb(WAITING)),
    ("runnable", rgb(RUNNABLE)),
];

const fn rgb(color: Color) -> Rgb {
    (color.r, color.g, color.b)
}

/// Returns the colour of a frame by its label. `is_off_cpu` is the result of [`crate::is_off_cpu`], false where time is not drawn.
pub fn frame_colour(label: &str, is_off_cpu: bool) -> Rgb {
    rgb(match is_off_cpu {
        true => colour_of(&format!("{MARK}{label}")),
        false => colour_of(label),
    })
}
const BLOCKED: Color = Color { r: 72, g: 140, b: 214 };
const WAITING: Color = Color { r: 196, g: 226, b: 246 };
const RUNNABLE: Color = Color { r: 178, g: 132, b: 206 };

/// The kinds of code that have colours of their own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum CodeKind {
    User,
    Inlined,
    Kernel,
    Generated,
    Nameless,
}

impl CodeKind {
    /// Returns the kind of the code that a label names. Labels of threads are of user code.
    fn of(label: &str) -> Self {
        if is_nameless(label) {
            Self::Nameless
        } else if label.ends_with("_[k]") {
            Self::Kernel
        } else if label.ends_with("_[i]") {
            Self::Inlined
        } else if label.ends_with("_[j]") {
            Self::Generated
        } else {
            Self::User
        }
    }

    /// Returns a colour of this kind; `shade` and `other` return numbers from 0 to their argument.
    fn colour(self, shade: impl Fn(u64) -> u8, other: impl Fn(u64) -> u8) -> Color {
        let (r, g, b) = match self {
            Self::Nameless => {
                let grey = 165 + shade(25);
                (grey, grey, grey)
            }
            Self::Kernel => (238 + shade(14), 198 + other(28), 70 + shade(24)),
            Self::Inlined => (80 + shade(25), 190 + other(25), 195 + shade(25)),
            Self::Generated => (85 + shade(25), 190 + other(40), 85 + shade(25)),
            Self::User => (200 + shade(40), 78 + other(42), 58 + shade(25)),
        };
        Color { r, g, b }
    }
}

/// Returns the colours of frames with these labels, each with its meaning; nothing if all are of one kind.
pub(crate) fn legend<'l>(labels: impl Iterator<Item = &'l str>) -> Vec<(&'static str, Rgb)> {
    let kinds: BTreeSet<CodeKind> = labels.map(CodeKind::of).collect();
    if kinds.len() < 2 {
        return Vec::new();
    }
    let meaning = |kind| match kind {
        CodeKind::User => "user code",
        CodeKind::Inlined => "inlined",
        CodeKind::Kernel => "kernel",
        CodeKind::Generated => "generated code",
        CodeKind::Nameless => "no name",
    };
    let middle = |range: u64| (range / 2) as u8;
    kinds.into_iter().map(|kind| (meaning(kind), rgb(kind.colour(middle, middle)))).collect()
}

/// Returns the colour of a frame by its label (see [`crate::frame_name`]): grey for frames without a name, yellow for the
/// kernel, aqua for inlined functions, green for generated code, and red for all others. Frames marked as off the CPU are
/// grey-blue, and states of threads have colours of their own. Equal labels have equal colours in every picture.
pub(crate) fn colour_of(label: &str) -> Color {
    let (label, is_waiting) = unmarked(label);
    match state_of(label) {
        Some(State::Blocked) => return BLOCKED,
        Some(State::Waiting) => return WAITING,
        Some(State::Runnable) => return RUNNABLE,
        Some(State::Unknown) | None => {}
    }
    let hash = fnv(label.as_bytes());
    // Two independent shades, each from 0 to `range`.
    let shade = |range: u64| (hash % (range + 1)) as u8;
    let other = |range: u64| ((hash >> 32) % (range + 1)) as u8;
    let kind = CodeKind::of(label);
    if is_waiting && kind != CodeKind::Nameless {
        // Kernel frames are paler.
        let pale = if kind == CodeKind::Kernel { 24 } else { 0 };
        return Color { r: 150 + pale + shade(16), g: 168 + pale + shade(16), b: 200 + pale + other(12) };
    }
    kind.colour(shade, other)
}

/// Returns true for labels without a function: `[module]`, `[module+0x12]_[k]`, `[unknown]`.
fn is_nameless(label: &str) -> bool {
    let name = ["_[k]", "_[i]", "_[j]"].iter().find_map(|suffix| label.strip_suffix(suffix)).unwrap_or(label);
    name.starts_with('[') && name.ends_with(']') && name != "[start]"
}

/// Hashes by FNV-1a, with a final mix so that short labels that differ in their last letter differ in all bits.
fn fnv(bytes: &[u8]) -> u64 {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    (hash ^ (hash >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::vision::Cone;
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
        let states = ["[blocked: futex]", "[blocked]", "[waiting: epoll]", "[runnable: woken]", "\u{2}main"]
            .map(colour_of);
        assert!(states.iter().all(|colour| colour.b > colour.r && colour.b > colour.g));
        assert_eq!((states[0], states[0] == states[2]), (states[1], false));
        assert_eq!(legend(["main", "a_[k]", "b"].into_iter()).len(), 2);
        assert!(legend(["main", "b"].into_iter()).is_empty());
        assert_eq!(colour_of("main"), colour_of("main"));
        assert_ne!(colour_of("main"), colour_of("maim"));
    }

    #[test]
    fn kernel_and_user_code_differ_for_those_who_see_no_red_or_no_green() {
        let ends = |kind: CodeKind| {
            let most = |range: u64| range as u8;
            [
                kind.colour(|_| 0, |_| 0),
                kind.colour(most, |_| 0),
                kind.colour(|_| 0, most),
                kind.colour(most, most),
            ]
        };
        for user in ends(CodeKind::User) {
            for kernel in ends(CodeKind::Kernel) {
                for missing in [Cone::Long, Cone::Middle] {
                    let distance = missing.distance(rgb(user), rgb(kernel));
                    assert!(distance > 60.0, "{user:?} {kernel:?} {missing:?}: {distance}");
                }
            }
        }
    }
}

/// Colours as people see them who lack one kind of cones, by Viénot, Brettel and Mollon (1999), without their gamma.
#[cfg(test)]
pub(crate) mod vision {
    use super::Rgb;

    #[derive(Clone, Copy, Debug)]
    pub(crate) enum Cone {
        /// Protanopes.
        Long,
        /// Deuteranopes.
        Middle,
    }

    impl Cone {
        /// The distance of two colours as they are seen.
        pub(crate) fn distance(self, one: Rgb, other: Rgb) -> f64 {
            let (one, other) = (self.seen(one), self.seen(other));
            one.iter().zip(other).map(|(one, other)| (one - other).powi(2)).sum::<f64>().sqrt()
        }

        fn seen(self, (r, g, b): Rgb) -> [f64; 3] {
            let [r, g, b] = [r, g, b].map(f64::from);
            let (red, blue) = match self {
                Self::Long => (0.11238, 0.00401),
                Self::Middle => (0.29275, -0.02234),
            };
            let yellow = red * r + (1.0 - red) * g;
            [yellow, yellow, blue * r - blue * g + b]
        }
    }
}
