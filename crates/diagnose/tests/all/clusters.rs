//! Simulated clusters of known truth, which `fleet` judges: racks, noise, and planted faults. `examples/fleet_faults` prints the
//! table of docs/appendix/fleets.md.
//!
//! A cluster is given as records, so that the whole way from a record to a verdict is tested: one record of each node, and one
//! of a launcher with the tournaments of all nodes.

use record::{CaseLine, Machine, Record};
use serde_json::json;
use stats::PairTimes;
use stats::samples::{Marginal, Situation, StationarySeries};

use crate::simulation::record_of;
use diagnose::fleet::{Fleet, NodeVerdict, Reader, Taken, fleet, read};

/// Healthy nodes differ by this.
const NODE: f64 = 0.005;
/// How many times as long a short message takes to another rack.
pub(crate) const ACROSS: f64 = 1.4;
/// How many times as long a short message takes to another rack of the same pod.
const IN_POD: f64 = 1.2;

/// Where nodes stand.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Structure {
    /// All at the same distance.
    Flat(usize),
    /// Racks of so many nodes.
    Racks(Vec<usize>),
    /// Pods of racks of so many nodes: three levels of distance.
    Pods(Vec<Vec<usize>>),
}

impl Structure {
    /// The pod and the rack of each node.
    fn places(&self) -> Vec<(usize, usize)> {
        let pods = match self {
            Self::Flat(nodes) => vec![vec![*nodes]],
            Self::Racks(racks) => vec![racks.clone()],
            Self::Pods(pods) => pods.clone(),
        };
        let mut places = Vec::new();
        let mut rack = 0;
        for (pod, racks) in pods.iter().enumerate() {
            for nodes in racks {
                places.extend(std::iter::repeat_n((pod, rack), *nodes));
                rack += 1;
            }
        }
        places
    }

    /// How many times as long a short message takes between two nodes as within a rack.
    fn distance(&self, one: (usize, usize), other: (usize, usize)) -> f64 {
        match self {
            _ if one == other => 1.0,
            Self::Pods(_) if one.0 == other.0 => IN_POD,
            _ => ACROSS,
        }
    }
}

/// A cluster, and what is wrong with it.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    pub(crate) structure: Structure,
    /// Relative deviation of a trial.
    pub(crate) noise: f64,
    /// Trials of a case.
    pub(crate) trials: usize,
    /// Nodes that take so many times as long in the first case.
    pub(crate) slow: Vec<(usize, f64)>,
    /// Nodes whose messages take so many times as long.
    pub(crate) slow_ports: Vec<(usize, f64)>,
    /// Pairs whose messages take so many times as long.
    pub(crate) slow_links: Vec<([usize; 2], f64)>,
    /// Nodes whose own trials have this deviation.
    pub(crate) varying: Vec<(usize, f64)>,
    /// Nodes with a trial that takes so many times as long because other programs ran.
    pub(crate) disturbed: Vec<(usize, f64)>,
    pub(crate) seed: u64,
}

fn draw(noise: f64, count: usize, seed: u64) -> Vec<f64> {
    let mut series = StationarySeries::new(Situation { phi: 0.0, marginal: Marginal::Lognormal, noise }, seed);
    series.extend(count);
    series.samples
}

fn planted<T: PartialEq>(all: &[(T, f64)], at: &T) -> Option<f64> {
    all.iter().find(|(known, _)| known == at).map(|(_, factor)| *factor)
}

pub(crate) fn host(at: usize) -> String {
    format!("n{:03}", at + 1)
}

impl Cluster {
    pub(crate) fn healthy(structure: Structure, noise: f64, seed: u64) -> Self {
        let none = Vec::new;
        Self {
            structure,
            noise,
            trials: 12,
            slow: none(),
            slow_ports: none(),
            slow_links: Vec::new(),
            varying: none(),
            disturbed: none(),
            seed,
        }
    }

    pub(crate) fn nodes(&self) -> usize {
        self.structure.places().len()
    }

    /// What every node is, unless a part of it is lost.
    pub(crate) fn machine(at: usize) -> Machine {
        Machine {
            host: host(at),
            arch: "x86_64".to_owned(),
            cpu_model: "model".to_owned(),
            cores: Some(64),
            threads: Some(128),
            // Firmware takes a little: 511.49 to 511.51 GiB.
            memory_bytes: Some((511.5 * f64::from(1 << 30)) as u64 + ((at as u64 % 3) << 23) - (1 << 23)),
            gpus: vec!["H200".to_owned(); 8],
            ..Machine::default()
        }
    }

