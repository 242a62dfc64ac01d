//! Caveats in tables: what most rows carry is said once above, and a row has short marks, which a legend explains.

use record::{CaseLine, Caveat};
use terms::Named as _;

use crate::document::strong;

/// The mark of a caveat in a cell: a letter or two, each its own.
pub(crate) const fn mark(caveat: Caveat) -> &'static str {
    match caveat {
        Caveat::SizeRounded => "SR",
        Caveat::Oversubscribed => "O",
        Caveat::CiAboveTarget => "CI",
        Caveat::Preliminary => "P",
        Caveat::ShortSpan => "SS",
        Caveat::QuickLook => "Q",
        Caveat::MeanDiffers => "M",
        Caveat::TwoLevels => "2L",
        Caveat::LimitNotFound => "L",
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
        Caveat::ComputeAsleep => "CA",
        Caveat::Simulated => "S",
        Caveat::Imported => "I",
        Caveat::Injected => "F",
        Caveat::Autocast => "A",
        Caveat::Virtualised => "V",
    }
}

/// A caveat in the words of the terminal's table.
pub fn words(caveat: Caveat) -> String {
    match caveat {
        Caveat::CiAboveTarget => "CI above target".to_owned(),
        other => other.name().replace('_', " "),
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
    /// Those that all rows carry, or, of the noise of the run, at least half of them; at least three rows. Each with its number
    /// of rows; the most first. What no figure may be shown without stays in its row.
    most: Vec<(Caveat, usize)>,
    /// The others that a row carries.
    own: Vec<Caveat>,
    rows: usize,
}

impl Shared {
    /// Those of these rows.
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
        Self { most, own: own.into_iter().map(|(caveat, _)| caveat).collect(), rows: rows.len() }
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
        let mut parts: Vec<(usize, Vec<String>)> = Vec::new();
        for (caveat, number) in &self.most {
            match parts.last_mut() {
                Some((last, list)) if last == number => list.push(words(*caveat)),
                _ => parts.push((*number, vec![words(*caveat)])),
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
        let entry = |caveat: &Caveat| format!("{} {}", strong(mark(*caveat)), words(*caveat));
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
        let shared = Shared { most, own, rows: 6 };
        assert_eq!(shared.sentence().unwrap(), "All 6 rows: noisy, drift; 4 of 6: CI above target.");
        assert!(shared.has(Drift) && !shared.has(QuickLook));
        assert_eq!(Shared::default().sentence().or(Shared::default().legend()), None);
    }
}
