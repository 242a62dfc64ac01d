//! How training and memory cases are shown: tables as declared, charts and findings over several cases.

mod charts;
mod findings;
mod next;
mod strategies;
mod tables;

use view::study::Operation;
use view::{Finding, NamedChart, Next, View};

pub(super) use self::tables::{memory, training};

/// Training, by model, strategy and ranks.
pub(crate) struct TrainingView;

/// What training holds.
pub(crate) struct MemoryView;

fn found(sentences: Vec<String>) -> Option<Vec<Finding>> {
    Some(sentences.into_iter().map(Finding::new).collect())
}

impl View for TrainingView {
    fn charts(&self, section: &Operation) -> Vec<NamedChart> {
        charts::of_training(section)
    }

    fn findings(&self, section: &Operation) -> Option<Vec<Finding>> {
        found(findings::of_training(section))
    }

    fn next(&self, section: &Operation, _ready: &[&str]) -> Option<Next> {
        next::of_training(section)
    }
}

impl View for MemoryView {
    fn charts(&self, section: &Operation) -> Vec<NamedChart> {
        charts::memory(section).into_iter().collect()
    }

    fn findings(&self, section: &Operation) -> Option<Vec<Finding>> {
        found(findings::of_memory(section))
    }

    fn next(&self, section: &Operation, _ready: &[&str]) -> Option<Next> {
        next::of_memory(section)
    }
}
