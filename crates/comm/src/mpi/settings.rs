//! What a case may say of the MPI library, and how its ranks receive it.

use serde::Deserialize;
use terms::{Field, Kind, Label};

use crate::own::{Section, own};

const OWNER: &Section = &Section { backend: "mpi", heading: "MPI libraries (--backend mpi)" };

pub(super) const FIELDS: &[Field] = &[
    own("mpi_library", OWNER, Kind::Text, "path or name of the MPI library (default: the first found)").loads(),
    own(
        "mpi_progress",
        OWNER,
        Kind::Word(|| vec!["none", "poll"]),
        "how MPI calls proceed; none: they block (default)",
    ),
    own("mpi_tuned", OWNER, Kind::Bool, "sets what makes the library faster on this machine (docs/how-to/mpi.md)")
        .label(Label::Switch("tuned", "untuned")),
    own(
        "mpi_collectives",
        OWNER,
        Kind::Word(|| vec!["default", "ucc"]),
        "algorithms of Open MPI: its own, or those of UCC",
    ),
];

/// How operations proceed where no progress thread does it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MpiProgress {
    /// Blocking calls: inside `start`.
    #[default]
    None,
    /// Non-blocking calls: whenever the caller looks.
    Poll,
}

/// The fields' values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct MpiSettings {
    /// Name or path of the MPI library. None: the first that the loader finds.
    #[serde(rename = "mpi_library")]
    pub(super) library: Option<String>,
    /// How operations proceed.
    #[serde(rename = "mpi_progress")]
    pub(super) progress: MpiProgress,
    /// Settings that make the library faster.
    #[serde(rename = "mpi_tuned")]
    pub(super) tuned: bool,
    #[serde(rename = "mpi_collectives")]
    collectives: Option<String>,
    /// Elements of one call of MPI, at most. None: what an `int` holds. No field sets it: tests of the cutting do.
    #[serde(rename = "mpi_largest")]
    pub(super) largest: Option<u32>,
}

impl MpiSettings {
    /// Whether Open MPI is to put coll/ucc before all others.
    pub(super) fn ucc(&self) -> bool {
        self.collectives.as_deref() == Some("ucc")
    }
}
