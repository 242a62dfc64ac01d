//! What other tools call fields. Options take these names; keys of plans are answered with the right one, because a plan has one
//! spelling.

use terms::normalize;

use crate::About;

/// A name, and the field that it means. Only names that mean exactly that field.
pub const ALIASES: &[(&str, &str)] = &[
    ("nproc", "ranks"),
    ("nprocs", "ranks"),
    ("nproc_per_node", "ranks"),
    ("num_processes", "ranks"),
    ("processes", "ranks"),
    ("ntasks", "ranks"),
    ("np", "ranks"),
    ("nranks", "ranks"),
    ("num_ranks", "ranks"),
    ("world_size", "ranks"),
    ("gpus", "ranks"),
    ("ngpus", "ranks"),
    ("num_gpus", "ranks"),
    ("size", "bytes"),
    ("sizes", "bytes"),
    ("msg_size", "bytes"),
    ("message_size", "bytes"),
    ("bs", "batch"),
    ("batch_size", "batch"),
    ("batchsize", "batch"),
    ("per_device_train_batch_size", "batch"),
    ("gbs", "global_batch"),
    ("global_batch_size", "global_batch"),
    ("lr", "learning_rate"),
    ("wd", "weight_decay"),
    ("datatype", "dtype"),
    ("data_type", "dtype"),
    ("reduce_op", "reduce"),
    ("zero", "sharded"),
    ("zero_stage", "sharded"),
    ("iterations", "iters"),
    ("runs", "trials"),
    ("warmup_iters", "warmup"),
    ("warmup_steps", "warmup"),
    ("num_steps", "steps"),
    ("max_steps", "steps"),
    ("num_threads", "threads"),
    ("seq_len", "sequence"),
    ("seq_length", "sequence"),
    ("num_layers", "layers"),
    ("hidden_size", "width"),
    ("num_heads", "heads"),
    ("vocab_size", "vocabulary"),
    ("gradient_checkpointing", "recompute"),
    ("activation_checkpointing", "recompute"),
];

/// Names of a number of epochs.
const EPOCHS: [&str; 5] = ["epoch", "epochs", "num_epochs", "num_train_epochs", "max_epochs"];

/// A name that means no field: why, and the fields to use instead, each with what it takes and does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoField {
    /// Why there is no such field.
    pub cause: &'static str,
    /// Field, what it takes, what it does.
    pub instead: &'static [(&'static str, &'static str, &'static str)],
    /// Lines to type where no field does it.
    pub lines: &'static str,
}

/// Names of what a launcher decides.
const HOSTS: [&str; 8] = ["hostfile", "machinefile", "hosts", "host", "nnodes", "num_nodes", "nodelist", "master_addr"];

const NO_HOSTS: NoField = NoField {
    cause: "a launcher starts ranks on other hosts",
    instead: &[],
    lines: "mpirun --hostfile FILE -n 8 rankmark ...\ntorchrun --nnodes 2 --nproc-per-node 4 --no-python rankmark ...\n\
            srun -N 2 --ntasks-per-node 4 rankmark ...",
};

/// Names of the parts of a mesh.
const MESH: [&str; 8] =
    ["tp", "pp", "dp", "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "tp_size", "pp_size"];

const NO_MESH: NoField = NoField {
    cause: "one option sets the mesh: replicas x parts of each layer x stages",
    instead: &[("mesh", "DPxTPxPP", "divides the ranks, for example 2x2x1")],
    lines: "",
};

/// Names of a file of results.
const EXPORTS: [&str; 3] = ["export_json", "export_csv", "export_markdown"];

const NO_EXPORT: NoField = NoField {
    cause: "a run writes a record; other commands turn it into files",
    instead: &[],
    lines: "rankmark report DIR --format csv --output FILE\n`--json` prints each case as a line while it is measured",
};

/// Why each of these is not a field.
const NO_FIELDS: [(&[&str], NoField); 4] =
    [(&EPOCHS, NO_EPOCHS), (&HOSTS, NO_HOSTS), (&MESH, NO_MESH), (&EXPORTS, NO_EXPORT)];

const NO_EPOCHS: NoField = NoField {
    cause: "a run measures steps or calls for a time; it has no data set, and so no epochs",
    instead: &[
        ("steps", "N", "fixes the number of steps of a trial"),
        ("iters", "N", "fixes the number of samples of a trial"),
        ("max_seconds", "TIME", "limits the sampling time of a case"),
    ],
    lines: "",
};

/// The field of a benchmark that a name of another tool means.
pub(crate) fn meant(about: &About, name: &str) -> Option<&'static str> {
    let wanted = normalize(name);
    let (_, field) = ALIASES.iter().find(|(alias, _)| *alias == wanted)?;
    about.field(field).map(|field| field.name)
}

/// Why a name of another tool means no field.
pub fn no_field(name: &str) -> Option<NoField> {
    let wanted = normalize(name);
    NO_FIELDS.iter().find(|(names, _)| names.contains(&wanted.as_str())).map(|(_, why)| *why)
}

impl NoField {
    /// What to use instead, of the fields that there are.
    pub fn hint(&self, has: impl Fn(&str) -> bool, written: impl Fn(&str, &str) -> String) -> String {
        let fields = self.instead.iter().filter(|(field, ..)| has(field));
        let lines: Vec<String> =
            fields.map(|(field, value, does)| format!("{} {does}", written(field, value))).collect();
        lines.into_iter().chain((!self.lines.is_empty()).then(|| self.lines.to_owned())).collect::<Vec<_>>().join("\n")
    }
}
