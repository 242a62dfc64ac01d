//! `--dry-run`: what a measuring command would run, for how long at least, and what it would skip. Starts no rank, runs
//! nothing that a plan names, writes nothing.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use benchmarks::Host;
use measure::{CaseRun, Settings};
use record::{Case, CaseLine, Declared, Plan};
use report::rows::{heading, whole_heading};
use runner::Admission;
use serde_json::{Value, json};
use terms::Status;
use view::number::lasting;
use view::terminal;

use crate::estimate::{self, Sampled};
use crate::trust;

/// What would become of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outlook {
    Runs,
    Done,
    Skipped(String),
    NotLookedAt(String),
}

struct Planned<'a> {
    case: &'a Case,
    settings: Settings,
    simulated: bool,
    outlook: Outlook,
}

/// How the run is bounded.
pub struct Bounds<'a> {
    /// The machine.
    pub host: &'a Host,
    /// When the whole run ends.
    pub budget: Option<Duration>,
    /// Whether worlds may be alive side by side; if not, each makes all of its trials before the next begins.
    pub several: bool,
    /// Whether a record has the case already.
    pub is_done: &'a dyn Fn(&str) -> bool,
}

/// What a dry run says.
pub struct DryRun {
    /// Text, or a line of JSON for each case.
    pub said: String,
    /// Whether a case would run, or is done: else all are skipped.
    pub runs: bool,
}

/// The cases of a plan and what would become of them, as text or as JSON.
pub fn dry_run(plan: &Plan, bounds: &Bounds<'_>, as_json: bool) -> DryRun {
    // Libraries and memory are checked once: nothing changes between the cases.
    let mut admission = Admission::new(bounds.host);
    let cases: Vec<Planned<'_>> = plan.cases.iter().map(|case| planned(case, bounds, &mut admission)).collect();
    let runs = cases.iter().any(|case| case.is_open() || case.outlook == Outlook::Done);
    if as_json {
        return DryRun { said: cases.iter().map(|case| format!("{}\n", case.json())).collect(), runs };
    }
    let mut said = format!(
        "{}   plan {}: nothing is started, nothing is written\n",
        terminal::Style::Bold.paint("dry run"),
        plan.experiment
    );
    said.extend(plan.notes.iter().map(|note| format!("note: {note}\n")));
    said.push_str(&groups(&cases));
    said.push_str(&reasons(&cases));
    said.push_str(&summary(&cases, bounds));
    DryRun { said, runs }
}

fn planned<'a>(case: &'a Case, bounds: &Bounds<'_>, admission: &mut Admission<'_>) -> Planned<'a> {
    let parsed = benchmarks::parse(case);
    let simulated = match &parsed {
        Ok(parsed) => benchmarks::is_computed(&**parsed, bounds.host),
        Err(_) => benchmarks::is_simulated(case),
    };
    // As the runner has them.
    let settings = CaseRun::new(case, Settings::from_case(case), simulated).settings;
    // None of the libraries that a plan names is opened.
    let refusal = trust::refusal(case, None, |_| false).filter(|_| case.skip.is_none());
    let outlook = if (bounds.is_done)(&case.id) {
        Outlook::Done
    } else if let Some(why) = refusal {
        let what = why.split(", ").next().unwrap_or_default();
        Outlook::NotLookedAt(format!("{what}, which a dry run does not touch"))
    } else {
        let admitted = parsed.map_err(|refused| refused.error.on_one_line());
        let admitted = admitted.and_then(|parsed| admission.check(&*parsed));
        admitted.map_or_else(Outlook::Skipped, |()| Outlook::Runs)
    };
    Planned { case, settings, simulated, outlook }
}

impl Planned<'_> {
    /// The case's line before anything is measured.
    fn line(&self) -> CaseLine {
        CaseLine { simulated: self.simulated, ..CaseLine::unmeasured(self.case, Status::NotRun, "") }
    }

    /// Whether it is counted in the estimate.
    fn is_open(&self) -> bool {
        matches!(self.outlook, Outlook::Runs | Outlook::NotLookedAt(_))
    }

    fn sampled(&self) -> Sampled<'_> {
        let cost = benchmarks::trial_cost(self.case);
        Sampled { case: self.case, settings: self.settings.clone(), cost, simulated: self.simulated }
    }

    /// Seconds from its first trial's begin to its last one's, at least.
    fn least_seconds(&self) -> f64 {
        if self.simulated {
            return 0.0;
        }
        (self.settings.fewest_trials().saturating_sub(1)) as f64 * self.settings.spacing.as_secs_f64()
    }

    /// Seconds of sampling, at most; None where the user says how many samples there are.
    fn most_sampling(&self) -> Option<f64> {
        (self.settings.iters.is_none() && !self.simulated).then_some(self.settings.max_seconds)
    }

    fn json(&self) -> Value {
        let (word, reason) = match &self.outlook {
            Outlook::Runs => ("runs", None),
            Outlook::Done => ("done", None),
            Outlook::Skipped(why) => ("skipped", Some(why)),
            Outlook::NotLookedAt(why) => ("not_looked_at", Some(why)),
        };
        json!({
            "id": self.case.id,
            "benchmark": self.case.benchmark,
            "parameters": self.case.parameters,
            "outlook": word,
            "reason": reason,
            "trials_at_least": self.settings.fewest_trials(),
            "trials_at_most": self.settings.most_trials(),
            "seconds_at_least": self.least_seconds(),
            "sampling_seconds_at_most": self.most_sampling(),
        })
    }
}

