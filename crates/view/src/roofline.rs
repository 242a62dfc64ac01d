//! The roofline of a section: its cases below the ceilings of the machine, for every benchmark with the metric `roofline`.

use record::CaseLine;
use record::found::{ROOFLINE, Roofline};
use serde_json::Value;

use crate::charts::NamedChart;
use crate::number::{EXCEEDED, bytes, count, percent};
use crate::study::{Estimate, Measured, Operation};
use crate::{Axis, ChartSpec, Point, Quantity, Reference, Scale, Series};

/// Roofs that are drawn each; of more, the lowest and the highest.
const ROOFS: usize = 4;
/// What can be the bound: in words, and as records say it.
const KINDS: [(&str, &str); 3] = [("memory", "memory"), ("computation", "compute"), ("communication", "communication")];
/// How far lines reach beyond the points, as a factor.
const BEYOND: f64 = 4.0;

/// A case, or a part of one, below its roof.
struct Placed<'a> {
    case: &'a CaseLine,
    label: String,
    intensity: f64,
    rate: Estimate,
    memory_gbs: f64,
    peak_gflops: f64,
}

/// A number that a chart with logarithmic axes can show.
fn usable(number: Option<f64>) -> Option<f64> {
    number.filter(|number| number.is_finite() && *number > 0.0)
}

fn placed<'a>(measured: &Measured<'a>) -> Vec<Placed<'a>> {
    let (case, time) = (measured.case, measured.time);
    let Some(whole) = ROOFLINE.of(case) else { return Vec::new() };
    let one = |label: String, of: &Roofline, known: bool| {
        let mid = usable(of.gflops)?;
        let ends = known.then(|| [mid * time.mid / time.high, mid * time.mid / time.low]);
        Some(Placed {
            case,
            label,
            intensity: usable(of.intensity)?,
            rate: Estimate::new(mid, ends),
            memory_gbs: usable(of.memory_gbs)?,
            peak_gflops: usable(of.peak_gflops)?,
        })
    };
    // The interval of a part's time is not known.
    let parts = whole.parts().filter_map(|(name, part)| one(format!("{}, {name}", name_of(case)), &part, false));
    one(name_of(case), &whole, time.known).into_iter().chain(parts).collect()
}

/// The chart, where cases have a place in it.
pub fn chart(section: &Operation) -> Option<NamedChart> {
    let points: Vec<Placed> = section.points().flat_map(placed).collect();
    let at = |pick: fn(f64, f64) -> f64, from: f64| points.iter().map(|point| point.intensity).fold(from, pick);
    let ridge = |point: &Placed| point.peak_gflops / point.memory_gbs;
    let (mut left, mut right) = (at(f64::min, f64::INFINITY), at(f64::max, 0.0));
    for point in &points {
        (left, right) = (left.min(ridge(point)), right.max(ridge(point)));
    }
    if points.is_empty() {
        return None;
    }
    let axis = |title: &str| Axis { title: title.to_owned(), quantity: Quantity::Number, scale: Scale::Log };
    let spec = ChartSpec {
        title: format!("{}: roofline", section.name),
        subtitle: section.constants.clone(),
        note: "Lines: what the machine reached in its own tests. Left of the corner memory is the limit, right of it \
               computation."
            .to_owned(),
        x: axis("operations per byte of memory traffic"),
        y: axis("GFLOP/s"),
        series: series(&points),
        references: roofs(&points, left / BEYOND, right * BEYOND),
        scattered: true,
        ..ChartSpec::default()
    };
    Some(NamedChart { stem: section.stem.and("roofline"), spec })
}

/// A series for each name of a case.
fn series(points: &[Placed]) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    for placed in points {
        let label = placed.label.clone();
        let Estimate { mid, low, high, .. } = placed.rate;
        let oversubscribed = placed.case.caveats.contains(&record::Caveat::Oversubscribed);
        let point = Point { x: placed.intensity, y: mid, low, high, oversubscribed };
        match series.iter_mut().find(|series| series.label == label) {
            Some(known) => known.points.push(point),
            None => series.push(Series { label, style: series.len(), points: vec![point] }),
        }
    }
    series.iter_mut().for_each(|series| series.points.sort_by(|a, b| a.x.total_cmp(&b.x)));
    series
}

/// What a case is called: its implementation where it has one, else its element type.
fn name_of(case: &CaseLine) -> String {
    let word = |name: &str| case.metrics.get(name).or(case.parameters.get(name)).and_then(Value::as_str);
    let found = word("variant").or(word("strategy")).or(word("dtype"));
    found.map_or_else(|| case.benchmark.clone(), str::to_owned)
}

