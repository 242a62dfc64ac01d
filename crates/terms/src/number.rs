//! Every number that a person reads becomes text here: three significant digits and a unit.
//!
//! Nothing here ever writes NaN or an infinity: what is not a number is [`NONE`]. Exact values are in `cases.csv`.

use crate::Bytes;

/// What stands where there is no number.
pub const NONE: &str = "-";

/// Three significant digits: `0.143`, `7.31`, `72.0`, `361`, `2,170`.
pub fn three_digits(value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    // Rounding first decides the magnitude, so that 9.999 is `10.0` and not `10.00`.
    let scientific = format!("{value:.2e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse().unwrap_or(0) {
        exponent @ -4..=2 => without_exponent(mantissa, exponent),
        exponent @ 3..=14 => {
            thousands((value / 10f64.powi(exponent - 2)).round() as i64 * 10i64.pow((exponent - 2) as u32))
        }
        _ => scientific,
    }
}

/// A mantissa of three digits, `1.23` or `-1.23`, with this exponent, which is at most 2, as a plain number.
fn without_exponent(mantissa: &str, exponent: i32) -> String {
    let mut text = String::with_capacity(12);
    let (sign, digits) = mantissa.strip_prefix('-').map_or(("", mantissa), |digits| ("-", digits));
    text += sign;
    if exponent < 0 {
        text += "0.";
        (exponent..-1).for_each(|_| text.push('0'));
    }
    for (place, digit) in digits.chars().filter(|digit| *digit != '.').enumerate() {
        if place as i32 == exponent + 1 && exponent >= 0 {
            text.push('.');
        }
        text.push(digit);
    }
    text
}

/// `-1234567` is `-1,234,567`.
pub fn thousands(value: impl Into<i128>) -> String {
    let value = value.into();
    let digits = value.unsigned_abs().to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3 + 1);
    if value < 0 {
        text.push('-');
    }
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The unit in which a duration is read, and how many of it are a second. The bounds are those of [`Seconds`](crate::Seconds).
pub fn time_unit(seconds: f64) -> (f64, &'static str) {
    match seconds.abs() {
        s if s == 0.0 || s >= 0.999_5 => (1.0, "s"),
        s if s < 1e-7 => (1e9, "ns"),
        s if s < 0.999_5e-3 => (1e6, "us"),
        _ => (1e3, "ms"),
    }
}

/// A duration: `0.143 us`, `12.3 ms`, `4.00 s`.
pub fn seconds(value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    let (per_second, unit) = time_unit(value);
    let mut text = three_digits(value * per_second);
    text.push(' ');
    text += unit;
    text
}

