//! What a machine can do, from the record of a run that measured it: the ceilings that other runs are compared with.
//!
//! A case of any benchmark adds a ceiling by the metric `ceiling`, a [`Ceiling`] without its interval.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use terms::{Error, Status};

use crate::demand::{CPU, Demand};
use crate::{Better, CaseLine, Caveat, Key, Machine, Metric, RunFile, Shape, store};

/// What a ceiling bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CeilingKind {
    /// Bytes per second that cores read and write.
    #[default]
    Memory,
    /// Floating-point operations per second.
    Compute,
    /// Bytes per second from one rank to another.
    Link,
    /// Bytes per second from storage.
    Storage,
    /// Bytes per second between the host and a device.
    Transfer,
}

/// What a profile of the machine keeps of a case.
pub const CEILING: Key<Ceiling> = Key::new(
    Metric::new("ceiling", "", Better::Higher, "what a profile of the machine keeps of this case").shape(Shape::Map),
);

/// One measured ceiling.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ceiling {
    /// What it bounds.
    pub kind: CeilingKind,
    /// The test that found it.
    pub name: String,
    /// Bytes or operations per second.
    pub rate: f64,
    /// Threads that shared it.
    pub threads: u32,
    /// Bytes that all threads together worked on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The element type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<String>,
    /// The device that was measured, where it was not the CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// What moved the data of a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
}

impl Ceiling {
    /// The device that was measured.
    fn device(&self) -> &str {
        self.device.as_deref().unwrap_or(CPU)
    }
}

/// A machine's ceilings, and where they are from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Profile {
    /// The path by which a plan names it.
    pub path: String,
    /// When its run began: UTC, RFC 3339.
    pub started: String,
    /// The machine that was measured.
    pub machine: Machine,
    /// What was found.
    pub ceilings: Vec<Ceiling>,
    /// What says that its record is incomplete, so that ceilings may be missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
}

impl Profile {
    /// Reads the record of a run that measured a machine.
    ///
    /// # Errors
    /// When there is no record, or it holds no ceiling.
    pub fn read(path: &str) -> Result<Self, Error> {
        const HINT: &str = "`rankmark hardware` measures a profile, and prints the path of its record";
        let what = || Error::new(format!("there is no profile of a machine in `{path}`"));
        let run = store::read_results(Path::new(path)).map_err(|error| what().cause(error.to_string()).hint(HINT))?;
        Self::of(path, &run.file, &run.cases)
            .map(|profile| Self { incomplete: run.banner(), ..profile })
            .ok_or_else(|| what().cause("no case of its record measured a ceiling").hint(HINT))
    }

    /// The profile that these lines make; None where none has a ceiling.
    pub fn of(path: &str, run: &RunFile, lines: &[CaseLine]) -> Option<Self> {
        let ceilings = Self::ceilings(lines);
        let (started, machine) = (run.started.clone(), run.machine.clone());
        (!ceilings.is_empty()).then(|| Self { path: path.to_owned(), started, machine, ceilings, incomplete: None })
    }

