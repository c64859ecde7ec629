use super::*;
use crate::waits::state::CauseId;
use perfdata::sections::Schedstat;

fn state(activity: Activity) -> State {
    State { thread: ThreadId::default(), activity, wait: Wait::default() }
}

/// The number of a second name.
fn other_name() -> ThreadId {
    let mut profile = profile::Profile::default();
    let mut thread = |name: &str| profile.thread(&name.into(), model::Pid(1), model::Tid(1), || name.into());
    assert_eq!(thread("first"), ThreadId::default());
    thread("second")
}

fn told(life: &mut Life, state: State, span: (u64, u64), counted: &[Schedstat]) {
    measure(life, state.activity, span, counted);
    life.add(state, span);
}

fn measure(life: &mut Life, activity: Activity, span: (u64, u64), counted: &[Schedstat]) {
    life.measure(activity, span, counted, false);
}

fn settle(life: &mut Life, counted: &[Schedstat], has_wakings: bool) {
    let ends = counted.first().zip(counted.last());
    life.settle(ends.map(|(first, last)| [*first, *last]), has_wakings);
}

/// A tenth was watched: it ran for a quarter of that, and was blocked for the rest.
fn life(counted: &[Schedstat]) -> Life {
    let mut life = Life::default();
    told(&mut life, state(Activity::Running), (0, 25), counted);
    told(&mut life, state(Activity::Blocked), (25, 100), counted);
    life
}

fn read(time: u64, running: u64, runnable: u64) -> Schedstat {
    Schedstat { time, running, runnable }
}

fn sums_of(life: &Life, thread: ThreadId) -> (u64, u64, u64) {
    let known = |class| life.known(class, Some(thread));
    (known(Class::Running), known(Class::Runnable), known(Class::Blocked))
}

fn sums(life: &Life) -> (u64, u64, u64) {
    sums_of(life, ThreadId::default())
}

#[test]
fn time_that_nobody_watched_goes_by_what_was_seen() {
    let mut life = life(&[]);
    told(&mut life, state(Activity::Unwatched), (100, 1000), &[]);
    settle(&mut life, &[], true);
    assert_eq!(sums(&life), (250, 0, 750));
}

#[test]
fn how_much_of_it_a_thread_ran_the_kernel_says() {
    let counted = [read(100, 5_000, 600), read(900, 5_400, 680)];
    let mut life = life(&counted);
    told(&mut life, state(Activity::Unwatched), (100, 1000), &counted);
    settle(&mut life, &counted, true);
    // Half of the time, and a tenth waiting for a CPU; after the last count as before it.
    assert_eq!(sums(&life), (25 + 450, 90, 75 + 360));
}

#[test]
fn each_name_has_its_share_of_time_that_nobody_watched() {
    let counted = [read(0, 0, 0), read(400, 100, 0)];
    let other = |activity| State { thread: other_name(), ..state(activity) };
    let mut life = Life::default();
    told(&mut life, state(Activity::Unwatched), (0, 100), &counted);
    told(&mut life, other(Activity::Unwatched), (100, 400), &counted);
    settle(&mut life, &counted, true);
    assert_eq!((sums(&life), sums_of(&life, other_name())), ((25, 0, 75), (75, 0, 225)));
}

#[test]
fn what_the_kernel_counts_late_is_not_lost() {
    // It runs all the time; the counts are up to 40 behind and ahead.
    let counted = [read(0, 60, 0), read(100, 200, 0), read(200, 260, 0), read(300, 360, 0)];
    let mut life = Life::default();
    for (start, end) in [(0, 90), (100, 190), (200, 290)] {
        told(&mut life, state(Activity::Unwatched), (start, end), &counted);
        told(&mut life, state(Activity::Running), (end, end + 10), &counted);
    }
    settle(&mut life, &counted, true);
    assert_eq!(sums(&life), (300, 0, 0));
}

