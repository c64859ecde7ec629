//! Disjoint ranges of addresses, the newest on top, that many can share.
//!
//! A change copies only the path to it. Hence a balanced tree whose nodes are never written (an AVL tree with split and
//! join, after Blelloch, Ferizovic and Sun, "Just Join for Parallel Ordered Sets", 2016).

use alloc::sync::Arc;

use model::Avma;

use crate::mapping::Mapping;

type Link = Option<Arc<Node>>;

#[derive(Debug)]
struct Node {
    mapping: Mapping,
    height: u8,
    left: Link,
    right: Link,
}

/// Mappings that do not overlap, by address. Cloning is cheap.
#[derive(Clone, Default, Debug)]
pub(crate) struct MappingTree {
    root: Link,
}

/// Tells trees apart that live at the same time: clones that have not changed since have the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct TreeId(usize);

impl MappingTree {
    /// A tree of mappings that do not overlap and are in ascending order.
    pub(crate) fn from_ascending(mappings: &[Mapping]) -> Self {
        Self { root: balanced(mappings) }
    }

    /// Returns true if there is no mapping.
    pub(crate) fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// Returns the identity of the tree; `None` for the empty one.
    pub(crate) fn id(&self) -> Option<TreeId> {
        self.root.as_ref().map(|root| TreeId(Arc::as_ptr(root).addr()))
    }

    /// The mapping that covers `address`.
    pub(crate) fn get(&self, address: Avma) -> Option<&Mapping> {
        let mut link = &self.root;
        while let Some(node) = link {
            if address < node.mapping.start {
                link = &node.left;
            } else if address > node.mapping.last {
                link = &node.right;
            } else {
                return Some(&node.mapping);
            }
        }
        None
    }

    /// Adds a mapping. What it overlaps is cut away, or cut in two.
    pub(crate) fn insert(&mut self, mapping: Mapping) {
        let (left, rest) = split(&self.root, mapping.start);
        let right = match mapping.last.checked_add(1) {
            Some(next) => split(&rest, next).1,
            None => None,
        };
        self.root = Some(join(left, mapping, right));
    }

    /// The lowest mapping that ends at or after `address`.
    pub(crate) fn first_from(&self, address: Avma) -> Option<&Mapping> {
        let mut found = None;
        let mut link = &self.root;
        while let Some(node) = link {
            if node.mapping.last < address {
                link = &node.right;
            } else {
                found = Some(&node.mapping);
                link = &node.left;
            }
        }
        found
    }

    /// All mappings, by ascending address.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Mapping> {
        let mut from = Some(Avma(0));
        core::iter::from_fn(move || {
            let mapping = self.first_from(from?)?;
            from = mapping.last.checked_add(1);
            Some(mapping)
        })
    }
}

fn height(link: &Link) -> u8 {
    link.as_ref().map_or(0, |node| node.height)
}

fn node(left: Link, mapping: Mapping, right: Link) -> Arc<Node> {
    let height = height(&left).max(height(&right)).saturating_add(1);
    Arc::new(Node { mapping, height, left, right })
}

fn balanced(ascending: &[Mapping]) -> Link {
    let (below, rest) = ascending.split_at_checked(ascending.len() / 2)?;
    let (&middle, above) = rest.split_first()?;
    Some(node(balanced(below), middle, balanced(above)))
}

/// Splits a tree into the part below `at` and the part at or above it; a mapping across is cut.
fn split(link: &Link, at: Avma) -> (Link, Link) {
    let Some(node) = link else { return (None, None) };
    let mapping = node.mapping;
    if mapping.last < at {
        let (low, high) = split(&node.right, at);
        (Some(join(node.left.clone(), mapping, low)), high)
    } else if at <= mapping.start {
        let (low, high) = split(&node.left, at);
        (low, Some(join(high, mapping, node.right.clone())))
    } else {
        let (low, high) = mapping.cut(at);
        (Some(join(node.left.clone(), low, None)), Some(join(None, high, node.right.clone())))
    }
}

/// A balanced tree of `left`, `mapping`, `right`, which are in that order.
fn join(left: Link, mapping: Mapping, right: Link) -> Arc<Node> {
    let (left_height, right_height) = (height(&left), height(&right));
    match (&left, &right) {
        (Some(top), _) if left_height > right_height.saturating_add(1) => {
            let inner = join(top.right.clone(), mapping, right);
            balance(top.left.clone(), top.mapping, Some(inner))
        }
        (_, Some(top)) if right_height > left_height.saturating_add(1) => {
            let inner = join(left, mapping, top.left.clone());
            balance(Some(inner), top.mapping, top.right.clone())
        }
        _ => node(left, mapping, right),
    }
}