    /// The record that a node makes for itself: two cases.
    pub(crate) fn node(&self, at: usize) -> Record {
        let noise = planted(&self.varying, &at).unwrap_or(self.noise);
        let case = |case: usize| {
            let seed = self.seed * 1_000_003 + (at * 2 + case) as u64;
            let own =
                draw(NODE, 1, seed * 2)[0] * if case == 0 { planted(&self.slow, &at).unwrap_or(1.0) } else { 1.0 };
            let mut trials: Vec<f64> =
                draw(noise, self.trials, seed * 2 + 1).iter().map(|trial| 1e-3 * own * trial).collect();
            if let Some(factor) = planted(&self.disturbed, &at).filter(|_| case == 0) {
                trials.iter_mut().for_each(|trial| *trial *= factor);
            }
            trials
        };
        let mut record = record_of(&[case(0), case(1)], 0);
        record.file.machine = Self::machine(at);
        if planted(&self.disturbed, &at).is_some() {
            record.cases[0].caveats.push(record::Caveat::OtherPrograms);
        }
        record
    }

    /// The record of a launcher: tournaments of short and of long messages, and an all_reduce.
    pub(crate) fn launched(&self) -> Record {
        let nodes = self.nodes();
        let mut record = record_of(&[vec![1.0; 6], vec![1.0; 6], vec![1.0; 6]], 0);
        record.file.hosts = (0..nodes).map(Self::machine).collect();
        let hosts: Vec<String> = (0..nodes).map(host).collect();
        record.file.placement =
            vec![serde_json::from_value(json!({"ranks": nodes, "bind": "none", "hosts": hosts, "cpus": []})).unwrap()];
        for (at, line) in record.cases.iter_mut().enumerate() {
            line.ranks = nodes as u32;
            line.bytes = Some([8, 4 << 20, 16 << 20][at]);
            line.parameters.insert("bytes", json!(line.bytes));
        }
        for (at, line) in record.cases.iter_mut().take(2).enumerate() {
            line.metrics.insert("pair_s".to_owned(), json!(self.square(at == 0)));
        }
        record
    }

    /// Seconds between each two nodes. The noise is that of a median over trials.
    fn square(&self, short: bool) -> Vec<Vec<f64>> {
        let places = self.structure.places();
        let nodes = places.len();
        let seed = self.seed * 2_000_003 + 2 * u64::from(short);
        let own = draw(NODE, nodes, seed);
        let noise = self.noise * (std::f64::consts::FRAC_PI_2 / self.trials as f64).sqrt();
        let all = draw(noise, nodes * nodes, seed + 1);
        let port = |at: usize| planted(&self.slow_ports, &at).unwrap_or(1.0);
        let time = |low: usize, high: usize| {
            let distance = if short { self.structure.distance(places[low], places[high]) } else { 1.0 };
            let link = planted(&self.slow_links, &[low.min(high), low.max(high)]).unwrap_or(1.0);
            // The slower port bounds a message.
            1e-6 * all[low.min(high) * nodes + low.max(high)]
                * own[low]
                * own[high]
                * distance
                * link
                * port(low).max(port(high))
        };
        (0..nodes).map(|low| (0..nodes).map(|high| time(low, high)).collect()).collect()
    }

    pub(crate) fn records(&self) -> Vec<Record> {
        (0..self.nodes()).map(|at| self.node(at)).chain([self.launched()]).collect()
    }

    pub(crate) fn judged(&self) -> Fleet {
        judged(&self.records())
    }
}

pub(crate) fn taken(records: &[Record]) -> Taken {
    let is_local = |line: &CaseLine| line.bytes.is_none();
    let pairs = |line: &CaseLine| {
        let square: Vec<Vec<f64>> = serde_json::from_value(line.metrics.get("pair_s")?.clone()).ok()?;
        Some(PairTimes::from_square(&square))
    };
    let label = |_: &Record, line: &CaseLine| match line.bytes {
        Some(8) => "latency".to_owned(),
        Some(bytes) if bytes == 4 << 20 => "bandwidth".to_owned(),
        Some(_) => "all_reduce".to_owned(),
        None => format!("case {}", line.parameters.get("bytes").and_then(serde_json::Value::as_u64).unwrap_or(0)),
    };
    let reader = Reader { is_local: &is_local, pairs: &pairs, rank_trials: &|_| None, bits: &|_| None, label: &label };
    let mut all = Taken::default();
    for (at, record) in records.iter().enumerate() {
        all.add(read(&format!("record {at}"), record, &reader).unwrap());
    }
    all
}

pub(crate) fn judged(records: &[Record]) -> Fleet {
    fleet(&taken(records), None, &[])
}

/// Whether exactly these nodes are bad, and these links.
pub(crate) fn is_exact(fleet: &Fleet, bad: &[usize], links: &[[usize; 2]]) -> bool {
    let named = fleet.hosts(&[NodeVerdict::Failed, NodeVerdict::Slow]);
    let mut expected: Vec<String> = bad.iter().map(|at| host(*at)).collect();
    expected.sort();
    let mut slow: Vec<[String; 2]> =
        fleet.links.iter().map(|link| link.hosts.each_ref().map(ToString::to_string)).collect();
    slow.sort();
    slow.dedup();
    named.iter().map(ToString::to_string).collect::<Vec<_>>() == expected
        && slow == links.iter().map(|pair| pair.map(host)).collect::<Vec<_>>()
}

