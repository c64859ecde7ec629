use super::*;
use Activity::*;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Told {
    Begin,
    Exists,
    Fork,
    /// A sample at the switch.
    Leaves(Leaving),
    /// A switch record; whether the thread was preempted.
    Out(bool),
    Wake,
    In,
    Exit,
    Finish,
    /// Switches are not recorded from here on.
    Pause,
    Resume,
    /// From outside.
    Seen,
    /// By a sample.
    SeenRunning,
    /// With a stack, where switches have none.
    Sampled,
    /// By a sample of a page fault that is over.
    Faulted,
    /// What was done until now is wanted.
    Cut,
    /// It gets another name; whether it gives that to itself.
    Named(bool),
}
use Told::*;

const THREAD: Tid = Tid(7);

fn at(time: u64) -> At {
    At { time: Timestamp(time), cpu: Some(CpuId(1)) }
}

fn tell(timeline: &mut Timeline<u32>, time: u64, told: Told, stack: u32) {
    let pid = Pid(7);
    match told {
        Begin => timeline.begin(Timestamp(time)),
        Exists => timeline.exists(pid, THREAD),
        Fork => timeline.started(pid, THREAD, Timestamp(time)),
        Leaves(leaving) => timeline.switched_out(pid, THREAD, at(time), leaving, Some(stack)),
        Out(true) => timeline.switched_out(pid, THREAD, at(time), Leaving::Preempted, None),
        Out(false) => timeline.switched_out(pid, THREAD, at(time), Leaving::Blocked, None),
        Wake => timeline.woken(THREAD, Timestamp(time), |stack| stack),
        In => timeline.switched_in(pid, THREAD, at(time)),
        Exit => timeline.exited(THREAD, Timestamp(time)),
        Finish => timeline.finish(Timestamp(time)),
        Pause => timeline.pause(Timestamp(time)),
        Resume => timeline.resume(Timestamp(time)),
        Named(by_itself) => timeline.renamed(THREAD, Timestamp(time), by_itself),
        SeenRunning => timeline.sampled(THREAD, None),
        Sampled => timeline.sampled(THREAD, Some(stack)),
        Faulted => timeline.faulted(THREAD, Timestamp(time), stack),
        Cut => timeline.cut(Timestamp(time)),
        Seen => timeline.seen_blocked(THREAD, stack, |known, _| known),
    }
}

/// What a thread did, for how long, with which stack.
type Did = (Activity, u64, Option<u32>);
/// What is told, and what comes of it.
type Case<'c> = (&'c [(u64, Told)], &'c [Did]);

/// What a thread did. Stacks are numbered by their place in `told`.
fn intervals(told: &[(u64, Told)]) -> Vec<Did> {
    let mut timeline = Timeline::default();
    for (number, &(time, told)) in (0..).zip(told) {
        tell(&mut timeline, time, told, number);
    }
    // The last wait may still get a stack.
    timeline.finish(Timestamp(told.last().map_or(0, |(time, _)| *time)));
    let ended = timeline.take_ended();
    assert!(ended.windows(2).all(|pair| pair[0].end == pair[1].start), "no gaps: {ended:?}");
    ended
        .iter()
        .map(|interval| (interval.activity, interval.end.0 - interval.start.0, interval.stack))
        .collect()
}

#[test]
fn who_wakes_a_thread_first_marks_its_wait() {
    let mut timeline = Timeline::default();
    tell(&mut timeline, 10, Fork, 0);
    tell(&mut timeline, 20, In, 0);
    tell(&mut timeline, 30, Leaves(Leaving::Blocked), 5);
    timeline.woken(THREAD, Timestamp(40), |stack| stack + 100);
    timeline.woken(THREAD, Timestamp(45), |stack| stack + 1000);
    tell(&mut timeline, 50, In, 0);
    tell(&mut timeline, 60, Leaves(Leaving::Blocked), 6);
    tell(&mut timeline, 70, Finish, 0);
    let stacks: Vec<_> =
        timeline.take_ended().iter().map(|interval| (interval.activity, interval.stack)).collect();
    assert!(stacks.contains(&(Activity::Blocked, Some(105))), "{stacks:?}");
    assert!(stacks.contains(&(Activity::Blocked, Some(6))), "{stacks:?}");
}

