//! The matrix of slowdowns, and the sentence that follows from it.

use std::collections::BTreeMap;

use ::view::number::{count, factor};
use ::view::study::{Estimate, Measured, Operation};
use ::view::{Axis, ChartSpec, Finding, Matrix, NamedChart, Quantity, Scale, Shades, View, plain};
use record::{CaseLine, Caveat};
use terms::Named;

use super::declared::SLOWDOWN;
use super::fields::{Activity, Beside, all_own};
use super::relations::{activity, beside};

/// See the module's documentation.
pub(super) struct InterferenceView;

/// A pair: what is timed, and what runs beside it.
type ActivityPair = (Activity, Activity);

/// A pair's slowdown, of the sizes where it is largest.
#[derive(Clone, Copy)]
struct PairCell<'a> {
    slowdown: Estimate,
    case: &'a CaseLine,
}

/// The pairs of cases that have everything in common but the pair and its sizes.
struct PairFamily<'a> {
    /// `2 ranks over shm`.
    among: String,
    /// Everything else, for below a title.
    rest: String,
    cells: Vec<(ActivityPair, PairCell<'a>)>,
}

impl PairFamily<'_> {
    fn cell(&self, key: ActivityPair) -> Option<PairCell<'_>> {
        self.cells.iter().find(|(own, _)| *own == key).map(|(_, cell)| *cell)
    }

    /// The pair that slows most; where there are intervals, of those that lie above 1.
    fn worst(&self) -> Option<(ActivityPair, PairCell<'_>)> {
        let has_intervals = self.cells.iter().any(|(_, cell)| cell.slowdown.known);
        let counts = |cell: &PairCell| if has_intervals { cell.slowdown.exceeds(1.0) } else { cell.slowdown.mid > 1.0 };
        let counted = self.cells.iter().filter(|(_, cell)| counts(cell));
        counted.max_by(|a, b| a.1.slowdown.mid.total_cmp(&b.1.slowdown.mid)).map(|(key, cell)| (*key, *cell))
    }
}

fn families<'a>(section: &'a Operation<'a>) -> Vec<PairFamily<'a>> {
    let mut found: BTreeMap<(String, String), PairFamily> = BTreeMap::new();
    for case in section.points().map(|point: &Measured| point.case) {
        let pair = activity(case).zip(beside(case).and_then(Beside::activity));
        let (Some(key), Some(slowdown)) = (pair, SLOWDOWN.of(case)) else { continue };
        let slowdown = Estimate::new(slowdown.value, slowdown.ci95);
        let among = format!("{} over {}", count(case.ranks as usize, "rank", "ranks"), case.backend);
        let own =
            |name: &str| ["activity", "beside", "ranks", "backend"].contains(&name) || all_own().any(|own| own == name);
        let rest = case.parameters.iter().filter(|(name, _)| !own(name));
        let rest = rest.map(|(name, value)| format!("{name} {}", plain(value))).collect::<Vec<_>>().join(", ");
        let family = found.entry((among.clone(), rest.clone()));
        let family = family.or_insert_with(|| PairFamily { among, rest, cells: Vec::new() });
        let cell = PairCell { slowdown, case };
        match family.cells.iter_mut().find(|(own, _)| *own == key) {
            Some((_, known)) if known.slowdown.mid < slowdown.mid => *known = cell,
            Some(_) => {}
            None => family.cells.push((key, cell)),
        }
    }
    found.into_values().collect()
}

/// `1.80x as long while a collective runs (1.60x to 2.00x)`.
fn said((_, other): ActivityPair, cell: &PairCell) -> String {
    format!("{} as long while {} runs{}", factor(cell.slowdown.mid), other.words(), cell.slowdown.range(factor))
}

/// What can be done about a pair.
fn advice((own, other): ActivityPair, case: &CaseLine) -> &'static str {
    let moves = |of: Activity| matches!(of, Activity::Collective | Activity::Second | Activity::HostCopy);
    match () {
        () if case.caveats.contains(&Caveat::Oversubscribed) => {
            "More threads run than there are cores: fewer ranks or threads leave a core to the other activity."
        }
        () if moves(own) && moves(other) => "Both move memory: they gain from running one after the other.",
        () if [own, other].contains(&Activity::StorageRead) => {
            "Reads take memory bandwidth, too: read ahead, or less at a time."
        }
        () => "They share caches and memory bandwidth: smaller pieces at a time, or cores that are further apart.",
    }
}

/// Said where nothing is slower: of pairs with intervals, and of pairs without.
const NONE_IS_SLOWER: &str = "no activity is slower with another by its whole interval";
const NONE_AT_A_LOOK: &str = "no activity is slower with another, as far as a first look can tell";

