//! The command to try after a run: what a benchmark's view leaves open, as flags of its command.

use record::{About, Plan, RunFile};
use terms::{Kind, Role, Status};
use view::Next;
use view::study::{Operation, operations};

/// What the user gave of the run.
pub struct Given<'a> {
    /// The fields of a benchmark that were given as flags.
    pub fields_of: &'a dyn Fn(&'static About) -> Vec<(String, String)>,
    /// Whether cases are those of a plan, whose fields are not flags.
    pub has_plan: bool,
}

/// A command line, and what it tells.
pub struct Proposal {
    /// Words of the line as a shell reads them.
    pub words: Vec<String>,
    /// What it tells.
    pub tells: String,
}

/// What to run after this run. None where nothing is open. A launcher is part of the command: under one, only what its ranks
/// can do without being started in another way is proposed.
pub fn after(given_of: &Given<'_>, plan: &Plan, file: &RunFile, run: &report::Run) -> Option<Proposal> {
    let launched = !file.launcher.is_empty();
    // What skipped everything would skip it again.
    if !run.cases.is_empty() && run.cases.iter().all(|line| line.status == Status::Skipped) {
        return None;
    }
    let mut proposal = rest(run).or_else(|| slower(plan, &file.command_line)).or_else(|| {
        let ready = run.backends.iter().filter(|backend| backend.ready && !launched);
        let ready: Vec<&str> = ready.map(|backend| backend.name.as_str()).collect();
        let sections = operations(&run.cases, &run.benchmarks);
        sections.iter().find_map(|section| {
            let next = run.views.for_section(section)?.next(section, &ready)?;
            of_section(given_of, section, &next, launched)
        })
    })?;
    proposal.words.splice(0..0, quoted(file.launcher.clone()));
    Some(proposal)
}

/// After a run that ended early the rest of it, into the same record.
fn rest(run: &report::Run) -> Option<Proposal> {
    let is_open = |line: &&record::CaseLine| line.status == Status::NotRun || line.lacks_trials();
    let open = run.cases.iter().filter(is_open).count();
    let directory = run.directory.display().to_string();
    let words = quoted(["rankmark", "run", "--resume", &directory].map(str::to_owned).to_vec());
    let does = format!("runs what is missing: {}", view::number::count(open, "case", "cases"));
    (open > 0).then_some(Proposal { words, tells: does })
}

/// After a quick look the same with intervals.
fn slower(plan: &Plan, command_line: &[String]) -> Option<Proposal> {
    let quick = !plan.cases.is_empty() && plan.cases.iter().all(|case| case.is_quick());
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
    (words.len() < command_line.len()).then(|| Proposal { words: quoted(words), tells: "with intervals".to_owned() })
}

/// The command of a section's benchmark. None where it needs other ranks than a launcher has started.
fn of_section(given_of: &Given<'_>, section: &Operation, next: &Next, launched: bool) -> Option<Proposal> {
    let case = section.configurations.iter().flat_map(|configuration| &configuration.cases).next()?;
    let about = benchmarks::benchmark(&case.benchmark)?.about();
    let declared = about.command?;
    let mut given = (given_of.fields_of)(about);
    let starts = |name: &str| {
        launched
            && about.all_fields().any(|field| field.name == name && matches!(field.role, Role::World | Role::Launch))
    };
    if next.changes.iter().any(|(name, _)| starts(name)) {
        return None;
    }
    if given_of.has_plan {
        // The plan's fields are not flags of this command.
        let planned = of_cases(about, section)?.into_iter();
        let open = planned.filter(|(name, _)| !starts(name) && !given.iter().any(|(other, _)| other == name));
        let open: Vec<(String, String)> = open.collect();
        given.extend(open);
    }
    let mut next = next.clone();
    next.keeps.retain(|(name, _)| !starts(name));
    let mut fields = next.fields(&given);
    let mut words = vec!["rankmark".to_owned(), declared.name.to_owned()];
    if !declared.argument.is_empty() {
        let argument =
            fields.iter().position(|(name, _)| name == declared.argument).map(|place| fields.remove(place).1);
        words.push(argument.or_else(|| Some(view::plain(case.parameters.get(declared.argument)?)))?);
    }
    for (name, value) in fields {
        words.extend([format!("--{}", name.replace('_', "-")), value]);
    }
    Some(Proposal { words: quoted(words), tells: next.tells.clone() })
}

/// What a section's cases are, as flags: each field that differs from its default, with all of its values. None where
/// flags cannot say it: they give every combination of their values.
fn of_cases(about: &About, section: &Operation) -> Option<Vec<(String, String)>> {
    let cases = || section.configurations.iter().flat_map(|configuration| &configuration.cases);
    let fields = about.all_fields().filter(|field| field.role != Role::Sampling);
    let mut combinations = 1;
    let mut flags = Vec::new();
    for field in fields {
        let given: Vec<String> = cases().filter_map(|case| case.parameters.get(field.name)).map(view::plain).collect();
        if !given.is_empty() && given.len() < cases().count() {
            return None;
        }
        let mut values: Vec<String> = Vec::new();
        for value in given {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        combinations *= values.len().max(1);
        let differs = values.iter().any(|value| Some(value.as_str()) != field.default);
        // Several choices have commas of their own; without the field, all are made.
        let is_text = match field.kind {
            Kind::Texts => false,
            Kind::Choice(_) => values.len() == 1,
            _ => true,
        };
        flags.extend((differs && is_text).then(|| (field.name.to_owned(), values.join(","))));
    }
    (combinations == cases().count()).then_some(flags)
}

/// Words for a shell. What looks like a secret is masked, as in the record.
fn quoted(words: Vec<String>) -> Vec<String> {
    record::command_line(words).iter().map(|word| report::shell(word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_look_is_followed_by_a_full_one() {
        let plan = |quick: &str| record::plan::from_flags(benchmarks::abouts()[0], &[("quick", quick)], &[]).unwrap();
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let command = |quick, text| slower(&plan(quick), &words(text)).map(|proposal| proposal.words.join(" "));
        let wanted = Some("rankmark comm all_reduce --ranks 2".to_owned());
        assert_eq!(command("true", "/a/rankmark comm all_reduce --quick --ranks 2 --output-dir x"), wanted);
        assert_eq!(command("false", "rankmark comm all_reduce --quick"), None);
    }
}