#[test]
fn a_thread_that_goes_on_after_its_exit_record_has_not_ended() {
    let mut timeline = Timeline::default();
    for (time, told) in [(10, Fork), (20, In), (30, Exit)] {
        tell(&mut timeline, time, told, 0);
    }
    timeline.revived(Pid(7), THREAD);
    tell(&mut timeline, 50, Leaves(Leaving::Blocked), 5);
    tell(&mut timeline, 90, Exit, 0);
    timeline.revived(Pid(7), Tid(8));
    timeline.finish(Timestamp(95));
    let ended = timeline.take_ended();
    let did = |activity| {
        let of = ended.iter().filter(move |interval| interval.activity == activity);
        of.map(|interval| interval.end.0 - interval.start.0).sum::<u64>()
    };
    assert_eq!((did(Activity::Running), did(Activity::Blocked)), (30, 40), "{ended:?}");
}

#[test]
fn after_a_gap_the_next_event_says_what_a_thread_did() {
    let sums = |told: &[(u64, Told)]| {
        let mut timeline = Timeline::default();
        for (number, &(time, told)) in (0..).zip(told) {
            tell(&mut timeline, time, told, number);
        }
        let sum = |activity| {
            let intervals = timeline.ended.iter().filter(|interval| interval.activity == activity);
            intervals.map(|interval| interval.end.0 - interval.start.0).sum::<u64>()
        };
        [Running, Blocked, Unwatched, Unknown].map(sum)
    };
    let out = Out(false);
    // Of a thread without an event between two gaps nothing is known, if it was not blocked before.
    let asleep =
        [(0, In), (100, Pause), (900, Resume), (950, Pause), (1900, Resume), (1930, In), (2000, Exit)];
    assert_eq!(sums(&asleep), [170, 0, 1830, 0]);
    let awake = [(0, In), (10, out), (100, Pause), (900, Resume), (950, Pause), (1900, Resume), (1930, out)];
    assert_eq!(sums(&[&awake[..], &[(2000, Exit)]].concat()), [40, 210, 1750, 0]);
    let blocked = [(0, In), (10, out), (100, Pause), (900, Resume), (950, Pause), (1900, Resume), (1930, In)];
    assert_eq!(sums(&[&blocked[..], &[(2000, Exit)]].concat()), [80, 170, 1750, 0]);
    let ended_unseen = [(0, In), (100, Pause), (900, Resume), (950, Pause), (1000, Exit)];
    assert_eq!(sums(&ended_unseen), [100, 0, 900, 0]);
    let born_unseen = [(0, Begin), (100, Pause), (500, Fork), (900, Resume), (950, out), (1000, Exit)];
    assert_eq!(sums(&born_unseen), [50, 50, 400, 0]);
}

#[test]
fn who_is_preempted_has_the_stack_of_its_last_sample() {
    let told = [
        (0, In),
        (10, Sampled),
        (20, Sampled),
        (30, Out(true)),
        (40, In),
        (50, Out(false)),
        (60, In),
        (70, Leaves(Leaving::Preempted)),
        (70, Out(true)),
        (80, In),
    ];
    let waits = [(Preempted, 10, Some(2)), (Blocked, 10, None), (Preempted, 10, Some(7))];
    assert_eq!(
        intervals(&told).into_iter().filter(|(activity, ..)| *activity != Running).collect::<Vec<_>>(),
        waits
    );
}

#[test]
fn a_page_fault_is_what_the_wait_before_it_was_for() {
    let soon = 200 + MAX_FAULT_END_NANOSECONDS;
    let waits = |told: &[(u64, Told)]| {
        let blocked = intervals(told).into_iter().filter(|(activity, ..)| *activity == Blocked);
        blocked.map(|(.., stack)| stack).collect::<Vec<_>>()
    };
    let begin = [(0, In), (100, Out(false)), (200, In)];
    let after = |told: &[(u64, Told)]| waits(&[&begin[..], told].concat());
    assert_eq!(after(&[(210, Faulted)]), [Some(3)]);
    assert_eq!(after(&[(soon + 1, Faulted)]), [None], "it ran for long before it");
    assert_eq!(after(&[(210, Faulted), (220, Faulted), (230, Out(false)), (240, In)]), [Some(3), None]);
    assert_eq!(after(&[(205, Out(true)), (207, In), (210, Faulted)]), [None], "which of two, is not known");
    assert_eq!(waits(&[(0, In), (100, Out(false)), (150, Seen), (200, In), (210, Faulted)]), [Some(2)]);
}

