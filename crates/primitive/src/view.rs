//! Whether overlap pays: from which size on, and by how much. A heatmap over sizes.

use std::collections::{BTreeMap, BTreeSet};

use ::view::study::{Estimate, Measured, Operation};
use ::view::{
    Axis, ChartSpec, Finding, Matrix, NamedChart, Next, Point as Mark, Quantity, Scale, Series, Shades, View,
};
use record::show::{Chart, ChartKind, Format};
use record::{CaseLine, Caveat};
use serde_json::Value;

use super::crossover::{Point, SizeLine, most, sentence};
use super::declared::{OVERLAP, Overlap, VARIANT};
use super::relations::{implementation, order};

/// See the module's documentation.
pub(super) struct PrimitiveView;

/// The best implementation that overlaps, at one size of one order.
struct Best<'a> {
    case: &'a CaseLine,
    speedup: Estimate,
    /// Time of the communication over that of the product, where both were measured alone.
    ratio: Option<f64>,
    worth: bool,
}

impl Best<'_> {
    /// On a line along which the size of this name varies.
    fn point(&self, along: &str) -> Point {
        Point { at: size(self.case, along), speedup: self.speedup, ratio: self.ratio, worth: self.worth }
    }
}

fn size(case: &CaseLine, name: &str) -> u64 {
    case.parameters.get(name).and_then(Value::as_u64).unwrap_or(0)
}

/// A parameter with its value, in a unit where it has one.
fn said(name: &str, value: &str) -> String {
    match (name, value.parse::<f64>()) {
        ("pace_bandwidth", Ok(rate)) => format!("a link of {}", ::view::number::bandwidth(rate / 1e9)),
        ("pace_latency", Ok(time)) => format!("a latency of {}", ::view::number::seconds(time)),
        _ => format!("{name} {value}"),
    }
}

/// What the cases of a table of sizes have in common: order, and all parameters but sizes and implementation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Family {
    order: String,
    rest: Vec<(String, String)>,
}

impl Family {
    fn from_case(case: &CaseLine) -> Self {
        let kept = |name: &str| !["m", "n", "implementation"].contains(&name);
        let rest = case.parameters.iter().filter(|(name, _)| kept(name));
        let rest = rest.map(|(name, value)| (name.to_owned(), ::view::plain(value))).collect();
        Self { order: order(case).to_owned(), rest }
    }

    /// What the cases have in common, for below a title.
    fn words(&self) -> String {
        self.rest.iter().map(|(name, value)| said(name, value)).collect::<Vec<_>>().join(", ")
    }

    /// The order of the family, and what distinguishes it from others of the section.
    fn subject(&self, others: &[&Self]) -> String {
        let distinct = self.rest.iter().filter(|pair| others.iter().any(|other| !other.rest.contains(pair)));
        let distinct = distinct.map(|(name, value)| said(name, value));
        std::iter::once(self.order.clone()).chain(distinct).collect::<Vec<_>>().join(", ")
    }
}

type Grid<'a> = BTreeMap<(u64, u64), Best<'a>>;

/// The best by rows and columns, for each family.
fn grids<'a>(section: &'a Operation<'a>) -> BTreeMap<Family, Grid<'a>> {
    let mut grids: BTreeMap<Family, Grid> = BTreeMap::new();
    for case in section.points().map(|point: &Measured| point.case) {
        let Some(Overlap { speedup: Some(speedup), speedup_ci95, ratio, worth, .. }) = OVERLAP.of(case) else {
            continue;
        };
        // Where the ratio was not measured, the case is judged all the same.
        let (speedup, worth) = (Estimate::new(speedup, speedup_ci95), worth.unwrap_or(true));
        let best = Best { case, speedup, ratio, worth };
        let grid = grids.entry(Family::from_case(case)).or_default();
        match grid.get(&(size(case, "m"), size(case, "n"))) {
            Some(known) if known.speedup.mid >= best.speedup.mid => {}
            _ => drop(grid.insert((size(case, "m"), size(case, "n")), best)),
        }
    }
    grids
}

/// What is fixed and what varies, by name, and the lines: along the columns where these differ, else along the rows.
fn lines(grid: &Grid) -> (&'static str, &'static str, Vec<SizeLine>) {
    let rows: BTreeSet<u64> = grid.keys().map(|(m, _)| *m).collect();
    let columns: BTreeSet<u64> = grid.keys().map(|(_, n)| *n).collect();
    let (fixed, along, all) = if columns.len() > 1 || rows.len() == 1 { ("m", "n", rows) } else { ("n", "m", columns) };
    let points = |of: u64| grid.values().filter(move |best| size(best.case, fixed) == of);
    let line = |of: u64| SizeLine { fixed: of, points: points(of).map(|best| best.point(along)).collect() };
    (fixed, along, all.into_iter().map(line).collect())
}

