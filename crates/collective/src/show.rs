//! How collectives are shown.

use record::show::{At, Chart, Column, Format, Show, Table};

/// Tables and charts of each operation.
pub(super) fn show() -> Show {
    let columns = vec![
        Column::new("bytes", "bytes", Format::Bytes),
        Column::new("count", "count", Format::Count).unit("elements").gives_way(4),
        Column::new("type", "dtype", Format::Word).lifted("{}"),
        Column::new("op", "reduce", Format::Word).lifted("{}"),
        Column::new("ranks", "ranks", Format::Count),
        Column::time("time").each(),
        Column::precision().gives_way(1).each(),
        Column::tail("p50", "time_s.p50").gives_way(3).each(),
        Column::tail("p99", "time_s.p99").each(),
        Column::tail("p99.9", "time_s.p999").each(),
        Column::new("launch", "launch_s", Format::Seconds).gives_way(2).each(),
        Column::new("device", "device_s.p50", Format::Seconds).gives_way(3).each(),
        Column::new("library", "library_bytes", Format::Bytes).gives_way(3),
        Column::new("algbw", "algbw_gbs", Format::Number).unit("GB/s").gives_way(3).each(),
        Column::new("busbw", "busbw_gbs", Format::Number).unit("GB/s").each(),
        Column::new("limit", "limit_share", Format::Share).gives_way(2).each(),
        Column::new("at once/alone", "interference", Format::Number).gives_way(2).each(),
        Column::new("same bits", "reproducible_share", Format::Share).gives_way(1).each(),
        Column::wrong().each(),
        Column::new("path", "path", Format::Word).gives_way(1).each(),
    ];
    let groups = vec![
        Column::new("bytes", "bytes", Format::Bytes),
        Column::new("groups", "groups", Format::Word),
        Column::new("ranks", "ranks", Format::Count),
        Column::new("busbw of each, at once", "at_once_gbs", Format::Each).unit("GB/s"),
        Column::new("alone", "alone_gbs", Format::Each).unit("GB/s"),
        Column::new("at once/alone", "interference", Format::Number),
        Column::new("±95%", "interference", Format::Precision),
        Column::new("of group", "interference.group", Format::Count),
    ];
    let busbw = Chart { y_title: "busbw, GB/s".into(), ..over_bytes("busbw", "busbw_gbs", Format::Number) };
    let time = Chart { y_title: "time of one call".into(), ..over_bytes("time", "time_s.median", Format::Seconds) };
    Show {
        section: "op".into(),
        // In place and out of place stand side by side, as nccl-tests prints them.
        tables: vec![
            Table { columns, pivot: "in_place".into(), ..Table::default() },
            Table {
                title: "Groups that run at once".into(),
                columns: groups,
                note: "At once/alone: a group's time while all groups run, divided by its time while the others \
                       wait, in the same rounds. The value is that of the group that loses most."
                    .into(),
                ..Table::default()
            },
        ],
        charts: vec![
            time.clone(),
            Chart { ceiling: "limit_busbw_gbs".into(), ..busbw.clone() },
            Chart { y_title: "algbw, GB/s".into(), ..over_bytes("algbw", "algbw_gbs", Format::Number) },
            Chart { at: At::Largest, ..over_ranks("ranks", &busbw) },
            Chart { at: At::Unsized, ..over_ranks("ranks", &time) },
            Chart { at: At::Shared, ..over_ranks("backends", &time) },
        ],
        headline: vec!["busbw_gbs".into(), "algbw_gbs".into(), "limit_share".into()],
        ..Show::default()
    }
}

fn over_bytes(title: &str, y: &str, y_format: Format) -> Chart {
    Chart {
        x: "bytes".into(),
        x_title: "message size".into(),
        x_format: Format::Bytes,
        y_format,
        log: true,
        ..Chart::over_ranks(title, title, y)
    }
}

fn over_ranks(stem: &str, chart: &Chart) -> Chart {
    Chart {
        y_title: chart.y_title.clone(),
        y_format: chart.y_format,
        ..Chart::over_ranks(stem, &chart.title, &chart.y)
    }
}
