//! What a run says of the states in which it found the machine.

use record::{CaseLine, CaseState, MachineState};

use crate::Run;
use crate::number::{list, percent, seconds};

/// Whether every rank of the run was pinned: who did so already is not told to.
pub(crate) fn is_pinned(run: &Run) -> bool {
    let pinned = |placement: &record::Placement| {
        !placement.cpus.is_empty() && placement.cpus.iter().all(|cpus| !cpus.is_empty())
    };
    !run.placement.is_empty() && run.placement.iter().all(pinned)
}

/// How to remove states of these names, and how to measure with them. `pinned`: the ranks were.
pub fn state_remedy(names: &[&str], pinned: bool) -> String {
    let any = |words: &[&str]| names.iter().any(|name| words.iter().any(|word| name.starts_with(word)));
    let mut parts = Vec::new();
    if any(&["near cores", "middle cores", "far cores"]) {
        parts.push(match pinned {
            false => "Pin ranks with `--bind core`; on a virtual machine, ask for pinned virtual cores.",
            true => "The ranks are pinned; on a virtual machine, ask for pinned virtual cores.",
        });
    }
    if any(&["own cores", "partly shared cores", "shared cores"]) {
        parts.push("Use one rank for each physical core, or turn SMT off; on a virtual machine, ask for whole cores.");
    }
    if any(&["fast clock", "middle clock", "slow clock"]) {
        parts.push(
            "Fix the clock (`cpupower frequency-set -g performance`), and look for limits of power and temperature.",
        );
    }
    parts.push(
        "`--state NAME --budget TIME` measures in one state; `rankmark compare --interleave` compares versions in any.",
    );
    parts.join(" ")
}

/// What states of these names are, in plain words.
fn meaning(names: &[&str]) -> String {
    let is_any = |words: &[&str]| names.iter().any(|name| words.iter().any(|word| name.starts_with(word)));
    let sentences = [
        (
            ["near cores", "middle cores", "far cores"],
            "Near cores exchange data with each other faster than far cores: the same ranks ran on different ones.",
        ),
        (
            ["own cores", "partly shared cores", "shared cores"],
            "With shared cores, two ranks run on one physical core.",
        ),
        (["fast clock", "middle clock", "slow clock"], "With a slow clock, cores run at a lower frequency."),
    ];
    let told: Vec<&str> = sentences.iter().filter(|(words, _)| is_any(words)).map(|(_, sentence)| *sentence).collect();
    told.join(" ")
}

/// What to do about the states of a run's machine.
pub(crate) fn action(run: &Run) -> String {
    let states = run.states.iter().chain(&run.unseen_states);
    state_remedy(&states.filter_map(|state| state.name.as_deref()).collect::<Vec<_>>(), is_pinned(run))
}

/// The states, and what they mean for times: a title and a sentence. None unless the machine is known to have several.
pub(crate) fn title_and_evidence(run: &Run) -> Option<[String; 2]> {
    let named: Vec<(&MachineState, &str)> =
        run.states.iter().filter_map(|state| Some((state, state.name.as_deref()?))).collect();
    let (_, main) = named.iter().max_by_key(|(state, _)| state.trials)?;
    if named.len() < 2 {
        let unseen: Vec<String> = run.unseen_states.iter().filter_map(|state| state.name.clone()).collect();
        let title = format!("The machine was in one state throughout: {main}");
        let meaning = meaning(&unseen.iter().map(String::as_str).collect::<Vec<_>>());
        let evidence =
            format!("Earlier runs on it also saw {}. {meaning} This run has no times in another state.", list(&unseen));
        return (!unseen.is_empty()).then_some([title, evidence]);
    }
    let share = |(state, name): &(&MachineState, &str)| format!("{name} ({} of trials)", percent(state.share));
    let title =
        format!("The machine had {} states: {}", named.len(), list(&named.iter().map(share).collect::<Vec<_>>()));
    let example = run.cases.iter().filter_map(furthest).max_by(|a, b| a.0.total_cmp(&b.0));
    let example = example.map_or(String::new(), |(_, line)| format!(" {}", times(line)));
    let shown = shown(run).unwrap_or(main);
    let meaning = meaning(&named.iter().map(|(_, name)| *name).collect::<Vec<_>>());
    Some([title, format!("Times are those of {shown}. {meaning}{example}")])
}