    /// The ceilings that these lines measured.
    pub fn ceilings<'l>(lines: impl IntoIterator<Item = &'l CaseLine>) -> Vec<Ceiling> {
        let is_real = |line: &CaseLine| !line.simulated && !line.caveats.contains(&Caveat::Emulated);
        let sound = |line: &&CaseLine| line.status == Status::Ok && is_real(line);
        let ceiling = |line: &CaseLine| CEILING.of(line);
        let usable = |ceiling: &Ceiling| ceiling.rate.is_finite() && ceiling.rate > 0.0;
        lines.into_iter().filter(sound).filter_map(ceiling).filter(usable).collect()
    }

    /// Whether this is the machine that was measured. Records of earlier versions name no GPUs.
    pub fn is_of(&self, machine: &Machine) -> bool {
        let of = |machine: &Machine| (machine.host.clone(), machine.cpu_model.clone(), machine.allowed_cpus.len());
        let (then, now) = (&self.machine.gpus, &machine.gpus);
        of(&self.machine) == of(machine) && (then == now || then.is_empty() || now.is_empty())
    }

    /// Bytes per second that the demand's threads read and write at its working set: the fastest loop of the two nearest
    /// sizes, and between them in proportion on a logarithmic scale.
    pub fn memory(&self, demand: &Demand<'_>) -> Option<f64> {
        let known: Vec<&Ceiling> = self.known(CeilingKind::Memory, demand.device).collect();
        let near = nearest(&known, demand.threads)?;
        let sizes = known.iter().filter(|ceiling| ceiling.threads == near);
        // Each device has a memory of its own.
        let (each, all) = if demand.device == CPU { (1, 1) } else { (near, demand.threads) };
        let sizes = sizes.filter_map(|ceiling| Some((ceiling.bytes? / u64::from(each.max(1)), ceiling.rate)));
        let rate = interpolated(sizes, demand.working_set / u64::from(all.max(1)))?;
        Some(rate * scale(demand, near))
    }

    /// Operations per second of the demand's type on its threads.
    pub fn compute(&self, demand: &Demand<'_>) -> Option<f64> {
        let of_type = |ceiling: &&Ceiling| ceiling.dtype.as_deref() == Some(demand.dtype);
        let known: Vec<&Ceiling> = self.known(CeilingKind::Compute, demand.device).filter(of_type).collect();
        let near = nearest(&known, demand.threads)?;
        let fastest = known.iter().filter(|ceiling| ceiling.threads == near).map(|ceiling| ceiling.rate);
        Some(fastest.max_by(f64::total_cmp)? * scale(demand, near))
    }

    /// Bytes per second that a rank sends over a link, by the demand's backend: the fastest test of the two nearest sizes.
    pub fn link(&self, demand: &Demand<'_>) -> Option<f64> {
        let of_backend = |ceiling: &&Ceiling| ceiling.backend.as_deref() == Some(demand.backend);
        let known = self.known(CeilingKind::Link, demand.device).filter(of_backend);
        interpolated(known.filter_map(|ceiling| Some((ceiling.bytes?, ceiling.rate))), demand.message)
    }

    fn known<'p>(&'p self, kind: CeilingKind, device: &'p str) -> impl Iterator<Item = &'p Ceiling> {
        self.ceilings.iter().filter(move |ceiling| ceiling.kind == kind && ceiling.device() == device)
    }
}

/// What a rate of so many threads is multiplied by for those of the demand: devices share nothing, cores share memory.
fn scale(demand: &Demand<'_>, near: u32) -> f64 {
    if demand.device == CPU { 1.0 } else { f64::from(demand.threads) / f64::from(near.max(1)) }
}

/// The rate at a size: between two measured ones in proportion on a logarithmic scale, outside them that of the nearest.
fn interpolated(measured: impl Iterator<Item = (u64, f64)>, size: u64) -> Option<f64> {
    let mut sizes: Vec<(f64, f64)> = Vec::new();
    for (size, rate) in measured.filter(|(size, _)| *size > 0) {
        let size = (size as f64).ln();
        // Tests round their sizes down by less than this.
        match sizes.iter_mut().find(|(known, _)| (known - size).abs() < 0.05) {
            Some((_, fastest)) => *fastest = fastest.max(rate),
            None => sizes.push((size, rate)),
        }
    }
    sizes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let at = (size.max(1) as f64).ln();
    match sizes.iter().position(|(size, _)| *size >= at) {
        Some(0) => sizes.first().map(|(_, rate)| *rate),
        None => sizes.last().map(|(_, rate)| *rate),
        Some(above) => {
            let ((low, from), (high, to)) = (sizes[above - 1], sizes[above]);
            let share = (at - low) / (high - low);
            Some((from.ln() + share * (to.ln() - from.ln())).exp())
        }
    }
}

