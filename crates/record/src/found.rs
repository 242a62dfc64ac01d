//! Metrics that several crates know, declared once: what a run finds of any case, and what views look for in the lines of any
//! benchmark.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::reproducible::Reproducible;
use crate::{Better, CaseLine, Metric, Shape};

crate::metrics! {
    /// All metrics of this module.
    pub FOUND {
        /// The levels of speed of the machine while the case ran.
        LEVELS: Vec<Level> =
            Metric::new("levels", "", Better::Lower, "levels of speed of the machine").shape(Shape::List),
        /// The rank that others wait for.
        SLOW_RANK: u32 = Metric::new("slow_rank", "", Better::Lower, "the rank that others wait for"),
        /// How long they wait for it in a call.
        SLOW_RANK_WAIT_S: f64 =
            Metric::new("slow_rank_wait_s", "s", Better::Lower, "how long others wait for the slow rank in a call"),
        /// How much a check compared, where that is less than the result of a call.
        CHECKED: Checked = Metric::new(
            "checked",
            "",
            Better::Higher,
            "elements compared, of all that ranks get in a call, if the check did not compare all",
        )
        .shape(Shape::Map),
        /// Seconds in which a call is given to a device, before it is waited for.
        LAUNCH_S: f64 = Metric::new("launch_s", "s", Better::Lower, "time to submit a call to the device"),
        /// The way that data takes.
        PATH: String = Metric::new("path", "", Better::Higher, "path of GPU data, if there are several")
            .shape(Shape::Word),
        /// Seconds of a call by the clock of the device.
        DEVICE_S: DeviceTimes =
            Metric::new("device_s", "s", Better::Lower, "time of a call by the device's own clock: p50, p90, p99, max")
                .shape(Shape::Map),
        /// Times of a call over ranks.
        RANK_S: RankTimes =
            Metric::new("rank_s", "s", Better::Lower, "median time of a call on the fastest, the median and the slowest rank")
                .shape(Shape::Map),
        /// Memory of the device that the communication library took.
        LIBRARY_BYTES: u64 =
            Metric::new("library_bytes", "B", Better::Lower, "device memory that the library took on a rank"),
        /// What the machine's sensors showed.
        SENSORS: Sensors =
            Metric::new("sensors", "", Better::Lower, "what the machine's sensors showed").shape(Shape::Map),
        /// The case's place below the ceilings of its machine.
        ROOFLINE: Roofline =
            Metric::new("roofline", "", Better::Higher, "its place below the machine's ceilings").shape(Shape::Map),
        /// The work of each part of a call: a [`PartWork`].
        PARTS: Map<String, Value> = Metric::new(
            "parts",
            "",
            Better::Lower,
            "work of each phase on all ranks: seconds, operations, bytes read and written",
        )
        .shape(Shape::Map),
        /// The rate of a message, whatever its operation moves.
        ALGBW_GBS: Option<f64> = Metric::new("algbw_gbs", "GB/s", Better::Higher, "S / time").shape(Shape::Rate),
        /// The rate on a bus.
        BUSBW_GBS: Option<f64> =
            Metric::new("busbw_gbs", "GB/s", Better::Higher, "algbw x the operation's bus factor").shape(Shape::Rate),
        /// The share of a limit that the same run measured.
        LIMIT_SHARE: f64 = Metric::new(
            "limit_share",
            "",
            Better::Higher,
            "time of the bare memory traffic / time, at the same working set, ranks and cores",
        ),
        /// Whether results are the same bits.
        REPRODUCIBLE: Reproducible = Metric::new(
            "same_bits",
            "",
            Better::Higher,
            "whether results are the same bits: what was compared, and the first difference",
        )
        .shape(Shape::Map),
        /// The share of those comparisons that found no difference.
        REPRODUCIBLE_SHARE: f64 = Metric::new(
            "reproducible_share",
            "",
            Better::Higher,
            "share of the comparisons between results without a difference in any bit",
        ),
        /// Whether the system has forgotten the pages of a file.
        CACHE: String =
            Metric::new("cache", "", Better::Higher, "cold: the system has forgotten the pages of the file")
                .shape(Shape::Word),
        /// By how much another activity slows one down.
        SLOWDOWN: Slowdown = Metric::new(
            "slowdown",
            "",
            Better::Lower,
            "time while the other activity runs / time alone, in the same rounds",
        )
        .shape(Shape::Interval),
    }
}

/// A type of which JSON leaves out absent values; the function behind a field recognises them.
macro_rules! sparse {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $field:ident: $type:ty $(= $absent:literal)?;)+ }) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(default)]
        pub struct $name {
            $($(#[$doc])* $(#[serde(skip_serializing_if = $absent)])? pub $field: $type,)+
        }
    };
}

/// By how much another activity slows one down.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slowdown {
    /// Time beside the other over time alone.
    pub value: f64,
    /// 95% interval of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<[f64; 2]>,
}