/// The sizes that tell a case from others, as its parameters write them: whole numbers that are neither ranks, threads nor
/// seed, and differ.
fn sizes(case: &CaseLine, all: &[(&CaseLine, Roofline)]) -> String {
    const OTHERS: [&str; 3] = ["ranks", "threads", "seed"];
    let differs = |name: &str, value: &Value| all.iter().any(|(other, _)| other.parameters.get(name) != Some(value));
    let own =
        case.parameters.iter().filter(|(name, value)| value.is_u64() && !OTHERS.contains(name) && differs(name, value));
    let text = |(name, value): (&str, &Value)| match value.as_u64() {
        Some(size) if name == "bytes" => bytes(size),
        _ => format!("{name} {value}"),
    };
    own.map(text).collect::<Vec<_>>().join(", ")
}

/// What bounds the parts of the cases, phases of a step for instance: those that are bound alike in all cases.
fn parts(all: &[(&CaseLine, Roofline)]) -> String {
    let mut bounds: Vec<(String, Vec<String>)> = Vec::new();
    let all: Vec<&Roofline> = all.iter().map(|(_, whole)| whole).filter(|whole| !whole.parts.is_empty()).collect();
    for (name, Roofline { bound: word, .. }) in all.first().into_iter().flat_map(|first| first.parts()) {
        if all.iter().any(|other| other.part(name).is_none_or(|part| part.bound != word)) {
            continue;
        }
        match bounds.iter_mut().find(|(known, _)| *known == word) {
            Some((_, names)) => names.push(name.to_owned()),
            None => bounds.push((word, vec![name.to_owned()])),
        }
    }
    let text = |(word, names): (String, Vec<String>)| {
        let word = KINDS.iter().find(|(_, known)| *known == word).map_or(word.as_str(), |(name, _)| name);
        format!("{} by {word}", names.join(" and "))
    };
    let clauses: Vec<String> = bounds.into_iter().map(text).collect();
    if clauses.is_empty() { String::new() } else { format!(" Its parts are bound: {}.", clauses.join(", ")) }
}

/// The different roofs, from the left end to the right.
fn roofs(points: &[Placed], left: f64, right: f64) -> Vec<Reference> {
    let mut known: Vec<[f64; 2]> = Vec::new();
    for point in points {
        let near = |a: f64, b: f64| (a / b).ln().abs() < 0.2;
        let roof = [point.memory_gbs, point.peak_gflops];
        if !known.iter().any(|other| near(other[0], roof[0]) && near(other[1], roof[1])) {
            known.push(roof);
        }
    }
    known.sort_by(|a, b| a[0].total_cmp(&b[0]).then(a[1].total_cmp(&b[1])));
    if known.len() > ROOFS {
        known = vec![known[0], known[known.len() - 1]];
    }
    let line = |[memory, peak]: &[f64; 2]| {
        let [corner, memory, peak] = [peak / memory, *memory, *peak];
        Reference {
            label: format!(
                "{} GB/s, {} GFLOP/s",
                crate::number::three_digits(memory),
                crate::number::three_digits(peak)
            ),
            style: None,
            points: vec![[left, memory * left], [corner, peak], [right.max(corner), peak]],
        }
    };
    known.iter().map(line).collect()
}

/// What bounds the cases, and how near the best comes.
pub fn sentence(section: &Operation) -> Option<String> {
    let all: Vec<(&CaseLine, Roofline)> =
        section.points().filter_map(|point| Some((point.case, ROOFLINE.of(point.case)?))).collect();
    let number = |word: &str| all.iter().filter(|(_, whole)| whole.bound == word).count();
    let bound_counts: Vec<(&str, usize)> =
        KINDS.into_iter().map(|(name, word)| (name, number(word))).filter(|(_, number)| *number > 0).collect();
    let shares = all.iter().filter_map(|(case, whole)| Some((*case, usable(whole.share)?)));
    let (best, reached) = shares.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let bounds = match bound_counts.as_slice() {
        [(name, _)] => format!("{name} limits each case"),
        several => {
            let part = |(name, number): &(&str, usize)| format!("{name} limits {}", count(*number, "case", "cases"));
            several.iter().map(part).collect::<Vec<_>>().join(", ")
        }
    };
    let label =
        [name_of(best), sizes(best, &all)].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
    let section = &section.name;
    let reaches = match reached {
        above if above > EXCEEDED => "is faster than its ceiling, which was measured too low".to_owned(),
        share => {
            let most = if all.len() > 1 { ", the most" } else { "" };
            format!("reaches {} of its ceiling{most}", percent(share.min(1.0)))
        }
    };
    Some(format!("{section}: {bounds}; {label} {reaches}.{}", parts(&all)))
}

#[cfg(test)]
mod tests {
    use record::TimeSummary;
    use serde_json::json;

    use super::*;
    use crate::study::operations;

