//! The HTML page from outside: one file that loads nothing, the same for the same run, with text that stays text. How it behaves
//! in a browser is for `cargo xtask browser` to see.

use report::{Run, format, write_together};
use serde_json::Value;

use crate::{data, many};

fn page(run: &Run) -> String {
    let files = format("html").unwrap().render(run).unwrap();
    assert_eq!((files.len(), files[0].path.to_string()), (1, "report.html".to_owned()));
    String::from_utf8(files[0].content.clone()).unwrap()
}

/// What the script reads.
fn values(page: &str) -> Value {
    let (_, rest) = page.split_once("id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

/// The page without its style, script and values: what is markup.
fn markup(page: &str) -> String {
    let (before, rest) = page.split_once("<style>").unwrap();
    let (body, _) = rest.split_once("</style>").unwrap().1.split_once("<script").unwrap();
    format!("{before}{body}")
}

#[test]
fn it_loads_nothing_and_its_policy_says_so() {
    for (name, run) in data::runs() {
        let page = page(&run);
        let markup = markup(&page);
        assert!(
            markup.contains("Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-"),
            "{name}"
        );
        assert!(!markup.contains("unsafe-"), "{name}");
        for loading in [" src=", "<link", "<img", "<iframe", "@import", "url(", " style=", " onclick="] {
            assert!(!markup.contains(loading), "{name}: {loading}");
        }
        // Links stay on the page.
        assert!(markup.split("href=\"").skip(1).all(|rest| rest.starts_with('#')), "{name}");
    }
}

#[test]
fn the_same_run_is_the_same_page() {
    for (name, run) in data::runs() {
        assert!(page(&run) == page(&run), "{name}");
    }
}

#[test]
fn text_from_data_is_no_markup() {
    let page = page(&data::hostile());
    let markup = markup(&page);
    assert!(!markup.contains("<script") && !markup.contains("alert('1')"), "a tag of the data");
    assert!(markup.contains("&lt;script&gt;alert(&#39;1&#39;)"), "but its text is there");
    assert!(!page.contains('\u{202E}') && !page.contains('\0'));
    // One script is the values, one is ours: nothing else may begin or end one.
    assert_eq!((page.matches("<script").count(), page.matches("</script").count()), (2, 2));
    let section = &values(&page)["sections"][0];
    assert!(section["n"].as_str().unwrap().contains("<script>alert('1')</script>"), "{section}");
}

#[test]
fn every_tag_is_closed() {
    for (name, run) in data::runs() {
        let page = page(&run);
        let body = page.split_once("<main>").unwrap().1.split_once("</main>").unwrap().0;
        // Of the elements that we write, only these have no end in HTML.
        let body = body.replace("<br>", "<br/>").replace(" hidden ", " ").replace(" hidden>", ">");
        let body = body.replace("data-copy ", "").replace(" data-copy>", ">");
        let whole = format!("<main>{body}</main>");
        roxmltree::Document::parse(&whole).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn identities_are_there_once() {
    let folder = tempfile::tempdir().unwrap();
    let runs = [data::study(), data::study(), data::scaled()];
    let written = write_together(&runs, None, folder.path()).unwrap();
    assert_eq!(written, [folder.path().join("report.html")]);
    let page = std::fs::read_to_string(&written[0]).unwrap();
    let mut ids: Vec<&str> = page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let number = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), number);
    let links = markup(&page);
    let links = links.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next());
    for link in links.filter(|link| *link != "cases") {
        assert!(ids.contains(&link), "#{link} leads nowhere");
    }
    assert!(page.contains("<h1>3 records</h1>"), "all stand on one page");
}

#[test]
fn banners_stand_above_the_title() {
    let mut run = data::study();
    for case in &mut run.cases {
        case.simulated = true;
    }
    run.damaged = vec![record::DamagedLine {
        file: "cases.jsonl".into(),
        line: 3,
        id: None,
        cause: "it is cut".into(),
        is_there: true,
    }];
    let markup = markup(&page(&run));
    let at = |text: &str| markup.find(text).unwrap_or_else(|| panic!("no {text}"));
    assert!(at("DAMAGED RECORD") < at("<h1>") && at("SIMULATED: times were computed") < at("<h1>"));
    assert!(markup.contains("<strong>Simulated, not measured</strong>"));
}

#[test]
fn findings_have_a_number_and_say_what_to_do() {
    let cards = |run: &Run| -> Vec<String> {
        let page = markup(&page(run));
        let cards = page.split("<div class=\"card\">").skip(1);
        cards.map(|card| card.split("</div>").next().unwrap().to_owned()).collect()
    };
    let study = cards(&data::study());
    assert!((1..=3).contains(&study.len()), "{study:?}");
    assert!(study.iter().all(|card| card.contains(|c: char| c.is_ascii_digit())), "{study:?}");
    let mut run = data::study();
    run.cases[1].wrong = Some(2);
    run.cases[2].status = terms::Status::Failed;
    run.cases[2].reason = Some("rank 1 died of signal 9".into());
    run.cases[3].gates_missed = vec!["busbw_gbs>=12: 4.32".into()];
    let troubled = cards(&run);
    assert!(troubled[0].contains("1 case gave wrong results") && troubled[0].contains("rankmark run --resume"));
    assert!(troubled[1].contains("1 of 12 cases failed") && troubled[1].contains("rank 1 died of signal 9."));
    assert!(troubled[2].contains("1 case missed a gate") && troubled[2].contains("busbw_gbs&gt;=12: 4.32"));
    let mut run = data::one_point();
    run.cases[0].metrics.shift_remove("limit_share");
    assert!(cards(&run).is_empty(), "nothing stands out");
    let levels = serde_json::json!([{"median_s": 1.25e-7, "trials": 8, "share": 0.64}, {"median_s": 5.9e-7, "trials": 5, "share": 0.36}]);
    run.cases[0].metrics.insert("levels".to_owned(), levels);
    let speeds = cards(&run);
    assert!(speeds[0].contains("The machine had several speeds in 1 of 1 case"), "{}", speeds[0]);
    assert!(speeds[0].contains("0.125 us in 64% of its trials and 0.590 us in 36% of its trials"), "{}", speeds[0]);
    assert!(markup(&page(&run)).contains("times are disturbed"), "such a run is not called healthy");
    let mut run = data::study();
    run.cases.iter_mut().for_each(|case| case.caveats = vec![record::Caveat::OtherPrograms]);
    let busy = cards(&run);
    assert!(
        busy[0].contains("12 of 12 cases are disturbed: other programs") && busy[0].contains("Stop the other"),
        "{busy:?}"
    );
    assert!(markup(&page(&run)).contains("<p class=\"verdict care\"><strong>Results are right, times are disturbed"));
}

#[test]
fn tiles_have_intervals_and_only_what_was_measured() {
    let tiles = |run: &Run| -> String {
        let page = markup(&page(run));
        page.split("<dl class=\"tiles\">").nth(1).map_or("", |rest| rest.split("</dl>").next().unwrap()).to_owned()
    };
    let study = tiles(&data::study());
    assert!(study.contains("all_reduce peak busbw") && study.contains("±") && study.contains("of limit"), "{study}");
    assert!(!study.contains("tokens/s") && !study.contains("largest batch"), "{study}");
    let scaled = tiles(&data::scaled());
    for name in ["samples/s", "median step", "strong scaling"] {
        assert!(scaled.contains(&format!("<dt>{name}</dt>")), "{name}: {scaled}");
    }
    assert!(scaled.contains("69% to 73%"), "{scaled}");
}

#[test]
fn every_case_is_a_row_with_its_trials() {
    let run = many::run(400);
    let page = page(&run);
    let values = values(&page);
    let sections = values["sections"].as_array().unwrap();
    let rows: usize = sections.iter().map(|section| section["r"].as_array().unwrap().len()).sum();
    assert_eq!(rows, 400);
    let row = &sections[0]["r"][0];
    assert_eq!(row[8].as_str().map(str::len), Some(12), "six trials of two letters: {row}");
    let words: Vec<&str> = values["status"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(words, ["ok", "failed", "skipped", "not run"]);
    // So many have no table without the script, and the page says where they are.
    assert!(markup(&page).contains("<code>cases.csv</code> has them"));
}

#[test]
fn a_case_costs_few_bytes() {
    let size = |cases: usize| page(&many::run(cases)).len();
    let (few, many) = (size(1_000), size(3_000));
    let each = (many - few) / 2_000;
    // Quantiles of samples, which these runs do not have, take 64 bytes more.
    assert!(each < 500, "{each} bytes a case");
}

#[test]
fn an_empty_run_is_a_page_too() {
    let page = page(&data::run(Vec::new()));
    assert!(page.contains("<strong>Nothing was measured</strong>: the record has no case."), "{page}");
    assert!(!markup(&page).contains("<figure"));
}

#[test]
fn each_part_of_a_bar_has_a_colour() {
    let css = include_str!("../../src/formats/html/page/page.css");
    let sources = [include_str!("../../src/formats/html/bar.rs"), include_str!("../../src/formats/html/head.rs")];
    let classes = ["ok", "care", "bad", "quiet", "failed", "skipped", "undone"];
    assert!(classes.iter().all(|class| css.contains(&format!(".share .{class} {{ fill: "))), "{css}");
    // A class that is renamed on one side alone leaves a black part.
    assert!(sources.iter().all(|source| source.contains("\"undone\"") && !source.contains("\"open\")")));
}
