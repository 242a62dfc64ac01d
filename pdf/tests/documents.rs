//! Documents in, PDFs out, through the program as `rankmark` runs it.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

/// Runs the program on this text.
fn run(input: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rankmark-pdf"));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

fn pdf(document: &Value) -> Vec<u8> {
    let output = run(document.to_string().as_bytes());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn document(markdown: &str) -> Value {
    let chart = r##"<svg xmlns="http://www.w3.org/2000/svg" width="400" height="200" viewBox="0 0 400 200"><title>a chart</title>
        <rect width="400" height="200" fill="#ffffff"/><text x="20" y="40" font-family="Arimo" font-size="20">inchart</text></svg>"##;
    json!({
        "rankmark_document": 1, "title": "sweep", "program": "rankmark 0.1.0", "started": "2026-11-20T10:15:00Z",
        "markdown": markdown, "charts": {"charts/a.svg": chart}
    })
}

/// The text of a PDF by pdftotext (poppler); None where that is not installed.
fn text(pdf: &[u8]) -> Option<String> {
    let mut command = Command::new("pdftotext");
    let started = command.args(["-", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let Ok(mut child) = started else {
        println!("skipped: text of PDFs: pdftotext is not installed");
        return None;
    };
    child.stdin.take().unwrap().write_all(pdf).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    Some(String::from_utf8(output.stdout).unwrap())
}

const PAGE: &str = "# sweep\n\n> **SIMULATED: computed**\n\n* Status: 2 cases\n* Command: `rankmark run x`\n\n## Data\n\n* one\n\n\
    ## all_reduce\n\n[![time vs bytes](charts/a.png)](charts/a.svg)\n\n| bytes | time |\n| ----: | :--- |\n| 1 MB | 3 us |\n\n\
    ## Again\n\n```sh\nrankmark run x\n```\n";

#[test]
fn a_report_is_a_tagged_pdf_that_claims_ua_and_is_the_same_each_time() {
    let first = pdf(&document(PAGE));
    assert!(first.starts_with(b"%PDF-1.7"));
    assert!(first == pdf(&document(PAGE)), "the same document gives the same bytes");
    let has = |words: &str| first.windows(words.len()).any(|window| window == words.as_bytes());
    assert!(has("pdfuaid:part") && has("2026-11-20T10:15:00"), "the claim and the date are in the metadata");
    assert!(run(document(PAGE).to_string().as_bytes()).stderr.is_empty());
}

#[test]
fn text_is_extractable_and_marks_are_on_every_page() {
    let rows: String = (0..300).map(|row| format!("| row{row} | 3 us |\n")).collect();
    let long = format!("{PAGE}\n## Many\n\n| caption | time |\n| --- | --- |\n{rows}");
    let Some(text) = text(&pdf(&document(&long))) else { return };
    let pages: Vec<&str> = text.trim_end_matches('\u{c}').split('\u{c}').collect();
    assert!(pages.len() > 3, "{}", pages.len());
    assert!(pages.iter().all(|page| page.contains("SIMULATED: computed")), "{text}");
    // Its last page, too, names the columns.
    assert!(pages.last().unwrap().contains("row299") && pages.last().unwrap().contains("caption"), "{text}");
    for words in ["Contents", "Figure 1: time vs bytes", "inchart", "1 MB", "rankmark run x"] {
        assert!(text.contains(words), "`{words}` is missing: {text}");
    }
    // Some versions of pdftotext leave out the spaces around the stroke.
    let first = pages[0].replace(' ', "");
    assert!(first.contains(&format!("\n1/{}", pages.len())), "{first}");
}

/// Text that is code in typst, HTML, LaTeX, a shell or a spreadsheet.
const HOSTILE: &str =
    "#read(\"/etc/passwd\") #panic() $x^2$ *b* _e_ <label> @ref // c /* d */ \\u{41} \"q\" =1+1 `r` #{1+1}";

#[test]
fn no_text_is_code() {
    let escaped: String =
        HOSTILE.chars().flat_map(|c| if c.is_ascii_punctuation() { vec!['\\', c] } else { vec![c] }).collect();
    let page = format!(
        "# {escaped}\n\n* a: {escaped}\n\n## {escaped}\n\n| {escaped} |\n| --- |\n| {escaped} |\n\n```\n{HOSTILE}\n```\n"
    );
    let mut document = document(&page);
    document["title"] = json!(HOSTILE);
    document["program"] = json!(HOSTILE);
    document["started"] = json!(HOSTILE);
    let Some(text) = text(&pdf(&document)) else { return };
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("#read(\"/etc/passwd\") #panic() $x^2$ *b* _e_ <label> @ref // c /* d */ \\u{41}"), "{text}");
    assert!(!text.contains("root:"), "{text}");
}

#[test]
fn text_that_no_font_has_costs_the_claim_and_not_the_pdf() {
    let output = run(document("# 測試 \u{1F680}\n\n* 測試\n").to_string().as_bytes());
    assert!(output.status.success() && output.stdout.starts_with(b"%PDF-"));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("note: the PDF is tagged, and does not claim PDF/UA-1"), "{said}");
}

#[test]
fn charts_cannot_name_files() {
    let mut document = document(PAGE);
    document["charts"]["charts/a.svg"] = json!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="9" height="9">
        <image width="9" height="9" xlink:href="/etc/passwd"/><image width="9" height="9" href="file:///etc/hostname"/></svg>"#
    );
    // Drawn without the picture, or refused; never read.
    let output = run(document.to_string().as_bytes());
    assert!(
        output.status.success() || String::from_utf8_lossy(&output.stderr).starts_with("error: the document cannot")
    );
    document["charts"]["charts/a.svg"] = json!("no picture");
    let output = run(document.to_string().as_bytes());
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("error: the document cannot be set: "));
}

#[test]
fn what_is_no_document_is_refused_with_code_2() {
    for (input, words) in [
        (&b"garbage"[..], "error: standard input holds no document of rankmark: "),
        (br#"{"rankmark_document": 7}"#, "error: the document has version 7, and this program reads version 1"),
    ] {
        let output = run(input);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.starts_with(words), "{said}");
    }
}
