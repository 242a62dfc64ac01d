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
}

const NO_EPOCHS: NoField = NoField {
    cause: "a run measures steps or calls for a time; it has no data set, and so no epochs",
    instead: &[
        ("steps", "N", "fixes the number of steps of a trial"),
        ("iters", "N", "fixes the number of samples of a trial"),
        ("max_seconds", "TIME", "limits the sampling time of a case"),
    ],
};

/// The field of a benchmark that a name of another tool means.
pub(crate) fn meant(about: &About, name: &str) -> Option<&'static str> {
    let wanted = normalize(name);
    let (_, field) = ALIASES.iter().find(|(alias, _)| *alias == wanted)?;
    about.field(field).map(|field| field.name)
}

/// Why a name of another tool means no field.
pub fn no_field(name: &str) -> Option<NoField> {
    EPOCHS.contains(&normalize(name).as_str()).then_some(NO_EPOCHS)
}

impl NoField {
    /// What to use instead, of the fields that there are.
    pub fn hint(&self, has: impl Fn(&str) -> bool, written: impl Fn(&str, &str) -> String) -> String {
        let fields = self.instead.iter().filter(|(field, ..)| has(field));
        let lines: Vec<String> =
            fields.map(|(field, value, does)| format!("{} {does}", written(field, value))).collect();
        lines.join("\n")
    }
}