#[test]
fn a_wait_has_the_stack_that_was_seen_from_outside() {
    let told = [(0, In), (100, Out(false)), (300, Seen), (500, In), (600, Exit)];
    assert_eq!(intervals(&told), [(Running, 100, None), (Blocked, 400, Some(2)), (Running, 100, None)]);
    let before = [(0, Begin), (0, Exists), (50, Seen), (200, In), (300, Exit)];
    assert_eq!(intervals(&before), [(BlockedSinceBefore, 200, Some(2)), (Running, 100, None)]);
}

#[test]
fn a_cut_ends_what_lasts_and_lets_it_go_on() {
    let told = [(0, In), (10, Cut), (30, Out(false)), (50, Cut), (70, Wake), (80, Cut), (85, In), (90, Exit)];
    let expected = [
        (Running, 10, None),
        (Running, 20, None),
        (Blocked, 20, None),
        (Blocked, 20, None),
        (Woken, 10, None),
        (Woken, 5, None),
        (Running, 5, None),
    ];
    assert_eq!(intervals(&told), expected);
    // The sample and the record of one switch are on both sides of the cut.
    let told = [(0, In), (10, Leaves(Leaving::Blocked)), (11, Cut), (12, Out(false)), (20, In), (25, Exit)];
    let expected = [(Running, 10, None), (Blocked, 1, Some(1)), (Blocked, 9, Some(1)), (Running, 5, None)];
    assert_eq!(intervals(&told), expected);
    let slept = [(0, Begin), (0, Exists), (5, Seen), (10, Cut), (20, Cut), (30, In), (31, Exit)];
    let expected = [(10, Some(2)), (10, Some(2)), (10, Some(2))].map(|(t, s)| (BlockedSinceBefore, t, s));
    assert_eq!(intervals(&slept), [&expected[..], &[(Running, 1, None)]].concat());
}

#[test]
fn after_a_gap_a_cut_does_not_guess() {
    let told = [(0, In), (10, Pause), (20, Cut), (30, Resume), (40, Cut), (50, Out(false)), (55, Exit)];
    let expected = [
        (Running, 10),
        (Unwatched, 10),
        (Unwatched, 10),
        (Unwatched, 10),
        // The event decides only on the time since the cut.
        (Running, 10),
        (Blocked, 5),
    ];
    let lengths: Vec<_> =
        intervals(&told).into_iter().map(|(activity, length, _)| (activity, length)).collect();
    assert_eq!(lengths, expected);
}

#[test]
fn who_was_never_switched_and_is_sampled_has_run_all_the_time() {
    let told = [(0, Begin), (0, Exists), (5, SeenRunning), (10, Cut), (20, Out(false)), (25, Exit)];
    assert_eq!(intervals(&told), [(Running, 10, None), (Running, 10, None), (Blocked, 5, None)]);
    let later = [(0, In), (5, Out(false)), (7, SeenRunning), (10, Cut)];
    assert_eq!(intervals(&later), [(Running, 5, None), (Blocked, 5, None)], "a late sample is no switch");
}

#[test]
fn who_turns_up_after_a_cut_has_no_time_from_before_it() {
    let told = [(0, Begin), (100, Cut), (120, Out(false)), (130, Exit)];
    assert_eq!(intervals(&told), [(Running, 20, None), (Blocked, 10, None)]);
}

