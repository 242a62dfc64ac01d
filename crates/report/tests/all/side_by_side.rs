//! Cases that stand side by side in a row, as their benchmark declares it.

use crate::data;
use crate::golden::text;

/// Both ways of a call stand in one row, as the record declares it, and CSV keeps a row for each.
#[test]
fn both_ways_of_a_call_share_a_row() {
    let line = |way: bool, bytes: u64, time: f64| {
        let mut line = data::Invented::new(2, bytes, time).line();
        line.parameters.insert("in_place", way.into());
        line.id = format!("{:012x}", (time * 1e9) as u64);
        line
    };
    let mut lines = vec![line(true, 1024, 1e-6), line(false, 1024, 2e-6), line(true, 4096, 3e-6)];
    lines[1].caveats = vec![record::Caveat::Noisy];
    let run = data::run(lines);
    let page = text("markdown", &run);
    let (_, table) = page.split_once("## all_reduce").expect("a section");
    let (table, _) = table.split_once("\n## ").expect("a section behind it");
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| ") && line.contains("iB")).collect();
    let row = rows.iter().find(|row| row.contains("1 KiB")).expect("a row");
    let (out, within) = (row.find("2.00 us").expect("out of place"), row.find("1.00 us").expect("in place"));
    assert!(out < within && row.contains("out of place: N"), "{row}");
    let titles = table.lines().find(|line| line.contains("busbw GB/s") && line.contains("bytes")).expect("titles");
    assert!(titles.find("out of place time") < titles.find("| in place time"), "{titles}");
    assert!(!titles.contains("variant"), "what its columns say: {titles}");
    assert_eq!(rows.iter().filter(|row| row.contains("4 KiB")).count(), 1, "one way alone has its row: {table}");
    assert_eq!(text("csv", &run).lines().count(), 4);
    // A record of a program that declared no pivot has a row for each case.
    let mut older = run;
    for table in older.benchmarks.iter_mut().flat_map(|declared| &mut declared.show.tables) {
        table.pivot.clear();
        table.columns.iter_mut().for_each(|column| column.each = false);
    }
    let page = text("markdown", &older);
    let row = page.lines().find(|line| line.starts_with("| ") && line.contains("2.00 us")).expect("a row");
    assert!(row.contains("out of place") && !row.contains("1.00 us"), "{row}");
}
