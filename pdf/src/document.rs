//! What `rankmark` hands over: a report in Markdown, and its charts. Hostile until it is read.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The form that this program reads.
const VERSION: u32 = 1;

/// A document.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    #[expect(dead_code, reason = "`Form` reads it; without the field here it would be an unknown member")]
    rankmark_document: u32,
    /// Its title, as plain text.
    pub title: String,
    /// The program that wrote the record.
    pub program: String,
    /// RFC 3339; other text gives a document without a date.
    pub started: String,
    /// The text.
    pub markdown: String,
    /// SVG by the path that the text links to.
    pub charts: BTreeMap<String, String>,
}

/// Only the version, which is read first: a newer form may have other members.
#[derive(Deserialize)]
struct Form {
    rankmark_document: u32,
}

impl Document {
    /// Reads its JSON.
    ///
    /// # Errors
    /// When it is not a document of this version.
    pub fn read(text: &[u8]) -> Result<Self, String> {
        let not = |error: serde_json::Error| format!("standard input holds no document of rankmark: {error}");
        let form: Form = serde_json::from_slice(text).map_err(not)?;
        if form.rankmark_document != VERSION {
            let found = form.rankmark_document;
            return Err(format!("the document has version {found}, and this program reads version {VERSION}"));
        }
        serde_json::from_slice(text).map_err(not)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_versions_are_refused_by_number() {
        let why = Document::read(br#"{"rankmark_document": 2, "new": 1}"#).unwrap_err();
        assert_eq!(why, "the document has version 2, and this program reads version 1");
        assert!(Document::read(b"").unwrap_err().contains("no document"));
        assert!(Document::read(br#"{"rankmark_document": 1}"#).unwrap_err().contains("missing field"));
    }
}
