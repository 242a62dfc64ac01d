//! From values to places along an axis, and the ticks between them.

use view::{Axis, Quantity, Scale};

use crate::number;

/// A tick: where, and what it says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    pub(crate) value: f64,
    pub(crate) label: String,
}

/// The values that an axis must show.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extent {
    /// Shown whatever it costs.
    pub(crate) values: Vec<f64>,
    /// Ends of intervals: shown unless they would squeeze the values into a corner, else cut at the frame.
    pub(crate) intervals: Vec<f64>,
}

/// An axis with its domain, mapped to `range` in the picture.
#[derive(Clone, Debug)]
pub(crate) struct Mapped {
    axis: Axis,
    /// In the scale's own measure: logarithms, indices of steps, or values.
    domain: [f64; 2],
    steps: Vec<f64>,
    /// What steps are called: the value `n` has the entry `n`. Empty: they are numbers.
    pub(crate) names: Vec<String>,
    pub(crate) range: [f64; 2],
}

impl Mapped {
    pub(crate) fn new(axis: &Axis, extent: &Extent, range: [f64; 2]) -> Self {
        let shown = |value: &&f64| value.is_finite() && (axis.scale != Scale::Log || **value > 0.0);
        let mut steps: Vec<f64> = extent.values.iter().filter(shown).copied().collect();
        steps.sort_by(f64::total_cmp);
        steps.dedup();
        let intervals: Vec<f64> = extent.intervals.iter().filter(shown).copied().collect();
        let bounds = match (steps.first(), steps.last()) {
            (Some(low), Some(high)) => [*low, *high],
            _ => [1.0, 10.0],
        };
        let domain = match axis.scale {
            Scale::Log => log_domain(axis.quantity, bounds, &intervals),
            // One where all values are zero (bandwidths on the bus of one rank): an axis needs a length.
            Scale::FromZero => match widened(bounds, &intervals)[1] * 1.06 {
                high if high > 0.0 => [0.0, high],
                _ => [0.0, 1.0],
            },
            Scale::Linear => padded(widened(bounds, &intervals)),
            Scale::Steps => [-0.6, steps.len() as f64 - 0.4],
        };
        Self { axis: axis.clone(), domain, steps, names: Vec::new(), range }
    }

    /// A linear axis that shows these bounds and no more.
    pub(crate) fn exact(axis: &Axis, domain: [f64; 2], range: [f64; 2]) -> Self {
        let axis = Axis { scale: Scale::Linear, ..axis.clone() };
        Self { axis, domain, steps: Vec::new(), names: Vec::new(), range }
    }

    /// What a step is called.
    fn named(&self, step: f64) -> String {
        let name = self.names.get(step as usize).map(|name| crate::escape::one_line(name));
        name.unwrap_or_else(|| label(self.axis.quantity, step))
    }

    fn measure(&self, value: f64) -> Option<f64> {
        match self.axis.scale {
            _ if !value.is_finite() => None,
            Scale::Log => (value > 0.0).then(|| value.log10()),
            Scale::Steps => self.steps.iter().position(|step| *step == value).map(|index| index as f64),
            Scale::FromZero | Scale::Linear => Some(value),
        }
    }

    /// Where a value lies; None where the scale cannot show it.
    pub(crate) fn place(&self, value: f64) -> Option<f64> {
        let [low, high] = self.domain;
        let share = (self.measure(value)? - low) / (high - low);
        Some(self.range[0] + share * (self.range[1] - self.range[0]))
    }

    /// As [`Mapped::place`], cut at the frame: for interval ends. What a logarithm cannot show lies below everything.
    pub(crate) fn clamped(&self, value: f64) -> f64 {
        let (low, high) = (self.range[0].min(self.range[1]), self.range[0].max(self.range[1]));
        self.place(value).map_or(self.range[0], |place| place.clamp(low, high))
    }

    /// Whether a value lies beyond the frame, so that [`Mapped::clamped`] cuts it.
    pub(crate) fn is_cut(&self, value: f64) -> bool {
        let (low, high) = (self.range[0].min(self.range[1]), self.range[0].max(self.range[1]));
        self.place(value).is_none_or(|place| place < low - 0.5 || place > high + 0.5)
    }

