//! The start of programs and threads as one frame of a tree, `[start]`.

use std::sync::Arc;

use crate::FrameId;
use crate::frame::{FrameKind, FrameTable, Label, ViewFrame};
use crate::start_frames::StartPart;
use crate::tree::{FrameTree, TreeId};

/// The frame that stands for the start.
pub(crate) fn frame() -> ViewFrame {
    ViewFrame { label: Label::Function(Arc::from("[start]"), None), kind: FrameKind::User, line: None }
}

/// A node of the tree whose starts are folded.
#[derive(Clone, Copy)]
struct Place {
    /// The thread's node, as far as starts alone lie on it.
    start_of: Option<TreeId>,
    /// The node itself; of one in a start, only where stacks end in it.
    node: TreeId,
}

/// Makes the outermost frames of each thread one frame, `start`, as far as they start it and call others. A stack that ends among them keeps them.
pub(crate) fn fold(whole: &FrameTree, frames: &FrameTable, start: FrameId) -> FrameTree {
    let part_of = |node| whole.frame(node).map_or(StartPart::None, |frame| frames.marks(frame).starts);
    let is_thread = |node| whole.frame(node).is_none_or(|frame| frames.is_thread(frame));
    let mut is_runtimes = vec![false; whole.next().index()];
    for node in whole.nodes().filter(|&node| part_of(node) == StartPart::Runtime) {
        is_runtimes[whole.below(node).index()] = true;
    }
    let is_part = |node: TreeId| match part_of(node) {
        StartPart::None => false,
        StartPart::Part | StartPart::Runtime => true,
        StartPart::Main => is_runtimes[node.index()],
    };
    let mut ends_here = vec![false; whole.next().index()];
    for node in whole.nodes().rev().filter(|&node| is_part(node)) {
        ends_here[node.index()] |= whole.own(node) > 0;
        ends_here[whole.below(node).index()] |= ends_here[node.index()];
    }
    let mut folded = FrameTree::default();
    let mut places = vec![Place { start_of: Some(TreeId::ALL), node: TreeId::ALL }];
    for node in whole.nodes() {
        let Some(frame) = whole.frame(node) else { continue };
        let below = whole.below(node);
        let Place { start_of, node: mut place } = places[below.index()];
        let start_of = match start_of {
            Some(_) if is_thread(node) => {
                place = folded.child(place, frame);
                Some(place)
            }
            Some(thread) if is_part(node) => {
                if ends_here[node.index()] {
                    place = folded.child(place, frame);
                }
                Some(thread)
            }
            Some(thread) => {
                let outer = if is_thread(below) { thread } else { folded.child(thread, start) };
                place = folded.child(outer, frame);
                None
            }
            None => {
                place = folded.child(place, frame);
                None
            }
        };
        places.push(Place { start_of, node: place });
        folded.add(place, whole.own(node));
        match (whole.left_out(node), start_of) {
            (0, _) => {}
            (left_out, Some(thread)) if !is_thread(node) => {
                let outer = folded.child(thread, start);
                folded.leave_out(outer, left_out);
            }
            (left_out, _) => folded.leave_out(place, left_out),
        }
    }
    folded
}
