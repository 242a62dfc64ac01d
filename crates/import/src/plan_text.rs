//! The text of a plan that a configuration becomes.

use std::fmt::Display;

use crate::tree::shown;
use crate::{ForeignPlan, Source};

/// A plan that is being written.
#[derive(Default)]
pub(crate) struct PlanText {
    text: String,
    pub(crate) plan: ForeignPlan,
}

impl PlanText {
    /// Begins a plan: where it comes from, and its name, as far as it can name a folder.
    pub(crate) fn new(file: &str, tool: &str, name: &str) -> Self {
        let mut plan = Self::default();
        plan.line(0, &format!("# Made from {} ({tool}).", shown(file)));
        let safe: String = name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' })
            .take(64)
            .collect();
        let safe = match safe.trim_start_matches(|c: char| !c.is_ascii_alphanumeric()) {
            "" => "imported",
            safe => safe,
        };
        if safe != name {
            plan.warning(format!("the name `{}` cannot name a folder: the experiment is `{safe}`", shown(name)));
        }
        plan.line(0, &format!("experiment: {}", quoted(safe)));
        plan
    }

    /// A line of the plan, so many levels deep.
    pub(crate) fn line(&mut self, level: usize, line: &str) {
        self.text += &format!("{:width$}{line}\n", "", width = 2 * level);
    }

    /// What a field became: a line of `read_as`.
    pub(crate) fn became(&mut self, field: impl Display, what: impl Display) {
        let line = format!("{field} -> {what}");
        if !self.plan.read_as.contains(&line) {
            self.plan.read_as.push(line);
        }
    }

    /// What is not done as written.
    pub(crate) fn warning(&mut self, what: impl Into<String>) {
        let what = what.into();
        if !self.plan.warnings.contains(&what) {
            self.plan.warnings.push(what);
        }
    }

    /// The plan, whole.
    pub(crate) fn finish(self) -> ForeignPlan {
        ForeignPlan { text: self.text, ..self.plan }
    }
}

/// A text as YAML reads it whatever it holds.
pub(crate) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    let is_number = text.parse::<f64>().is_ok();
    let is_word = ["true", "false", "null", "yes", "no"].contains(&text.to_ascii_lowercase().as_str());
    match !text.is_empty() && text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(plain) {
        true if !is_number && !is_word => text.to_owned(),
        _ => serde_json::to_string(text).unwrap_or_default(),
    }
}

/// `[1, 2]`, or `1` alone.
pub(crate) fn list<T: Display>(values: &[T]) -> String {
    let words: Vec<String> = values.iter().map(T::to_string).collect();
    if words.len() == 1 { words.concat() } else { format!("[{}]", words.join(", ")) }
}

/// The ranks that the user gave, as a plan has them: `--ranks 2,4` is a list. The plan takes them.
pub(crate) fn ranks_of_user(source: &Source, plan: &mut PlanText) -> Option<String> {
    let numbers: Vec<&str> = source.given("ranks")?.split(',').map(str::trim).collect();
    plan.plan.has_given_ranks = true;
    Some(list(&numbers))
}

/// The file's values as words of a comment.
pub(crate) fn joined<T: Display>(values: &[T]) -> String {
    values.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_and_texts_are_quoted() {
        let plan = PlanText::new("a\nb.json", "DDLB", "=cmd|' /C calc'!A0<script>").finish();
        assert!(plan.text.starts_with("# Made from a b.json (DDLB).\nexperiment: cmd"), "{}", plan.text);
        assert!(plan.warnings[0].contains("cannot name a folder"), "{:?}", plan.warnings);
        assert_eq!(
            (quoted("resnet50"), quoted("1e5"), quoted("true")),
            ("resnet50".into(), "\"1e5\"".into(), "\"true\"".into())
        );
        assert_eq!(quoted("a: b # c\n\""), r#""a: b # c\n\"""#);
        assert_eq!((list(&[1, 2]), list(&[1])), ("[1, 2]".to_owned(), "1".to_owned()));
    }
}
