//! What was predicted of a record's cases, beside what was measured.

use record::CaseLine;
use terms::Status;

use crate::Run;
use crate::document::{Align, Block, Table, strong};
use crate::number::{NONE, count, percent, seconds};
use crate::words::names;

/// The title of the section.
pub(crate) const TITLE: &str = "Predictions";

/// A row for each case that was predicted, under a banner; empty where nothing was.
pub(crate) fn blocks(run: &Run) -> Vec<Block> {
    let Some(predictions) = &run.predictions else { return Vec::new() };
    let from = crate::escape::one_line(&predictions.machine);
    let banner =
        format!("{}: predicted times were computed from the numbers of {from}", strong("PREDICTED, NOT MEASURED"));
    let mut table = Table::new([
        ("case", Align::Left),
        ("predicted", Align::Right),
        ("in 9 of 10 cases", Align::Right),
        ("measured", Align::Right),
        ("error", Align::Right),
    ]);
    let mut held = (0, 0);
    let of_case = |case: &str| run.cases.iter().find(|line| line.id == case);
    let lines: Vec<&CaseLine> = predictions.cases.iter().filter_map(|one| of_case(&one.case)).collect();
    for one in &predictions.cases {
        let line = of_case(&one.case);
        let measured = line.filter(|line| line.status == Status::Ok).and_then(|line| line.time_s.as_ref());
        let measured = measured.map(|time| time.median).filter(|median| *median > 0.0);
        if let (Some([low, high]), Some(measured)) = (one.interval90_s, measured) {
            held.0 += usize::from((low..=high).contains(&measured));
            held.1 += 1;
        }
        let name = line.map_or_else(|| format!("case {}", one.case), |line| name(run, line, &lines));
        let ends = one.interval90_s.map(|[low, high]| format!("{} to {}", seconds(low), seconds(high)));
        let error = measured.map(|measured| {
            let error = one.step_s / measured - 1.0;
            format!("{}{}", if error < 0.0 { "" } else { "+" }, percent(error))
        });
        table.row([
            name,
            seconds(one.step_s),
            ends.unwrap_or_else(|| "unknown".to_owned()),
            measured.map_or_else(|| NONE.to_owned(), seconds),
            error.unwrap_or_else(|| NONE.to_owned()),
        ]);
    }
    let sealed = match predictions.is_sealed {
        true => "The predictions were sealed before anything was measured: the note of the run has their digest.",
        false => "These are not the predictions that were sealed before the measurement: the digests differ.",
    };
    let held = format!("{} of {} contain the measured time. {sealed}", held.0, count(held.1, "interval", "intervals"));
    vec![Block::Warning(banner.into()), Block::Table(table), Block::Paragraph(held.into())]
}

/// What of a case the others do not have: `gpt2-mini, data, 2 ranks, batch 4`.
fn name(run: &Run, line: &CaseLine, all: &[&CaseLine]) -> String {
    let declared = crate::study::declaration(&run.benchmarks, &line.benchmark);
    let differs = |name: &str| all.iter().any(|other| other.parameters.get(name) != line.parameters.get(name));
    let own = line.parameters.iter().filter(|(name, _)| differs(name));
    let words = own.map(|(name, value)| match name {
        "ranks" => count(line.ranks as usize, "rank", "ranks"),
        _ => view::label_of(declared, name, &view::plain(value)),
    });
    let name = words.collect::<Vec<_>>().join(", ");
    if name.is_empty() { names::described(line) } else { view::one_line(&name) }
}
