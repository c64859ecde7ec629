//! Who a thread waited for, who that one waited for, and so on, added up.

use hashbrown::HashMap;
use model::Name;
use rustc_hash::FxBuildHasher;

use super::lanes::{Doing, Ender, Lanes, PlaceNumber, Segment, UNSEEN};
use super::rest;

/// Longer chains end here.
const MOST_STEPS: usize = 16;
/// Segments that are looked at for each segment that there is: waits of thousands of threads for one would look at all of its time again
/// each, so the longest waits come first, and what is left over is counted.
const MOST_LOOKS: usize = 50;

/// A thread at a place, as a step of a chain.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Step {
    /// The thread's name, in common with those of its pool.
    pub thread: Name,
    /// Where it was.
    pub place: PlaceNumber,
}

/// Waits that were waits for the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chain {
    /// From the thread that waited to the one that it waited for in the end.
    pub steps: Vec<Step>,
    /// The time of the threads that waited, in nanoseconds.
    pub weight: u64,
    /// The number of waits that begin there.
    pub waits: u64,
}

/// What became of all waits.
#[derive(Default, Debug)]
pub(super) struct Found {
    pub(super) chains: Vec<Chain>,
    /// The threads that rested, and their time.
    pub(super) resting: (u64, u64),
    /// The time of waits that were not followed.
    pub(super) not_followed: u64,
}

/// Follows all waits.
pub(super) fn find(lanes: &Lanes) -> Found {
    let mut waits: Vec<(u32, Segment)> = Vec::new();
    let (mut found, mut number) = (Found::default(), 0);
    for (lane, number) in lanes.lanes.iter().zip(0..) {
        let of_runtime = rest::is_thread_of_runtime(&lane.name.to_string());
        let mut rested = 0;
        for segment in lane.segments.iter().filter(|segment| matches!(segment.doing, Doing::Blocked(_))) {
            match of_runtime || lanes.place(segment.place).is_rest {
                true => rested += segment.length(),
                false => waits.push((number, *segment)),
            }
        }
        if rested > 0 {
            found.resting = (found.resting.0 + 1, found.resting.1.saturating_add(rested));
        }
    }
    waits.sort_by_key(|(_, segment)| std::cmp::Reverse(segment.length()));
    let segments: usize = lanes.lanes.iter().map(|lane| lane.segments.len()).sum();
    let mut following = Following {
        lanes,
        looks: segments.saturating_mul(MOST_LOOKS),
        nodes: Vec::new(),
        children: HashMap::default(),
    };
    for (lane, segment) in waits {
        number += 1;
        if following.looks == 0 {
            found.not_followed = found.not_followed.saturating_add(segment.length());
            continue;
        }
        following.follow(None, &mut vec![lane], (lane, segment), number);
    }
    found.chains = following.chains();
    found
}

/// A step behind others.
struct Node {
    parent: Option<u32>,
    step: (u32, PlaceNumber),
    weight: u64,
    waits: u64,
    last_wait: u64,
}

struct Following<'a> {
    lanes: &'a Lanes,
    /// How many segments may be looked at yet.
    looks: usize,
    nodes: Vec<Node>,
    /// By name of the thread, not by thread.
    children: HashMap<(Option<u32>, Name, PlaceNumber), u32, FxBuildHasher>,
}

impl Following<'_> {
    /// Follows a thread's segment, or a part of one, behind the threads of `path`, of which it is the last.
    fn follow(
        &mut self,
        parent: Option<u32>,
        path: &mut Vec<u32>,
        (lane, segment): (u32, Segment),
        wait: u64,
    ) {
        let node = self.node(parent, lane, segment.place);
        if let Doing::Blocked(Ender::Lane(waker)) = segment.doing
            && path.len() < MOST_STEPS
            && !path.contains(&waker)
            && let Some(other) = self.lanes.lanes.get(waker as usize)
        {
            path.push(waker);
            let mut at = segment.start;
            let first = other.segments.partition_point(|other| other.end <= segment.start);
            let during = other.segments.iter().skip(first).take_while(|other| other.start < segment.end);
            for other in during {
                self.looks = self.looks.saturating_sub(1);
                let part = Segment {
                    start: other.start.max(segment.start),
                    end: other.end.min(segment.end),
                    ..*other
                };
                self.end(node, part.start.saturating_sub(at), wait);
                at = part.end;
                self.follow(Some(node), path, (waker, part), wait);
            }
            path.pop();
            return self.end(node, segment.end.saturating_sub(at), wait);
        }
        self.end(node, segment.length(), wait);
    }

    /// Ends a chain, or a part of its time, at a node.
    fn end(&mut self, node: u32, time: u64, wait: u64) {
        let node = &mut self.nodes[node as usize];
        node.weight = node.weight.saturating_add(time);
        if time > 0 && node.last_wait != wait {
            (node.waits, node.last_wait) = (node.waits + 1, wait);
        }
    }

    /// Returns the node of a step; that of a convoy, in which one thread waits behind the next at one place, is one.
    fn node(&mut self, parent: Option<u32>, lane: u32, place: PlaceNumber) -> u32 {
        let name = &self.lanes.lanes[lane as usize].name;
        if let Some(before) = parent {
            let Node { step: (other, there), .. } = self.nodes[before as usize];
            if there == place && self.lanes.lanes[other as usize].name == *name {
                return before;
            }
        }
        let nodes = &mut self.nodes;
        *self.children.entry((parent, name.clone(), place)).or_insert_with(|| {
            nodes.push(Node { parent, step: (lane, place), weight: 0, waits: 0, last_wait: 0 });
            (nodes.len() - 1) as u32
        })
    }

    fn chains(&self) -> Vec<Chain> {
        let ends = self.nodes.iter().filter(|node| node.weight > 0);
        let chain = |node: &Node| {
            let (mut steps, mut next) = (Vec::new(), Some(node));
            while let Some(Node { parent, step: (lane, place), .. }) = next {
                let thread = self.lanes.lanes[*lane as usize].name.clone();
                // What ran too shortly to be sampled was where its thread is.
                if *place != UNSEEN || steps.is_empty() {
                    steps.push(Step { thread, place: *place });
                }
                next = parent.and_then(|parent| self.nodes.get(parent as usize));
            }
            steps.reverse();
            Chain { steps, weight: node.weight, waits: node.waits }
        };
        let mut chains: Vec<Chain> = ends.map(chain).collect();
        chains.sort_by_key(|chain| std::cmp::Reverse(chain.weight));
        chains
    }
}
