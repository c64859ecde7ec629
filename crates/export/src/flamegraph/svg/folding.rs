//! Which frames are too narrow to be seen, and the marks that stand for them.

use std::fmt::Write as _;

/// Pixels. A narrower frame is a hair at best.
const SEEN: f64 = 1.0;
/// Pixels. A narrower frame shows nothing but its colour: a tower of them does not decide the height of the picture.
const TOWER: f64 = 6.0;
/// Rows that a picture may have for the sake of such towers: what fits into a window of usual size.
const ROWS: usize = 36;

/// The choice of frames of a drawing that are shown. The picture's script judges by the same rules, with the width of
/// its window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Folding {
    /// Pixels per unit of weight.
    pub(crate) scale: f64,
    /// Rows that may be drawn.
    rows: usize,
}

/// The heights that frames of a width reach, in rows.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Heights {
    /// Those that can be seen.
    pub(crate) seen: usize,
    /// Those that are more than a line.
    pub(crate) wide: usize,
}

impl Heights {
    /// Learns of a frame `width` pixels wide that ends `rows` above the ground.
    pub(crate) fn add(&mut self, rows: usize, width: f64) {
        if width >= SEEN {
            self.seen = self.seen.max(rows);
        }
        if width >= TOWER {
            self.wide = self.wide.max(rows);
        }
    }
}

impl Folding {
    pub(crate) fn new(heights: Heights, scale: f64) -> Self {
        Self { scale, rows: heights.seen.min(heights.wide.max(ROWS)).max(1) }
    }

    /// Rows of the picture.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns true if a frame with so many below it is drawn. What is above one that is not drawn, is not drawn either.
    pub(crate) fn shows(&self, depth: usize, weight: u64) -> bool {
        // All samples together are shown whatever they weigh.
        depth == 0 || weight as f64 * self.scale >= SEEN && depth < self.rows
    }
}

/// Stretches of frames that are folded, as they come: frames come after what lies above them.
#[derive(Default, Debug)]
pub(crate) struct Marks {
    /// By the depth of the folded frames: stretches whose frame below is still to come.
    open: Vec<Vec<(u64, u64)>>,
    path: String,
    /// Frames that were folded.
    pub(crate) folded: u64,
}

impl Marks {
    /// A frame that is not drawn, or frames that were left out, from `start` to `end`.
    pub(crate) fn fold(&mut self, depth: usize, start: u64, end: u64, scale: f64) {
        self.forget(depth + 1);
        if self.open.len() <= depth {
            self.open.resize_with(depth + 1, Vec::new);
        }
        let stretches = &mut self.open[depth];
        match stretches.last_mut() {
            Some(last) if (start.saturating_sub(last.1)) as f64 * scale < SEEN => last.1 = end,
            _ => stretches.push((start, end)),
        }
    }

    /// A frame that is drawn: what was folded on top of it gets its marks at the height `y`.
    pub(crate) fn draw(&mut self, depth: usize, y: f64, scale: f64) {
        for (start, end) in self.open.get_mut(depth + 1).map(std::mem::take).unwrap_or_default() {
            let (start, end) = (start as f64 * scale, end as f64 * scale);
            // Writing to a string cannot fail.
            let _ = write!(self.path, "M{start:.1} {y}H{:.1}", end.max(start + 2.0));
        }
    }

    fn forget(&mut self, depth: usize) {
        if let Some(stretches) = self.open.get_mut(depth) {
            stretches.clear();
        }
    }

    /// The marks as the data of an SVG path.
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
        assert_eq!(folding.rows(), ROWS);
        assert!(folding.shows(ROWS - 1, 2) && !folding.shows(ROWS, 2) && !folding.shows(1, 0));
        heights.add(80, 300.0);
        assert_eq!(Folding::new(heights, 1.0).rows(), 80);
        let low = Heights { seen: 5, wide: 5 };
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
