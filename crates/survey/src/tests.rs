//! The survey as a whole, on whatever machine this is.

use super::*;

#[test]
fn quick_leaves_out_what_takes_long_and_says_so() {
    let request = Request { quick: true, ..Request::default() };
    let quick = survey(&request);
    let names: Vec<&str> = quick.left_out.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["PyTorch", "profilers"]);
    assert!(quick.findings.iter().all(|finding| !names.contains(&finding.group)));
    // Every other group says something, if only that there is nothing.
    for group in GROUPS.iter().filter(|group| group.takes_long.is_none()) {
        assert!(quick.findings.iter().any(|finding| finding.group == group.name), "{}", group.name);
    }
}

#[test]
fn rows_are_one_line_and_say_what_they_cost() {
    let request = Request { path: vec!["/usr/bin".into(), "/bin".into()], quick: true, ..Request::default() };
    for finding in survey(&request).findings {
        assert!(!finding.found.contains('\n') && !finding.found.is_empty(), "{finding:?}");
        let needs = matches!(finding.state, State::Slow | State::Misconfigured);
        assert!(!needs || finding.impact.is_some() && finding.fix.is_some(), "{finding:?}");
    }
}

#[test]
fn trouble_is_what_is_wrong_or_was_asked_for() {
    let asked = |finding: Finding| Finding { asked: true, ..finding };
    assert!(Finding::misconfigured("a", "b").is_trouble());
    assert!(!Finding::missing("a", "b").is_trouble() && !Finding::slow("a", "b").is_trouble());
    assert!(asked(Finding::missing("a", "b")).is_trouble() && !asked(Finding::ready("a", "b")).is_trouble());
    assert_eq!(Finding::ready("a", " two\n lines ").found, "two lines");
    assert_eq!(Finding::ready("a", "\u{1b}[2J").found, "?[2J");
}
