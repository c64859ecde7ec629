//! Assessments of invented runs with known changes.

use super::side;
use crate::comparison::statistics::NEEDED_RUNS;
use crate::comparison::{
    Assessment, Comparison, Evidence, Exceeding, Experiment, PathChange, Presence, TotalKind, Verdict,
};

/// Ten runs of each side of a program: main calls `parse` (30 %), `hash` (40 %), `print` (20 %) and `read` (10 %), with noise of some per cent.
/// `after` changes the stacks of the runs after the change.
fn runs(after: impl Fn(usize, Stacks) -> Stacks) -> Comparison {
    let run = |number: usize, side: usize| -> Stacks {
        let noise = |function: usize| {
            // Numbers without a pattern, from −1 to 1.
            let bits = (number * 7919 + side * 104_729 + function * 1299 + 17).wrapping_mul(2_654_435_761);
            (bits >> 8) as f64 % 1000.0 / 500.0 - 1.0
        };
        let machine = 1.0 + 0.05 * noise(0);
        let shares = [("parse", 0.3), ("hash", 0.4), ("print", 0.2), ("read", 0.1)];
        let stacks = shares.iter().enumerate().map(|(index, (name, share))| {
            let weight = 20_000.0 * share * machine * (1.0 + 0.01 * noise(index + 1));
            (format!("app:main;app:{name}"), weight as u64)
        });
        stacks.collect()
    };
    let borrowed = |runs: &[Stacks]| {
        let runs: Vec<Vec<(&str, u64)>> = runs
            .iter()
            .map(|run| run.iter().map(|(stack, weight)| (stack.as_str(), *weight)).collect())
            .collect();
        side(&runs.iter().map(Vec::as_slice).collect::<Vec<_>>())
    };
    let old: Vec<Stacks> = (0..10).map(|number| run(number, 0)).collect();
    let new: Vec<Stacks> = (0..10).map(|number| after(number, run(number, 1))).collect();
    Comparison::new(borrowed(&old), borrowed(&new), |_| false)
}

type Stacks = Vec<(String, u64)>;

/// Multiplies the weight of stacks that end in a function.
fn scaled(stacks: Stacks, function: &str, factor: f64) -> Stacks {
    let scale = |(stack, weight): (String, u64)| {
        let factor = if stack.ends_with(function) { factor } else { 1.0 };
        (stack, (weight as f64 * factor) as u64)
    };
    stacks.into_iter().map(scale).collect()
}

fn assessed(comparison: &Comparison) -> Assessment {
    comparison.assess(&Experiment::default())
}

fn name(comparison: &Comparison, assessment: &Assessment, row: usize) -> String {
    super::name(comparison, assessment.rows[row].frame)
}

#[test]
fn what_grew_is_the_first_row_and_passes_a_threshold() {
    let comparison = runs(|_, run| scaled(run, "parse", 1.1));
    let assessment = assessed(&comparison);
    assert_eq!((assessment.evidence, assessment.changed), (Evidence::Runs, 1));
    assert_eq!(name(&comparison, &assessment, 0), "app:parse");
    assert_eq!(assessment.rows[0].verdict, Verdict::Grown);
    let [factor, low, high] = assessment.rows[0].estimate.unwrap().factors();
    assert!((1.08..1.12).contains(&factor) && low < 1.1 && 1.1 < high, "{factor} {low} {high}");
    assert!(assessment.exceeding(0.05, |_| false).contains(&Exceeding::Row(0)));
    assert!(!assessment.exceeding(0.15, |_| false).contains(&Exceeding::Row(0)));
    let frame = assessment.rows[0].frame;
    assert!(!assessment.exceeding(0.05, |ignored| ignored == frame).contains(&Exceeding::Row(0)));
    assert_eq!(assessment.paths.len(), 1);
    assert_eq!(assessment.paths[0].frames.len(), 2);
}

