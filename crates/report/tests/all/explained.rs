//! What traces showed (`profile.json`) in every format: sentences, charts, tables; text that stays text; files that are broken.

use std::fs;

use record::{
    Blame, EXPLAINED_FILE, Explained, ExplainedCase, ExplainedFinding, ExplainedTable, Lane, Lanes, Phases, Waterfall,
};
use report::chart::{Axis, ChartSpec, Draw as _, Quantity, Scale, Span, SpanKind, Term};
use report::{Run, format};
use serde_json::json;

use crate::charts::assert_readable;
use crate::data::{self, HOSTILE};
use crate::golden::check;
use crate::record_on_disk::record as write_record;
use crate::tables::read_csv;

/// All files of a format as one text.
pub(crate) fn text(name: &str, run: &Run) -> String {
    let files = format(name).unwrap().render(run).unwrap();
    files.iter().map(|file| String::from_utf8_lossy(&file.content).into_owned()).collect()
}

fn file(name: &str, run: &Run, path: &str) -> String {
    let files = format(name).unwrap().render(run).unwrap();
    let file = files.into_iter().find(|file| file.path.to_string().ends_with(path));
    String::from_utf8(file.unwrap_or_else(|| panic!("no {path}")).content).unwrap()
}

/// The section of a Markdown report.
fn section(run: &Run) -> String {
    let markdown = text("markdown", run);
    let (_, rest) = markdown.split_once("## What limits the steps\n").expect("no section");
    rest.split_once("\n## ").map_or(rest, |(section, _)| section).to_owned()
}

fn run_with(case: ExplainedCase) -> Run {
    let mut run = data::scaled();
    let id = run.cases[0].id.clone();
    run.explained = Some(Explained { cases: vec![ExplainedCase { case: id, ..case }], ..Explained::default() });
    run
}

#[test]
fn the_section_as_markdown() {
    check("explained.md", &section(&data::explained()));
}

#[test]
fn timeline_and_waterfall_as_svg() {
    check("explained-timeline.svg", &file("svg", &data::explained(), "-timeline.svg"));
    check("explained-waterfall.svg", &file("svg", &data::explained(), "-waterfall.svg"));
}

#[test]
fn the_page_has_it_behind_the_findings() {
    let page = text("html", &data::explained());
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text}"));
    let section = at("id=\"What-limits-the-steps\"");
    assert!(at("<h2>What the data show</h2>") < section && section < at("<div id=\"cases\">"));
    assert!(at("href=\"#What-limits-the-steps\"") < section);
    let body = &page[section..at("<div id=\"cases\">")];
    assert_eq!(body.matches("<figure").count(), 4, "phases, timeline, waterfall, blame");
    assert_eq!(body.matches("class=\"card\"").count(), 3, "a fourth finding is counted only");
    assert_eq!(body.matches("data-table=").count(), 2);
    assert!(body.contains("saves up to 28.0 ms a step · confidence: high (3 of 3 steps)"), "{body}");
    assert!(!text("html", &data::scaled()).contains("What-limits"), "without the file there is no section");
}

#[test]
fn each_table_is_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let run = data::explained();
    let written = report::write_formats(&run, folder.path(), &[format("csv").unwrap()]).unwrap().files;
    let names: Vec<String> =
        written.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
    let case = &run.explained.as_ref().unwrap().cases[0].case;
    let named = ["ranks", "kernels"].map(|table| format!("profile-{case}-{table}.csv"));
    assert_eq!(names, ["cases.csv", &named[0], &named[1]]);
    let rows = read_csv(&fs::read_to_string(folder.path().join(&named[1])).unwrap());
    assert_eq!(rows[0], ["operation", "calls", "total, s", "bytes"]);
    assert_eq!(rows[1], ["gemm", "24", "0.0412", "412876800"]);
    assert_eq!(rows[3], ["adam", "3", "0.018", ""]);
    // `-o FILE` is for one file.
    report::write_file(&run, format("csv").unwrap(), &folder.path().join("one.csv")).unwrap();
}

