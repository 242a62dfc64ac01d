//! At most three findings: what is wrong or what limits, the evidence with its number, and what to do about it. Each has a
//! premise; if none holds, the page has no finding.

use std::collections::HashMap;

use record::{CaseLine, Caveat, ExplainedFinding};
use terms::{Named as _, Status};

use crate::escape::one_line;
use crate::number::{bytes, count, list, percent, seconds};
use crate::study::{Operation, ranks};
use crate::words::facts::{self, Limit};
use crate::{Run, words::expected, words::states, words::verdict::explained_job};

/// Findings of a page.
const MOST: usize = 3;
/// A rank that takes this much longer than the median rank is a finding.
const SLOWER: f64 = 1.03;
/// Scaling below this efficiency is a finding (definitions: above 80% is good).
const GOOD: f64 = 0.8;
/// Below this share an expected figure is missed.
const EXPECTED: f64 = 0.9;
/// A caveat of noise on more than this share of cases is a finding.
const OFTEN: f64 = 0.2;

/// What stands out, and what to do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Finding {
    /// What it is, with its number.
    pub(crate) title: String,
    /// What it rests on.
    pub(crate) evidence: String,
    /// What to do.
    pub(crate) action: String,
    /// The command that does it; empty: none.
    pub(crate) command: String,
}

fn finding(title: impl Into<String>, evidence: impl Into<String>, action: impl Into<String>) -> Finding {
    let line = |text: String| one_line(&text);
    let (title, evidence, action) = (line(title.into()), line(evidence.into()), line(action.into()));
    Finding { title, evidence, action, command: String::new() }
}

impl Finding {
    fn by(self, command: impl Into<String>) -> Self {
        Self { command: one_line(&command.into()), ..self }
    }
}

/// The most important findings of a run, the first first.
pub(crate) fn findings(run: &Run, operations: &[Operation]) -> Vec<Finding> {
    if let Some(job) = explained_job(run) {
        return job.findings.first().map(of_traces).into_iter().collect();
    }
    let mut all: Vec<Finding> = Vec::new();
    all.extend(wrong(run));
    all.extend(failed(run));
    all.extend(gates(run));
    all.extend(noise(run));
    all.extend(machine(run, operations));
    all.extend(slow_rank(run));
    all.extend(below_expected(run));
    all.extend(scaling(operations));
    all.extend(memory_bound(operations));
    all.extend(oversubscribed(run));
    all.extend(states(run));
    all.extend(levels(run));
    all.extend(wide(run));
    all.extend(skipped(run));
    all.truncate(MOST);
    all
}

/// The first finding in the traces of a job; the section about its steps has the others.
fn of_traces(found: &ExplainedFinding) -> Finding {
    let what = if found.what.trim().is_empty() { "Finding" } else { &found.what };
    finding(what, found.evidence.clone(), found.action.clone())
}

fn cases(number: usize) -> String {
    count(number, "case", "cases")
}

fn wrong(run: &Run) -> Option<Finding> {
    let wrong: Vec<&CaseLine> = run.cases.iter().filter(|case| case.wrong.unwrap_or(0) > 0).collect();
    let first = wrong.first()?;
    let element = first.wrong_elements.first().map(|element| {
        let (rank, index) = (element.rank, element.index);
        format!(": rank {rank}, element {index} is {}, expected {}", element.got, element.expected)
    });
    let evidence = format!("The first is {}{}.", first.id, element.unwrap_or_default());
    let action = "Do not use their times. Repeat these cases; if they stay wrong, report the backend with its version.";
    Some(finding(format!("{} gave wrong results", cases(wrong.len())), evidence, action).by(run.resume_command()))
}

/// How many, and the most frequent reason with its number.
fn reasons(all: &[&CaseLine]) -> String {
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    for case in all {
        *numbers.entry(case.reason.as_deref().unwrap_or("no reason was recorded")).or_default() += 1;
    }
    let most = numbers.iter().max_by(|a, b| a.1.cmp(b.1).then(b.0.cmp(a.0)));
    most.map_or_else(String::new, |(reason, number)| match numbers.len() {
        1 => format!("{reason}."),
        _ => format!("{} of them: {reason}.", cases(*number)),
    })
}