/// A round value for a tick: `1`, `0.15`, `200`, without trailing zeros.
pub fn round(value: f64) -> String {
    let text = three_digits(value);
    if !text.contains('.') || text.contains('e') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A round duration for a tick: `1 us`, `150 ms`.
pub fn round_seconds(value: f64) -> String {
    let (per_second, unit) = time_unit(value);
    format!("{} {unit}", round(value * per_second))
}

/// A bandwidth in GB/s (1e9 bytes a second), with its unit.
pub fn bandwidth(gbs: f64) -> String {
    format!("{} GB/s", three_digits(gbs))
}

/// A larger share than this exceeds its bound by more than the noise of the two: the bound does not hold.
pub const EXCEEDED: f64 = 1.1;

/// A share of what bounds it: `94%`, at most `100%`; `>100%` where the bound does not hold.
pub fn bounded(share: f64) -> String {
    if share > EXCEEDED { ">100%".to_owned() } else { percent(share.min(1.0)) }
}

/// A width relative to its value: beyond the value itself its size says nothing, so that it is `>100%`.
pub fn width(share: f64) -> String {
    if share > 1.0 { ">100%".to_owned() } else { percent(share) }
}

/// A share as per cent: two significant digits at most above 1%, `<0.01%` below what can be read.
pub fn percent(share: f64) -> String {
    let value = share * 100.0;
    match value.abs() {
        v if !v.is_finite() => NONE.to_owned(),
        0.0 => "0%".to_owned(),
        v if v < 0.005 => "<0.01%".to_owned(),
        v if v < 0.995 => format!("{value:.2}%"),
        v if v < 9.95 => format!("{value:.1}%"),
        v if v < 9_999.5 => format!("{value:.0}%"),
        _ => format!("{}%", three_digits(value)),
    }
}

/// A ratio of two times: `0.987`, `1.031`, and three digits where it is far from 1.
pub fn ratio(value: f64) -> String {
    if (0.1..10.0).contains(&value) { format!("{value:.3}") } else { three_digits(value) }
}

/// A factor: `2.9x`, `12.3x`.
pub fn factor(value: f64) -> String {
    format!("{}x", three_digits(value))
}

/// Bytes for reading: the exact number where a unit divides it into at most four digits (`64 KiB`, `100 MB`, `1,023 B`
/// below the first unit), else three digits and a binary unit.
pub fn bytes(value: u64) -> String {
    Bytes(value).short()
}

/// A count: `1 case`, `2 cases`, `1,234 cases`.
pub fn count(number: usize, one: &str, many: &str) -> String {
    let digits = thousands(number as u64);
    format!("{digits} {}", if number == 1 { one } else { many })
}

/// `2`, `2 and 4`, `2, 4 and 6`.
pub fn list<T: std::fmt::Display>(items: &[T]) -> String {
    match items {
        [] => String::new(),
        [one] => one.to_string(),
        [first @ .., last] => {
            let first: Vec<String> = first.iter().map(T::to_string).collect();
            format!("{} and {last}", first.join(", "))
        }
    }
}

/// A length of time for people: `200 ms`, `42 s`, `3 min`, `2.1 h`.
pub fn lasting(seconds: f64) -> String {
    match seconds {
        s if s < 0.95 => crate::Seconds(s).to_string(),
        s if s < 99.5 => format!("{s:.0} s"),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_beyond_their_value_have_no_size() {
        assert_eq!([0.021, 1.0, 1.01, 66_700.0].map(width), ["2.1%", "100%", ">100%", ">100%"]);
    }

    #[test]
    fn three_digits_are_significant() {
        for (value, text) in [
            (0.0, "0"),
            (0.1434, "0.143"),
            (7.309, "7.31"),
            (9.999, "10.0"),
            (72.0, "72.0"),
            (99.96, "100"),
            (361.4, "361"),
            (999.7, "1,000"),
            (2174.0, "2,170"),
            (12_345_678.0, "12,300,000"),
            (-2.5, "-2.50"),
            (0.000_143, "0.000143"),
            (1.434e-7, "1.43e-7"),
            (1e20, "1.00e20"),
            (f64::NAN, "-"),
            (f64::INFINITY, "-"),
        ] {
            assert_eq!(three_digits(value), text, "{value}");
        }
    }

    #[test]
    fn plain_numbers_are_rounded_as_the_standard_library_rounds_them() {
        for exponent in -4..=2 {
            for mantissa in [1.0, 1.005, 1.235, 2.5, 4.445, 7.0, 9.985, 9.994] {
                for value in [mantissa, -mantissa].map(|mantissa| mantissa * 10f64.powi(exponent)) {
                    assert_eq!(three_digits(value), format!("{value:.*}", (2 - exponent) as usize));
                }
            }
        }
    }

    #[test]
    fn quantities_carry_units() {
        for (value, text) in
            [(1.43e-7, "0.143 us"), (5e-8, "50.0 ns"), (0.9997e-3, "1.00 ms"), (12.3, "12.3 s"), (f64::NAN, "-")]
        {
            assert_eq!(seconds(value), text);
        }
        for (value, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.50 KiB"),
            (65_536, "64 KiB"),
            (100_000_000, "100 MB"),
            (1_000_000_000, "1 GB"),
            (123_456_789, "118 MiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(bytes(value), text);
        }
        for (value, text) in [(0.843, "84%"), (0.0312, "3.1%"), (0.0045, "0.45%"), (1e-6, "<0.01%"), (f64::NAN, "-")] {
            assert_eq!(percent(value), text);
        }
        assert_eq!(list(&[2, 4, 6]), "2, 4 and 6");
        assert_eq!(count(1234, "case", "cases"), "1,234 cases");
    }

    #[test]
    fn lengths_of_time_are_for_people() {
        assert_eq!((lasting(42.4), lasting(180.0), lasting(7560.0)), ("42 s".into(), "3 min".into(), "2.1 h".into()));
    }
}
