//! Tables and charts.

use record::show::{Chart, ChartKind, Column, Format, Show, Table};

pub(super) fn show() -> Show {
    let columns = vec![
        // What gives way has no column at all where no case has it. A bandwidth and a rate are what a user looks for.
        Column::new("bytes", "bytes", Format::Bytes).gives_way(2),
        Column::new("dtype", "dtype", Format::Word).gives_way(2),
        Column::new("size", "size", Format::Count).gives_way(2),
        Column::new("ranks", "ranks", Format::Count).gives_way(4),
        Column::new("threads", "threads", Format::Count).gives_way(2),
        Column::time("time"),
        Column::precision(),
        Column::new("bandwidth", "gbs", Format::Number).unit("GB/s").gives_way(1),
        Column::new("moved", "moved_gbs", Format::Number).unit("GB/s").gives_way(4),
        Column::new("rate", "gflops", Format::Number).unit("GFLOP/s").gives_way(1),
        Column::new("of ceiling", "roofline.share", Format::Bounded).gives_way(3),
        Column::new("loop", "loop", Format::Word).gives_way(5),
        Column::new("median pair", "pairs.median", Format::Seconds).gives_way(3),
        Column::new("slowest pair", "pairs.slowest", Format::Seconds).gives_way(4),
        Column::new("slow", "pairs.slow", Format::Word).gives_way(3),
        Column::wrong(),
    ];
    let note = "bandwidth: words that the loop reads and writes, as STREAM counts. moved: with the lines that caches read \
                before they are written; where the working set exceeds the caches, memory moves at most this.";
    let bandwidth = Chart {
        x: "bytes".into(),
        x_title: "working set".into(),
        x_format: Format::Bytes,
        y_title: "bandwidth, GB/s".into(),
        log: true,
        ..Chart::over_ranks("bandwidth", "bandwidth", "gbs")
    };
    let matrix = |stem: &str, title: &str, y: &str| Chart {
        stem: stem.into(),
        title: title.into(),
        kind: ChartKind::Matrix,
        x_title: "rank".into(),
        y: y.into(),
        y_title: "rank".into(),
        y_format: Format::Number,
        ..Chart::default()
    };
    Show {
        section: "test".into(),
        timed: "call".into(),
        tables: vec![Table { columns, note: note.into(), ..Table::default() }],
        charts: vec![
            bandwidth,
            Chart {
                x_title: "memory of node".into(),
                y_title: "cores of node".into(),
                ..matrix("nodes", "bandwidth, GB/s", "node_gbs")
            },
            Chart { x: "pairs.hosts".into(), ..matrix("pairs", "time of a message, us", "pair_us") },
            Chart { x: "pairs.hosts".into(), ..matrix("pairs-bandwidth", "bandwidth, GB/s", "pair_gbs") },
        ],
        headline: vec!["gbs".into(), "gflops".into()],
    }
}