#[test]
fn a_thread_that_was_started_in_a_gap_may_have_slept_in_it() {
    let lengths = |told: &[(u64, Told)]| {
        intervals(told).into_iter().map(|(activity, length, _)| (activity, length)).collect::<Vec<_>>()
    };
    let started = [(1, Begin), (2, Pause), (5, Fork), (10, Resume), (30, In), (35, Out(false)), (40, Finish)];
    let expected = [(Unwatched, 5), (Unwatched, 20), (Running, 5), (Blocked, 5)];
    assert_eq!(lengths(&started), expected);
    let never_seen = [(1, Begin), (2, Pause), (5, Fork), (10, Resume), (40, Finish)];
    assert_eq!(lengths(&never_seen), [(Unwatched, 5), (Unwatched, 30)]);
    // A thread that is woken has slept, whatever was recorded of it before the gap.
    for before in [&[(5, Fork)][..], &[(1, Fork), (2, In)], &[(1, Fork), (2, In), (3, Out(true))]] {
        let (early, late): (Vec<_>, Vec<_>) = before.iter().partition(|(time, _)| *time < 4);
        let told = [
            &[(1, Begin)],
            &*early,
            &[(4, Pause)],
            &*late,
            &[(10, Resume), (30, Wake), (31, In), (40, Finish)],
        ]
        .concat();
        let did = lengths(&told);
        assert_eq!(did[did.len() - 3..], [(Blocked, 20), (Woken, 1), (Running, 9)], "{before:?}");
    }
}

#[test]
fn what_was_done_under_a_name_ends_with_it() {
    let runs = [(0, In), (30, Named(true)), (100, Out(false)), (150, Named(false)), (200, In), (210, Exit)];
    let expected = [(Running, 30), (Running, 70), (Blocked, 50), (Blocked, 50), (Running, 10)];
    let lengths = |told: &[(u64, Told)]| {
        intervals(told).into_iter().map(|(activity, length, _)| (activity, length)).collect::<Vec<_>>()
    };
    assert_eq!(lengths(&runs), expected);
    let woken = [(0, In), (10, Out(false)), (20, Wake), (25, Named(false)), (30, In), (40, Exit)];
    let expected = [(Running, 10), (Blocked, 10), (Woken, 5), (Woken, 5), (Running, 10)];
    assert_eq!(lengths(&woken), expected);
    let unwatched = [(0, In), (10, Pause), (50, Named(true)), (90, Resume), (95, Out(false)), (99, Exit)];
    let expected = [(Running, 10), (Unwatched, 40), (Unwatched, 40), (Running, 5), (Blocked, 4)];
    assert_eq!(lengths(&unwatched), expected);
    // After a gap, who names itself runs.
    let learned = [
        (0, In),
        (5, Out(false)),
        (10, Pause),
        (90, Resume),
        (95, Named(true)),
        (97, Out(false)),
        (99, Exit),
    ];
    let expected = [(Running, 5), (Blocked, 5), (Unwatched, 80), (Running, 5), (Running, 2), (Blocked, 2)];
    assert_eq!(lengths(&learned), expected);
}

#[test]
fn a_switch_is_taken_once_however_often_it_is_told() {
    let blocked = Leaves(Leaving::Blocked);
    let slept =
        vec![(Running, 100, None), (Blocked, 400, Some(1)), (Woken, 10, Some(1)), (Running, 90, None)];
    let whole = [(0, In), (100, blocked), (101, Out(false)), (500, Wake), (510, In), (600, Exit)];
    assert_eq!(intervals(&whole), slept);
    // With the tracepoint alone, on whole CPUs.
    let samples_only = [(0, In), (100, blocked), (500, Wake), (510, In), (512, In), (600, Exit)];
    assert_eq!(intervals(&samples_only), slept);
    // With records alone.
    let records_only = [(0, In), (100, Out(false)), (500, Wake), (510, In), (600, Exit)];
    let without_stack: Vec<_> = slept.iter().map(|&(activity, length, _)| (activity, length, None)).collect();
    assert_eq!(intervals(&records_only), without_stack);
}

#[test]
fn the_record_says_what_a_sample_leaves_open() {
    let unsaid = Leaves(Leaving::Unsaid);
    for (preempted, expected) in [(true, Preempted), (false, Blocked)] {
        let told = [(0, In), (100, unsaid), (101, Out(preempted)), (300, In)];
        assert_eq!(intervals(&told), [(Running, 100, None), (expected, 200, Some(1))]);
    }
}

#[test]
fn who_tells_nothing_of_itself_is_told_of_by_others() {
    let mut timeline: Timeline<u32> = Timeline::default();
    let (silent, at) = (Tid(9), |time| At { time: Timestamp(time), cpu: None });
    timeline.started(Pid(7), silent, Timestamp(1));
    timeline.comes_next(silent, at(5), true);
    timeline.ran_before(silent, at(20));
    timeline.ran_before(silent, at(21));
    timeline.comes_next(silent, at(50), true);
    timeline.exited(silent, Timestamp(60));
    let ended: Vec<_> = timeline.take_ended().iter().map(|ended| (ended.activity, ended.end.0)).collect();
    assert_eq!(ended, [(Started, 5), (Running, 20), (Blocked, 50), (Running, 60)]);
}