#[test]
fn sides_that_do_different_things_have_no_scale() {
    let before =
        [[("app:main;app:hash", 900), ("app:main;app:start", 4), ("app:main;app:read", 3)].as_slice()];
    let after =
        [[("app:main;app:encode", 700), ("app:main;app:start", 1), ("app:main;app:join", 90)].as_slice()];
    let comparison = Comparison::new(side(&before), side(&after), |_| false);
    let assessment = comparison.assess(&Experiment::default());
    assert_eq!(assessment.factor, 1.0);
    assert!(!assessment.totals.iter().any(|total| total.kind == TotalKind::EverythingElse));
    let hash = &assessment.rows[0];
    assert_eq!((name(&comparison, &assessment, 0).as_str(), hash.presence), ("app:hash", Presence::Gone));
    assert_eq!(hash.difference, -hash.means[0]);
}

#[test]
fn a_function_that_is_called_otherwise_has_paths_without_a_change_of_its_own() {
    let assessed = |after: [u64; 3]| {
        let run = |weights: [u64; 3]| {
            side(&[&[
                ("app:main;app:parse;c:copy", weights[0]),
                ("app:main;app:hash;c:copy", weights[1]),
                ("app:main;app:print;c:copy", weights[2]),
                ("app:main;app:read", 5_000),
            ]])
        };
        let comparison = Comparison::new(run([3_000, 3_000, 4_000]), run(after), |_| false);
        let assessment = comparison.assess(&Experiment::default());
        assert_eq!(assessment.changed, 0);
        let of = |path: &PathChange| {
            let caller = path.frames[path.frames.len() - 2];
            (super::name(&comparison, caller), path.difference)
        };
        assessment.paths.iter().map(of).collect::<Vec<_>>()
    };
    let expected = [("app:parse".to_owned(), 1_000.0), ("app:hash".to_owned(), -990.0)];
    assert_eq!(assessed([4_000, 2_010, 4_010]), expected);
    // By chance, one of the paths is beyond its interval.
    assert_eq!(assessed([3_160, 2_950, 3_950]), []);
}

#[test]
fn frames_far_outside_make_no_other_path() {
    let stack = |outer: &str, weight| (format!("{outer};app:a;app:b;app:c;app:d;app:e;app:parse"), weight);
    let (before, after) = (stack("app:main;app:run", 100), stack("app:main", 400));
    let borrowed =
        |stack: &(String, u64)| side(&[[(stack.0.as_str(), stack.1), ("app:main;app:read", 500)].as_slice()]);
    let comparison = Comparison::new(borrowed(&before), borrowed(&after), |_| false);
    let assessment = comparison.assess(&Experiment::default());
    let path = &assessment.paths[0];
    assert_eq!((path.frames.len(), path.is_cut, path.means), (6, true, [100.0, 400.0]));
}

#[test]
fn times_of_milliseconds_are_compared_too() {
    let comparison = runs(|_, run| run);
    let wall =
        [0.040, 0.060].map(|seconds| (0..10).map(|run| seconds + 0.0001 * f64::from(run % 3)).collect());
    let experiment = Experiment { wall, ..Experiment::default() };
    let assessment = comparison.assess(&experiment);
    let wall = assessment.totals.iter().find(|total| total.kind == TotalKind::Wall).unwrap();
    let [factor, low, high] = wall.estimate.unwrap().factors();
    assert!((1.49..1.51).contains(&factor) && low > 1.4 && high < 1.6, "{factor} {low} {high}");
}

#[test]
fn nothing_changes_between_runs_of_one_program() {
    let assessment = assessed(&runs(|_, run| run));
    assert_eq!((assessment.changed, assessment.factor), (0, 1.0));
    assert!(assessment.exceeding(0.0, |_| false).is_empty());
    assert!(assessment.smallest_change(0.05).is_some_and(|smallest| smallest < 0.06));
}