/// The most of these threads that are not more than wanted; else the fewest.
fn nearest(known: &[&Ceiling], wanted: u32) -> Option<u32> {
    let mut known: Vec<u32> = known.iter().map(|ceiling| ceiling.threads).collect();
    known.sort_unstable();
    known.iter().rev().find(|threads| **threads <= wanted).or(known.first()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(ceilings: &[(CeilingKind, f64, u32, u64, &str)]) -> Profile {
        let ceiling = |(kind, rate, threads, bytes, dtype): &(CeilingKind, f64, u32, u64, &str)| Ceiling {
            kind: *kind,
            name: "x".into(),
            rate: *rate,
            threads: *threads,
            bytes: (*bytes > 0).then_some(*bytes),
            dtype: (!dtype.is_empty()).then(|| (*dtype).to_owned()),
            ..Ceiling::default()
        };
        let ceilings = ceilings.iter().map(ceiling).collect();
        Profile { path: "p".into(), ceilings, ..Profile::default() }
    }

    #[test]
    fn the_fastest_loop_counts_between_the_nearest_working_sets() {
        use CeilingKind::Memory;
        let found = profile(&[
            (Memory, 100.0, 2, 1 << 10, ""),
            (Memory, 80.0, 2, 1 << 10, ""),
            (Memory, 1.0, 2, 1 << 20, ""),
            (Memory, 50.0, 1, 1 << 10, ""),
        ]);
        let demand = |threads, working_set| Demand { threads, working_set, ..Demand::of_cpu("f32") };
        let at = |threads, bytes| found.memory(&demand(threads, bytes)).unwrap();
        assert_eq!((at(2, 1 << 10), at(2, 16), at(2, 1 << 30)), (100.0, 100.0, 1.0));
        assert!((at(2, 1 << 15) - 10.0).abs() < 1e-9, "half way on both scales: {}", at(2, 1 << 15));
        assert_eq!((at(1, 1 << 20), at(64, 1 << 10)), (50.0, 100.0), "the most threads that are not more");
        assert_eq!(profile(&[]).memory(&demand(1, 1)), None);
    }

    #[test]
    fn a_peak_is_that_of_its_type() {
        use CeilingKind::Compute;
        let found = profile(&[(Compute, 5.0, 1, 0, "f32"), (Compute, 9.0, 2, 0, "f32"), (Compute, 3.0, 1, 0, "f64")]);
        let peak = |threads, dtype| found.compute(&Demand { threads, ..Demand::of_cpu(dtype) });
        assert_eq!([peak(1, "f32"), peak(3, "f32"), peak(2, "f64")], [5.0, 9.0, 3.0].map(Some));
        assert_eq!(peak(1, "f16"), None);
    }

    #[test]
    fn devices_have_ceilings_of_their_own_and_share_nothing() {
        use CeilingKind::{Compute, Memory};
        let mut found = profile(&[
            (Memory, 800.0, 4, 4 << 20, ""),
            (Memory, 400.0, 4, 4 << 30, ""),
            (Compute, 80.0, 4, 0, "f32"),
            (Memory, 7.0, 4, 4 << 20, ""),
        ]);
        found.ceilings[..3].iter_mut().for_each(|ceiling| ceiling.device = Some("cuda".into()));
        let of = |device, threads, working_set| Demand { device, threads, working_set, ..Demand::of_cpu("f32") };
        let memory = |device, threads, bytes| found.memory(&of(device, threads, bytes));
        assert_eq!(memory("cpu", 4, 4 << 20), Some(7.0));
        assert_eq!(memory("cuda", 2, 2 << 20), Some(400.0), "half of the GPUs, each with as many bytes");
        assert!((memory("cuda", 8, 8 << 30).unwrap() - 800.0).abs() < 1e-9);
        assert_eq!([found.compute(&of("cuda", 1, 0)), found.compute(&of("cpu", 1, 0))], [Some(20.0), None]);
    }

    #[test]
    fn a_link_is_that_of_the_backend_at_the_size_of_the_message() {
        let mut found =
            profile(&[(CeilingKind::Link, 10.0, 1, 1 << 10, ""), (CeilingKind::Link, 90.0, 1, 1 << 20, "")]);
        found.ceilings.iter_mut().for_each(|ceiling| ceiling.backend = Some("mpi".into()));
        let link = |backend, message| found.link(&Demand { backend, message, ..Demand::of_cpu("f32") });
        assert_eq!([link("mpi", 8), link("mpi", 1 << 30), link("shm", 8)], [Some(10.0), Some(90.0), None]);
        assert!((link("mpi", 1 << 15).unwrap() - 30.0).abs() < 1e-9, "half way on both scales");
    }

    #[test]
    fn a_folder_without_a_record_is_refused_with_the_way_to_make_one() {
        let why = Profile::read("/no/such/record").unwrap_err();
        assert!(why.what.contains("no profile of a machine in `/no/such/record`"), "{why:?}");
        assert!(why.hint.as_ref().is_some_and(|hint| hint.contains("rankmark hardware")), "{why:?}");
    }
}
