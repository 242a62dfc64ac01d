//! What only the cases of one order tell together: speedup, overlap efficiency, share of the speed of light. Formulas:
//! docs/how-to/primitives.md. All ratios are of trials of the same rounds.

use std::collections::HashMap;

use contract::Firsts;
use record::found::{ROOFLINE, Roofline};
use record::{COMMUNICATION, CaseLine, Caveat};
use serde_json::{Map, Value};

use super::declared::{Audit, CONDITIONS, ORDER, OVERLAP, Overlap};

/// Communication and product differ by more than this factor: overlap has nothing to gain.
const WORTH: [f64; 2] = [0.3, 3.0];

/// Implementations that are a part of the communication.
const PARTS: [&str; 2] = ["dispatch_only", "combine_only"];

/// What must be the same in all cases that are compared, and on all ranks.
const AUDITED: [&str; 6] = ["clock", "barrier", "threads", "multiplied", "mode", "warmup"];
/// What each way may have of its own: `fused` needs no buffer for what it gathers.
const BUFFERS: &str = "buffer_bytes";

/// What a case of one order is compared with, as far as it was measured.
struct Peers<'a> {
    compute: Option<&'a CaseLine>,
    communication: Option<&'a CaseLine>,
    /// The parts of the communication: dispatch and combine.
    parts: [Option<&'a CaseLine>; 2],
    sequential: Option<&'a CaseLine>,
}

impl<'a> Peers<'a> {
    fn all(&self) -> Vec<&'a CaseLine> {
        let [dispatch, combine] = self.parts;
        [self.compute, self.communication, dispatch, combine, self.sequential].into_iter().flatten().collect()
    }
}

fn text<'a>(line: &'a CaseLine, name: &str) -> &'a str {
    line.parameters.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The name of a case's implementation.
pub(super) fn implementation(line: &CaseLine) -> &str {
    text(line, "implementation").split(':').next().unwrap_or_default()
}

/// What is communicated when, as the case's metric says.
pub(super) fn order(line: &CaseLine) -> &str {
    ORDER.word(line).unwrap_or_default()
}

/// The lines of a run that others are compared with. They differ from those in the implementation alone.
pub(super) struct PrimitiveBaselines<'a> {
    /// Cases that compute all of A, and cases that compute a rank's share.
    whole: Firsts<'a>,
    sharded: Firsts<'a>,
    /// By order.
    communication: HashMap<&'a str, Firsts<'a>>,
    /// Dispatch, and combine.
    parts: [Firsts<'a>; 2],
    /// The fastest by order.
    sequential: HashMap<&'a str, Firsts<'a>>,
}

impl<'a> PrimitiveBaselines<'a> {
    pub(super) fn from_lines(all: &[&'a CaseLine]) -> Self {
        let implemented_by =
            |name: &str| all.iter().copied().filter(|line| implementation(line) == name).collect::<Vec<_>>();
        let (sharded, whole): (Vec<&CaseLine>, Vec<&CaseLine>) = implemented_by("compute_only")
            .into_iter()
            .partition(|line| text(line, "implementation").contains("size=sharded"));
        let median = |line: &CaseLine| line.time_s.as_ref().map_or(f64::INFINITY, |time| time.median);
        let mut sequential = implemented_by("sequential");
        sequential.sort_by(|a, b| median(a).total_cmp(&median(b)));
        Self {
            whole: firsts(whole),
            sharded: firsts(sharded),
            communication: by_order(implemented_by("communication_only")),
            parts: PARTS.map(|name| firsts(implemented_by(name))),
            sequential: by_order(sequential),
        }
    }

    fn peers(&self, line: &CaseLine) -> Peers<'a> {
        let order = order(line);
        // The orders of compute-only cases are those of the schemes that they compute. With one order only, its product is the
        // rank's share.
        let compute = if order == "AG_before" { &self.whole } else { &self.sharded };
        Peers {
            compute: compute.like(line),
            communication: self.communication.get(order).and_then(|firsts| firsts.like(line)),
            parts: self.parts.each_ref().map(|firsts| firsts.like(line)),
            sequential: self.sequential.get(order).and_then(|firsts| firsts.like(line)),
        }
    }
}

fn firsts(lines: Vec<&CaseLine>) -> Firsts<'_> {
    Firsts::new(&["implementation"], lines)
}

fn by_order(lines: Vec<&CaseLine>) -> HashMap<&str, Firsts<'_>> {
    let mut orders: HashMap<&str, Vec<&CaseLine>> = HashMap::new();
    lines.into_iter().for_each(|line| orders.entry(order(line)).or_default().push(line));
    orders.into_iter().map(|(order, lines)| (order, firsts(lines))).collect()
}

/// Whether the case has an order: what only computes belongs to none of the comparisons. Nor do times of a stand-in.
fn is_compared(line: &CaseLine) -> bool {
    let name = implementation(line);
    let is_emulated = line.caveats.contains(&Caveat::Emulated);
    !(is_emulated || ["compute_only", "communication_only"].contains(&name) || PARTS.contains(&name))
}

