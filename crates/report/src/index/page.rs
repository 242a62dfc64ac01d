//! The index page's HTML.

use view::number::{count, seconds};

use super::{Index, IndexCase, IndexChange, IndexMachine, IndexRun, chart, style};
use crate::escape::one_line as text;
use crate::markup::{Address, Css, Html, Literal, Page, html};

/// The whole page.
pub(super) fn page(index: &Index) -> Html {
    let title = text(&index.title);
    let mut out = html!("<header><h1>{}</h1><p>{}</p></header>\n<main>\n", title, text(&index.summary));
    for machine in &index.machines {
        section(&mut out, machine);
    }
    if !index.left_out.is_empty() {
        out.literal("<section><h2>Records that are left out</h2>\n");
        let row = |[place, why]: &[String; 2]| {
            html!("<tr><td>{}</td><td class=\"long\">{}</td></tr>\n", text(place), text(why))
        };
        table(&mut out, &["record", "reason"], index.left_out.iter().map(row));
        out.literal("</section>\n");
    }
    out.literal("</main>\n");
    let (title, style) = (format!("{title} - Rankmark"), Css::from(Literal(style::CSS)));
    Page { title: &title, style, body: out, script: None }.write()
}

/// A table in a frame that scrolls where the page is narrow.
fn table(out: &mut Html, head: &[&str], rows: impl Iterator<Item = Html>) {
    out.literal("<div class=\"wide\"><table><thead><tr>");
    for title in head {
        // A title that ends in a colon stands over numbers.
        match title.strip_suffix(':') {
            Some(title) => html!(out => "<th scope=\"col\" class=\"number\">{}</th>", title),
            None => html!(out => "<th scope=\"col\">{}</th>", title),
        }
    }
    out.literal("</tr></thead><tbody>\n");
    rows.for_each(|row| *out += row);
    out.literal("</tbody></table></div>\n");
}

fn section(out: &mut Html, machine: &IndexMachine) {
    html!(out => "<section><h2>{}</h2>\n", text(&machine.name));
    if let Some(banner) = &machine.banner {
        html!(out => "<p class=\"banner\" role=\"note\">{}</p>\n", text(banner));
    }
    html!(
        out => "<p class=\"quiet\">{}, {}. {}</p>\n",
        count(machine.runs.len(), "run", "runs"),
        count(machine.cases.len(), "case", "cases"),
        text(&machine.noise)
    );
    changes(out, machine);
    cases(out, machine);
    out.literal("<h3>Runs, the newest first</h3>\n");
    let rows = machine.runs.iter().rev().map(run);
    table(out, &["date (UTC)", "run", "tags", "plan", "cases", "record"], rows);
    out.literal("</section>\n");
}

fn run(run: &IndexRun) -> Html {
    let [ok, failed, skipped, open] = run.counts;
    let mut parts = vec![html!("{} ok", ok)];
    parts.extend((failed > 0).then(|| html!("<span class=\"worse\">{} failed</span>", failed)));
    parts.extend((skipped > 0).then(|| html!("{} skipped", skipped)));
    parts.extend((open > 0).then(|| html!("{} not run", open)));
    parts.extend((!run.note.is_empty()).then(|| html!("{}", text(&run.note))));
    let name = match &run.link {
        Some(link) => html!("<a href=\"{}\">{}</a>", Address::of_path(link), text(&run.name)),
        None => html!("{}", text(&run.name)),
    };
    html!(
        "<tr><td>{}</td><td>{}</td><td class=\"long\">{}</td><td>{}</td><td>{}</td><td class=\"quiet\">{}</td></tr>\n",
        text(&run.date),
        name,
        text(&run.tags),
        text(&run.plan),
        Html::joined(parts, ", "),
        text(&run.directory)
    )
}

fn changes(out: &mut Html, machine: &IndexMachine) {
    let changed = |change: &IndexChange| {
        let run = machine.runs.get(change.run);
        let (date, name) = run.map_or(("", ""), |run| (run.date.as_str(), run.name.as_str()));
        let differs = match change.differences.len() {
            0 => "The record shows no other difference from the run before.".to_owned(),
            _ => format!("Also changed: {}.", text(&change.differences.join("; "))),
        };
        html!(
            "<li class=\"{}\"><strong>{}</strong> {}<ul>{}</ul><p class=\"quiet\">{}</p></li>\n",
            if change.better { "better" } else { "worse" },
            text(date),
            text(name),
            change.cases.iter().map(|case| html!("<li>{}</li>", text(case))).collect::<Html>(),
            differs
        )
    };
    if machine.changes.is_empty() {
        return;
    }
    out.literal("<h3>Change points, the newest first</h3>\n<ul class=\"changes\">\n");
    machine.changes.iter().rev().for_each(|change| *out += changed(change));
    out.literal("</ul>\n");
}

fn cases(out: &mut Html, machine: &IndexMachine) {
    let row = |case: &IndexCase| {
        let time = |point: Option<&super::IndexPoint>| point.map_or(String::new(), |point| seconds(point.median_s));
        let medians: Vec<f64> = case.points.iter().map(|point| point.median_s).collect();
        let median = if medians.is_empty() { String::new() } else { seconds(stats::median(&medians)) };
        let sizes = case
            .changes
            .iter()
            .map(|change| html!("<span class=\"{}\">{}</span>", chart::kind(change), chart::size(change)));
        let number = |text: &str| html!("<td class=\"number\">{}</td>", text);
        html!(
            "<tr><td class=\"long\">{}</td>{}{}{}{}<td>{}</td>{}<td>{}</td></tr>\n",
            text(&case.label),
            number(&case.points.len().to_string()),
            number(&time(case.points.first())),
            number(&median),
            number(&time(case.points.last())),
            chart::spark(case, machine.runs.len()),
            number(&case.noise),
            Html::joined(sizes, ", ")
        )
    };
    out.literal("<h3>Cases</h3>\n");
    let head = ["case", "runs:", "first:", "median:", "last:", "time over runs", "runs differ by:", "changes"];
    table(out, &head, machine.cases.iter().map(row));
    let (changed, steady): (Vec<&IndexCase>, Vec<&IndexCase>) =
        machine.cases.iter().partition(|case| !case.changes.is_empty());
    if !changed.is_empty() {
        out.literal("<h3>Cases that changed</h3>\n");
        cards(out, &changed, machine);
    }
    if !steady.is_empty() {
        // Open where there is nothing else to see.
        let open = Literal(if changed.is_empty() { " open" } else { "" });
        let title = if changed.is_empty() { "Charts" } else { "Charts of the other cases" };
        html!(out => "<details{}><summary>{} ({})</summary>\n", open, title, steady.len());
        cards(out, &steady, machine);
        out.literal("</details>\n");
    }
}

fn cards(out: &mut Html, cases: &[&IndexCase], machine: &IndexMachine) {
    out.literal("<div class=\"cards\">\n");
    for case in cases {
        let noise = if case.noise.is_empty() { String::new() } else { format!(", runs differ by {}", case.noise) };
        html!(
            out => "<figure class=\"card\"><figcaption>{}<span>time, {}{}</span></figcaption>{}</figure>\n",
            text(&case.label),
            count(case.points.len(), "run", "runs"),
            noise,
            chart::chart(case, machine)
        );
    }
    out.literal("</div>\n");
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
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    }
}