#[test]
fn totals_of_other_rates_are_not_marked() {
    let all = |run: Stacks| run.into_iter().map(|(stack, weight)| (stack, weight * 26 / 25)).collect();
    let other = Experiment { has_other_rates: true, ..Experiment::default() };
    let assessment = runs(|_, run| all(run)).assess(&other);
    assert_eq!((assessment.changed, assessment.exceeding(0.0, |_| false)), (0, Vec::new()));
}

#[test]
fn a_slower_machine_is_one_row_and_no_function() {
    let all = |run: Stacks| run.into_iter().map(|(stack, weight)| (stack, weight * 13 / 10)).collect();
    let assessment = assessed(&runs(|_, run| all(run)));
    assert_eq!(assessment.changed, 0);
    assert!((1.2..1.4).contains(&assessment.factor), "{}", assessment.factor);
    let exceeding = assessment.exceeding(0.03, |_| false);
    let kinds: Vec<&TotalKind> = exceeding
        .iter()
        .map(|part| match part {
            Exceeding::Total(index) => &assessment.totals[*index].kind,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(kinds, [&TotalKind::Weight, &TotalKind::EverythingElse]);
}

#[test]
fn time_that_only_moved_does_not_pass_a_threshold() {
    // A third of parse becomes a function of its own.
    let split = |run: Stacks| {
        let mut stacks = scaled(run, "parse", 2.0 / 3.0);
        let rest =
            stacks.iter().find(|(stack, _)| stack.ends_with("parse")).map_or(0, |(_, weight)| weight / 2);
        stacks.push(("app:main;app:parse;app:parse_number".to_owned(), rest));
        stacks
    };
    let comparison = runs(|_, run| split(run));
    let assessment = assessed(&comparison);
    let names: Vec<String> = (0..2).map(|row| name(&comparison, &assessment, row)).collect();
    assert_eq!((assessment.changed, assessment.moves.len()), (2, 1), "{names:?}");
    assert!(assessment.rows[..2].iter().all(|row| row.verdict == Verdict::Moved(0)));
    assert!(assessment.rows[..2].iter().any(|row| row.presence == Presence::New));
    assert_eq!(assessment.exceeding(0.03, |_| false), []);
    // What grew in the move counts by its sum.
    let grown = |_: usize, run: Stacks| scaled(split(run), "parse_number", 1.6);
    let assessment = assessed(&runs(grown));
    assert!(assessment.exceeding(0.03, |_| false).contains(&Exceeding::Move(0)), "{:?}", assessment.moves);
}

#[test]
fn few_runs_say_how_many_are_needed_and_one_recording_has_intervals_of_counting() {
    let one = |weight: u64| side(&[&[("a:f", weight), ("a:g", 1000), ("a:h", 1000)]]);
    let single = Comparison::new(one(1000), one(1500), |_| false).assess(&Experiment::default());
    assert_eq!((single.evidence, single.changed), (Evidence::SingleRecordings, 1));
    let estimate = single.rows[0].estimate.unwrap();
    assert!(!estimate.is_marked() && (estimate.factors()[1] - 1.33).abs() < 0.06, "{:?}", estimate.factors());
    assert!(single.exceeding(0.0, |_| false).is_empty());
    let runs = side(&[&[("a:f", 10), ("a:g", 10)], &[("a:f", 11), ("a:g", 10)]]);
    let other = side(&[&[("a:f", 99), ("a:g", 10)], &[("a:f", 99), ("a:g", 10)]]);
    let assessment = Comparison::new(runs, other, |_| false).assess(&Experiment::default());
    assert_eq!((assessment.evidence, NEEDED_RUNS, assessment.changed), (Evidence::TooFewRuns, 5, 0));
    assert!(assessment.exceeding(0.0, |_| false).is_empty());
    let nothing = Comparison::new(side(&[]), side(&[]), |_| false).assess(&Experiment::default());
    assert!(nothing.rows.is_empty());
}
