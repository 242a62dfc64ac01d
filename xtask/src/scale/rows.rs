//! The commands that are measured, with what is promised of each.

use super::inputs::{Input, Planned};
use super::logs::Distinct;
use super::records::{Lines, Vary};

/// What a command may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Most {
    /// Seconds of a processor.
    pub(super) seconds: f64,
    pub(super) megabytes: f64,
}

/// One command.
pub(super) struct Row {
    /// For `--only`.
    pub(super) name: &'static str,
    /// What is done; `{n}` is the size of the input.
    pub(super) what: &'static str,
    pub(super) input: Input,
    /// The words behind `rankmark`. INPUT is the input, `INPUT/*` its files, OUT a folder that is not there.
    pub(super) words: &'static [&'static str],
    /// How it may end: with 1, 2 and 3 it says what it found of what it read, or of this machine.
    pub(super) codes: &'static [i32],
    pub(super) changes_its_input: bool,
    /// The size that is promised, and that of the gate.
    pub(super) full: usize,
    pub(super) small: usize,
    pub(super) most: Most,
}

impl Row {
    /// The command as it is shown.
    pub(super) fn shown(&self) -> String {
        format!("rankmark {}", self.words.join(" "))
    }
}

/// What is promised of memory, for all but the comparison of two records.
const MEGABYTES: f64 = 500.0;

