//! What memory and links can do at most: a measured ceiling beyond it is a wrong measurement, and no limit.

use record::{CaseLine, Caveat, Demand, Machine, Profile};

/// Bytes that a core moves in a second, at most: two loads and a store of 64 bytes in each of 6e9 cycles.
const CORE: f64 = 3.0 * 64.0 * 6e9;
/// A ceiling may be so many times as fast as the profile's: loops, buffers and clocks differ.
const SLACK: f64 = 2.0;
/// Of the bytes that each rank sends at least, so many leave its host at least, whatever the way between ranks.
const LEAVES_HOST: f64 = 0.5;

/// What ceilings of a run are compared with.
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    /// The profile of this machine, where one was found.
    pub profile: Option<Profile>,
    /// Bytes a second of all network interfaces of the host with the slowest ones; None where one does not say.
    pub network: Option<f64>,
}

impl Bounds {
    /// For a run on these machines: the coordinator's, or all of several.
    pub fn new(profile: Option<Profile>, machines: &[Machine]) -> Self {
        let of_host = |machine: &Machine| -> Option<f64> {
            let speeds: Option<Vec<u64>> = machine.interfaces.iter().map(|interface| interface.megabits).collect();
            let megabits: u64 = speeds?.iter().sum();
            (megabits > 0).then_some(megabits as f64 * 1e6 / 8.0)
        };
        let hosts: Option<Vec<f64>> = machines.iter().map(of_host).collect();
        Self { profile, network: hosts.and_then(|hosts| hosts.into_iter().reduce(f64::min)) }
    }

    /// Refuses the ceiling of a line that nothing can be as fast as: its reason stands in place of the share.
    pub(crate) fn check(&self, demand: &Demand<'_>, line: &mut CaseLine) {
        let crosses = line.hosts.is_some() && line.pair_hosts != Some(1);
        let Some(limit) = line.limit.as_mut().filter(|limit| limit.time_s > 0.0) else { return };
        limit.why_not = self.reason(demand, limit.time_s, crosses);
        if limit.why_not.is_some() && !line.caveats.contains(&Caveat::LimitNotFound) {
            line.caveats.push(Caveat::LimitNotFound);
        }
    }

    /// Why a call cannot take as little as this; None where it can.
    fn reason(&self, demand: &Demand<'_>, seconds: f64, crosses: bool) -> Option<String> {
        let moved = demand.traffic / seconds;
        let cores = (demand.device == "cpu").then(|| CORE * f64::from(demand.threads.max(1)));
        let measured = self.profile.as_ref().and_then(|profile| profile.memory(demand));
        let left = LEAVES_HOST * demand.sent / seconds;
        let network = self.network.filter(|network| crosses && left > *network);
        match (cores.filter(|cores| moved > *cores), measured.filter(|measured| moved > SLACK * measured), network) {
            (Some(cores), ..) => Some(format!(
                "the limit probe moved {}, but the cores of the ranks can move at most {}",
                rate(moved),
                rate(cores)
            )),
            (_, Some(measured), _) => Some(format!(
                "the limit probe moved {}, but the profile of this machine shows {}",
                rate(moved),
                rate(measured)
            )),
            (.., Some(network)) => Some(format!(
                "{} would leave each host, but its network interfaces carry at most {}",
                rate(left),
                rate(network)
            )),
            _ => None,
        }
    }
}

/// `12.5 GB/s`.
fn rate(bytes_per_s: f64) -> String {
    let gigabytes = bytes_per_s / 1e9;
    match gigabytes {
        many if many >= 100.0 => format!("{many:.0} GB/s"),
        some if some >= 10.0 => format!("{some:.1} GB/s"),
        few => format!("{few:.2} GB/s"),
    }
}

#[cfg(test)]
mod tests {
    use record::{Ceiling, CeilingKind, NetworkInterface};

    use super::*;

    fn demand(traffic: f64, sent: f64) -> Demand<'static> {
        Demand { threads: 2, working_set: 1 << 20, traffic, sent, ..Demand::of_cpu("f32") }
    }

    fn machine(megabits: &[Option<u64>]) -> Machine {
        let interface =
            |(at, megabits): (usize, &Option<u64>)| NetworkInterface { name: format!("eth{at}"), megabits: *megabits };
        Machine { interfaces: megabits.iter().enumerate().map(interface).collect(), ..Machine::default() }
    }

    #[test]
    fn no_core_is_as_fast_as_a_wrong_reading_of_a_clock() {
        let bounds = Bounds::default();
        // 64 KiB on two ranks in a nanosecond, and in two microseconds.
        let why = bounds.reason(&demand(196_608.0, 0.0), 1e-11, false).unwrap();
        assert!(why.contains("the cores of the ranks can move at most 2304 GB/s"), "{why}");
        assert_eq!(bounds.reason(&demand(196_608.0, 0.0), 2e-6, false), None);
        assert_eq!(bounds.reason(&demand(0.0, 0.0), 1e-11, false), None, "what moves nothing has no rate");
    }

    #[test]
    fn a_ceiling_is_no_faster_than_twice_what_the_profile_measured() {
        let memory =
            Ceiling { kind: CeilingKind::Memory, rate: 10e9, threads: 2, bytes: Some(1 << 20), ..Ceiling::default() };
        let bounds = Bounds::new(Some(Profile { ceilings: vec![memory], ..Profile::default() }), &[]);
        let of = |rate: f64| bounds.reason(&demand(1e6, 0.0), 1e6 / rate, false);
        assert_eq!((of(9e9), of(19e9)), (None, None));
        assert!(of(25e9).unwrap().contains("the profile of this machine shows 10.0 GB/s"), "{:?}", of(25e9));
    }

    #[test]
    fn memory_is_no_limit_of_what_a_network_carries() {
        let bounds = Bounds::new(None, &[machine(&[Some(10_000), Some(2_000)]), machine(&[Some(100_000)])]);
        assert_eq!(bounds.network, Some(1.5e9));
        // 8 GB/s that leave each host, at least.
        let of = |crosses| bounds.reason(&demand(1e6, 16e6), 1e-3, crosses);
        assert!(of(true).unwrap().contains("its network interfaces carry at most 1.50 GB/s"), "{:?}", of(true));
        assert_eq!(of(false), None, "within a host");
        let unknown = Bounds::new(None, &[machine(&[Some(10_000), None])]);
        assert_eq!((unknown.network, Bounds::new(None, &[machine(&[])]).network), (None, None));
    }
}