fn failed(run: &Run) -> Option<Finding> {
    let of =
        |status: Status| run.cases.iter().filter(move |case| case.status == status && case.wrong.unwrap_or(0) == 0);
    let (failed, open): (Vec<_>, Vec<_>) = (of(Status::Failed).collect(), of(Status::NotRun).collect());
    let total = run.cases.len();
    if !failed.is_empty() {
        let title = format!("{} of {} failed", failed.len(), cases(total));
        let action = "Fix the cause, then run just these cases again.";
        return Some(finding(title, reasons(&failed), action).by(run.resume_command()));
    }
    if open.is_empty() {
        return None;
    }
    let title = format!("{} of {} did not run", open.len(), cases(total));
    Some(finding(title, reasons(&open), "Run the rest into the same record.").by(run.resume_command()))
}

fn gates(run: &Run) -> Option<Finding> {
    let missed: Vec<&CaseLine> = run.cases.iter().filter(|case| !case.gates_missed.is_empty()).collect();
    let first = missed.first()?.gates_missed.first()?;
    let title = format!("{} missed a gate", cases(missed.len()));
    let action = "Compare these cases with the last run that passed, and look at what changed.";
    Some(finding(title, format!("The first: {first}."), action))
}

/// What benchmarks say first: something is wrong with the machine.
fn machine(run: &Run, operations: &[Operation]) -> Vec<Finding> {
    let own = operations
        .iter()
        .filter_map(|operation| Some((operation, run.views.for_section(operation)?.findings(operation)?)));
    let first = own.flat_map(|(operation, all)| {
        let first = all.into_iter().filter(|finding| finding.first);
        first.map(|finding| (operation.name.clone(), finding.text)).collect::<Vec<_>>()
    });
    first
        .map(|(name, text)| {
            let action = "Look at the link, the cores and other load of what it names; the placement is below.";
            finding(format!("{name}: a part of the machine is slow"), text, action)
        })
        .collect()
}

/// The rank that is slowest in most of the cases that carry the caveat, and by how much.
fn slow_rank(run: &Run) -> Option<Finding> {
    let marked: Vec<&CaseLine> = run.cases.iter().filter(|case| case.caveats.contains(&Caveat::SlowRank)).collect();
    let slowest = |case: &CaseLine| {
        let times = case.per_rank_median_s.as_ref().filter(|times| times.len() > 1)?;
        let (rank, time) = times.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1))?;
        Some((rank, time / stats::median(times)))
    };
    let mut found: HashMap<usize, Vec<f64>> = HashMap::new();
    for (rank, ratio) in marked.iter().filter_map(|case| slowest(case)) {
        found.entry(rank).or_default().push(ratio);
    }
    let (rank, ratios) = found.into_iter().max_by(|a, b| a.1.len().cmp(&b.1.len()).then(b.0.cmp(&a.0)))?;
    let ratio = stats::median(&ratios);
    let number = cases(marked.len());
    let title = if ratio > SLOWER {
        format!("Rank {rank} is {} slower than the median rank", percent(ratio - 1.0))
    } else {
        format!("Rank {rank} is last more often than chance allows")
    };
    let evidence = format!("{number} carry `slow_rank`; in {} of them rank {rank} takes the longest.", ratios.len());
    Some(finding(title, evidence, "Look for other load, a lower clock or another binding on its core."))
}

fn below_expected(run: &Run) -> Option<Finding> {
    let (share, sentence) = expected::lowest(run)?;
    let action =
        "Check with `rankmark validate` what this machine lacks, then compare links and settings with the source.";
    (share < EXPECTED)
        .then(|| finding(format!("{} of an expected figure is reached", percent(share)), sentence, action))
}

