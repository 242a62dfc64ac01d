//! Activities as cases of other benchmarks: `gemm`, `copy` and `storage_read` of `hardware`, and collectives.

use collective::CollectiveBenchmark;
use comm::blocks;
use contract::{Benchmark, ParsedCase};
use hardware::HardwareBenchmark;
use measure::Failure;
use record::{Case, SharedMap};
use serde_json::Value;
use terms::{Direction, Dtype, Named};

use super::fields::{Activity, InterferenceFields};

/// The benchmark that has the activity.
fn benchmark(activity: Activity) -> &'static dyn Benchmark {
    match activity {
        Activity::Collective | Activity::Second => &CollectiveBenchmark,
        _ => &HardwareBenchmark,
    }
}

/// The activity as a case of its benchmark, with the ranks of this one, which has these fields.
fn case_of(activity: Activity, case: &Case, fields: &InterferenceFields) -> Result<Case, Failure> {
    let own: Vec<(&str, Value)> = match activity {
        Activity::Product => vec![
            ("test", "gemm".into()),
            ("threads", fields.threads.unwrap_or(1).into()),
            ("dtype", Dtype::F32.name().into()),
            ("size", fields.product_size.into()),
        ],
        Activity::Collective | Activity::Second => {
            let bytes = if activity == Activity::Second { fields.second_bytes } else { fields.collective_bytes };
            vec![
                ("op", fields.collective_op.name().into()),
                ("dtype", Dtype::F32.name().into()),
                ("reduce", "sum".into()),
                ("bytes", used_bytes(bytes, fields).into()),
                // Results stay the same from call to call: any number of calls is exact.
                ("in_place", false.into()),
                ("buffers", "registered".into()),
            ]
        }
        Activity::HostCopy => vec![("test", "copy".into()), ("threads", 1.into()), ("bytes", fields.copy_bytes.into())],
        Activity::StorageRead => {
            let path = fields.path.clone().unwrap_or_else(|| ".".to_owned());
            vec![("test", "storage_read".into()), ("bytes", read_bytes(fields).into()), ("path", path.into())]
        }
        Activity::All => return Err(Failure::new("`all` stands for several activities, and is not one itself")),
    };
    let shared = [
        ("ranks", Value::from(fields.ranks)),
        ("backend", fields.backend.clone().unwrap_or_default().into()),
        ("seed", fields.seed.into()),
    ];
    let mut part = case.clone();
    part.benchmark = benchmark(activity).about().name.to_owned();
    part.parameters = SharedMap::from_iter(own.into_iter().chain(shared));
    Ok(part)
}

/// Whole elements of each rank's blocks.
fn used_bytes(requested: u64, fields: &InterferenceFields) -> u64 {
    let blocks = blocks(fields.collective_op, Direction::OneWay, fields.ranks);
    requested / Dtype::F32.bytes() / blocks * blocks * Dtype::F32.bytes()
}

/// Whole words.
fn read_bytes(fields: &InterferenceFields) -> u64 {
    fields.read_bytes / 8 * 8
}

/// Why the activity cannot be: the field, what is wrong with it, and a hint.
pub(super) fn refusal(activity: Activity, fields: &InterferenceFields) -> Option<(&'static str, String, &'static str)> {
    let divides = |field: &'static str, bytes: u64| {
        let what = format!("{bytes} bytes do not divide into whole elements of each of {} ranks", fields.ranks);
        (used_bytes(bytes, fields) != bytes || bytes == 0).then_some((field, what, "a multiple of 4 bytes a rank"))
    };
    match activity {
        Activity::Collective => divides("collective_bytes", fields.collective_bytes),
        Activity::Second => divides("second_bytes", fields.second_bytes),
        Activity::HostCopy => {
            let what = format!("{} bytes do not divide into whole elements of two arrays", fields.copy_bytes);
            (fields.copy_bytes < 16 || !fields.copy_bytes.is_multiple_of(16)).then_some((
                "copy_bytes",
                what,
                "a multiple of 16 bytes",
            ))
        }
        Activity::StorageRead => {
            let what = format!("{} bytes do not divide into words of 8 bytes", fields.read_bytes);
            (read_bytes(fields) != fields.read_bytes || fields.read_bytes == 0).then_some((
                "read_bytes",
                what,
                "a multiple of 8 bytes",
            ))
        }
        Activity::Product | Activity::All => None,
    }
}

/// The activity of a case with these fields, read as a case of its benchmark.
///
/// # Errors
/// An activity that stands for several.
pub(super) fn parse(
    activity: Activity,
    case: &Case,
    fields: &InterferenceFields,
) -> Result<Box<dyn ParsedCase>, Failure> {
    benchmark(activity).parse(&case_of(activity, case, fields)?)
}
