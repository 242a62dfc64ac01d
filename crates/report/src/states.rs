//! What a run says of the states in which it found the machine.

use record::{CaseLine, CaseState, MachineState};

use crate::Run;
use crate::number::{list, percent, seconds};

/// What to do about a machine that changes.
pub(crate) const ACTION: &str = "Pin ranks with `--bind core`; on a virtual machine ask for cores that stay where they are. Compare \
                                 two versions interleaved: `rankmark compare --interleave`.";

/// States, and what they mean for times: a title and a sentence; None where the run saw one.
pub(crate) fn told(run: &Run) -> Option<[String; 2]> {
    let named: Vec<(&MachineState, &str)> =
        run.states.iter().filter_map(|state| Some((state, state.name.as_deref()?))).collect();
    let (_, main) = named.iter().max_by_key(|(state, _)| state.trials).filter(|_| named.len() > 1)?;
    let share = |(state, name): &(&MachineState, &str)| format!("{name} ({} of trials)", percent(state.share));
    let title =
        format!("The machine had {} states: {}", named.len(), list(&named.iter().map(share).collect::<Vec<_>>()));
    let example = run.cases.iter().filter_map(furthest).max_by(|a, b| a.0.total_cmp(&b.0));
    let example = example.map_or(String::new(), |(_, line)| format!(" {}", times(line)));
    Some([title, format!("Times are those of {main}.{example}")])
}

/// The same as one sentence after another.
pub(crate) fn sentence(run: &Run) -> Option<String> {
    told(run).map(|[title, evidence]| format!("{title}. {evidence}"))
}

/// By how much the times of a case differ between its states.
fn furthest(line: &CaseLine) -> Option<(f64, &CaseLine)> {
    let medians = || line.states.iter().map(|state| state.median_s);
    let (least, most) = (medians().reduce(f64::min)?, medians().reduce(f64::max)?);
    (line.states.len() > 1).then_some((most / least, line))
}

/// "`all_reduce` 1 KiB x 2 shm took 590 ns ±2% with far cores and 130 ns ±3% with near cores."
fn times(line: &CaseLine) -> String {
    let one = |state: &CaseState| {
        let width = state.ci95_s.map(|ends| stats::relative_half_width(ends, state.median_s));
        let width = width.map_or(String::new(), |width| format!(" ±{}", percent(width)));
        format!("{}{width} with {}", seconds(state.median_s), state.name)
    };
    let mut states: Vec<&CaseState> = line.states.iter().collect();
    states.sort_by_key(|state| std::cmp::Reverse(state.trials));
    let times: Vec<String> = states.into_iter().map(one).collect();
    let size = line.bytes.map_or(String::new(), |bytes| format!(" {}", crate::number::bytes(bytes)));
    let operation = line.parameters.get("op").or_else(|| line.parameters.get("model"));
    let operation = operation.and_then(serde_json::Value::as_str).unwrap_or(&line.benchmark);
    format!("{operation}{size} x {} {} took {}.", line.ranks, line.backend, list(&times))
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
        let case = record::plan::from_flags(benchmarks::abouts()[0], &[], &[]).unwrap().cases.remove(0);
        let line = CaseLine { states: vec![near.1, far.1], ..CaseLine::unmeasured(&case, terms::Status::Ok, "") };
        let mut run = Run { states: vec![near.0, far.0], cases: vec![line], ..Run::default() };
        let told = sentence(&run).unwrap();
        let begin = "The machine had 2 states: near cores (36% of trials) and far cores (64% of trials). Times are those of far cores. ";
        assert!(told.starts_with(begin), "{told}");
        assert!(told.ends_with("took 0.590 us ±2.0% with far cores and 0.130 us ±2.0% with near cores."), "{told}");
        run.states.truncate(1);
        assert_eq!(sentence(&run), None);
    }
}