    fn line(variant: &str, bound: &str, roofline: Value) -> CaseLine {
        let mut roofline = roofline;
        roofline["bound"] = bound.into();
        let line = json!({
            "schema": 1, "id": variant, "benchmark": "x", "parameters": {"m": 512, "ranks": 2}, "status": "ok", "ranks": 2,
            "runtime": "native", "backend": "shm", "device": "cpu", "mode": "streaming", "caveats": [], "simulated": false,
            "wrong": 0,
        });
        let time_s = Some(TimeSummary { median: 1.0, ci95: Some([0.5, 2.0]), ..TimeSummary::default() });
        let metrics = json!({"variant": variant, "roofline": roofline});
        let metrics = metrics.as_object().cloned().unwrap_or_default();
        CaseLine { metrics: metrics.into(), time_s, ..serde_json::from_value(line).unwrap() }
    }

    fn point(intensity: f64, gflops: f64, memory_gbs: f64) -> Value {
        json!({"intensity": intensity, "gflops": gflops, "memory_gbs": memory_gbs, "peak_gflops": 100.0, "share": 0.5})
    }

    #[test]
    fn a_roof_rises_to_its_corner_and_points_have_the_interval_of_their_time() {
        let mut whole = point(4.0, 30.0, 10.0);
        whole["parts"] = json!({"forward": point(1.0, 8.0, 10.0)});
        let lines = [line("fused", "memory", whole), line("sequential", "memory", point(8.0, 40.0, 10.5))];
        let spec = chart(&operations(&lines, &[])[0]).unwrap().spec;
        let labels: Vec<&str> = spec.series.iter().map(|series| series.label.as_str()).collect();
        assert_eq!(labels, ["fused", "fused, forward", "sequential"]);
        let Point { x, y, low, high, .. } = spec.series[0].points[0];
        assert_eq!([x, y, low, high], [4.0, 30.0, 15.0, 60.0], "twice the time is half the rate");
        assert_eq!(spec.series[1].points[0].low, 8.0, "the interval of a part's time is not known");
        // Ceilings that differ by less than the eye tells are one line.
        assert_eq!(spec.references.len(), 1);
        let [begin, corner, end] = spec.references[0].points[..] else { panic!("three points") };
        assert_eq!(corner, [10.0, 100.0]);
        assert!((begin[1] / begin[0] - 10.0).abs() < 1e-9 && end[1] == 100.0 && end[0] > 10.0, "{begin:?} {end:?}");
    }

    #[test]
    fn the_bounds_of_phases_are_told() {
        let part = |bound: &str| json!({"bound": bound, "intensity": 1.0, "gflops": 1.0});
        let mut whole = point(4.0, 30.0, 10.0);
        whole["parts"] = json!({"forward": part("compute"), "backward": part("compute"), "optimizer": part("memory")});
        let step = line("data", "compute", whole);
        let sentence_of = |lines: &[CaseLine]| sentence(&operations(lines, &[])[0]).unwrap();
        let text = sentence_of(std::slice::from_ref(&step));
        assert!(
            text.ends_with("Its parts are bound: forward and backward by computation, optimizer by memory."),
            "{text}"
        );
        let mut other = step.clone();
        other.metrics.get_mut("roofline").unwrap()["parts"]["forward"] = part("memory");
        let text = sentence_of(&[step, other]);
        assert!(text.ends_with("Its parts are bound: backward by computation, optimizer by memory."), "{text}");
    }

    #[test]
    fn the_bounds_are_counted_and_the_best_is_named() {
        let mut best = point(9.0, 90.0, 10.0);
        best["share"] = 0.9.into();
        let lines = [
            line("a", "memory", point(1.0, 5.0, 10.0)),
            line("b", "compute", best),
            line("c", "communication", point(20.0, 50.0, 10.0)),
        ];
        let sentence_of = |lines: &[CaseLine]| sentence(&operations(lines, &[])[0]);
        let all = sentence_of(&lines).unwrap();
        assert!(all.contains("memory limits 1 case, computation limits 1 case, communication limits 1 case"), "{all}");
        assert!(all.contains("b reaches 90% of its ceiling, the most"), "{all}");
        assert!(sentence_of(&lines[..1]).unwrap().contains("memory limits each case; a reaches 50% of its ceiling."));
        for (share, words) in
            [(1.05, "b reaches 100% of its ceiling, the most"), (1.51, "b is faster than its ceiling")]
        {
            let mut best = point(9.0, 90.0, 10.0);
            best["share"] = share.into();
            let lines = [line("a", "memory", point(1.0, 5.0, 10.0)), line("b", "compute", best)];
            let said = sentence_of(&lines).unwrap();
            assert!(said.contains(words), "{said}");
        }
        let mut larger = lines.clone();
        larger[1].parameters.insert("m", 1024.into());
        assert!(sentence_of(&larger).unwrap().contains("b, m 1024 reaches 90%"), "a size that differs is told");
        let mut without = lines[0].clone();
        without.metrics.clear();
        assert_eq!(sentence_of(&[without]), None);
    }
}
