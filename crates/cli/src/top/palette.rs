//! Colours of flame graph frames, equal to those of the SVG (inferno's `--colors java`, which recognizes kernel, inlined and
//! generated code by the suffixes of names).

pub(crate) use export::Rgb;

/// The colour of frames that match the search, as in the SVG.
pub(crate) const MATCH_COLOUR: Rgb = (230, 0, 230);

/// The hue of a frame, which shows the kind of its code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hue {
    /// Kernel code.
    Orange,
    /// An inlined function.
    Aqua,
    /// Generated code, or a name that looks like Java.
    Green,
    /// C++ or Rust (a name with `::`), or Objective-C (`-[` or `+[`).
    Yellow,
    /// All other code.
    Red,
}

impl Hue {
    /// Returns the hue of a frame from its name.
    pub(crate) fn from_frame_name(text: &str) -> Self {
        match text.strip_suffix(']').and_then(|text| text.rsplit_once("_[")) {
            Some((_, "k")) => return Self::Orange,
            Some((_, "i")) => return Self::Aqua,
            Some((_, "j")) => return Self::Green,
            _ => {}
        }
        let java = text.strip_prefix('L').unwrap_or(text);
        if text.contains("::") || text.starts_with("-[") || text.starts_with("+[") {
            Self::Yellow
        } else if java.contains('/')
            || java.contains('.') && !java.starts_with('[')
            || java.starts_with(|first: char| first.is_ascii_uppercase())
        {
            Self::Green
        } else {
            Self::Red
        }
    }

    /// Returns a colour from the range of the hue: `part` is from 0 (darkest) to 1.
    pub(crate) fn shade(self, part: f32) -> Rgb {
        let channel = |base: u8, range: f32| base + (range * part) as u8;
        match self {
            Self::Orange => (channel(190, 65.0), channel(90, 65.0), 0),
            Self::Aqua => (channel(50, 60.0), channel(165, 55.0), channel(165, 55.0)),
            Self::Green => (channel(50, 60.0), channel(200, 55.0), channel(50, 60.0)),
            Self::Yellow => (channel(175, 55.0), channel(175, 55.0), channel(50, 20.0)),
            Self::Red => (channel(200, 55.0), channel(50, 80.0), channel(50, 80.0)),
        }
    }
}

/// Returns the colour of a frame. A hash of its name (FNV-1a) chooses the shade, so that it is the same in all pictures.
pub(crate) fn colour(text: &str) -> Rgb {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    Hue::from_frame_name(text).shade((hash as f64 / u64::MAX as f64) as f32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::save::write_svg;
    use live::testing::SnapshotBuilder;
    use live::views::Scope;

    #[test]
    fn colours_are_those_of_the_svg() {
        let names = [
            "main",
            "std::vec::Vec<T>::push_[i]",
            "vfs_read_[k]",
            "lambda_[j]",
            "std::mem::swap",
            "[libc.so.6]",
            "Compile",
            "a.b",
            "java/lang",
            "_[x]",
            "[unknown]",
            "L",
            "x_[]",
        ];
        let mut build = SnapshotBuilder::default();
        for name in names {
            let marks = [("_[k]", "_k_"), ("_[i]", "_i_"), ("_[j]", "_j_")];
            let marked =
                marks.iter().find_map(|(suffix, mark)| Some(format!("{mark}{}", name.strip_suffix(suffix)?)));
            build.stack(1, 1, "comm", &marked.unwrap_or_else(|| name.to_owned()), 10);
        }
        let mut svg = Vec::new();
        write_svg(&build.snapshot(), &Scope::default(), &mut svg).unwrap();
        let svg = String::from_utf8(svg).unwrap();
        let parsing = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        let document = roxmltree::Document::parse_with_options(&svg, parsing).unwrap();
        for name in names {
            // inferno leaves the suffixes out of titles.
            let read = ["_[k]", "_[i]", "_[j]"].iter().find_map(|suffix| name.strip_suffix(suffix));
            let read = format!("{} (", read.unwrap_or(name));
            let frame = document.descendants().find(|node| {
                node.has_tag_name("title") && node.text().is_some_and(|text| text.starts_with(&read))
            });
            let frame = frame.unwrap().parent().unwrap();
            let rect = frame.children().find(|node| node.has_tag_name("rect")).unwrap();
            let (red, green, blue) = colour(name);
            assert_eq!(rect.attribute("fill"), Some(&*format!("rgb({red},{green},{blue})")), "{name}");
        }
    }
}
