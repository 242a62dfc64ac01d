//! At most three findings: what is wrong or what limits, the evidence with its number, and what to do about it. Each has a
//! premise; if none holds, the page has no finding.

mod disturbed;
pub(in crate::words) mod limits;

use std::collections::HashMap;

use record::found::{SLOW_RANK, SLOW_RANK_WAIT_S};
use record::{CaseLine, Caveat, ExplainedCase, ExplainedFinding};
use terms::Status;

use crate::escape::one_line;
use crate::number::{count, percent};
use crate::study::{Operation, ranks};
use crate::{Run, words::expected, words::explained::explained_job};

/// Findings of a page.
const MOST: usize = 3;
/// A rank that takes this much longer than the median rank is a finding.
const SLOWER: f64 = 1.03;
/// Less of a step that is lost for sure is neither a verdict nor a finding of the page: steps of one machine differ by as much
/// from one run to the next.
const LEAST_LOSS: f64 = 0.01;
/// Below this share an expected figure is missed.
const EXPECTED: f64 = 0.9;

/// What a finding is about. The order is that of the page: what follows does not hold of a disturbed machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FindingTopic {
    /// Results are wrong.
    Wrong,
    /// Cases gave no result, or missed what was asked of them.
    Failed,
    /// The machine was disturbed while it was measured.
    Disturbed,
    /// Most intervals are so wide that times say little.
    Uncertain,
    /// A rank, a link or another part is slower than its peers.
    Slow,
    /// What costs the steps that were recorded the most.
    Steps,
    /// Less is reached than is known of this hardware.
    Below,
    /// What limits the results.
    Limit,
    /// More ranks do not bring what they should.
    Scaling,
    /// How to learn more.
    Hint,
}

/// What stands out, and what to do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Finding {
    pub(crate) kind: FindingTopic,
    /// What it is, with its number.
    pub(crate) title: String,
    /// What the verdict of the page says of it, where that is more than the title.
    pub(crate) in_full: Option<String>,
    /// What it rests on.
    pub(crate) evidence: String,
    /// What to do.
    pub(crate) action: String,
    /// The command that does it; empty: none.
    pub(crate) command: String,
    /// The share of the time that is lost by it, as far as it is certain: 1 where no number says how much.
    loss: f64,
}

fn finding(
    kind: FindingTopic,
    title: impl Into<String>,
    evidence: impl Into<String>,
    action: impl Into<String>,
) -> Finding {
    let line = |text: String| one_line(&text);
    let (title, evidence, action) = (line(title.into()), line(evidence.into()), line(action.into()));
    Finding { kind, title, in_full: None, evidence, action, command: String::new(), loss: 1.0 }
}

impl Finding {
    fn loses(self, share: f64) -> Self {
        Self { loss: if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }, ..self }
    }

    /// Whether it says how much time is lost: these stand in the order of that, whatever they are about.
    fn is_loss(&self) -> bool {
        matches!(
            self.kind,
            FindingTopic::Slow
                | FindingTopic::Steps
                | FindingTopic::Below
                | FindingTopic::Limit
                | FindingTopic::Scaling
        )
    }

    fn by(self, command: impl Into<String>) -> Self {
        Self { command: one_line(&command.into()), ..self }
    }

    /// With the command that measures these cases again, if there is one.
    fn again(self, run: &Run, cases: &[&CaseLine]) -> Self {
        match run.again(cases) {
            Some(command) => self.by(command),
            None => self,
        }
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
    all.extend(cut(run));
    all.extend(disturbed::findings(run));
    all.extend(machine(run, operations));
    all.extend(slow_rank(run));
    all.extend(traced(run));
    all.extend(below_expected(run));
    all.extend(limits::scaling(run, operations));
    all.extend(limits::bandwidth_bound(run, operations));
    all.extend(oversubscribed(run));
    all.extend(disturbed::wide(operations));
    all.extend(skipped(run));
    order(&mut all);
    all.truncate(MOST);
    all
}

/// What makes the figures doubtful comes first, then losses of time, the largest first, then hints.
fn order(all: &mut [Finding]) {
    let class = |finding: &Finding| if finding.is_loss() { FindingTopic::Slow } else { finding.kind };
    let loss = |finding: &Finding| if finding.is_loss() { finding.loss } else { 0.0 };
    all.sort_by(|a, b| class(a).cmp(&class(b)).then(loss(b).total_cmp(&loss(a))).then(a.kind.cmp(&b.kind)));
}

