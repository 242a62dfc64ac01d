//! The testcases of nvbandwidth, and what measures the same here. Their names are those of `testcases_ce.cpp` and
//! `testcases_sm.cpp` of NVIDIA/nvbandwidth.

use super::gpu_copies::{Cells, Copy, seconds};
use super::nccl::plain;
use crate::Results;

/// What a testcase becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Becomes {
    /// A test of one GPU. `counted`: how many times its bytes count in `gbs` here.
    Alone { test: &'static str, counted: u32 },
    /// A test of one GPU, where one direction is measured while the other is busy.
    OneDirection,
    /// Loads one after the other: nanoseconds, no bandwidth.
    Loads,
    /// A table of pairs of GPUs.
    Pairs,
    /// Nothing, and why.
    Nothing(&'static str),
}

const BY_KERNELS: &str = "it copies by kernels (SM), and tests of this kind here copy by the copy engine";
const SEVERAL: &str = "copies of several GPUs at once have no counterpart here";
const BOTH: &str = "copies of two GPUs both ways at once, by the copy engine, have no counterpart here";
const PROCESSES: &str = "copies between GPUs of several processes have no counterpart here";

/// What a testcase becomes.
fn becomes(name: &str) -> Becomes {
    match name {
        "host_to_device_memcpy_ce" => Becomes::Alone { test: "host_to_device", counted: 1 },
        "device_to_host_memcpy_ce" => Becomes::Alone { test: "device_to_host", counted: 1 },
        "host_to_device_bidirectional_memcpy_ce" | "device_to_host_bidirectional_memcpy_ce" => Becomes::OneDirection,
        "device_local_copy" => Becomes::Alone { test: "device_copy", counted: 2 },
        "host_device_latency_sm" => Becomes::Loads,
        "device_to_device_memcpy_read_ce" | "device_to_device_memcpy_write_ce" => Becomes::Pairs,
        "device_to_device_latency_sm" => {
            Becomes::Nothing("loads from the memory of another GPU have no counterpart here")
        }
        _ if name.starts_with("multinode_") => Becomes::Nothing(PROCESSES),
        _ if name.starts_with("all_to_") || name.contains("_to_all_") => Becomes::Nothing(SEVERAL),
        _ if name.ends_with("_sm") => Becomes::Nothing(BY_KERNELS),
        _ if name.starts_with("device_to_device_bidirectional_") => Becomes::Nothing(BOTH),
        _ => Becomes::Nothing("this reader does not know it"),
    }
}

/// Why a testcase becomes no case; None where it becomes one.
pub(super) fn without_counterpart(name: &str) -> Option<&'static str> {
    match becomes(name) {
        Becomes::Nothing(why) => Some(why),
        _ => None,
    }
}

/// What decides how long a copy takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MeasuredBuffers {
    /// Bytes of a copy; None where the file does not say.
    pub(super) copy: Option<u64>,
    /// Bytes that loads go through.
    pub(super) loads: Option<u64>,
    pub(super) iterations: Option<u64>,
}

const MIB: u64 = 1 << 20;

impl MeasuredBuffers {
    /// Buffers of so many MiB, as they are given on the command line, else the default of the version: 64 before 0.7,
    /// else 512. Loads go through 2 MiB since 0.7, and before through such a buffer.
    pub(super) fn new(version: Option<(u32, u32)>, given: Option<u64>, is_less_than_default: bool) -> Self {
        let is_old = version.is_some_and(|version| version < (0, 7));
        let default = if is_old { 64 } else { 512 };
        let mib = given.or((!is_less_than_default).then_some(default));
        let copy = mib.and_then(|mib| mib.checked_mul(MIB)).filter(|bytes| *bytes > 0);
        Self { copy, loads: if is_old { copy } else { Some(2 * MIB) }, iterations: None }
    }
}

/// The table of a testcase that ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Testcase {
    pub(super) name: String,
    /// Where it begins.
    pub(super) line: usize,
    /// What stands above its table: `memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)`.
    pub(super) description: String,
    pub(super) cells: Cells,
}