/// Whether the ratio of communication to product leaves something to overlap.
fn is_worth(ratio: f64) -> bool {
    (WORTH[0]..=WORTH[1]).contains(&ratio)
}

/// The metrics that compare this case with others of its run. Those that need a missing case are left out.
pub(super) fn for_case(line: &CaseLine, compared: &PrimitiveBaselines<'_>) -> Map<String, Value> {
    let mut found = Map::new();
    if !is_compared(line) {
        return found;
    }
    let peers = compared.peers(line);
    if peers.all().is_empty() {
        return found;
    }
    let median = |line: &CaseLine| line.time_s.as_ref().map(|time| time.median);
    let mut overlap = Overlap {
        compute_s: peers.compute.and_then(median),
        communication_s: peers.communication.and_then(median),
        dispatch_s: peers.parts[0].and_then(median),
        combine_s: peers.parts[1].and_then(median),
        sequential_s: peers.sequential.and_then(median),
        audit: audit(line, &peers.all()),
        ..Overlap::default()
    };
    if let Some(sequential) = peers.sequential.filter(|_| implementation(line) != "sequential") {
        let (own, theirs) = line.paired_trials(sequential);
        let speedup = stats::paired_ratio(&theirs, &own);
        (overlap.speedup, overlap.speedup_ci95) =
            (speedup.map(|found| found.mid), speedup.and_then(|found| found.ends));
    }
    if let (Some(compute), Some(communication)) = (peers.compute, peers.communication)
        && let (Some(t_compute), Some(t_communication)) = (overlap.compute_s, overlap.communication_s)
    {
        let ratio = t_communication / t_compute;
        (overlap.ratio, overlap.worth) = (Some(ratio), Some(is_worth(ratio)));
        let light = |t: f64, compute: f64, communication: f64| compute.max(communication) / t;
        if let Some((share, interval)) = of_rounds([line, compute, communication], light) {
            (overlap.speed_of_light, overlap.speed_of_light_ci95) = (Some(share), interval);
        }
        // Where one of the two is next to nothing, the quotient is noise over next to nothing.
        let has_efficiency = is_worth(ratio) && implementation(line) != "sequential";
        let hidden =
            |t: f64, compute: f64, communication: f64| (compute + communication - t) / compute.min(communication);
        if let Some((efficiency, interval)) =
            of_rounds([line, compute, communication], hidden).filter(|_| has_efficiency)
        {
            (overlap.efficiency, overlap.efficiency_ci95) = (Some(efficiency), interval);
        }
        if t_communication > t_compute
            && let Some(roofline) = ROOFLINE.of(line)
        {
            ROOFLINE.put(&mut found, Roofline { bound: COMMUNICATION.to_owned(), ..roofline });
        }
    }
    OVERLAP.put(&mut found, overlap);
    found
}

/// A value of the times of the case, the product and the communication, in each round that all three took part in: the
/// median, and its interval.
fn of_rounds(lines: [&CaseLine; 3], value: impl Fn(f64, f64, f64) -> f64) -> Option<(f64, Option<[f64; 2]>)> {
    let at = |line: &CaseLine, round: u32| {
        let place = line.trial_round.iter().position(|known| *known == round)?;
        line.trial_median_s.get(place).copied()
    };
    let of_round = |round: &u32| {
        let [t, compute, communication] = lines.map(|line| at(line, *round));
        Some(value(t?, compute?, communication?)).filter(|value| value.is_finite())
    };
    let all: Vec<f64> = lines[0].trial_round.iter().filter_map(of_round).collect();
    (!all.is_empty()).then(|| (stats::median(&all), stats::sign_interval(&all)))
}

/// The conditions of a case from those of its ranks: where ranks differ, the list by rank.
pub(super) fn of_ranks(ranks: &[Map<String, Value>]) -> Option<Map<String, Value>> {
    let mut conditions = ranks.first()?.clone();
    for (name, value) in &mut conditions {
        let each: Vec<Value> = ranks.iter().map(|rank| rank.get(name).cloned().unwrap_or(Value::Null)).collect();
        if each.iter().any(|of_rank| of_rank != value) {
            *value = each.into();
        }
    }
    Some(conditions)
}

/// Which conditions differ between a case and those that it is compared with, or between its ranks. Only an empty list makes
/// the ratios ratios of implementations. A condition that was not recorded is none that is the same.
fn audit(line: &CaseLine, others: &[&CaseLine]) -> Audit {
    let condition = |line: &CaseLine, name: &str| CONDITIONS.value(line).and_then(|all| all.get(name)).cloned();
    let settings = |line: &CaseLine| (line.worlds, line.backend.clone());
    let differs = |name: &&str| {
        let own = condition(line, name);
        own.as_ref().is_none_or(Value::is_array) || others.iter().any(|other| condition(other, name) != own)
    };
    let (mut differ, same): (Vec<&str>, Vec<&str>) = AUDITED.into_iter().partition(differs);
    if others.iter().any(|other| settings(other) != settings(line)) {
        differ.push("worlds");
    }
    let buffer_bytes = std::iter::once(&line)
        .chain(others)
        .filter_map(|case| Some((implementation(case).to_owned(), condition(case, BUFFERS)?)))
        .collect();
    let texts = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
    Audit { same: texts(same), differ: texts(differ), buffer_bytes }
}

