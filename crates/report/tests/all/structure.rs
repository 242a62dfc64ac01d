//! Text of a record stays text: pages and pictures of a record have the same elements and attributes, whatever its texts say.

use std::collections::BTreeMap;

use proptest::prelude::*;
use report::{FORMATS, Run};

use crate::stranger::Stranger;

/// Texts that a browser would obey somewhere.
const HOSTILE: [&str; 15] = [
    "\"><meta http-equiv=refresh content=0;url=//x>",
    "'><img src=//x onerror=f()>",
    "<script>f('x')</script>",
    "</script><script>f()</script>",
    "</style></title><base href=//x>",
    "]]></svg><image href=//x>",
    "<!--",
    "-->&lt;b&gt;<b>",
    "\" onload=\"f()",
    "' autofocus onfocus='f()",
    "javascript:f('x')//",
    "--><a href=//x>y</a>&#x3c;b&#x3e;",
    "[a](//x)![b](//y \"t\")<//z>``[c](//u)`\\[d](//v)\\",
    "<?xml-stylesheet href='//x'?><!DOCTYPE x [<!ENTITY y SYSTEM '//x'>]>",
    "\u{1}`</code>\u{2}**<form action=//x>\u{fdd0}",
];

/// What pictures are made of: elements with the attributes that they may have. How many there are depends on how wide words
/// are.
const PICTURE: [(&str, &str); 9] = [
    ("svg", "class xmlns width height viewBox preserveAspectRatio aria-hidden role aria-label font-family"),
    ("title", ""),
    ("style", ""),
    ("rect", "class x y width height fill fill-opacity"),
    ("polygon", SHAPE),
    ("polyline", SHAPE),
    ("path", SHAPE),
    ("circle", SHAPE),
    ("text", "x y font-size text-anchor textLength lengthAdjust font-weight fill fill-opacity"),
];
const SHAPE: &str =
    "points d cx cy r fill fill-opacity stroke stroke-opacity stroke-width stroke-linejoin stroke-dasharray";

/// Asserts that an element belongs to a picture.
fn is_picture(name: &str, attributes: &[String]) {
    let known = PICTURE.iter().find(|(known, _)| *known == name.trim_start_matches('/'));
    let (_, allowed) = known.unwrap_or_else(|| panic!("{name} in a picture"));
    let other = attributes.iter().find(|attribute| !allowed.split(' ').any(|known| known == *attribute));
    assert_eq!(other, None, "of {name} in a picture");
}

/// The text without signs that mean something, and with its words.
fn harmless(text: &str) -> String {
    let plain = |c: char| match c {
        '<' | '>' => '+',
        '"' | '\'' => '*',
        '&' => 'K',
        other => other,
    };
    text.chars().map(plain).collect()
}

/// The names of elements and attributes of a page, in order; the values of its script as the shape of their JSON.
fn page(text: &str) -> Vec<String> {
    let (mut names, mut pictures) = (Vec::new(), 0);
    let mut rest = text;
    while let Some(begin) = rest.find('<') {
        assert!(!rest[..begin].contains('>'), "a `>` in text: {}", &rest[..begin]);
        rest = &rest[begin + 1..];
        if let Some(end) = rest.strip_prefix("!doctype html>") {
            rest = end;
            continue;
        }
        let name_end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '/').unwrap();
        let name = rest[..name_end].to_owned();
        rest = &rest[name_end..];
        let mut attributes = Vec::new();
        loop {
            let trimmed = rest.trim_start();
            if let Some(behind) = trimmed.strip_prefix('>').or_else(|| trimmed.strip_prefix("/>")) {
                rest = behind;
                break;
            }
            assert!(trimmed.len() < rest.len(), "attributes of {name} without a space: {}", begin_of(rest));
            let end = trimmed.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap();
            attributes.push(trimmed[..end].to_owned());
            rest = &trimmed[end..];
            if let Some(value) = rest.strip_prefix("=\"") {
                let (value, behind) = value.split_once('"').unwrap();
                assert!(!value.contains(['<', '>']), "{value}");
                rest = behind;
            }
            assert!(end > 0, "an attribute without a name: {}", begin_of(rest));
        }
        pictures += usize::from(name == "svg");
        if pictures > 0 {
            is_picture(&name, &attributes);
        } else {
            names.push(format!("{name} {}", attributes.join(" ")));
        }
        pictures -= usize::from(name == "/svg");
        // Their contents are not elements.
        if ["script", "style"].contains(&name.as_str()) {
            let (content, behind) = rest.split_once(&format!("</{name}>")).unwrap();
            assert!(!content.contains("<!--") && !content.contains("<script"), "{content}");
            names.extend(serde_json::from_str::<serde_json::Value>(content).ok().map(|values| shape(&values)));
            rest = behind;
        }
    }
    names
}

