//! What an imported record says of the files that it is from.

use record::Imported;

use crate::Run;
use crate::document::{Block, Item, bullets, code};

/// `nccl-tests 2.13.8, file all_reduce.log (nccl_tests), times: mean over iterations`; empty where nothing was imported.
pub(crate) fn line(run: &Run) -> String {
    run.imported.iter().map(source).collect::<Vec<_>>().join("; ")
}

fn source(imported: &Imported) -> String {
    let runs = imported.runs.map_or(String::new(), |runs| format!(", {runs} runs"));
    format!("{}, file {} ({}){runs}, times: {}", imported.tool, imported.file, imported.format, imported.statistic)
}

/// What the files say of their runs, how their figures were read, and which are in no case.
pub(crate) fn blocks(run: &Run) -> Vec<Block> {
    run.imported.iter().flat_map(of_file).collect()
}

fn of_file(imported: &Imported) -> Vec<Block> {
    let file = format!("File: {}, SHA-256 {}", code(&imported.file), code(&imported.sha256));
    let facts = imported.facts.iter().map(|(name, value)| format!("{name}: {value}"));
    let items = std::iter::once(file).chain(facts).chain(imported.notes.iter().cloned());
    let mut blocks = vec![Block::List(items.map(Item::from).collect())];
    if !imported.omitted.is_empty() {
        blocks.push(Block::Paragraph("These figures of the file are in no case:".into()));
        blocks.extend(bullets(imported.omitted.iter().cloned()));
    }
    blocks
}
