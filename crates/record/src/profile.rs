//! What a machine can do, from the record of a run that measured it: the ceilings that other runs are compared with.
//!
//! A case of any benchmark adds a ceiling by the metric `ceiling`, a [`Ceiling`] without its interval.

use std::path::Path;

use serde::{Deserialize, Serialize};
use terms::{Error, Status};

use crate::{CaseLine, Machine, RunFile, store};

/// What a ceiling bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CeilingKind {
    /// Bytes per second that cores read and write.
    Memory,
    /// Floating-point operations per second.
    Compute,
    /// Bytes per second from one rank to another.
    Link,
    /// Bytes per second from storage.
    Storage,
}

/// One measured ceiling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
}

/// A machine's ceilings, and where they are from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// The path by which a plan names it.
    pub path: String,
    /// When its run began: UTC, RFC 3339.
    pub started: String,
    /// The machine that was measured.
    pub machine: Machine,
    /// What was found.
    pub ceilings: Vec<Ceiling>,
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
            .ok_or_else(|| what().cause("no case of its record measured a ceiling").hint(HINT))
    }

    /// The profile that these lines make; None where none has a ceiling.
    pub fn of(path: &str, run: &RunFile, lines: &[CaseLine]) -> Option<Self> {
        let ceilings = Self::ceilings(lines);
        let (started, machine) = (run.started.clone(), run.machine.clone());
        (!ceilings.is_empty()).then(|| Self { path: path.to_owned(), started, machine, ceilings })
    }

    /// The ceilings that these lines measured.
    pub fn ceilings<'l>(lines: impl IntoIterator<Item = &'l CaseLine>) -> Vec<Ceiling> {
        let sound = |line: &&CaseLine| line.status == Status::Ok && !line.simulated;
        let ceiling = |line: &CaseLine| serde_json::from_value::<Ceiling>(line.metrics.get("ceiling")?.clone()).ok();
        let usable = |ceiling: &Ceiling| ceiling.rate.is_finite() && ceiling.rate > 0.0;
        lines.into_iter().filter(sound).filter_map(ceiling).filter(usable).collect()
    }

    /// Whether this is the machine that was measured.
    pub fn is_of(&self, machine: &Machine) -> bool {
        let of = |machine: &Machine| (machine.host.clone(), machine.cpu_model.clone(), machine.allowed_cpus.len());
        of(&self.machine) == of(machine)
    }

    /// Bytes per second that so many threads read and write where they work on so many bytes together: the fastest loop of
    /// the two nearest working sets, and between them in proportion on a logarithmic scale.
    pub fn memory(&self, threads: u32, bytes: u64) -> Option<f64> {
        let near = self.nearest_threads(CeilingKind::Memory, threads)?;
        let mut sizes: Vec<(f64, f64)> = Vec::new();
        for ceiling in self.of_kind(CeilingKind::Memory).filter(|ceiling| ceiling.threads == near) {
            let Some(size) = ceiling.bytes.filter(|size| *size > 0) else { continue };
            let size = (size as f64).ln();
            // Tests round their sizes down by less than this.
            match sizes.iter_mut().find(|(known, _)| (known - size).abs() < 0.05) {
                Some((_, rate)) => *rate = rate.max(ceiling.rate),
                None => sizes.push((size, ceiling.rate)),
            }
        }
        sizes.sort_by(|a, b| a.0.total_cmp(&b.0));
        let at = (bytes.max(1) as f64).ln();
        let above = sizes.iter().position(|(size, _)| *size >= at);
        match above {
            Some(0) => sizes.first().map(|(_, rate)| *rate),
            None => sizes.last().map(|(_, rate)| *rate),
            Some(above) => {
                let ((low, from), (high, to)) = (sizes[above - 1], sizes[above]);
                let share = (at - low) / (high - low);
                Some((from.ln() + share * (to.ln() - from.ln())).exp())
            }
        }
    }

    /// Operations per second of this type on so many threads.
    pub fn compute(&self, threads: u32, dtype: &str) -> Option<f64> {
        let of_type = |ceiling: &&Ceiling| ceiling.dtype.as_deref() == Some(dtype);
        let known: Vec<&Ceiling> = self.of_kind(CeilingKind::Compute).filter(of_type).collect();
        let near = nearest(known.iter().map(|ceiling| ceiling.threads), threads)?;
        known.iter().filter(|ceiling| ceiling.threads == near).map(|ceiling| ceiling.rate).max_by(f64::total_cmp)
    }

    fn of_kind(&self, kind: CeilingKind) -> impl Iterator<Item = &Ceiling> {
        self.ceilings.iter().filter(move |ceiling| ceiling.kind == kind)
    }

    fn nearest_threads(&self, kind: CeilingKind, threads: u32) -> Option<u32> {
        nearest(self.of_kind(kind).map(|ceiling| ceiling.threads), threads)
    }
}

/// The most of these threads that are not more than wanted; else the fewest.
fn nearest(known: impl Iterator<Item = u32>, wanted: u32) -> Option<u32> {
    let mut known: Vec<u32> = known.collect();
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
        };
        let ceilings = ceilings.iter().map(ceiling).collect();
        Profile { path: "p".into(), started: String::new(), machine: Machine::default(), ceilings }
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
        let at = |threads, bytes| found.memory(threads, bytes).unwrap();
        assert_eq!((at(2, 1 << 10), at(2, 16), at(2, 1 << 30)), (100.0, 100.0, 1.0));
        assert!((at(2, 1 << 15) - 10.0).abs() < 1e-9, "half way on both scales: {}", at(2, 1 << 15));
        assert_eq!((at(1, 1 << 20), at(64, 1 << 10)), (50.0, 100.0), "the most threads that are not more");
        assert_eq!(profile(&[]).memory(1, 1), None);
    }

    #[test]
    fn a_peak_is_that_of_its_type() {
        use CeilingKind::Compute;
        let found = profile(&[(Compute, 5.0, 1, 0, "f32"), (Compute, 9.0, 2, 0, "f32"), (Compute, 3.0, 1, 0, "f64")]);
        assert_eq!(
            [found.compute(1, "f32"), found.compute(3, "f32"), found.compute(2, "f64")],
            [5.0, 9.0, 3.0].map(Some)
        );
        assert_eq!(found.compute(1, "f16"), None);
    }

    #[test]
    fn a_folder_without_a_record_is_refused_with_the_way_to_make_one() {
        let why = Profile::read("/no/such/record").unwrap_err();
        assert!(why.what.contains("no profile of a machine in `/no/such/record`"), "{why:?}");
        assert!(why.hint.as_ref().is_some_and(|hint| hint.contains("rankmark hardware")), "{why:?}");
    }
}
