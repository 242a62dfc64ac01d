//! Secrets within HTML and SVG: texts, values of attributes and JSON in scripts are masked, and what makes the page is not touched.

use super::{masked, masked_json};

/// The text of a page without secrets.
pub(super) fn masked_markup(page: &str) -> String {
    let mut safe = String::with_capacity(page.len());
    let mut rest = page;
    while let Some(begin) = rest.find('<') {
        safe.push_str(&text(&rest[..begin]));
        let end = rest[begin..].find('>').map_or(rest.len(), |length| begin + length + 1);
        let tag = &rest[begin..end];
        safe.push_str(&tag.split('"').enumerate().map(attribute).collect::<Vec<_>>().join("\""));
        rest = &rest[end..];
        let Some(close) = ["script", "style"].iter().find(|name| tag[1..].starts_with(**name)) else { continue };
        let inside = &rest[..rest.find(&format!("</{close}")).unwrap_or(rest.len())];
        match tag.contains("application/json") {
            true => safe.push_str(&String::from_utf8_lossy(&masked_json(inside.as_bytes()))),
            false => safe.push_str(inside),
        }
        rest = &rest[inside.len()..];
    }
    safe.push_str(&text(rest));
    safe
}

/// Characters that pages write otherwise, `&` last.
const ESCAPES: [(&str, &str); 6] =
    [("&quot;", "\""), ("&#39;", "'"), ("&#35;", "#"), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")];

/// Text of a page: it is read as it is shown.
fn text(written: &str) -> String {
    let shown = ESCAPES.iter().fold(written.to_owned(), |text, (escape, plain)| text.replace(escape, plain));
    let safe = masked(&shown);
    if safe == shown {
        return written.to_owned();
    }
    ESCAPES.iter().rev().fold(safe, |text, (escape, plain)| text.replace(plain, escape))
}

/// A part of a tag between quotes: each second one is a value.
fn attribute((place, part): (usize, &str)) -> String {
    if place % 2 == 1 { text(part) } else { part.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_a_page_stays() {
        let page = r#"<p title="redis://:PW@h" class="key">x --token=PW &amp; y</p><script type="application/json">{"a":"--key=PW"}</script><script>let key=PW;</script>"#;
        let safe = r#"<p title="redis://:***@h" class="key">x --token=*** &amp; y</p><script type="application/json">{"a":"--key=***"}</script><script>let key=PW;</script>"#;
        assert_eq!(masked_markup(page), safe);
        for cut in (0..page.len()).filter(|cut| page.is_char_boundary(*cut)) {
            masked_markup(&page[..cut]);
        }
    }
}
