//! The tables that `training` and `memory` declare.

use record::show::{Column, Format, Show, Table};

/// What names a case: stands in the heading where all rows agree.
fn names() -> Vec<Column> {
    vec![
        Column::new("model", "model", Format::Word).lifted("{}"),
        Column::new("strategy", "strategy", Format::Word).lifted("{}"),
        Column::new("ranks", "ranks", Format::Count),
        Column::new("mesh", "mesh", Format::Word).gives_way(3),
        // Of pipelines alone: as a column it keeps all strategies in one table.
        Column::new("schedule", "schedule", Format::Word).lifted("{}").gives_way(6),
        Column::new("chunks", "chunks", Format::Count).lifted("{} chunks").gives_way(6),
    ]
}

fn texts(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// How training is shown.
pub(crate) fn training() -> Show {
    let mut columns = names();
    columns.extend([
        Column::new("batch", "batch", Format::Count).lifted("batch {}"),
        Column::new("exchange", "exchange", Format::Word).lifted("exchange {}"),
        Column::time("step"),
        Column::precision(),
        Column::new("samples/s", "samples_per_s", Format::Number).gives_way(1),
        Column::new("tokens/s", "tokens_per_s", Format::Number).gives_way(1),
        Column::new("MFU", "mfu.headline", Format::Share).gives_way(2),
        // Where the run has a profile of the machine.
        Column::new("limit", "roofline.share", Format::Bounded).gives_way(3),
        Column::new("bound", "roofline.bound", Format::Word).gives_way(5),
        Column::new("scaling", "scaling.kind", Format::Word).lifted("{} scaling"),
        Column::new("efficiency", "scaling.efficiency", Format::Share)
            .ends("scaling.ci95")
            .word("scaling.word")
            .gives_way(1),
        Column::new("overlapped", "overlapped.share", Format::Share).gives_way(4),
        Column::new("same bits", "reproducible_share", Format::Share).gives_way(1),
        Column::new("loss, first and last", "loss", Format::FirstAndLast).gives_way(5),
        Column::wrong(),
    ]);
    let mut phases = names();
    phases.extend(
        [
            ("input", "phases_s.input"),
            ("forward", "phases_s.forward"),
            ("backward", "phases_s.backward"),
            ("exposed communication", "phases_s.communication"),
            ("wait", "phases_s.wait"),
            ("optimizer", "phases_s.optimizer"),
        ]
        .map(|(title, source)| Column::new(title, source, Format::Seconds)),
    );
    phases.push(Column::new("CPU s a step", "cpu.seconds_per_step", Format::Number));
    // Only where it was asked for: `kernel_times`.
    let mut kernels = names();
    kernels.extend(
        [
            ("products", "products"),
            ("attention", "attention"),
            ("convolutions", "convolutions"),
            ("norms, element-wise", "element_wise"),
            ("loss", "loss"),
            ("update", "update"),
            ("exchanges", "exchanges"),
            ("other", "other"),
            ("sum", "sum"),
            ("usual step", "step"),
        ]
        .map(|(title, kind)| Column::new(title, &format!("kernel_times_ms.{kind}"), Format::Number)),
    );
    Show {
        timed: "step".to_owned(),
        tables: vec![
            Table {
                columns,
                covers: texts(&["overlap", "communicate", "global_batch", "micro_batches"]),
                ..Table::default()
            },
            Table {
                title: "Median step of the slowest rank, by phase".to_owned(),
                columns: phases,
                ..Table::default()
            },
            Table {
                title: "Step by kind of kernel, ms".to_owned(),
                columns: kernels,
                note: "Operations are submitted one at a time, so gaps between them count: the sum may be longer than the usual step."
                    .to_owned(),
                ..Table::default()
            },
        ],
        headline: texts(&["tokens_per_s", "samples_per_s", "mfu"]),
        ..Show::default()
    }
}

/// How memory is shown.
pub(crate) fn memory() -> Show {
    let mut columns = names();
    columns.extend([
        Column::new("batch", "batch", Format::Count),
        Column::new("predicted", "memory.predicted.total", Format::Bytes),
        Column::new("measured", "memory.measured.case", Format::Bytes),
        Column::new("difference", "memory.difference", Format::Change),
    ]);
    columns.extend(
        [("parameters", 4), ("gradients", 5), ("optimizer", 6), ("activations", 3), ("buffers", 7), ("rest", 8)]
            .map(|(name, order)| Column::new(name, &format!("memory.parts.{name}"), Format::Bytes).gives_way(order)),
    );
    columns.extend([
        Column::new("process", "memory.measured.process", Format::Bytes).gives_way(2),
        Column::new("limit a rank", "limit", Format::Bytes).gives_way(1),
        Column::wrong(),
    ]);
    let note = "Bytes of all ranks together. `buffers` are those of communication; `rest` is input, scalars and scratch. \
                `difference` compares `predicted` with `measured`, both of the case alone. `process` is what the processes held \
                before it: it cannot be predicted.";
    Show {
        timed: "step".to_owned(),
        tables: vec![Table {
            columns,
            covers: texts(&["overlap", "communicate", "global_batch", "micro_batches"]),
            note: note.to_owned(),
            ..Table::default()
        }],
        headline: texts(&["memory", "max_batch"]),
        ..Show::default()
    }
}