#[test]
fn who_has_ended_does_not_come_back_with_its_last_switch() {
    let last = [(0, Fork), (2, In), (10, Exit), (11, Leaves(Leaving::Blocked)), (12, In), (13, Out(false))];
    let whole = [&last[..], &[(50, Finish)]].concat();
    assert_eq!(intervals(&whole), [(Started, 2, None), (Running, 8, None)]);
    let mut timeline = Timeline::default();
    for (number, (time, told)) in (0..).zip([&last[..], &[(20, Fork), (30, In), (35, Exit)]].concat()) {
        tell(&mut timeline, time, told, number);
    }
    let sum: u64 = timeline.take_ended().iter().map(|ended| ended.end.0 - ended.start.0).sum();
    assert_eq!(sum, 10 + 15, "another thread may have its number");
}

#[test]
fn a_thread_that_was_preempted_is_not_woken() {
    let told = [(0, In), (100, Leaves(Leaving::Preempted)), (150, Wake), (300, In)];
    assert_eq!(intervals(&told), [(Running, 100, None), (Preempted, 200, Some(1))]);
}

#[test]
fn the_time_before_the_first_switch_is_known_by_its_direction() {
    let table: [Case<'_>; 5] = [
        (
            &[(0, Begin), (0, Exists), (50, Out(false)), (60, Finish)],
            &[(Running, 50, None), (Blocked, 10, None)],
        ),
        (
            &[(0, Begin), (0, Exists), (50, In), (60, Finish)],
            &[(BlockedSinceBefore, 50, None), (Running, 10, None)],
        ),
        (
            &[(0, Begin), (0, Exists), (40, Wake), (50, In)],
            &[(BlockedSinceBefore, 40, None), (Woken, 10, None)],
        ),
        (&[(0, Begin), (0, Exists), (50, Finish)], &[(BlockedSinceBefore, 50, None)]),
        (&[(10, Fork), (15, In), (20, Exit)], &[(Started, 5, None), (Running, 5, None)]),
    ];
    for (told, expected) in table {
        assert_eq!(intervals(told), expected, "{told:?}");
    }
}

#[test]
fn lost_switches_are_unknown_time() {
    let later = 10 * SAME_SWITCH_NANOSECONDS;
    assert_eq!(
        intervals(&[(0, In), (later, In), (later + 5, Exit)]),
        [(Unknown, later, None), (Running, 5, None)]
    );
    let out_twice = [(0, In), (10, Out(false)), (later, Out(false)), (later + 5, In)];
    assert_eq!(intervals(&out_twice), [(Running, 10, None), (Unknown, later - 10, None), (Blocked, 5, None)]);
}

#[test]
fn a_switch_in_without_a_record_is_inferred_where_switches_are_sampled() {
    let blocked = Leaves(Leaving::Blocked);
    let gap = [(0, In), (100, blocked), (200, Pause), (300, Resume)];
    let before = [(Running, 100, None), (Blocked, 100, Some(1)), (Unwatched, 100, None)];
    let table: [Case<'_>; 5] = [
        // It was woken, and ran from then on.
        (
            &[(400, Wake), (410, blocked), (500, Wake), (530, blocked), (600, Finish)],
            &[
                (Blocked, 100, Some(1)),
                (Running, 10, None),
                (Blocked, 90, Some(5)),
                (Running, 30, None),
                (Blocked, 70, Some(7)),
            ],
        ),
        // Nobody knows when it was woken.
        (
            &[(400, In), (410, blocked), (530, blocked), (600, Finish)],
            &[(Blocked, 100, Some(1)), (Running, 10, None), (Blocked, 120, Some(5)), (Blocked, 70, Some(6))],
        ),
        (
            &[(400, In), (410, Leaves(Leaving::Preempted)), (530, blocked), (600, Finish)],
            &[
                (Blocked, 100, Some(1)),
                (Running, 10, None),
                (Preempted, 120, Some(5)),
                (Blocked, 70, Some(6)),
            ],
        ),
        // It has come in the gap.
        (&[(410, blocked), (600, Finish)], &[(Running, 110, None), (Blocked, 190, Some(4))]),
        // The time until a cut was taken already.
        (
            &[(400, In), (405, blocked), (420, Wake), (450, Cut), (460, blocked), (600, Finish)],
            &[
                (Blocked, 100, Some(1)),
                (Running, 5, None),
                (Blocked, 15, Some(5)),
                (Woken, 30, Some(5)),
                (Running, 10, None),
                (Blocked, 140, Some(8)),
            ],
        ),
    ];
    for (told, expected) in table {
        assert_eq!(intervals(&[&gap[..], told].concat()), [&before[..], expected].concat(), "{told:?}");
    }
}

