//! `rankmark report DIR`: the report of a record, again.

use std::path::Path;

use clap::ArgMatches;

use crate::{Failure, terminal};

pub(crate) fn run(matches: &ArgMatches) -> Result<u8, Failure> {
    let of = matches.subcommand_matches("generate").unwrap_or(matches);
    let Some(source) = of.get_one::<String>("source") else {
        return Err(Failure::new("no record is named").hint("rankmark report results/DIR"));
    };
    let directory = Path::new(source);
    let run = report::Run::read(directory, benchmarks::VIEWS)?;
    let formats: Vec<&dyn report::Format> = match of.get_many::<String>("format") {
        Some(names) => names.map(|name| report::format(name)).collect::<Result<_, _>>()?,
        None => report::FORMATS.to_vec(),
    };
    let written = report::write_formats(&run, directory, &formats)?;
    let damaged: Vec<String> = run.damaged.iter().map(|line| format!("warning: {line}; it is left out\n")).collect();
    terminal::remark(&damaged.concat());
    let lines: Vec<String> = written.iter().map(|path| format!("{}\n", path.display())).collect();
    terminal::print(&lines.concat())
}
