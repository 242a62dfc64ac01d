//! What a report says, block by block: the text of `report.md`, of the PDF, and of sections of the HTML page. The order is
//! that of the HTML page: verdict, what to do, what the data show, each operation, and what the numbers rest on.

mod attention;
mod head;
mod method;
mod summary;

pub(crate) use attention::cases_without_result;
pub(crate) use head::{meta, sensors, status, to_do, verdict_line, warnings};
pub(crate) use method::{caveats, command_again, method};
pub(crate) use summary::summary;

use crate::document::{Block, Words, prose_list};
use crate::study::operations;
use crate::words::findings::findings;
use crate::{
    Run, charts, words::damage, words::drift, words::expected, words::explained, words::imported, words::interleaved,
    words::peers, words::placement, words::predicted, words::price, words::results, words::sentences, words::traffic,
};

/// Hands over the report, one block after another: charts of all sections at once would be large.
pub(crate) fn page(run: &Run, put: &mut dyn FnMut(Block)) {
    let operations = operations(&run.cases, &run.benchmarks);
    let several = operations.len() > sentences::FEW_OPERATIONS;
    let found = findings(run, &operations);
    head::head(run, &operations, &found).into_iter().for_each(&mut *put);
    section("Comparison", interleaved::blocks(run), put);
    section(predicted::TITLE, predicted::blocks(run), put);
    section("What to do", head::to_do(&found), put);
    put(Block::Contents);
    section("What the data show", prose_list(sentences::beyond(run, &operations, &found)), put);
    section("Summary by configuration", summary(&operations), put);
    section(explained::TITLE, explained::blocks(run), put);
    for operation in &operations {
        let mut body = Vec::new();
        let constants = Words::prose(&operation.constants);
        body.extend((!constants.is_empty()).then_some(Block::Paragraph(constants)));
        if several {
            body.extend(prose_list(sentences::of_operation(run, operation)));
        }
        let charts = charts::shown(run, operation);
        body.extend(charts.into_iter().map(|chart| Block::Figure(Box::new(chart))));
        body.extend(drift::left_out(run, operation));
        body.extend(peers::results(operation));
        body.extend(results::tables(operation, run.wording).into_iter().flatten());
        section(&operation.name, body, put);
    }
    section("Communication of a job", traffic::table(run), put);
    section("Expected figures", expected::table(run), put);
    section("Price", price::blocks(run), put);
    section("Cases that need attention", cases_without_result(run), put);
    section("Damaged lines", damage::list(run), put);
    section("Caveats", caveats(run), put);
    section("Imported file", imported::blocks(run), put);
    section("Machine and record", head::facts(run), put);
    section("Placement", placement::blocks(run), put);
    section("Method", method(run), put);
    section("Run it again", command_again(run), put);
}

/// A section with its heading; nothing where it has no body.
pub(crate) fn section(title: &str, body: Vec<Block>, put: &mut dyn FnMut(Block)) {
    if !body.is_empty() {
        put(Block::Heading(2, title.into()));
        body.into_iter().for_each(put);
    }
}
