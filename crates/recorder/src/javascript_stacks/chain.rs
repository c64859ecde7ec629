//! Puts JavaScript functions into call chains.

use decoder::context;
use javascript::{Found, FrameOf};
use model::{Avma, TruncationReason};
use stacks::{NativeFrame, is_user_marker};

use super::JavaScriptSample;

/// Rewrites call chains; keeps its buffers.
#[derive(Default, Debug)]
pub(super) struct ChainRewriter {
    roles: Vec<Role>,
    frames: Vec<FrameOf>,
    rewritten: Vec<u64>,
    found: Vec<u64>,
}

/// The kind of a value in a chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    /// It is no address.
    Marker,
    /// It may be a JavaScript function: the next one of `frames`.
    Function,
    /// It executes a bytecode of the function outside of it.
    Handler,
    /// It stays.
    Shown,
}

impl ChainRewriter {
    /// Returns the native frames of a chain that may be JavaScript functions. Code that is generated is left out where the runtime describes it.
    pub(super) fn frames(
        &mut self,
        sample: &JavaScriptSample<'_>,
        is_described: bool,
        chain: &[u64],
    ) -> impl Iterator<Item = FrameOf> + Clone + use<'_> {
        self.roles.clear();
        self.frames.clear();
        let (mut is_innermost, mut index) = (false, 0_u64);
        let mut words = sample.words.iter().peekable();
        for &value in chain {
            let is_pointer = std::mem::replace(&mut is_innermost, is_user_marker(&value));
            if value >= context::MAX || TruncationReason::from_marker(value).is_some() {
                self.roles.push(Role::Marker);
                continue;
            }
            while words.next_if(|words| words.index < index).is_some() {}
            let words_here = words.next_if(|words| words.index == index).map(|words| words.words);
            index += 1;
            let lookup = Avma(if is_pointer { value } else { value.wrapping_sub(1) });
            let (role, frame) = match sample.v8.part(&sample.maps.space, lookup) {
                // An innermost frame without words is just being made, and the function has not begun.
                Some(NativeFrame::Interpreted) if words_here.is_some() || !is_pointer => {
                    (Role::Function, Some(FrameOf::Interpreted(words_here)))
                }
                Some(NativeFrame::Generated) if !is_described => {
                    (Role::Function, Some(FrameOf::Generated(lookup, words_here)))
                }
                Some(NativeFrame::BytecodeHandler) => (Role::Handler, None),
                _ => (Role::Shown, None),
            };
            self.roles.push(role);
            self.frames.extend(frame);
        }
        self.frames.iter().copied()
    }

    /// Replaces the frames of the last call of [`Self::frames`] by what was `found` of each, and removes those that execute a bytecode.
    /// `addresses` appends the addresses of what was found.
    pub(super) fn rewrite(
        &mut self,
        found: &[Found],
        keeps_interpreter: bool,
        addresses: &mut dyn FnMut(&Found, &mut Vec<u64>),
        (chain, start): (&mut Vec<u64>, usize),
    ) {
        let Self { roles, rewritten, found: places, .. } = self;
        rewritten.clear();
        let mut found = found.iter();
        // True until the first address behind a marker is read, and until it is appended: all others are looked up one byte before.
        let (mut is_pointer, mut is_first) = (false, false);
        let values = chain.get(start..).unwrap_or_default();
        for (&value, role) in values.iter().zip(roles.iter()) {
            if *role == Role::Marker {
                is_first = is_user_marker(&value);
                is_pointer = is_first;
                rewritten.push(value);
                continue;
            }
            let lookup = if std::mem::take(&mut is_pointer) { value } else { value.wrapping_sub(1) };
            let mut push = |lookup: u64| {
                let is_pointer = std::mem::take(&mut is_first);
                rewritten.push(if is_pointer { lookup } else { lookup.wrapping_add(1) });
            };
            match role {
                Role::Handler if !keeps_interpreter => {}
                Role::Function => {
                    places.clear();
                    if let Some(found) = found.next() {
                        addresses(found, places);
                    }
                    if keeps_interpreter || places.is_empty() {
                        push(lookup);
                    }
                    places.iter().copied().for_each(push);
                }
                Role::Marker | Role::Handler | Role::Shown => push(lookup),
            }
        }
        chain.truncate(start);
        chain.append(rewritten);
    }
}
