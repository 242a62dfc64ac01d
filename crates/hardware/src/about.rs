//! What the benchmark declares: its entry, metrics, and which combinations of fields make sense.

use contract::fields::{Execution, Sampling, Supports, World, problem};
use record::{About, Case, Caveat, Command};
use serde_json::Value;
use terms::{FieldError, Named};

use super::fields::{Area, HardwareFields, Test};
use super::resolve::{self, Task};
use super::{declared, memory, storage, torch};

/// The table entry.
pub(super) static ABOUT: About = About {
    name: "hardware",
    doc: "what this machine can do: memory bandwidth, peaks of computation, links between ranks, storage",
    fields: &[HardwareFields::fields, Execution::fields, World::fields, comm::fields, Sampling::fields],
    metrics: declared::METRICS,
    check,
    command: Some(Command {
        name: "hardware",
        doc: "Measures what this machine can do, and saves it as a profile to compare other runs with",
        argument: "test",
        examples: &[
            ("", "everything: a profile of this machine"),
            ("--quick", "the same, as a first look"),
            ("triad --threads 1,2", "memory bandwidth of one core and of two"),
            ("latency,bandwidth --ranks 8", "each pair of 8 ranks: which is slow?"),
            ("gemm --dtype bf16 --size 4096", "one product"),
            ("--device cuda", "the GPUs of this machine"),
        ],
        notes: "`--limits RECORD` in other commands compares with the profile. docs/how-to/hardware.md explains each test.",
        sweep: None,
    }),
    show: super::show::show,
};

pub(super) fn check(case: &mut Case) -> Result<(), FieldError> {
    let fields = HardwareFields::of(case)?;
    torch::resolve(case, &fields)?;
    if contract::is_simulated(case) && fields.test.area() != Area::Pairs {
        return Err(problem("backend", "a simulated backend has no machine to measure", "`backend: shm`"));
    }
    resolve::check_fields(&fields)?;
    torch::check(case, &fields)?;
    if fields.test == Test::All {
        // The tests that it stands for are checked one by one; what is wrong in all of them is refused at once.
        let mut pairs = case.clone();
        pairs.parameters.insert("test", Test::Latency.name().into());
        resolve::settle_world(&mut pairs)?;
        contract::fields::check(&mut pairs, &ABOUT, Supports::default())?;
        case.parameters.insert("ranks", pairs.ranks().into());
        return Ok(());
    }
    resolve::settle_world(case)?;
    contract::fields::check(case, &ABOUT, Supports::default())?;
    let task = resolve::task(&HardwareFields::of(case)?);
    match task.test.area() {
        Area::Memory => round_size(case, &task),
        Area::Pairs => {
            if task.ranks < 2 {
                case.skip = Some("a single rank has no other rank to exchange messages with".to_owned());
            }
            if task.bytes == 0 {
                return Err(problem("bytes", "a message has at least one byte", "`bytes: 8`"));
            }
            settle_bytes(case, task.bytes);
        }
        Area::Storage => settle_bytes(case, task.bytes.next_multiple_of(storage::PAGE)),
        Area::Nodes | Area::Transfer => settle_bytes(case, task.bytes),
        Area::Compute | Area::Results | Area::All => {}
    }
    torch::add_recipe(case)?;
    contract::fields::reorder(case, &ABOUT);
    Ok(())
}

fn settle_bytes(case: &mut Case, bytes: u64) {
    case.parameters.insert("bytes", Value::from(bytes));
}

/// Sizes that are not whole elements of each array round down, visibly; zero elements are skipped.
fn round_size(case: &mut Case, task: &Task) {
    if case.parameters.get("bytes").is_none() {
        return;
    }
    let used = memory::elements(task.test, task.bytes) * 8 * task.test.arrays();
    // A case that was settled before keeps what was asked for.
    case.bytes_requested.get_or_insert(task.bytes);
    if used != task.bytes {
        settle_bytes(case, used);
        case.caveats.push(Caveat::SizeRounded);
    }
    if used == 0 {
        let (arrays, bytes) = (task.test.arrays(), task.bytes);
        case.skip = Some(format!("{bytes} bytes are too few for one element in each of {arrays} arrays"));
    }
}

#[cfg(test)]
mod tests {
    use measure::machine;

    use super::*;

    fn cases(fields: &[(&str, &str)]) -> Result<Vec<Case>, String> {
        let mut plan = record::plan::from_flags(&ABOUT, fields, &[]).map_err(|errors| errors.to_string())?;
        super::super::expand::complete(&mut plan);
        Ok(plan.cases)
    }

