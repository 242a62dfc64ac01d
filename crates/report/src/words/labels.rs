//! What the user calls the run: a name, tags and a note.

use record::Labels;

/// The title of a run: its name, else that of its plan.
pub(crate) fn title(labels: &Labels, experiment: String) -> String {
    labels.name.clone().unwrap_or(experiment)
}

/// Facts for the head of a report, each with its name. They are the user's text: not escaped yet.
pub(crate) fn facts(labels: &Labels) -> [(&'static str, String); 2] {
    [("Tags", labels.tags.join(", ")), ("Note", labels.note.clone().unwrap_or_default())]
}