const fn row(name: &'static str, input: Input, words: &'static [&'static str], what: &'static str) -> Row {
    let most = Most { seconds: 3.0, megabytes: MEGABYTES };
    Row { name, what, input, words, codes: &[0], changes_its_input: false, full: 20_000, small: 1_000, most }
}

impl Row {
    const fn ends(self, codes: &'static [i32]) -> Self {
        Self { codes, ..self }
    }

    const fn sizes(self, full: usize, small: usize) -> Self {
        Self { full, small, ..self }
    }

    const fn within(self, seconds: f64) -> Self {
        Self { most: Most { seconds, ..self.most }, ..self }
    }
}

/// All rows. Those that read the same follow one another.
pub(super) fn rows() -> &'static [Row] {
    const TRACE: Input = Input::Trace(Distinct::Groups, 20, 1);
    const TRACE_OF_SIZES: Input = Input::Trace(Distinct::Sizes, 20, 2);
    const TRACE_WITHOUT_STEPS: Input = Input::Trace(Distinct::Sizes, 0, 1);
    const PROFILE: &[&str] = &["profile", "--import", "INPUT/*", "--output-dir", "OUT"];
    const AS_PLAN: &[&str] = &["import", "--as", "plan", "INPUT/*"];
    const PLAN: &[&str] = &["run", "INPUT", "--dry-run"];
    const CHECK: &[&str] = &["validate", "--quick", "--plan", "INPUT"];
    const IMPORT: &[&str] = &["import", "--op", "all_reduce", "INPUT", "--output-dir", "OUT"];
    static ROWS: &[Row] = &[
        row("plan-calls", Input::Plan(Planned::Calls), PLAN, "a plan of {n} calls shown").ends(&[0, 2]),
        row("check-calls", Input::Plan(Planned::Calls), CHECK, "a plan of {n} calls checked").ends(&[0, 1]).within(2.0),
        row("plan-backends", Input::Plan(Planned::Backends), PLAN, "a plan of {n} calls of four backends shown")
            .ends(&[0, 2]),
        row("check-backends", Input::Plan(Planned::Backends), CHECK, "a plan of {n} calls of four backends checked")
            .ends(&[0, 1])
            .within(2.0),
        row("plan-training", Input::Plan(Planned::Training), PLAN, "a plan of {n} training cases shown").ends(&[0, 2]),
        row("check-training", Input::Plan(Planned::Training), CHECK, "a plan of {n} training cases checked")
            .ends(&[0, 1])
            .within(2.0),
        row("page", Input::Invented, &["report", "INPUT", "--format", "html"], "an HTML page of {n} cases written"),
        row("history", Input::Invented, &["history", "INPUT"], "a record of {n} cases: history"),
        row("watch", Input::Invented, &["watch", "INPUT", "--once"], "a record of {n} cases: watch").ends(&[0, 1]),
        row("list", Input::Invented, &["list", "records", "INPUT"], "a record of {n} cases: list"),
        Row {
            most: Most { seconds: 60.0, megabytes: 1000.0 },
            ..row("compare", Input::Invented, &["compare", "INPUT", "INPUT"], "records of {n} cases compared")
                .ends(&[0, 1, 3])
                .sizes(100_000, 1_000)
        },
        row("report", Input::Invented, &["report", "INPUT"], "a report of {n} cases written")
            .sizes(100_000, 1_000)
            .within(20.0),
        row("profile-groups", TRACE, PROFILE, "a trace of {n} communicators explained")
            .sizes(200_000, 8_000)
            .within(10.0),
        row("import-groups", TRACE, AS_PLAN, "a trace of {n} communicators as a plan").sizes(200_000, 8_000),
        row("profile-sizes", TRACE_OF_SIZES, PROFILE, "traces of {n} sizes explained")
            .sizes(200_000, 8_000)
            .within(10.0),
        row("import-sizes", TRACE_OF_SIZES, AS_PLAN, "traces of {n} sizes as a plan").sizes(200_000, 8_000),
        row("profile-calls", TRACE_WITHOUT_STEPS, PROFILE, "a trace of {n} sizes without steps explained")
            .sizes(200_000, 8_000)
            .within(10.0),
        row("import-nccl-tests", Input::NcclTests, IMPORT, "a log of nccl-tests of {n} rows imported")
            .sizes(100_000, 1_000)
            .within(30.0),
        row("import-osu", Input::Osu, IMPORT, "a log of OSU's benchmarks of {n} rows imported")
            .sizes(100_000, 1_000)
            .within(30.0),
        row("list-many", Input::Records, &["list", "records", "INPUT"], "{n} records listed").sizes(10_000, 400),
        row("list-six", Input::SixRecords, &["list", "records", "INPUT"], "six records of {n} cases listed")
            .sizes(100_000, 1_000)
            .within(15.0),
        row("history-six", Input::SixRecords, &["history", "INPUT"], "history of six records of {n} cases")
            .sizes(100_000, 1_000)
            .within(30.0),
        row("history-six-json", Input::SixRecords, &["history", "INPUT", "--json"], "the same as JSON, {n} cases")
            .sizes(100_000, 1_000)
            .within(30.0),
        row("fleet", Input::Fleet, &["fleet", "INPUT", "--output-dir", "OUT"], "a fleet of {n} nodes judged and drawn")
            .ends(&[1])
            .sizes(4_096, 512)
            .within(10.0),
        row(
            "resume-shown",
            Input::Record(Vary::Sizes, Lines::AllButOne),
            &["run", "--resume", "INPUT", "--dry-run"],
            "a record of {n} cases: what a resumed run would do",
        )
        .ends(&[0, 2])
        .sizes(100_000, 1_000)
        .within(10.0),
        Row {
            changes_its_input: true,
            ..row(
                "resume",
                Input::Record(Vary::Sizes, Lines::AllButOne),
                &["run", "--resume", "INPUT", "--quiet"],
                "a record of {n} cases resumed, with its report",
            )
            .sizes(100_000, 1_000)
            .within(60.0)
        },
        row(
            "page-operations",
            Input::Record(Vary::Operations, Lines::All),
            &["report", "INPUT", "--format", "html"],
            "an HTML page of {n} operations written",
        )
        .sizes(16_000, 400)
        .within(10.0),
        row(
            "charts-backends",
            Input::Record(Vary::Backends, Lines::All),
            &["report", "INPUT", "--format", "png"],
            "charts of a third of {n} series drawn",
        )
        .sizes(3_000, 600)
        .within(5.0),
    ];
    ROWS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_names_of_their_own_and_inputs_side_by_side() {
        let all = rows();
        let names: std::collections::BTreeSet<&str> = all.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), all.len());
        let mut inputs: Vec<Input> = all.iter().map(|row| row.input).collect();
        inputs.dedup();
        assert!(inputs.iter().all(|input| inputs.iter().filter(|other| *other == input).count() == 1), "made twice");
    }
}