/// Cases below the headings of the table that a run prints.
fn groups(cases: &[Planned<'_>]) -> String {
    let declared: Vec<Declared> = benchmarks::abouts().into_iter().map(Declared::of).collect();
    let of = |case: &Case| declared.iter().find(|declared| declared.name == case.benchmark);
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut groups: Vec<Vec<&Planned<'_>>> = Vec::new();
    for case in cases {
        let place = *places.entry(heading(&case.line(), of(case.case))).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Vec::new());
        }
        groups[place].push(case);
    }
    let repeated = repeated(cases);
    let mut text = String::new();
    for members in groups {
        let lines: Vec<CaseLine> = members.iter().map(|case| case.line()).collect();
        let heading = whole_heading(of(members[0].case), &lines.iter().collect::<Vec<_>>());
        text.push_str(&format!("\n{}\n", terminal::Style::Bold.paint(&heading)));
        let shared = shared(&members);
        for case in &members {
            text.push_str(&format!("  {}{}\n", label(case.case, &shared), remark(case, &repeated)));
        }
    }
    text
}

/// The parameters that all of these cases have with one value.
fn shared<'a>(members: &[&'a Planned<'_>]) -> HashSet<&'a str> {
    let Some((first, others)) = members.split_first() else { return HashSet::new() };
    let mut shared: HashSet<&str> = first.case.parameters.keys().collect();
    for other in others {
        shared.retain(|name| other.case.parameters.get(name) == first.case.parameters.get(name));
    }
    shared
}

/// What tells a case from the others of its group: `2 ranks  64 KiB  dtype f32`.
fn label(case: &Case, shared: &HashSet<&str>) -> String {
    let ranks = case.ranks();
    let mut parts = vec![format!("{ranks} {}", if ranks == 1 { "rank " } else { "ranks" })];
    parts.extend(case.bytes().map(|bytes| format!("{:>9}", terms::Bytes(bytes).short())));
    for (name, value) in &case.parameters {
        if !shared.contains(name) && !["ranks", "bytes"].contains(&name) {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            parts.push(format!("{name} {value}"));
        }
    }
    parts.join("  ").trim_end().to_owned()
}

/// What becomes of a case that does not run, in words, and why.
fn refusal(outlook: &Outlook) -> Option<(&'static str, &str)> {
    match outlook {
        Outlook::Runs | Outlook::Done => None,
        Outlook::Skipped(why) => Some(("skipped", why)),
        Outlook::NotLookedAt(why) => Some(("not looked at", why)),
    }
}

/// Reasons that hold for several cases, each with their number, in the order of the first: they stand once, below the cases.
fn repeated<'a>(cases: &'a [Planned<'_>]) -> Vec<((&'static str, &'a str), usize)> {
    let mut counted: Vec<((&'static str, &str), usize)> = Vec::new();
    for refusal in cases.iter().filter_map(|case| refusal(&case.outlook)) {
        match counted.iter_mut().find(|(known, _)| *known == refusal) {
            Some((_, number)) => *number += 1,
            None => counted.push((refusal, 1)),
        }
    }
    counted.retain(|(_, number)| *number > 1);
    counted
}

/// What is said next to a case. Where several reasons are repeated, their number in the list of them.
fn remark(case: &Planned<'_>, repeated: &[((&'static str, &str), usize)]) -> String {
    if case.outlook == Outlook::Done {
        return "  done before".to_owned();
    }
    let Some((what, why)) = refusal(&case.outlook) else { return String::new() };
    match repeated.iter().position(|(known, _)| *known == (what, why)) {
        None => format!("  {what}: {why}"),
        Some(_) if repeated.len() == 1 => format!("  {what}"),
        Some(place) => format!("  {what} ({})", place + 1),
    }
}

