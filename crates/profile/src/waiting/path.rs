//! The critical path: from the end of a command backwards, the stretches of time that decided when it ended.

use super::lanes::{Doing, Ender, Lane, Lanes, Segment, UNSEEN};

/// A stretch of the path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stretch {
    pub(super) lane: u32,
    pub(super) segment: Segment,
}

/// Finds the path that ends at `end` in a thread, in the order of time: what its thread did, or where that was blocked, what the thread
/// did that woke it, up to then, and so on.
pub(super) fn path(lanes: &Lanes, last: u32, end: u64) -> Vec<Stretch> {
    let (mut lane, mut time) = (last, end);
    let mut path = Vec::new();
    // From one thread to another at one time, at most once each: wakings are recorded some microseconds from when they were.
    let mut jumps = 0;
    while let Some(Lane { segments, .. }) = lanes.lanes.get(lane as usize) {
        let Some(&segment) = lanes.lanes[lane as usize].at(time).and_then(|at| segments.get(at)) else {
            break;
        };
        if segment.end < time {
            // Nothing is known of the thread behind its last segment.
            let rest = Segment { start: segment.end, end: time, place: UNSEEN, doing: Doing::Unknown };
            path.push(Stretch { lane, segment: rest });
            time = segment.end;
            continue;
        }
        let is_whole = segment.end == time || matches!(segment.doing, Doing::Starting(_));
        match segment.doing {
            Doing::Blocked(Ender::Lane(waker)) if is_whole && waker != lane && jumps < lanes.lanes.len() => {
                (lane, jumps) = (waker, jumps + 1);
            }
            _ => {
                path.push(Stretch { lane, segment: Segment { end: time, ..segment } });
                (time, jumps) = (segment.start, 0);
                if let Doing::Starting(Ender::Lane(starter)) = segment.doing {
                    lane = starter;
                }
            }
        }
    }
    path.reverse();
    path
}
