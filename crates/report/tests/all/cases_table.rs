//! The table of cases: what stands first, what is said once above it, and the short marks of caveats.

use record::Caveat;
use report::Run;
use serde_json::Value;

use crate::data::{self, Invented};
use crate::golden::text;

fn page(run: &Run) -> String {
    text("html", run)
}

/// The page without its style, script and values.
fn markup(page: &str) -> &str {
    page.split_once("<body>").unwrap().1.split_once("<script").unwrap().0
}

/// The columns of the script's first table.
fn columns(page: &str) -> Vec<Value> {
    let values = page.split_once("id=\"data\">").unwrap().1.split_once("</script>").unwrap().0;
    let values: Value = serde_json::from_str(values).unwrap();
    values["sections"][0]["c"].as_array().unwrap().clone()
}

/// Titles of the columns that the script shows.
fn titles(page: &str) -> Vec<String> {
    let shown = columns(page).into_iter().filter(|column| column[5] != 1);
    shown.map(|column| column[0].as_str().unwrap().to_owned()).collect()
}

/// Titles of the columns of the table that stands without the script.
fn static_titles(page: &str) -> Vec<String> {
    let table = page.split_once("class=\"static\"").unwrap().1;
    let head = table.split_once("<thead>").unwrap().1.split_once("</thead>").unwrap().0;
    let cells = head.split("</th>").filter(|cell| cell.contains("<th"));
    cells.map(|cell| cell.rsplit('>').next().unwrap().to_owned()).collect()
}

/// The section of the first operation, without the script's part.
fn first_section(page: &str) -> &str {
    let from = markup(page).split_once("<section id=\"section-").unwrap().1;
    from.split_once("</section>").unwrap().0
}

fn invented(caveats: &[Vec<Caveat>]) -> Run {
    let case = |(place, caveats): (usize, &Vec<Caveat>)| {
        Invented { caveats: caveats.clone(), ..Invented::new(2, 1024 << place, 1e-6 * (place + 1) as f64) }.line()
    };
    data::run(caveats.iter().enumerate().map(case).collect())
}

#[test]
fn time_interval_rate_and_wrong_follow_what_tells_rows_apart() {
    let study = page(&data::study());
    let wanted = ["bytes", "ranks", "time", "±95%", "busbw", "wrong"];
    assert_eq!(titles(&study)[..6], wanted);
    assert_eq!(static_titles(&study)[..4], wanted[..4]);
    // Sizes of one number of ranks: it is said above the table.
    let one = page(&data::one_series());
    assert_eq!(titles(&one)[..5], ["bytes", "time", "±95%", "busbw", "wrong"]);
    assert!(first_section(&one).contains("<p class=\"same\">All rows: 2 ranks</p>"), "{}", first_section(&one));
    // What is said above still is in the data: the filter and the copy have it.
    assert!(columns(&one).iter().any(|column| column[0] == "ranks" && column[5] == 1));
}

#[test]
fn a_narrow_screen_has_what_tells_rows_apart_in_one_column() {
    let study = page(&data::study());
    let section = first_section(&study);
    assert!(section.contains("<small class=\"also\">2 ranks</small>"), "{section}");
    assert!(section.contains("<th scope=\"col\" class=\"n apart\">ranks</th>"), "{section}");
    assert!(study.contains(".apart { display: none; }"), "the style hides it there");
    let head = columns(&study).into_iter().find(|column| column[0] == "ranks").unwrap();
    assert_eq!(head[4], "{} ranks");
}

#[test]
fn a_table_of_one_row_keeps_its_columns() {
    let one = page(&data::one_point());
    let titles = titles(&one);
    assert_eq!(titles[..5], ["bytes", "time", "±95%", "busbw", "wrong"], "{titles:?}");
    assert!(titles.contains(&"ranks".to_owned()) && !one.contains("class=\"same\""));
}

#[test]
fn caveats_of_most_rows_are_said_once_and_others_are_marks() {
    use Caveat::{CiAboveTarget, ContextSwitches, MeanDiffers, Noisy};
    let most = vec![CiAboveTarget, ContextSwitches];
    let run = invented(&[most.clone(), most, vec![CiAboveTarget, MeanDiffers], vec![CiAboveTarget], vec![Noisy]]);
    let page = page(&run);
    let section = first_section(&page);
    assert!(section.contains("<p class=\"most\">4 of 5 rows: CI above target.</p>"), "{section}");
    let words = "Caveats: <strong>M</strong> mean differs, <strong>N</strong> noisy, \
                 <strong>CS</strong> context switches.";
    assert!(section.contains(words), "{section}");
    for mark in ["<td>CS</td>", "<td>M</td>", "<td></td>", "<td>N</td>"] {
        assert!(section.contains(mark), "{mark}: {section}");
    }
    assert!(!section.contains("ci_above_target") && !section.contains("mean_differs"), "{section}");
    let all = self::page(&invented(&[vec![Noisy], vec![Noisy], vec![Noisy]]));
    assert!(first_section(&all).contains("<p class=\"most\">All 3 rows: noisy.</p>"), "{}", first_section(&all));
    // Two rows are too few for a sentence.
    let two = self::page(&invented(&[vec![Noisy], vec![Noisy]]));
    assert!(first_section(&two).contains("<td>N</td>") && !two.contains("class=\"most\""));
}

