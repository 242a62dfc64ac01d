//! Charts of the page: each as an SVG that stands there without a script, and its values for the script.

use std::fmt::Write as _;

use view::{NamedChart, Quantity, Scale};

use super::json;
use crate::chart::{self, ChartSpec};
use crate::escape::{one_line, xml};

/// Significant digits of a value: more than a picture shows.
const DIGITS: usize = 4;
/// Of what stands across: sizes are exact.
const EXACT: usize = 15;

fn escape(text: &str) -> String {
    xml(&one_line(text))
}

/// The figures of a section, and an entry for the script for each.
pub(super) fn figures(charts: &[NamedChart], prefix: &str, data: &mut Vec<String>) -> String {
    if charts.is_empty() {
        return String::new();
    }
    let figures: String = charts.iter().map(|chart| figure(chart, prefix, data)).collect();
    format!("<div class=\"charts\">{figures}</div>")
}

fn figure(chart: &NamedChart, prefix: &str, data: &mut Vec<String>) -> String {
    let (spec, left_out) = chart::bounded(&chart.spec);
    let id = format!("{prefix}{}", chart.stem);
    let mut out = format!("<figure id=\"{id}\" data-chart=\"{}\"><figcaption>", data.len());
    let _ = write!(out, "<h4>{}</h4>", escape(&spec.title));
    if !spec.subtitle.is_empty() {
        let _ = write!(out, "<p>{}</p>", escape(&spec.subtitle));
    }
    if let Some(banner) = &spec.banner {
        let _ = write!(out, "<p class=\"warn\">{}</p>", escape(banner));
    }
    let _ = write!(out, "</figcaption><div class=\"plot\">{}</div>", chart::inline(&chart.spec));
    let note = [Some(spec.note.clone()), chart::matrix_key(&spec), left_out];
    let note: Vec<String> = note.into_iter().flatten().filter(|text| !text.is_empty()).collect();
    if !note.is_empty() {
        let _ = write!(out, "<p class=\"note\">{}</p>", escape(&note.join(" ")));
    }
    data.push(values(&spec));
    out + "</figure>"
}

fn values(spec: &ChartSpec) -> String {
    let axis = |axis: &view::Axis| {
        let (quantity, scale) = (quantity(axis.quantity), scale(axis.scale));
        json::array([json::line(&axis.title), json::text(quantity), json::text(scale)])
    };
    let pairs = |pairs: &[[f64; 2]]| {
        json::array(pairs.iter().map(|[x, y]| json::array([json::number(*x, EXACT), json::number(*y, DIGITS)])))
    };
    let style = |style: Option<usize>| style.map_or("-1".to_owned(), |style| style.to_string());
    let series = spec.series.iter().map(|one| {
        let points = json::array(one.points.iter().map(point));
        json::array([json::line(&one.label), one.style.to_string(), points])
    });
    let references =
        spec.references.iter().map(|one| json::array([json::line(&one.label), style(one.style), pairs(&one.points)]));
    let stacks =
        spec.stacks.iter().map(|one| json::array([json::line(&one.label), one.style.to_string(), pairs(&one.bars)]));
    let marks = spec
        .marks
        .iter()
        .map(|one| json::array([json::line(&one.label), u8::from(one.limit).to_string(), pairs(&one.points)]));
    let mut members = vec![("t", json::line(&spec.title)), ("x", axis(&spec.x)), ("y", axis(&spec.y))];
    members.push(("s", json::array(series)));
    members.push(("r", json::array(references)));
    members.push(("b", json::array(stacks)));
    members.push(("m", json::array(marks)));
    members.push(("d", u8::from(spec.scattered).to_string()));
    if let Some(matrix) = &spec.matrix {
        let texts = |texts: &[String]| json::array(texts.iter().map(|text| json::line(text)));
        let row = |row: &Vec<f64>| json::array(row.iter().map(|value| json::number(*value, DIGITS)));
        let parts = [texts(&matrix.rows), texts(&matrix.columns), json::array(matrix.values.iter().map(row))];
        let unit = json::text(quantity(matrix.quantity));
        members.push(("c", json::array(parts.into_iter().chain([unit]))));
    }
    json::object(&members)
}

/// `[x, y]`, then the ends of its interval where it has one, then whether ranks outnumber cores.
fn point(point: &view::Point) -> String {
    let mut parts = vec![json::number(point.x, EXACT), json::number(point.y, DIGITS)];
    if point.low < point.y || point.high > point.y || point.oversubscribed {
        parts.extend([json::number(point.low, DIGITS), json::number(point.high, DIGITS)]);
    }
    if point.oversubscribed {
        parts.push("1".to_owned());
    }
    json::array(parts)
}

const fn quantity(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Bytes => "bytes",
        Quantity::Seconds => "seconds",
        Quantity::Bandwidth | Quantity::Number => "number",
        Quantity::Count => "count",
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
