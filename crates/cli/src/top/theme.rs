//! What the terminal can show: colours, and characters beyond ASCII.

use std::borrow::Cow;

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;

use live::snapshot::StateKind;
use live::views::Tile;

use super::palette::{self, Hue, Rgb};

/// The number of colours of a terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ColourDepth {
    /// None: `NO_COLOR`, or a terminal that has none.
    None,
    /// The sixteen of old.
    Sixteen,
    /// The 256 of xterm.
    Indexed,
    /// All.
    Rgb,
}

/// The styles that the terminal can show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Theme {
    /// Colours.
    pub(crate) depth: ColourDepth,
    /// True if it shows characters beyond ASCII.
    pub(crate) unicode: bool,
}

impl Theme {
    /// Reads the environment: `NO_COLOR`, `COLORTERM`, `TERM`, and the locale.
    pub(crate) fn of_environment(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name| variable(name).filter(|value| !value.is_empty());
        let term = set("TERM").unwrap_or_default();
        let depth = if set("NO_COLOR").is_some() || matches!(&*term, "" | "dumb" | "vt100" | "vt220") {
            ColourDepth::None
        } else if matches!(set("COLORTERM").as_deref(), Some("truecolor" | "24bit"))
            || term.ends_with("-direct")
        {
            ColourDepth::Rgb
        } else if term.contains("256color") {
            ColourDepth::Indexed
        } else {
            ColourDepth::Sixteen
        };
        let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG")).unwrap_or_default();
        let locale = locale.to_ascii_lowercase();
        // The console's own font lacks most of what we would draw.
        let unicode = term != "linux" && (locale.contains("utf-8") || locale.contains("utf8"));
        Self { depth, unicode }
    }

    /// Of two forms of a text, the one that can be shown.
    pub(crate) fn pick<'a>(&self, unicode: &'a str, ascii: &'a str) -> &'a str {
        if self.unicode { unicode } else { ascii }
    }

