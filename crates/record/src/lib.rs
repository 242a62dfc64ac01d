//! What is kept: plan, machine, case, samples, caveats. The only types that are written to disk.
//!
//! Reads and checks plans, expands them to cases, stores what cases measured, and reads it back. Never measures, never
//! starts anything, never prints.

#[doc(hidden)]
pub use terms;

mod aliases;
mod baseline;
mod case;
mod caveat;
mod declaration;
mod demand;
mod environment;
mod expected;
mod explained;
mod field;
pub mod file;
pub mod found;
mod interleaved;
mod job_calls;
mod json;
mod labels;
mod line;
mod links;
mod machine;
mod machine_profile;
mod merge;
mod metrics;
mod misplaced;
mod origin;
pub mod pack;
pub mod plan;
mod profile;
pub mod reproducible;
mod roles;
mod roofline;
mod run_end;
mod run_file;
mod run_identity;
pub mod schema;
mod sealed;
mod secrets;
mod shared_fields;
mod shared_map;
pub mod show;
mod state;
pub mod store;
mod typed;
mod workload;
pub mod yaml;

pub use aliases::{ALIASES, NoField, no_field};
pub use baseline::{
    BASELINES, CompactRecord, clear_baseline, find_baselines, list_baselines, read_baseline, save_baseline,
};
pub use case::Case;
pub use caveat::Caveat;
pub use demand::Demand;
pub use environment::{environment, is_of_its_job};
pub use expected::{Basis, Expected};
pub use explained::{
    Blame, EXPLAINED_FILE, EXPLAINED_VERSION, Explained, ExplainedCase, ExplainedFinding, ExplainedTable,
    ExplainedWithout, Lane, Lanes, Phases, Waterfall, read_explained, write_explained,
};
pub use field::{
    About, Better, Command, Metric, SYNONYMS, Shape, Sweep, described_fields, field_help, field_value, read_value,
};
pub use interleaved::{ComparedCase, Interleaved, Side, declare_sides, of_side};
pub use job_calls::JobCalls;
pub use json::{from_json, to_json};
pub use labels::Labels;
pub use line::{
    CaseLine, HostClock, IntervalSource, Limit, MOST_WRONG_ELEMENTS, SCHEMA, TimeSummary, WorldUse, WrongElement,
};
pub use links::{Link, slower_interfaces};
pub use machine::{Cache, Machine, NetworkInterface, Processor};
pub use machine_profile::{
    Constant, ConstantName, KernelTime, MACHINE_PROFILE_VERSION, MachineProfile, ProfileBasis, Slowdowns, TransferTime,
    read_machine_profile, write_machine_profile,
};
pub use merge::{merge, merge_explained, write_merged};
pub use metrics::Key;
pub use misplaced::{fields_for, one_list};
pub use origin::{DatedBy, Imported, Part};
pub use plan::{Plan, PlanError, PlanErrors};
pub use profile::{CEILING, Ceiling, CeilingKind, Profile};
pub use roles::Roles;
pub use roofline::{COMMUNICATION, Roof};
pub use run_end::{CaseCounts, Interruption, RunEnd};
pub use run_file::{
    BackendState, Declared, DeclaredField, DeclaredMetric, End, Overhead, Placement, Rounds, RunFile, Tool,
};
pub use run_identity::{RunIdentity, copies};
pub use sealed::{PREDICTIONS_FILE, PredictedCase, Predictions, SEAL, read_predictions, seal, write_predictions};
pub use secrets::{command_line, holds_secret, masked, masked_lines, smells_like_secret};
pub use shared_fields::SHARED_FIELDS;
pub use shared_map::{Pool, SharedMap};
pub use state::{CanaryKind, CanaryLevel, CaseState, MachineState, known_states, likest};
pub use store::{
    CaseSamples, DamagedLine, Record, Resumed, SampleLines, Seen, Store, StoreError, directory_name, fresh_directory,
    line_text, read_results, read_run, read_samples, read_samples_of,
};
pub use typed::{DefaultValue, Defaults, Values, WriteFields, typed};
pub use workload::{INJECTED, differences, workload};
