//! Words at the end of a row: what went wrong with its cases, and what limits their numbers.

use record::found::{LEVELS, Level, SLOW_RANK};
use record::{CaseLine, Caveat};
use terms::{Seconds, Status};

use crate::caveats::Shared;

/// "two levels: 125 ns (62% of trials), 580 ns (38%)".
fn levels(line: &CaseLine) -> Option<String> {
    let level = |level: Level| (Seconds(level.median_s).to_string(), (100.0 * level.share).round());
    let known: Vec<(String, f64)> = LEVELS.of(line)?.into_iter().map(level).collect();
    let [(first, share), others @ ..] = &known[..] else { return None };
    let count = if others.len() > 1 { "three levels" } else { "two levels" };
    let others: String = others.iter().map(|(time, share)| format!(", {time} ({share}%)")).collect();
    Some(format!("{count}: {first} ({share}% of trials){others}"))
}

/// Status and missed gates of a case, and its caveats but for those that are said of all rows.
fn of_case(line: &CaseLine, said: &Shared) -> (Vec<String>, Vec<String>) {
    let mut states: Vec<String> = Vec::new();
    // The one that these times are of, where the machine had several.
    let state = line.state.as_ref().filter(|_| !said.has_state()).map(|state| view::one_line(state));
    if line.status != Status::Ok {
        states.push(line.status.to_string().to_uppercase());
    }
    if !line.gates_missed.is_empty() {
        states.push("GATE".to_owned());
    }
    let caveat = |caveat: &Caveat| match (caveat, SLOW_RANK.of(line)) {
        (Caveat::SlowRank, Some(rank)) => format!("slow rank {rank}"),
        (Caveat::TwoLevels, _) => levels(line).unwrap_or_else(|| said.words(*caveat)),
        _ => said.words(*caveat),
    };
    let own = line.caveats.iter().filter(|caveat| !said.has(**caveat));
    (states, state.into_iter().chain(own.map(caveat)).collect())
}

/// The remarks of a row: of one case, or of several under the labels of their columns. What all of them share is said once,
/// and what is said of all rows is not repeated.
pub(super) fn remarks(cases: &[(&str, &CaseLine)], said: &Shared) -> String {
    let all: Vec<(Vec<String>, Vec<String>)> = cases.iter().map(|(_, line)| of_case(line, said)).collect();
    let [(states, caveats), others @ ..] = &all[..] else { return String::new() };
    if others.is_empty() {
        let mut parts = states.clone();
        parts.extend((!caveats.is_empty()).then(|| caveats.join(", ")));
        return parts.join("  ");
    }
    let all: Vec<Vec<String>> = all.into_iter().map(|(states, caveats)| [states, caveats].concat()).collect();
    let shared = |word: &&String| all.iter().all(|words| words.contains(word));
    let mut parts: Vec<String> = vec![all[0].iter().filter(shared).cloned().collect::<Vec<_>>().join(", ")];
    for ((label, _), words) in cases.iter().zip(&all) {
        let own: Vec<&str> = words.iter().filter(|word| !shared(word)).map(String::as_str).collect();
        parts.extend((!own.is_empty()).then(|| format!("{label}: {}", own.join(", "))));
    }
    parts.retain(|part| !part.is_empty());
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cases_of_a_row_share_is_said_once() {
        let case = record::plan::from_defaults(benchmarks::abouts()[0]).unwrap().cases.remove(0);
        let remarks = |cases: &[(&str, &CaseLine)]| super::remarks(cases, &Shared::default());
        let line = |status, caveats: &[Caveat]| CaseLine {
            caveats: caveats.to_vec(),
            ..CaseLine::unmeasured(&case, status, "")
        };
        let noisy = line(Status::Ok, &[Caveat::Noisy, Caveat::CiAboveTarget]);
        let failed = line(Status::Failed, &[Caveat::Noisy]);
        assert_eq!(remarks(&[("a", &noisy), ("b", &failed)]), "noisy; a: CI above target; b: FAILED");
        assert_eq!(remarks(&[("a", &noisy), ("b", &noisy)]), "noisy, CI above target");
        assert_eq!(remarks(&[("a", &failed)]), "FAILED  noisy", "alone in its row, a case needs no label");
        let mut two = line(Status::Ok, &[Caveat::TwoLevels]);
        assert_eq!(remarks(&[("a", &two)]), "two levels");
        let levels = serde_json::json!([{"median_s": 1.25e-6, "trials": 8, "share": 8.0 / 13.0}, {"median_s": 5.8e-6, "trials": 5, "share": 5.0 / 13.0}]);
        two.metrics.insert("levels".to_owned(), levels);
        assert_eq!(remarks(&[("a", &two)]), "two levels: 1.25 us (62% of trials), 5.80 us (38%)");
        assert_eq!(remarks(&[("a", &line(Status::Ok, &[])), ("b", &line(Status::Ok, &[]))]), "");
    }

    #[test]
    fn what_most_rows_share_is_not_repeated_in_each() {
        let case = record::plan::from_defaults(benchmarks::abouts()[0]).unwrap().cases.remove(0);
        let line =
            |caveats: &[Caveat]| CaseLine { caveats: caveats.to_vec(), ..CaseLine::unmeasured(&case, Status::Ok, "") };
        let noisy = line(&[Caveat::ContextSwitches, Caveat::CiAboveTarget]);
        let mut lines = vec![noisy.clone(), noisy.clone(), noisy];
        lines.push(line(&[Caveat::CiAboveTarget, Caveat::Oversubscribed]));
        let said = Shared::of_rows(&lines.iter().collect::<Vec<_>>());
        let rows: Vec<String> = lines.iter().map(|line| super::remarks(&[("", line)], &said)).collect();
        assert_eq!(rows, ["", "", "", "oversubscribed"]);
        assert_eq!(said.sentence().unwrap(), "All 4 rows: CI above target; 3 of 4: context switches.");
        lines.iter_mut().for_each(|line| line.caveats.push(Caveat::Oversubscribed));
        lines[0].caveats.pop();
        let said = Shared::of_rows(&lines.iter().collect::<Vec<_>>());
        assert!(!said.has(Caveat::Oversubscribed), "which rows share cores matters");
    }
}