/// Names that become equal as file names stay distinct.
#[test]
fn no_two_tables_share_a_file() {
    let table =
        |name: &str| ExplainedTable { name: name.into(), columns: vec!["a".into()], ..ExplainedTable::default() };
    let mut run = run_with(ExplainedCase::default());
    let case = |id: &str| ExplainedCase {
        case: id.into(),
        tables: vec![table("../x"), table("x"), table("/x/")],
        ..ExplainedCase::default()
    };
    run.explained.as_mut().unwrap().cases = vec![case("../a"), case("a"), case("..")];
    let folder = tempfile::tempdir().unwrap();
    let mut written = report::write_formats(&run, folder.path(), &[format("csv").unwrap()]).unwrap().files;
    assert_eq!(written.len(), 10);
    assert!(written.iter().all(|path| path.parent() == Some(folder.path())), "{written:?}");
    written.sort();
    written.dedup();
    assert_eq!(written.len(), 10);
}

fn hostile() -> Run {
    let texts = || vec![HOSTILE.to_owned(), "=1+1".to_owned()];
    let table = ExplainedTable {
        name: HOSTILE.into(),
        title: HOSTILE.into(),
        columns: texts(),
        rows: vec![vec![json!(HOSTILE), json!("=cmd|' /C calc'!A0")], vec![json!([HOSTILE]), json!(-1.5), json!("@x")]],
    };
    let kinds = vec![HOSTILE.to_owned(), "wait".to_owned()];
    run_with(ExplainedCase {
        title: HOSTILE.into(),
        verdict: HOSTILE.into(),
        findings: vec![ExplainedFinding {
            what: HOSTILE.into(),
            evidence: HOSTILE.into(),
            confidence: HOSTILE.into(),
            action: HOSTILE.into(),
            seconds: 1.0,
            share: None,
            without: None,
        }],
        notes: texts(),
        tables: vec![table],
        lanes: Some(Lanes {
            title: HOSTILE.into(),
            kinds: kinds.clone(),
            lanes: vec![Lane { label: HOSTILE.into(), spans: vec![(0.0, 1.0, 0), (1.0, 2.0, 1)] }],
        }),
        phases: Some(Phases { title: HOSTILE.into(), kinds, ranks: vec![(HOSTILE.into(), vec![1.0, 2.0])] }),
        waterfall: Some(Waterfall {
            title: HOSTILE.into(),
            from: (HOSTILE.into(), 1.0),
            terms: vec![(HOSTILE.into(), -0.5)],
            to: (HOSTILE.into(), 0.5),
            without: vec![HOSTILE.into()],
        }),
        blame: Some(Blame { title: HOSTILE.into(), ranks: texts(), seconds: vec![vec![0.0, 1.0], vec![2.0]] }),
        ..ExplainedCase::default()
    })
}

#[test]
fn text_of_the_file_stays_text() {
    let run = hostile();
    let markdown = section(&run);
    assert!(!markdown.contains('<') && !markdown.contains('\u{202E}') && !markdown.contains('\0'), "{markdown}");
    assert!(!markdown.lines().any(|line| line.starts_with("# ")), "{markdown}");
    let page = text("html", &run);
    let (markup, script) = page.split_once("<script type=\"application/json\"").unwrap();
    assert!(!markup.contains("<script") && markup.contains("&lt;script&gt;"));
    assert_eq!(script.matches("</script>").count(), 2, "the values and our script end, and nothing else");
    for svg in format("svg").unwrap().render(&run).unwrap() {
        let text = String::from_utf8(svg.content).unwrap();
        roxmltree::Document::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", svg.path));
    }
    let folder = tempfile::tempdir().unwrap();
    let written = report::write_formats(&run, folder.path(), &[format("csv").unwrap()]).unwrap().files;
    let rows = read_csv(&fs::read_to_string(&written[1]).unwrap());
    assert_eq!((rows.len(), rows[0].len(), rows[1].len(), rows[2].len()), (3, 2, 2, 2));
    let formula = |cell: &&String| cell.starts_with(['=', '+', '-', '@']) && cell.parse::<f64>().is_err();
    assert_eq!(rows.iter().flatten().find(formula), None);
    assert_eq!(rows[0], [view::one_line(HOSTILE).as_str(), "'=1+1"]);
}

