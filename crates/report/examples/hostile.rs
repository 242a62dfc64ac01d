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

use diagnose::compare::{Settings, compare};
use diagnose::fleet::{Criterion, Fleet, Node, NodeVerdict};
use diagnose::history::{LeftOut, histories};
use report::{Against, Comparisons, NamedHistory};
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
        write_others(&call, &runs, &of)?;
    }
    let control = dir.join("control");
    std::fs::create_dir_all(&control)
        .and_then(|()| std::fs::write(control.join("control.html"), CONTROL.replace("PORT", &port)))
        .map_err(|error| report::Error::new(error.to_string()))
}

/// The pages about several records: compared, over time, and of a fleet.
fn write_others(call: &str, runs: &[report::Run], of: &dyn Fn(&str) -> PathBuf) -> Result<(), report::Error> {
    let records = ["all", "some"].map(|name| record::read_run(&of(name)));
    let [base, other] = records.map(|record| record.map_err(report::Error::from));
    let (base, other) = (base?, other?);
    let comparison = compare(&[&base], &other, &Settings { threshold: 0.03, history: Vec::new() });
    let others = vec![Against { name: call.to_owned(), latest: &other, comparison }];
    let compared = Comparisons { name: call.to_owned(), base: &base, others };
    report::write_together(runs, Some(&compared), &of("together"))?;
    let runs = [&base, &other].into_iter().filter_map(|record| diagnose::history::Run::of(call, record, true).ok());
    let named = |history: diagnose::history::History| NamedHistory {
        names: vec![call.to_owned(); history.series.len()],
        history,
    };
    let machines: Vec<NamedHistory> = histories(runs.collect()).into_iter().map(named).collect();
    let left_out = [LeftOut { directory: call.to_owned(), why: call.to_owned(), copy_of: None }];
    report::history(call, &machines, &left_out, None).write_page(&of("index").join("index.html"))?;
    report::fleet(&fleet(call)).write_page(&of("fleet").join("fleet.html"))
}

fn fleet(text: &str) -> Fleet {
    let own = || text.to_owned();
    let node = Node {
        host: terms::HostName::parse("node01").expect("it is a name"),
        kind: 0,
        records: vec![own()],
        verdict: NodeVerdict::Failed,
        slow: Vec::new(),
        failed: vec![own()],
        unknown: own(),
        ratios: vec![Some(1.0)],
    };
    let criterion = Criterion { key: own(), label: own(), kind: 0, nodes: 1, level: None, smallest: None };
    Fleet {
        nodes: vec![node],
        criteria: vec![criterion],
        failures: vec![own()],
        notes: vec![own()],
        ..Fleet::default()
    }
}
