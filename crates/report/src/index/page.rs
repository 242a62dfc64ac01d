//! The index page's HTML. All text from data is escaped here.

use std::fmt::Write as _;

use view::number::{count, seconds};

use super::{Index, IndexCase, IndexChange, IndexMachine, IndexRun, chart, style};
use crate::escape::{one_line, xml};

/// Text from data: on one line, without markup.
fn text(from: &str) -> String {
    xml(&one_line(from))
}

/// The whole page.
pub(super) fn page(index: &Index) -> String {
    let mut out = String::with_capacity(64 * 1024);
    let title = text(&index.title);
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>{title} - Rankmark</title>\n\
         <style>{}</style>\n</head>\n<body>\n<header><h1>{title}</h1><p>{}</p></header>\n<main>\n",
        style::policy(),
        style::CSS,
        text(&index.summary)
    );
    for machine in &index.machines {
        section(&mut out, machine);
    }
    if !index.left_out.is_empty() {
        out.push_str("<section><h2>Records that are left out</h2>\n");
        let rows = index
            .left_out
            .iter()
            .map(|[place, why]| format!("<tr><td>{}</td><td class=\"long\">{}</td></tr>\n", text(place), text(why)));
        table(&mut out, &["record", "reason"], rows);
        out.push_str("</section>\n");
    }
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

/// A table in a frame that scrolls where the page is narrow.
fn table(out: &mut String, head: &[&str], rows: impl Iterator<Item = String>) {
    // A title that ends in a colon stands over numbers.
    let head: String = head
        .iter()
        .map(|title| match title.strip_suffix(':') {
            Some(title) => format!("<th scope=\"col\" class=\"number\">{title}</th>"),
            None => format!("<th scope=\"col\">{title}</th>"),
        })
        .collect();
    let _ = writeln!(out, "<div class=\"wide\"><table><thead><tr>{head}</tr></thead><tbody>");
    rows.for_each(|row| out.push_str(&row));
    out.push_str("</tbody></table></div>\n");
}

fn section(out: &mut String, machine: &IndexMachine) {
    let _ = writeln!(out, "<section><h2>{}</h2>", text(&machine.name));
    if let Some(banner) = &machine.banner {
        let _ = writeln!(out, "<p class=\"banner\" role=\"note\">{}</p>", text(banner));
    }
    let _ = writeln!(
        out,
        "<p class=\"quiet\">{}, {}. {}</p>",
        count(machine.runs.len(), "run", "runs"),
        count(machine.cases.len(), "case", "cases"),
        text(&machine.noise)
    );
    changes(out, machine);
    cases(out, machine);
    out.push_str("<h3>Runs, the newest first</h3>\n");
    let rows = machine.runs.iter().rev().map(run);
    table(out, &["date (UTC)", "run", "tags", "plan", "cases", "record"], rows);
    out.push_str("</section>\n");
}

fn run(run: &IndexRun) -> String {
    let [ok, failed, skipped, open] = run.counts;
    let others = [(failed, "failed"), (skipped, "skipped"), (open, "not run")];
    let mut parts = vec![format!("{ok} ok")];
    parts.extend(others.iter().filter(|(number, _)| *number > 0).map(|(number, word)| match *word {
        "failed" => format!("<span class=\"worse\">{number} {word}</span>"),
        _ => format!("{number} {word}"),
    }));
    if !run.note.is_empty() {
        parts.push(text(&run.note));
    }
    let name = match &run.link {
        Some(link) => format!("<a href=\"{}\">{}</a>", xml(&href(link)), text(&run.name)),
        None => text(&run.name),
    };
    format!(
        "<tr><td>{}</td><td>{name}</td><td class=\"long\">{}</td><td>{}</td><td>{}</td><td class=\"quiet\">{}</td></tr>\n",
        text(&run.date),
        text(&run.tags),
        text(&run.plan),
        parts.join(", "),
        text(&run.directory)
    )
}

/// A relative path as an address: every byte that could mean something else is written by its number. A first part with a
/// colon would be a scheme, so the path begins with a dot.
fn href(path: &str) -> String {
    let mut address = if path.starts_with("../") { String::new() } else { "./".to_owned() };
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                address.push(char::from(byte))
            }
            other => {
                let _ = write!(address, "%{other:02X}");
            }
        }
    }
    address
}

fn changes(out: &mut String, machine: &IndexMachine) {
    let changed = |change: &IndexChange| {
        let run = machine.runs.get(change.run);
        let (date, name) = run.map_or(("", ""), |run| (run.date.as_str(), run.name.as_str()));
        let cases: String = change.cases.iter().map(|case| format!("<li>{}</li>", text(case))).collect();
        let kind = if change.better { "better" } else { "worse" };
        let differs = match change.differences.len() {
            0 => "The record shows no other difference from the run before.".to_owned(),
            _ => format!("Also changed: {}.", text(&change.differences.join("; "))),
        };
        format!(
            "<li class=\"{kind}\"><strong>{}</strong> {}<ul>{cases}</ul><p class=\"quiet\">{differs}</p></li>\n",
            text(date),
            text(name)
        )
    };
    if machine.changes.is_empty() {
        return;
    }
    out.push_str("<h3>Change points, the newest first</h3>\n<ul class=\"changes\">\n");
    machine.changes.iter().rev().for_each(|change| out.push_str(&changed(change)));
    out.push_str("</ul>\n");
}