/// The lowest efficiency at the most ranks.
fn scaling(operations: &[Operation]) -> Option<Finding> {
    let efficiency = |case: &CaseLine| view::number_at(case, "scaling.efficiency");
    let all = operations.iter().flat_map(|operation| &operation.configurations);
    let all: Vec<(&str, &CaseLine, f64)> = all
        .flat_map(|c| c.points.iter().filter_map(|p| Some((c.label.as_str(), p.case, efficiency(p.case)?))))
        .collect();
    let most = all.iter().map(|(_, case, _)| case.ranks).max()?;
    let there = all.iter().filter(|(_, case, _)| case.ranks == most);
    let (label, case, value) = there.min_by(|a, b| a.2.total_cmp(&b.2)).filter(|(.., value)| *value < GOOD)?;
    let ends = view::ends(case, "scaling.ci95");
    let half = ends.map_or_else(String::new, |[low, high]| format!(" ± {}", percent((high - low) / 2.0)));
    let title = format!("{} reach {}{half} of ideal", ranks(case.ranks), percent(*value));
    let part = |name: &str| view::number_at(case, &format!("phases_s.{name}")).filter(|part| *part > 0.0);
    let time = case.time_s.as_ref().map_or(0.0, |time| time.median);
    let shares = ["communication", "wait"].into_iter().filter_map(|name| Some((name, part(name)? / time)));
    let shares: Vec<String> =
        shares.map(|(name, share)| format!("{name} takes {} of a step", percent(share))).collect();
    let phases = if shares.is_empty() || time <= 0.0 { String::new() } else { format!("; {}", list(&shares)) };
    let over = case.caveats.contains(&Caveat::Oversubscribed);
    let action = if over {
        "The ranks share cores: judge scaling by runs of at most one rank a core."
    } else if shares.is_empty() {
        "Compare the phases of a step at few and at many ranks."
    } else {
        "Give each rank a larger batch, or overlap communication with the backward pass."
    };
    Some(finding(title, format!("{label}{phases}."), action))
}

/// The operation that comes nearest to the memory limit.
fn memory_bound(operations: &[Operation]) -> Option<Finding> {
    let bound = |operation: &'_ Operation| {
        let of = |c: &crate::study::Configuration| match facts::limit(c)? {
            Limit::Bound { bytes, shares: [low, high] } if high <= 1.1 => Some((low, high, bytes, c.label.clone())),
            _ => None,
        };
        let best = operation.configurations.iter().filter_map(of).max_by(|a, b| a.0.total_cmp(&b.0))?;
        Some((operation.name.clone(), best))
    };
    let all: Vec<_> = operations.iter().filter_map(bound).collect();
    let (name, (low, high, from, label)) = all.iter().max_by(|a, b| a.1.0.total_cmp(&b.1.0))?;
    let (low, high) = (percent(*low), percent(*high));
    let shares = if low == high { low } else { format!("{low} to {high}") };
    let title = format!("Memory bandwidth limits {name}: {shares} of the limit");
    let others: Vec<&str> = all.iter().map(|(other, _)| other.as_str()).filter(|other| other != name).collect();
    let others = if others.is_empty() { String::new() } else { format!(" The same holds for {}.", list(&others)) };
    let evidence = format!("With {label} from {} up.{others}", bytes(*from));
    let action =
        "A faster transport cannot help there. Move fewer bytes (bf16 halves those of f32), or use more sockets.";
    Some(finding(title, evidence, action))
}

fn oversubscribed(run: &Run) -> Option<Finding> {
    let over = |case: &&CaseLine| case.caveats.contains(&Caveat::Oversubscribed) && case.time_s.is_some();
    let number = run.cases.iter().filter(over).count();
    if number == 0 {
        return None;
    }
    let cores = run.cores.map(|cores| count(cores as usize, "core", "cores"));
    let title = format!("{} have more ranks than {}", cases(number), cores.as_deref().unwrap_or("cores"));
    let evidence = "Their times include waiting for a core, and say nothing about the transport.";
    let action = match run.cores {
        Some(cores) => format!("Judge the transport by runs of at most {}.", ranks(cores)),
        None => "Judge the transport by runs of at most one rank a core.".to_owned(),
    };
    Some(finding(title, evidence, action))
}

