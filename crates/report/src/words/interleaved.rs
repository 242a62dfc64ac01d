//! The section of a record that was measured interleaved: what each side is, and how each case compares.

use record::{Case, ComparedCase, Side};
use serde_json::Value;
use terms::Status;

use crate::Run;
use crate::document::{Align, Block, Item, Table, Words, code};
use crate::number::{NONE, bytes, count, factor, percent, ratio, seconds};

/// The words of verdicts, the one that matters most first.
const WORDS: [&str; 4] = ["worse", "cannot tell", "better", "same"];
/// Changes that a page lists above the table; of more, the table has them.
const LISTED: usize = 3;
/// From this ratio on, a change is a factor: nobody reads 29,100%.
const TIMES: f64 = 3.0;
/// A printed ratio differs from that of the times by at least this before anything is said of it.
const APART: f64 = 0.01;

/// A verdict as the first word of a sentence.
pub(crate) fn title_of(verdict: &str) -> String {
    let mut letters = verdict.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().collect::<String>() + letters.as_str())
}

/// The verdict on all cases, the one that matters most, and what it follows from; None of any other record, or before it was
/// judged.
pub(crate) fn verdict(run: &Run) -> Option<(&'static str, String)> {
    let interleaved = run.interleaved.as_ref().filter(|interleaved| !interleaved.cases.is_empty())?;
    let word = WORDS.into_iter().find(|word| count_verdict(run, word) > 0)?;
    Some((word, counted(&interleaved.cases, interleaved.threshold)))
}

/// Cases of an interleaved comparison that have this verdict.
pub(crate) fn count_verdict(run: &Run, verdict: &str) -> usize {
    let cases = run.interleaved.iter().flat_map(|interleaved| &interleaved.cases);
    cases.filter(|case| case.status == Status::Ok && case.verdict == verdict).count()
}

/// `B compared with A: worse in 1, the same within 3% in 2 of 3 cases`.
fn counted(cases: &[ComparedCase], threshold: f64) -> String {
    let of = |word: &str| cases.iter().filter(|case| case.status == Status::Ok && case.verdict == word).count();
    let counted = [
        (of("worse"), "worse".to_owned()),
        (of("better"), "better".to_owned()),
        (of("same"), format!("the same within {}", terms::Ratio(threshold))),
        (of("cannot tell"), "not decided".to_owned()),
        (cases.iter().filter(|case| case.status != Status::Ok).count(), "without a result".to_owned()),
    ];
    let counted: Vec<String> = counted
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| match cases.len() {
            1 => word,
            all if all == count => format!("{word} in all {count} cases"),
            _ => format!("{word} in {count}"),
        })
        .collect();
    let of_all = if counted.len() > 1 { format!(" of {} cases", cases.len()) } else { String::new() };
    format!("B compared with A: {}{of_all}", counted.join(", "))
}

/// A label for each case: operation, size and ranks, and the parameters in which cases of such a label differ.
pub(crate) fn compared_labels(cases: &[&Case]) -> Vec<String> {
    let shorts: Vec<String> = cases.iter().map(|case| case.label()).collect();
    let label = |(case, short): (&&Case, &String)| {
        let twins: Vec<&Case> =
            shorts.iter().zip(cases).filter(|(other, _)| *other == short).map(|(_, twin)| *twin).collect();
        let own = case.parameters.iter();
        let differing = own.filter(|(name, value)| twins.iter().any(|twin| twin.parameters.get(name) != Some(value)));
        let more: Vec<String> = differing.map(|(name, value)| format!(", {name}={}", view::plain(value))).collect();
        format!("{short}{}", more.concat())
    };
    cases.iter().zip(&shorts).map(label).collect()
}

/// What an interleaved comparison says in words, the verdict first. `labels` name its cases.
pub(crate) fn compared_sentences(cases: &[ComparedCase], labels: &[String], threshold: f64) -> Vec<String> {
    let of = |word: &str| -> Vec<usize> {
        let is = |at: &usize| cases[*at].status == Status::Ok && cases[*at].verdict == word;
        (0..cases.len()).filter(is).collect()
    };
    let (worse, better, same, unknown) = (of("worse"), of("better"), of("same"), of("cannot tell"));
    let mut sentences = vec![format!("{}.", counted(cases, threshold))];
    sentences.extend(worse.iter().chain(&better).map(|at| change(&cases[*at], &labels[*at])));
    let smallest: Vec<f64> = unknown.iter().chain(&same).filter_map(|at| cases[*at].smallest_change).collect();
    if let (Some(low), Some(high)) =
        (smallest.iter().copied().reduce(f64::min), smallest.iter().copied().reduce(f64::max))
    {
        let range = match (percent(low), percent(high)) {
            (low, high) if low == high => low,
            (low, high) => format!("{low} to {high}"),
        };
        sentences.push(format!("Smallest change that such a comparison finds in 80% of tries: {range}."));
    }
    if !unknown.is_empty() {
        sentences.push("Run longer (`--max-seconds`) or on a quieter machine to decide the rest.".to_owned());
    }
    sentences
}

