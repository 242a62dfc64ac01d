//! Temperature, clock, power, utilization and memory of devices while a case runs.

use std::collections::BTreeMap;

use record::found::SensorsOfDevice;

/// Who looks at devices while trials run. What it sees between `begin` and `end` belongs to one trial.
pub trait DeviceSensors {
    /// A trial begins.
    fn begin(&mut self);
    /// Ends a trial: all looks since it began.
    fn end(&mut self) -> Vec<DeviceLook>;
}

/// One look at one device; what the driver does not tell is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeviceLook {
    /// Index of the device on its host.
    pub device: u32,
    /// Degrees Celsius.
    pub temperature_c: Option<f64>,
    /// Clock of its multiprocessors, in MHz.
    pub clock_mhz: Option<f64>,
    /// Watts.
    pub power_w: Option<f64>,
    /// Share of time in which a kernel ran.
    pub utilization: Option<f64>,
    /// Memory in use.
    pub memory_bytes: Option<f64>,
    /// What holds its clocks down, as bits of the driver's `nvmlClocksEventReasons`.
    pub held_by: u64,
}

/// What may hold clocks down, by the driver's bits (nvml.h). An idle device's are low, too, and that is left out.
const REASONS: [(u64, &str); 6] = [
    (0x4, "power cap"),
    (0x20 | 0x40, "heat"),
    (0x8, "slowdown"),
    (0x80, "power brake"),
    (0x2, "clocks set"),
    (0x10, "other devices"),
];

/// What sensors say of each device: the hottest look, the slowest clock, the median power and utilization, and the most memory.
pub(crate) fn summary<'l>(looks: impl Iterator<Item = &'l DeviceLook>) -> Vec<SensorsOfDevice> {
    let mut by_device: BTreeMap<u32, Vec<&DeviceLook>> = BTreeMap::new();
    looks.for_each(|look| by_device.entry(look.device).or_default().push(look));
    by_device.into_iter().map(|(device, looks)| device_summary(device, &looks)).collect()
}

fn device_summary(device: u32, looks: &[&DeviceLook]) -> SensorsOfDevice {
    let values = |of: fn(&DeviceLook) -> Option<f64>| looks.iter().filter_map(|look| of(look)).collect::<Vec<f64>>();
    let most = |of| values(of).into_iter().max_by(f64::total_cmp);
    let median = |of| Some(values(of)).filter(|all| !all.is_empty()).map(|all| stats::median(&all));
    SensorsOfDevice {
        device,
        temperature_c: most(|look| look.temperature_c),
        clock_mhz: values(|look| look.clock_mhz).into_iter().min_by(f64::total_cmp),
        power_w: median(|look| look.power_w),
        utilization: median(|look| look.utilization),
        memory_bytes: most(|look| look.memory_bytes),
        held_by: reasons(looks.iter().fold(0, |all, look| all | look.held_by)),
    }
}

/// Reasons by name. A slowdown that heat or a power brake explains is no other one.
fn reasons(bits: u64) -> Vec<String> {
    let explained = bits & (0x40 | 0x80) != 0;
    let bits = if explained { bits & !0x8 } else { bits };
    REASONS.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| (*name).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_device_is_summed_up_by_what_matters() {
        let look = |device, temperature: f64, clock: f64, power: Option<f64>| DeviceLook {
            device,
            temperature_c: Some(temperature),
            clock_mhz: Some(clock),
            power_w: power,
            utilization: Some(0.5),
            memory_bytes: None,
            held_by: if temperature == 60.0 { 0x1 } else { 0x4 | 0x8 | 0x40 },
        };
        let looks =
            [look(1, 60.0, 1980.0, None), look(0, 50.0, 1700.0, Some(300.0)), look(0, 70.0, 1500.0, Some(500.0))];
        let found = serde_json::to_value(summary(looks.iter())).unwrap();
        assert_eq!(
            found,
            json!([
                {"device": 0, "temperature_c": 70.0, "clock_mhz": 1500.0, "power_w": 400.0, "utilization": 0.5,
                 "held_by": ["power cap", "heat"]},
                {"device": 1, "temperature_c": 60.0, "clock_mhz": 1980.0, "utilization": 0.5},
            ])
        );
        assert!(summary([].iter()).is_empty());
    }
}
