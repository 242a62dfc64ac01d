//! What traces say of one case or one job: for a terminal, and as the record keeps it for its reports.

mod calls;
mod disturbance;
mod kept;
mod kernel;
mod lanes;
mod step_parts;
mod text;
mod verdict;

use diagnose::profile::Analysis;
use trace::timeline::{Recording, Timeline};

pub use disturbance::disturbed;
pub use kept::{explained_case, profile_json};
pub use text::{differences, explained};
pub use verdict::verdict;

/// One case, or one job, and what its traces say.
pub struct Explanation {
    /// The case's identity; of a job, a word until its record gives it one.
    pub case: String,
    /// The case in words, or the command of the job.
    pub title: String,
    /// Ranks that there is something of.
    pub ranks: u32,
    /// What the ranks did when.
    pub timeline: Timeline,
    /// What that says.
    pub analysis: Analysis,
    /// What recording took.
    pub recording: Option<Recording>,
    /// What the Flight Recorder found, and what ranks that hung wrote down, a sentence each.
    pub hangs: Vec<String>,
    /// Whether a rank hung, and did not go on.
    pub is_hung: bool,
    /// What hung, for other programs; null without a hang.
    pub hang: serde_json::Value,
    /// How its ranks ended, and how much of the window was recorded; of a job only.
    pub ends: Ends,
    /// What a reader should know.
    pub notes: Vec<String>,
    /// The runs with more ranks, where the record has them, for the waterfall.
    pub waterfall: Option<diagnose::profile::Waterfall>,
}

/// How a job ended.
#[derive(Debug, Default)]
pub struct Ends {
    /// Sentences, the most important first; empty where all ended well and the window is whole.
    pub sentences: Vec<String>,
    /// Whether a rank failed. Then the first sentence names it.
    pub is_failed: bool,
    /// How the job ended, for other programs; null where there is nothing to say.
    pub json: serde_json::Value,
}

/// What the user wants to see.
#[derive(Default, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Everything.
    #[default]
    All,
    /// Ranks that wait for others, and for whom.
    SyncStalls,
    /// Communication that overlaps computation.
    Overlap,
    /// Waiting for data.
    Input,
}

impl Target {
    /// The words that name them.
    pub const NAMES: [(&'static str, Self); 4] =
        [("all", Self::All), ("sync_stalls", Self::SyncStalls), ("overlap", Self::Overlap), ("input", Self::Input)];

    /// The one of this name; everything without one.
    pub fn named(name: Option<&str>) -> Self {
        let name = name.unwrap_or("all");
        Self::NAMES.into_iter().find(|(known, _)| *known == name).map_or(Self::All, |(_, target)| target)
    }

    /// Whether something that belongs to `part` is shown.
    pub fn shows(self, part: Self) -> bool {
        self == Self::All || self == part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_shows_its_own_part_and_all_shows_everything() {
        assert!(Target::All.shows(Target::Input) && Target::Input.shows(Target::Input));
        assert!(!Target::Input.shows(Target::Overlap));
    }
}
