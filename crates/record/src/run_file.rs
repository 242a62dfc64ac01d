//! `run.json`: everything about a run but what its cases measured.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use terms::{Field, Label, Role};

use crate::schema::words::{HEX_12, SchemaWords};
use crate::{
    About, Better, Imported, Interleaved, Interruption, Labels, Machine, MachineState, Part, Plan, Profile, SCHEMA,
    Shape,
};

/// `run.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "run", deny_unknown_fields)]
pub struct RunFile {
    /// Version of this form.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: u32,
    /// The run's identity, which its lines name; empty in records of earlier versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(regex(pattern = HEX_12))]
    pub id: String,
    /// Who wrote it.
    pub tool: Tool,
    /// The plan's name.
    pub experiment: String,
    /// What the user calls the run.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// When it started: UTC, RFC 3339.
    #[schemars(extend("format" = "date-time"))]
    pub started: String,
    /// The command as typed, without secrets.
    pub command_line: Vec<String>,
    /// The words of the launcher that started ranks and this command with them (`mpirun`, `-n`, `4`); empty without one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub launcher: Vec<String>,
    /// The coordinator's machine.
    pub machine: Machine,
    /// All machines that held ranks, where they are not just the coordinator's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<Machine>,
    /// Where ranks ran, one entry a world.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placement: Vec<Placement>,
    /// Versions of what took part, by name ("rustc", "openmpi").
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<String, String>,
    /// The backends, and whether they could run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backends: Vec<BackendState>,
    /// Who started the ranks (mpirun, srun, torchrun, ...), where this program did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_by: Option<String>,
    /// Environment variables on the allow-list, without secrets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// The plan, resolved.
    pub plan: Plan,
    /// What the plan's benchmarks declare, so that report and comparison need no benchmark.
    pub benchmarks: Vec<Declared>,
    /// Measurement overhead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overhead: Option<Overhead>,
    /// The rounds that the run made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<Rounds>,
    /// States of the machine that the run saw; empty where no canary looked, and in records of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<MachineState>,
    /// States that earlier runs on this machine saw and this one did not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unseen_states: Vec<MachineState>,
    /// The end of the run; absent while it runs, and where it was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
    /// Two sides that were measured interleaved, and how they compare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interleaved: Option<Interleaved>,
    /// The profiles of machines that cases are compared with, as they were when the run began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<Profile>,
    /// What another program measured, where this record was imported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<Imported>,
    /// The records that this one is made of, where it was merged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<Part>,
    /// Whether any case is computed rather than measured.
    pub simulated: bool,
}

/// The rounds of a run: each visits every open case once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rounds {
    /// Seed of the order of cases within rounds.
    pub seed: u64,
    /// How many were made.
    pub made: u32,
    /// Lag-1 rank correlation of trials, pooled over the cases, plus half its standard error: what `ci95_again` is
    /// widened by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<f64>,
}

/// What is known once a run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct End {
    /// Lines of `cases.jsonl`.
    pub case_lines: u64,
    /// What ended the run before its plan was done. Absent where nothing did, and in records of versions that did not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<SchemaWords<Interruption>>")]
    pub interrupted_by: Option<Interruption>,
}

/// The program that wrote a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tool {
    /// Name of the program: `rankmark`.
    pub name: String,
    /// Version of the program.
    pub version: String,
}

/// Where the ranks of one world ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Placement {
    /// Ranks.
    pub ranks: u32,
    /// The binding asked for.
    pub bind: String,
    /// Host of each rank, by rank.
    pub hosts: Vec<String>,
    /// Processors of each rank, by rank; empty where it was not pinned.
    pub cpus: Vec<Vec<u32>>,
    /// Sockets of each rank's processors, by rank; empty where it was not pinned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sockets: Vec<Vec<u32>>,
    /// NUMA nodes of each rank's processors, by rank; empty where it was not pinned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub numa_nodes: Vec<Vec<u32>>,
    /// Device of each rank, by rank, on which its buffers lie and its work is done: `cpu`, or a kind with the device's index on
    /// its host (`cuda:3`). Empty in records of versions that did not say it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// Network interface of each rank, by rank: the one that has its host's address on the rank's connection with the
    /// coordinator. What moves the data (MPI, NCCL, gloo) chooses its own. Null where it is not known; empty where all ranks
    /// are on one host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<Option<String>>,
}

/// One backend on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackendState {
    /// Name of the backend.
    pub name: String,
    /// Whether it could run.
    pub ready: bool,
    /// Version of the backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The library.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The library, or the Python, as cases name it, where they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
    /// The program that starts its ranks, where it is not this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launcher: Option<String>,
    /// Why it could not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// What measuring itself costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Overhead {
    /// Nanoseconds a sample.
    pub sample_ns: f64,
    /// Nanoseconds a call.
    pub call_ns: f64,
}

/// What a benchmark declared when the run was taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Declared {
    /// Name of the benchmark.
    pub name: String,
    /// One line about it.
    pub doc: String,
    /// Fields of the benchmark.
    pub fields: Vec<DeclaredField>,
    /// Metrics of the benchmark.
    pub metrics: Vec<DeclaredMetric>,
    /// How its case lines are shown.
    #[serde(default)]
    pub show: crate::show::Show,
}

