//! Caveats in tables: what most rows carry is said once above, and a row has short marks, which a legend explains.

use record::{Case, CaseLine, Caveat};
use terms::{Named as _, Ratio};

use crate::document::strong;

/// The mark of a caveat in a cell: a letter or two, each its own.
pub(crate) const fn mark(caveat: Caveat) -> &'static str {
    match caveat {
        Caveat::SizeRounded => "SR",
        Caveat::Oversubscribed => "O",
        Caveat::OneCore => "1C",
        Caveat::CiAboveTarget => "CI",
        Caveat::Preliminary => "P",
        Caveat::ShortSpan => "SS",
        Caveat::QuickLook => "Q",
        Caveat::MeanDiffers => "M",
        Caveat::TwoLevels => "2L",
        Caveat::LimitNotFound => "L",
        Caveat::LinkSpeedUnknown => "LS",
        Caveat::WarmUpNotConverged => "W",
        Caveat::Drift => "D",
        Caveat::Noisy => "N",
        Caveat::StolenTime => "ST",
        Caveat::ContextSwitches => "CS",
        Caveat::Throttled => "T",
        Caveat::QuotaReached => "QR",
        Caveat::OtherPrograms => "OP",
        Caveat::SlowRank => "R",
        Caveat::MissedStart => "MS",
        Caveat::StartsApart => "SA",
        Caveat::ClockResolution => "C",
        Caveat::Restarted => "RS",
        Caveat::Paced => "PA",
        Caveat::Emulated => "E",
        Caveat::SharedDevice => "SD",
        Caveat::ComputeAsleep => "CA",
        Caveat::Simulated => "S",
        Caveat::PartlyChecked => "PC",
        Caveat::Imported => "I",
        Caveat::Injected => "F",
        Caveat::Autocast => "A",
        Caveat::Virtualised => "V",
    }
}

/// How caveats are said: with the target of intervals, where all cases have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Wording {
    target: Option<f64>,
}

impl Wording {
    /// For the cases of a plan.
    pub fn of_cases(cases: &[Case]) -> Self {
        let of = |case: &Case| Self { target: case.target_precision().filter(|target| *target > 0.0) };
        Self::common(cases.iter().map(of))
    }

    /// What all have in common.
    pub(crate) fn common(mut all: impl Iterator<Item = Self>) -> Self {
        let first = all.next().unwrap_or_default();
        if all.all(|other| other == first) { first } else { Self::default() }
    }

    /// A caveat in a few words, the same in terminal and report.
    pub fn words(self, caveat: Caveat) -> String {
        match (caveat, self.target) {
            (Caveat::CiAboveTarget, Some(target)) => format!("CI above {}", Ratio(target)),
            (Caveat::CiAboveTarget, None) => "CI above target".to_owned(),
            (Caveat::OneCore, _) => "all ranks on one core".to_owned(),
            (Caveat::WarmUpNotConverged, _) => "warm-up not converged".to_owned(),
            (other, _) => other.name().replace('_', " "),
        }
    }

    /// The long form of a caveat.
    pub fn explanation(self, caveat: Caveat) -> String {
        let text = caveat.explanation();
        match (caveat, self.target) {
            (Caveat::CiAboveTarget, Some(target)) => format!("{text} of {}", Ratio(target)),
            _ => text.to_owned(),
        }
    }
}

/// The marks of these caveats.
pub(crate) fn marks<'c>(caveats: impl IntoIterator<Item = &'c Caveat>) -> String {
    caveats.into_iter().map(|caveat| mark(*caveat)).collect::<Vec<_>>().join(" ")
}

/// Whether a caveat is about the noise of a run, and not about a case: which rows it leaves out matters little.
fn is_of_the_run(caveat: Caveat) -> bool {
    use Caveat::{
        CiAboveTarget, ContextSwitches, MeanDiffers, Noisy, OtherPrograms, Preliminary, QuickLook, QuotaReached,
        ShortSpan, StolenTime, Throttled, Virtualised, WarmUpNotConverged,
    };
    matches!(
        caveat,
        CiAboveTarget
            | ContextSwitches
            | MeanDiffers
            | Noisy
            | OtherPrograms
            | Preliminary
            | QuickLook
            | QuotaReached
            | ShortSpan
            | StolenTime
            | Throttled
            | Virtualised
            | WarmUpNotConverged
    )
}

/// Caveats of a table's rows.
#[derive(Debug, Default)]
pub struct Shared {
    /// Caveats that all rows carry, or, of the noise of the run, at least half of them; at least three rows. Each with its number
    /// of rows; the most first. What no figure may be shown without stays in its row.
    most: Vec<(Caveat, usize)>,
    /// Other caveats that a row carries.
    own: Vec<Caveat>,
    rows: usize,
    /// The state of the machine that all rows have.
    state: Option<String>,
    wording: Wording,
}

impl Shared {
    /// Caveats of these rows.
    pub fn of_rows(rows: &[&CaseLine]) -> Self {
        let number = |caveat: Caveat| rows.iter().filter(|case| case.caveats.contains(&caveat)).count();
        let all = Caveat::ALL.iter().map(|caveat| (*caveat, number(*caveat))).filter(|(_, number)| *number > 0);
        let is_shared = |(caveat, number): &(Caveat, usize)| {
            let said_in_each =
                matches!(caveat, Caveat::Simulated | Caveat::Imported | Caveat::Injected | Caveat::Paced);
            *number >= 3
                && !said_in_each
                && (*number == rows.len() || is_of_the_run(*caveat) && 2 * number >= rows.len())
        };
        let (mut most, own): (Vec<_>, Vec<_>) = all.partition(is_shared);
        most.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
        let own = own.into_iter().map(|(caveat, _)| caveat).collect();
        Self { most, own, rows: rows.len(), ..Self::default() }
    }

