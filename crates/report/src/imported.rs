//! What an imported record says of the files that it is from.

use record::Imported;

use crate::Run;
use crate::escape::{code, markdown as escaped};

/// `nccl-tests 2.13.8, file all_reduce.log (nccl_tests), times: mean over iterations`; empty where nothing was imported.
pub(crate) fn line(run: &Run) -> String {
    run.imported.iter().map(source).collect::<Vec<_>>().join("; ")
}

fn source(imported: &Imported) -> String {
    let runs = imported.runs.map_or(String::new(), |runs| format!(", {runs} runs"));
    format!("{}, file {} ({}){runs}, times: {}", imported.tool, imported.file, imported.format, imported.statistic)
}

/// What the files say of their runs, how their figures were read, and which are in no case.
pub(crate) fn text(run: &Run) -> String {
    run.imported.iter().map(of_file).collect::<Vec<_>>().join("\n")
}

fn of_file(imported: &Imported) -> String {
    let mut text = format!("* File: {}, SHA-256 {}\n", code(&imported.file), code(&imported.sha256));
    for (name, value) in &imported.facts {
        text += &format!("* {}: {}\n", escaped(name), escaped(value));
    }
    for note in &imported.notes {
        text += &format!("* {}\n", escaped(note));
    }
    if !imported.omitted.is_empty() {
        text += "\nThese figures of the file are in no case:\n\n";
        for omitted in &imported.omitted {
            text += &format!("* {}\n", escaped(omitted));
        }
    }
    text
}
