//! Bandwidth from the cores of each NUMA node to the memory of each: the triad, one pair of nodes after the other.

use std::sync::Arc;
use std::time::Instant;

use comm::Communicator;
use contract::{Prepared, Work};
use device::Region;
use engine::cores::run_on;
use measure::{Failure, WrongReport, machine};
use serde_json::{Map, Value};

use super::fields::Test;
use super::loops::run;
use super::memory::{expected, given, part};
use super::resolve::Task;
use super::team::Team;

/// Arrays of the triad.
const ARRAYS: usize = 3;
/// What the output holds before the first call.
const UNWRITTEN: f64 = -1.0;
/// `MPOL_BIND` of set_mempolicy(2).
const BIND: libc::c_long = 2;

/// The cores of a node that this process may use, and threads on them.
struct Cores {
    cores: Vec<u32>,
    team: Team,
}

/// Arrays in the memory of a node.
struct NodeMemory {
    arrays: [usize; ARRAYS],
    _region: Arc<Region>,
}

/// A case.
struct Numa {
    nodes: Vec<Cores>,
    memories: Vec<NodeMemory>,
    len: usize,
    shift: u64,
    /// `[cores' node][memory's node]`: seconds of the passes since they were last asked for.
    times: Vec<Vec<Vec<f64>>>,
    /// Where this thread ran before, and runs again after the case.
    before: Vec<u32>,
}

impl Drop for Numa {
    fn drop(&mut self) {
        run_on(&self.before);
    }
}

/// Whether a node is in the kernel's list of those with memory (`0-1,3`). Without a list each node has some.
fn has_memory(list: &str, node: u32) -> bool {
    let contains = |range: &str| {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        Some((low.parse::<u32>().ok()?..=high.parse::<u32>().ok()?).contains(&node))
    };
    list.is_empty() || list.split(',').filter_map(contains).any(|is_in| is_in)
}

/// Nodes with memory and cores that this process may use: number and cores.
pub(super) fn nodes() -> Vec<(u32, Vec<u32>)> {
    nodes_of(&machine::allowed_cpus())
}

/// Nodes of these cores: number and cores. A rank is bound to one core, and may use those of its host all the same.
/// A node without memory is left out: nothing can be bound to it.
pub(super) fn nodes_of(cores: &[u32]) -> Vec<(u32, Vec<u32>)> {
    let with_memory = std::fs::read_to_string("/sys/devices/system/node/has_memory").unwrap_or_default();
    let is_measured = |node: &u32| has_memory(with_memory.trim(), *node);
    let mut nodes: Vec<(u32, Vec<u32>)> = Vec::new();
    for processor in machine::processors(cores) {
        let Some(node) = processor.numa_node.filter(is_measured) else { continue };
        match nodes.iter_mut().find(|(number, _)| *number == node) {
            Some((_, cores)) => cores.push(processor.number),
            None => nodes.push((node, vec![processor.number])),
        }
    }
    nodes.sort_unstable();
    nodes
}

/// Allocates on each node, and fills.
pub(super) fn prepare(task: &Task, nodes: &[(u32, Vec<u32>)]) -> Result<Box<dyn Prepared>, Failure> {
    Ok(Box::new(Numa::new(task, nodes)?))
}

impl Numa {
    /// Allocates on each node, and fills.
    fn new(task: &Task, nodes: &[(u32, Vec<u32>)]) -> Result<Self, Failure> {
        let lacking = |error: std::io::Error| Failure::lacking(error.to_string());
        let len = (task.bytes / 8 / ARRAYS as u64) as usize;
        let mut memories = Vec::new();
        let mut teams = Vec::new();
        for (number, cores) in nodes {
            let region = Region::host((len * 8 * ARRAYS).max(64)).map_err(lacking)?;
            bind(&region, *number)
                .map_err(|error| Failure::lacking(format!("memory cannot be bound to NUMA node {number}: {error}")))?;
            let base = region.base() as usize;
            memories.push(NodeMemory { arrays: [0, 1, 2].map(|array| base + array * len * 8), _region: region });
            teams.push(Cores { cores: cores.clone(), team: Team::new(cores.len(), 0, cores).map_err(lacking)? });
        }
        let times = vec![vec![Vec::new(); nodes.len()]; nodes.len()];
        let before = machine::allowed_cpus();
        let mut numa = Self { nodes: teams, memories, len, shift: task.seed, times, before };
        numa.refill();
        Ok(numa)
    }
}