#[test]
fn what_was_before_the_command_is_nobodys() {
    let mut timeline = Timeline::default();
    timeline.switched_out(Pid(7), THREAD, at(10), Leaving::Blocked, None);
    timeline.switched_in(Pid(7), THREAD, at(20));
    timeline.restarted(Pid(7), THREAD, Timestamp(25), None);
    timeline.switched_out(Pid(7), THREAD, at(30), Leaving::Dead, Some(1_u32));
    let ended = timeline.take_ended();
    assert_eq!(
        ended.iter().map(|interval| (interval.activity, interval.start.0)).collect::<Vec<_>>(),
        [(Running, 25)]
    );
}

#[test]
fn states_are_the_kernels() {
    let table = [
        (0, Leaving::Preempted),
        (0x100, Leaving::Preempted),
        (1, Leaving::Blocked),
        (2, Leaving::Uninterruptible),
        (0x82, Leaving::Blocked),
        (0x10, Leaving::Dead),
        (0x20, Leaving::Dead),
        (0x40, Leaving::Blocked),
    ];
    for (state, expected) in table {
        assert_eq!(Leaving::from_prev_state(state), expected, "{state:#x}");
    }
}

proptest! {
    #[test]
    fn all_time_is_accounted_for_between_cuts(
        told in prop::collection::vec((0..3 * SAME_SWITCH_NANOSECONDS, prop::sample::select(vec![
            Leaves(Leaving::Blocked), Leaves(Leaving::Unsaid), Out(true), Out(false), Wake, In, Named(true), Seen,
            SeenRunning, Sampled, Faulted, Pause, Resume, Cut,
        ])), 0..40),
    ) {
        let mut timeline = Timeline::default();
        tell(&mut timeline, 1, Begin, 0);
        tell(&mut timeline, 1, Exists, 0);
        let (mut now, mut last, mut is_paused) = (1, 0, false);
        for (step, told) in told.into_iter().chain([(1, Cut)]) {
            now += step;
            // They take turns.
            match told {
                Pause if is_paused => continue,
                Resume if !is_paused => continue,
                Pause | Resume => is_paused = !is_paused,
                Cut | Seen => {}
                _ if is_paused => continue,
                _ => {}
            }
            tell(&mut timeline, now, told, 0);
            if matches!(told, Cut) {
                let sum: u64 = timeline.take_ended().iter().map(|ended| ended.end.0 - ended.start.0).sum();
                prop_assert_eq!(sum, now - last - u64::from(last == 0));
                last = now;
            }
        }
    }

    #[test]
    fn all_time_is_accounted_for(
        told in prop::collection::vec((0..3 * SAME_SWITCH_NANOSECONDS, prop::sample::select(vec![
            Leaves(Leaving::Blocked), Leaves(Leaving::Preempted), Leaves(Leaving::Unsaid), Out(true), Out(false), Wake, In, Named(true), Named(false),
        ])), 0..40),
    ) {
        let mut timeline = Timeline::default();
        tell(&mut timeline, 1, Begin, 0);
        tell(&mut timeline, 1, Exists, 0);
        let mut now = 1;
        for (step, told) in told {
            now += step;
            tell(&mut timeline, now, told, 0);
        }
        tell(&mut timeline, now + 1, Finish, 0);
        let ended = timeline.take_ended();
        let sum: u64 = ended.iter().map(|interval| interval.end.0 - interval.start.0).sum();
        prop_assert_eq!(sum, now);
    }
}