/// How much of a call's result a check compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Checked {
    /// Elements that were compared, over all ranks; exits of ranks, of a barrier.
    pub compared: u64,
    /// Elements that ranks get in a call; of a barrier, exits that show of each rank that all wait for it.
    pub of: u64,
}

/// Times of a call by the clock of a device, in seconds, over samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceTimes {
    /// Median of these times.
    pub p50: f64,
    /// 90th percentile of these times.
    pub p90: f64,
    /// 99th percentile of these times.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

/// Median times of a call over ranks, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankTimes {
    /// Time of the fastest rank.
    pub min: f64,
    /// The median of all ranks'.
    pub median: f64,
    /// Time of the slowest rank.
    pub max: f64,
}

/// A level of speed that the machine was at while a case ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Level {
    /// The median of its trials, in seconds.
    pub median_s: f64,
    /// How many these are.
    pub trials: u64,
    /// Share of these trials among all.
    pub share: f64,
}

sparse! {
    /// What the coordinator's machine showed while a case ran; what it did not tell is absent.
    Sensors {
        /// The hottest, in degrees Celsius.
        temperature_c: Option<f64> = "Option::is_none";
        /// The slowest core, in MHz.
        clock_mhz: Option<f64> = "Option::is_none";
        /// The median, in watts.
        power_w: Option<f64> = "Option::is_none";
        /// The median share of all cores that was busy.
        utilization: Option<f64> = "Option::is_none";
        /// The devices that ranks worked on.
        devices: Vec<SensorsOfDevice> = "Vec::is_empty";
    }
}

sparse! {
    /// What one device showed.
    SensorsOfDevice {
        /// Index of the device on its host.
        device: u32;
        /// The hottest, in degrees Celsius.
        temperature_c: Option<f64> = "Option::is_none";
        /// The slowest clock of its multiprocessors, in MHz.
        clock_mhz: Option<f64> = "Option::is_none";
        /// The median, in watts.
        power_w: Option<f64> = "Option::is_none";
        /// The median share of time in which a kernel ran.
        utilization: Option<f64> = "Option::is_none";
        /// The most memory that was in use.
        memory_bytes: Option<f64> = "Option::is_none";
        /// What held its clocks down in some look: `power cap`, `heat`, `slowdown`, `power brake`, `clocks set`, `other devices`.
        held_by: Vec<String> = "Vec::is_empty";
    }
}

sparse! {
    /// A case's place below the ceilings of its machine.
    Roofline {
        /// `memory`, `compute` or `communication`.
        bound: String;
        /// Operations a byte of memory traffic.
        intensity: Option<f64> = "Option::is_none";
        /// The rate that it reached.
        gflops: Option<f64> = "Option::is_none";
        /// The rate of its roof.
        roof_gflops: Option<f64> = "Option::is_none";
        /// What its threads can move.
        memory_gbs: Option<f64> = "Option::is_none";
        /// What they can compute.
        peak_gflops: Option<f64> = "Option::is_none";
        /// Share of the ceiling that it reached; absent beyond it.
        share: Option<f64> = "Option::is_none";
        /// Rooflines of the case's parts, such as the phases of a step, in the order of the case.
        parts: Map<String, Value> = "Map::is_empty";
    }
}

impl Roofline {
    /// Rooflines of the parts, by name.
    pub fn parts(&self) -> impl Iterator<Item = (&str, Self)> {
        self.parts.iter().filter_map(|(name, value)| Some((name.as_str(), Self::deserialize(value).ok()?)))
    }

    /// A part of it.
    pub fn part(&self, name: &str) -> Option<Self> {
        Self::deserialize(self.parts.get(name)?).ok()
    }
}

/// The work of a part of a call, on all ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PartWork {
    /// How long it takes.
    pub seconds: Option<f64>,
    /// Operations.
    pub flops: Option<f64>,
    /// Bytes that it reads and writes.
    pub bytes: Option<f64>,
}

impl PartWork {
    /// The work of each part of a case, in their order; None where its benchmark tells none.
    pub fn of_parts(line: &CaseLine) -> Option<Vec<(String, Self)>> {
        let read = |(name, part)| Some((name, serde_json::from_value(part).ok()?));
        Some(PARTS.of(line)?.into_iter().filter_map(read).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let text = r#"{"bound":"memory","intensity":4.0,"gflops":30.0,"parts":{"forward":{"bound":"compute"},"a":3}}"#;
        let read: Roofline = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        let parts: Vec<(&str, String)> = read.parts().map(|(name, part)| (name, part.bound)).collect();
        assert_eq!(parts, [("forward", "compute".to_owned())], "what has another form is left out");
        let text = r#"{"temperature_c":70.0,"devices":[{"device":1,"clock_mhz":1980.0}]}"#;
        let read: Sensors = serde_json::from_str(text).unwrap();
        assert_eq!((read.devices[0].device, serde_json::to_string(&read).unwrap().as_str()), (1, text));
    }
}
