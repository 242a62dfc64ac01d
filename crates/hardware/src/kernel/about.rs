//! What the benchmark declares: its entry, metrics, table, and which combinations of fields make sense.

use contract::fields::{Execution, Sampling, Supports, World, problem};
use contract::runtime::{self, Native};
use record::show::{Column, Format, Show, Table};
use record::{About, Better, Case, Command, Shape, WriteFields as _};
use terms::FieldError;

use super::fields::KernelFields;

record::metrics! {
    /// What a kernel case says.
    pub(super) METRICS {
        GFLOPS: f64 = record::Metric::new("gflops", "GFLOP/s", Better::Higher, "operations of its products / time, all ranks")
            .shape(Shape::Rate),
        GBS: f64 = record::Metric::new(
            "gbs",
            "GB/s",
            Better::Higher,
            "bytes that the operation reads and writes, each operand once / time, all ranks",
        )
        .shape(Shape::Rate),
    }
}

/// The table entry.
pub(super) static ABOUT: About = About {
    name: "kernel",
    doc: "one operation of a training step: a product, attention, a norm, an update",
    fields: &[KernelFields::fields, Execution::fields, World::fields, comm::fields, Sampling::fields],
    metrics: METRICS,
    check,
    command: Some(Command {
        name: "kernel",
        doc: "Measures one operation of a training step at given sizes, on one rank or on several at once",
        argument: "kernel",
        examples: &[
            ("product_nt --dims 1024x3072x768x0x4", "a product of 1024 rows with a weight of 3072 x 768"),
            ("norm_forward --dims 1024x768x1 --ranks 1,2", "a norm, on one rank and on two at once"),
            ("adamw --dims 1000000x0", "the update of a million parameters"),
        ],
        notes: "`rankmark calibrate` measures those of many models. docs/how-to/calibrate.md lists kernels and their sizes.",
        sweep: None,
    }),
    show,
};

fn check(case: &mut Case) -> Result<(), FieldError> {
    runtime::resolve(case, &[], Native::Host)?;
    if contract::is_pytorch(case) {
        let message = "`kernel` measures native ranks only";
        return Err(problem("runtime", message, "leave `runtime` out and name a backend with native ranks: `shm`"));
    }
    if contract::is_simulated(case) {
        let message = "a simulated backend does not model computation";
        return Err(problem("backend", message, "use another backend, for example `shm`"));
    }
    let given = KernelFields::of(case)?;
    // Ranks of other threads are others.
    let fields = KernelFields { threads: Some(given.threads.unwrap_or(1)), ..given.clone() };
    fields.write(&given, case);
    contract::fields::check(case, &ABOUT, Supports::default())?;
    runtime::check(case, &[], Native::Host)?;
    fields.sample()?;
    contract::fields::reorder(case, &ABOUT);
    Ok(())
}

fn show() -> Show {
    let columns = vec![
        Column::new("dims", "dims", Format::Word),
        Column::new("dtype", "dtype", Format::Word).gives_way(1),
        Column::new("ranks", "ranks", Format::Count),
        Column::new("threads", "threads", Format::Count).gives_way(3),
        Column::time("time"),
        Column::precision(),
        Column::new("rate", "gflops", Format::Number).unit("GFLOP/s").gives_way(1),
        Column::new("bandwidth", "gbs", Format::Number).unit("GB/s").gives_way(2),
        Column::wrong(),
    ];
    let note = "time: of one call, on the slowest rank. bandwidth: bytes that the operation reads and writes, each operand once.";
    Show {
        section: "kernel".into(),
        timed: "call".into(),
        tables: vec![Table { columns, note: note.into(), ..Table::default() }],
        headline: vec!["gflops".into(), "gbs".into()],
        ..Show::default()
    }
}

#[cfg(test)]
mod tests {
    use contract::Benchmark as _;

    use super::super::KernelBenchmark;
    use super::*;

    fn cases(fields: &[(&str, &str)]) -> Result<Vec<Case>, String> {
        Ok(record::plan::from_flags(&ABOUT, fields, &[]).map_err(|errors| errors.to_string())?.cases)
    }

    #[test]
    fn a_case_says_its_operation_and_its_memory() {
        let some = cases(&[("kernel", "product_nn"), ("dims", "8x16x32x0x4,8x16x64x0x4"), ("ranks", "1,2")]).unwrap();
        assert_eq!(some.len(), 4);
        let memory = |at: usize| KernelBenchmark.parse(&some[at]).unwrap().memory();
        assert!(memory(0) >= 4 * (8 * 32 + 32 * 16 + 8 * 16) && memory(3) > memory(0), "{} {}", memory(0), memory(3));
        assert!(some.iter().all(|case| case.skip.is_none() && case.threads() == 1));
        assert!(cases(&[("kernel", "begin_norm"), ("dims", "none")]).is_ok(), "an operation without sizes");
    }

    #[test]
    fn what_is_no_operation_is_refused() {
        for (fields, said) in [
            (vec![("dims", "8x8")], "2 sizes, not 5"),
            (vec![("dims", "8x8xyx0x4")], "`y` is not a whole number"),
            (vec![("dims", "8x8x8x0x-4")], "`-4` is not a whole number"),
            (vec![("kernel", "product")], "product_nn"),
            (vec![("kernel", "adamw"), ("dims", "99999999999999999999x0")], "not a whole number"),
            (vec![("dtype", "i32")], "does not take `i32`"),
            (vec![("backend", "sim")], "does not model computation"),
            (vec![("runtime", "pytorch")], "native ranks only"),
        ] {
            let why = cases(&fields).unwrap_err();
            assert!(why.contains(said), "{fields:?}: {why}");
        }
    }
}