/// A node whose sides differ by two at most, rotated so that they differ by one at most.
fn balance(left: Link, mapping: Mapping, right: Link) -> Arc<Node> {
    let (left_height, right_height) = (height(&left), height(&right));
    match (&left, &right) {
        (Some(top), _) if left_height > right_height.saturating_add(1) => match &top.right {
            Some(middle) if middle.height > height(&top.left) => {
                let low = node(top.left.clone(), top.mapping, middle.left.clone());
                let high = node(middle.right.clone(), mapping, right);
                node(Some(low), middle.mapping, Some(high))
            }
            _ => node(top.left.clone(), top.mapping, Some(node(top.right.clone(), mapping, right))),
        },
        (_, Some(top)) if right_height > left_height.saturating_add(1) => match &top.left {
            Some(middle) if middle.height > height(&top.right) => {
                let low = node(left, mapping, middle.left.clone());
                let high = node(middle.right.clone(), top.mapping, top.right.clone());
                node(Some(low), middle.mapping, Some(high))
            }
            _ => node(Some(node(left, mapping, top.left.clone())), top.mapping, top.right.clone()),
        },
        _ => node(left, mapping, right),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::testing::mapping;
    use alloc::vec;
    use alloc::vec::Vec;
    use model::SpaceId;
    use proptest::prelude::*;

    fn check_balance(link: &Link) -> u8 {
        let Some(node) = link else { return 0 };
        let (left, right) = (check_balance(&node.left), check_balance(&node.right));
        assert!(left.abs_diff(right) <= 1, "{left} and {right}");
        assert_eq!(node.height, left.max(right) + 1);
        node.height
    }

    #[test]
    fn a_newer_mapping_cuts_the_older_one_in_two() {
        let mut tree = MappingTree::default();
        tree.insert(mapping(0x1000, 0x4fff, 1));
        tree.insert(mapping(0x2000, 0x2fff, 2));
        let parts: Vec<_> = tree.iter().map(|m| (m.start.0, m.last.0, m.offset, m.space.0)).collect();
        assert_eq!(parts, [(0x1000, 0x1fff, 0, 1), (0x2000, 0x2fff, 0, 2), (0x3000, 0x4fff, 0x2000, 1)]);
    }

    #[test]
    fn the_last_address_can_be_mapped() {
        let mut tree = MappingTree::default();
        tree.insert(mapping(10, u64::MAX, 1));
        tree.insert(mapping(20, u64::MAX, 2));
        assert_eq!(tree.get(Avma(u64::MAX)).unwrap().space, SpaceId(2));
        assert_eq!(tree.get(Avma(19)).unwrap().space, SpaceId(1));
        assert_eq!(tree.get(Avma(9)), None);
    }

    fn nodes(link: &Link, found: &mut Vec<*const Node>) {
        if let Some(node) = link {
            found.push(Arc::as_ptr(node));
            nodes(&node.left, found);
            nodes(&node.right, found);
        }
    }

    #[test]
    fn a_clone_shares_what_it_does_not_change() {
        let mut parent = MappingTree::default();
        for page in 0..5000 {
            parent.insert(mapping(page * 0x2000, page * 0x2000 + 0xfff, page as u32));
        }
        let mut child = parent.clone();
        child.insert(mapping(2500 * 0x2000 + 0x1000, 2500 * 0x2000 + 0x1fff, 5000));
        let (mut ours, mut theirs) = (vec![], vec![]);
        nodes(&parent.root, &mut ours);
        nodes(&child.root, &mut theirs);
        ours.sort_unstable();
        let own = theirs.iter().filter(|node| ours.binary_search(node).is_err()).count();
        assert_eq!(theirs.len(), 5001);
        assert!(own < 60, "{own} of 5001 mappings were copied for one change");
    }

    proptest! {
        #[test]
        fn the_tree_agrees_with_an_array_of_pages_and_keeps_older_clones(
            inserts in prop::collection::vec((0_u64..200, 0_u64..40), 1..150),
        ) {
            let mut tree = MappingTree::default();
            let mut pages = vec![None; 256];
            let mut history = vec![];
            for (number, &(start, len)) in inserts.iter().enumerate() {
                if number % 2 == 1 {
                    tree = MappingTree::from_ascending(&tree.iter().copied().collect::<Vec<_>>());
                }
                history.push((tree.clone(), pages.clone()));
                tree.insert(mapping(start, start + len, number as u32));
                for page in start..=start + len {
                    pages[page as usize] = Some((number as u32, page - start));
                }
            }
            history.push((tree, pages));
            for (tree, pages) in &history {
                check_balance(&tree.root);
                for (address, expected) in pages.iter().enumerate() {
                    let address = Avma(address as u64);
                    let found = tree.get(address).map(|m| (m.space.0, m.offset_of(address)));
                    prop_assert_eq!(&found, expected);
                }
            }
        }
    }
}