fn cases(out: &mut String, machine: &IndexMachine) {
    let row = |case: &IndexCase| {
        let time = |point: Option<&super::IndexPoint>| point.map_or(String::new(), |point| seconds(point.median_s));
        let medians: Vec<f64> = case.points.iter().map(|point| point.median_s).collect();
        let median = if medians.is_empty() { String::new() } else { seconds(stats::median(&medians)) };
        let sizes: Vec<String> = case
            .changes
            .iter()
            .map(|change| format!("<span class=\"{}\">{}</span>", chart::kind(change), xml(&chart::size(change))))
            .collect();
        let number = |text: &str| format!("<td class=\"number\">{}</td>", xml(text));
        format!(
            "<tr><td class=\"long\">{}</td>{}{}{}{}<td>{}</td>{}<td>{}</td></tr>\n",
            text(&case.label),
            number(&case.points.len().to_string()),
            number(&time(case.points.first())),
            number(&median),
            number(&time(case.points.last())),
            chart::spark(case, machine.runs.len()),
            number(&case.noise),
            sizes.join(", ")
        )
    };
    out.push_str("<h3>Cases</h3>\n");
    let head = ["case", "runs:", "first:", "median:", "last:", "time over runs", "runs differ by:", "changes"];
    table(out, &head, machine.cases.iter().map(row));
    let (changed, steady): (Vec<&IndexCase>, Vec<&IndexCase>) =
        machine.cases.iter().partition(|case| !case.changes.is_empty());
    if !changed.is_empty() {
        out.push_str("<h3>Cases that changed</h3>\n");
        cards(out, &changed, machine);
    }
    if !steady.is_empty() {
        // Open where there is nothing else to see.
        let open = if changed.is_empty() { " open" } else { "" };
        let title = if changed.is_empty() { "Charts" } else { "Charts of the other cases" };
        let _ = writeln!(out, "<details{open}><summary>{title} ({})</summary>", steady.len());
        cards(out, &steady, machine);
        out.push_str("</details>\n");
    }
}

fn cards(out: &mut String, cases: &[&IndexCase], machine: &IndexMachine) {
    out.push_str("<div class=\"cards\">\n");
    for case in cases {
        let noise = if case.noise.is_empty() { String::new() } else { format!(", runs differ by {}", case.noise) };
        let _ = writeln!(
            out,
            "<figure class=\"card\"><figcaption>{}<span>time, {}{}</span></figcaption>{}</figure>",
            text(&case.label),
            count(case.points.len(), "run", "runs"),
            xml(&noise),
            chart::chart(case, machine)
        );
    }
    out.push_str("</div>\n");
}

#[cfg(test)]
mod tests {
    use super::super::{IndexMark, IndexPoint, index};
    use super::*;

    fn hostile() -> Index {
        let evil = "<script>alert(1)</script>\"'&\u{202E}";
        let run = |number: usize| IndexRun {
            date: format!("2026-11-{:02} 10:15:00", number + 1),
            name: evil.to_owned(),
            tags: evil.to_owned(),
            plan: "javascript:alert(1)".to_owned(),
            counts: [3, 1, 0, 2],
            note: "1 damaged line".to_owned(),
            link: Some("javascript:a b\"<>/report.md".to_owned()),
            directory: evil.to_owned(),
        };
        let points = (0..8).map(|run| IndexPoint {
            run,
            median_s: if run < 5 { 1e-5 } else { 1.2e-5 },
            ci95: Some([0.9e-5, 1.3e-5]),
        });
        let case = IndexCase {
            label: evil.to_owned(),
            points: points.collect(),
            noise: "±3.1%".to_owned(),
            changes: vec![IndexMark { at: 5, ratio: 1.2 }],
        };
        Index {
            title: evil.to_owned(),
            summary: evil.to_owned(),
            machines: vec![IndexMachine {
                name: evil.to_owned(),
                banner: Some(evil.to_owned()),
                runs: (0..8).map(run).collect(),
                cases: vec![case.clone(), IndexCase { changes: Vec::new(), ..case }, IndexCase::default()],
                changes: vec![IndexChange {
                    run: 5,
                    cases: vec![evil.to_owned()],
                    differences: vec![evil.to_owned()],
                    better: false,
                }],
                noise: evil.to_owned(),
            }],
            left_out: vec![[evil.to_owned(), evil.to_owned()]],
        }
    }

    #[test]
    fn no_text_becomes_markup_and_nothing_is_loaded() {
        let page = index(&hostile());
        assert!(!page.contains("<script") && !page.contains('\u{202E}'), "{page}");
        assert!(
            !page.contains("href=\"javascript:") && page.contains("href=\"./javascript%3Aa%20b%22%3C%3E/report.md\"")
        );
        let body = &page[page.find("<body>").unwrap()..];
        for loading in ["src=", "url(", "<link", "<img", "<iframe", "@import", " style=", "onclick=", "onload="] {
            assert!(!body.contains(loading), "{loading}");
        }
        assert!(page.contains("default-src 'none'") && page.contains("+20%") && page.contains("1 damaged line"));
        assert_eq!(page, index(&hostile()), "the same content gives the same bytes");
        assert!(!page.contains("NaN") && !page.contains("inf\""), "{page}");
    }

    #[test]
    fn an_empty_folder_has_a_page() {
        let page = index(&Index { title: "results".into(), ..Index::default() });
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    }

    #[test]
    fn a_path_up_stays_a_path_up() {
        assert_eq!((href("../a/b.md").as_str(), href("a:b/report.md").as_str()), ("../a/b.md", "./a%3Ab/report.md"));
    }
}