fn noise(run: &Run) -> Option<Finding> {
    const NOISE: [Caveat; 6] = [
        Caveat::StolenTime,
        Caveat::QuotaReached,
        Caveat::OtherPrograms,
        Caveat::Throttled,
        Caveat::Noisy,
        Caveat::ContextSwitches,
    ];
    let measured = run.cases.iter().filter(|case| case.time_s.is_some() && !case.simulated);
    let measured: Vec<&CaseLine> = measured.collect();
    let number = |caveat: &Caveat| measured.iter().filter(|case| case.caveats.contains(caveat)).count();
    let often = |caveat: &&Caveat| number(caveat) as f64 > OFTEN * measured.len() as f64;
    let caveat = NOISE.iter().find(often)?;
    let word = caveat.name().replace('_', " ");
    let title = format!("{} of {} are disturbed: {word}", number(caveat), cases(measured.len()));
    let action = match caveat {
        Caveat::StolenTime => "Other tenants use these cores: repeat at another time, or on a machine of your own.",
        Caveat::QuotaReached => "Raise the container's quota of processor time, or run fewer ranks.",
        Caveat::OtherPrograms => {
            "Stop the other programs, use fewer ranks, or repeat at another time; `rankmark compare --interleave` compares two \
             versions all the same."
        }
        Caveat::Throttled => "Check cooling, the power limit and the frequency governor, then repeat.",
        _ => "Stop other programs on these cores, or pin ranks with `--bind`, then repeat.",
    };
    let explanation = caveat.explanation();
    let mut letters = explanation.chars();
    let upper = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    Some(finding(title, format!("{upper}{}.", letters.as_str()), action))
}

/// What the machine was like, where it changed.
fn states(run: &Run) -> Option<Finding> {
    let [title, evidence] = states::title_and_evidence(run)?;
    Some(finding(title, evidence, states::action(run)))
}

/// Cases that the machine ran at several speeds, and the one with the speeds furthest apart.
fn levels(run: &Run) -> Option<Finding> {
    let of = |case: &'_ CaseLine| -> Vec<(f64, f64)> {
        let levels = case.metrics.get("levels").and_then(serde_json::Value::as_array);
        let number = |level: &serde_json::Value, name: &str| level.get(name).and_then(serde_json::Value::as_f64);
        let both = |level| Some((number(level, "median_s")?, number(level, "share")?));
        levels.into_iter().flatten().filter_map(both).collect()
    };
    let all: Vec<Vec<(f64, f64)>> = run.cases.iter().map(of).filter(|levels| levels.len() > 1).collect();
    let apart = |levels: &[(f64, f64)]| levels[levels.len() - 1].0 / levels[0].0;
    let furthest = all.iter().max_by(|a, b| apart(a).total_cmp(&apart(b)))?;
    let level = |(median, share): &(f64, f64)| format!("{} in {} of its trials", seconds(*median), percent(*share));
    let levels: Vec<String> = furthest.iter().map(level).collect();
    let measured = run.cases.iter().filter(|case| case.time_s.is_some()).count();
    let title = format!("The machine had several speeds in {} of {}", all.len(), cases(measured));
    let evidence =
        format!("The furthest apart took {}. A median over both depends on how long each speed lasted.", list(&levels));
    let action = "Pin ranks with `--bind core`, and ask who else uses the machine. Compare two versions interleaved: \
                  `rankmark compare --interleave`.";
    Some(finding(title, evidence, action))
}

fn wide(run: &Run) -> Option<Finding> {
    let measured = run.cases.iter().filter(|case| case.time_s.is_some()).count();
    let number = run.cases.iter().filter(|case| case.caveats.contains(&Caveat::CiAboveTarget)).count();
    if number == 0 {
        return None;
    }
    let title = format!("{number} of {} have an interval wider than the target", cases(measured));
    Some(finding(
        title,
        "Small differences between these cases do not show.",
        "Give each case more time: `--max-seconds`.",
    ))
}

fn skipped(run: &Run) -> Option<Finding> {
    let skipped: Vec<&CaseLine> = run.cases.iter().filter(|case| case.status == Status::Skipped).collect();
    if skipped.is_empty() {
        return None;
    }
    let title = format!("{} of {} were skipped", skipped.len(), cases(run.cases.len()));
    let action = "This command shows what is missing, and how to install it.";
    Some(finding(title, reasons(&skipped), action).by("rankmark validate"))
}
