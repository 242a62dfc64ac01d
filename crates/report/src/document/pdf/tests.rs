//! Documents, and what their pages then say.

use proptest::prelude::*;
use view::{Axis, ChartSpec, NamedChart, Point, Quantity, Scale, Series};

use super::super::{Align, Item, Table, Words, bullets, code, strong};
use super::look::{BOTTOM, FOOTER, LEFT, LOWEST, RIGHT, TOP};
use super::page::{DrawingMark, Page, PdfShape, Text};
use super::set::{Laid, lay_out};
use super::*;

const ABOUT: About = About { title: "sweep", program: "rankmark 0.1.0", started: "2026-11-20T10:15:00Z" };

fn words(text: &str) -> Words {
    Words::from(text)
}

fn heading(level: u8, text: &str) -> Block {
    Block::Heading(level, words(text))
}

fn paragraph(text: &str) -> Block {
    Block::Paragraph(words(text))
}

fn table(columns: usize, rows: usize) -> Block {
    let align = |column| if column == 0 { Align::Left } else { Align::Right };
    let mut table = Table::new((0..columns).map(|column| (format!("column {column}"), align(column))));
    (0..rows).for_each(|row| table.row((0..columns).map(|column| format!("r{row} {column}"))));
    Block::Table(table)
}

fn chart(title: &str) -> Block {
    let point = |x: f64| Point { x, y: 1e-6 * x, low: 0.9e-6 * x, high: 1.1e-6 * x, oversubscribed: x > 60.0 };
    let series = |style: usize| {
        let points = (1..8).map(|at| point(2.0_f64.powi(at) * (1.0 + style as f64))).collect();
        Series { label: format!("backend {style}"), style, points }
    };
    let axis = |title: &str, quantity| Axis { title: title.to_owned(), quantity, scale: Scale::Log };
    let spec = ChartSpec {
        title: title.to_owned(),
        subtitle: "f32, sum".to_owned(),
        banner: Some("SIMULATED: computed".to_owned()),
        x: axis("bytes", Quantity::Bytes),
        y: axis("time", Quantity::Seconds),
        series: (0..4).map(series).collect(),
        ..ChartSpec::default()
    };
    Block::Figure(Box::new(NamedChart { stem: "a".into(), spec }))
}

fn report() -> Vec<Block> {
    let facts = [format!("Status: {}", strong("2 cases")), format!("Command: {}", code("rankmark run x"))];
    let mut blocks = vec![heading(1, "sweep"), Block::Warning(words("SIMULATED: computed by a model"))];
    blocks.extend(bullets(facts));
    blocks.push(Block::Contents);
    blocks.extend([heading(2, "Data"), Block::List(vec![Item { words: words("one"), below: vec![words("below")] }])]);
    blocks.extend([heading(2, "all_reduce"), heading(3, "Sizes"), paragraph("What follows:"), chart("time vs bytes")]);
    blocks.extend([table(3, 5), heading(2, "Again"), Block::Command("rankmark run x \\\n  --y".to_owned())]);
    blocks
}

fn laid(blocks: Vec<Block>) -> Laid {
    lay_out(ABOUT.title, ABOUT.started, blocks)
}

fn texts(page: &Page) -> impl Iterator<Item = (DrawingMark, &Text)> {
    page.iter().filter_map(|drawing| match &drawing.shape {
        PdfShape::Text(text) => Some((drawing.mark, text)),
        _ => None,
    })
}

/// What a page says, without its header and footer.
fn said(page: &Page) -> String {
    let body = texts(page).filter(|(mark, _)| !matches!(mark, DrawingMark::Header | DrawingMark::Footer));
    body.map(|(_, text)| text.text.as_ref()).collect::<Vec<_>>().join("|")
}

fn whole(page: &Page) -> String {
    texts(page).map(|(_, text)| text.text.as_ref()).collect::<Vec<_>>().join("|")
}

/// Nothing leaves the margins, and no text lies on another.
fn assert_within(laid: &Laid) {
    for page in &laid.pages {
        let mut spots = Vec::new();
        for (mark, text) in texts(page) {
            let [x, y] = text.at;
            // A blank behind the last word shows nothing.
            let is_blank = text.text.trim().is_empty();
            assert!(
                x >= LEFT - 0.01 && (is_blank || text.right() <= RIGHT + 0.05),
                "{text:?} ends at {}",
                text.right()
            );
            match mark {
                DrawingMark::Header => assert!(y > 15.0 && y < BOTTOM / 2.0, "{text:?}"),
                DrawingMark::Footer => assert_eq!(y, FOOTER),
                _ => assert!(y > TOP && y <= BOTTOM + 0.01 && y + 0.25 * text.size < LOWEST, "{text:?}"),
            }
            spots.push([x, y - 0.7 * text.size, text.right(), y]);
        }
        assert_apart(&mut spots);
        for drawing in page {
            if let PdfShape::Fill(area, _) = drawing.shape {
                assert!(area.left >= LEFT - 0.01 && area.right <= RIGHT + 0.01 && area.bottom <= BOTTOM + 10.0);
            }
        }
    }
}