/// The reasons that hold for several cases.
fn reasons(cases: &[Planned<'_>]) -> String {
    let repeated = repeated(cases);
    let mut text = if repeated.is_empty() { String::new() } else { "\n".to_owned() };
    for (place, ((what, why), number)) in repeated.iter().enumerate() {
        let mark = if repeated.len() > 1 { format!("({}) ", place + 1) } else { String::new() };
        text.push_str(&format!("{mark}{what}  {number} cases: {why}\n"));
    }
    text
}

/// How many cases, how many trials, how long.
fn summary(cases: &[Planned<'_>], bounds: &Bounds<'_>) -> String {
    let open: Vec<&Planned<'_>> = cases.iter().filter(|case| case.is_open()).collect();
    let count = |wanted: fn(&Outlook) -> bool| cases.iter().filter(|case| wanted(&case.outlook)).count();
    let (done, skipped) =
        (count(|outlook| *outlook == Outlook::Done), count(|outlook| matches!(outlook, Outlook::Skipped(_))));
    let others = [(done, "done before"), (skipped, "would be skipped")];
    let others: String =
        others.iter().filter(|(number, _)| *number > 0).map(|(number, what)| format!(", {number} {what}")).collect();
    let mut text = format!("\ncases    {} would run{others}\n", open.len());
    if open.is_empty() {
        return text;
    }
    let trials = |of: fn(&Settings) -> usize| open.iter().map(|case| of(&case.settings)).sum::<usize>();
    let (least, most) = (trials(Settings::fewest_trials), trials(Settings::most_trials));
    text.push_str(&match least == most {
        true => format!("trials   {least}\n"),
        false => format!("trials   at least {least}, at most {most}: until intervals are within the target\n"),
    });
    text.push_str(&format!("time     {}\n", time(&open, bounds)));
    if searches(&open, bounds) {
        text.push_str("note     a search adds cases: what it measures next depends on what was measured\n");
    }
    if open.iter().any(|case| benchmarks::is_pytorch(case.case)) {
        text.push_str("note     the Python was not checked for torch: `rankmark validate` checks it\n");
    }
    text
}

/// Whether a benchmark measures on after the plan's cases.
fn searches(open: &[&Planned<'_>], bounds: &Bounds<'_>) -> bool {
    benchmarks::all().any(|benchmark| {
        let of = open.iter().filter(|case| case.case.benchmark == benchmark.about().name);
        benchmark.study(&of.map(|case| case.case).collect::<Vec<_>>(), bounds.host).is_some()
    })
}

fn time(open: &[&Planned<'_>], bounds: &Bounds<'_>) -> String {
    let longest = |cases: &[&Planned<'_>]| cases.iter().map(|case| case.least_seconds()).fold(0.0, f64::max);
    // Cases wait side by side for their next trials, unless only one world can be alive.
    let least = if bounds.several {
        longest(open)
    } else {
        let mut worlds: BTreeMap<String, Vec<&Planned<'_>>> = BTreeMap::new();
        for case in open {
            worlds.entry(Value::Object(case.case.world.to_map()).to_string()).or_default().push(case);
        }
        worlds.values().map(|cases| longest(cases)).sum()
    };
    let budget = bounds.budget.map(|budget| budget.as_secs_f64());
    if let Some(budget) = budget.filter(|budget| *budget < least) {
        return format!(
            "at most {}: --budget ends before every case has enough trials for an interval",
            lasting(budget)
        );
    }
    let sampled: Vec<Sampled<'_>> = open.iter().map(|case| case.sampled()).collect();
    let mut parts = vec![estimate::of_cases(&sampled, bounds.several).within(budget).words()];
    if least > 0.0 {
        parts.push(format!("at least {}: trials of a case begin that far apart", lasting(least)));
    }
    let sampling: f64 = open.iter().filter_map(|case| case.most_sampling()).sum();
    if sampling > 0.0 {
        parts.push(format!("at most {} of sampling", lasting(sampling)));
    }
    let counted = open.iter().filter(|case| case.settings.iters.is_some()).count();
    if counted > 0 {
        let takes = if counted == 1 { "1 case takes".to_owned() } else { format!("{counted} cases take") };
        parts.push(format!("{takes} the requested number of samples, however long that takes"));
    }
    parts.extend(budget.map(|budget| format!("at most {} in all (--budget)", lasting(budget))));
    if open.iter().all(|case| case.simulated) { "times are computed: no waiting".to_owned() } else { parts.join("; ") }
}

/// The cases of a record that need no further trial.
pub fn done_in(cases: &[CaseLine]) -> std::collections::HashSet<String> {
    let done = cases.iter().filter(|line| line.status == Status::Ok && !line.lacks_trials());
    done.map(|line| line.id.clone()).collect()
}
