//! Temperature, clocks, power and utilization of the coordinator's machine while a case runs, from /sys and /proc. What the
//! system does not tell, or not to this user, is absent.

use std::fs;
use std::path::Path;
use std::time::Instant;

use record::found;

/// One look.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sensors {
    /// When.
    at: Option<Instant>,
    /// The hottest sensor, in degrees Celsius.
    temperature_c: Option<f64>,
    /// Clock of the slowest allowed processor, in MHz.
    clock_mhz: Option<f64>,
    /// Energy of all processor packages so far, in joules.
    energy_j: Option<f64>,
    /// Busy ticks and all ticks of all processors so far.
    ticks: Option<[f64; 2]>,
}

impl Sensors {
    /// Seconds since this look; None where it has no time.
    pub(crate) fn age_s(&self) -> Option<f64> {
        Some(self.at?.elapsed().as_secs_f64())
    }

    /// Reads what there is.
    pub fn read() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        Self {
            at: Some(Instant::now()),
            ticks: ticks(&stat),
            ..Self::under(Path::new("/sys"), &crate::machine::allowed_cpus())
        }
    }

    /// The part below /sys, or a folder like it.
    fn under(root: &Path, cpus: &[u32]) -> Self {
        let clock =
            |cpu: &u32| read_number(&root.join(format!("devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq")));
        let packages = entries(&root.join("class/powercap"), is_package);
        let joules = packages.iter().filter_map(|package| read_number(&package.join("energy_uj")));
        Self {
            at: None,
            temperature_c: temperatures(root).into_iter().max_by(f64::total_cmp).map(|thousandths| thousandths / 1e3),
            clock_mhz: cpus.iter().filter_map(clock).min_by(f64::total_cmp).map(|khz| khz / 1e3),
            energy_j: joules.reduce(|a, b| a + b).map(|micro| micro / 1e6),
            ticks: None,
        }
    }
}

/// `intel-rapl:0`, but not its parts `intel-rapl:0:1`.
fn is_package(name: &str) -> bool {
    name.starts_with("intel-rapl:") && name.matches(':').count() == 1
}

fn entries(folder: &Path, wanted: fn(&str) -> bool) -> Vec<std::path::PathBuf> {
    let found = fs::read_dir(folder).into_iter().flatten().flatten();
    found.filter(|entry| entry.file_name().to_str().is_some_and(wanted)).map(|entry| entry.path()).collect()
}

fn read_number(path: &Path) -> Option<f64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Thousandths of a degree, of all sensors.
fn temperatures(root: &Path) -> Vec<f64> {
    let is_input = |name: &str| name.starts_with("temp") && name.ends_with("_input");
    let monitors = entries(&root.join("class/hwmon"), |name| name.starts_with("hwmon"));
    let zones = entries(&root.join("class/thermal"), |name| name.starts_with("thermal_zone"));
    let inputs = monitors.iter().flat_map(|monitor| entries(monitor, is_input));
    inputs.chain(zones.iter().map(|zone| zone.join("temp"))).filter_map(|path| read_number(&path)).collect()
}

/// Busy and all ticks of the line `cpu` of /proc/stat (proc(5): user nice system idle iowait irq softirq steal).
fn ticks(stat: &str) -> Option<[f64; 2]> {
    let line = stat.lines().find(|line| line.starts_with("cpu "))?;
    let ticks: Vec<f64> = line.split_whitespace().skip(1).take(8).map_while(|word| word.parse().ok()).collect();
    let all: f64 = ticks.iter().sum();
    (ticks.len() == 8).then(|| [all - ticks[3] - ticks[4], all])
}