/// Boxes of left, top, right, bottom that do not overlap.
fn assert_apart(spots: &mut [[f64; 4]]) {
    spots.sort_by(|a, b| a[1].total_cmp(&b[1]));
    for (at, a) in spots.iter().enumerate() {
        for b in spots[at + 1..].iter().take_while(|b| b[1] < a[3] - 0.01) {
            assert!(a[2] <= b[0] + 0.05 || b[2] <= a[0] + 0.05, "{a:?} lies on {b:?}");
        }
    }
}

fn has(content: &[u8], part: &str) -> bool {
    content.windows(part.len()).any(|window| window == part.as_bytes())
}

#[test]
fn a_report_is_a_tagged_pdf_that_claims_ua_and_is_the_same_each_time() {
    let Pdf { content, remark } = set(&ABOUT, report()).unwrap();
    assert_eq!(remark, None);
    assert!(content.starts_with(b"%PDF-1.7") && content == set(&ABOUT, report()).unwrap().content);
    for part in ["/MarkInfo", "/Lang", "pdfuaid:part", "2026-11-20T10:15:00", "rankmark 0.1.0", "/Outlines"] {
        assert!(has(&content, part), "{part}");
    }
    for tag in ["/H1", "/H2", "/H3", "/TOCI", "/Link", "/LBody", "/TH", "/TD", "/Figure", "/Caption", "/Code"] {
        assert!(has(&content, tag), "{tag}");
    }
}

#[test]
fn contents_name_the_page_of_each_section() {
    let laid = laid(report());
    assert_within(&laid);
    let first = said(&laid.pages[0]);
    assert!(first.starts_with("sweep|SIMULATED: computed by a model|•|Status: |2 cases|"), "{first}");
    assert!(first.contains("Contents|Data |1|all_reduce |1|Again |1|Data|"), "{first}");
    let all: String = laid.pages.iter().map(whole).collect();
    for part in ["Figure 1: time vs bytes", "|•|one|•|below", "1 / 1", "sweep, 2026-11-20", "  --y"] {
        assert!(all.contains(part), "{part}: {all}");
    }
}

#[test]
fn every_page_has_the_warning_and_the_head_of_its_table() {
    let mut blocks = report();
    blocks.extend([heading(2, "Many"), table(4, 300)]);
    let laid = laid(blocks);
    assert_within(&laid);
    assert!(laid.pages.len() > 5);
    for (at, page) in laid.pages.iter().enumerate() {
        assert!(whole(page).starts_with("SIMULATED: computed by a model"));
        assert!(whole(page).ends_with(&format!("{} / {}", at + 1, laid.pages.len())));
    }
    for page in &laid.pages[laid.pages.len() - 4..] {
        assert!(said(page).contains("column 3"));
    }
    let rows: Vec<String> = laid
        .pages
        .iter()
        .flat_map(texts)
        .map(|(_, text)| text.text.to_string())
        .filter(|text| text.ends_with(" 2"))
        .collect();
    assert_eq!(rows.iter().filter(|row| row.starts_with('r')).count(), 305);
}

#[test]
fn a_heading_stays_with_what_it_is_of() {
    for lines in 30..60 {
        for below in [table(2, 3), chart("c"), paragraph(&"word ".repeat(100)), Block::Command("x".to_owned())] {
            let mut blocks: Vec<Block> = (0..lines).map(|at| paragraph(&format!("line {at}"))).collect();
            blocks.extend([heading(2, "Section"), heading(3, "Part"), paragraph("leads to this"), below]);
            let laid = laid(blocks);
            for page in &laid.pages {
                let last = page
                    .iter()
                    .rev()
                    .find(|drawing| !matches!(drawing.mark, DrawingMark::Footer | DrawingMark::Header));
                let Some(PdfShape::Text(text)) = last.map(|drawing| &drawing.shape) else { continue };
                assert!(!["Section", "Part"].contains(&text.text.as_ref()), "{lines}");
                let is_alone = text.text.as_ref() == "leads to this"
                    && page.iter().any(|d| matches!(d.shape, PdfShape::Picture(..)));
                assert!(!is_alone, "{lines}");
            }
            let of = |part: &str| laid.pages.iter().position(|page| said(page).contains(part));
            assert_eq!(of("leads to this"), of("Part"), "{lines}");
        }
    }
}

#[test]
fn a_figure_has_its_caption_and_its_lead_on_the_same_page() {
    for lines in 20..60 {
        let mut blocks: Vec<Block> = (0..lines).map(|at| paragraph(&format!("line {at}"))).collect();
        blocks.extend([paragraph("leads to this"), chart("c")]);
        let pages = laid(blocks).pages;
        let page = pages.iter().find(|page| page.iter().any(|drawing| matches!(drawing.shape, PdfShape::Picture(..))));
        let said = said(page.unwrap());
        assert!(said.contains("leads to this") && said.contains("Figure 1: c"), "{lines}: {said}");
    }
}

