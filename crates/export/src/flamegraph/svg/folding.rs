//! Frames that are too narrow to see are folded: they are not drawn, and a mark on the frame below stands for them.

use std::fmt::Write as _;

/// The width of the narrowest frame that is drawn, in pixels.
const MIN_VISIBLE_PIXELS: f64 = 1.0;
/// A narrower frame, in pixels, shows nothing but its colour. Towers of such frames do not raise the picture above
/// [`MIN_ROWS`].
const MIN_WIDE_PIXELS: f64 = 6.0;
/// The number of rows up to which towers of narrow frames are drawn: as many as fit into a window of usual size.
const MIN_ROWS: usize = 36;

/// Decides which frames of a drawing are drawn. The script of the picture applies the same rules with the width of its
/// window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Folding {
    /// Pixels per unit of weight.
    pub(crate) scale: f64,
    /// The number of rows of the picture.
    rows: usize,
}

/// The heights that frames of different widths reach, in rows.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Heights {
    /// The height of frames that are visible.
    pub(crate) visible: usize,
    /// The height of frames that are wide enough to show more than a colour.
    pub(crate) wide: usize,
}

impl Heights {
    /// Adds a frame that is `width` pixels wide and whose top is at `rows`.
    pub(crate) fn add(&mut self, rows: usize, width: f64) {
        if width >= MIN_VISIBLE_PIXELS {
            self.visible = self.visible.max(rows);
        }
        if width >= MIN_WIDE_PIXELS {
            self.wide = self.wide.max(rows);
        }
    }
}

impl Folding {
    pub(crate) fn new(heights: Heights, scale: f64) -> Self {
        Self { scale, rows: heights.visible.min(heights.wide.max(MIN_ROWS)).max(1) }
    }

    /// Returns the number of rows of the picture.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns true if a frame at this depth and weight is drawn. A frame above one that is not drawn is not drawn either.
    pub(crate) fn shows(&self, depth: usize, weight: u64) -> bool {
        // The frame of all samples is always drawn.
        depth == 0 || weight as f64 * self.scale >= MIN_VISIBLE_PIXELS && depth < self.rows
    }
}

/// The marks of folded frames. Frames are added after the frames above them.
#[derive(Default, Debug)]
pub(crate) struct Marks {
    /// For each depth the ranges of folded frames whose frame below was not added yet.
    open: Vec<Vec<(u64, u64)>>,
    path: String,
    /// The number of folded frames.
    pub(crate) folded: u64,
}

impl Marks {
    /// Adds a frame that is not drawn, or omitted frames, from `start` to `end`.
    pub(crate) fn fold(&mut self, depth: usize, start: u64, end: u64, scale: f64) {
        self.clear_depth(depth + 1);
        if self.open.len() <= depth {
            self.open.resize_with(depth + 1, Vec::new);
        }
        let stretches = &mut self.open[depth];
        match stretches.last_mut() {
            Some(last) if (start.saturating_sub(last.1)) as f64 * scale < MIN_VISIBLE_PIXELS => last.1 = end,
            _ => stretches.push((start, end)),
        }
    }

    /// Adds a frame that is drawn, and marks the folded frames on top of it at the y coordinate `y`.
    pub(crate) fn draw(&mut self, depth: usize, y: f64, scale: f64) {
        for (start, end) in self.open.get_mut(depth + 1).map(std::mem::take).unwrap_or_default() {
            let (start, end) = (start as f64 * scale, end as f64 * scale);
            // Writing to a string cannot fail.
            let _ = write!(self.path, "M{start:.1} {y}H{:.1}", end.max(start + 2.0));
        }
    }

    fn clear_depth(&mut self, depth: usize) {
        if let Some(stretches) = self.open.get_mut(depth) {
            stretches.clear();
        }
    }

    /// Returns the marks as the data of an SVG path.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_towers_do_not_decide_the_height() {
        let mut heights = Heights::default();
        heights.add(10, 300.0);
        heights.add(300, 1.5);
        heights.add(900, 0.2);
        let folding = Folding::new(heights, 1.0);
        assert_eq!(folding.rows(), MIN_ROWS);
        assert!(folding.shows(MIN_ROWS - 1, 2) && !folding.shows(MIN_ROWS, 2) && !folding.shows(1, 0));
        heights.add(80, 300.0);
        assert_eq!(Folding::new(heights, 1.0).rows(), 80);
        let low = Heights { visible: 5, wide: 5 };
        assert_eq!(Folding::new(low, 1.0).rows(), 5);
    }

    #[test]
    fn folded_frames_are_marked_on_the_frame_below_them() {
        let mut marks = Marks::default();
        marks.fold(3, 10, 11, 0.5);
        marks.fold(2, 10, 11, 0.5);
        marks.fold(2, 11, 12, 0.5);
        marks.fold(2, 80, 81, 0.5);
        marks.draw(1, 32.0, 0.5);
        assert_eq!(marks.path(), "M5.0 32H7.0M40.0 32H42.0");
        marks.draw(1, 32.0, 0.5);
        assert_eq!(marks.path().matches('M').count(), 2, "each once");
    }
}