/// What a family's sizes say, and whether anything was there to overlap.
fn crossover(subject: &str, grid: &Grid) -> Option<(String, bool)> {
    let (fixed, along, lines) = lines(grid);
    let (text, worth) = sentence(subject, fixed, along, &lines)?;
    let judged = grid.iter().filter(|(_, best)| best.worth);
    let best = judged.max_by(|(_, a), (_, b)| a.speedup.mid.total_cmp(&b.speedup.mid));
    let most =
        best.map_or_else(String::new, |((m, n), best)| most(implementation(best.case), *m, *n, &best.point(along)));
    Some((text + &most, worth))
}

/// Comparisons that are of more than implementations, in one sentence for each condition.
fn unequal(section: &Operation) -> Vec<Finding> {
    let mut found: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for case in section.points().map(|point: &Measured| point.case) {
        for name in OVERLAP.of(case).into_iter().flat_map(|overlap| overlap.audit.differ) {
            found.entry(name).or_default().insert(implementation(case));
        }
    }
    let text = |(name, ways): (String, BTreeSet<&str>)| {
        let ways = ways.into_iter().collect::<Vec<_>>().join(", ");
        format!(
            "{}: {ways} and their baselines, or their ranks, differ in {name}, so their times do not show the effect \
             of overlap alone.",
            section.name
        )
    };
    found.into_iter().map(text).map(Finding::new).collect()
}

fn heatmap(section: &Operation, family: &Family, grid: &Grid) -> Option<NamedChart> {
    let rows: Vec<u64> = grid.keys().map(|(m, _)| *m).collect::<BTreeSet<_>>().into_iter().collect();
    let columns: Vec<u64> = grid.keys().map(|(_, n)| *n).collect::<BTreeSet<_>>().into_iter().collect();
    if rows.len() < 2 && columns.len() < 2 {
        return None;
    }
    let value = |m: &u64, n: &u64| grid.get(&(*m, *n)).map_or(f64::NAN, |best| best.speedup.mid);
    // Where an interval holds 1, or nothing was there to overlap, a speedup shows nothing.
    let shows = |best: &Best| best.worth && (best.speedup.exceeds(1.0) || best.speedup.is_below(1.0));
    let places = |of: (usize, &u64)| {
        let (row, m) = (of.0, *of.1);
        let unshown = |n: &u64| grid.get(&(m, *n)).is_some_and(|best| !shows(best));
        let places = columns.iter().enumerate().filter(|(_, n)| unshown(n)).map(|(column, _)| [row, column]);
        places.collect::<Vec<_>>()
    };
    let grey = rows.iter().enumerate().flat_map(places).collect();
    let axis = |title: &str| Axis { title: title.to_owned(), quantity: Quantity::Count, scale: Scale::Steps };
    let spec = ChartSpec {
        title: format!("{} {}: speedup of the best overlap over sequential", section.name, family.order),
        subtitle: family.words(),
        note:
            "Above 1, overlap is faster. Also grey: the interval contains 1, or communication is too short to matter."
                .to_owned(),
        x: axis("columns (n)"),
        y: axis("rows (m)"),
        matrix: Some(Matrix {
            rows: rows.iter().map(u64::to_string).collect(),
            columns: columns.iter().map(u64::to_string).collect(),
            values: rows.iter().map(|m| columns.iter().map(|n| value(m, n)).collect()).collect(),
            quantity: Quantity::Number,
            shades: Shades::Around { centre: 1.0, higher_is_better: true, grey },
        }),
        ..ChartSpec::default()
    };
    Some(NamedChart { stem: section.stem.and("speedup").and(family.order.as_str()), spec })
}

/// The points of each implementation.
type ImplementationLines<'s> = BTreeMap<String, Vec<(Mark, &'s Measured<'s>)>>;