    /// Adds the state of the machine, where all of several rows have one.
    pub fn with_state(self, rows: &[&CaseLine]) -> Self {
        let first = rows.first().filter(|_| rows.len() > 1).and_then(|case| case.state.clone());
        let state = first.filter(|first| rows.iter().all(|case| case.state.as_ref() == Some(first)));
        Self { state, ..self }
    }

    /// Whether the line above the table says the state of the machine.
    pub fn has_state(&self) -> bool {
        self.state.is_some()
    }

    /// Says the caveats in these words.
    pub fn worded(self, wording: Wording) -> Self {
        Self { wording, ..self }
    }

    /// A caveat in the words of the table.
    pub fn words(&self, caveat: Caveat) -> String {
        self.wording.words(caveat)
    }

    /// Whether the line above the table says it.
    pub fn has(&self, caveat: Caveat) -> bool {
        self.most.iter().any(|(other, _)| *other == caveat)
    }

    /// Whether any row has a mark.
    pub(crate) fn has_marks(&self) -> bool {
        !self.own.is_empty()
    }

    /// "14 of 16 rows: CI above target; 9 of 16: context switches."
    pub fn sentence(&self) -> Option<String> {
        let state = self.state.iter().map(|state| (self.rows, vec![view::one_line(state)]));
        let mut parts: Vec<(usize, Vec<String>)> = state.collect();
        for (caveat, number) in &self.most {
            match parts.last_mut() {
                Some((last, list)) if last == number => list.push(self.words(*caveat)),
                _ => parts.push((*number, vec![self.words(*caveat)])),
            }
        }
        let part = |(place, (number, list)): (usize, &(usize, Vec<String>))| {
            let number = if *number == self.rows { "All".to_owned() } else { format!("{number} of") };
            let rows = if place == 0 { " rows" } else { "" };
            format!("{number} {}{rows}: {}", self.rows, list.join(", "))
        };
        let parts: Vec<String> = parts.iter().enumerate().map(part).collect();
        (!parts.is_empty()).then(|| format!("{}.", parts.join("; ")))
    }

    /// What the marks of the rows mean.
    pub(crate) fn legend(&self) -> Option<String> {
        let entry = |caveat: &Caveat| format!("{} {}", strong(mark(*caveat)), self.words(*caveat));
        let entries: Vec<String> = self.own.iter().map(entry).collect();
        self.has_marks().then(|| format!("Caveats: {}.", entries.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_marks_are_alike() {
        let marks: HashSet<&str> = Caveat::ALL.iter().map(|caveat| mark(*caveat)).collect();
        assert_eq!(marks.len(), Caveat::ALL.len());
        assert!(marks.iter().all(|mark| (1..=2).contains(&mark.len())));
    }

    #[test]
    fn caveats_of_the_same_number_of_rows_share_a_part() {
        use Caveat::{CiAboveTarget, Drift, Noisy, QuickLook};
        let (most, own) = (vec![(Noisy, 6), (Drift, 6), (CiAboveTarget, 4)], vec![QuickLook]);
        let shared = Shared { most, own, rows: 6, ..Shared::default() };
        assert_eq!(shared.sentence().unwrap(), "All 6 rows: noisy, drift; 4 of 6: CI above target.");
        assert!(shared.has(Drift) && !shared.has(QuickLook));
        assert_eq!(Shared::default().sentence().or(Shared::default().legend()), None);
        let shared = shared.worded(Wording { target: Some(0.02) });
        assert_eq!(shared.sentence().unwrap(), "All 6 rows: noisy, drift; 4 of 6: CI above 2%.");
    }

    #[test]
    fn a_state_that_all_rows_have_is_said_once() {
        let planned = record::plan::from_defaults(benchmarks::abouts()[0]).unwrap().cases.remove(0);
        let case = |state: &str| CaseLine {
            state: Some(state.to_owned()),
            ..CaseLine::unmeasured(&planned, terms::Status::Ok, "")
        };
        let (near, far) = (case("near cores"), case("far cores"));
        let shared = |rows: &[&CaseLine]| Shared::of_rows(rows).with_state(rows).sentence();
        assert_eq!(shared(&[&near, &near]).unwrap(), "All 2 rows: near cores.");
        assert_eq!(shared(&[&near, &far]).or(shared(&[&near])), None);
    }

    #[test]
    fn a_target_is_said_where_all_cases_have_the_same() {
        let wording = |target| Wording { target };
        let common = |targets: &[f64]| Wording::common(targets.iter().map(|target| wording(Some(*target))));
        assert_eq!(common(&[0.02, 0.02]), wording(Some(0.02)));
        assert_eq!(common(&[0.02, 0.05]).words(Caveat::CiAboveTarget), "CI above target");
        let explanation = common(&[0.05]).explanation(Caveat::CiAboveTarget);
        assert_eq!(
            explanation,
            "the 95% interval of the median over the run's own span is wider than the target of 5%"
        );
    }
}