/// The first finding in the traces of a job, by its first sentence; the section about its steps has all of it, and the others.
fn of_traces(found: &ExplainedFinding) -> Finding {
    let what = found.what.trim().trim_end_matches('.');
    let first = what.split_once(". ").map_or(what, |(first, _)| first);
    let title = if first.is_empty() { "Finding" } else { first };
    finding(FindingTopic::Steps, title, found.evidence.clone(), found.action.clone())
}

/// The share of a step that it costs; None where nobody knows how long a step takes.
fn loss_of(run: &Run, of: &str, found: &ExplainedFinding) -> Option<f64> {
    let recorded = found.without.as_ref().map(|without| without.recorded_s);
    let case = run.cases.iter().find(|case| case.id == of).and_then(|case| case.time_s.as_ref());
    let step_s = || case.and_then(|time| time.mean).or(recorded).or(case.map(|time| time.median));
    let share = found.share.or_else(|| Some(found.seconds / step_s().filter(|step| *step > 0.0)?));
    share.filter(|share| share.is_finite())
}

/// What its confidence is worth: nothing where it is an estimate alone.
fn worth(found: &ExplainedFinding) -> f64 {
    match found.confidence.as_str() {
        "high" => 1.0,
        "medium" => 0.8,
        _ => 0.0,
    }
}

/// Whether a job of another program loses so much for sure that its verdict is about that.
pub(super) fn loses_time(run: &Run, job: &ExplainedCase) -> bool {
    let loses = |found: &ExplainedFinding| {
        loss_of(run, &job.case, found).is_none_or(|share| worth(found) * share >= LEAST_LOSS)
    };
    job.findings.iter().any(loses)
}

/// The finding in the traces of our own cases with the largest credible loss; their section has the others.
fn traced(run: &Run) -> Option<Finding> {
    let all = run.explained.iter().flat_map(|of| &of.cases);
    let first = all.filter_map(|case| case.findings.first().map(|found| (case, found)));
    let with_share = first.map(|(case, found)| (case, found, loss_of(run, &case.case, found)));
    let large = with_share.filter(|(.., share)| share.is_none_or(|share| share >= LEAST_LOSS));
    let with_loss = large.map(|(case, found, share)| (case, found, worth(found) * share.unwrap_or(0.0)));
    let (case, found, loss) = with_loss.max_by(|a, b| a.2.total_cmp(&b.2).then(a.1.seconds.total_cmp(&b.1.seconds)))?;
    let verdict = one_line(case.verdict.trim().trim_end_matches('.'));
    let title = one_line(&case.title);
    let evidence = match (run.cases.len(), title.is_empty()) {
        (0 | 1, _) | (_, true) => found.evidence.clone(),
        _ => format!("{title}: {}", found.evidence),
    };
    // An estimate alone is worth a look, and no verdict.
    let kind = if loss >= LEAST_LOSS { FindingTopic::Steps } else { FindingTopic::Hint };
    // Of one case alone all is said; of one among others its name and the first sentence.
    let found = of_traces(found);
    let in_full = match run.cases.len() {
        0 | 1 => Some(verdict).filter(|verdict| !verdict.is_empty()),
        _ => Some(format!("{title}: {}", found.title)).filter(|_| !title.is_empty()),
    };
    Some(Finding { kind, in_full, evidence: one_line(&evidence), ..found }.loses(loss))
}

fn cases(number: usize) -> String {
    count(number, "case", "cases")
}

/// `3 of 27 cases are`, `1 of 27 cases is`; where there is one alone, `The case is`.
fn share(number: usize, total: usize, one: &str, many: &str) -> String {
    match (number, total) {
        (_, 1) => format!("The case {one}"),
        (1, _) => format!("1 of {} {one}", cases(total)),
        _ => format!("{number} of {} {many}", cases(total)),
    }
}

