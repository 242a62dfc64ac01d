//! The roofline (Williams, Waterman and Patterson 2009, doi:10.1145/1498765.1498785): how fast the ceilings of a machine let
//! a computation be.

use crate::found::Roofline;
use crate::{Demand, Profile};

/// The shortest time of a demand, and which ceiling sets it.
#[derive(Clone, Debug, PartialEq)]
pub struct Roof {
    /// Seconds.
    pub time_s: f64,
    /// `memory`, `compute` or `communication`.
    pub bound: &'static str,
    /// Bytes per second that the threads can move.
    pub memory: Option<f64>,
    /// Operations per second that they can make.
    pub compute: Option<f64>,
}

/// The bound of what waits for other ranks.
pub const COMMUNICATION: &str = "communication";

/// Operations a byte below which memory is the bound on every machine, whatever its peak: sums of collectives.
const MEMORY_BOUND: f64 = 1.0;

impl Profile {
    /// The roof over a demand; None where no ceiling bounds it.
    pub fn roof(&self, demand: &Demand<'_>) -> Option<Roof> {
        let memory = self.memory(demand).filter(|_| demand.traffic > 0.0);
        let compute = self.compute(demand).filter(|_| demand.flops > 0.0);
        // Without the peak of its type, memory would seem to bound what computes.
        if compute.is_none() && demand.flops > 0.0 && demand.flops >= MEMORY_BOUND * demand.traffic {
            return None;
        }
        let link = self.link(demand).filter(|_| demand.sent > 0.0);
        let times = [
            (memory.map(|rate| demand.traffic / rate), "memory"),
            (compute.map(|rate| demand.flops / rate), "compute"),
            (link.map(|rate| demand.sent / rate), COMMUNICATION),
        ];
        // Of equal times the first counts.
        let longest = times.into_iter().rev().filter_map(|(time, bound)| Some((time?, bound)));
        let (time_s, bound) = longest.max_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(Roof { time_s, bound, memory, compute })
    }
}

impl Roof {
    /// Where a demand that took so many seconds lies below it.
    pub fn point(&self, demand: &Demand<'_>, seconds: f64) -> Roofline {
        let giga = |rate: Option<f64>| rate.map(|rate| rate / 1e9);
        Roofline {
            bound: self.bound.to_owned(),
            intensity: (demand.traffic > 0.0).then(|| demand.flops / demand.traffic),
            gflops: Some(demand.flops / seconds / 1e9),
            roof_gflops: Some(demand.flops / self.time_s / 1e9),
            memory_gbs: giga(self.memory),
            peak_gflops: giga(self.compute),
            share: Some(self.time_s / seconds),
            ..Roofline::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ceiling, CeilingKind};

    fn profile() -> Profile {
        let ceiling = |kind, rate, dtype: Option<&str>| Ceiling {
            kind,
            name: String::new(),
            rate,
            threads: 1,
            bytes: Some(1 << 20),
            dtype: dtype.map(str::to_owned),
            ..Ceiling::default()
        };
        let ceilings =
            vec![ceiling(CeilingKind::Memory, 10e9, None), ceiling(CeilingKind::Compute, 100e9, Some("f32"))];
        Profile { path: "p".into(), ceilings, ..Profile::default() }
    }

    #[test]
    fn the_slower_of_moving_and_computing_is_the_bound() {
        let demand = |traffic, flops| Demand { working_set: 1 << 20, traffic, flops, ..Demand::of_cpu("f32") };
        let roof = |traffic, flops| profile().roof(&demand(traffic, flops));
        let time_and_bound = |traffic, flops| roof(traffic, flops).map(|roof| (roof.time_s, roof.bound));
        assert_eq!(time_and_bound(1e9, 1e9), Some((0.1, "memory")), "below 10 operations a byte");
        assert_eq!(time_and_bound(1e9, 20e9), Some((0.2, "compute")), "above");
        assert_eq!(time_and_bound(1e9, 0.0), Some((0.1, "memory")));
        assert_eq!(time_and_bound(0.0, 1e9), Some((0.01, "compute")));
        assert_eq!(time_and_bound(0.0, 0.0), None);
        let placed = roof(1e9, 20e9).unwrap().point(&demand(1e9, 20e9), 0.4);
        assert_eq!([placed.intensity, placed.gflops, placed.roof_gflops], [20.0, 50.0, 100.0].map(Some));
        assert_eq!([placed.share, placed.memory_gbs, placed.peak_gflops], [0.5, 10.0, 100.0].map(Some));
        for traffic in [0.0, 1e9] {
            let of_f64 = Demand { dtype: "f64", ..demand(traffic, 1e9) };
            assert_eq!(profile().roof(&of_f64), None, "a type without a peak has no roof");
        }
        let sums = Demand { dtype: "f64", ..demand(1e9, 0.25e9) };
        assert_eq!(profile().roof(&sums).map(|roof| roof.bound), Some("memory"), "what hardly computes needs no peak");
    }
}
