//! What pages, mail and editors make of a text that is pasted through them: tabs, no-break spaces, line breaks and escapes of HTML.

use std::borrow::Cow;

/// Spaces of other kinds than the plain one.
const SPACES: [char; 5] = ['\t', '\u{a0}', '\u{2007}', '\u{202f}', '\u{3000}'];

/// Escapes of HTML, and what they stand for. `&amp;` is the last: `&amp;lt;` is the text `&lt;`.
const ESCAPES: [(&str, &str); 9] = [
    ("&nbsp;", " "),
    ("&lt;", "<"),
    ("&gt;", ">"),
    ("&quot;", "\""),
    ("&#34;", "\""),
    ("&#39;", "'"),
    ("&apos;", "'"),
    ("&#x27;", "'"),
    ("&amp;", "&"),
];

/// Line breaks of HTML.
const BREAKS: [&str; 3] = ["<br>", "<br/>", "<br />"];

/// The text as it was before. Documents of JSON keep all but their spaces: in their texts, escapes mean themselves.
pub(crate) fn restored(text: &str) -> Cow<'_, str> {
    let mut text = Cow::Borrowed(text);
    if text.contains(SPACES) {
        text = Cow::Owned(text.replace(SPACES, " "));
    }
    if is_json(&text) {
        return text;
    }
    if BREAKS.iter().any(|tag| text.contains(tag)) {
        text = Cow::Owned(without_breaks(&text));
    }
    // Where no tag was escaped, `&amp;` is a shell's.
    if ESCAPES[..ESCAPES.len() - 1].iter().any(|(escape, _)| text.contains(escape)) {
        let plain = ESCAPES.iter().fold(text.into_owned(), |text, (escape, of)| text.replace(escape, of));
        text = Cow::Owned(plain);
    }
    text
}

/// Whether a text begins as JSON does. A prefix of a line (`[1,0]<stdout>:`) begins with a bracket, too.
fn is_json(text: &str) -> bool {
    let mut letters = text.chars().filter(|letter| !letter.is_whitespace());
    match (letters.next(), letters.next()) {
        (Some('{'), _) => true,
        (Some('['), second) => second.is_none_or(|second| matches!(second, '{' | '[' | '"' | ']')),
        _ => false,
    }
}

/// Without the breaks that end lines: they have line ends of their own.
fn without_breaks(text: &str) -> String {
    let strip = |line: &str| -> String {
        let mut rest = line.trim_end();
        while let Some(shorter) = BREAKS.iter().find_map(|tag| rest.strip_suffix(tag)) {
            rest = shorter.trim_end();
        }
        let ends = if line.ends_with('\n') { "\n" } else { "" };
        format!("{rest}{ends}")
    };
    text.split_inclusive('\n').map(strip).collect()
}

#[cfg(test)]
mod tests {
    use super::restored;

    #[test]
    fn a_pasted_text_is_as_it_was_printed() {
        for (pasted, printed) in [
            ("# size\u{a0}\tcount\n", "# size  count\n"),
            ("4  1.98<br>\n8  2.1<br />\n", "4  1.98\n8  2.1\n"),
            ("[1,0]&lt;stdout&gt;:&nbsp;1\n", "[1,0]<stdout>: 1\n"),
            ("&amp;lt;&gt;", "&lt;>"),
            ("make &amp; run", "make &amp; run"),
            ("{\"a\":\t\"&lt;\"}", "{\"a\": \"&lt;\"}"),
            ("plain", "plain"),
        ] {
            assert_eq!(restored(pasted), printed);
        }
    }
}