/// Adds a testcase. `rounding` is by how much the sum that was printed may differ from that of the cells.
pub(super) fn add(results: &mut Results, testcase: &Testcase, buffers: MeasuredBuffers, sum: f64, rounding: f64) {
    if let Err(why) = add_checked(results, testcase, buffers, sum, rounding) {
        results.omit(testcase.line, format!("`{}`: {why}", plain(&testcase.name)));
    }
}

fn add_checked(
    results: &mut Results,
    testcase: &Testcase,
    buffers: MeasuredBuffers,
    sum: f64,
    rounding: f64,
) -> Result<(), String> {
    let (cells, kind) = (&testcase.cells, becomes(&testcase.name));
    if let Becomes::Nothing(why) = kind {
        return Err(why.to_owned());
    }
    let unit = if kind == Becomes::Loads { "(ns)" } else { "(GB/s)" };
    if !testcase.description.trim_end().ends_with(unit) {
        return Err(format!("expected values in {unit} below `{}`", plain(&testcase.description)));
    }
    let added = cells.sum();
    let is_off = (added - sum).abs() > rounding;
    if is_off || added.is_nan() || sum.is_nan() {
        return Err(format!(
            "its values sum up to {added:.2}, and its sum is {sum:.2}: a part of the table is missing"
        ));
    }
    if kind != Becomes::Pairs && cells.rows.len() != 1 {
        return Err(format!("expected one row, found {}", cells.rows.len()));
    }
    if kind == Becomes::Pairs && !cells.is_square() {
        return Err(format!("expected {} rows, found {}", cells.columns, cells.rows.len()));
    }
    let bytes = if kind == Becomes::Loads { buffers.loads } else { buffers.copy };
    let bytes = bytes.ok_or("its buffer is smaller than the default, and the file does not say how large it is")?;
    let name = testcase.name.as_str();
    let copy = |test, counted, implementation| Copy { test, bytes, implementation, counted };
    let rates = || seconds(cells, bytes as f64);
    let is_added = match kind {
        Becomes::Alone { test, counted } => {
            if counted == 2 {
                results.note(
                    "device_copy: nvbandwidth counts each byte once; `gbs` counts what is read and written, twice",
                );
            }
            let alone: Vec<f64> = rates().values().collect();
            copy(test, counted, None).add_alone(results, &alone, buffers.iterations)
        }
        Becomes::OneDirection => {
            results.note(format!(
                "{name}: time and `gbs` are those of one direction while the other is busy; host_both_ways of a native \
                 run waits for both and counts both, so this case keeps the name of the testcase"
            ));
            let alone: Vec<f64> = rates().values().collect();
            copy("host_both_ways", 1, Some(name)).add_alone(results, &alone, buffers.iterations)
        }
        Becomes::Loads => {
            let alone: Vec<f64> = cells.values().filter(|ns| *ns > 0.0).map(|ns| ns * 1e-9).collect();
            copy("host_latency", 0, None).add_alone(results, &alone, buffers.iterations)
        }
        Becomes::Pairs => {
            results.note(format!(
                "{name}: the time is that of one copy of the median pair; peer_copy of a native run times all pairs \
                 together, so this case keeps the name of the testcase; `pair_s` and `pair_gbs` mean the same in both"
            ));
            if name.contains("write") {
                results.note(format!("{name}: the GPU of the row writes to the GPU of the column"));
            } else {
                results.note(format!("{name}: the GPU of the row reads from the GPU of the column"));
            }
            copy("peer_copy", 1, Some(name)).add_pairs(results, &rates(), buffers.iterations)
        }
        Becomes::Nothing(_) => true,
    };
    if !is_added {
        return Err("no GPU or pair has a value above 0".to_owned());
    }
    if cells.rows.len() == 1 && cells.columns > 1 {
        let values: Vec<String> = cells.rows[0].iter().map(ToString::to_string).collect();
        results.tell([(format!("{name}, by GPU"), values.join(" "))]);
        results.note(
            "GPUs are measured one after the other: the case is the median GPU; smallest and largest are over GPUs",
        );
    }
    Ok(())
}
