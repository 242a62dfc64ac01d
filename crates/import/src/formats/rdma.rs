//! Messages between two hosts by RDMA verbs, as other programs measure them. No backend here sends by verbs, and a
//! stream of writes is not a message to and fro, so `rdma` has a declaration of its own. Nothing runs it.

use record::show::{Column, Format, Show, Table};
use record::{About, Better, Metric};
use terms::{Field, Kind, Role};

static FIELDS: &[Field] = &[
    Field::new(Kind::Text, None, "what is measured: write_bw, read_bw, send_bw, write_lat, read_lat, send_lat")
        .named("test")
        .always(),
    Field::new(Kind::Whole(2, 2), None, "number of processes").named("ranks").always().role(Role::World),
    Field::new(Kind::Bytes, None, "bytes of a message").named("bytes").always(),
    Field::new(Kind::Text, None, "bandwidth: one_way, or both_ways at once").named("direction"),
    Field::new(Kind::Text, None, "connection type: RC, UC, UD, DC").named("connection"),
    Field::new(Kind::Whole(1, 1 << 24), None, "number of queue pairs").named("queue_pairs"),
    Field::new(Kind::Whole(1, 1 << 32), None, "messages in flight of a queue pair").named("tx_depth"),
    Field::new(Kind::Whole(1, 1 << 24), None, "messages that one call posts").named("post_list"),
    Field::new(Kind::Whole(1, 1 << 16), None, "bytes of a packet").named("mtu"),
    Field::new(Kind::Text, None, "link type: IB, Ethernet").named("link"),
    Field::new(Kind::Text, Some("host"), "memory of the buffers: host, cuda, rocm").named("memory"),
];

/// What such a table becomes.
pub(crate) static ABOUT: About = About {
    name: "rdma",
    doc: "messages between two hosts by RDMA verbs, as another program measured them",
    fields: &[|| FIELDS],
    metrics: &[
        Metric::new("gbs", "GB/s", Better::Higher, "bytes of all messages / time, on average; both ways: of both"),
        Metric::new("peak_gbs", "GB/s", Better::Higher, "the same at its highest, as the program finds it"),
        Metric::new("messages_per_s", "1/s", Better::Higher, "messages / time, on average"),
    ],
    check: |_| Ok(()),
    command: None,
    show,
};

fn show() -> Show {
    let columns = vec![
        Column::new("bytes", "bytes", Format::Bytes),
        Column::new("direction", "direction", Format::Word).gives_way(2),
        Column::new("queue pairs", "queue_pairs", Format::Count).gives_way(3),
        Column::new("memory", "memory", Format::Word).gives_way(4),
        Column::time("message"),
        Column::new("GB/s", "gbs", Format::Number),
        Column::new("peak GB/s", "peak_gbs", Format::Number).gives_way(2),
        Column::new("messages/s", "messages_per_s", Format::Number).gives_way(1),
    ];
    Show {
        section: "test".to_owned(),
        timed: "message".to_owned(),
        tables: vec![Table { columns, ..Table::default() }],
        headline: vec!["gbs".to_owned()],
        ..Show::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_declaration_has_no_faults() {
        assert_eq!(ABOUT.faults(), Vec::<String>::new());
    }

    #[test]
    fn the_memory_of_the_host_is_no_part_of_an_identity() {
        let case = |memory: &[(&str, &str)]| {
            let given = [("test", "write_bw"), ("ranks", "2"), ("bytes", "64")].iter().chain(memory);
            let given: Vec<(String, String)> =
                given.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            record::plan::from_flags(&ABOUT, &given, &[]).unwrap().cases.remove(0)
        };
        assert_eq!(case(&[("memory", "host")]).id, case(&[]).id);
        assert_ne!(case(&[("memory", "cuda")]).id, case(&[]).id);
    }
}
