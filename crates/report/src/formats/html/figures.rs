//! Charts of the page: each as an SVG that stands there without a script, and its values for the script.

use view::{Lane, Lanes, NamedChart, Quantity, Scale, Span, SpanKind};

use super::json;
use crate::chart::{self, ChartSpec};
use crate::document::html::prose;
use crate::escape::one_line;
use crate::markup::{Html, Json, Literal, html};

/// Significant digits of a value: more than a picture shows.
const DIGITS: usize = 4;
/// Significant digits of what stands across: sizes are exact.
const EXACT: usize = 15;
/// Significant digits of the time of a span: a nanosecond of a second.
const TIMES: usize = 9;

/// The figures of a section, and an entry for the script for each.
pub(super) fn figures(charts: &[NamedChart], prefix: &str, data: &mut Vec<Json>) -> Html {
    if charts.is_empty() {
        return Html::new();
    }
    let figures: Html = charts.iter().map(|chart| figure(chart, prefix, data)).collect();
    html!("<div class=\"charts\">{}</div>", figures)
}

fn figure(chart: &NamedChart, prefix: &str, data: &mut Vec<Json>) -> Html {
    let (spec, left_out) = chart::bounded(&chart.spec);
    let class = Literal(if spec.lanes.is_some() { " class=\"whole\"" } else { "" });
    let mut out = html!(
        "<figure id=\"{}{}\"{} data-chart=\"{}\"><figcaption><h4>{}</h4>",
        prefix,
        chart.stem,
        class,
        data.len(),
        one_line(&spec.title)
    );
    if !spec.subtitle.is_empty() {
        html!(out => "<p>{}</p>", prose(&spec.subtitle));
    }
    if let Some(banner) = &spec.banner {
        html!(out => "<p class=\"warn\">{}</p>", prose(banner));
    }
    html!(out => "</figcaption><div class=\"plot\">{}</div>", chart::inline(&chart.spec));
    let note = [chart::matrix_key(&spec), Some(spec.note.clone()), left_out];
    let note: Vec<String> = note.into_iter().flatten().filter(|text| !text.is_empty()).collect();
    if !note.is_empty() {
        html!(out => "<p class=\"note\">{}</p>", prose(&note.join(" ")));
    }
    data.push(values(&spec));
    out.literal("</figure>");
    out
}

fn values(spec: &ChartSpec) -> Json {
    let axis = |axis: &view::Axis| {
        let (quantity, scale) = (quantity(axis.quantity), scale(axis.scale));
        json::array([json::line(&axis.title), json::text(quantity), json::text(scale)])
    };
    let pairs = |pairs: &[[f64; 2]]| {
        json::array(pairs.iter().map(|[x, y]| json::array([json::rounded(*x, EXACT), json::rounded(*y, DIGITS)])))
    };
    let style = |style: Option<usize>| style.map_or_else(|| Literal("-1").into(), place);
    let series = spec.series.iter().map(|one| {
        let points = json::array(one.points.iter().map(point));
        json::array([json::line(&one.label), place(one.style), points])
    });
    let references =
        spec.references.iter().map(|one| json::array([json::line(&one.label), style(one.style), pairs(&one.points)]));
    let stacks =
        spec.stacks.iter().map(|one| json::array([json::line(&one.label), place(one.style), pairs(&one.bars)]));
    let marks =
        spec.marks.iter().map(|one| json::array([json::line(&one.label), json::flag(one.limit), pairs(&one.points)]));
    let mut members = vec![("t", json::line(&spec.title)), ("x", axis(&spec.x)), ("y", axis(&spec.y))];
    members.push(("s", json::array(series)));
    members.push(("r", json::array(references)));
    members.push(("b", json::array(stacks)));
    members.push(("m", json::array(marks)));
    members.push(("d", json::flag(spec.scattered)));
    if !spec.names.is_empty() {
        members.push(("n", json::array(spec.names.iter().map(|name| json::line(name)))));
    }
    members.extend(spec.lanes.as_ref().map(|of| ("l", lanes(of))));
    members.extend(spec.waterfall.as_ref().map(|_| ("w", terms(spec))));
    if let Some(matrix) = &spec.matrix {
        let texts = |texts: &[String]| json::array(texts.iter().map(|text| json::line(text)));
        let row = |row: &Vec<f64>| json::array(row.iter().map(|value| json::rounded(*value, DIGITS)));
        let parts = [texts(&matrix.rows), texts(&matrix.columns), json::array(matrix.values.iter().map(row))];
        let unit = json::text(quantity(matrix.quantity));
        let shares = matrix.shares();
        let share = |row: &Vec<f64>| json::array(row.iter().map(|share| json::rounded(*share, 2)));
        let shares = json::array(shares.iter().map(share));
        members.push(("c", json::array(parts.into_iter().chain([unit, shares]))));
    }
    json::object(members)
}

/// Label, colour and whether it is a stall of each kind; label and spans of each row, three numbers a span; the ends of
/// the axis.
fn lanes(lanes: &Lanes) -> Json {
    let kind = |kind: &SpanKind| json::array([json::line(&kind.label), place(kind.style), json::flag(kind.stall)]);
    let span = |span: &Span| [json::rounded(span.begin, TIMES), json::rounded(span.end, TIMES), place(span.kind)];
    let row = |row: &Lane| json::array([json::line(&row.label), json::array(row.spans.iter().flat_map(span))]);
    let ends = chart::time_range(&lanes.rows).map(|end| json::rounded(end, EXACT));
    let parts = [json::array(lanes.kinds.iter().map(kind)), json::array(lanes.rows.iter().map(row)), json::array(ends)];
    json::array(parts)
}

/// Label, colour, begin, end and value of each row, the value as the picture has it.
fn terms(spec: &ChartSpec) -> Json {
    let bars = chart::waterfall_bars(spec).into_iter().map(|bar| {
        let ends = [bar.begin, bar.end].map(|end| json::rounded(end, EXACT));
        json::array([json::line(&bar.label), place(bar.style)].into_iter().chain(ends).chain([json::line(&bar.value)]))
    });
    json::array(bars)
}

/// `[x, y]`, then the ends of its interval where it has one, then whether ranks outnumber cores.
fn point(point: &view::Point) -> Json {
    let mut parts = vec![json::rounded(point.x, EXACT), json::rounded(point.y, DIGITS)];
    if point.low < point.y || point.high > point.y || point.oversubscribed {
        parts.extend([json::rounded(point.low, DIGITS), json::rounded(point.high, DIGITS)]);
    }
    if point.oversubscribed {
        parts.push(json::flag(true));
    }
    json::array(parts)
}

/// A place in a list, such as that of a colour.
fn place(at: usize) -> Json {
    json::whole(at as u64)
}

const fn quantity(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Bytes => "bytes",
        Quantity::Seconds => "seconds",
        Quantity::Bandwidth | Quantity::Number => "number",
        Quantity::Count => "count",
        Quantity::Share => "share",
    }
}

const fn scale(scale: Scale) -> &'static str {
    match scale {
        Scale::Log => "log",
        Scale::FromZero => "zero",
        Scale::Linear => "linear",
        Scale::Steps => "steps",
    }
}