#[test]
fn a_thread_runs_from_when_the_kernel_chose_it() {
    let counted = [read(0, 0, 0), read(1000, 520, 80)];
    let mut life = Life::default();
    told(&mut life, state(Activity::Running), (0, 500), &counted);
    told(&mut life, state(Activity::Preempted), (500, 600), &counted);
    told(&mut life, state(Activity::Blocked), (600, 1000), &counted);
    settle(&mut life, &counted, true);
    assert_eq!(sums(&life), (520, 80, 400));
    // Without a wait that is too long, the count is of another time.
    let counted = [read(0, 0, 0), read(1000, 520, 80)];
    let mut runs = Life::default();
    told(&mut runs, state(Activity::Running), (0, 400), &counted);
    told(&mut runs, state(Activity::Preempted), (400, 480), &counted);
    settle(&mut runs, &counted, true);
    assert_eq!(sums(&runs), (400, 80, 0));
}

#[test]
fn a_thread_waits_for_a_cpu_from_when_it_is_queued() {
    let counted = [read(0, 0, 0), read(1000, 500, 80)];
    let mut life = Life::default();
    told(&mut life, state(Activity::Running), (0, 500), &counted);
    told(&mut life, state(Activity::Blocked), (500, 900), &counted);
    told(&mut life, state(Activity::Woken), (900, 1000), &counted);
    settle(&mut life, &counted, true);
    assert_eq!(sums(&life), (500, 80, 420));
}

#[test]
fn a_cpu_that_a_waking_reaches_late_makes_nobody_ready() {
    let counted = [read(0, 0, 0), read(1_000_000, 500_000, 80_000)];
    let mut life = Life::default();
    told(&mut life, state(Activity::Running), (0, 500_000), &counted);
    told(&mut life, state(Activity::Blocked), (500_000, 800_000), &counted);
    told(&mut life, state(Activity::Woken), (800_000, 1_000_000), &counted);
    settle(&mut life, &counted, true);
    assert_eq!(sums(&life), (500_000, 80_000, 420_000));
}

#[test]
fn what_is_after_the_last_count_differs_as_much_as_what_is_before() {
    let counted = [read(0, 0, 0), read(1_000_000, 500_000, 80_000)];
    let mut life = Life::default();
    for begin in [0, 1_000_000] {
        told(&mut life, state(Activity::Running), (begin, begin + 500_000), &counted);
        told(&mut life, state(Activity::Blocked), (begin + 500_000, begin + 800_000), &counted);
        told(&mut life, state(Activity::Woken), (begin + 800_000, begin + 1_000_000), &counted);
    }
    settle(&mut life, &counted, true);
    assert_eq!(sums(&life), (1_000_000, 160_000, 840_000));
}

#[test]
fn a_thread_runs_until_the_kernel_takes_it_from_the_queue() {
    let counted = [read(0, 0, 0), read(1000, 480, 0)];
    let mut life = Life::default();
    told(&mut life, state(Activity::Running), (0, 500), &counted);
    told(&mut life, state(Activity::Blocked), (500, 1000), &counted);
    settle(&mut life, &counted, true);
    assert_eq!(sums(&life), (480, 0, 520));
}

#[test]
fn a_thread_that_is_woken_unseen_runs_from_when_the_kernel_chose_it() {
    let counted = [read(0, 0, 0), read(1000, 620, 80)];
    let mut life = Life::default();
    told(&mut life, state(Activity::Blocked), (0, 400), &counted);
    told(&mut life, state(Activity::Running), (400, 1000), &counted);
    settle(&mut life, &counted, true);
    assert_eq!(sums(&life), (620, 80, 300));
}

#[test]
fn short_waits_and_long_ones_end_equally_early() {
    let wait = |number| State {
        wait: Wait { cause: Some(CauseId(number)), ..Wait::default() },
        ..state(Activity::Blocked)
    };
    let counted = [read(0, 0, 0), read(1020, 10, 115)];
    let mut life = Life::default();
    for number in 0..10 {
        told(&mut life, wait(1), (number * 11, number * 11 + 1), &counted);
        told(&mut life, wait(2), (number * 11 + 1, number * 11 + 11), &counted);
    }
    told(&mut life, wait(3), (110, 1010), &counted);
    told(&mut life, state(Activity::Running), (1010, 1020), &counted);
    settle(&mut life, &counted, true);
    let lengths = [1, 2, 3].map(|number| life.states.get(&wait(number)).map_or(0, |count| count.period));
    assert_eq!(lengths, [0, 5, 890], "ten of each wait, or its length");
    assert_eq!(sums(&life), (10, 115, 895));
}