/// What verdicts on a kind of cluster achieved.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    pub(crate) healthy: usize,
    /// Healthy clusters with any bad node or link.
    pub(crate) false_alarms: usize,
    /// Healthy clusters with a node that cannot be told.
    pub(crate) unknown: usize,
    pub(crate) faulty: usize,
    /// Clusters with planted faults in which exactly these are named.
    pub(crate) exact: usize,
}

/// One kind of cluster: its healthy form, and its faults with what must be named.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) structure: Structure,
    pub(crate) noise: f64,
}

/// The kinds of clusters.
pub(crate) fn scenarios() -> Vec<Scenario> {
    let racks = |sizes: &[usize]| Structure::Racks(sizes.to_vec());
    let all = [
        ("flat, 16", Structure::Flat(16), 0.01),
        ("flat, 16", Structure::Flat(16), 0.03),
        ("flat, 16", Structure::Flat(16), 0.06),
        ("flat, 16", Structure::Flat(16), 0.10),
        ("racks of 12 + 4", racks(&[12, 4]), 0.01),
        ("racks of 12 + 4", racks(&[12, 4]), 0.03),
        ("racks of 12 + 4", racks(&[12, 4]), 0.06),
        ("racks of 12 + 4", racks(&[12, 4]), 0.10),
        ("racks of 15 + 1", racks(&[15, 1]), 0.01),
        ("racks of 15 + 1", racks(&[15, 1]), 0.03),
        ("racks of 15 + 1", racks(&[15, 1]), 0.06),
        ("racks of 15 + 1", racks(&[15, 1]), 0.10),
        ("racks of 62 + 2", racks(&[62, 2]), 0.01),
        ("racks of 62 + 2", racks(&[62, 2]), 0.03),
        ("racks of 62 + 2", racks(&[62, 2]), 0.06),
        ("racks of 62 + 2", racks(&[62, 2]), 0.10),
        ("pods of 6 + 6 and 6 + 6", Structure::Pods(vec![vec![6, 6], vec![6, 6]]), 0.01),
        ("pods of 6 + 6 and 6 + 6", Structure::Pods(vec![vec![6, 6], vec![6, 6]]), 0.03),
        ("pods of 6 + 6 and 6 + 6", Structure::Pods(vec![vec![6, 6], vec![6, 6]]), 0.06),
        ("pods of 6 + 6 and 6 + 6", Structure::Pods(vec![vec![6, 6], vec![6, 6]]), 0.10),
    ];
    all.into_iter().map(|(name, structure, noise)| Scenario { name, structure, noise }).collect()
}

impl Scenario {
    fn cluster(&self, seed: u64) -> Cluster {
        Cluster::healthy(self.structure.clone(), self.noise, seed)
    }

    /// A deficit that this noise lets show: 15%, and more where trials vary more.
    fn factor(&self) -> f64 {
        1.0 + (5.0 * self.noise).max(0.15)
    }

    /// The clusters of this kind with one fault each, with the bad nodes and the slow links.
    fn faults(&self, seed: u64) -> Vec<(Cluster, Vec<usize>, Vec<[usize; 2]>)> {
        let factor = self.factor();
        let at = (seed % 11) as usize;
        let slow = Cluster { slow: vec![(at, factor)], ..self.cluster(seed) };
        let port = Cluster { slow_ports: vec![(at, 2.0)], ..self.cluster(seed + 1000) };
        let link =
            Cluster { slow_links: vec![([at, at + 1], 1.0 + 2.0 * (factor - 1.0))], ..self.cluster(seed + 2000) };
        vec![(slow, vec![at], vec![]), (port, vec![at], vec![]), (link, vec![], vec![[at, at + 1]])]
    }

    /// Judges so many healthy clusters, and so many of each fault.
    pub(crate) fn rates(&self, healthy: usize, faulty: usize) -> Rates {
        let mut rates = Rates { healthy, ..Rates::default() };
        for seed in 0..healthy {
            let fleet = self.cluster(7 + seed as u64).judged();
            rates.false_alarms += usize::from(!is_exact(&fleet, &[], &[]));
            rates.unknown += usize::from(fleet.count(NodeVerdict::CannotTell) > 0);
        }
        for seed in 0..faulty {
            for (cluster, bad, links) in self.faults(50_000 + seed as u64) {
                rates.faulty += 1;
                rates.exact += usize::from(is_exact(&cluster.judged(), &bad, &links));
            }
        }
        rates
    }
}