/// Asks for pages of this node, before any is touched.
fn bind(region: &Region, node: u32) -> std::io::Result<()> {
    let mut mask = [0_u64; 16];
    if let Some(word) = mask.get_mut(node as usize / 64) {
        *word |= 1 << (node % 64);
    }
    // SAFETY: the region is whole pages of this process; the mask has as many bits as the call is given.
    let code = unsafe {
        libc::syscall(libc::SYS_mbind, region.base(), region.len(), BIND, mask.as_ptr(), 64 * mask.len() + 1, 0)
    };
    if code == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

impl Numa {
    /// One triad for each pair of nodes.
    fn pass(&mut self) {
        let len = self.len;
        for (node, times) in self.nodes.iter_mut().zip(&mut self.times) {
            // The caller is the team's first thread.
            run_on(&node.cores[..1]);
            let threads = node.team.count();
            for (memory, times) in self.memories.iter().zip(times) {
                let arrays = memory.arrays;
                let begin = Instant::now();
                // SAFETY: parts of the arrays, apart from each other, and one thread each.
                node.team.run(&|thread| unsafe { run(Test::Triad, part(arrays, len, thread, threads).1, 1) });
                times.push(begin.elapsed().as_secs_f64());
            }
        }
    }

    /// Compares every element of every output.
    fn compare(&self, calls: u64) -> WrongReport {
        let mut report = WrongReport::default();
        for memory in &self.memories {
            let (_, part) = part(memory.arrays, self.len, 0, 1);
            for index in 0..part.len {
                let [.., expected] = expected(Test::Triad, given(index as u64, self.shift), calls > 0);
                // SAFETY: inside the arrays, and no thread runs.
                report.count += u64::from(unsafe { part.c.add(index).read() } != expected);
            }
            report.compared += part.len as u64;
        }
        report
    }
}

impl Prepared for Numa {
    fn run(&mut self, _comm: &mut dyn Communicator) -> Result<(), Failure> {
        self.pass();
        Ok(())
    }

    fn refill(&mut self) {
        self.shift += 1;
        for memory in &self.memories {
            let (_, part) = part(memory.arrays, self.len, 0, 1);
            for index in 0..part.len {
                let [a, b] = given(index as u64, self.shift);
                // SAFETY: inside the arrays, and no thread runs.
                unsafe {
                    part.a.add(index).write(a);
                    part.b.add(index).write(b);
                    part.c.add(index).write(UNWRITTEN);
                }
            }
        }
    }

    fn check(&mut self, _comm: &mut dyn Communicator, calls: u64) -> Result<WrongReport, Failure> {
        Ok(self.compare(calls))
    }

    fn work(&self) -> Work {
        Work { max_calls: u64::MAX, checks: 1, ..Work::default() }
    }

    fn path(&self, _comm: &dyn Communicator) -> String {
        "plain stores".to_owned()
    }

    /// The median bandwidth of each pair of nodes, in GB/s, since it was last asked.
    fn details(&mut self) -> Map<String, Value> {
        let bytes = (self.len * 8 * ARRAYS) as f64;
        let rate = |times: &mut Vec<f64>| match std::mem::take(times) {
            none if none.is_empty() => Value::Null,
            times => (bytes / stats::median(&times) / 1e9).into(),
        };
        let rows: Vec<Vec<Value>> = self.times.iter_mut().map(|row| row.iter_mut().map(rate).collect()).collect();
        Map::from_iter([("node_gbs".to_owned(), rows.into())])
    }
}

#[cfg(test)]
mod tests {
    use terms::Dtype;

    use super::*;

    #[test]
    fn a_node_without_memory_is_not_measured() {
        let of = |list: &str| [0, 1, 2, 3].map(|node| has_memory(list, node));
        assert_eq!(of("0-1,3"), [true, true, false, true]);
        assert_eq!(of("0"), [true, false, false, false]);
        assert_eq!(of(""), [true; 4], "a container hides the list");
    }

    /// Where the system lets nobody choose nodes, there is nothing to test.
    #[test]
    fn every_pair_of_nodes_is_measured_and_checked() {
        let known = nodes();
        let Some(first) = known.first().cloned() else { return };
        let (bytes, dtype, path) = (3 * 8 * 1000, Dtype::F64, String::new());
        let task = Task { test: Test::Numa, ranks: 1, threads: 1, bytes, dtype, size: 0, path, seed: 1 };
        let Ok(mut numa) = Numa::new(&task, &[first.clone(), first]) else { return };
        assert_eq!(numa.compare(0).count, 0);
        assert_eq!(numa.compare(1).count, 2000, "a call that did nothing is seen");
        numa.pass();
        let report = numa.compare(1);
        assert_eq!((report.count, report.compared), (0, 2000));
        let details = numa.details();
        let rates: Vec<Vec<f64>> = serde_json::from_value(details["node_gbs"].clone()).unwrap();
        assert!(rates.len() == 2 && rates.iter().all(|row| row.len() == 2 && row.iter().all(|rate| *rate > 0.0)));
        assert_eq!(numa.details()["node_gbs"][0][0], Value::Null, "asked once");
        let before = numa.before.clone();
        drop(numa);
        assert_eq!(machine::allowed_cpus(), before, "the next case runs where it did");
    }
}
