//! What makes a comparison fail: `--threshold` and `--fail-on`, and the exit code that follows.

use diagnose::Verdict;
use record::ComparedCase;
use terms::{Ratio, Status};
use view::Compared;

use super::Comparisons;

/// Within this share two cases are the same, unless the user says otherwise.
const THRESHOLD: Ratio = Ratio(0.03);

/// What ends a comparison with another code than 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// Within this share two cases are the same.
    pub threshold: f64,
    fail_on: Vec<String>,
}

impl Default for Gate {
    fn default() -> Self {
        Self::new(None, &[])
    }
}

impl Gate {
    /// Every word of `--fail-on`.
    pub const WORDS: [&'static str; 5] = ["worse", "cannot-tell", "better", "unmatched", "none"];

    /// What the options say: a threshold, and words of `--fail-on`.
    pub fn new(threshold: Option<Ratio>, fail_on: &[String]) -> Self {
        let default = || vec!["worse".to_owned(), "cannot-tell".to_owned()];
        let fail_on = if fail_on.is_empty() { default() } else { fail_on.to_vec() };
        Self { threshold: threshold.unwrap_or(THRESHOLD).0, fail_on }
    }

    /// Whether what this word names is to fail.
    pub fn fails(&self, word: &str) -> bool {
        let given = |word: &str| self.fail_on.iter().any(|given| given == word);
        given(word) && !given("none")
    }

    /// The exit code. 1: worse, or what else is to fail. 3: undecided. 0: fine.
    pub fn code(&self, found: &Comparisons<'_>) -> u8 {
        let any = |verdict| found.others.iter().any(|side| side.comparison.count(verdict) > 0);
        let unmatched = || found.others.iter().any(|side| !side.comparison.only_base.is_empty());
        if self.fails("unmatched") && unmatched() {
            return 1;
        }
        self.code_of(any, any(Verdict::CannotTell))
    }

    /// The exit code of an interleaved comparison. After a signal, the signal's code. 2: every case skipped. 1: any failed, or a
    /// gate missed, or what `--fail-on` names (worse). 3: any undecided. 0 otherwise.
    pub fn interleaved_code(&self, cases: &[ComparedCase], compared: &[Compared], signal: Option<u8>) -> u8 {
        let any = |verdict: Verdict| {
            cases.iter().any(|case| case.status == Status::Ok && case.verdict == verdict.to_string())
        };
        let undecided = any(Verdict::CannotTell) || cases.iter().any(|case| case.status == Status::NotRun);
        let lines = || compared.iter().flat_map(|one| &one.lines);
        let failed = lines().any(|line| line.status == Status::Failed || !line.gates_missed.is_empty());
        match signal.filter(|_| undecided) {
            Some(code) => code,
            None if cases.iter().all(|case| case.status == Status::Skipped) => 2,
            None if failed => 1,
            None => self.code_of(any, undecided),
        }
    }

    /// The exit code, where cases have these verdicts.
    fn code_of(&self, any: impl Fn(Verdict) -> bool, undecided: bool) -> u8 {
        if self.fails("worse") && any(Verdict::Worse) || self.fails("better") && any(Verdict::Better) {
            1
        } else if self.fails("cannot-tell") && undecided {
            3
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::compared_case;
    use record::{Case, CaseLine};

    fn compared(ratio: Option<[f64; 2]>, status: Status) -> ([Case; 2], Compared) {
        let about = benchmarks::abouts()[0];
        let case = record::plan::from_defaults(about).unwrap().cases.remove(0);
        let line = |side| CaseLine { status, ..CaseLine::unmeasured(&record::of_side(&case, side, about), status, "") };
        let lines = [line(0), line(1)];
        let ratio = ratio.map(|ends| stats::PairedRatio { mid: (ends[0] * ends[1]).sqrt(), ends, smallest: 0.01 });
        let compared =
            Compared { lines, logs: vec![0.0; 6], ratio, looks: vec![6], most: 9, closed: true, reason: None };
        ([case.clone(), case], compared)
    }

    #[test]
    fn exit_codes_are_those_that_are_promised() {
        let gate = |words: &str| Gate::new(None, &words.split(',').map(str::to_owned).collect::<Vec<_>>());
        let code_of = |words: &str, cases: &[(Option<[f64; 2]>, Status)]| {
            let all: Vec<_> = cases.iter().map(|(ratio, status)| compared(*ratio, *status)).collect();
            let compared_cases: Vec<_> = all.iter().map(|(sides, one)| compared_case(sides, one, 0.03)).collect();
            let compared: Vec<Compared> = all.into_iter().map(|(_, one)| one).collect();
            gate(words).interleaved_code(&compared_cases, &compared, None)
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