fn wrong(run: &Run) -> Option<Finding> {
    let wrong: Vec<&CaseLine> = run.cases.iter().filter(|case| case.wrong.unwrap_or(0) > 0).collect();
    let first = wrong.first()?;
    let element = first.wrong_elements.first().map(|element| {
        let (rank, index) = (element.rank, element.index);
        format!(": rank {rank}, element {index} is {}, expected {}", element.got, element.expected)
    });
    let evidence = format!("The first is {}{}.", first.id, element.unwrap_or_default());
    let action = match run.imported.is_empty() {
        true => "Do not use their times. Repeat these cases; if they stay wrong, report the backend with its version.",
        false => "Do not use their times. Measure the same here: Rankmark checks every element.",
    };
    let title = format!("{} gave wrong results", cases(wrong.len()));
    Some(finding(FindingTopic::Wrong, title, evidence, action).again(run, &wrong))
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
        let title = share(failed.len(), total, "failed", "failed");
        let action = match run.imported.is_empty() {
            true => "Fix the cause, then run just these cases again.",
            false => "Run that program again, or measure the same here.",
        };
        return Some(finding(FindingTopic::Failed, title, reasons(&failed), action).again(run, &failed));
    }
    let lacking: Vec<&CaseLine> = run.cases.iter().filter(|case| case.lacks_trials()).collect();
    let (title, evidence) = match (open.len(), lacking.len()) {
        (0, 0) => return None,
        (0, lacking) => {
            let title = share(lacking, total, "did not make all trials", "did not make all trials");
            (title, "Do not rely on the intervals of these times.".to_owned())
        }
        (open_cases, _) => (share(open_cases, total, "did not run", "did not run"), reasons(&open)),
    };
    let rest = finding(FindingTopic::Failed, title, evidence, "Resume the run: the same record gets the rest.");
    Some(rest.again(run, &[open, lacking].concat()))
}

/// Files of other programs that end before their runs did.
fn cut(run: &Run) -> Option<Finding> {
    let first = run.imported.iter().find(|of| of.cut)?;
    let title = format!("The end of {} is missing", first.file);
    let evidence = "The run was stopped, or the file was cut off, so later sizes are missing.";
    Some(finding(FindingTopic::Failed, title, evidence, "Check its last lines, then run it again to the end."))
}

fn gates(run: &Run) -> Option<Finding> {
    let missed: Vec<&CaseLine> = run.cases.iter().filter(|case| !case.gates_missed.is_empty()).collect();
    let first = missed.first()?.gates_missed.first()?;
    let title = format!("{} missed a gate", cases(missed.len()));
    let action = "Compare these cases with the last run that passed, and look at what changed.";
    Some(finding(FindingTopic::Failed, title, format!("The first: {first}."), action))
}

/// What benchmarks say first: something is wrong with the machine.
fn machine(run: &Run, operations: &[Operation]) -> Vec<Finding> {
    let own = operations
        .iter()
        .filter(|operation| !operation.is_emulated())
        .filter_map(|operation| Some((operation, run.views.for_section(operation)?.findings(operation)?)));
    let first = own.flat_map(|(operation, all)| {
        let first = all.into_iter().filter(|finding| finding.first);
        first.map(|finding| (operation.name.clone(), finding.text)).collect::<Vec<_>>()
    });
    first
        .map(|(name, text)| {
            let action = "Check the link or cores that it names, and look for other load; the placement is below.";
            finding(FindingTopic::Slow, format!("{name}: a part of the machine is slow"), text, action)
        })
        .collect()
}

/// What a case says of the rank that stands out: by how much its own time is longer than the median rank's, and the share of the
/// time that it costs.
fn stands_out(case: &CaseLine) -> Option<(usize, [f64; 2])> {
    let times = case.per_rank_median_s.as_ref().filter(|times| times.len() > 1);
    let ratio_of = |rank: usize| Some(times?.get(rank)? / stats::median(times?));
    // Others wait in the call for a rank that is late: their times are as long as its own, or longer.
    if let Some(rank) = SLOW_RANK.of(case) {
        let wait = SLOW_RANK_WAIT_S.of(case).zip(case.time_s.as_ref()).map(|(wait, time)| wait / time.median);
        let ratio = ratio_of(rank as usize).unwrap_or(1.0);
        return Some((rank as usize, [ratio, wait.unwrap_or(1.0 - 1.0 / ratio)]));
    }
    let (rank, _) = times?.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1))?;
    let ratio = ratio_of(rank)?;
    Some((rank, [ratio, 1.0 - 1.0 / ratio]))
}

