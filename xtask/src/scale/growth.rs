//! Whether what a command takes grows faster than n log n.

use super::child::Cost;

/// Sizes of the inputs of a row: a few, which tell what a command takes in any case, a quarter of the largest, and the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes(pub(super) [usize; 3]);

impl Sizes {
    pub(super) fn up_to(largest: usize) -> Self {
        Self([(largest / 64).max(1), largest / 4, largest])
    }

    pub(super) fn largest(self) -> usize {
        self.0[2]
    }

    /// By how much n log n grows from a quarter to the whole, both less the least.
    fn expected(self) -> f64 {
        let [least, quarter, whole] = self.0.map(|size| size as f64 * (size as f64).log2().max(1.0));
        (whole - least) / (quarter - least)
    }
}

/// How much more than n log n is not judged. A square grows 2.9 to 3.4 times as fast.
const SLACK: f64 = 1.7;
/// Seconds that a processor's clock, and other programs, may add.
const LEAST_SECONDS: f64 = 0.03;
/// Memory that comes and goes with the allocator.
const LEAST_MEGABYTES: f64 = 5.0;
/// What is freed before the input is read hides as much of it, as a share of what the least input takes.
const HIDDEN: f64 = 0.25;

/// What is measured: its name, its value, and the least that counts.
type Quantity = (&'static str, fn(&Cost) -> f64, f64);

/// What grows too fast, in words.
pub(super) fn faster_than_linear(sizes: &Sizes, costs: &[Cost; 3]) -> Vec<String> {
    let most = sizes.expected() * SLACK;
    let quantities: [Quantity; 2] =
        [("time", |cost| cost.processor, LEAST_SECONDS), ("memory", |cost| cost.megabytes, LEAST_MEGABYTES)];
    let too_fast = |(what, of, least): Quantity| {
        let [always, quarter, whole] = costs.each_ref().map(of);
        let ratio = (whole - always) / (quarter - always).max(least).max(HIDDEN * always);
        (ratio > most)
            .then(|| format!("{what} of four times as much grows {ratio:.1} times, n log n {:.1} times", most / SLACK))
    };
    quantities.into_iter().filter_map(too_fast).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Costs of a law, above what a command takes in any case.
    fn costs(sizes: &Sizes, law: fn(f64) -> f64) -> [Cost; 3] {
        let whole = law(sizes.largest() as f64);
        sizes.0.map(|size| {
            let share = law(size as f64) / whole;
            Cost { processor: 0.2 + 3.0 * share, megabytes: 30.0 + 400.0 * share, ..Cost::default() }
        })
    }

    #[test]
    fn squares_are_seen_and_sorting_is_not() {
        for largest in [400, 20_000, 1 << 20] {
            let sizes = Sizes::up_to(largest);
            for law in [(|n| n) as fn(f64) -> f64, |n| n * n.log2(), |n| n.sqrt(), |_| 1.0] {
                assert_eq!(faster_than_linear(&sizes, &costs(&sizes, law)), [""; 0], "{largest}");
            }
            assert_eq!(faster_than_linear(&sizes, &costs(&sizes, |n| n * n)).len(), 2, "{largest}");
            assert_eq!(faster_than_linear(&sizes, &costs(&sizes, |n| n.powf(1.9))).len(), 2, "{largest}");
        }
    }

    #[test]
    fn a_command_that_takes_next_to_nothing_is_not_judged_by_noise() {
        let cost = |processor, megabytes| Cost { processor, megabytes, ..Cost::default() };
        let quiet = [cost(0.05, 30.0), cost(0.05, 30.0), cost(0.2, 50.0)];
        assert_eq!(faster_than_linear(&Sizes::up_to(1000), &quiet), [""; 0]);
        // 114 MB are linear, of which the start hides 46.
        let hidden = [cost(0.1, 46.0), cost(0.3, 46.0), cost(1.0, 114.0)];
        assert_eq!(faster_than_linear(&Sizes::up_to(20_000), &hidden), [""; 0]);
    }
}
