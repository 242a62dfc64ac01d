//! What a user calls a run: a name, tags, and a note. Measures nothing; lets people find the run again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::is_safe_name;

/// Most tags of a run.
const MOST_TAGS: usize = 32;
/// Most bytes of a tag.
const LONGEST_TAG: usize = 64;
/// Most bytes of a note.
const LONGEST_NOTE: usize = 4096;

/// What the user calls a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Labels {
    /// Name of the run; safe as a directory's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Tags of the run, as given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// A remark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Labels {
    /// Whether the user gave none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Checks labels that a user gives. A tag that is given twice is kept once.
    ///
    /// # Errors
    /// What is wrong, and the rule.
    pub fn checked(mut self) -> Result<Self, (String, String)> {
        if let Some(name) = self.name.as_deref().filter(|name| !is_safe_name(name)) {
            let rule = "a letter or digit, then letters, digits, `.`, `_` or `-`, at most 64: it names a directory";
            return Err((format!("`{}` cannot name a run", shown(name)), rule.to_owned()));
        }
        let mut seen = std::collections::HashSet::new();
        self.tags.retain(|tag| seen.insert(tag.clone()));
        if self.tags.len() > MOST_TAGS {
            return Err((
                format!("a run has at most {MOST_TAGS} tags, not {}", self.tags.len()),
                "use --note".to_owned(),
            ));
        }
        let tags = self.tags.iter().map(|tag| ("tag", tag, LONGEST_TAG));
        for (what, text, longest) in tags.chain(self.note.iter().map(|note| ("note", note, LONGEST_NOTE))) {
            if text.trim().is_empty() || text.len() > longest || text.chars().any(char::is_control) {
                let rule =
                    format!("from 1 to {longest} bytes of text, without line breaks and other control characters");
                return Err((format!("`{}` cannot be a {what} of a run", shown(text)), rule));
            }
            if crate::holds_secret(text) {
                let rule = "it would be written to the record: leave the password or token out";
                return Err((format!("the {what} of a run seems to hold a secret"), rule.to_owned()));
            }
        }
        Ok(self)
    }
}

/// The text fit for a message.
fn shown(text: &str) -> String {
    let text = crate::masked(text);
    let short: String = text.chars().take(64).collect();
    let more = if short.len() < text.len() { "..." } else { "" };
    format!("{}{more}", short.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(tags: &[&str]) -> Labels {
        Labels { tags: tags.iter().map(|tag| (*tag).to_owned()).collect(), ..Labels::default() }
    }

    #[test]
    fn labels_are_names_tags_and_notes() {
        let named = |name: &str| Labels { name: Some(name.into()), ..Labels::default() }.checked();
        assert!(named("nightly-2.1_a").is_ok());
        for name in ["", "../x", "a/b", ".hidden", "a b", "é", "a\n", &"a".repeat(65)] {
            assert!(named(name).is_err(), "{name:?}");
        }
        assert_eq!(named("a\u{1b}[2J").unwrap_err().0, r"`a\u{1b}[2J` cannot name a run");
        assert_eq!(tags(&["a", "driver=550", "a", "é"]).checked(), Ok(tags(&["a", "driver=550", "é"])));
        for wrong in [&[""][..], &[" "], &["a\tb"], &["ok", "a\u{7f}"], &[&"a".repeat(65)]] {
            assert!(tags(wrong).checked().is_err(), "{wrong:?}");
        }
        let many: Vec<String> = (0..=MOST_TAGS).map(|number| number.to_string()).collect();
        assert!(Labels { tags: many[1..].to_vec(), ..Labels::default() }.checked().is_ok());
        assert!(Labels { tags: many, ..Labels::default() }.checked().is_err());
        let note = |note: &str| Labels { note: Some(note.into()), ..Labels::default() }.checked();
        assert!(note("after the BIOS update; see #12").is_ok() && note(&"n".repeat(LONGEST_NOTE)).is_ok());
        assert!(note("two\nlines").is_err() && note(&"n".repeat(LONGEST_NOTE + 1)).is_err() && note("").is_err());
    }
}