/// The rank that stands out in most of the cases that carry the caveat, and by how much.
fn slow_rank(run: &Run) -> Option<Finding> {
    let marked: Vec<&CaseLine> = run.cases.iter().filter(|case| case.caveats.contains(&Caveat::SlowRank)).collect();
    let mut found: HashMap<usize, Vec<[f64; 2]>> = HashMap::new();
    for (rank, figures) in marked.iter().filter_map(|case| stands_out(case)) {
        found.entry(rank).or_default().push(figures);
    }
    let (rank, figures) = found.into_iter().max_by(|a, b| a.1.len().cmp(&b.1.len()).then(b.0.cmp(&a.0)))?;
    let [ratio, cost] = [0, 1].map(|at| stats::median(&figures.iter().map(|of| of[at]).collect::<Vec<_>>()));
    let title = match () {
        () if ratio > SLOWER => format!("Rank {rank} is {} slower than the median rank", percent(ratio - 1.0)),
        () if cost >= LEAST_LOSS => {
            format!(
                "Rank {rank} is last more often than chance allows: waiting for it takes {} of the time",
                percent(cost)
            )
        }
        () => format!("Rank {rank} is last more often than chance allows"),
    };
    let evidence = match marked.len() {
        1 => format!("The others wait for rank {rank} in the one case where a rank stands out."),
        all => {
            format!("The others wait for rank {rank} in {} of the {all} cases where a rank stands out.", figures.len())
        }
    };
    let action = match marked.iter().all(|case| case.caveats.contains(&Caveat::Injected)) {
        true => "A fault was injected on request: to judge the machine, run the same without `--inject`.",
        false => "Check its core: other load, a lower clock, or a different binding.",
    };
    Some(finding(FindingTopic::Slow, title, evidence, action).loses(cost.clamp(0.0, 1.0)))
}

fn below_expected(run: &Run) -> Option<Finding> {
    let (share, sentence) = expected::lowest(run)?;
    let action =
        "Run `rankmark validate` to see what this machine lacks, then compare links and settings with the source.";
    let title = format!("{} of an expected figure is reached", percent(share));
    (share < EXPECTED).then(|| finding(FindingTopic::Below, title, sentence, action).loses(1.0 - share))
}

fn oversubscribed(run: &Run) -> Option<Finding> {
    let over = |case: &&CaseLine| case.caveats.contains(&Caveat::Oversubscribed) && case.time_s.is_some();
    let number = run.cases.iter().filter(over).count();
    if number == 0 {
        return None;
    }
    let most = run.cases.iter().filter(over).map(|case| case.ranks).max().unwrap_or(0);
    let by_threads = run.cores.is_some_and(|cores| most as usize <= cores as usize);
    let cores = run.cores.map(|cores| count(cores as usize, "core", "cores"));
    let number = count(number, "case has", "cases have");
    if by_threads {
        let title = format!("{number} more threads than {}", cores.as_deref().unwrap_or("cores"));
        let evidence = "Their times include waiting for a core.";
        return Some(finding(
            FindingTopic::Hint,
            title,
            evidence,
            "Use fewer ranks or fewer threads, so that each thread has a core.",
        ));
    }
    let title = format!("{number} more ranks than {}", cores.as_deref().unwrap_or("cores"));
    let evidence = "Their times include waiting for a core, and say nothing about the transport.";
    let action = match run.cores {
        Some(cores) => format!("Judge the transport by runs with at most {}.", ranks(cores)),
        None => "Judge the transport by runs with at most one rank per core.".to_owned(),
    };
    Some(finding(FindingTopic::Hint, title, evidence, action))
}

fn skipped(run: &Run) -> Option<Finding> {
    let skipped: Vec<&CaseLine> = run.cases.iter().filter(|case| case.status == Status::Skipped).collect();
    if skipped.is_empty() {
        return None;
    }
    let title = share(skipped.len(), run.cases.len(), "was skipped", "were skipped");
    let action = "This command shows what is missing, and how to install it.";
    Some(finding(FindingTopic::Hint, title, reasons(&skipped), action).by("rankmark validate"))
}
