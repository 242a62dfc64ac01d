//! What traces say of one case or one job.

use diagnose::profile::Analysis;
use trace::timeline::{Recording, Timeline};

use super::ends::Ends;

/// One case, or one job, and what its traces say.
pub(super) struct Explanation {
    /// The case's identity; of a job, a word until its record gives it one.
    pub(super) case: String,
    pub(super) title: String,
    pub(super) ranks: u32,
    pub(super) timeline: Timeline,
    pub(super) analysis: Analysis,
    pub(super) recording: Option<Recording>,
    /// What the Flight Recorder found, and what ranks that hung wrote down, a sentence each.
    pub(super) hangs: Vec<String>,
    /// Whether a rank hung, and did not go on.
    pub(super) is_hung: bool,
    /// What hung, for other programs; null without a hang.
    pub(super) hang: serde_json::Value,
    /// How its ranks ended, and how much of the window was recorded; of a job only.
    pub(super) ends: Ends,
    pub(super) notes: Vec<String>,
    /// The runs with more ranks, where the record has them, for the waterfall.
    pub(super) waterfall: Option<diagnose::profile::Waterfall>,
}
