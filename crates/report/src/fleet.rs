//! The page of a fleet: the verdict, what to do, a map of the nodes, slow links, what it rests on, and a row for each node. One
//! HTML file that loads nothing and runs no script.
//!
//! What stands on it is decided by the caller, who judges the nodes; how it looks is decided here.

mod page;

use std::path::{Path, PathBuf};

use crate::formats::write::Out;
use crate::{Artifact, Error};

/// How a node, or a whole fleet, is drawn. The order is that of urgency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum FleetTone {
    /// The node is as fast as its peers.
    #[default]
    Good,
    /// Cannot tell.
    Unknown,
    /// Slow.
    Slow,
    /// Failed.
    Failed,
}

/// A node on the map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetCell {
    /// Colour of the node.
    pub tone: FleetTone,
    /// Host of the node.
    pub name: String,
    /// What stands below: `+12%`.
    pub figure: String,
    /// What is shown when the pointer rests on it.
    pub tip: String,
}

/// A row of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetRow {
    /// The colour of its verdict.
    pub tone: FleetTone,
    /// Cells of the row.
    pub cells: Vec<String>,
}

/// The page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetPage {
    /// What stands on top.
    pub title: String,
    /// The verdict.
    pub sentence: String,
    /// Colour of the verdict.
    pub tone: FleetTone,
    /// What to do, a sentence each.
    pub actions: Vec<String>,
    /// The map.
    pub cells: Vec<FleetCell>,
    /// Titles of what nodes were judged by: the columns of ratios.
    pub columns: Vec<String>,
    /// A row for each node: host, verdict, why, and a ratio for each column.
    pub nodes: Vec<FleetRow>,
    /// What they were judged by: work, kind of node, nodes, healthy time, scatter, smallest deficit.
    pub criteria: Vec<FleetRow>,
    /// Slow links: both hosts, the exchange, the ratio.
    pub links: Vec<FleetRow>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

/// Writes the page under this name in a folder.
///
/// # Errors
/// When it cannot be written.
pub fn write_fleet(of: &FleetPage, folder: &Path, name: &'static str) -> Result<PathBuf, Error> {
    let mut out = Out::below(folder);
    out.put(&Artifact::new(name, page::page(of).into_bytes()))?;
    Ok(out.into_written().files.remove(0))
}
