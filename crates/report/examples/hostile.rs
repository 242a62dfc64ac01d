//! Writes pages and pictures of records whose texts are markup that calls a port of this machine:
//! `cargo run -p rankmark-report --example hostile -- DIR PORT`. `cargo xtask browser` opens them, and listens at the port.

#![expect(clippy::disallowed_methods, reason = "an example reads its arguments")]

#[path = "../tests/all/data.rs"]
#[allow(dead_code)]
mod data;
#[path = "../tests/all/stranger.rs"]
#[allow(dead_code)]
mod stranger;

use std::path::PathBuf;

use report::index::{Index, IndexCase, IndexChange, IndexMachine, IndexMark, IndexPoint, IndexRun, write_index};
use report::{AgainstBase, CaseAgainstBase, Differing, FleetCell, FleetPage, FleetRow, FleetTone, Run};
use stranger::Stranger;

/// A page that calls the port whatever forbids it: the listener hears this one.
const CONTROL: &str =
    "<!doctype html><meta http-equiv=refresh content=\"0;url=http://127.0.0.1:PORT/control\"><p>control";

/// Markup that makes a browser call a port.
const CALLS: [&str; 14] = [
    "\"><meta http-equiv=refresh content=\"0;url=http://127.0.0.1:PORT/refresh\">",
    "\"/><meta http-equiv=refresh content=0;url=http://127.0.0.1:PORT/bare>",
    "'><img src=http://127.0.0.1:PORT/img onerror=\"fetch('http://127.0.0.1:PORT/onerror')\">",
    "<script>fetch('http://127.0.0.1:PORT/script')</script>",
    "</script><script>location='http://127.0.0.1:PORT/ended'</script>",
    "</style></title><style>@import 'http://127.0.0.1:PORT/import';*{background:url(http://127.0.0.1:PORT/url)}</style>",
    "]]></text></svg><svg onload=\"location='http://127.0.0.1:PORT/svg'\"><image href=http://127.0.0.1:PORT/image />",
    "<iframe src=http://127.0.0.1:PORT/iframe></iframe><object data=http://127.0.0.1:PORT/object></object>",
    "<base href=http://127.0.0.1:PORT/><link rel=stylesheet href=http://127.0.0.1:PORT/link>",
    "<form action=http://127.0.0.1:PORT/form><input autofocus onfocus=form.submit()></form>",
    "\" onload=\"fetch('http://127.0.0.1:PORT/attribute')\" autofocus tabindex=1 onfocus=\"fetch('//127.0.0.1:PORT')",
    "javascript:fetch('http://127.0.0.1:PORT/address')//",
    "&lt;script&gt;fetch('http://127.0.0.1:PORT/entity')&lt;/script&gt;<!--><img src=http://127.0.0.1:PORT/comment>",
    "<?xml-stylesheet href=\"http://127.0.0.1:PORT/sheet\"?><!DOCTYPE x SYSTEM \"http://127.0.0.1:PORT/dtd\">",
];

fn main() -> Result<(), report::Error> {
    let mut arguments = std::env::args().skip(1);
    let dir = PathBuf::from(arguments.next().unwrap_or_else(|| "hostile".to_owned()));
    let port = arguments.next().unwrap_or_else(|| "9".to_owned());
    let formats = [report::format("html")?, report::format("svg")?];
    let (stranger, free) = Stranger::with_free_texts();
    // Of all texts, of those that leave a record its tables and charts, and of the names of charts.
    let some: Vec<String> =
        free.iter().enumerate().filter(|(at, _)| at % 4 == 0).map(|(_, text)| text.clone()).collect();
    for (number, call) in CALLS.iter().enumerate() {
        let call = call.replace("PORT", &port);
        let with =
            |texts: &[String]| stranger.with(&texts.iter().map(|own| (own.clone(), format!("{call} {own}"))).collect());
        let records = [("all", with(free)), ("some", with(&some)), ("stems", stranger.with_member("stem", &call))];
        let mut runs = Vec::new();
        for (name, record) in records {
            let place = dir.join(format!("{name}-{number}"));
            let run = record.read_any(&place);
            report::write_formats(&run, &place, &formats)?;
            runs.push(run);
        }
        let of = |name: &str| dir.join(format!("{name}-{number}"));
        report::write_together(&runs, &[against(&call, &runs[0]), against(&call, &runs[1])], &of("together"))?;
        write_index(&index(&call), &of("index").join("index.html"))?;
        report::write_fleet(&fleet(&call), &of("fleet"), "fleet.html")?;
    }
    let control = dir.join("control");
    std::fs::create_dir_all(&control)
        .and_then(|()| std::fs::write(control.join("control.html"), CONTROL.replace("PORT", &port)))
        .map_err(|error| report::Error::new(error.to_string()))
}

fn against(text: &str, run: &Run) -> AgainstBase {
    let own = || text.to_owned();
    let case = |case: &record::CaseLine| CaseAgainstBase {
        id: case.id.clone(),
        label: own(),
        values: [own(), own()],
        ratio: Some(1.1),
        interval: Some([1.0, 1.2]),
        extrapolated: true,
        verdict: own(),
    };
    AgainstBase {
        verdict: own(),
        sentence: own(),
        largest: own(),
        warnings: vec![own()],
        cases: run.cases.iter().map(case).collect(),
        notes: vec![own()],
        lone: [vec![own()], vec![own()]],
        differences: vec![Differing { topic: own(), name: own(), base: Some(own()), new: Some(own()) }],
        ..AgainstBase::default()
    }
}

fn index(text: &str) -> Index {
    let own = || text.to_owned();
    let run = IndexRun {
        date: own(),
        name: own(),
        tags: own(),
        plan: own(),
        counts: [1, 2, 3, 4],
        note: own(),
        link: Some(own()),
        directory: own(),
    };
    let points = (0..8).map(|run| IndexPoint { run, median_s: 1e-5 * (1.0 + run as f64), ci95: Some([9e-6, 1e-4]) });
    let case = IndexCase {
        label: own(),
        points: points.collect(),
        noise: own(),
        changes: vec![IndexMark { at: 4, ratio: 2.0 }],
    };
    let changes = vec![IndexChange { run: 4, cases: vec![own()], better: false, differences: vec![own()] }];
    let machine = IndexMachine {
        name: own(),
        banner: Some(own()),
        runs: vec![run; 8],
        cases: vec![case.clone(), IndexCase { changes: Vec::new(), ..case }],
        changes,
        noise: own(),
    };
    Index { title: own(), summary: own(), machines: vec![machine], left_out: vec![[own(), own()]] }
}

fn fleet(text: &str) -> FleetPage {
    let own = || text.to_owned();
    let rows = vec![FleetRow { tone: FleetTone::Slow, cells: vec![own(); 4] }];
    FleetPage {
        title: own(),
        sentence: own(),
        tone: FleetTone::Failed,
        actions: vec![own()],
        cells: vec![FleetCell { tone: FleetTone::Slow, name: own(), figure: own(), tip: own() }],
        columns: vec![own()],
        nodes: rows.clone(),
        criteria: rows.clone(),
        links: rows,
        notes: vec![own()],
    }
}