/// A field as declared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeclaredField {
    /// Name of the field.
    pub name: String,
    /// The kind of its values, in one word.
    pub kind: String,
    /// Default of the field, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// Unit of the field, where the kind does not say it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// One line about it.
    pub doc: String,
    /// What it decides.
    #[serde(default = "workload")]
    #[schemars(with = "SchemaWords<Role>")]
    pub role: Role,
    /// The backend or runtime that alone understands it; empty: all do.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub owner: String,
    /// Whether it names code that is loaded or run: a library, an interpreter.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub loads: bool,
    /// How its values are written in headings and labels: `plain`, `quiet`, `{} in flight`, `in place|out of place`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// `field=value`: in all other cases its value follows from the ranks. Empty: it never does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub follows_unless: String,
    /// Earlier names of the field, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub was: Vec<String>,
}

const fn workload() -> Role {
    Role::Workload
}

/// A metric as declared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeclaredMetric {
    /// Key of the metric in case lines.
    pub name: String,
    /// What its value is.
    #[serde(default)]
    pub shape: Shape,
    /// Unit of the metric.
    pub unit: String,
    /// Which direction is better.
    pub better: Better,
    /// One line about it.
    pub doc: String,
}

impl RunFile {
    /// A run of this plan on this machine; what is not known yet is empty and filled in by the caller. `started` is
    /// given, since this crate reads no clock.
    pub fn new(
        tool: Tool,
        started: jiff::Timestamp,
        machine: Machine,
        plan: Plan,
        benchmarks: &[&'static About],
    ) -> Self {
        let used = benchmarks.iter().filter(|about| plan.cases.iter().any(|case| case.benchmark == about.name));
        Self {
            schema: SCHEMA,
            id: run_identity(&tool, started, &machine, &plan),
            tool,
            experiment: plan.experiment.clone(),
            labels: Labels::default(),
            started: started.to_string(),
            command_line: Vec::new(),
            launcher: Vec::new(),
            machine,
            hosts: Vec::new(),
            placement: Vec::new(),
            versions: BTreeMap::new(),
            backends: Vec::new(),
            started_by: None,
            environment: BTreeMap::new(),
            benchmarks: used.map(|about| Declared::of(about)).collect(),
            plan,
            overhead: None,
            rounds: None,
            states: Vec::new(),
            unseen_states: Vec::new(),
            end: None,
            interleaved: None,
            profiles: Vec::new(),
            imported: None,
            merged: Vec::new(),
            simulated: false,
        }
    }

    /// Whether the record says that its run came to an end. Earlier versions noted the rounds only then.
    pub fn has_ended(&self) -> bool {
        let is_measured = self.imported.is_none() && self.merged.is_empty();
        self.end.is_some() || !is_measured || self.id.is_empty() && self.rounds.is_some()
    }

    /// Takes its end back, because a run continues it.
    pub fn reopen(&mut self) {
        self.end = None;
        if self.id.is_empty() {
            self.rounds = None;
        }
    }

    /// Gives it the identity of another run: it is made of others.
    pub(crate) fn identify_merged(&mut self, parts: &[String]) {
        self.id = digest(&parts.join(" "));
        self.end = None;
    }

    /// The declared metric of a benchmark.
    pub fn metric(&self, benchmark: &str, metric: &str) -> Option<&DeclaredMetric> {
        let declared = self.benchmarks.iter().find(|declared| declared.name == benchmark)?;
        declared.metrics.iter().find(|declared| declared.name == metric)
    }
}

/// 12 hex digits that another run hardly has: of its time in nanoseconds, its process, its host and its plan.
fn run_identity(tool: &Tool, started: jiff::Timestamp, machine: &Machine, plan: &Plan) -> String {
    let process = std::process::id().to_string();
    digest(
        &[&tool.version, &started.to_string(), &process, &machine.host, &plan.experiment].map(String::as_str).join(" "),
    )
}

fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

impl DeclaredField {
    /// A copy of what is declared of a field.
    pub fn of(field: &Field) -> Self {
        Self {
            name: field.name.to_owned(),
            kind: field.kind.name().to_owned(),
            default: field.default.map(str::to_owned),
            unit: field.unit.to_owned(),
            doc: field.doc.to_owned(),
            role: field.role,
            owner: field.owner.to_owned(),
            loads: field.loads,
            label: match field.label {
                Label::Plain => String::new(),
                Label::Quiet => "quiet".to_owned(),
                Label::Around(text) => text.to_owned(),
                Label::Switch(on, off) => format!("{on}|{off}"),
            },
            follows_unless: field.follows_unless.to_owned(),
            was: field.was.iter().map(|name| (*name).to_owned()).collect(),
        }
    }
}

impl Declared {
    /// The field that has this name, or had it.
    pub fn field(&self, name: &str) -> Option<&DeclaredField> {
        self.fields.iter().find(|field| field.name == name || field.was.iter().any(|was| was == name))
    }

    /// A copy of what a benchmark says of itself.
    pub fn of(about: &About) -> Self {
        let metrics = about.metrics.iter().map(|metric| DeclaredMetric {
            name: metric.name.to_owned(),
            shape: metric.shape,
            unit: metric.unit.to_owned(),
            better: metric.better,
            doc: metric.doc.to_owned(),
        });
        Self {
            name: about.name.to_owned(),
            doc: about.doc.to_owned(),
            fields: about.all_fields().map(DeclaredField::of).collect(),
            metrics: metrics.collect(),
            show: (about.show)(),
        }
    }
}
