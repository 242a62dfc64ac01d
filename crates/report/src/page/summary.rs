//! The best figures of each configuration, in one table.

use record::Caveat;

use crate::document::{Align, Block, Table, Words};
use crate::number::{NONE, bytes, seconds, three_digits};
use crate::study::{Configuration, Operation};
use crate::words::caveats::Wording;
use crate::words::facts::{self, Saturation};

/// Configurations of an operation that have a row though each is one case, as the table of cases has it.
const FEW: usize = 4;

/// Whether a row for each configuration would repeat the table of cases.
fn repeats_cases(operation: &Operation) -> bool {
    let configurations = operation.configurations.iter().filter(|own| !own.points.is_empty());
    configurations.clone().count() > FEW && configurations.clone().all(|own| own.points.len() == 1)
}

pub(crate) fn summary(operations: &[Operation]) -> Vec<Block> {
    use Align::{Left, Right};
    let mut table = Table::new([
        ("op", Left),
        ("backend", Left),
        ("ranks", Right),
        ("variant", Left),
        ("smallest time", Right),
        ("peak busbw GB/s", Right),
        ("at", Right),
        ("latency floor", Right),
        ("90% of peak from", Right),
        ("best % of limit", Right),
        ("cases", Right),
        ("caveats", Left),
    ]);
    table.tell_apart(["{}", "{} ranks", "{}"].map(str::to_owned).to_vec());
    for operation in operations.iter().filter(|operation| !repeats_cases(operation)) {
        for configuration in operation.configurations.iter().filter(|c| !c.points.is_empty()) {
            table.row(summed(operation, configuration));
        }
    }
    // A single case stands in its own table.
    if table.is_empty() || operations.iter().flat_map(|o| &o.configurations).map(|c| c.cases.len()).sum::<usize>() < 2 {
        return Vec::new();
    }
    let has_floor = operations.iter().flat_map(|o| &o.configurations).any(|c| facts::floor(c).is_some());
    let table = table.without_empty(
        NONE,
        &["variant", "latency floor", "peak busbw GB/s", "at", "90% of peak from", "best % of limit"],
    );
    let table = table.without_empty("", &["caveats"]);
    // Each section says the only backend.
    let table = table.without(|at, cells| at == 1 && cells.iter().all(|cell| *cell == cells[0]));
    let note = format!(
        "A latency floor is the median time of the smallest sizes where time does not depend on bytes (within a \
         factor of 1.25 while bytes grow at least fourfold). `{NONE}`: the data do not show it."
    );
    let note = has_floor.then(|| Block::Paragraph(Words::prose(&note)));
    std::iter::once(Block::Table(table)).chain(note).collect()
}

fn summed(operation: &Operation, configuration: &Configuration) -> [String; 12] {
    let of = |text: Option<String>| text.unwrap_or_else(|| NONE.to_owned());
    let smallest = configuration.points.iter().map(|point| point.time.mid).min_by(f64::total_cmp);
    let peak = facts::peak(configuration);
    let saturation = facts::saturation(configuration).map(|saturation| match saturation {
        Saturation::From(size) => bytes(size),
        Saturation::AtSmallest(size) => format!("≤ {}", bytes(size)),
        Saturation::StillRising(_) => "still rising".to_owned(),
    });
    let share = configuration.points.iter().filter_map(|point| point.limit_share).max_by(f64::total_cmp);
    [
        operation.name.clone(),
        or_none(&configuration.backend),
        configuration.ranks.to_string(),
        or_none(&configuration.variant),
        of(smallest.map(seconds)),
        of(peak.as_ref().map(|(_, busbw, _)| three_digits(busbw.mid))),
        of(peak.as_ref().map(|(size, _, _)| bytes(*size))),
        of(facts::floor(configuration).map(|floor| seconds(floor.seconds))),
        of(saturation),
        of(share.map(|share| facts::shares([share, share]))),
        configuration.points.len().to_string(),
        if configuration.oversubscribed() { Wording::default().words(Caveat::Oversubscribed) } else { String::new() },
    ]
}

fn or_none(text: &str) -> String {
    if text.is_empty() { NONE } else { text }.to_owned()
}
