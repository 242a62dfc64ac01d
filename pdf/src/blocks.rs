//! Markdown as blocks: plain data for the template. Everything that is not markup of a report (HTML, unknown links) is text.

use std::collections::BTreeMap;

use pulldown_cmark::{Alignment, CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use serde::Serialize;

/// A part of the page.
#[derive(Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Block {
    /// Level 1 is the title.
    Heading {
        level: u8,
        body: Inlines,
    },
    Paragraph {
        body: Inlines,
    },
    List {
        start: Option<u64>,
        items: Vec<Vec<Block>>,
    },
    /// A banner.
    Quote {
        body: Vec<Block>,
    },
    Code {
        text: String,
    },
    Table {
        align: Vec<&'static str>,
        head: Vec<Inlines>,
        rows: Vec<Vec<Inlines>>,
    },
    /// A chart that is there, by its path. `alt` is what a screen reader says: the title inside the SVG.
    Figure {
        path: String,
        caption: String,
        alt: String,
    },
    Rule,
}

/// Text with marks.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Inline {
    Text {
        text: String,
    },
    Code {
        text: String,
    },
    Strong {
        body: Inlines,
    },
    Emph {
        body: Inlines,
    },
    Link {
        url: String,
        body: Inlines,
    },
    Break,
    /// A picture, by its path. Left in text, it is its caption.
    #[serde(skip)]
    Picture {
        path: String,
        caption: String,
    },
}

pub type Inlines = Vec<Inline>;

/// Lists and quotations inside each other.
const DEEPEST: usize = 16;

/// Reads a page.
///
/// # Errors
/// When it is nested deeper than any report.
pub fn read(markdown: &str, charts: &BTreeMap<String, String>) -> Result<Vec<Block>, String> {
    let events = Parser::new_ext(markdown, Options::ENABLE_TABLES);
    let mut reader = Reader { events, charts, depth: 0 };
    reader.blocks()
}

struct Reader<'m> {
    events: Parser<'m>,
    charts: &'m BTreeMap<String, String>,
    depth: usize,
}

