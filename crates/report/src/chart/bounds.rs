//! How much one picture shows: beyond, lines hide each other and drawing takes minutes. What is left out is said.

use view::ChartSpec;

use std::borrow::Cow;

use crate::number::{count, thousands};

/// Points of a line: more than two pixels of the plot have no place of their own.
const POINTS: usize = 400;

/// The chart as far as it is drawn, and what is left out of it.
pub(super) fn bounded(spec: &ChartSpec, lines: usize) -> (Cow<'_, ChartSpec>, Option<String>) {
    let longest = spec.series.iter().map(|series| series.points.len());
    let longest = longest.chain(spec.references.iter().map(|line| line.points.len())).max().unwrap_or(0);
    let (series, references) = (spec.series.len() + spec.left_out, spec.references.len());
    if series <= lines && references <= lines && longest <= POINTS {
        return (Cow::Borrowed(spec), None);
    }
    let mut drawn = spec.clone();
    drawn.series.truncate(lines);
    let shown = |style: Option<usize>| style.is_none_or(|style| drawn.series.iter().any(|one| one.style == style));
    drawn.references.retain(|line| shown(line.style));
    drawn.references.truncate(lines);
    drawn.series.iter_mut().for_each(|one| thin(&mut one.points));
    drawn.references.iter_mut().for_each(|line| thin(&mut line.points));
    let mut parts = Vec::new();
    if series > lines {
        parts.push(format!("the first {lines} of {}", count(series, "series", "series")));
    }
    if references > drawn.references.len() {
        parts.push(format!("{} of {}", drawn.references.len(), count(references, "limit", "limits")));
    }
    if longest > POINTS {
        parts.push(format!("{POINTS} of up to {} points per line", thousands(longest as i64)));
    }
    let left_out = format!("Drawn: {}. All values are in cases.csv.", parts.join(", "));
    (Cow::Owned(drawn), Some(left_out))
}

/// Keeps points at equal distances in their order, the first and the last among them.
fn thin<P: Clone>(points: &mut Vec<P>) {
    let last = points.len().saturating_sub(1);
    if last >= POINTS {
        *points = (0..POINTS).map(|index| points[index * last / (POINTS - 1)].clone()).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::draw::{Page, draw};
    use crate::chart::{Axis, Point, Quantity, Reference, Scale, Series};

    const LINES: usize = 40;

    fn chart(series: usize, points: usize) -> ChartSpec {
        let axis = || Axis { title: String::new(), quantity: Quantity::Count, scale: Scale::Linear };
        let point = |x: usize| Point { x: x as f64, y: 1.0, low: 1.0, high: 1.0, oversubscribed: false };
        let one = |style| Series { label: format!("s{style}"), style, points: (0..points).map(point).collect() };
        let limit =
            |style| Reference { label: String::new(), style: Some(style), points: vec![[0.0, 1.0], [1.0, 1.0]] };
        ChartSpec {
            title: String::new(),
            subtitle: String::new(),
            banner: None,
            note: String::new(),
            x: axis(),
            y: axis(),
            series: (0..series).map(one).collect(),
            references: (0..series).map(limit).collect(),
            ..ChartSpec::default()
        }
    }

    #[test]
    fn what_fits_is_drawn_as_it_is() {
        let spec = chart(LINES, POINTS);
        let (drawn, left_out) = bounded(&spec, LINES);
        assert_eq!((&*drawn, left_out), (&spec, None));
    }

    #[test]
    fn what_is_left_out_is_said() {
        let spec = chart(1_234, 1_001);
        let (drawn, left_out) = bounded(&spec, LINES);
        assert_eq!((drawn.series.len(), drawn.references.len()), (LINES, LINES));
        let points = &drawn.series[0].points;
        assert_eq!((points.len(), points[0].x, points[POINTS - 1].x), (POINTS, 0.0, 1_000.0));
        assert!(points.is_sorted_by(|a, b| a.x < b.x));
        let said = left_out.unwrap();
        let expected = "Drawn: the first 40 of 1,234 series, 40 of 1,234 limits, 400 of up to 1,001 points per line. \
                        All values are in cases.csv.";
        assert_eq!(said, expected);
        let of_more = bounded(&ChartSpec { left_out: 98_766, ..chart(1_234, 2) }, LINES).1.unwrap();
        assert!(of_more.starts_with("Drawn: the first 40 of 100,000 series"), "{of_more}");
        let texts: Vec<String> = draw(&spec, &Page::WHOLE).texts().into_iter().map(|(text, _)| text).collect();
        assert!(texts.contains(&said), "the picture says it, too: {texts:?}");
    }
}
