//! `rankmark schema`: JSON Schemas, made from what benchmarks declare.

use clap::ArgMatches;

use crate::{Failure, terminal};

pub(crate) fn run(matches: &ArgMatches) -> Result<u8, Failure> {
    let abouts = benchmarks::abouts();
    let schema = match matches.get_one::<String>("of").map(String::as_str) {
        Some("record") => record::schema::record(&abouts),
        _ => record::schema::plan(&abouts),
    };
    let text = serde_json::to_string_pretty(&schema)
        .map_err(|error| Failure::new("the schema could not be written").cause(error))?;
    terminal::print(&format!("{text}\n"))
}