fn sentence(section: &str, family: &PairFamily) -> Option<String> {
    let pairs = family.cells.len();
    let largest = family.cells.iter().max_by(|a, b| a.1.slowdown.mid.total_cmp(&b.1.slowdown.mid))?;
    let Some((key, worst)) = family.worst() else {
        let ((own, _), cell) = largest;
        let all = if cell.slowdown.known { NONE_IS_SLOWER } else { NONE_AT_A_LOOK };
        return Some(format!(
            "{section}: {}: {all}; the largest of {}: {} takes {}.",
            family.among,
            count(pairs, "pair", "pairs"),
            own.words(),
            said(largest.0, cell)
        ));
    };
    let (own, other) = key;
    let reverse = family.cell((other, own));
    let reverse =
        reverse.map_or_else(String::new, |cell| format!("; {} takes {}", other.words(), said((other, own), &cell)));
    let without = if worst.slowdown.known { "" } else { " Without intervals: a first look." };
    Some(format!(
        "{section}: {}: {} takes {}{reverse}.{without} {}",
        family.among,
        own.words(),
        said(key, &worst),
        advice(key, worst.case)
    ))
}

/// How many pairs are slower, and how many are certainly not by much.
fn overview(section: &str, family: &PairFamily) -> Option<String> {
    let known: Vec<&PairCell> = family.cells.iter().map(|(_, cell)| cell).filter(|cell| cell.slowdown.known).collect();
    let slower = known.iter().filter(|cell| cell.slowdown.exceeds(1.0)).count();
    let same = known.iter().filter(|cell| cell.slowdown.is_below(1.05)).count();
    (known.len() > 2).then(|| {
        format!(
            "{section}: {}: {slower} of {} pairs are slower with their whole interval; {same} are slower by less than 5%.",
            family.among,
            known.len()
        )
    })
}

fn heatmap(section: &Operation, family: &PairFamily) -> Option<NamedChart> {
    if family.cells.len() < 2 {
        return None;
    }
    let of = |row: Activity, column: Activity| family.cell((row, column)).map(|cell| cell.slowdown);
    let has = |row: &Activity| family.cells.iter().any(|((own, _), _)| own == row);
    let rows: Vec<Activity> = Activity::EACH.into_iter().filter(has).collect();
    let has = |column: &Activity| family.cells.iter().any(|((_, other), _)| other == column);
    let columns: Vec<Activity> = Activity::EACH.into_iter().filter(has).collect();
    let mut grey = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        // Where an interval holds 1, a slowdown shows nothing.
        let unshown = |slowdown: Estimate| slowdown.known && !slowdown.exceeds(1.0) && !slowdown.is_below(1.0);
        let unshown = columns.iter().enumerate().filter(|(_, column)| of(*row, **column).is_some_and(unshown));
        grey.extend(unshown.map(|(column, _)| [at, column]));
    }
    let value = |row: &Activity, column: &Activity| of(*row, *column).map_or(f64::NAN, |slowdown| slowdown.mid);
    let names = |all: &[Activity]| all.iter().map(|activity| activity.name().to_owned()).collect();
    let axis = |title: &str| Axis { title: title.to_owned(), quantity: Quantity::Count, scale: Scale::Steps };
    let spec = ChartSpec {
        title: format!("{}: time with another activity / time alone", section.name),
        subtitle: format!("{}, {}", family.among, family.rest),
        note: "Above 1: slower with the other. Grey where the interval contains 1.".to_owned(),
        x: axis("runs with it"),
        y: axis("is timed"),
        matrix: Some(Matrix {
            rows: names(&rows),
            columns: names(&columns),
            values: rows.iter().map(|row| columns.iter().map(|column| value(row, column)).collect()).collect(),
            quantity: Quantity::Number,
            shades: Shades::Around { centre: 1.0, higher_is_better: false, grey },
        }),
        ..ChartSpec::default()
    };
    Some(NamedChart { stem: section.stem.and("slowdown").and(family.among.as_str()), spec })
}

impl View for InterferenceView {
    fn charts(&self, section: &Operation) -> Vec<NamedChart> {
        families(section).iter().filter_map(|family| heatmap(section, family)).collect()
    }

    fn findings(&self, section: &Operation) -> Option<Vec<Finding>> {
        let families = families(section);
        let name = &section.name;
        let of = |family: &PairFamily| [sentence(name, family), overview(name, family)];
        Some(families.iter().flat_map(of).flatten().map(Finding::new).collect())
    }
}

#[cfg(test)]
mod tests {
    use record::Declared;

    use super::super::about::ABOUT;
    use super::super::relations::tests::line;
    use super::*;

    /// A pair with this slowdown.
    fn pair(activity: &str, beside: &str, (value, ci95): (f64, Option<[f64; 2]>)) -> CaseLine {
        let mut line = line(activity, beside, &[], &[1e-3; 6]);
        SLOWDOWN.put(&mut line.metrics, record::found::Slowdown { value, ci95 });
        line
    }