    /// At most `most` ticks.
    pub(crate) fn ticks(&self, most: usize) -> Vec<Tick> {
        let most = most.max(2);
        let [low, high] = self.domain;
        let label = |value: f64| Tick { value, label: label(self.axis.quantity, value) };
        match (self.axis.scale, self.axis.quantity) {
            (Scale::Steps, _) => {
                self.steps.iter().map(|step| Tick { value: *step, label: self.named(*step) }).collect()
            }
            (Scale::Log, Quantity::Bytes) => powers_of_two(low, high, most).into_iter().map(label).collect(),
            (Scale::Log, _) => log_ticks(low, high, most).into_iter().map(label).collect(),
            (Scale::FromZero | Scale::Linear, quantity) => linear_ticks(low, high, most, quantity),
        }
    }
}

/// Bounds that include the interval ends, as far as these lie within three times the values' own span around them.
fn widened(bounds: [f64; 2], intervals: &[f64]) -> [f64; 2] {
    let span = (bounds[1] - bounds[0]).max(0.1 * bounds[1].abs());
    let low = intervals.iter().copied().fold(bounds[0], f64::min).max(bounds[0] - 3.0 * span);
    let high = intervals.iter().copied().fold(bounds[1], f64::max).min(bounds[1] + 3.0 * span);
    [low, high]
}

fn padded([low, high]: [f64; 2]) -> [f64; 2] {
    let span = match (high - low).max(0.02 * high.abs()) {
        span if span > 0.0 => span,
        _ => 1.0,
    };
    let middle = 0.5 * (low + high);
    let bottom = middle - 0.58 * span;
    // Padding must not suggest values below zero.
    [if low >= 0.0 { bottom.max(0.0) } else { bottom }, middle + 0.58 * span]
}

/// Logarithms of the bounds, padded; at least a factor of four, so that one point does not fill the chart with noise.
fn log_domain(quantity: Quantity, bounds: [f64; 2], intervals: &[f64]) -> [f64; 2] {
    let low = intervals.iter().copied().fold(bounds[0], f64::min).max(bounds[0] / 4.0).log10();
    let high = intervals.iter().copied().fold(bounds[1], f64::max).min(bounds[1] * 4.0).log10();
    let smallest = if quantity == Quantity::Bytes { 4f64.log10() } else { 6f64.log10() };
    let missing = (smallest - (high - low)).max(0.0) / 2.0;
    let pad = if quantity == Quantity::Bytes { 0.02 } else { 0.05 } * (high - low);
    [low - missing - pad, high + missing + pad]
}

fn powers_of_two(low: f64, high: f64, most: usize) -> Vec<f64> {
    let exponent = |log10: f64| log10 / 2f64.log10();
    let (first, last) = (exponent(low).ceil() as i32, exponent(high).floor() as i32);
    // Steps that divide ten keep 1 KiB, 1 MiB and 1 GiB among the ticks.
    let fits = |step: &i32| ((last - first) / step + 1) as usize <= most;
    let step = [1, 2, 5, 10, 20].into_iter().find(fits).unwrap_or(40);
    (first..=last).filter(|exponent| exponent % step == 0).map(|exponent| 2f64.powi(exponent)).collect()
}

fn log_ticks(low: f64, high: f64, most: usize) -> Vec<f64> {
    const FINE: [f64; 7] = [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0];
    let grids: [(&[f64], i32); 6] =
        [(&FINE, 1), (&[1.0, 2.0, 5.0], 1), (&[1.0, 3.0], 1), (&[1.0], 1), (&[1.0], 2), (&[1.0], 3)];
    let within = |(factors, every): (&[f64], i32)| -> Vec<f64> {
        let decades = (low.floor() as i32..=high.ceil() as i32).filter(|decade| decade % every == 0);
        // Parsing the decimal gives the nearest number: 1e-6 and not 9.999999999999999e-7.
        let value = |decade: i32, factor: &f64| format!("{factor}e{decade}").parse().unwrap_or(0.0);
        let all = decades.flat_map(|decade| factors.iter().map(move |factor| value(decade, factor)));
        all.filter(|value: &f64| (low..=high).contains(&value.log10())).collect()
    };
    grids.into_iter().map(within).find(|ticks| ticks.len() <= most).unwrap_or_default()
}

