//! Traces of devices: one of a GPU that is kept here, and those that others have published. The tests of
//! HolisticTraceAnalysis hold some; RANKMARK_TEST_HTA names a clone. What is read is compared with a plain count over the same
//! JSON.

use std::io::Read;
use std::path::{Path, PathBuf};

use import::traces::read_timeline;
use serde_json::Value;
use trace::timeline::{Kind, RankTimeline};

use crate::skip::skip;

/// How many there are of a kind, and how many microseconds they last together.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    number: usize,
    us: f64,
}

impl Sum {
    fn add(&mut self, us: f64) {
        self.number += 1;
        self.us += us;
    }

    /// Equal, but for a nanosecond that each one may be off.
    fn is(self, other: Self) -> bool {
        self.number == other.number && (self.us - other.us).abs() <= 0.001 * self.number as f64 + 1e-6 * self.us
    }
}

/// Kernels, copies and calls of NCCL on the device, and steps.
type Sums = [Sum; 4];

fn counted(trace: &Value) -> Sums {
    let mut sums = Sums::default();
    for event in trace["traceEvents"].as_array().into_iter().flatten().filter(|event| event["ph"] == "X") {
        let (category, name) =
            (event["cat"].as_str().unwrap_or("").to_lowercase(), event["name"].as_str().unwrap_or(""));
        let Some(us) = event["dur"].as_f64().filter(|us| *us >= 0.0) else { continue };
        match category.as_str() {
            "kernel" if name.starts_with("nccl") => sums[2].add(us),
            "kernel" => sums[0].add(us),
            "gpu_memcpy" | "gpu_memset" | "memcpy" | "memset" => sums[1].add(us),
            "user_annotation" | "cpu_op" if name.starts_with("ProfilerStep#") => sums[3].add(us),
            _ => {}
        }
    }
    sums
}

fn read(rank: &RankTimeline) -> Sums {
    [Kind::Kernel, Kind::Copy, Kind::Collective, Kind::Step].map(|kind| {
        let mut sum = Sum::default();
        rank.spans.iter().filter(|span| span.kind == kind).for_each(|span| sum.add(span.duration_ns() as f64 / 1e3));
        sum
    })
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] })
        .filter(|path| path.to_string_lossy().ends_with(".json.gz"))
        .collect();
    found.sort();
    found
}

/// Compares what is read of a trace with what its JSON says: the latter, where it has kernels.
fn compared(file: &Path) -> Option<Sums> {
    let mut text = String::new();
    let opened = std::fs::File::open(file).unwrap();
    flate2::read::GzDecoder::new(opened).read_to_string(&mut text).ok()?;
    let wanted = counted(&serde_json::from_str(&text).ok()?);
    if wanted[0].number == 0 {
        return None;
    }
    let timeline = read_timeline(&[file.to_owned()]).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let timeline = timeline.timeline.unwrap_or_else(|| panic!("{}: no spans", file.display()));
    let counted = read(&timeline.ranks[0]);
    for (name, (counted, wanted)) in ["kernels", "copies", "NCCL", "steps"].iter().zip(counted.into_iter().zip(wanted))
    {
        assert!(counted.is(wanted), "{}: {name}: {counted:?}, counted {wanted:?}", file.display());
    }
    Some(wanted)
}

#[test]
fn a_trace_of_a_gpu_is_read_as_it_was_written() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples/kineto/h100.json.gz");
    let sums = compared(&file).unwrap();
    assert_eq!(sums.map(|sum| sum.number), [3732, 986, 0, 12], "one rank: NCCL copies, and has no kernel of its own");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the variable says what is tested")]
fn traces_of_devices_are_read_as_they_are_written() {
    let test = "public traces of devices";
    let Some(clone) = std::env::var_os("RANKMARK_TEST_HTA") else {
        return skip(test, "RANKMARK_TEST_HTA names no clone of facebookresearch/HolisticTraceAnalysis");
    };
    let folder = Path::new(&clone).join("tests/data");
    let all: Vec<Sums> = files(&folder).iter().filter_map(|file| compared(file)).collect();
    let with_nccl = all.iter().filter(|sums| sums[2].number > 0).count();
    assert!(all.len() >= 10 && with_nccl >= 3, "{} traces compared, {with_nccl} with NCCL", all.len());
}