#[test]
fn a_character_that_no_font_has_costs_the_claim_and_not_the_pdf() {
    let blocks = || vec![heading(1, "測試"), paragraph("a 測 b \u{1F680}")];
    let Pdf { content, remark } = set(&ABOUT, blocks()).unwrap();
    let remark = remark.unwrap();
    assert!(remark.starts_with("the PDF is tagged, but does not claim PDF/UA-1: "), "{remark}");
    assert!(remark.ends_with("no built-in font has `測` (U+6E2C), and 2 more characters"), "{remark}");
    assert!(content.starts_with(b"%PDF-1.7") && !has(&content, "pdfuaid:part") && has(&content, "/StructTreeRoot"));
    assert_eq!(content, set(&ABOUT, blocks()).unwrap().content);
}

#[test]
fn metadata_are_xml_whatever_the_title() {
    let title = "<a> & \"b\" 'c' ]]> \u{FFFE}\u{1}\n測";
    let content = set(&About { title, program: title, started: title }, Vec::new()).unwrap().content;
    let text = String::from_utf8_lossy(&content);
    let (from, to) = (text.find("<x:xmpmeta").unwrap(), text.find("</x:xmpmeta>").unwrap());
    let packet = roxmltree::Document::parse(&text[from..to + "</x:xmpmeta>".len()]).unwrap();
    let says = |node: roxmltree::Node| node.text() == Some("<a> & \"b\" 'c' ]]> \u{FFFD} 測");
    assert!(packet.descendants().filter(|node| says(*node)).count() >= 2);
}

#[test]
fn hostile_documents_are_set() {
    let long = "x".repeat(20_000);
    let hostile = [
        Vec::new(),
        vec![table(64, 3), table(200, 2), table(1, 0), Block::Table(Table::new(Vec::<(&str, Align)>::new()))],
        vec![paragraph(&long), heading(2, &long), Block::Warning(words(&long)), Block::Command(long.clone())],
        vec![Block::Warning(words(&"word ".repeat(4000))), Block::Command("\t\u{0}\n\n\u{202E}a\u{301}".to_owned())],
        vec![
            Block::List(Vec::new()),
            Block::List(vec![Item::default()]),
            paragraph(""),
            heading(2, ""),
            heading(1, "b"),
        ],
        vec![heading(9, "nine"), heading(3, "three"), heading(1, "one"), heading(0, "zero"), chart(&long)],
    ];
    for blocks in hostile {
        assert_within(&laid(blocks.clone()));
        let about = About { title: &long, program: &long, started: "rubbish" };
        let pdf = set(&about, blocks).unwrap();
        assert!(pdf.content.starts_with(b"%PDF") && !has(&pdf.content, "CreationDate"));
    }
}

#[test]
fn a_row_that_no_page_holds_goes_over_several() {
    let mut tall = Table::new([("a", Align::Left), ("b", Align::Right)]);
    tall.row([words(&"word ".repeat(20_000)), words("1")]);
    tall.row([words(""), words("")]);
    let mut head = Table::new([(words(&"head ".repeat(9_000)), Align::Left), (words("b"), Align::Left)]);
    head.row(["c", "d"]);
    for table in [tall, head] {
        let laid = laid(vec![Block::Table(table)]);
        assert!(laid.pages.len() > 2);
        assert_within(&laid);
    }
}

#[test]
fn ten_thousand_rows_take_seconds() {
    let begun = std::time::Instant::now();
    let pdf = set(&ABOUT, vec![heading(2, "Many"), table(14, 10_000)]).unwrap();
    assert!(begun.elapsed().as_secs() < 60 && pdf.content.len() > 100_000);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn no_table_leaves_the_page(
        titles in prop::collection::vec(".{0,30}", 1..40),
        cells in prop::collection::vec("[a-zA-Z0-9 _./-]{0,60}|\\PC{0,20}|[0-9.]{1,9} us", 0..300),
        wide in "[a-z_]{0,400}",
    ) {
        let columns = titles.len();
        let titles = titles.into_iter().enumerate();
        let mut table = Table::new(titles.map(|(at, title)| (title, [Align::Left, Align::Right][at % 2])));
        for row in cells.chunks_exact(columns) {
            table.row(row.iter().map(String::as_str));
        }
        table.row(std::iter::repeat_n(wide, columns));
        assert_within(&laid(vec![Block::Table(table)]));
    }

    #[test]
    fn no_text_leaves_the_page(text in "\\PC{0,300}|[a-z ]{0,3000}|(\\PC ?){0,600}") {
        let item = Item { words: words(&text), below: vec![Words::prose(&text)] };
        let blocks = vec![
            heading(2, &text),
            Block::Warning(words(&text)),
            Block::Paragraph(Words::from(format!("{} {}", code(&text), strong(&text)))),
            Block::List(vec![item.clone(), item]),
            Block::Command(text.clone()),
            heading(3, &text),
            chart(&text),
        ];
        assert_within(&laid(blocks));
    }
}
