//! Weights, factors and names as comparisons show them.

use profile::comparison::statistics::Estimate;
use profile::comparison::{Presence, Row, Total, TotalKind};
use profile::{FrameKind, Label, ViewFrame};

use super::Unit;
use crate::figures::grouped;
use crate::names::{frame_name, printable};

/// The name of a frame, safe to print, and that of its module.
pub(super) fn names(frame: &ViewFrame) -> (String, String) {
    let name = frame_name(&ViewFrame { kind: FrameKind::User, ..frame.without_module() });
    let module = match &frame.label {
        Label::Function(_, Some(module)) => module.to_string(),
        _ => String::new(),
    };
    (printable(&name).into_owned(), printable(&module).into_owned())
}

/// A weight with its unit.
pub(super) fn weight(weight: f64, unit: Unit<'_>) -> String {
    match unit {
        Unit::Time => time(weight),
        Unit::Samples | Unit::Events(_) => count(weight),
    }
}

/// A difference of weights, with its sign.
pub(super) fn signed(difference: f64, unit: Unit<'_>) -> String {
    let text = weight(difference.abs(), unit);
    let is_nothing = text.chars().all(|character| !character.is_ascii_digit() || character == '0');
    match difference {
        _ if is_nothing => text,
        _ if difference < 0.0 => format!("−{text}"),
        _ => format!("+{text}"),
    }
}

fn count(value: f64) -> String {
    if value.abs() < 100.0 && value.fract().abs() > 1e-9 {
        return format!("{value:.1}");
    }
    grouped(value.round().max(0.0) as u64)
}

/// Nanoseconds with three or four digits.
pub(super) fn time(nanoseconds: f64) -> String {
    let size = nanoseconds.abs();
    match () {
        () if size >= 1e10 => format!("{:.1} s", nanoseconds / 1e9),
        () if size >= 1e9 => format!("{:.2} s", nanoseconds / 1e9),
        () if size >= 1e8 => format!("{:.0} ms", nanoseconds / 1e6),
        () if size >= 1e7 => format!("{:.1} ms", nanoseconds / 1e6),
        () if size > 0.0 => format!("{:.2} ms", nanoseconds / 1e6),
        () => "0 ms".to_owned(),
    }
}

/// A share as per cent with as many digits as it deserves.
pub(super) fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent.abs() >= 9.95 { format!("{percent:.0} %") } else { format!("{percent:.1} %") }
}

/// A growth with its sign: `+12 %`, and its interval.
pub(super) fn growth(estimate: &Estimate) -> String {
    let [factor, low, high] = estimate.factors();
    // A factor says more than a growth of thousands of per cent.
    if factor > 10.0 || high > 20.0 {
        return format!("× {} ({} to {})", short(factor), short(low), short(high));
    }
    let sign = |factor: f64| match factor {
        _ if factor >= 1.0 => format!("+{}", percent(factor - 1.0)),
        _ => format!("−{}", percent(1.0 - factor)),
    };
    let bare = |factor: f64| sign(factor).trim_end_matches(" %").to_owned();
    format!("{} ({} to {})", sign(factor), bare(low), bare(high))
}

fn short(factor: f64) -> String {
    match factor {
        _ if factor >= 1e4 => format!("{factor:.0e}"),
        _ if factor >= 100.0 => format!("{factor:.0}"),
        _ => format!("{factor:.2}"),
    }
}

/// The change of a row: how much, or that it is new or gone.
pub(super) fn change(row: &Row) -> String {
    match (row.presence, &row.estimate) {
        (Presence::New, _) => "new".to_owned(),
        (Presence::Gone, _) => "gone".to_owned(),
        (Presence::Both, Some(estimate)) => growth(estimate),
        (Presence::Both, None) => String::new(),
    }
}

/// The factor of a total, with its interval.
pub(super) fn factor(total: &Total) -> String {
    match (&total.estimate, total.means) {
        (Some(estimate), _) => {
            let [factor, low, high] = estimate.factors();
            format!("× {factor:.3} ({low:.3} to {high:.3})")
        }
        (None, Some([before, after])) if before > 0.0 => format!("× {:.3}", after / before),
        (None, _) => String::new(),
    }
}

/// The name of a total.
pub(super) fn total_name(unit: Unit<'_>, kind: &TotalKind) -> String {
    match kind {
        TotalKind::Weight => match unit {
            Unit::Time => "CPU time".to_owned(),
            Unit::Samples => "weight in samples".to_owned(),
            Unit::Events(event) => printable(event).into_owned(),
        },
        TotalKind::Wall => "wall time".to_owned(),
        TotalKind::Samples => "samples".to_owned(),
        TotalKind::EverythingElse => "everything else".to_owned(),
        TotalKind::Count(event) => printable(event).into_owned(),
    }
}

/// The values of a total before and after, as text; empty for everything else.
pub(super) fn total_values(unit: Unit<'_>, total: &Total) -> [String; 2] {
    let Some(means) = total.means else { return Default::default() };
    means.map(|mean| match &total.kind {
        TotalKind::Weight => weight(mean, unit),
        TotalKind::Wall => time(mean * 1e9),
        TotalKind::Count(event) if is_time(event) => time(mean),
        _ => count(mean),
    })
}

/// Returns true if an event counts nanoseconds.
fn is_time(event: &str) -> bool {
    matches!(event, "task-clock" | "cpu-clock")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(factor: f64, half_width: f64) -> Estimate {
        let log_ratio = factor.ln();
        Estimate { log_ratio, error: 0.0, half_width, distance: 0.0, probability: None, smallest: None }
    }

    #[test]
    fn figures_have_the_digits_that_they_deserve() {
        assert_eq!(growth(&estimate(1.123, 0.02)), "+12 % (+10 to +15)");
        assert_eq!(growth(&estimate(0.98, 0.01)), "−2.0 % (−3.0 to −1.0)");
        assert_eq!(growth(&estimate(50.0, 0.1)), "× 50.00 (45.24 to 55.26)");
        let times = [1_234_567_890.0, 123_456_789.0, 12_345_678.0, 45_678.0, 0.0].map(time);
        assert_eq!(times, ["1.23 s", "123 ms", "12.3 ms", "0.05 ms", "0 ms"]);
        assert_eq!(signed(-1.5e9, Unit::Time), "−1.50 s");
        assert_eq!(signed(0.0, Unit::Time), "0 ms");
        assert_eq!(signed(1234.0, Unit::Samples), "+1,234");
    }
}