/// What the looks before, within and after each trial tell of a case: the hottest, the slowest clock, mean power and
/// utilization.
pub(crate) fn summary(trials: &[Vec<Sensors>]) -> found::Sensors {
    let all = || trials.iter().flatten();
    let ends = || trials.iter().filter_map(|looks| looks.first().zip(looks.last()));
    let median = |values: Vec<f64>| (!values.is_empty()).then(|| stats::median(&values));
    let power = |(before, after): (&Sensors, &Sensors)| {
        let seconds = after.at?.duration_since(before.at?).as_secs_f64();
        // The counter of a package begins again at its end.
        let joules = after.energy_j? - before.energy_j?;
        (seconds > 0.0 && joules >= 0.0).then(|| joules / seconds)
    };
    let busy = |(before, after): (&Sensors, &Sensors)| {
        let ([from, begin], [to, end]) = (before.ticks?, after.ticks?);
        (end > begin).then(|| (to - from) / (end - begin))
    };
    let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
    found::Sensors {
        temperature_c: finite(all().filter_map(|look| look.temperature_c).max_by(f64::total_cmp)),
        clock_mhz: finite(all().filter_map(|look| look.clock_mhz).min_by(f64::total_cmp)),
        power_w: finite(median(ends().filter_map(power).collect())),
        utilization: finite(median(ends().filter_map(busy).collect())),
        devices: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn the_hottest_sensor_and_the_slowest_allowed_clock_count() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        write(root, "class/hwmon/hwmon0/temp1_input", "61500\n");
        write(root, "class/hwmon/hwmon0/temp1_max", "99000\n");
        write(root, "class/hwmon/hwmon0/fan1_input", "99000\n");
        write(root, "class/thermal/thermal_zone0/temp", "72000\n");
        for (cpu, khz) in [(0, "2400000"), (1, "1800000"), (2, "800000")] {
            write(root, &format!("devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq"), khz);
        }
        write(root, "class/powercap/intel-rapl:0/energy_uj", "5000000");
        write(root, "class/powercap/intel-rapl:1/energy_uj", "7000000");
        write(root, "class/powercap/intel-rapl:0:0/energy_uj", "1000000");
        let look = Sensors::under(root, &[0, 1]);
        assert_eq!((look.temperature_c, look.clock_mhz, look.energy_j), (Some(72.0), Some(1800.0), Some(12.0)));
    }

    #[test]
    fn what_cannot_be_read_is_absent() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "class/thermal/thermal_zone0/temp", "no number");
        let look = Sensors::under(folder.path(), &[0]);
        assert_eq!(look, Sensors::default());
        assert_eq!(summary(&[vec![look, look]]), found::Sensors::default());
        assert_eq!(summary(&[]), found::Sensors::default());
    }

    #[test]
    fn power_and_utilization_are_differences() {
        let at = Instant::now();
        let look = |seconds: u64, joules: f64, ticks: [f64; 2]| Sensors {
            at: Some(at + Duration::from_secs(seconds)),
            energy_j: Some(joules),
            ticks: Some(ticks),
            temperature_c: Some(40.0 + seconds as f64),
            clock_mhz: Some(3000.0 - seconds as f64),
        };
        let within = Sensors { temperature_c: Some(90.0), clock_mhz: Some(900.0), ..Sensors::default() };
        let found = summary(&[vec![look(0, 10.0, [0.0, 0.0]), within, look(2, 110.0, [300.0, 400.0])]]);
        assert_eq!([found.power_w, found.utilization], [Some(50.0), Some(0.75)]);
        assert_eq!([found.temperature_c, found.clock_mhz], [Some(90.0), Some(900.0)], "of a look within the trial");
        let around = summary(&[vec![look(0, 110.0, [0.0, 0.0]), look(2, 10.0, [0.0, 0.0])]]);
        assert_eq!((around.power_w, around.utilization), (None, None));
    }

    #[test]
    fn idle_and_waiting_are_not_busy() {
        assert_eq!(ticks("cpu  10 20 30 40 50 60 70 80 0 0\ncpu0 1"), Some([270.0, 360.0]));
        assert_eq!(ticks("cpu  1 2"), None);
    }
}