    fn findings(lines: &[CaseLine]) -> Vec<String> {
        let declared = [Declared::of(&ABOUT)];
        let found = InterferenceView.findings(&::view::study::operations(lines, &declared)[0]).unwrap();
        found.into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn the_worst_pair_is_named_with_its_reverse_and_what_to_do() {
        let mut lines = vec![
            pair("product", "collective", (1.8, Some([1.6, 2.0]))),
            pair("collective", "product", (1.1, Some([1.02, 1.2]))),
            // Larger, and nothing that its interval shows.
            pair("product", "storage_read", (2.5, Some([0.7, 4.0]))),
        ];
        let found = findings(&lines);
        assert_eq!(
            found[0],
            "interference: 2 ranks over shm: a product takes 1.80x as long while a collective runs (1.60x to 2.00x); a \
             collective takes 1.10x as long while a product runs (1.02x to 1.20x). They share caches and memory bandwidth: \
             smaller pieces at a time, or cores that are further apart."
        );
        assert!(found[1].ends_with("2 of 3 pairs are slower with their whole interval; 0 are slower by less than 5%."));
        lines[0].caveats.push(Caveat::Oversubscribed);
        assert!(findings(&lines)[0].ends_with("leave a core to the other activity."));
    }

    #[test]
    fn what_is_not_slower_is_not_called_slower() {
        let found = findings(&[
            pair("product", "collective", (1.02, Some([0.98, 1.04]))),
            pair("collective", "product", (0.99, Some([0.97, 1.01]))),
        ]);
        let expected = "no activity is slower with another by its whole interval; the largest of 2 pairs: a product takes \
                        1.02x as long while a collective runs (0.980x to 1.04x).";
        assert!(found[0].ends_with(expected), "{found:?}");
    }

    #[test]
    fn a_first_look_says_that_it_has_no_intervals() {
        let found = findings(&[pair("host_copy", "second", (1.5, None))]);
        let expected = "a copy in memory takes 1.50x as long while a second collective runs. Without intervals: a first look. \
                        Both move memory: they gain from running one after the other.";
        assert!(found.len() == 1 && found[0].ends_with(expected), "{found:?}");
    }

    #[test]
    fn the_matrix_has_a_cell_for_each_pair_and_colours_around_one() {
        let lines = [
            pair("product", "collective", (1.8, Some([1.6, 2.0]))),
            pair("collective", "product", (1.1, Some([0.9, 1.2]))),
            pair("collective", "host_copy", (1.3, Some([1.2, 1.4]))),
        ];
        let declared = [Declared::of(&ABOUT)];
        let sections = ::view::study::operations(&lines, &declared);
        let charts = InterferenceView.charts(&sections[0]);
        assert_eq!(charts.len(), 1);
        assert_eq!(charts[0].stem.as_str(), "interference-slowdown-2-ranks-over-shm");
        let matrix = charts[0].spec.matrix.as_ref().unwrap();
        assert_eq!(
            (matrix.rows.join(" "), matrix.columns.join(" ")),
            ("product collective".to_owned(), "product collective host_copy".to_owned())
        );
        let cells: Vec<String> = matrix.values.concat().iter().map(f64::to_string).collect();
        assert_eq!(cells, ["NaN", "1.8", "NaN", "1.1", "NaN", "1.3"]);
        let shades = Shades::Around { centre: 1.0, higher_is_better: false, grey: vec![[1, 0]] };
        assert_eq!(matrix.shades, shades, "grey where the interval holds 1");
        let shares = matrix.shares();
        assert!(shares[0][1] > shares[1][2] && shares[1][2] > 0.0 && shares[1][0] == 0.0, "{shares:?}");
    }

    #[test]
    fn ranks_of_other_numbers_have_a_matrix_of_their_own() {
        let of = |ranks: &str, activity: &str, beside: &str| {
            let mut line = line(activity, beside, &[("ranks", ranks)], &[1e-3; 6]);
            SLOWDOWN.put(&mut line.metrics, record::found::Slowdown { value: 1.5, ci95: None });
            line
        };
        let pairs = [("product", "collective"), ("collective", "product")];
        let lines: Vec<CaseLine> =
            ["2", "4"].iter().flat_map(|ranks| pairs.map(|(own, other)| of(ranks, own, other))).collect();
        let declared = [Declared::of(&ABOUT)];
        let sections = ::view::study::operations(&lines, &declared);
        let stems: Vec<String> =
            InterferenceView.charts(&sections[0]).into_iter().map(|chart| chart.stem.to_string()).collect();
        assert_eq!(stems, ["interference-slowdown-2-ranks-over-shm", "interference-slowdown-4-ranks-over-shm"]);
    }
}