/// Times against columns, of one order and number of rows: a line for each implementation.
fn times(section: &Operation) -> Vec<NamedChart> {
    let mut groups: BTreeMap<(Family, u64), ImplementationLines> = BTreeMap::new();
    let mut names: BTreeSet<String> = BTreeSet::new();
    for measured in section.points() {
        let case = measured.case;
        let name = VARIANT.of(case).unwrap_or_default();
        names.insert(name.clone());
        let Estimate { mid, low, high, .. } = measured.time;
        let oversubscribed = measured.has(Caveat::Oversubscribed);
        let point = Mark { x: size(case, "n") as f64, y: mid, low, high, oversubscribed };
        groups
            .entry((Family::from_case(case), size(case, "m")))
            .or_default()
            .entry(name)
            .or_default()
            .push((point, measured));
    }
    // An implementation has the same colour in all charts of the section.
    let style = |label: &String| names.iter().position(|name| name == label).unwrap_or_default();
    let chart = |((family, m), lines): ((Family, u64), ImplementationLines)| {
        let measured: Vec<&Measured> = lines.values().flatten().map(|(_, measured)| *measured).collect();
        let note = ::view::note_of_points(measured.iter().copied(), false);
        let series = |(label, points): (String, Vec<(Mark, &Measured)>)| {
            let mut points: Vec<Mark> = points.into_iter().map(|(point, _)| point).collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            Series { style: style(&label), label, points }
        };
        let series: Vec<Series> = lines.into_iter().map(series).collect();
        // Fewer points are read from the table.
        if series.iter().all(|series| series.points.len() < 3) {
            return None;
        }
        let axis = |title: &str, quantity, scale| Axis { title: title.to_owned(), quantity, scale };
        let spec = ChartSpec {
            title: format!("{} {}, m = {m}: time vs columns", section.name, family.order),
            subtitle: family.words(),
            note: note.to_owned(),
            x: axis("columns (n)", Quantity::Count, Scale::Steps),
            y: axis("time of one call", Quantity::Seconds, Scale::Log),
            series,
            ..ChartSpec::default()
        };
        Some(NamedChart { stem: section.stem.and("time").and(family.order.as_str()).and(m), spec })
    };
    groups.into_iter().filter_map(chart).collect()
}

/// A bar for each implementation, where all have one size: the picture of the example that DDLB prints.
fn implementations(section: &Operation) -> Option<NamedChart> {
    let chart = Chart {
        stem: "implementations".to_owned(),
        title: "time by implementation".to_owned(),
        kind: ChartKind::Bars,
        y: "time_s.median".to_owned(),
        y_title: "time".to_owned(),
        y_format: Format::Seconds,
        ..Chart::default()
    };
    ::view::bar_chart(section, &chart)
}

impl View for PrimitiveView {
    fn charts(&self, section: &Operation) -> Vec<NamedChart> {
        let mut charts = times(section);
        charts.extend(grids(section).iter().filter_map(|(family, grid)| heatmap(section, family, grid)));
        if charts.is_empty() && section.points().nth(1).is_some() {
            charts.extend(implementations(section));
        }
        charts
    }

    fn findings(&self, section: &Operation) -> Option<Vec<Finding>> {
        let grids = grids(section);
        let families: Vec<&Family> = grids.keys().collect();
        let crossovers = grids.iter().filter_map(|(family, grid)| crossover(&family.subject(&families), grid));
        // Those with something to overlap come first.
        let (worth, nothing): (Vec<_>, Vec<_>) = crossovers.partition(|(_, worth)| *worth);
        let crossovers =
            worth.into_iter().chain(nothing).map(|(text, _)| Finding::new(format!("{} {text}", section.name)));
        Some(crossovers.chain(unequal(section)).collect())
    }

    fn next(&self, section: &Operation, _ready: &[&str]) -> Option<Next> {
        let cases: Vec<&CaseLine> = section.points().map(|point| point.case).collect();
        let sizes: BTreeSet<u64> = cases.iter().map(|case| size(case, "n")).collect();
        let first = cases.first()?;
        // PyTorch's ranks take no pace, and links of GPUs none.
        let is_paced = ["pace_bandwidth", "runtime"].iter().any(|name| first.parameters.contains_key(name));
        let own = !is_paced && first.device != contract::fields::CUDA;
        if sizes.len() < 2 && section.name != "cp_ring" {
            return Some(Next::changing("n", "16,64,256,1024", "from which size overlap pays"));
        }
        // Without a thread of its own the link waits for the rank.
        let mut slower = Next::changing("pace_bandwidth", "250MB/s", "whether overlap pays on a slower link");
        slower.changes.push(("progress_thread".to_owned(), "true".to_owned()));
        own.then_some(slower)
    }
}

#[cfg(test)]
mod tests {
    use record::{Declared, TimeSummary};
    use serde_json::json;
    use terms::Status;

    use super::*;
    use crate::about::ABOUT;

