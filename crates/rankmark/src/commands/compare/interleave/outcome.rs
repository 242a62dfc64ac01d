//! What an interleaved comparison says of each case, and the exit code that follows.

use diagnose::Verdict;
use record::ComparedCase;
use runner::{Compared, Matched};
use terms::Status;

use crate::options::Gate;
use crate::session;

/// A compared case as the record keeps it.
pub(super) fn compared_case(sides: &Matched, compared: &Compared, threshold: f64) -> ComparedCase {
    compared.kept(sides, threshold, |ends| Verdict::from_interval(ends, threshold).to_string())
}

/// The exit code. After a signal, the signal's code. 2: every case skipped. 1: any failed, or a gate missed, or what
/// `--fail-on` names (worse). 3: any undecided. 0 otherwise.
pub(super) fn exit_code(cases: &[ComparedCase], compared: &[Compared], gate: &Gate) -> u8 {
    let any =
        |verdict: Verdict| cases.iter().any(|case| case.status == Status::Ok && case.verdict == verdict.to_string());
    let undecided = any(Verdict::CannotTell) || cases.iter().any(|case| case.status == Status::NotRun);
    let lines = || compared.iter().flat_map(|one| &one.lines);
    let failed = lines().any(|line| line.status == Status::Failed || !line.gates_missed.is_empty());
    match session::signal_code().filter(|_| undecided) {
        Some(code) => code,
        None if cases.iter().all(|case| case.status == Status::Skipped) => 2,
        None if failed => 1,
        None if gate.fails("worse") && any(Verdict::Worse) || gate.fails("better") && any(Verdict::Better) => 1,
        None if gate.fails("cannot-tell") && undecided => 3,
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{GateOptions, parts};
    use record::CaseLine;

    fn compared(ratio: Option<[f64; 2]>, status: Status) -> (Matched, Compared) {
        let case = record::plan::from_defaults(benchmarks::abouts()[0]).unwrap().cases.remove(0);
        let line = |side| CaseLine { status, ..CaseLine::unmeasured(&runner::of_side(&case, side), status, "") };
        let lines = [line(0), line(1)];
        let ratio = ratio.map(|ends| stats::PairedRatio { mid: (ends[0] * ends[1]).sqrt(), ends, smallest: 0.01 });
        let compared =
            Compared { lines, logs: vec![0.0; 6], ratio, looks: vec![6], most: 9, closed: true, reason: None };
        ([case.clone(), case], compared)
    }

    #[test]
    fn exit_codes_are_those_that_are_promised() {
        let gate = |words: &str| {
            let command = <GateOptions as clap::Args>::augment_args(parts::named("x"));
            Gate::from_options(&parts::read(&command.get_matches_from(["x", "--fail-on", words])).unwrap())
        };
        let code_of = |words: &str, cases: &[(Option<[f64; 2]>, Status)]| {
            let all: Vec<_> = cases.iter().map(|(ratio, status)| compared(*ratio, *status)).collect();
            let compared_cases: Vec<_> = all.iter().map(|(sides, one)| compared_case(sides, one, 0.03)).collect();
            exit_code(&compared_cases, &all.into_iter().map(|(_, one)| one).collect::<Vec<_>>(), &gate(words))
        };
        let code = |cases: &[(Option<[f64; 2]>, Status)]| code_of("worse,cannot-tell", cases);
        let (same, better, worse) = (Some([0.99, 1.01]), Some([0.8, 0.9]), Some([1.1, 1.2]));
        assert_eq!(code(&[(same, Status::Ok), (better, Status::Ok)]), 0);
        assert_eq!(code(&[(same, Status::Ok), (worse, Status::Ok), (None, Status::Ok)]), 1);
        assert_eq!(code(&[(same, Status::Ok), (Some([0.9, 1.1]), Status::Ok)]), 3);
        assert_eq!(code(&[(None, Status::Ok)]), 3);
        assert_eq!(code(&[(same, Status::Ok), (same, Status::Failed)]), 1);
        assert_eq!(code(&[(same, Status::Ok), (None, Status::NotRun)]), 3);
        assert_eq!(code(&[(None, Status::Skipped)]), 2);
        assert_eq!(code_of("worse", &[(None, Status::Ok), (better, Status::Ok)]), 0);
        assert_eq!(code_of("better", &[(better, Status::Ok)]), 1);
        assert_eq!(code_of("none", &[(worse, Status::Ok), (None, Status::Ok)]), 0);
        assert_eq!(code_of("none", &[(same, Status::Failed)]), 1);
    }

    #[test]
    fn verdicts_are_test_cases() {
        let ratios = [Some([0.99, 1.01]), Some([1.1, 1.2]), Some([0.9, 1.1])];
        let all: Vec<_> = ratios.map(|ratio| compared(ratio, Status::Ok)).into();
        let compared_cases: Vec<_> = all.iter().map(|(sides, one)| compared_case(sides, one, 0.03)).collect();
        let cases = report::interleaved_tests(&compared_cases, &["a".into(), "b".into(), "c".into()], 0.03);
        let why = "B / A is 1.1000 to 1.2000, with a threshold of 3.0%";
        assert_eq!(cases[0].outcome, report::JunitOutcome::Passed);
        assert_eq!(
            (cases[1].name.as_str(), &cases[1].outcome),
            ("b", &report::JunitOutcome::Failed(format!("worse: {why}")))
        );
        assert!(
            matches!(&cases[2].outcome, report::JunitOutcome::Skipped(why) if why.starts_with("cannot tell: B / A is 0.9"))
        );
    }

    #[test]
    fn a_side_that_failed_has_no_ratio_and_the_smallest_change_is_no_less_than_the_threshold() {
        let (sides, failed) = compared(Some([1.1, 1.2]), Status::Failed);
        let case = compared_case(&sides, &failed, 0.03);
        assert_eq!((case.ratio, case.verdict.as_str()), (None, "cannot tell"));
        let (sides, ok) = compared(Some([1.1, 1.2]), Status::Ok);
        let case = compared_case(&sides, &ok, 0.03);
        assert_eq!((case.smallest_change, case.verdict.as_str()), (Some(0.03), "worse"));
        assert!(case.differs.is_empty() && case.ids[0] != case.ids[1], "{case:?}");
    }
}
