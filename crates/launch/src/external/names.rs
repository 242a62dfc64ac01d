//! Names by which launchers are known, and those of our own variables.

/// Programs that start several processes, by what their names begin with.
pub(super) const LAUNCHERS: [&str; 7] = ["mpirun", "mpiexec", "hydra_pmi", "orterun", "orted", "prterun", "prted"];
/// Programs that start several processes, or a single one (a batch script), so that being their child alone says nothing.
pub(super) const KEEPERS: [&str; 1] = ["slurmstepd"];
/// How many seconds processes have to arrive.
pub(super) const ARRIVAL: &str = "RANKMARK_ARRIVAL";
/// The name of a job, where its launcher gives none.
pub(super) const JOB: &str = "RANKMARK_JOB";
/// torchrun sets it for its workers; no other launcher does.
pub(super) const TORCHRUN: &str = "TORCHELASTIC_RUN_ID";
