//! What the benchmark declares: its entry, metrics, tables and charts, and which combinations of fields make sense.

use measure::machine;
use record::show::{Chart, Column, Format, Show, Table};
use record::{About, Better, Case, Caveat, Command, Metric, Shape, Sweep};
use serde_json::Value;
use terms::FieldError;

use super::fields::Fields;
use super::memory;
use crate::fields::{Sampling, World, problem};

/// The table entry.
pub(super) static ABOUT: About = About {
    name: "hardware",
    doc: "memory bandwidth of this machine: from one core to all, from the first cache to memory",
    fields: &[Fields::fields, World::fields, comm::fields, Sampling::fields],
    metrics: METRICS,
    check,
    command: Some(Command {
        name: "hardware",
        doc: "Measures the memory bandwidth of this machine: STREAM's loops, by threads and by working set",
        argument: "test",
        examples: &[
            ("triad", "caches and memory, all cores"),
            ("triad --threads 1,2", "one core beside two"),
            ("copy,scale,add,triad --bytes 1GiB", "STREAM's four loops"),
            ("triad --quick", "a first look"),
        ],
        notes: "",
        // From a first-level cache to past most last-level caches.
        sweep: Some(Sweep { field: "bytes", values: "24KiB,384KiB,6MiB,192MiB", unless: ("", "") }),
    }),
    show,
};

static METRICS: &[Metric] = &[
    Metric::new("gbs", "GB/s", Better::Higher, "bytes that the loop reads and writes (STREAM) / time, all ranks")
        .shape(Shape::Rate),
    Metric::new("moved_gbs", "GB/s", Better::Higher, "the same with write-allocate: lines that are read to be written")
        .shape(Shape::Rate),
];

fn show() -> Show {
    let columns = vec![
        Column::new("bytes", "bytes", Format::Bytes),
        Column::new("ranks", "ranks", Format::Count).gives_way(2),
        Column::new("threads", "threads", Format::Count),
        Column::time("time"),
        Column::precision(),
        Column::new("bandwidth", "gbs", Format::Number).unit("GB/s"),
        Column::new("moved", "moved_gbs", Format::Number).unit("GB/s").gives_way(1),
        Column::wrong(),
    ];
    let note = "bandwidth: words that the loop reads and writes, as STREAM counts. moved: with the lines that caches read \
                before they are written; it is the traffic of memory where the working set exceeds the caches.";
    let bandwidth = Chart {
        x: "bytes".into(),
        x_title: "working set".into(),
        x_format: Format::Bytes,
        y_title: "bandwidth, GB/s".into(),
        log: true,
        ..Chart::over_ranks("bandwidth", "bandwidth", "gbs")
    };
    Show {
        section: "test".into(),
        timed: "pass".into(),
        tables: vec![Table { columns, note: note.into(), ..Table::default() }],
        charts: vec![bandwidth],
        headline: vec!["gbs".into()],
    }
}

fn check(case: &mut Case) -> Result<(), FieldError> {
    crate::fields::check(case, &ABOUT)?;
    let fields = Fields::of(case)?;
    if crate::is_simulated(case) {
        return Err(problem("backend", "a simulated backend has no memory to measure", "`backend: shm`"));
    }
    if fields.threads.is_none() {
        let cores = machine::allowed_cpus().len().max(1);
        let threads = Value::from((cores / fields.ranks as usize).max(1));
        case.parameters.insert("threads".to_owned(), threads.clone());
        case.world.insert("threads".to_owned(), threads);
    }
    round_size(case, &fields);
    crate::fields::reorder(case, &ABOUT);
    Ok(())
}

/// Sizes that are no whole elements of each array round down, visibly; zero elements are skipped.
fn round_size(case: &mut Case, fields: &Fields) {
    let used = memory::elements(fields.test, fields.bytes) * 8 * fields.test.arrays();
    case.bytes_requested = Some(fields.bytes);
    if used != fields.bytes {
        case.parameters.insert("bytes".to_owned(), Value::from(used));
        case.caveats.push(Caveat::SizeRounded);
    }
    if used == 0 {
        let (arrays, bytes) = (fields.test.arrays(), fields.bytes);
        case.skip = Some(format!("{bytes} bytes hold no element for each of {arrays} arrays: nothing to do"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cases(fields: &[(&str, &str)]) -> Result<Vec<Case>, String> {
        let fields: Vec<_> = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        record::plan::from_flags(&ABOUT, &fields, &[]).map(|plan| plan.cases).map_err(|errors| errors.to_string())
    }

    #[test]
    fn all_cores_are_taken_and_divided_among_ranks() {
        let cores = machine::allowed_cpus().len() as u64;
        let threads = |fields: &[(&str, &str)]| cases(fields).unwrap()[0].whole("threads");
        assert_eq!(threads(&[]), Some(cores));
        assert_eq!(threads(&[("ranks", "1024")]), Some(1));
        assert_eq!(threads(&[("threads", "3")]), Some(3));
        let case = &cases(&[]).unwrap()[0];
        assert_eq!(case.world.get("threads"), case.parameters.get("threads"), "ranks of other threads are others");
    }

    #[test]
    fn sizes_are_whole_elements() {
        let case = |bytes: &str| cases(&[("test", "triad"), ("bytes", bytes)]).unwrap().remove(0);
        assert_eq!((case("1000").whole("bytes"), case("1000").bytes_requested), (Some(984), Some(1000)));
        assert!(case("1000").caveats.contains(&Caveat::SizeRounded) && case("960").caveats.is_empty());
        assert!(case("23").skip.unwrap().contains("no element for each of 3 arrays"));
        let why = cases(&[("backend", "sim")]).unwrap_err();
        assert!(why.contains("has no memory to measure"), "{why}");
    }
}
