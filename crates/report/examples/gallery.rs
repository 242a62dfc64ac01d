//! Writes the reports of invented runs, to look at: `cargo run -p report --example gallery -- DIR`.

#![expect(clippy::disallowed_methods, reason = "an example reads its arguments")]

#[path = "../tests/all/data.rs"]
#[allow(dead_code)]
mod data;

fn main() -> Result<(), report::Error> {
    let dir = std::path::PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "gallery".to_owned()));
    let runs = [
        ("one_series", data::one_series()),
        ("three_by_twenty", data::three_by_twenty()),
        ("twelve_series", data::twelve_series()),
        ("one_point", data::one_point()),
        ("huge_bands", data::huge_bands()),
        ("study", data::study()),
        ("hostile", data::hostile()),
        ("soak", data::soak(0.03)),
        ("peers", data::peers()),
        ("scaled", data::scaled()),
        ("held", data::held()),
    ];
    for (name, run) in runs {
        report::write(&run, &dir.join(name))?;
    }
    Ok(())
}
