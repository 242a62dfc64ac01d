//! `--name`, `--tag`, `--note`: what the user calls a run.

use record::Labels;

use crate::Failure;

/// The options. Records that are continued keep their own labels.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
pub(crate) struct LabelOptions {
    /// name of the run, also of its default directory: results/TIME-NAME
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// a tag of the run, kept in the record; repeats
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// a remark on the run, kept in the record
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
}

impl LabelOptions {
    /// A remark on the run, and nothing else.
    pub(crate) fn noted(note: String) -> Self {
        Self { note: Some(note), ..Self::default() }
    }

    /// The names of the options, and whether they were given.
    pub(crate) fn given(&self) -> [(&'static str, bool); 3] {
        [("name", self.name.is_some()), ("tag", !self.tag.is_empty()), ("note", self.note.is_some())]
    }

    /// The labels that were given.
    ///
    /// # Errors
    /// One that a record does not take.
    pub(crate) fn labels(&self) -> Result<Labels, Failure> {
        let labels = Labels { name: self.name.clone(), tags: self.tag.clone(), note: self.note.clone() };
        labels.checked().map_err(|(what, rule)| Failure::new(what).hint(rule))
    }
}