#[test]
fn a_filter_takes_its_part_of_what_the_kernel_counted_beyond_the_records() {
    let counted = [read(0, 0, 0), read(1000, 660, 0)];
    let mut life = Life::default();
    told(&mut life, state(Activity::Running), (0, 300), &counted);
    measure(&mut life, Activity::Running, (300, 600), &counted);
    told(&mut life, state(Activity::Blocked), (600, 1000), &counted);
    settle(&mut life, &counted, true);
    assert_eq!(sums(&life), (330, 0, 370));
}

#[test]
fn waits_for_a_cpu_are_counted_when_they_end() {
    // It waits for a CPU from 50 to 190, and the kernel says so in the second stretch, which was watched but for 10.
    let counted = [read(0, 0, 0), read(100, 50, 0), read(200, 60, 140)];
    let mut life = Life::default();
    told(&mut life, state(Activity::Running), (0, 50), &counted);
    told(&mut life, state(Activity::Unwatched), (50, 110), &counted);
    told(&mut life, state(Activity::Preempted), (110, 190), &counted);
    told(&mut life, state(Activity::Running), (190, 200), &counted);
    settle(&mut life, &counted, true);
    assert_eq!(sums(&life), (60, 140, 0));
}

#[test]
fn what_is_not_wanted_counts_for_the_kernels_counts_alone() {
    let counted = [read(0, 0, 0), read(1000, 500, 0)];
    let mut life = Life::default();
    measure(&mut life, Activity::Running, (0, 100), &counted);
    measure(&mut life, Activity::Unwatched, (100, 900), &counted);
    measure(&mut life, Activity::Blocked, (900, 1000), &counted);
    life.add(state(Activity::Unwatched), (500, 700));
    settle(&mut life, &counted, true);
    assert_eq!(sums(&life), (100, 0, 100));
}

#[test]
fn counts_of_another_thread_with_the_same_number_say_nothing() {
    let counted = [read(10, 900, 50), read(200, 30, 10)];
    let mut life = life(&counted);
    told(&mut life, state(Activity::Unwatched), (100, 300), &counted);
    settle(&mut life, &counted, true);
    assert_eq!(sums(&life), (75, 0, 225));
}

#[test]
fn of_a_thread_that_was_never_seen_nothing_is_known() {
    let mut life = Life::default();
    told(&mut life, state(Activity::Unwatched), (0, 70), &[]);
    settle(&mut life, &[], true);
    assert_eq!(life.states.get(&state(Activity::Unknown)).map(|count| count.period), Some(70));
}

#[test]
fn a_short_wait_that_was_read_stands_for_others_and_a_long_one_for_none() {
    let wait = |number| Wait { cause: Some(CauseId(number)), ..Wait::default() };
    let mut life = Life::default();
    // Ten sleeps that were all read, and a hundred reads of a pipe, of which a third was.
    (0..10).for_each(|_| life.add_read(wait(1), 60_000_000));
    (0..33).for_each(|_| life.add_read(wait(2), 8_000_000));
    (0..67).for_each(|number| told(&mut life, state(Activity::Blocked), (number * 8, number * 8 + 8), &[]));
    life.share_stacks(&Causes::default(), false);
    let of = |number| life.states.get(&State { wait: wait(number), ..state(Activity::Blocked) });
    assert_eq!((of(1).map(|count| count.period), of(2).map(|count| count.period)), (None, Some(67 * 8)));
}

#[test]
fn waits_that_nobody_saw_are_shared_by_those_that_were_seen() {
    let mut life = life(&[]);
    let wait = |number| Wait { cause: Some(CauseId(number)), ..Wait::default() };
    for read in [1, 1, 2] {
        life.add_read(wait(read), 0);
    }
    life.share_stacks(&Causes::default(), false);
    let of = |number| life.states.get(&State { wait: wait(number), ..state(Activity::Blocked) });
    assert_eq!((of(1).unwrap().period, of(2).unwrap().period), (50, 25));
    assert_eq!(sums(&life), (25, 0, 75));
}

