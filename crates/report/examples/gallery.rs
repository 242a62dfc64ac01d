//! Writes the reports of invented runs, for a person to view: `cargo run -p rankmark-report --example gallery -- DIR`.

#![expect(clippy::disallowed_methods, reason = "an example reads its arguments")]

#[path = "../tests/all/data.rs"]
#[allow(dead_code)]
mod data;

fn main() -> Result<(), report::Error> {
    let dir = std::path::PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "gallery".to_owned()));
    for (name, run) in data::runs() {
        report::write(&run, &dir.join(name))?;
    }
    Ok(())
}
