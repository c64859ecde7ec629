//! Quantiles of the normal and of Student's distribution, and the trigamma function.

/// Returns the quantile of the standard normal distribution. `probability` lies between 0 and 1, both excluded.
///
/// The error is below 1.2e-9 (P. J. Acklam, "An algorithm for computing the inverse normal cumulative distribution function").
pub(super) fn normal_quantile(probability: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 6] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
        1.0,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 5] = [
        7.784_695_709_041_462e-3,
        3.224_671_290_700_398e-1,
        2.445_134_137_142_996,
        3.754_408_661_907_416,
        1.0,
    ];
    let polynomial = |coefficients: &[f64], x: f64| coefficients.iter().fold(0.0, |sum, c| sum * x + c);
    let tail = |probability: f64| {
        let q = (-2.0 * probability.ln()).sqrt();
        polynomial(&C, q) / polynomial(&D, q)
    };
    if probability < 0.02425 {
        tail(probability)
    } else if probability > 1.0 - 0.02425 {
        -tail(1.0 - probability)
    } else {
        let q = probability - 0.5;
        polynomial(&A, q * q) * q / polynomial(&B, q * q)
    }
}

/// Returns the quantile of Student's distribution with `degrees` of freedom, at least 1.
///
/// The expansion by Cornish and Fisher has an error below 1 % for the quantile of 97.5 % from 3 degrees on; fewer have closed forms.
pub(super) fn student_quantile(probability: f64, degrees: f64) -> f64 {
    if degrees < 1.5 {
        return (std::f64::consts::PI * (probability - 0.5)).tan();
    }
    if degrees < 2.5 {
        let alpha = 4.0 * probability * (1.0 - probability);
        return 2.0 * (probability - 0.5) * (2.0 / alpha).sqrt();
    }
    let z = normal_quantile(probability);
    let power = |exponent: i32| z.powi(exponent);
    let terms = [
        (power(3) + z) / 4.0,
        (5.0 * power(5) + 16.0 * power(3) + 3.0 * z) / 96.0,
        (3.0 * power(7) + 19.0 * power(5) + 17.0 * power(3) - 15.0 * z) / 384.0,
        (79.0 * power(9) + 776.0 * power(7) + 1482.0 * power(5) - 1920.0 * power(3) - 945.0 * z) / 92_160.0,
    ];
    z + terms.iter().zip(1..).map(|(term, exponent)| term / degrees.powi(exponent)).sum::<f64>()
}

/// Returns the second derivative of the logarithm of the gamma function, for positive `x`.
pub(super) fn trigamma(x: f64) -> f64 {
    let (mut x, mut sum) = (x, 0.0);
    while x < 6.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    sum + 1.0 / x + square / 2.0 + square / x * (1.0 / 6.0 - square * (1.0 / 30.0 - square / 42.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_tables() {
        let near = |value: f64, expected: f64, error: f64| {
            assert!((value / expected - 1.0).abs() < error, "{value} {expected}");
        };
        near(normal_quantile(0.975), 1.959_964, 1e-6);
        near(normal_quantile(0.8), 0.841_621, 1e-6);
        near(normal_quantile(0.001), -3.090_232, 1e-6);
        for (degrees, quantile) in
            [(1.0, 12.706), (2.0, 4.303), (3.0, 3.182), (4.0, 2.776), (9.0, 2.262), (30.0, 2.042)]
        {
            near(student_quantile(0.975, degrees), quantile, 0.01);
        }
        near(student_quantile(0.995, 9.0), 3.250, 0.005);
        near(trigamma(1.0), 1.644_934, 1e-6);
        near(trigamma(4.5), 0.248_725, 1e-4);
    }
}
