//! Writes the HTML reports of invented runs, to open in a browser: `cargo run -p rankmark-report --example pages -- DIR [RECORD]...`.
//! `cargo xtask browser` checks them. Each RECORD is a record on disk: all of them make one more page.

#![expect(clippy::disallowed_methods, reason = "an example reads its arguments")]

#[path = "../tests/all/data.rs"]
#[allow(dead_code)]
mod data;
#[path = "../tests/all/many.rs"]
mod many;

use std::path::{Path, PathBuf};

fn main() -> Result<(), report::Error> {
    let mut arguments = std::env::args().skip(1);
    let dir = PathBuf::from(arguments.next().unwrap_or_else(|| "pages".to_owned()));
    let html = [report::format("html")?];
    let mut runs = data::runs();
    runs.push(("large", many::run(5_000)));
    for (name, run) in &runs {
        report::write_formats(run, &dir.join(name), &html)?;
    }
    report::write_together(&[data::study(), data::scaled(), data::hostile()], None, &dir.join("together"))?;
    for record in arguments {
        let record = Path::new(&record);
        let run = report::Run::read(record, benchmarks::VIEWS)?;
        report::write_formats(&run, &dir.join(record.file_name().unwrap_or_default()), &html)?;
    }
    Ok(())
}
