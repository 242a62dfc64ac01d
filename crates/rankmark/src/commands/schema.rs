//! `rankmark schema`: JSON Schemas, made from what benchmarks declare and from the types of records.

use serde_json::Value;

use super::{Ended, Typed};
use crate::session::Entry;
use crate::{Failure, screen};

/// The JSON Schema of plans or records
#[derive(clap::Args)]
pub(crate) struct Schema {
    /// which of the two
    #[arg(value_parser = ["plan", "record"], default_value = "plan")]
    of: String,
}

impl Typed for Schema {
    const NAME: &'static str = "schema";

    fn run(self, _: Entry<'_>) -> Ended {
        let schema = match self.of.as_str() {
            "record" => of_records(),
            _ => record::schema::plan(&benchmarks::abouts()),
        };
        let text = serde_json::to_string_pretty(&schema)
            .map_err(|error| Failure::new("the schema could not be written").cause(error))?;
        screen::print(&format!("{text}\n"))
    }
}

/// The schema of records, those of profiled jobs included.
pub(crate) fn of_records() -> Value {
    record::schema::record(&[&benchmarks::abouts()[..], &[&job::ABOUT]].concat())
}
