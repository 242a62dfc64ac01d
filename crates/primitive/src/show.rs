//! How primitives are shown.

use record::show::{Column, Format, Show, Table};
use serde_json::Value;

use super::task::{Options, Scheme};

/// An implementation with its options, for a cell: `pipelined ring_p2p`.
pub(super) fn variant(name: &str, options: &Options) -> String {
    let option_text = |(name, value): (&String, &Value)| match (name.as_str(), value) {
        ("order", _) => None,
        ("chunks", chunks) => Some(format!("{chunks} chunks")),
        ("offset", Value::Bool(true)) => None,
        ("offset", _) => Some("no offset".to_owned()),
        (_, Value::String(word)) => Some(word.replace("collective_chunks", "collective")),
        (_, other) => Some(other.to_string()),
    };
    let options = options.iter().filter_map(option_text);
    std::iter::once(name.to_owned()).chain(options).collect::<Vec<_>>().join(" ")
}

/// What is communicated, and when.
pub(super) fn order(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::GatherFirst => "AG_before",
        Scheme::GatherLast => "AG_after",
        Scheme::ScatterLast => "RS_after",
        Scheme::ReduceLast => "AR_after",
        Scheme::Attention => "KV_before",
        Scheme::Exchange => "A2A_around",
    }
}

/// Tables and charts of each primitive.
pub(super) fn show() -> Show {
    let columns = vec![
        Column::new("m", "m", Format::Count).lifted("m {}"),
        Column::new("n", "n", Format::Count).lifted("n {}"),
        Column::new("k", "k", Format::Count).lifted("k {}"),
        Column::new("top_k", "top_k", Format::Count).lifted("top {}"),
        Column::new("experts", "experts", Format::Count).lifted("{} experts"),
        Column::new("tokens", "tokens", Format::Word).lifted("{} tokens"),
        Column::new("type", "dtype", Format::Word).lifted("{}"),
        Column::new("ranks", "ranks", Format::Count).lifted("{} ranks"),
        Column::new("threads", "threads", Format::Count).lifted("{} threads a rank"),
        Column::new("implementation", "variant|implementation", Format::Word),
        Column::new("order", "order", Format::Word).lifted("{}"),
        Column::time("time"),
        Column::precision(),
        Column::tail("p50", "time_s.p50").gives_way(4),
        Column::tail("p99", "time_s.p99"),
        Column::tail("p99.9", "time_s.p999"),
        Column::new("speedup", "overlap.speedup", Format::Number).ends("overlap.speedup_ci95").unit("x"),
        Column::new("overlap", "overlap.efficiency", Format::Share).ends("overlap.efficiency_ci95").gives_way(3),
        Column::new("speed of light", "overlap.speed_of_light", Format::Bounded)
            .ends("overlap.speed_of_light_ci95")
            .gives_way(4),
        Column::new("MaxVio", "max_vio", Format::Number).unit("of experts").gives_way(2),
        Column::new("balancedness", "balancedness", Format::Number).unit("of ranks").gives_way(6),
        Column::new("TFLOP/s", "tflops", Format::Number).gives_way(1),
        Column::new("a rank", "tflops_per_rank", Format::Number).unit("TFLOP/s").gives_way(2),
        // Where the run has a profile of the machine.
        Column::new("limit", "roofline.share", Format::Bounded).gives_way(3),
        Column::new("bound", "roofline.bound", Format::Word).gives_way(5),
        Column::wrong(),
    ];
    let times = [
        ("product", "overlap.compute_s"),
        ("communication", "overlap.communication_s"),
        ("dispatch", "overlap.dispatch_s"),
        ("combine", "overlap.combine_s"),
        ("sequential", "overlap.sequential_s"),
        ("this one", "time_s.median"),
    ]
    .map(|(title, source)| Column::new(title, source, Format::Seconds));
    let mut four: Vec<Column> = columns[..11].to_vec();
    four.extend(times);
    four.push(Column::new("communication / product", "overlap.ratio", Format::Number));
    let note = "`speedup` is over the best sequential implementation of the same order, trial by trial. `overlap` is the \
                share of the shorter of product and communication that overlap takes away. `speed of light` is the longer of \
                product and communication over the time.";
    let covers = ["implementation"].map(str::to_owned).to_vec();
    Show {
        section: "primitive".to_owned(),
        tables: vec![
            Table { columns, covers: covers.clone(), note: note.to_owned(), ..Table::default() },
            Table { title: "Times of each order".to_owned(), columns: four, covers, ..Table::default() },
        ],
        headline: ["overlap", "tflops_per_rank"].map(str::to_owned).to_vec(),
        ..Show::default()
    }
}