/// The state of most rows: with `--state` it need not be that of most trials.
fn shown(run: &Run) -> Option<&str> {
    let states = || run.cases.iter().filter_map(|line| line.state.as_deref());
    states().max_by_key(|name| states().filter(|other| other == name).count())
}

/// The states, and what they mean for times, as one sentence after another.
pub(crate) fn sentence(run: &Run) -> Option<String> {
    title_and_evidence(run).map(|[title, evidence]| format!("{title}. {evidence}"))
}

/// By how much the times of a case differ between its states.
fn furthest(line: &CaseLine) -> Option<(f64, &CaseLine)> {
    let medians = || line.states.iter().map(|state| state.median_s);
    let (least, most) = (medians().reduce(f64::min)?, medians().reduce(f64::max)?);
    (line.states.len() > 1).then_some((most / least, line))
}

/// "all_reduce 1 KiB, 2 ranks, shm took 590 ns ±2% with far cores and 130 ns ±3% with near cores."
fn times(line: &CaseLine) -> String {
    let one = |state: &CaseState| {
        let width = state.ci95_s.map(|ends| stats::relative_half_width(ends, state.median_s));
        let width = width.map_or(String::new(), |width| format!(" ±{}", percent(width)));
        format!("{}{width} with {}", seconds(state.median_s), state.name)
    };
    let mut states: Vec<&CaseState> = line.states.iter().collect();
    states.sort_by_key(|state| std::cmp::Reverse(state.trials));
    let times: Vec<String> = states.into_iter().map(one).collect();
    let what = line.parameters.values().next().and_then(serde_json::Value::as_str).unwrap_or(&line.benchmark);
    let name = view::study::named(what, line.bytes, line.ranks, &view::study::backend(line));
    format!("{name} took {}.", list(&times))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(name: &str, trials: u32, median_s: f64) -> (MachineState, CaseState) {
        let share = f64::from(trials) / 25.0;
        let machine = MachineState { name: Some(name.to_owned()), share, trials, canaries: Vec::new() };
        let ci95_s = Some([0.98 * median_s, 1.02 * median_s]);
        (machine, CaseState { name: name.to_owned(), share, trials, median_s, ci95_s, trial_median_s: Vec::new() })
    }

    #[test]
    fn several_states_are_told_with_the_case_that_they_change_most() {
        let (near, far) = (state("near cores", 9, 130e-9), state("far cores", 16, 590e-9));
        let case = record::plan::from_defaults(benchmarks::abouts()[0]).unwrap().cases.remove(0);
        let line = CaseLine { states: vec![near.1, far.1], ..CaseLine::unmeasured(&case, terms::Status::Ok, "") };
        let mut run = Run { states: vec![near.0, far.0], cases: vec![line], ..Run::default() };
        let text = sentence(&run).unwrap();
        let begin = "The machine had 2 states: near cores (36% of trials) and far cores (64% of trials). Times are those of far cores. ";
        assert!(text.starts_with(begin), "{text}");
        assert!(text.ends_with("took 0.590 us ±2.0% with far cores and 0.130 us ±2.0% with near cores."), "{text}");
        // Rows of a state that was asked for.
        run.cases[0].state = Some("near cores".to_owned());
        assert!(sentence(&run).unwrap().contains("Times are those of near cores."));
        let near = run.states.remove(0);
        assert_eq!(sentence(&run), None);
        run.unseen_states = vec![near];
        let text = sentence(&run).unwrap();
        assert_eq!(
            text,
            "The machine was in one state throughout: far cores. Earlier runs on it also saw near cores. Near cores exchange data with each other faster than far cores: the same ranks ran on different ones. This run has no times in another state."
        );
        assert!(action(&run).starts_with("Pin ranks with `--bind core`"));
        run.placement = vec![record::Placement { cpus: vec![vec![0], vec![1]], ..record::Placement::default() }];
        assert!(action(&run).starts_with("The ranks are pinned"), "{}", action(&run));
        run.placement[0].cpus[1].clear();
        assert!(action(&run).starts_with("Pin ranks with `--bind core`"));
        assert!(state_remedy(&["slow clock"], false).starts_with("Fix the clock"));
    }
}
