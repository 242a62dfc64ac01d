//! Better, worse, same, or cannot tell.

terms::named! {
    /// What a comparison of one case says.
    pub enum Verdict("verdict") {
        /// The whole interval of the ratio lies inside the threshold.
        Same = "same",
        /// The interval excludes 1 on the good side.
        Better = "better",
        /// The interval excludes 1 on the bad side.
        Worse = "worse",
        /// The interval is too wide for any of these.
        CannotTell = "cannot tell",
    }
}

impl Verdict {
    /// The verdict on the interval of a ratio `new / base` of times, where smaller is better. `threshold` is relative: 0.03
    /// is 3%. Without an interval there is no verdict.
    pub fn from_interval(interval: Option<[f64; 2]>, threshold: f64) -> Self {
        let Some([low, high]) = interval else { return Self::CannotTell };
        // The inverse on the other side, so that exchanging both runs exchanges better and worse, and keeps the same.
        if low >= 1.0 / (1.0 + threshold) && high <= 1.0 + threshold {
            Self::Same
        } else if low > 1.0 {
            Self::Worse
        } else if high < 1.0 {
            Self::Better
        } else {
            Self::CannotTell
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_needs_the_whole_interval() {
        for (interval, expected) in [
            (Some([0.99, 1.02]), Verdict::Same),
            (Some([1.001, 1.02]), Verdict::Same),
            (Some([1.01, 1.04]), Verdict::Worse),
            (Some([0.90, 0.96]), Verdict::Better),
            (Some([0.90, 1.01]), Verdict::CannotTell),
            (None, Verdict::CannotTell),
        ] {
            assert_eq!(Verdict::from_interval(interval, 0.03), expected, "{interval:?}");
            let mirrored = interval.map(|[low, high]| [1.0 / high, 1.0 / low]);
            let opposite = match expected {
                Verdict::Better => Verdict::Worse,
                Verdict::Worse => Verdict::Better,
                same => same,
            };
            assert_eq!(Verdict::from_interval(mirrored, 0.03), opposite, "{mirrored:?}");
        }
    }
}