#[test]
fn a_section_of_one_row_folds_and_says_its_numbers() {
    let mut cases = data::one_series().cases;
    cases.push(Invented { op: "gather", ..Invented::new(2, 1 << 20, 3.1e-5) }.line());
    let page = page(&data::run(cases));
    let section = markup(&page).split_once("<section id=\"section-gather\">").unwrap().1;
    let section = section.split_once("</section>").unwrap().0;
    assert!(section.starts_with("<details class=\"one\"><summary><h2>gather</h2> <span>1 MiB: 31.0 us ± 1.0%, "));
    assert!(section.contains("wrong 0</span></summary>") && section.ends_with("</details>"), "{section}");
    assert!(!section.contains("<figure"), "one point needs no chart");
    assert!(!first_section(&page).contains("<details"), "others do not fold");
}

#[test]
fn the_summary_by_configuration_precedes_the_operations() {
    let page = page(&data::study());
    let markup = markup(&page);
    let at = |text: &str| markup.find(text).unwrap_or_else(|| panic!("no {text}"));
    let summary = at("<section id=\"Summary-by-configuration\">");
    assert!(at("What the data show</h2>") < summary && summary < at("<section id=\"section-"));
    let entry = |id: &str| at(&format!("href=\"#{id}"));
    assert!(entry("Summary-by-configuration") < entry("section-"));
    assert_eq!(markup.matches("id=\"Summary-by-configuration\"").count(), 1);
}

#[test]
fn a_tile_sets_the_unit_apart() {
    let tiles = page(&data::study());
    let value = tiles.split_once("<dd class=\"value\">").unwrap().1.split_once("</dd>").unwrap().0;
    let (number, unit) = value.split_once(' ').unwrap();
    assert!(number.parse::<f64>().is_ok() && unit == "<small>GB/s</small>", "{value}");
}

#[test]
fn the_summary_does_not_repeat_the_table_of_cases() {
    let with = |configurations: u32| {
        let cases = (2..2 + configurations).map(|ranks| Invented::new(ranks, 1 << 20, 1e-5).line());
        page(&data::run(cases.collect()))
    };
    assert!(with(3).contains("Summary-by-configuration"));
    assert!(!with(9).contains("Summary-by-configuration"), "nine rows of one case each");
}

#[test]
fn a_word_that_another_column_says_is_left_out() {
    let mut run = data::one_series();
    let table = |run: &mut Run, declared: &mut dyn FnMut(&mut record::show::Table)| {
        run.benchmarks
            .iter_mut()
            .for_each(|benchmark| benchmark.show.tables.first_mut().into_iter().for_each(&mut *declared));
    };
    for (place, case) in run.cases.iter_mut().enumerate() {
        let (way, route) = [("ring", "over the ring"), ("tree", "over the tree")][place % 2];
        case.metrics.insert("way".to_owned(), way.into());
        case.metrics.insert("route".to_owned(), route.into());
    }
    let word = |name: &str| record::show::Column::new(name, name, record::show::Format::Word);
    table(&mut run, &mut |table| drop(table.columns.splice(1..1, [word("way"), word("route")])));
    let page = page(&run);
    assert_eq!(titles(&page)[..3], ["bytes", "way", "time"]);
    assert!(columns(&page).iter().any(|column| column[0] == "route" && column[5] == 1), "a copy has it");
    assert!(!static_titles(&page).contains(&"route".to_owned()));
}

#[test]
fn an_interval_wider_than_its_value_reads_alike_with_and_without_the_script() {
    let wide = Invented { half_width: 2.5, ..Invented::new(2, 1024, 1e-6) };
    let page = page(&data::run(vec![wide.line()]));
    assert!(page.contains("<td class=\"n\">&gt;100%</td>"), "{}", first_section(&page));
    // `>` is written by its number in the values of the script.
    assert!(page.contains(",\"\\u003e100%\"]"), "{page}");
}

#[test]
fn a_number_halfway_between_two_reads_alike_with_and_without_the_script() {
    // Its first seven digits are 1.335, which a double holds as less than that.
    let page = page(&data::run(vec![Invented::new(2, 1024, 1.3350000000000001e-6).line()]));
    assert!(page.contains("<td class=\"n\">1.34 us</td>") && page.contains("[1.335e-6,\"1.34 us\"]"));
}