fn linear_ticks(low: f64, high: f64, most: usize, quantity: Quantity) -> Vec<Tick> {
    if quantity == Quantity::Bytes {
        return byte_ticks(low, high, most);
    }
    // An axis of exact bounds may have no length: no step divides it.
    if high <= low {
        return vec![Tick { value: low, label: label(quantity, low) }];
    }
    let rough = (high - low) / most as f64;
    let magnitude = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * magnitude).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(rough).max(if quantity == Quantity::Count { 1.0 } else { 0.0 });
    let (first, last) = ((low / step).ceil() as i64, (high / step + 1e-9).floor() as i64);
    let value = |index: i64| index as f64 * step;
    let largest = high.abs().max(low.abs());
    (first..=last)
        .map(|index| Tick { value: value(index), label: stepped(quantity, value(index), step, largest) })
        .collect()
}

/// Steps of one, two, four or eight of a binary unit, and the like of its parts and multiples.
fn byte_ticks(low: f64, high: f64, most: usize) -> Vec<Tick> {
    let rough = ((high - low) / most as f64).max(1.0);
    let step = 2f64.powi(rough.log2().ceil() as i32);
    let (first, last) = ((low / step).ceil() as i64, (high / step + 1e-9).floor() as i64);
    let tick = |index: i64| Tick { value: index as f64 * step, label: number::bytes((index as f64 * step) as u64) };
    (first..=last).map(tick).collect()
}

/// A linear tick's text: as many decimals as its step needs, all ticks in one unit.
fn stepped(quantity: Quantity, value: f64, step: f64, largest: f64) -> String {
    let (factor, unit) = match quantity {
        Quantity::Seconds => number::time_unit(largest),
        Quantity::Share => (100.0, "%"),
        _ => (1.0, ""),
    };
    let decimals = (-(step * factor).log10().floor()).max(0.0) as usize;
    let text = match decimals {
        0 => number::thousands((value * factor).round() as i64),
        _ => format!("{:.decimals$}", value * factor),
    };
    let text = if text.trim_start_matches('-').chars().all(|c| matches!(c, '0' | '.')) { "0".to_owned() } else { text };
    match unit {
        "" => text,
        _ if text == "0" => text,
        "%" => format!("{text}%"),
        unit => format!("{text} {unit}"),
    }
}