    #[test]
    fn all_cores_are_taken_and_divided_among_ranks() {
        let cores = machine::allowed_cpus().len() as u64;
        let threads =
            |more: &[(&str, &str)]| cases(&[&[("test", "triad")], more].concat()).unwrap()[0].whole("threads");
        assert_eq!(threads(&[]), Some(cores));
        assert_eq!(threads(&[("ranks", "1024")]), Some(1));
        assert_eq!(threads(&[("threads", "3")]), Some(3));
        let case = &cases(&[("test", "triad")]).unwrap()[0];
        assert_eq!(case.world.get("threads"), case.parameters.get("threads"), "ranks of other threads are others");
    }

    #[test]
    fn sizes_are_whole_elements() {
        let case = |bytes: &str| cases(&[("test", "triad"), ("bytes", bytes)]).unwrap().remove(0);
        assert_eq!((case("1000").whole("bytes"), case("1000").bytes_requested), (Some(984), Some(1000)));
        assert!(case("1000").caveats.contains(&Caveat::SizeRounded) && case("960").caveats.is_empty());
        assert!(case("23").skip.unwrap().contains("one element in each of 3 arrays"));
        let why = cases(&[("test", "copy"), ("backend", "sim")]).unwrap_err();
        assert!(why.contains("has no machine to measure"), "{why}");
    }

    #[test]
    fn all_is_a_profile_and_each_case_is_there_once() {
        let all = cases(&[]).unwrap();
        let of = |test: &str| all.iter().filter(|case| case.text("test") == Some(test)).count();
        let threads = if machine::allowed_cpus().len() > 1 { 2 } else { 1 };
        // One more working set where four times the caches are more than the largest.
        let sets = all.iter().filter(|case| case.text("test") == Some("triad")).filter_map(|case| case.whole("bytes"));
        let sets = sets.collect::<std::collections::BTreeSet<u64>>().len();
        assert!([7, 8].contains(&sets), "{sets}");
        assert_eq!([of("triad"), of("fma"), of("gemm"), of("latency")], [sets * threads, 3 * threads, 6, 1]);
        assert_eq!(["copy", "scale", "add"].map(of), [1; 3]);
        let quick = cases(&[("quick", "true")]).unwrap();
        assert!(!quick.iter().any(|case| case.text("test") == Some("copy")), "a first look is short");
        assert_eq!(of("all"), 0);
        assert!(all.iter().all(|case| case.skip.is_none()), "{all:?}");
        let mut ids: Vec<&String> = all.iter().map(|case| &case.id).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), all.len());
        let slowed = cases(&[("inject", "delay:rank=1,time=5us")]).unwrap();
        let hit: Vec<&str> = slowed
            .iter()
            .filter(|case| !case.texts("inject").is_empty())
            .filter_map(|case| case.text("test"))
            .collect();
        assert_eq!(hit, ["latency", "bandwidth", "both_ways"], "a fault strikes messages");
        let some = cases(&[("threads", "1"), ("dtype", "f64"), ("bytes", "1MiB"), ("size", "64")]).unwrap();
        let count = |test: &str| some.iter().filter(|case| case.text("test") == Some(test)).count();
        assert_eq!([count("triad"), count("fma"), count("gemm")], [1, 1, 1], "what is given is kept");
    }

    #[test]
    fn what_means_nothing_is_refused() {
        for (fields, said) in [
            (vec![("test", "fma"), ("size", "5")], "fma does not use `size`"),
            (vec![("test", "fma"), ("bytes", "5")], "fma does not use `bytes`"),
            (vec![("test", "latency"), ("threads", "2")], "latency does not use `threads`"),
            (vec![("test", "triad"), ("dtype", "f32")], "triad does not use `dtype`"),
            (vec![("test", "triad"), ("path", "x")], "triad does not use `path`"),
            (vec![("test", "storage_read"), ("ranks", "2")], "one rank"),
            (vec![("test", "latency"), ("bytes", "0")], "at least one byte"),
            (vec![("test", "latency"), ("ranks", "2"), ("inject", "delay:rank=2,time=1us")], "there is no rank 2"),
        ] {
            let why = cases(&fields).unwrap_err();
            assert!(why.contains(said), "{fields:?}: {why}");
        }
        let alone = cases(&[("test", "latency"), ("ranks", "1")]).unwrap();
        assert!(alone[0].skip.as_ref().is_some_and(|why| why.contains("no other")), "{alone:?}");
    }
}
