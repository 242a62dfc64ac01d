//! Rows of the tables of perftest.

use super::nccl::plain;
use crate::numbers::{self, NotANumber};
use crate::{Details, Figures};

/// Why a row is not read.
pub(super) enum Bad {
    Comma(String),
    Damaged(String),
}

/// The numbers of a row: size, iterations, and so many others with at least so many decimals each.
fn numbers(text: &str, count: usize, decimals: &[usize]) -> Result<(u64, u64, Vec<f64>), Bad> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    if words.len() != count {
        return Err(Bad::Damaged(format!("expected {count} columns, found {}", words.len())));
    }
    let whole = |word: &str| {
        let value = word.parse().ok().filter(|value: &u64| *value > 0);
        value.ok_or_else(|| Bad::Damaged(format!("expected a whole number from 1, found `{}`", plain(word))))
    };
    let value = |(word, least): (&&str, &usize)| -> Result<f64, Bad> {
        let value = numbers::plain(word).map_err(|why| match why {
            NotANumber::Comma => Bad::Comma(format!("expected a number, {}", why.found(word))),
            NotANumber::Other => Bad::Damaged(format!("expected a number, {}", why.found(word))),
        })?;
        let found = word.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        if found < *least {
            return Err(Bad::Damaged(format!("expected {least} decimals, found `{}`", plain(word))));
        }
        Ok(value)
    };
    let values: Vec<f64> = words[2..].iter().zip(decimals).map(value).collect::<Result<_, _>>()?;
    Ok((whole(words[0])?, whole(words[1])?, values))
}

/// A row of a bandwidth. Its rate of messages must fit its rate of bytes: it tells a wrong unit and a number that is
/// cut.
pub(super) fn rates(text: &str, has_load: bool, unit: u32) -> Result<(u64, Figures), Bad> {
    let (bytes, iterations, values) = numbers(text, 5 + usize::from(has_load), &[2, 2, 6])?;
    let &[peak, average, mpps] = &values[..] else { return Err(Bad::Damaged("expected 3 rates".to_owned())) };
    let unit = f64::from(unit);
    let by_messages = mpps * 1e6 * bytes as f64 / unit;
    // Two decimals of the one, six of the other.
    let rounding = 0.006 + 0.6 * bytes as f64 / unit + by_messages * 1e-6;
    if average <= 0.0 || mpps <= 0.0 || (by_messages - average).abs() > rounding {
        let what = format!("{mpps} million messages a second of {bytes} bytes are not the average rate of {average}");
        return Err(Bad::Damaged(what));
    }
    let time_s = bytes as f64 / (average * unit);
    let mut metrics = vec![("gbs", average * unit / 1e9), ("messages_per_s", mpps * 1e6)];
    if peak > 0.0 {
        metrics.push(("peak_gbs", peak * unit / 1e9));
    }
    let details = Details { metrics, ..Details::default() };
    Ok((bytes, Figures { time_s, iterations: Some(iterations), wrong: None, details: Some(Box::new(details)) }))
}

/// A row of a latency.
pub(super) fn times(text: &str, has_load: bool) -> Result<(u64, Figures), Bad> {
    let (bytes, iterations, values) = numbers(text, 9 + usize::from(has_load), &[2; 7])?;
    let &[min, max, typical, mean, _, p99, _] = &values[..] else {
        return Err(Bad::Damaged("expected 7 times".to_owned()));
    };
    if !(typical > 0.0 && min <= typical && typical <= p99 && p99 <= max) {
        return Err(Bad::Damaged("its smallest, typical, 99% and largest time are not in order".to_owned()));
    }
    let some = |us: f64| Some(us * 1e-6).filter(|time| *time > 0.0);
    let details = Details { mean: some(mean), p99: some(p99), min: some(min), max: some(max), ..Details::default() };
    Ok((
        bytes,
        Figures { time_s: typical * 1e-6, iterations: Some(iterations), wrong: None, details: Some(Box::new(details)) },
    ))
}