    /// A line of `fused` with this type, sizes, speedup and ratio.
    fn case((dtype, m, n, speedup, ratio): &(&str, u64, u64, f64, f64)) -> CaseLine {
        let fields = [
            ("primitive", "tp_rowwise".to_owned()),
            ("m", m.to_string()),
            ("n", n.to_string()),
            ("k", "512".to_owned()),
            ("dtype", (*dtype).to_owned()),
            ("ranks", "2".to_owned()),
            ("implementation", "fused".to_owned()),
        ];
        let fields: Vec<(String, String)> = fields.map(|(name, value)| (name.to_owned(), value)).into();
        let case = record::plan::from_flags(&ABOUT, &fields, &[]).unwrap().cases.remove(0);
        let mut line = CaseLine {
            time_s: Some(TimeSummary { median: 1e-3, ..TimeSummary::default() }),
            wrong: Some(0),
            ..CaseLine::unmeasured(&case, Status::Ok, "")
        };
        line.metrics.insert("order".to_owned(), "RS_after".into());
        let worth = (0.3..=3.0).contains(ratio);
        let ends = [speedup - 0.1, speedup + 0.1];
        let audit = json!({"same": [], "differ": if *speedup == 3.0 { vec!["threads"] } else { Vec::new() }});
        let overlap = json!({"speedup": speedup, "speedup_ci95": ends, "ratio": ratio, "worth": worth, "audit": audit});
        line.metrics.insert("overlap".to_owned(), overlap);
        line
    }

    fn section<T>(cases: &[(&str, u64, u64, f64, f64)], look: impl FnOnce(&Operation) -> T) -> T {
        let lines: Vec<CaseLine> = cases.iter().map(case).collect();
        let declared = [Declared::of(&ABOUT)];
        look(&::view::study::operations(&lines, &declared)[0])
    }

    fn findings(cases: &[(&str, u64, u64, f64, f64)]) -> Vec<String> {
        let found = section(cases, |section| PrimitiveView.findings(section));
        found.unwrap_or_default().into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn what_pays_comes_first_and_each_family_says_what_tells_it_apart() {
        let found = findings(&[
            ("f32", 4096, 32, 1.0, 0.02),
            ("f32", 4096, 512, 1.0, 0.01),
            ("f64", 4096, 8, 2.29, 0.445),
            ("f64", 4096, 512, 1.0, 0.012),
        ]);
        assert_eq!(
            found,
            [
                "tp_rowwise RS_after, dtype f64: with m = 4096 overlap pays at n = 8. Elsewhere there is little to overlap: \
                 communication takes 1.2% of the time of the product. The largest speedup is 2.29x (2.19x to 2.39x) \
                 with fused at m = 4096, n = 8, where communication takes 44% of the time of the product.",
                "tp_rowwise RS_after, dtype f32: with m = 4096 there is little to overlap. Communication takes 1.0% to \
                 2.0% of the time of the product.",
            ]
        );
    }

    #[test]
    fn a_link_that_was_slowed_down_has_its_unit() {
        assert_eq!(said("pace_bandwidth", "200000000"), "a link of 0.200 GB/s");
        assert_eq!(said("pace_latency", "5e-5"), "a latency of 50.0 us");
        assert_eq!(said("dtype", "f32"), "dtype f32");
    }

    #[test]
    fn comparisons_of_more_than_implementations_are_told() {
        let found = findings(&[("f32", 64, 8, 3.0, 1.0), ("f32", 64, 16, 1.5, 1.0)]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[1].starts_with("tp_rowwise: fused and their baselines"), "{found:?}");
        assert!(found[1].contains("differ in threads"), "{found:?}");
    }

    #[test]
    fn a_heatmap_has_rows_and_columns_as_measured() {
        let cases = [("f32", 64, 8, 1.5, 1.0), ("f32", 64, 16, 1.2, 1.0), ("f32", 128, 16, 0.8, 1.0)];
        let charts = section(&cases, |section| PrimitiveView.charts(section));
        let map = charts.iter().find(|chart| chart.stem.as_str().contains("-speedup-")).unwrap();
        let matrix = map.spec.matrix.as_ref().unwrap();
        assert_eq!(
            (&matrix.rows[..], &matrix.columns[..]),
            (&["64".to_owned(), "128".to_owned()][..], &["8".to_owned(), "16".to_owned()][..])
        );
        assert_eq!((matrix.values[0][0], matrix.values[0][1], matrix.values[1][1]), (1.5, 1.2, 0.8));
        assert!(matrix.values[1][0].is_nan(), "not measured");
        assert!(section(&cases[..1], |section| PrimitiveView.charts(section)).is_empty(), "one size makes no map");
    }
}
