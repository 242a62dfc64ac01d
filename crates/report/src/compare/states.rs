//! In which states of the machine cases are compared.

use diagnose::compare::Comparison;
use record::CaseLine;
use view::number::count;

/// Says that times are those of a state of the machine, where a run saw several, and which.
pub(super) fn in_states(comparison: &Comparison) -> Option<String> {
    let name = |line: &CaseLine| line.state.as_ref().map(|state| view::one_line(state));
    // Of cases in different states nothing is compared.
    let compared = comparison.cases.iter().filter(|case| case.ratio.is_some());
    states_text(compared.map(|case| [name(case.base), name(case.new)]))
}

/// Which states times are of, from the states of each case in the base and in the new record.
fn states_text(states: impl Iterator<Item = [Option<String>; 2]>) -> Option<String> {
    let which = |both: [Option<String>; 2]| match both {
        [Some(base), Some(new)] if base == new => Some(base),
        [Some(base), Some(new)] => Some(format!("{base} in the base, {new} in the new record")),
        [Some(name), None] => Some(format!("{name}, the only one that the new record saw")),
        [None, Some(name)] => Some(format!("{name}, the only one that the base saw")),
        [None, None] => None,
    };
    let mut found: Vec<(String, usize)> = Vec::new();
    for words in states.filter_map(which) {
        match found.iter_mut().find(|(known, _)| *known == words) {
            Some((_, cases)) => *cases += 1,
            None => found.push((words, 1)),
        }
    }
    let cases = count(found.iter().map(|(_, cases)| cases).sum(), "case is", "cases are");
    let which = match found.as_slice() {
        [] => return None,
        [(words, _)] => format!("{cases} compared in one state of the machine: {words}"),
        several => {
            let each = several.iter().map(|(words, cases)| format!("{words} ({})", count(*cases, "case", "cases")));
            format!("{cases} each compared in one state of the machine: {}", each.collect::<Vec<_>>().join("; "))
        }
    };
    Some(format!("{which}. The reports of the records may show times of another state."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_in_other_states_are_counted_by_state() {
        let text =
            |names: &[&str]| states_text(names.iter().map(|name| [Some((*name).to_owned()), Some((*name).to_owned())]));
        let one = text(&["near cores", "near cores"]).unwrap();
        assert!(one.starts_with("2 cases are compared in one state of the machine: near cores."), "{one}");
        let two = text(&["near cores", "far cores", "far cores"]).unwrap();
        let expected =
            "3 cases are each compared in one state of the machine: near cores (1 case); far cores (2 cases).";
        assert!(two.starts_with(expected), "{two}");
        assert_eq!(states_text([[None, None]].into_iter()), None);
    }
}