impl Reader<'_> {
    /// Blocks up to the end of what they are in. Text without a paragraph (a tight list) is one.
    fn blocks(&mut self) -> Result<Vec<Block>, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(format!("the document is nested more than {DEEPEST} deep"));
        }
        let (mut blocks, mut loose) = (Vec::new(), Vec::new());
        while let Some(event) = self.events.next() {
            let block = match event {
                Event::Start(tag) if is_inline(&tag) => {
                    loose.push(self.marked(tag)?);
                    continue;
                }
                Event::Start(tag) => {
                    self.close(&mut loose, &mut blocks);
                    self.block(tag)?
                }
                Event::End(_) => break,
                Event::Rule => Some(Block::Rule),
                other => {
                    loose.extend(inline(other));
                    continue;
                }
            };
            blocks.extend(block);
        }
        self.close(&mut loose, &mut blocks);
        self.depth -= 1;
        Ok(blocks)
    }

    fn close(&self, loose: &mut Inlines, blocks: &mut Vec<Block>) {
        if !loose.is_empty() {
            blocks.extend(self.paragraph(std::mem::take(loose)));
        }
    }

    fn block(&mut self, tag: Tag) -> Result<Option<Block>, String> {
        Ok(match tag {
            Tag::Heading { level, .. } => Some(Block::Heading { level: level as u8, body: self.inlines()? }),
            Tag::Paragraph => {
                let body = self.inlines()?;
                self.paragraph(body)
            }
            Tag::List(start) => {
                let mut items = Vec::new();
                while let Some(Event::Start(_)) = self.events.next() {
                    items.push(self.blocks()?);
                }
                Some(Block::List { start, items })
            }
            Tag::BlockQuote(_) => Some(Block::Quote { body: self.blocks()? }),
            Tag::CodeBlock(CodeBlockKind::Fenced(_) | CodeBlockKind::Indented) | Tag::HtmlBlock => {
                Some(Block::Code { text: self.plain() })
            }
            Tag::Table(columns) => Some(self.table(&columns)?),
            // Extensions that are not switched on.
            _ => {
                let body = self.blocks()?;
                (!body.is_empty()).then_some(Block::Quote { body })
            }
        })
    }

    /// A chart alone is a figure.
    fn paragraph(&self, body: Inlines) -> Option<Block> {
        match body.as_slice() {
            [] => None,
            [Inline::Picture { path, caption }] if self.charts.contains_key(path) => {
                let alt = described(&self.charts[path]).unwrap_or_else(|| caption.clone());
                Some(Block::Figure { path: path.clone(), caption: caption.clone(), alt })
            }
            _ => Some(Block::Paragraph { body: without_pictures(body) }),
        }
    }

    fn table(&mut self, columns: &[Alignment]) -> Result<Block, String> {
        let align = columns.iter().map(|column| match column {
            Alignment::Right => "right",
            Alignment::Center => "center",
            Alignment::Left | Alignment::None => "left",
        });
        let (align, mut head, mut rows) = (align.collect(), Vec::new(), Vec::new());
        while let Some(event) = self.events.next() {
            match event {
                Event::Start(Tag::TableHead) => head = self.row()?,
                Event::Start(Tag::TableRow) => rows.push(self.row()?),
                Event::End(TagEnd::Table) => break,
                _ => {}
            }
        }
        Ok(Block::Table { align, head, rows })
    }

    fn row(&mut self) -> Result<Vec<Inlines>, String> {
        let mut cells = Vec::new();
        while let Some(Event::Start(_)) = self.events.next() {
            cells.push(without_pictures(self.inlines()?));
        }
        Ok(cells)
    }

    /// Text up to the end of what it is in.
    fn inlines(&mut self) -> Result<Inlines, String> {
        let mut body = Vec::new();
        while let Some(event) = self.events.next() {
            match event {
                Event::End(_) => break,
                Event::Start(tag) => body.push(self.marked(tag)?),
                other => body.extend(inline(other)),
            }
        }
        Ok(body)
    }

    fn marked(&mut self, tag: Tag) -> Result<Inline, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(format!("the document is nested more than {DEEPEST} deep"));
        }
        let body = self.inlines()?;
        self.depth -= 1;
        Ok(match tag {
            Tag::Strong => Inline::Strong { body: without_pictures(body) },
            Tag::Emphasis => Inline::Emph { body: without_pictures(body) },
            Tag::Image { dest_url, .. } => Inline::Picture { path: dest_url.to_string(), caption: text_of(&body) },
            // A chart links to its vector graphics, which are better than the picture inside.
            Tag::Link { dest_url, .. } => match body.as_slice() {
                [Inline::Picture { caption, .. }] => {
                    Inline::Picture { path: dest_url.to_string(), caption: caption.clone() }
                }
                _ if dest_url.starts_with("https://") || dest_url.starts_with("http://") => {
                    Inline::Link { url: dest_url.to_string(), body: without_pictures(body) }
                }
                // A path says nothing beside a document that is sent around.
                _ => Inline::Text { text: text_of(&body) },
            },
            _ => Inline::Text { text: text_of(&body) },
        })
    }

    fn plain(&mut self) -> String {
        let mut text = String::new();
        for event in self.events.by_ref() {
            match event {
                Event::End(_) => break,
                Event::Text(part) | Event::Html(part) | Event::InlineHtml(part) => text += &part,
                _ => {}
            }
        }
        text.trim_end_matches('\n').to_owned()
    }
}

/// What an SVG says of itself.
fn described(svg: &str) -> Option<String> {
    let (_, rest) = svg.split_once("<title>")?;
    let (title, _) = rest.split_once("</title>")?;
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    let text = entities.iter().fold(title.to_owned(), |text, (entity, plain)| text.replace(entity, plain));
    Some(text).filter(|text| !text.trim().is_empty())
}

