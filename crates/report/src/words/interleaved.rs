//! The section of a record that was measured interleaved: what each side is, and how each case compares.

use record::{ComparedCase, Side};
use serde_json::Value;

use crate::Run;
use crate::document::{Align, Block, Item, Table, code};
use crate::number::{NONE, bytes, percent, seconds};

/// What was compared and what came of it; empty for any other record.
pub(crate) fn blocks(run: &Run) -> Vec<Block> {
    let Some(interleaved) = &run.interleaved else { return Vec::new() };
    let [a, b] = interleaved.sides.each_ref().map(side);
    let mut table = Table::new([
        ("case", Align::Left),
        ("A", Align::Right),
        ("B", Align::Right),
        ("B/A", Align::Right),
        ("95%", Align::Right),
        ("pairs", Align::Right),
        ("smallest change", Align::Right),
        ("verdict", Align::Left),
    ]);
    interleaved.cases.iter().for_each(|case| table.row(row(case)));
    let rule = format!(
        "A change within {} is none. The intervals of all {} and of every look hold together with 95%.",
        terms::Ratio(interleaved.threshold),
        crate::number::count(interleaved.cases.len(), "case", "cases"),
    );
    let rows = match table.is_empty() {
        true => Block::Paragraph("The comparison ended before it was judged.".into()),
        false => Block::Table(table),
    };
    let sides = [format!("Side A: {a}"), format!("Side B: {b}")].map(Item::from).to_vec();
    vec![Block::List(sides), Block::Paragraph(rule.into()), rows]
}

fn side(side: &Side) -> String {
    let mut text = code(&side.plan);
    if !side.set.is_empty() {
        text += &format!(" with {}", side.set.iter().map(|set| code(set)).collect::<Vec<_>>().join(", "));
    }
    if let Some(program) = &side.program {
        text += &format!(", ranks of {} ({})", code(program), side.version.as_deref().unwrap_or(NONE));
    }
    text
}

fn row(case: &ComparedCase) -> [String; 8] {
    let time = |side: usize| case.time_s.map_or(NONE.to_owned(), |times| seconds(times[side]));
    let verdict = if case.status == terms::Status::Ok { case.verdict.clone() } else { case.status.to_string() };
    [
        label(case),
        time(0),
        time(1),
        case.ratio.map_or(NONE.to_owned(), |ratio| format!("{ratio:.3}")),
        case.ratio_ci95.map_or(NONE.to_owned(), |[low, high]| format!("{low:.3} to {high:.3}")),
        case.log_ratios.len().to_string(),
        case.smallest_change.map_or(NONE.to_owned(), percent),
        verdict,
    ]
}

/// Operation or model, size, ranks; then what differs between the sides.
fn label(case: &ComparedCase) -> String {
    let first = case.parameters.values().next().and_then(Value::as_str).unwrap_or(&case.benchmark);
    let size =
        case.parameters.get("bytes").and_then(Value::as_u64).map_or(String::new(), |size| format!(" {}", bytes(size)));
    let ranks =
        case.parameters.get("ranks").and_then(Value::as_u64).map_or(String::new(), |ranks| format!(" x {ranks}"));
    let plain = |value: &Value| if value.is_null() { NONE.to_owned() } else { view::plain(value) };
    let differs = case.differs.iter().filter_map(|(name, both)| {
        let both = both.as_array()?;
        Some(format!("{name} {} and {}", plain(both.first()?), plain(both.get(1)?)))
    });
    let differs: Vec<String> = differs.collect();
    let differs = if differs.is_empty() { String::new() } else { format!(" ({})", differs.join(", ")) };
    format!("{first}{size}{ranks}{differs}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::markdown;
    use record::Interleaved;

    #[test]
    fn names_of_plans_are_escaped_and_other_records_have_no_section() {
        assert!(blocks(&Run::default()).is_empty());
        let parameters = serde_json::from_str(r#"{"op": "all_reduce", "ranks": 2, "bytes": 1024}"#).unwrap();
        let differs = serde_json::from_str(r#"{"env": [null, "A=<b>"]}"#).unwrap();
        let case = ComparedCase {
            benchmark: "collective".to_owned(),
            parameters,
            differs,
            ids: ["a".to_owned(), "b".to_owned()],
            status: terms::Status::Ok,
            reason: None,
            time_s: Some([1e-6, 1.1e-6]),
            log_ratios: vec![0.1; 6],
            ratio: Some(1.1),
            ratio_ci95: Some([1.05, 1.15]),
            smallest_change: Some(0.04),
            looks: vec![6],
            verdict: "worse".to_owned(),
        };
        let sides = [Side { plan: "<script>.yaml".to_owned(), ..Side::default() }, Side::default()];
        let interleaved = Interleaved { sides, threshold: 0.03, cases: vec![case], ..Interleaved::default() };
        let shown = markdown::text(&blocks(&Run { interleaved: Some(interleaved), ..Run::default() }));
        assert!(shown.contains("1.100") && shown.contains("1.050 to 1.150") && shown.contains("worse"), "{shown}");
        assert!(!shown.contains("A=<b>"), "{shown}");
    }
}