#[test]
fn a_broken_file_is_a_note_and_the_report_is_whole() {
    for (content, why) in [
        (r#"{"version": 1, "cases": [{"case": "a""#, "EOF while parsing"),
        (r#"{"version": 2, "cases": []}"#, "version 2; this program reads version 1"),
        (r#"{"version": 1, "cases": [{"findings": [{"seconds": NaN}]}]}"#, "expected value"),
        ("\u{0}\u{0}", "expected value"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        write_record(folder.path());
        fs::write(folder.path().join(EXPLAINED_FILE), content).unwrap();
        let run = Run::read(folder.path(), benchmarks::VIEWS).unwrap();
        assert_eq!((run.explained.is_none(), run.cases.len()), (true, 2));
        let markdown = text("markdown", &run);
        let note = format!("* Record: profile.json is left out: {}", why.replace('_', "\\_"));
        assert!(markdown.contains(&note), "{note} is not in {markdown}");
        assert!(text("html", &run).contains("profile.json is left out"));
    }
}

#[test]
fn a_record_with_the_file_has_the_section() {
    let folder = tempfile::tempdir().unwrap();
    write_record(folder.path());
    record::write_explained(folder.path(), data::explained().explained.as_ref().unwrap()).unwrap();
    let run = Run::read(folder.path(), benchmarks::VIEWS).unwrap();
    let written = report::write(&run, folder.path()).unwrap();
    for end in ["-timeline.svg", "-timeline.png", "-phases.svg", "-waterfall.png", "-blame.svg", "-ranks.csv"] {
        assert!(written.iter().any(|path| path.to_string_lossy().ends_with(end)), "{end}: {written:?}");
    }
    let shown = section(&run);
    let pictures = shown.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    for path in pictures {
        assert!(folder.path().join(path).is_file(), "{path}");
    }
}

#[test]
fn values_that_cannot_be_shown_are_counted() {
    let lane =
        |spans| Lanes { kinds: vec!["a".into()], lanes: vec![Lane { label: "0".into(), spans }], ..Lanes::default() };
    let run = run_with(ExplainedCase {
        lanes: Some(lane(vec![(0.0, 1.0, 0), (2.0, 1.0, 0), (0.0, 1.0, 7), (f64::NAN, 1.0, 0)])),
        phases: Some(Phases {
            kinds: vec!["a".into(), "b".into()],
            ranks: vec![("0".into(), vec![1.0, -1.0, f64::INFINITY]), ("1".into(), vec![])],
            ..Phases::default()
        }),
        waterfall: Some(Waterfall { from: ("a".into(), f64::NAN), ..Waterfall::default() }),
        blame: Some(Blame { ranks: vec!["0".into()], seconds: vec![vec![-2.0, 0.0]], ..Blame::default() }),
        ..ExplainedCase::default()
    });
    let shown = section(&run);
    for note in [
        "3 values of the timeline are left out",
        "2 values of the phases are left out",
        "1 value of the waterfall is left out",
        "1 value of the waits is left out",
    ] {
        assert!(shown.contains(note), "{note}: {shown}");
    }
    let svgs = text("svg", &run);
    assert!(!svgs.contains("NaN") && !svgs.contains("inf,"), "{svgs}");
    assert!(svgs.contains("Timeline of the ranks") && !svgs.contains("waterfall"));
    // Nothing that can be drawn: no chart, and no empty frame.
    let empty = run_with(ExplainedCase {
        verdict: "x".into(),
        lanes: Some(lane(Vec::new())),
        phases: Some(Phases::default()),
        blame: Some(Blame::default()),
        ..ExplainedCase::default()
    });
    assert!(!section(&empty).contains("]("), "{}", section(&empty));
}

/// A million spans of 100 ranks.
fn many_spans() -> Run {
    let spans = |rank: usize| {
        let kind = |index: usize| (index * 7 + rank) % 5;
        (0..10_000).map(|index| (index as f64 * 1e-4, (index + 1) as f64 * 1e-4, kind(index))).collect()
    };
    let kinds = ["a", "b", "c", "d", "wait"].map(str::to_owned).to_vec();
    let lanes = (0..100).map(|rank| Lane { label: format!("rank {rank}"), spans: spans(rank) }).collect();
    run_with(ExplainedCase { lanes: Some(Lanes { title: String::new(), kinds, lanes }), ..ExplainedCase::default() })
}

#[test]
fn a_million_spans_are_a_small_picture() {
    let run = many_spans();
    let svg = file("svg", &run, "-timeline.svg");
    assert!(svg.len() < 200_000, "{} bytes", svg.len());
    assert!(svg.contains("Drawn: the first 64 of 100 ranks. 640,000 spans are merged: each of"), "{svg:.3000}");
    let page = text("html", &run);
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
    assert!(page.contains("Drawn: the first 64 of 100 ranks. 640,000 spans are merged"));
}

/// Times of a clock that began in 1970 are counted from the first span.
#[test]
fn late_times_count_from_the_first_span() {
    let of = |begin: f64| {
        let lane = Lane { label: "0".into(), spans: vec![(begin, begin + 0.5, 0)] };
        let lanes = Lanes { kinds: vec!["a".into()], lanes: vec![lane], ..Lanes::default() };
        file("svg", &run_with(ExplainedCase { lanes: Some(lanes), ..ExplainedCase::default() }), "-timeline.svg")
    };
    assert!(of(1.8e9).contains(">time since the first span<") && of(1.8e9).contains(">500 ms<"));
    assert!(of(2.0).contains(">time<"));
}

fn timeline(rows: Vec<(&str, Vec<Span>)>) -> ChartSpec {
    let kind = |label: &str, style, stall| SpanKind { label: label.into(), style, stall };
    let row = |(label, spans): (&str, Vec<Span>)| report::chart::Lane { label: label.into(), spans };
    ChartSpec {
        title: "t".into(),
        x: Axis { title: "time".into(), quantity: Quantity::Seconds, scale: Scale::Linear },
        lanes: Some(report::chart::Lanes {
            kinds: vec![kind("compute", 0, false), kind("wait", 6, true)],
            rows: rows.into_iter().map(row).collect(),
        }),
        ..ChartSpec::default()
    }
}

/// The data of all paths with this attribute.
fn paths(svg: &str, attribute: &str) -> Vec<String> {
    let document = roxmltree::Document::parse(svg).unwrap();
    let wanted = |node: &roxmltree::Node| node.has_tag_name("path") && node.attributes().any(|a| a.name() == attribute);
    document.descendants().filter(wanted).filter_map(|node| node.attribute("d").map(str::to_owned)).collect()
}

#[test]
fn stalls_are_outlined_and_hatched() {
    let span = |begin, end, kind| Span { begin, end, kind };
    let svg = timeline(vec![("0", vec![span(0.0, 1.0, 0), span(1.0, 2.0, 1)]), ("1", vec![span(0.0, 2.0, 0)])]).svg();
    let stroked = paths(&svg, "stroke");
    // Rims and strokes of the legend's sample and of the one stall.
    assert_eq!(stroked.len(), 4, "{stroked:?}");
    assert_eq!(stroked[2].matches('z').count(), 1, "one rim");
    assert!(stroked[3].matches('M').count() > 20 && !stroked[3].contains('z'), "{}", stroked[3]);
    let none = timeline(vec![("0", vec![span(0.0, 1.0, 0)])]).svg();
    assert_eq!(paths(&none, "stroke").len(), 2, "the legend's only");
}

/// Rows of more spans than columns: each column shows the kind that takes the most of it.
#[test]
fn many_spans_are_merged_by_column() {
    // In each millisecond 0.7 ms of work and 0.3 ms of waiting, but in the second half the other way round.
    let mut spans = Vec::new();
    for index in 0..20_000 {
        let (begin, share) = (f64::from(index) * 1e-3, if index < 10_000 { 0.7e-3 } else { 0.3e-3 });
        spans.push(Span { begin, end: begin + share, kind: 0 });
        spans.push(Span { begin: begin + share, end: begin + 1e-3, kind: 1 });
    }
    let svg = timeline(vec![("0", spans)]).svg();
    let filled: Vec<String> = paths(&svg, "fill").into_iter().filter(|path| path.contains('z')).collect();
    // Of the row: one rectangle of work and one of waiting; and the legend's rim.
    let rectangles: Vec<usize> = filled.iter().map(|path| path.matches('z').count()).collect();
    assert_eq!(rectangles, [1, 1, 1], "{filled:?}");
    let left = |path: &str| path[1..].split(' ').next().unwrap().parse::<f64>().unwrap();
    let width =
        |path: &str| path.split('H').nth(1).unwrap().split('V').next().unwrap().parse::<f64>().unwrap() - left(path);
    let (work, wait) = (&filled[1], &filled[2]);
    assert!((width(work) - width(wait)).abs() < 2.0 && left(work) < left(wait), "{work} {wait}");
    assert!(svg.contains("40,000 spans are merged"), "{svg}");
}

#[test]
fn timelines_are_readable() {
    let span = |begin: f64, end: f64| Span { begin, end, kind: 0 };
    for number in [1, 4, 30, 64, 200] {
        let names: Vec<String> = (0..number).map(|rank| format!("rank {rank} on a host with a long name")).collect();
        let rows = names.iter().map(|name| (name.as_str(), vec![span(0.0, 1.0)])).collect();
        assert_readable(&format!("{number} rows"), &timeline(rows));
    }
    for [begin, end] in [[0.0, 1e-9], [12.3, 12.300_001], [-1.0, 1e6], [100.0, 101.0]] {
        assert_readable(&format!("{begin} to {end}"), &timeline(vec![("0", vec![span(begin, end)])]));
    }
}

fn waterfall(from: f64, terms: &[f64], to: f64) -> ChartSpec {
    let term = |label: String, value| Term { label, value };
    ChartSpec {
        title: "w".into(),
        x: Axis { title: "time".into(), quantity: Quantity::Seconds, scale: Scale::Linear },
        waterfall: Some(report::chart::Waterfall {
            from: term("from".into(), from),
            terms: terms.iter().enumerate().map(|(at, value)| term(format!("term {at}"), *value)).collect(),
            to: term("to".into(), to),
        }),
        ..ChartSpec::default()
    }
}

/// Left and right end of each bar, from top to bottom.
fn bars(svg: &str) -> Vec<[f64; 2]> {
    let document = roxmltree::Document::parse(svg).unwrap();
    let polygons = document.descendants().filter(|node| node.has_tag_name("polygon"));
    let ends = polygons.map(|node| {
        let points = node.attribute("points").unwrap().split(' ').filter_map(|point| point.split(',').next());
        let across: Vec<f64> = points.map(|x| x.parse().unwrap()).collect();
        [across.iter().copied().fold(f64::INFINITY, f64::min), across.iter().copied().fold(0.0, f64::max)]
    });
    ends.collect()
}

#[test]
fn terms_begin_where_the_ones_before_end() {
    let near = |a: f64, b: f64| (a - b).abs() < 0.05;
    for (from, terms, to) in [
        (1.0, vec![-0.25, -0.25, 0.125], 0.625),
        (0.5, vec![0.25, 0.25], 1.0),
        (1.0, vec![-1.5, 0.25], -0.25),
        (-1.0, vec![0.5], -0.5),
    ] {
        let found = bars(&waterfall(from, &terms, to).svg());
        assert_eq!(found.len(), terms.len() + 2);
        // Units of the picture for a second: the longest bar tells it.
        let (first, last) = (found[0], found[found.len() - 1]);
        let unit = (first[1] - first[0]) / f64::abs(from);
        let zero = if from > 0.0 { first[0] } else { first[1] };
        assert!(near(if to > 0.0 { last[0] } else { last[1] }, zero), "the last bar begins at zero: {found:?}");
        assert!(near(last[1] - last[0], to.abs() * unit), "{found:?}");
        let mut at = from;
        for (value, [left, right]) in terms.iter().zip(&found[1..]) {
            let (low, high) = (at.min(at + value), at.max(at + value));
            assert!(near(*left, zero + low * unit) && near(*right, zero + high * unit), "{value}: {found:?}");
            at += value;
        }
    }
}

#[test]
fn waterfalls_are_readable_and_say_their_values() {
    let spec = waterfall(1.0, &[-0.25, 0.125, 0.0, -1e-9], 0.875);
    assert_readable("waterfall", &spec);
    let svg = spec.svg();
    for text in [">1.00 s<", ">-250 ms<", ">+125 ms<", ">875 ms<"] {
        assert!(svg.contains(text), "{text}: {svg}");
    }
    assert_readable("zeros", &waterfall(0.0, &[0.0], 0.0));
    assert_readable("below zero", &waterfall(1.0, &[-3.0, 1.0], -1.0));
    let long = "a name that is longer than any picture is wide, ".repeat(6);
    let mut spec = waterfall(1.0, &[-0.5], 0.5);
    spec.waterfall.as_mut().unwrap().terms[0].label = long;
    assert_readable("a long name", &spec);
    // What the terms leave open is said.
    let open = |to: f64| {
        let of = Waterfall {
            from: ("a".into(), 1.0),
            terms: vec![("b".into(), -0.5)],
            to: ("c".into(), to),
            ..Waterfall::default()
        };
        file("svg", &run_with(ExplainedCase { waterfall: Some(of), ..ExplainedCase::default() }), "-waterfall.svg")
    };
    assert!(open(0.75).contains("The terms do not add up to the final value: 250 ms is unexplained."));
    assert!(!open(0.5).contains("The terms miss"));
}

#[test]
fn a_waterfall_says_how_long_a_step_would_take_without_what_was_found() {
    let sentence = "Without slow rank 1 a step would take 188 ms instead of 225 ms (181 ms to 194 ms).";
    let of = Waterfall {
        title: "Efficiency from 1 to 2 ranks".into(),
        from: ("1 rank".into(), 1.0),
        terms: vec![("waits".into(), -0.2)],
        to: ("2 ranks".into(), 0.8),
        without: vec![sentence.into()],
    };
    let run = run_with(ExplainedCase { waterfall: Some(of), ..ExplainedCase::default() });
    let page = text("html", &run);
    let figure = page.split("<figure").find(|figure| figure.contains("Efficiency from 1 to 2 ranks")).unwrap();
    assert!(figure.split("</figure>").next().unwrap().contains(&format!("<p class=\"note\">{sentence}</p>")));
    assert!(file("svg", &run, "-waterfall.svg").contains("Without slow rank 1 a step would take 188 ms"));
}

/// The mark of a simulated case is in its charts, too.
#[test]
fn a_simulated_case_has_its_banner() {
    let mut run = data::explained();
    run.cases.iter_mut().for_each(|case| case.simulated = true);
    for name in ["phases", "timeline", "waterfall", "blame"] {
        assert!(file("svg", &run, &format!("-{name}.svg")).contains("SIMULATED"), "{name}");
    }
}

/// Bars carry the names of ranks.
#[test]
fn phases_stand_over_the_names_of_ranks() {
    let svg = file("svg", &data::explained(), "-phases.svg");
    for text in [">rank 0<", ">rank 3<", ">forward<", ">wait<"] {
        assert_eq!(svg.matches(text).count(), 1, "{text}");
    }
    assert!(svg.contains("time of one step"));
}

#[test]
fn words_between_backticks_are_code_in_every_sentence() {
    let said = |what: &str| format!("{what} of `every_{what}` is said");
    let finding = ExplainedFinding {
        what: said("what"),
        evidence: said("evidence"),
        action: said("action"),
        ..ExplainedFinding::default()
    };
    let case = ExplainedCase {
        verdict: said("verdict"),
        notes: vec![said("note")],
        findings: vec![finding],
        ..ExplainedCase::default()
    };
    let mut run = run_with(case);
    run.notes = vec![said("record")];
    run.plan_notes = vec![said("plan")];
    run.cases[1].status = terms::Status::Failed;
    run.cases[1].reason = Some(said("reason"));
    run.cases[2].caveats = vec![record::Caveat::TwoLevels];
    run.imported = vec![record::Imported { notes: vec![said("import")], ..record::Imported::default() }];
    let page = text("html", &run);
    let (markdown, shown) = (text("markdown", &run), page.split("<script").next().unwrap());
    for what in ["what", "evidence", "action", "verdict", "note", "record", "plan", "reason", "import"] {
        assert!(shown.contains(&format!("<code>every_{what}</code>")), "{what} on the page");
        // A title is strong as a whole.
        let written = if what == "what" { "every_what".to_owned() } else { format!("`every_{what}`") };
        assert!(markdown.contains(&written), "{what} in Markdown");
    }
    let literal: Vec<&str> = shown.split('>').filter(|text| text.contains('`')).collect();
    assert!(literal.is_empty(), "{literal:?}");
    assert!(!markdown.contains("\\`"), "{markdown}");
}