#[cfg(test)]
mod tests {
    use record::{Case, TimeSummary};
    use serde_json::json;
    use terms::Status;

    use super::*;

    fn relations_of(line: &CaseLine, all: &[&CaseLine]) -> Map<String, Value> {
        super::for_case(line, &PrimitiveBaselines::from_lines(all))
    }

    /// A line of six rounds with these times.
    fn line(implementation: &str, order: &str, times: [f64; 6]) -> CaseLine {
        let text = format!(r#"{{"primitive": "tp_columnwise", "implementation": "{implementation}", "ranks": 2}}"#);
        let case = Case::new("primitive", serde_json::from_str(&text).unwrap());
        let mut line = CaseLine::unmeasured(&case, Status::Ok, "");
        line.time_s = Some(TimeSummary { median: stats::median(&times), ..TimeSummary::default() });
        (line.trial_round, line.trial_median_s) = ((0..6).collect(), times.to_vec());
        line.metrics.insert("order".to_owned(), order.into());
        line
    }

    /// The machine is three times as slow in every other round: the quotient of two medians would know nothing of it.
    #[test]
    fn speedups_are_those_of_the_rounds() {
        const MOODS: [f64; 6] = [1.0, 3.0, 1.0, 3.0, 1.0, 3.0];
        let times = |factor: f64| MOODS.map(|mood| factor * mood);
        let mut sequential = line("sequential:order=AG_before", "AG_before", times(2.0));
        sequential.trial_median_s[1] = 1.0;
        let lines = [
            line("compute_only:size=unsharded", "", times(1.0)),
            line("communication_only:order=AG_before", "AG_before", times(1.0)),
            sequential,
            line("pipelined:order=AG_before,algorithm=ring_p2p", "AG_before", times(1.25)),
        ];
        let overlap = relations_of(&lines[3], &lines.iter().collect::<Vec<_>>())["overlap"].clone();
        assert_eq!(
            (overlap["speedup"].as_f64(), overlap["speedup_ci95"][1].as_f64()),
            (Some(1.6), Some(1.6)),
            "{overlap}"
        );
        // Of the product and the communication, each as long as the other, three quarters overlap.
        assert_eq!((overlap["efficiency"].as_f64(), overlap["efficiency_ci95"][0].as_f64()), (Some(0.75), Some(0.75)));
        let light = (overlap["speed_of_light"].as_f64(), overlap["speed_of_light_ci95"][1].as_f64());
        assert_eq!(light, (Some(0.8), Some(0.8)), "of each round");
    }

    /// Two ways are enough for a speedup; what the others would tell is left out.
    #[test]
    fn a_speedup_needs_no_more_than_the_sequential_case() {
        let lines = [
            line("sequential:order=AG_before", "AG_before", [2.0; 6]),
            line("fused:order=AG_before", "AG_before", [1.0; 6]),
        ];
        let overlap = relations_of(&lines[1], &lines.iter().collect::<Vec<_>>())["overlap"].clone();
        assert_eq!(overlap["speedup"].as_f64(), Some(2.0), "{overlap}");
        assert!(overlap.get("ratio").is_none() && overlap.get("speed_of_light").is_none(), "{overlap}");
        assert!(relations_of(&lines[1], &[&lines[1]]).is_empty());
    }

    #[test]
    fn conditions_that_differ_or_were_not_recorded_are_told() {
        let conditions = |threads: Value| {
            json!({"clock": "c", "barrier": "b", "threads": threads, "multiplied": "gemm",
            "mode": "streaming", "warmup": 1, "buffer_bytes": 64})
        };
        let mut lines = [
            line("sequential:order=AG_before", "AG_before", [2.0; 6]),
            line("fused:order=AG_before", "AG_before", [1.0; 6]),
        ];
        let audit = |lines: &[CaseLine; 2]| relations_of(&lines[1], &[&lines[0]])["overlap"]["audit"].clone();
        assert_eq!(audit(&lines)["same"], json!([]), "nothing was recorded");
        for line in &mut lines {
            line.metrics.insert("conditions".to_owned(), conditions(json!(1)));
        }
        assert_eq!(audit(&lines)["differ"], json!([]));
        assert_eq!(audit(&lines)["buffer_bytes"], json!({"fused": 64, "sequential": 64}));
        lines[0].metrics.insert("conditions".to_owned(), conditions(json!(2)));
        assert_eq!(audit(&lines)["differ"], json!(["threads"]));
        // Ranks of one case that differ among themselves.
        let rank = |threads: u32| Map::from_iter([("threads".to_owned(), json!(threads))]);
        assert_eq!(of_ranks(&[rank(1), rank(2)]).unwrap()["threads"], json!([1, 2]));
        assert_eq!(of_ranks(&[rank(1), rank(1)]).unwrap()["threads"], json!(1));
        for line in &mut lines {
            line.metrics.insert("conditions".to_owned(), conditions(json!([1, 2])));
        }
        assert_eq!(audit(&lines)["differ"], json!(["threads"]));
    }
}
