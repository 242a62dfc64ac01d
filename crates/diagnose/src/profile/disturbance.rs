//! What others took of the machine while steps were recorded.

use record::Caveat;
use serde::{Deserialize, Serialize};

/// What others took of the host that started the job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Disturbance {
    /// What is to be said of it, as of a measured case; empty: nothing disturbed the job.
    pub caveats: Vec<Caveat>,
    /// Cores that the job may use; 0 for a case that Rankmark measured itself, whose caveats alone are known.
    pub cores: u32,
    /// Of these, cores that other programs used on average; absent where too little is known of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_cores: Option<f64>,
    /// Share of the time of all cores that the hypervisor gave to others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stolen_share: Option<f64>,
    /// Whether this is about the steps that were recorded; else about the whole job.
    #[serde(default)]
    pub of_window: bool,
}

impl Disturbance {
    /// Whether it says something of the steps.
    pub fn is_felt(&self) -> bool {
        !self.caveats.is_empty()
    }
}
