//! Marks the frames of flame graphs of time whose threads were off the CPU, so that they get colours of their own.

/// The first character of a marked label. Labels that were made safe for output do not contain it.
pub(crate) const MARK: char = '\u{2}';

/// Share of a frame's time off the CPU, in per cent, from which on it is marked. Less than 100: a switch itself takes CPU time.
const MIN_OFF_CPU_PERCENT: u8 = 95;

/// Returns true if a frame that spent `off` of its time `all` off the CPU is shown as off the CPU.
pub fn is_off_cpu(off: u128, all: u128) -> bool {
    off > 0 && off * 100 >= all * u128::from(MIN_OFF_CPU_PERCENT)
}

/// How the time of a folded line counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaf {
    /// On the CPU.
    On,
    /// Off the CPU.
    Off,
    /// For neither: the line stands for frames that were left out.
    LeftOut,
}

/// The states of threads off the CPU (`model::ThreadState`), by the beginnings of their labels.
const STATES: [(&str, State); 5] = [
    ("[blocked", State::Blocked),
    ("[woken by: ", State::Blocked),
    ("[waiting: ", State::Waiting),
    ("[runnable: ", State::Runnable),
    ("[unknown: switches", State::Unknown),
];

/// The reason why a thread is off the CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Blocked,
    Waiting,
    Runnable,
    Unknown,
}

/// Returns the state of a thread that a label names, or `None` for the label of a function.
pub(crate) fn state_of(label: &str) -> Option<State> {
    STATES.iter().find(|(begin, _)| label.starts_with(begin)).map(|(_, state)| *state)
}

/// Returns a label without its mark, and whether it had one.
pub(crate) fn unmarked(label: &str) -> (&str, bool) {
    label.strip_prefix(MARK).map_or((label, false), |label| (label, true))
}

/// Marks each frame that spent at least [`MIN_OFF_CPU_PERCENT`] of its time off the CPU. The lines are `outermost;…;innermost WEIGHT`;
/// neighbouring lines share the frames that they begin with.
pub(crate) fn mark(lines: &mut [String], left_out: &str) {
    let stacks: Vec<(Vec<&str>, &str)> = lines
        .iter()
        .map(|line| {
            let (stack, weight) = line.rsplit_once(' ').unwrap_or((line, ""));
            (stack.split(';').collect(), weight)
        })
        .collect();
    let leaf = |stack: &[&str]| match stack.last() {
        Some(&label) if label == left_out => Leaf::LeftOut,
        Some(label) if state_of(label).is_some() => Leaf::Off,
        _ => Leaf::On,
    };
    let leaves: Vec<Leaf> = stacks.iter().map(|(stack, _)| leaf(stack)).collect();
    if !leaves.contains(&Leaf::Off) {
        return;
    }
    let mut marks: Vec<Vec<bool>> = stacks.iter().map(|(stack, _)| vec![false; stack.len()]).collect();
    let mut ranges = vec![(0, stacks.len(), 0)];
    while let Some((start, end, depth)) = ranges.pop() {
        let mut first = start;
        while first < end {
            let label = stacks[first].0.get(depth);
            let alike = |index: &usize| stacks[*index].0.get(depth) == label;
            let next = (first..end).take_while(alike).last().map_or(end, |last| last + 1);
            if label.is_some() {
                let time = |wanted: Leaf| {
                    let part = stacks[first..next].iter().zip(&leaves[first..next]);
                    let times = part.filter(|(_, leaf)| **leaf == wanted).map(|((_, weight), _)| weight);
                    times.map(|weight| weight.parse::<u128>().unwrap_or(0)).sum::<u128>()
                };
                let (on, off) = (time(Leaf::On), time(Leaf::Off));
                if is_off_cpu(off, on + off) {
                    marks[first..next].iter_mut().for_each(|marks| marks[depth] = true);
                }
                ranges.push((first, next, depth + 1));
            }
            first = next;
        }
    }
    let marked: Vec<String> = stacks
        .iter()
        .zip(marks)
        .map(|((stack, weight), marks)| {
            let mut line = String::new();
            for (label, is_marked) in stack.iter().zip(marks) {
                if !line.is_empty() {
                    line.push(';');
                }
                if is_marked && *label != left_out {
                    line.push(MARK);
                }
                line.push_str(label);
            }
            format!("{line} {weight}")
        })
        .collect();
    lines.iter_mut().zip(marked).for_each(|(line, marked)| *line = marked);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_marked_where_its_time_is_off_the_cpu() {
        let mut lines = [
            "a;main;read;[blocked: pipe read] 5",
            "a;main;wait;[runnable: woken] 1",
            "a;main;wait;[waiting: epoll] 2",
            "a;main;work 7",
            "b;loop;[waiting: epoll] 9",
            "b;loop;! 1",
            "c;! 1",
            "d;on 1",
            "d;[blocked] 99",
        ]
        .map(str::to_owned);
        mark(&mut lines, "!");
        let shown = lines.map(|line| line.replace(MARK, "~"));
        assert_eq!(
            shown,
            [
                "a;main;~read;~[blocked: pipe read] 5",
                "a;main;~wait;~[runnable: woken] 1",
                "a;main;~wait;~[waiting: epoll] 2",
                "a;main;work 7",
                "~b;~loop;~[waiting: epoll] 9",
                "~b;~loop;! 1",
                "c;! 1",
                "~d;on 1",
                "~d;~[blocked] 99",
            ]
        );
    }

    #[test]
    fn pictures_of_samples_stay_as_they_are() {
        let mut lines = ["a;[libc] 5".to_owned(), "a;[not sampled] 1".to_owned()];
        let before = lines.clone();
        mark(&mut lines, "!");
        assert_eq!(lines, before);
    }
}