#[test]
fn time_ready_for_a_cpu_has_the_stacks_of_what_came_before_it() {
    let wait = |number| Wait { cause: Some(CauseId(number)), ..Wait::default() };
    let with = |activity, number| State { wait: wait(number), ..state(activity) };
    let mut life = Life::default();
    let all = [with(Activity::Blocked, 1), with(Activity::Preempted, 2)];
    for bare in [state(Activity::Woken), state(Activity::Preempted), state(Activity::Started)] {
        told(&mut life, bare, (0, 10), &[]);
    }
    all.into_iter().for_each(|state| told(&mut life, state, (10, 20), &[]));
    life.share_stacks(&Causes::default(), true);
    let times = |state: State| life.states.get(&state).map(|count| count.period);
    assert_eq!(times(with(Activity::Woken, 1)), Some(10));
    assert_eq!(times(with(Activity::Preempted, 2)), Some(20));
    assert_eq!(times(state(Activity::Started)), Some(10), "it has not run yet");
    // Where it was never seen blocked, a thread that could run has the stacks that it ran with.
    let mut profile = profile::Profile::default();
    let (space, kind) = (
        model::SpaceTable::default().intern(model::Space::Vdso { build_id: None }),
        model::AddressKind::InstructionPointer,
    );
    let entry = model::StackEntry { offset: 8, space, kind, in_kernel: false };
    let stack = profile.stacks.push(StackId::EMPTY, entry);
    let mut life = Life::default();
    told(&mut life, state(Activity::Woken), (0, 10), &[]);
    told(&mut life, state(Activity::Blocked), (10, 20), &[]);
    life.samples.insert((ThreadId::default(), stack), Count { samples: 1, period: 5 });
    life.share_stacks(&Causes::default(), true);
    let ran = Wait { stack, ..Wait::default() };
    let of = |state: State| life.states.get(&state).map(|count| count.period);
    assert_eq!(of(State { wait: ran, ..state(Activity::Woken) }), Some(10));
    assert_eq!(of(state(Activity::Blocked)), Some(10), "where it waits, a running stack does not say");
}

#[test]
fn where_nobody_says_when_threads_are_woken_the_kernel_says_for_how_long() {
    /// A millisecond in nanoseconds.
    const MS: u64 = 1_000_000;
    let counted = [read(0, 0, 0), read(100 * MS, 20 * MS, 17 * MS)];
    let of = |has_wakings| {
        let mut life = Life::default();
        for (activity, span) in [
            (Activity::Running, (0, 10)),
            (Activity::Blocked, (10, 50)),
            (Activity::Running, (50, 55)),
            (Activity::Preempted, (55, 60)),
            (Activity::Running, (60, 65)),
            (Activity::Blocked, (65, 100)),
        ] {
            told(&mut life, state(activity), (span.0 * MS, span.1 * MS), &counted);
        }
        settle(&mut life, &counted, has_wakings);
        [Activity::Blocked, Activity::Woken, Activity::Preempted]
            .map(|activity| life.states.get(&state(activity)).map_or(0, |count| count.period / MS))
    };
    assert_eq!(of(false), [63, 12, 5]);
    // Where wakings are recorded, a waking that is missing must not shorten long waits.
    assert_eq!(of(true), [74, 0, 5]);
}

#[test]
fn a_wait_for_a_cpu_that_goes_on_is_counted_at_its_end() {
    let counted = [read(0, 0, 0), read(70, 0, 0), read(100, 0, 80)];
    let mut life = Life::default();
    for (span, goes_on) in [((0, 50), true), ((50, 80), false)] {
        life.measure(Activity::Started, span, &counted, goes_on);
        life.add(state(Activity::Started), span);
        life.settle(Some([counted[0], counted[1]]), true);
        assert_eq!(sums(&life), (0, span.1, 0));
    }
    life.settle(Some([counted[1], counted[2]]), true);
    assert_eq!(sums(&life), (0, 80, 0));
}

#[test]
fn what_is_behind_the_last_count_is_measured_by_the_next() {
    let counted = [read(0, 0, 0), read(100, 60, 0)];
    let mut life = Life::default();
    told(&mut life, state(Activity::Running), (0, 60), &counted);
    told(&mut life, state(Activity::Preempted), (60, 140), &counted);
    life.settle(Some(counted), true);
    assert_eq!(sums(&life), (60, 80, 0));
    life.settle(Some([read(100, 60, 0), read(150, 60, 80)]), true);
    assert_eq!(sums(&life), (60, 80, 0));
}
