//! How start-up is shown: a section for each stage.

use record::show::{Chart, Column, Format, Show, Table};

pub(super) fn show() -> Show {
    let columns = vec![
        Column::new("start", "start", Format::Word),
        // What gives way has no column at all where no case has it. `open` tells rows apart, so it goes last.
        Column::new("op", "op", Format::Word).lifted("{}").gives_way(3),
        Column::new("bytes", "bytes", Format::Bytes).gives_way(2),
        Column::new("open", "communicators", Format::Count).gives_way(1),
        Column::new("ranks", "ranks", Format::Count),
        Column::time("time"),
        Column::precision(),
        Column::new("backend", "open_s", Format::Seconds).gives_way(3),
        Column::new("wait", "wait_s", Format::Seconds).gives_way(3),
        Column::new("last rank", "last.word", Format::Word).gives_way(3),
        Column::new("first/later", "first_over_later", Format::Number).gives_way(2),
        Column::new("cold/warm", "cold_over_warm", Format::Number).gives_way(4),
        Column::new("growth", "growth", Format::Number).gives_way(2),
        Column::wrong(),
    ];
    let note = "time: that of the slowest rank. wait: how long the first rank waits for the last one. last rank: the rank that \
                came last, in how many trials; `varies` where chance explains it. backend: the part of joining that the \
                backend takes once all ranks have begun. growth: compared with the fewest communicators open.";
    let time = |stem: &str| Chart {
        y_title: "time".into(),
        y_format: Format::Seconds,
        log: true,
        ..Chart::over_ranks(stem, "time", "time_s.median")
    };
    Show {
        section: "stage".into(),
        timed: "stage".into(),
        tables: vec![Table { columns, note: note.into(), ..Table::default() }],
        charts: vec![
            time("ranks"),
            Chart { x: "communicators".into(), x_title: "communicators already open".into(), ..time("communicators") },
        ],
        headline: Vec::new(),
    }
}
