//! `rankmark version`: what this binary is and what it finds here, to be pasted into a bug report.

use serde_json::{Value, json};
use survey::{Finding, Request, State};

use crate::commands::{Ended, Typed};
use crate::session::Entry;
use crate::{environment, screen};

/// What the build noted (build.rs).
const BUILD: [(&str, &str); 5] = [
    ("commit", env!("RANKMARK_BUILD_COMMIT")),
    ("features", env!("RANKMARK_BUILD_FEATURES")),
    ("profile", env!("RANKMARK_BUILD_PROFILE")),
    ("rustc", env!("RANKMARK_BUILD_RUSTC")),
    ("target", env!("RANKMARK_BUILD_TARGET")),
];

/// Version, build and the libraries found here, to paste into a bug report
#[derive(clap::Args)]
#[command(
    after_help = "`rankmark --version` prints the first line only. `rankmark validate` looks at more, and longer."
)]
pub(crate) struct VersionCommand {
    /// JSON on standard output
    #[arg(long)]
    json: bool,
}

impl Typed for VersionCommand {
    const NAME: &'static str = "version";

    fn run(self, _: Entry<'_>) -> Ended {
        let folders = environment::search_path().into_iter().filter(|folder| folder.is_absolute()).collect();
        let libraries = survey::versions(&Request { path: folders, quick: true, ..Request::default() });
        if self.json {
            return screen::print_json(&format!("{}\n", object(&libraries)));
        }
        screen::print(&text(&libraries))
    }
}

/// What reports can be written as.
fn formats() -> Vec<&'static str> {
    report::FORMATS.iter().map(|format| format.name()).collect()
}

fn object(libraries: &[Finding]) -> Value {
    // The protocol tells `compare --binary-b` whether ranks of this program understand another one.
    let mut object = json!({
        "name": "rankmark", "version": env!("CARGO_PKG_VERSION"), "protocol": launch::PROTOCOL,
    });
    for (name, value) in BUILD {
        object[name] = match name {
            "features" => value.split(',').filter(|feature| !feature.is_empty()).collect(),
            _ => value.into(),
        };
    }
    let row = |row: &Finding| json!({ "name": row.name, "state": row.state.word(), "found": row.found });
    object["formats"] = formats().into();
    object["libraries"] = libraries.iter().map(row).collect();
    object
}

/// A name and a value a line.
fn text(libraries: &[Finding]) -> String {
    let mut lines: Vec<(&str, String)> = vec![("rankmark", env!("CARGO_PKG_VERSION").to_owned())];
    lines.extend(BUILD.map(|(name, value)| (name, if value.is_empty() { "none" } else { value }.to_owned())));
    lines.push(("formats", formats().join(", ")));
    lines.extend(libraries.iter().map(|row| {
        let found = match row.state {
            State::Ready => row.found.clone(),
            state => format!("{}: {}", state.word(), row.found),
        };
        (row.name.as_str(), found)
    }));
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    lines.into_iter().map(|(name, value)| format!("{name:width$}  {value}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_each_and_a_state_where_it_is_not_ready() {
        let rows = [Finding::ready("Open MPI", "4.1.4  /usr/lib/libmpi.so"), Finding::missing("NCCL", "no libnccl.so")];
        let text = text(&rows);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1 + BUILD.len() + 1 + 2);
        assert_eq!(lines[0], format!("rankmark  {}", env!("CARGO_PKG_VERSION")));
        assert_eq!(lines[7..], ["Open MPI  4.1.4 /usr/lib/libmpi.so", "NCCL      missing: no libnccl.so"]);
        let object = object(&rows);
        assert_eq!(object["libraries"][1], json!({"name": "NCCL", "state": "missing", "found": "no libnccl.so"}));
        assert!(object["features"].is_array() && object["commit"].is_string());
    }
}
