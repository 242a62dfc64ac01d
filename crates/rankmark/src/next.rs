//! The command to try after a run: what a benchmark's view leaves open, as flags of its command.

use clap::ArgMatches;
use record::Plan;
use view::Next;
use view::study::{Operation, operations};

use crate::given::given;

/// A command line, and what it tells.
pub(crate) struct Proposal {
    pub(crate) command: String,
    pub(crate) tells: String,
}

/// What to run after this run. None under a launcher, which is part of the command, and where nothing is open.
pub(crate) fn after(matches: &ArgMatches, plan: &Plan, command_line: &[String], run: &report::Run) -> Option<Proposal> {
    if !run.launcher.is_empty() {
        return None;
    }
    slower(plan, command_line).or_else(|| {
        let ready: Vec<&str> =
            run.backends.iter().filter(|backend| backend.ready).map(|backend| backend.name.as_str()).collect();
        let sections = operations(&run.cases, &run.benchmarks);
        sections.iter().find_map(|section| {
            let next = run.views.of(section)?.next(section, &ready)?;
            of_section(matches, section, &next)
        })
    })
}

/// After a quick look the same with intervals.
fn slower(plan: &Plan, command_line: &[String]) -> Option<Proposal> {
    let quick = !plan.cases.is_empty() && plan.cases.iter().all(|case| case.flag("quick"));
    let (program, arguments) = command_line.split_first().filter(|_| quick)?;
    let program = std::path::Path::new(program).file_name()?.to_str()?;
    let mut rest = arguments.iter();
    let mut words = vec![program.to_owned()];
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--quick" => {}
            "--output-dir" => drop(rest.next()),
            other if other.starts_with("--output-dir=") => {}
            other => words.push(other.to_owned()),
        }
    }
    (words.len() < command_line.len()).then(|| Proposal { command: line(words), tells: "with intervals".to_owned() })
}

/// The command of a section's benchmark.
fn of_section(matches: &ArgMatches, section: &Operation, next: &Next) -> Option<Proposal> {
    let case = section.configurations.iter().flat_map(|configuration| &configuration.cases).next()?;
    let about = benchmarks::benchmark(&case.benchmark)?.about();
    let declared = about.command?;
    let mut fields = next.fields(&given(matches, &[about]));
    let mut words = vec!["rankmark".to_owned(), declared.name.to_owned()];
    if !declared.argument.is_empty() {
        let argument =
            fields.iter().position(|(name, _)| name == declared.argument).map(|place| fields.remove(place).1);
        words.push(argument.or_else(|| Some(view::plain(case.parameters.get(declared.argument)?)))?);
    }
    for (name, value) in fields {
        words.extend([format!("--{}", name.replace('_', "-")), value]);
    }
    Some(Proposal { command: line(words), tells: next.tells.clone() })
}

/// A line for a shell. What looks like a secret is masked, as in the record.
fn line(words: Vec<String>) -> String {
    record::command_line(words).iter().map(|word| report::shell(word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_look_is_followed_by_a_full_one() {
        let plan = |quick: &str| {
            record::plan::from_flags(benchmarks::abouts()[0], &[("quick".into(), quick.into())], &[]).unwrap()
        };
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let told = |quick, text| slower(&plan(quick), &words(text)).map(|proposal| proposal.command);
        let wanted = Some("rankmark comm all_reduce --ranks 2".to_owned());
        assert_eq!(told("true", "/a/rankmark comm all_reduce --quick --ranks 2 --output-dir x"), wanted);
        assert_eq!(told("false", "rankmark comm all_reduce --quick"), None);
    }
}
