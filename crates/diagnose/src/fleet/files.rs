//! The files for schedulers and for later: lists of hosts, and what the fleet learned.

use terms::HostName;

use super::{Fleet, NodeVerdict, compressed, json};

/// A file of a fleet.
pub struct FleetFile {
    /// The name of the file.
    pub name: &'static str,
    /// What stands in it.
    pub text: String,
    /// What it is for.
    pub what: &'static str,
}

/// All of the files. Each is written, also an empty one: an earlier fleet may have left another.
pub fn files(fleet: &Fleet) -> Vec<FleetFile> {
    let good = fleet.hosts(&[NodeVerdict::Good]);
    let bad = fleet.hosts(&[NodeVerdict::Failed, NodeVerdict::Slow]);
    let unknown = fleet.hosts(&[NodeVerdict::CannotTell]);
    let lines = |hosts: &[&HostName]| hosts.iter().map(|host| format!("{host}\n")).collect::<String>();
    let exclude = if bad.is_empty() { String::new() } else { format!("{}\n", compressed(&bad)) };
    let file = |name, text, what| FleetFile { name, text, what };
    vec![
        file("hosts.good", lines(&good), "a host file of the good nodes"),
        file("hosts.bad", lines(&bad), "failed and slow nodes"),
        file("hosts.unknown", lines(&unknown), "nodes that cannot be told"),
        file("slurm.exclude", exclude, "the bad nodes for sbatch --exclude"),
        file("fleet.json", format!("{}\n", json(fleet)), "verdicts, and criteria for --criteria"),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};
    use terms::Named;

    use super::super::Node;
    use super::*;

    fn node(host: HostName, verdict: NodeVerdict) -> Node {
        let (records, slow, failed, ratios) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Node { host, kind: 0, records, verdict, slow, failed, unknown: String::new(), ratios }
    }

    /// The hosts of Slurm's short form: `a[1-3,7],b`.
    fn expanded(list: &str) -> BTreeSet<String> {
        let (mut hosts, mut inside, mut words) = (BTreeSet::new(), false, vec![String::new()]);
        for letter in list.trim_end_matches('\n').chars() {
            inside = (inside || letter == '[') && letter != ']';
            match letter {
                ',' if !inside => words.push(String::new()),
                _ => words.last_mut().unwrap().push(letter),
            }
        }
        for word in words.iter().filter(|word| !word.is_empty()) {
            let Some((head, numbers)) = word.strip_suffix(']').and_then(|word| word.split_once('[')) else {
                hosts.insert(word.clone());
                continue;
            };
            for part in numbers.split(',') {
                let (first, last) = part.split_once('-').unwrap_or((part, part));
                let width = first.len();
                let [first, last] = [first, last].map(|number| number.parse::<u64>().unwrap());
                hosts.extend((first..=last).map(|number| format!("{head}{number:0width$}")));
            }
        }
        hosts
    }

    /// Whatever a host is called, a list has its name or nothing of it: never another host's.
    #[test]
    fn no_name_adds_another_to_a_list() {
        const PIECES: [&str; 16] =
            ["node00", "node0", "7", "\n", ",", "[1-3]", "-", ".", "_", " ", "\r", "\u{2028}", "é", "/", "login", "01"];
        let mut random = StdRng::seed_from_u64(7);
        for _ in 0..300 {
            let names: BTreeSet<String> = (0..random.random_range(1..8))
                .map(|_| (0..random.random_range(0..4)).map(|_| PIECES[random.random_range(0..PIECES.len())]).collect())
                .collect();
            let named = names.iter().filter_map(|name| HostName::parse(name).ok());
            let nodes: Vec<Node> = named.map(|host| node(host, NodeVerdict::ALL[random.random_range(0..4)])).collect();
            let fleet = Fleet { nodes, ..Fleet::default() };
            let files = files(&fleet);
            let read = |name: &str| &*files.iter().find(|file| file.name == name).unwrap().text;
            for (file, verdicts) in [
                ("hosts.good", &[NodeVerdict::Good][..]),
                ("hosts.bad", &[NodeVerdict::Failed, NodeVerdict::Slow]),
                ("hosts.unknown", &[NodeVerdict::CannotTell]),
            ] {
                let own: Vec<String> = fleet.hosts(verdicts).iter().map(ToString::to_string).collect();
                assert_eq!(read(file).lines().collect::<Vec<_>>(), own, "{names:?}");
                if file == "hosts.bad" {
                    assert_eq!(expanded(read("slurm.exclude")), own.into_iter().collect(), "{names:?}");
                }
            }
        }
    }
}