fn begin_of(text: &str) -> String {
    text.chars().take(80).collect()
}

fn shape(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Array(items) => format!("[{}]", items.iter().map(shape).collect::<String>()),
        serde_json::Value::Object(members) => {
            format!(
                "{{{}}}",
                members.iter().map(|(name, member)| format!("{name}:{}", shape(member))).collect::<String>()
            )
        }
        serde_json::Value::String(_) => "s".to_owned(),
        _ => "n".to_owned(),
    }
}

/// Names of elements and attributes of XML but for pictures, which a parser for XML reads.
fn xml(text: &str, is_svg: bool) -> Vec<String> {
    let document = roxmltree::Document::parse(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let mut names = Vec::new();
    for node in document.descendants() {
        assert!(!node.is_comment() && !node.is_pi(), "{text}");
        let attributes: Vec<String> = node.attributes().map(|attribute| attribute.name().to_owned()).collect();
        match node.is_element() {
            true if is_svg => is_picture(node.tag_name().name(), &attributes),
            true => names.push(format!("{} {}", node.tag_name().name(), attributes.join(" "))),
            false => {}
        }
    }
    names
}

/// Asserts that Markdown has no element, and no link but those to its pictures.
fn is_plain_markdown(text: &str) {
    let (mut rest, mut outside) = (text, String::new());
    while let Some(at) = rest.find(['`', '\\']) {
        let (before, behind) = rest.split_at(at);
        outside.push_str(before);
        // What is escaped is text, and code is text up to a fence of the same length.
        let fence = behind.len() - behind.trim_start_matches('`').len();
        rest = match fence {
            0 => behind[1..].get(behind[1..].chars().next().map_or(0, char::len_utf8)..).unwrap_or_default(),
            _ => {
                let ends = behind[fence..].match_indices(&behind[..fence]).map(|(at, _)| fence + at);
                let is_whole = |at: &usize| !behind[..*at].ends_with('`') && !behind[at + fence..].starts_with('`');
                let end = ends.into_iter().find(is_whole).expect("code ends");
                &behind[end + fence..]
            }
        };
    }
    outside.push_str(rest);
    assert!(!outside.contains('<'), "{outside}");
    for (at, link) in outside.match_indices("](") {
        assert!(outside[at + link.len()..].starts_with("charts/"), "{}", begin_of(&outside[at..]));
    }
}

/// The elements of each file.
fn elements(run: &Run) -> BTreeMap<usize, Vec<String>> {
    let mut all = BTreeMap::new();
    for file in report::format("markdown").unwrap().render(run).unwrap() {
        is_plain_markdown(std::str::from_utf8(&file.content).unwrap());
    }
    for format in FORMATS.iter().filter(|format| ["html", "svg", "junit"].contains(&format.name())) {
        for file in format.render(run).unwrap() {
            let text = String::from_utf8(file.content).unwrap();
            all.insert(
                all.len(),
                if format.name() == "html" { page(&text) } else { xml(&text, format.name() == "svg") },
            );
        }
    }
    all
}

/// Asserts that a record with these texts has the elements of one with harmless texts.
fn check(stranger: &Stranger, texts: &[&String], hostile: &str) {
    let folder = tempfile::tempdir().unwrap();
    let with = |text: &str| {
        let texts = texts.iter().map(|own| ((*own).clone(), format!("{text} {own}"))).collect();
        let run = stranger.with(&texts).read(&folder.path().join("record"));
        run.expect("the reader takes any text there")
    };
    let (own, other) = (elements(&with(&harmless(hostile))), elements(&with(hostile)));
    assert_eq!(own.len(), other.len(), "{hostile}");
    for (at, names) in &own {
        let differs = names.iter().zip(&other[at]).find(|(own, other)| own != other);
        assert!(
            differs.is_none() && names.len() == other[at].len(),
            "{hostile} in file {at}: {differs:?}, of {} and {}\n{texts:?}",
            names.len(),
            other[at].len()
        );
    }
}

#[test]
fn every_text_of_a_record_at_once_makes_no_element() {
    let (stranger, free) = Stranger::with_free_texts();
    // Most texts of a record are free: titles, names, notes, reasons, versions, hosts.
    assert!(free.len() > 200, "{free:?}");
    for hostile in HOSTILE {
        check(stranger, &free.iter().collect::<Vec<_>>(), hostile);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

    /// Some texts: the others keep tables, charts and findings that a record of none but foreign names does not have.
    #[test]
    fn some_texts_of_a_record_make_no_element(seed in any::<u64>(), hostile in proptest::sample::select(&HOSTILE[..])) {
        let (stranger, free) = Stranger::with_free_texts();
        let mut random = seed | 1;
        let mut chosen = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % 4 == 0
        };
        let some: Vec<&String> = free.iter().filter(|_| chosen()).collect();
        check(stranger, &some, hostile);
    }
}