pub(crate) fn label(quantity: Quantity, value: f64) -> String {
    match quantity {
        Quantity::Bytes => number::bytes(value as u64),
        Quantity::Seconds => number::round_seconds(value),
        Quantity::Count if value.fract() == 0.0 => number::thousands(value as i64),
        // A logarithmic axis has ticks between whole numbers, too.
        Quantity::Count | Quantity::Bandwidth | Quantity::Number => number::round(value),
        Quantity::Share => number::percent(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(quantity: Quantity, scale: Scale) -> Axis {
        Axis { title: String::new(), quantity, scale }
    }

    fn labels(quantity: Quantity, scale: Scale, values: &[f64], most: usize) -> Vec<String> {
        let extent = Extent { values: values.to_vec(), intervals: Vec::new() };
        let mapped = Mapped::new(&axis(quantity, scale), &extent, [0.0, 100.0]);
        mapped.ticks(most).into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn bytes_tick_in_powers_of_two() {
        let log = |low: f64, high: f64, most| labels(Quantity::Bytes, Scale::Log, &[low, high], most);
        assert_eq!(log(1024.0, 1048576.0, 5), ["1 KiB", "32 KiB", "1 MiB"]);
        assert_eq!(log(1e6, 1e9, 10).first().unwrap(), "1 MiB");
        assert_eq!(log(65536.0, 65536.0, 10), ["32 KiB", "64 KiB", "128 KiB"]);
        // Sizes in powers of ten, too.
        assert_eq!(log(1e6, 1e8, 4), ["1 MiB", "4 MiB", "16 MiB", "64 MiB"]);
        assert_eq!(log(1e8, 4e9, 3), ["256 MiB", "1 GiB", "4 GiB"]);
    }

    #[test]
    fn times_tick_with_units() {
        let ticks = labels(Quantity::Seconds, Scale::Log, &[2e-7, 0.03], 8);
        assert_eq!(ticks, ["1 us", "10 us", "100 us", "1 ms", "10 ms"]);
        assert_eq!(labels(Quantity::Seconds, Scale::Linear, &[1.98e-3, 2.01e-3], 4), ["1.98 ms", "2.00 ms"]);
        assert_eq!(labels(Quantity::Number, Scale::FromZero, &[21_000.0], 3), ["0", "10,000", "20,000"]);
        assert_eq!(labels(Quantity::Count, Scale::Steps, &[6.0, 2.0, 4.0, 2.0], 3), ["2", "4", "6"]);
        assert_eq!(labels(Quantity::Bandwidth, Scale::FromZero, &[61.0], 5), ["0", "20", "40", "60"]);
    }

    /// Sizes in MB are counts, and those below 1 MB are above zero.
    #[test]
    fn ticks_between_whole_numbers_keep_their_value() {
        let ticks = labels(Quantity::Count, Scale::Log, &[1e-3, 1e3], 4);
        assert_eq!(ticks, ["0.01", "1", "100"]);
        let near = labels(Quantity::Count, Scale::Log, &[1.0, 2.0], 20);
        assert!(near.contains(&"1.5".to_owned()) && near.contains(&"2".to_owned()), "{near:?}");
    }

    /// All bandwidths of one rank are zero: a bar of nothing once ended the whole report.
    #[test]
    fn every_axis_has_a_length_and_short_ticks() {
        use Quantity::{Bandwidth, Bytes, Count, Number, Seconds, Share};
        let of = [&[][..], &[0.0], &[0.0, 0.0], &[-0.0], &[-3.0], &[-3.0, -1.0], &[7.0], &[1e-300], &[1e15]];
        let quantities = [Bandwidth, Bytes, Count, Number, Seconds, Share];
        for (scale, values) in
            [Scale::FromZero, Scale::Linear, Scale::Log].into_iter().flat_map(|scale| of.map(|v| (scale, v)))
        {
            for quantity in quantities {
                let extent = Extent { values: values.to_vec(), intervals: vec![0.0] };
                let mapped = Mapped::new(&axis(quantity, scale), &extent, [0.0, 100.0]);
                let places = values.iter().filter_map(|value| mapped.place(*value));
                assert!(places.into_iter().all(f64::is_finite), "{scale:?} {quantity:?} {values:?}");
                let ticks = mapped.ticks(5);
                assert!(ticks.iter().all(|tick| tick.value.is_finite()), "{scale:?} {quantity:?} {values:?}");
                assert!(ticks.len() < 20, "{scale:?} {quantity:?} {values:?}: {} ticks", ticks.len());
            }
        }
        let point = Mapped::exact(&axis(Bandwidth, Scale::Linear), [0.0, 0.0], [0.0, 100.0]);
        assert_eq!(point.ticks(5).len(), 1);
        assert_eq!(labels(Bandwidth, Scale::FromZero, &[0.0, 0.0], 2), ["0", "0.5", "1.0"]);
    }

    #[test]
    fn a_value_beyond_the_frame_is_cut() {
        let extent = Extent { values: vec![1.0, 10.0], intervals: vec![1e9] };
        let mapped = Mapped::new(&axis(Quantity::Seconds, Scale::Log), &extent, [100.0, 0.0]);
        assert_eq!([1.0, 10.0, 1e9, 0.0].map(|value| mapped.is_cut(value)), [false, false, true, true]);
    }

    #[test]
    fn huge_intervals_do_not_squeeze_the_values() {
        let extent = Extent { values: vec![1.0, 10.0], intervals: vec![1e-9, 1e9] };
        let mapped = Mapped::new(&axis(Quantity::Seconds, Scale::Log), &extent, [0.0, 100.0]);
        let [low, high] = [1.0, 10.0].map(|value| mapped.place(value).unwrap());
        assert!(high - low > 40.0);
        assert_eq!((mapped.clamped(1e-9), mapped.clamped(1e9), mapped.clamped(0.0)), (0.0, 100.0, 0.0));
        assert_eq!(mapped.place(f64::NAN), None);
    }
}
