//! What an imported record says of the files that it is from.

use record::Imported;

use crate::Run;
use crate::document::{Block, Words, bullets, code, prose_list};
use crate::escape::one_line;
use crate::number::list;

/// `nccl-tests 2.13.8, file all_reduce.log (nccl_tests), times: mean over iterations`; empty where nothing was imported.
pub(crate) fn line(run: &Run) -> String {
    run.imported.iter().map(source).collect::<Vec<_>>().join("; ")
}

/// What the times of all files are, where they are the same.
pub(crate) fn statistic(run: &Run) -> Option<String> {
    let (first, others) = run.imported.split_first()?;
    let same = others.iter().all(|other| other.statistic == first.statistic);
    (same && !first.statistic.trim().is_empty()).then(|| one_line(&first.statistic))
}

/// How the figures of a record came about that this program did not measure.
pub(crate) fn method(run: &Run) -> String {
    let statistic =
        statistic(run).map_or_else(|| "as their files describe them".to_owned(), |words| format!("the {words}"));
    let tools: std::collections::BTreeSet<&str> = run.imported.iter().map(|of| of.tool.as_str()).collect();
    let tools: Vec<String> = tools.into_iter().map(one_line).filter(|tool| !tool.is_empty()).collect();
    let tools = if tools.is_empty() { "another program".to_owned() } else { list(&tools) };
    format!(
        "These figures come from {tools}: times are {statistic}. Rankmark did not measure them: there are no samples, no \
         intervals, and no caveats about the machine."
    )
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
    let facts = std::iter::once(file).chain(facts).map(Words::from);
    let items = facts.chain(imported.notes.iter().map(|note| Words::prose(note)));
    let mut blocks = bullets(items);
    if !imported.omitted.is_empty() {
        blocks.push(Block::Paragraph("These figures in the file do not belong to any case:".into()));
        blocks.extend(prose_list(&imported.omitted));
    }
    blocks
}
