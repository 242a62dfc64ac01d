//! A document as a page of one file, which loads nothing and runs no script; the same document gives the same bytes.

use super::{Block, html::elements};
use crate::markup::{Css, Html, Literal, Page, html};

/// One set of variables each for light and dark pages.
const CSS: &str = "
:root{color-scheme:light dark;--page:#fbfbfa;--card:#fff;--ink:#222;--quiet:#666;--line:#e2e2e2;--blue:#0072b2;
--worse:#b34700;--care:#8a6100;--better:#007a59;--warn:#ffecb3;--warn-ink:#7a3f00}
@media (prefers-color-scheme:dark){:root{--page:#16181d;--card:#1d2026;--ink:#e8e8e8;--quiet:#aaacb2;--line:#343740;
--blue:#56b4e9;--care:#e0b050;--worse:#ff9d5c;--better:#4fd1a5;--warn:#4a380e;--warn-ink:#ffd58a}}
*{box-sizing:border-box}
body{margin:0 auto;padding:24px;max-width:1240px;background:var(--page);color:var(--ink);
font:15px/1.45 system-ui,-apple-system,\"Segoe UI\",\"DejaVu Sans\",sans-serif}
h1{font-size:24px;margin:0 0 4px}h2{font-size:18px;margin:32px 0 4px}h3{font-size:15px;margin:20px 0 8px}
p{margin:4px 0}a{color:var(--blue)}.quiet{color:var(--quiet)}
.banner{background:var(--warn);color:var(--warn-ink);padding:8px 12px;border-radius:6px;margin:8px 0;font-weight:600}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;background:var(--card);border:1px solid var(--line);border-radius:6px}
th,td{text-align:left;padding:5px 10px;border-bottom:1px solid var(--line);white-space:nowrap;vertical-align:top}
th{color:var(--quiet);font-weight:600;font-size:13px}tr:last-child td{border-bottom:0}
td.long{white-space:normal;min-width:220px}.n{text-align:right;font-variant-numeric:tabular-nums}
.good{color:var(--better)}.care{color:var(--care)}td.bad,td.care{font-weight:600}.bad{color:var(--worse)}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(380px,100%),1fr));gap:12px}
.card{background:var(--card);border:1px solid var(--line);border-radius:6px;padding:10px 12px;margin:0}
.card figcaption{font-weight:600;margin-bottom:2px;overflow-wrap:anywhere}.card figcaption span{font-weight:400;color:var(--quiet);display:block;font-size:13px}
svg{display:block;width:100%;height:auto}.spark{width:120px;height:24px}
.axis{stroke:var(--line)}.line{fill:none;stroke:var(--blue);stroke-width:1.5}.dot{fill:var(--blue)}
.bar{stroke:var(--blue);stroke-width:1;opacity:.55}.level{stroke:var(--ink);stroke-width:1.5;opacity:.75}
.mark{stroke-width:1.5;stroke-dasharray:4 3}.mark.worse{stroke:var(--worse)}.mark.better{stroke:var(--better)}
text{fill:var(--quiet);font-size:11px}text.worse,.worse{fill:var(--worse);color:var(--worse)}text.better,.better{fill:var(--better);color:var(--better)}
text.size{font-weight:700}
summary{cursor:pointer;margin:16px 0 8px}
.verdict{font-size:19px;border-bottom:4px solid var(--better);padding-bottom:6px;margin:8px 0 12px;color:var(--ink)}
.verdict.care{border-color:var(--care)}.verdict.bad{border-color:var(--worse)}
.map{display:grid;grid-template-columns:repeat(auto-fill,minmax(84px,1fr));gap:4px;margin:8px 0}
.map div{border:1px solid var(--line);border-left:4px solid var(--better);background:var(--card);border-radius:4px;
padding:3px 6px;font-size:12px;overflow:hidden;min-height:38px;color:var(--ink)}
.map div b{display:block;font-weight:600;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.map .care{border-left-color:var(--care)}.map .bad{border-left-color:var(--worse);background:var(--warn);
color:var(--warn-ink)}
@media print{.map div{break-inside:avoid}body{max-width:none;padding:0}.card{break-inside:avoid}}
";

/// The page.
pub(super) fn page(title: &str, blocks: &[Block]) -> Html {
    let title = format!("{title} - Rankmark");
    let body = html!("<main>\n{}\n</main>\n", elements(blocks));
    Page { title: &title, style: Css::from(Literal(CSS)), body, script: None }.write()
}

#[cfg(test)]
mod tests {
    use view::terminal;

    use super::super::{Card, Column, Item, Table, TableRow, Tile, TimeChange, TimePoint, Timeline, Tone, link};
    use super::*;

    #[test]
    fn the_style_sheet_loads_nothing() {
        assert!(!CSS.contains("url(") && !CSS.contains("@import") && !CSS.contains("</"));
    }

    /// Every kind of block, with text that would be markup.
    fn hostile() -> Vec<Block> {
        let evil = "<script>alert(1)</script>\"'&\u{202E}";
        let points = (0..8).map(|run| TimePoint {
            run,
            seconds: if run < 5 { 1e-5 } else { 1.2e-5 },
            interval: Some([0.9e-5, 1.3e-5]),
        });
        let timeline = Timeline {
            dates: vec![evil.to_owned(); 8].into(),
            points: points.collect(),
            changes: vec![TimeChange { at: 5, ratio: 1.2 }],
        };
        let mut table = Table::new([Column::left(evil), Column::left("time")]);
        table.push(TableRow::new([evil, ""]).tone(0, Tone::Bad));
        table.push(TableRow::new([link(evil, "javascript:a b\"<>/report.md").as_str(), ""]));
        table.draw(1, vec![timeline.clone(), Timeline::default()]);
        let tile = Tile { tone: Tone::Care, name: evil.to_owned(), figure: evil.to_owned(), tip: evil.to_owned() };
        let card = Card { title: evil.to_owned(), note: evil.to_owned(), timeline };
        vec![
            Block::Heading(1, evil.into()),
            Block::Verdict(Tone::Bad, evil.into()),
            Block::Warning(evil.into()),
            Block::Actions(vec![evil.into()]),
            Block::Tiles(vec![tile]),
            Block::List(vec![Item { words: evil.into(), below: vec![evil.into()] }]),
            Block::Table(table),
            Block::OnPage(vec![Block::Note(evil.into())]),
            Block::Folded { title: evil.to_owned(), open: false, blocks: vec![Block::Cards(vec![card])] },
        ]
    }

    #[test]
    fn no_text_becomes_markup_and_nothing_is_loaded() {
        let page = page("<b>", &hostile()).into_string();
        assert!(!page.contains("<script") && !page.contains('\u{202E}') && !page.contains("<title><b>"), "{page}");
        let address = "href=\"./javascript%3Aa%20b%22%3C%3E/report.md\"";
        assert!(!page.contains("href=\"javascript:") && page.contains(address), "{page}");
        let body = &page[page.find("<body>").unwrap()..];
        for loading in ["src=", "url(", "<link", "<img", "<iframe", "@import", " style=", "onclick=", "onload="] {
            assert!(!body.contains(loading), "{loading}");
        }
        assert!(page.contains("default-src 'none'") && page.contains("+20%"));
        assert!(!page.contains("NaN") && !page.contains("inf\""), "{page}");
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    }

    /// Each writer knows each kind of block.
    #[test]
    fn every_writer_takes_every_block() {
        let blocks = hostile();
        let text = super::super::terminal::text(&blocks, 60);
        assert!(text.lines().all(|line| terminal::output(line).chars().count() <= 75), "{text}");
        assert!(text.contains("do: ") && text.contains("warning: "), "{text}");
        let markdown = super::super::markdown::text(&blocks).into_string();
        assert!(markdown.contains("&lt;script>") && !markdown.contains("<script>"), "{markdown}");
    }
}