fn change(case: &ComparedCase, label: &str) -> String {
    let (Some(ratio), Some([low, high])) = (case.ratio, case.ratio_ci95) else { return label.to_owned() };
    let pairs = count(case.log_ratios.len(), "pair", "pairs");
    if ratio >= TIMES {
        let [ratio, low, high] = [ratio, low, high].map(factor);
        return format!("{label}: B takes {ratio} as long ({low} to {high}, {pairs}).");
    }
    let part = |ratio: f64| percent((ratio - 1.0).abs());
    let (word, ends) = if ratio > 1.0 { ("longer", [low, high]) } else { ("less", [high, low]) };
    format!("{label}: B takes {} {word} ({} to {}, {pairs}).", part(ratio), part(ends[0]), part(ends[1]))
}

/// What was compared and what came of it, case by case, the one that matters most first; empty for any other record.
pub(crate) fn blocks(run: &Run) -> Vec<Block> {
    let Some(interleaved) = &run.interleaved else { return Vec::new() };
    let [a, b] = interleaved.sides.each_ref().map(side);
    let sides = [format!("Side A: {a}"), format!("Side B: {b}")].map(Item::from).to_vec();
    let mut blocks = vec![Block::List(sides)];
    if interleaved.cases.is_empty() {
        blocks.push(Block::Paragraph("The comparison ended before it had a verdict.".into()));
        return blocks;
    }
    let mut table = Table::new([
        ("case", Align::Left),
        ("A", Align::Right),
        ("B", Align::Right),
        ("B/A of pairs", Align::Right),
        ("95%", Align::Right),
        ("verdict", Align::Left),
        ("pairs", Align::Right),
        ("smallest change", Align::Right),
    ]);
    let cases = ordered(&interleaved.cases);
    // What all of them differ in stands in the sides.
    let alike = cases.iter().all(|case| case.differs == cases[0].differs);
    let label = |case: &ComparedCase| label(case, alike);
    cases.iter().for_each(|case| table.row(row(case, label(case))));
    blocks.push(Block::Table(table));
    blocks.extend(contradiction(&cases, &label));
    let cases: Vec<ComparedCase> = cases.into_iter().cloned().collect();
    let labels: Vec<String> = cases.iter().map(label).collect();
    // The first is the verdict, which stands above; each change stands in the table, too.
    let said = compared_sentences(&cases, &labels, interleaved.threshold);
    let (changes, others): (Vec<&String>, Vec<&String>) =
        said.iter().skip(1).partition(|sentence| sentence.contains(": B takes "));
    let said = changes.into_iter().take(LISTED).chain(others);
    blocks.push(Block::List(said.map(|sentence| Words::prose(sentence).into()).collect()));
    let rule = format!(
        "A change within {} counts as none. With 95% confidence, the intervals of all {} hold, whenever the comparison \
         ends.",
        terms::Ratio(interleaved.threshold),
        count(cases.len(), "case", "cases"),
    );
    blocks.push(Block::Paragraph(rule.into()));
    blocks.retain(|block| !matches!(block, Block::List(items) if items.is_empty()));
    blocks
}

/// The cases by their verdict, the largest change first.
fn ordered(cases: &[ComparedCase]) -> Vec<&ComparedCase> {
    let mut cases: Vec<&ComparedCase> = cases.iter().collect();
    let place = |case: &ComparedCase| match case.status {
        Status::Ok => ["worse", "better", "cannot tell", "same"].iter().position(|word| *word == case.verdict),
        _ => Some(0),
    };
    let size = |case: &ComparedCase| case.ratio.map_or(0.0, |ratio| ratio.ln().abs());
    cases.sort_by(|a, b| place(a).cmp(&place(b)).then(size(b).total_cmp(&size(a))));
    cases
}

