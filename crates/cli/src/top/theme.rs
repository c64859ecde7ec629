//! What the terminal can show (colours, characters beyond ASCII), and the styles of texts, for dark and light backgrounds alike.

use std::borrow::Cow;

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;

use export::Rgb;
use live::snapshot::StateKind;
use live::views::Tile;

/// The colour of frames that match the search, as in the SVG.
const MATCH_COLOUR: Rgb = (230, 0, 230);
/// The colour of texts about the kernel, and of warnings: readable on dark and light backgrounds.
const ORANGE: Rgb = (190, 90, 0);

/// The styles that the terminal can show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Theme {
    /// True if colours are wanted (`NO_COLOR` is not set) and the terminal has some. All but the oldest know xterm's 256.
    pub(crate) colours: bool,
    /// True if the terminal shows characters beyond ASCII.
    pub(crate) unicode: bool,
}

impl Theme {
    /// Reads the abilities of the terminal from the environment: `NO_COLOR`, `TERM`, and the locale.
    pub(crate) fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name| variable(name).filter(|value| !value.is_empty());
        let term = set("TERM").unwrap_or_default();
        let colours = set("NO_COLOR").is_none() && !matches!(&*term, "" | "dumb" | "vt100" | "vt220");
        let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG")).unwrap_or_default();
        let locale = locale.to_ascii_lowercase();
        // The font of the Linux console lacks most of the characters that we would draw.
        let unicode = term != "linux" && (locale.contains("utf-8") || locale.contains("utf8"));
        Self { colours, unicode }
    }

    /// Returns the one of two forms of a text that the terminal can show.
    pub(crate) fn pick<'a>(&self, unicode: &'a str, ascii: &'a str) -> &'a str {
        if self.unicode { unicode } else { ascii }
    }

    /// Replaces the characters of a text that the terminal cannot show by `?`. The text must not contain control characters.
    pub(crate) fn showable<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.unicode || text.is_ascii() {
            return Cow::Borrowed(text);
        }
        text.chars().map(|character| if character.is_ascii() { character } else { '?' }).collect()
    }

    /// Cuts a text to at most `width` columns; a cut text ends in an ellipsis.
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

    /// Cuts a text like [`Theme::fit`], and fills it with spaces up to `width` columns.
    pub(crate) fn pad(&self, text: &str, width: usize) -> String {
        let mut fitted = self.fit(text, width);
        let missing = width.saturating_sub(Span::raw(&*fitted).width());
        fitted.extend(std::iter::repeat_n(' ', missing));
        fitted
    }

    /// Returns a style with this text colour, or without colour if the terminal has none.
    fn colour(&self, colour: Color) -> Style {
        if self.colours { Style::new().fg(colour) } else { Style::new() }
    }

    /// The style of kernel functions in lists.
    pub(crate) fn kernel(&self) -> Style {
        self.colour(indexed(ORANGE))
    }

    /// The style of emphasized text.
    pub(crate) fn strong(&self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The style of secondary text.
    pub(crate) fn faint(&self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// The style of the row with the cursor.
    pub(crate) fn cursor(&self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// The style of a warning.
    pub(crate) fn warning(&self) -> Style {
        self.kernel().add_modifier(Modifier::BOLD)
    }

    /// The style of a frame in a flame graph of samples.
    pub(crate) fn tile(&self, text: &str, found: bool, ancestor: bool) -> Style {
        self.frame(export::frame_colour(text, false), found, ancestor)
    }

    /// The style of a frame in a flame graph of time (`--off-cpu`).
    pub(crate) fn tile_of_time(&self, tile: &Tile) -> Style {
        self.frame(export::frame_colour(&tile.text, tile.is_off_cpu), tile.found, tile.ancestor)
    }

    /// The style of a colour in the legend.
    pub(crate) fn swatch(&self, rgb: Rgb) -> Style {
        self.frame(rgb, false, false)
    }

    /// Black text on a colour, whatever the terminal's own are.
    fn frame(&self, rgb: Rgb, found: bool, ancestor: bool) -> Style {
        let rgb = if found { MATCH_COLOUR } else { rgb };
        let style = match self.colours {
            true => Style::new().fg(indexed((0, 0, 0))).bg(indexed(rgb)),
            false if found => Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
            false => Style::new(),
        };
        if ancestor { style.add_modifier(Modifier::DIM) } else { style }
    }

    /// The style of text and bars for a thread state; `None` means running.
    pub(crate) fn state_kind(&self, state: Option<StateKind>) -> Style {
        state.map_or_else(Style::new, |state| self.colour(state_colour(state)))
    }

    /// The character that fills bars of time in a state. It differs between states, so that bars can be read without colours.
    pub(crate) fn texture(&self, state: Option<StateKind>) -> &'static str {
        match state {
            None | Some(StateKind::Running) => self.pick("█", "#"),
            Some(StateKind::Runnable) => self.pick("▓", "+"),
            Some(StateKind::Blocked) => self.pick("▒", "="),
            Some(StateKind::AtRest) => self.pick("─", "-"),
            Some(StateKind::Unknown) => "?",
        }
    }
}

/// Returns the text colour of a state: one of the sixteen that follow the terminal's background, near to that in the SVG.
fn state_colour(state: StateKind) -> Color {
    match state {
        StateKind::Running => Color::LightRed,
        StateKind::Runnable => Color::Magenta,
        StateKind::Blocked => Color::Blue,
        StateKind::AtRest => Color::Cyan,
        StateKind::Unknown => Color::DarkGray,
    }
}

/// Returns the nearest colour of xterm's cube, whose steps are 0, 95, 135, 175, 215, 255.
pub(super) fn indexed((red, green, blue): Rgb) -> Color {
    let step = |channel: u8| match channel {
        0..=47 => 0,
        48..=114 => 1,
        _ => (channel - 35) / 40,
    };
    Color::Indexed(16 + 36 * step(red) + 6 * step(green) + step(blue))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn theme(variables: &[(&str, &str)]) -> Theme {
        Theme::from_environment(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_environment_decides() {
        let xterm = ("TERM", "xterm-256color");
        assert_eq!(theme(&[xterm, ("LANG", "de_DE.UTF-8")]), Theme { colours: true, unicode: true });
        assert!(!theme(&[xterm, ("NO_COLOR", "1")]).colours);
        assert!(theme(&[xterm, ("NO_COLOR", "")]).colours, "empty is unset (no-color.org)");
        assert!(!theme(&[("TERM", "vt100")]).colours);
        assert!(!theme(&[xterm, ("LC_ALL", "C"), ("LANG", "en_US.UTF-8")]).unicode);
        assert_eq!(theme(&[("TERM", "linux"), ("LANG", "C.UTF-8")]), Theme { colours: true, unicode: false });
    }

    #[test]
    fn texts_fit_in_columns_not_in_bytes() {
        let unicode = Theme { colours: false, unicode: true };
        assert_eq!(unicode.fit("日本語", 5), "日本…");
        assert_eq!(unicode.pad("日本", 5), "日本 ");
        assert_eq!(unicode.fit("abc", 3), "abc");
        assert_eq!(unicode.fit("abcd", 3), "ab…");
        assert_eq!(unicode.fit("abcd", 0), "");
        let ascii = Theme { colours: false, unicode: false };
        assert_eq!(ascii.fit("añb\u{fffd}", 9), "a?b?");
    }

    #[test]
    fn the_cube() {
        assert_eq!(indexed((0, 0, 0)), Color::Indexed(16));
        assert_eq!(indexed((255, 255, 255)), Color::Indexed(231));
        assert_eq!(indexed((230, 0, 230)), Color::Indexed(16 + 36 * 4 + 4));
    }
}