    /// A text from the profiled machine, as far as it can be shown. Control characters are gone from it already.
    pub(crate) fn showable<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.unicode || text.is_ascii() {
            return Cow::Borrowed(text);
        }
        text.chars().map(|character| if character.is_ascii() { character } else { '?' }).collect()
    }

    /// A text of at most `width` columns; what is too long ends in an ellipsis.
    pub(crate) fn fit(&self, text: &str, width: usize) -> String {
        let text = self.showable(text);
        if Span::raw(&*text).width() <= width {
            return text.into_owned();
        }
        let ellipsis = self.pick("…", "~");
        let mut fitted = String::new();
        let mut used = 1;
        for character in text.chars() {
            used += Span::raw(character.to_string()).width();
            if used > width {
                break;
            }
            fitted.push(character);
        }
        if width > 0 {
            fitted.push_str(ellipsis);
        }
        fitted
    }

    /// [`Theme::fit`], filled with spaces up to `width`.
    pub(crate) fn pad(&self, text: &str, width: usize) -> String {
        let mut fitted = self.fit(text, width);
        let missing = width.saturating_sub(Span::raw(&*fitted).width());
        fitted.extend(std::iter::repeat_n(' ', missing));
        fitted
    }

    /// A style in this colour where there are colours.
    pub(crate) fn colour(&self, sixteen: Color) -> Style {
        if self.depth == ColourDepth::None { Style::new() } else { Style::new().fg(sixteen) }
    }

    /// The style of text that matters.
    pub(crate) fn strong(&self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The style of text that matters less.
    pub(crate) fn faint(&self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// The row of the cursor.
    pub(crate) fn cursor(&self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// The style of a warning.
    pub(crate) fn warning(&self) -> Style {
        self.colour(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    /// A frame of the flame graph of samples.
    pub(crate) fn tile(&self, text: &str, found: bool, ancestor: bool) -> Style {
        self.frame(palette::colour(text), sixteen(text), found, ancestor)
    }

    /// A frame of the flame graph of time.
    pub(crate) fn tile_of_time(&self, tile: &Tile) -> Style {
        let rgb = export::thread_time_colour(&tile.text, tile.is_off_cpu);
        let colour = match tile.state {
            Some(doing) => state_colour(doing),
            None if tile.is_off_cpu => Color::Gray,
            None => Color::LightRed,
        };
        self.frame(rgb, colour, tile.found, tile.ancestor)
    }

    /// A colour of the legend.
    pub(crate) fn swatch(&self, rgb: Rgb, sixteen: Color) -> Style {
        self.frame(rgb, sixteen, false, false)
    }

    fn frame(&self, rgb: Rgb, colour: Color, found: bool, ancestor: bool) -> Style {
        let (rgb, colour) = if found { (palette::FOUND, Color::Magenta) } else { (rgb, colour) };
        let style = match self.depth {
            ColourDepth::None if found => Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
            ColourDepth::None => Style::new(),
            ColourDepth::Sixteen => Style::new().fg(Color::Black).bg(colour),
            ColourDepth::Indexed => Style::new().fg(Color::Indexed(16)).bg(Color::Indexed(indexed(rgb))),
            ColourDepth::Rgb => Style::new().fg(Color::Rgb(0, 0, 0)).bg(Color::Rgb(rgb.0, rgb.1, rgb.2)),
        };
        if ancestor { style.add_modifier(Modifier::DIM) } else { style }
    }

    /// Text and bars that stand for what threads do; `None` is running.
    pub(crate) fn state_kind(&self, doing: Option<StateKind>) -> Style {
        doing.map_or_else(Style::new, |doing| self.colour(state_colour(doing)))
    }

    /// The character that bars of time are made of: each state has its own, for those who see no colours.
    pub(crate) fn texture(&self, doing: Option<StateKind>) -> &'static str {
        match doing {
            None | Some(StateKind::Running) => self.pick("█", "#"),
            Some(StateKind::Runnable) => self.pick("▓", "+"),
            Some(StateKind::Blocked) => self.pick("▒", "="),
            Some(StateKind::AtRest) => self.pick("─", "-"),
            Some(StateKind::Unknown) => "?",
        }
    }
}

/// The nearest of the sixteen colours to that of the picture.
fn state_colour(doing: StateKind) -> Color {
    match doing {
        StateKind::Running => Color::LightRed,
        StateKind::Runnable => Color::Magenta,
        StateKind::Blocked => Color::Blue,
        StateKind::AtRest => Color::Cyan,
        StateKind::Unknown => Color::DarkGray,
    }
}

fn sixteen(text: &str) -> Color {
    match Hue::of(text) {
        Hue::Orange => Color::Yellow,
        Hue::Aqua => Color::Cyan,
        Hue::Green => Color::Green,
        Hue::Yellow => Color::LightYellow,
        Hue::Red => Color::LightRed,
    }
}

/// The nearest colour of xterm's cube, whose steps are 0, 95, 135, 175, 215, 255.
fn indexed((red, green, blue): Rgb) -> u8 {
    let step = |channel: u8| match channel {
        0..=47 => 0,
        48..=114 => 1,
        _ => (channel - 35) / 40,
    };
    16 + 36 * step(red) + 6 * step(green) + step(blue)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn theme(variables: &[(&str, &str)]) -> Theme {
        Theme::of_environment(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_environment_decides() {
        let xterm = ("TERM", "xterm-256color");
        assert_eq!(
            theme(&[xterm, ("LANG", "de_DE.UTF-8")]),
            Theme { depth: ColourDepth::Indexed, unicode: true }
        );
        assert_eq!(theme(&[xterm, ("COLORTERM", "truecolor")]).depth, ColourDepth::Rgb);
        assert_eq!(theme(&[xterm, ("NO_COLOR", "1")]).depth, ColourDepth::None);
        assert_eq!(
            theme(&[xterm, ("NO_COLOR", "")]).depth,
            ColourDepth::Indexed,
            "empty is unset (no-color.org)"
        );
        assert!(!theme(&[xterm, ("LC_ALL", "C"), ("LANG", "en_US.UTF-8")]).unicode);
        assert_eq!(
            theme(&[("TERM", "linux"), ("LANG", "C.UTF-8")]),
            Theme { depth: ColourDepth::Sixteen, unicode: false }
        );
    }

    #[test]
    fn texts_fit_in_columns_not_in_bytes() {
        let unicode = Theme { depth: ColourDepth::None, unicode: true };
        assert_eq!(unicode.fit("日本語", 5), "日本…");
        assert_eq!(unicode.pad("日本", 5), "日本 ");
        assert_eq!(unicode.fit("abc", 3), "abc");
        assert_eq!(unicode.fit("abcd", 3), "ab…");
        assert_eq!(unicode.fit("abcd", 0), "");
        let ascii = Theme { depth: ColourDepth::None, unicode: false };
        assert_eq!(ascii.fit("añb\u{fffd}", 9), "a?b?");
    }

    #[test]
    fn the_cube() {
        assert_eq!(indexed((0, 0, 0)), 16);
        assert_eq!(indexed((255, 255, 255)), 231);
        assert_eq!(indexed((230, 0, 230)), 16 + 36 * 4 + 4);
    }
}
