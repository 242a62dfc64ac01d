//! The table of pairs.

use record::show::{Column, Format, Show, Table};

pub(super) fn show() -> Show {
    let columns = vec![
        Column::new("activity", "activity", Format::Word),
        Column::new("beside", "beside", Format::Word),
        Column::new("ranks", "ranks", Format::Count).gives_way(5),
        Column::new("threads", "threads", Format::Count).gives_way(3),
        Column::time("time"),
        Column::precision(),
        Column::new("alone", "alone_s", Format::Seconds).gives_way(2),
        Column::new("slowdown", "slowdown", Format::Number),
        Column::new("±95%", "slowdown", Format::Precision).gives_way(1),
        Column::new("the other's", "beside_s", Format::Seconds).gives_way(4),
        Column::wrong(),
    ];
    let note = "time: of one unit of the activity, on the slowest rank. slowdown: time beside the other activity over time \
                alone, in the same rounds. the other's: time of one of its units meanwhile.";
    Show {
        timed: "unit".into(),
        tables: vec![Table { columns, note: note.into(), ..Table::default() }],
        headline: vec!["slowdown".into()],
        ..Show::default()
    }
}