/// Why a ratio is not that of the two times beside it, where a reader would stumble over it.
fn contradiction(cases: &[&ComparedCase], label: &dyn Fn(&ComparedCase) -> String) -> Option<Block> {
    let contradicts = |case: &&&ComparedCase| {
        let (Some(ratio), Some([a, b]), Some([low, high])) = (case.ratio, case.time_s, case.ratio_ci95) else {
            return false;
        };
        let times = b / a;
        let apart = (times / ratio - 1.0).abs() > APART;
        apart && (times < low || times > high || (times - 1.0) * (ratio - 1.0) < 0.0)
    };
    let labels: Vec<String> = cases.iter().filter(contradicts).map(|case| label(case)).collect();
    let (first, more) = (labels.first()?, labels.len() - 1);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let note = format!(
        "{first}{more}: the two times do not give this ratio. The ratio is the median over pairs of the same round, \
         but each time is the median over all rounds. If the machine's speed changes between rounds, trust the ratio."
    );
    Some(Block::Paragraph(note.into()))
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

fn row(case: &ComparedCase, label: String) -> [String; 8] {
    let time = |side: usize| case.time_s.map_or(NONE.to_owned(), |times| seconds(times[side]));
    let verdict = if case.status == terms::Status::Ok { case.verdict.clone() } else { case.status.to_string() };
    [
        label,
        time(0),
        time(1),
        case.ratio.map_or(NONE.to_owned(), ratio),
        case.ratio_ci95.map_or(NONE.to_owned(), |[low, high]| format!("{} to {}", ratio(low), ratio(high))),
        verdict,
        case.log_ratios.len().to_string(),
        case.smallest_change.map_or(NONE.to_owned(), percent),
    ]
}

/// Operation or model, size, ranks; then what differs between the sides, unless all cases differ in the same.
fn label(case: &ComparedCase, alike: bool) -> String {
    let first = case.parameters.values().next().and_then(Value::as_str).unwrap_or(&case.benchmark);
    let size =
        case.parameters.get("bytes").and_then(Value::as_u64).map_or(String::new(), |size| format!(" {}", bytes(size)));
    let ranks = case.parameters.get("ranks").and_then(Value::as_u64).map_or(String::new(), |ranks| {
        let number = usize::try_from(ranks).unwrap_or(usize::MAX);
        format!(", {}", count(number, "rank", "ranks"))
    });
    let plain = |value: &Value| if value.is_null() { NONE.to_owned() } else { view::plain(value) };
    let differs = case.differs.iter().filter_map(|(name, both)| {
        let both = both.as_array()?;
        Some(format!("{name} {} and {}", plain(both.first()?), plain(both.get(1)?)))
    });
    let differs: Vec<String> = differs.collect();
    let differs = if alike || differs.is_empty() { String::new() } else { format!(" ({})", differs.join(", ")) };
    format!("{first}{size}{ranks}{differs}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::markdown;
    use record::Interleaved;

    #[test]
    fn cases_of_one_label_are_told_apart_by_what_differs() {
        let text = "experiment: t\ncases:\n- {benchmark: collective, ranks: 2, bytes: [1KiB, 2KiB], dtype: [f32, f64]}";
        let plan = record::plan::read(text, "t.yaml", &benchmarks::abouts(), &[]).unwrap();
        let labels = compared_labels(&plan.cases.iter().collect::<Vec<_>>());
        assert_eq!(labels.len(), 4);
        assert!(labels.contains(&"all_reduce 1 KiB, 2 ranks, dtype=f64".to_owned()), "{labels:?}");
    }

    fn case(verdict: &str, ratio: f64) -> ComparedCase {
        ComparedCase {
            benchmark: "collective".to_owned(),
            parameters: serde_json::Map::new(),
            differs: serde_json::Map::new(),
            ids: [String::new(), String::new()],
            status: Status::Ok,
            reason: None,
            time_s: None,
            log_ratios: vec![ratio.ln(); 6],
            ratio: Some(ratio),
            ratio_ci95: Some([ratio / 1.02, ratio * 1.02]),
            smallest_change: Some(0.041),
            looks: vec![6],
            verdict: verdict.to_owned(),
        }
    }

    #[test]
    fn the_summary_says_which_side_takes_longer() {
        let labels = ["one", "two", "three"].map(str::to_owned);
        let cases = [case("worse", 1.1), case("better", 0.8), case("same", 1.0)];
        let sentences = compared_sentences(&cases, &labels, 0.03);
        assert_eq!(sentences[0], "B compared with A: worse in 1, better in 1, the same within 3% in 1 of 3 cases.");
        assert_eq!(sentences[1], "one: B takes 10% longer (7.8% to 12%, 6 pairs).");
        assert!(sentences[2].starts_with("two: B takes 20% less (18% to 22%"), "{}", sentences[2]);
        assert!(sentences[3].ends_with("80% of tries: 4.1%."), "{}", sentences[3]);
        assert_eq!(sentences.len(), 4, "nothing is undecided");
    }

    #[test]
    fn names_of_plans_are_escaped_and_other_records_have_no_section() {
        assert!(blocks(&Run::default()).is_empty());
        let parameters = serde_json::from_str(r#"{"op": "all_reduce", "ranks": 2, "bytes": 1024}"#).unwrap();
        let differs = serde_json::from_str(r#"{"env": [null, "A=<b>"]}"#).unwrap();
        let time_s = Some([1e-6, 1.1e-6]);
        let case = ComparedCase { parameters, differs, time_s, ratio_ci95: Some([1.05, 1.15]), ..case("worse", 1.1) };
        let sides = [Side { plan: "<script>.yaml".to_owned(), ..Side::default() }, Side::default()];
        let interleaved = Interleaved { sides, threshold: 0.03, cases: vec![case], ..Interleaved::default() };
        let shown = markdown::text(&blocks(&Run { interleaved: Some(interleaved), ..Run::default() })).into_string();
        assert!(shown.contains("1.100") && shown.contains("1.050 to 1.150") && shown.contains("worse"), "{shown}");
        assert!(!shown.contains("A=<b>"), "{shown}");
    }
}