fn is_inline(tag: &Tag) -> bool {
    matches!(tag, Tag::Strong | Tag::Emphasis | Tag::Strikethrough | Tag::Link { .. } | Tag::Image { .. })
}

fn inline(event: Event) -> Option<Inline> {
    Some(match event {
        Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => Inline::Text { text: text.into_string() },
        Event::Code(text) => Inline::Code { text: text.into_string() },
        Event::SoftBreak => Inline::Text { text: " ".to_owned() },
        Event::HardBreak => Inline::Break,
        _ => return None,
    })
}

fn without_pictures(body: Inlines) -> Inlines {
    let caption = |inline| match inline {
        Inline::Picture { caption, .. } => Inline::Text { text: caption },
        other => other,
    };
    body.into_iter().map(caption).collect()
}

/// The text without its marks.
pub fn text_of(body: &[Inline]) -> String {
    let of = |inline: &Inline| match inline {
        Inline::Text { text } | Inline::Code { text } => text.clone(),
        Inline::Strong { body } | Inline::Emph { body } | Inline::Link { body, .. } => text_of(body),
        Inline::Picture { caption, .. } => caption.clone(),
        Inline::Break => " ".to_owned(),
    };
    body.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charts() -> BTreeMap<String, String> {
        [("charts/a.svg".to_owned(), "<svg><title>a &lt; b &amp;lt;</title></svg>".to_owned())].into()
    }

    fn text(text: &str) -> Inline {
        Inline::Text { text: text.to_owned() }
    }

    #[test]
    fn a_report_becomes_blocks() {
        let page = "# T\n\n> **W**\n\n* a: `x`\n* b\n  * c\n\n[![t](charts/a.png)](charts/a.svg)\n\n| a | b |\n| - | -: |\n\
                    | 1 |  |\n\n```sh\nrun #x\n```\n";
        let blocks = read(page, &charts()).unwrap();
        let paragraph = |body| Block::Paragraph { body };
        assert_eq!(blocks[0], Block::Heading { level: 1, body: vec![text("T")] });
        let strong = Inline::Strong { body: vec![text("W")] };
        assert_eq!(blocks[1], Block::Quote { body: vec![paragraph(vec![strong])] });
        let Block::List { start: None, items } = &blocks[2] else { panic!("{blocks:?}") };
        assert_eq!(items[0], [paragraph(vec![text("a: "), Inline::Code { text: "x".into() }])]);
        assert!(matches!(&items[1][..], [Block::Paragraph { .. }, Block::List { .. }]));
        assert_eq!(
            blocks[3],
            Block::Figure { path: "charts/a.svg".into(), caption: "t".into(), alt: "a < b &lt;".into() }
        );
        let row = vec![vec![text("1")], Vec::new()];
        let head = vec![vec![text("a")], vec![text("b")]];
        assert_eq!(blocks[4], Block::Table { align: vec!["left", "right"], head, rows: vec![row] });
        assert_eq!(blocks[5], Block::Code { text: "run #x".into() });
    }

    #[test]
    fn what_is_no_markup_of_a_report_is_text() {
        let blocks =
            read("<script>x</script>\n\na <b>c</b> [l](file:///etc/passwd) ![p](/etc/passwd)", &charts()).unwrap();
        assert_eq!(blocks[0], Block::Code { text: "<script>x</script>".into() });
        let Block::Paragraph { body } = &blocks[1] else { panic!("{blocks:?}") };
        assert!(body.iter().all(|inline| matches!(inline, Inline::Text { .. })), "{body:?}");
        assert_eq!(text_of(body), "a <b>c</b> l p");
    }

    #[test]
    fn deep_nesting_is_refused() {
        assert!(read(&">".repeat(200), &charts()).unwrap_err().contains("deep"));
        assert!(read(&format!("{}x", "[".repeat(100_000)), &charts()).is_ok());
    }
}
