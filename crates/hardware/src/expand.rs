//! What is measured where a case leaves it open: all tests in the place of `all`, several sizes, types and threads in the
//! place of none.

use contract::runtime::is_pytorch;
use measure::machine;
use record::{Case, Plan};
use serde_json::Value;

use super::about::{ABOUT, check};
use super::fields::{self, Area, CUDA, HardwareFields, Test};
use super::resolve::{LARGEST, in_memory};
use super::torch;

/// From a first-level cache to past most last-level caches.
const WORKING_SETS: &[u64] = &[24 << 10, 384 << 10, 6 << 20, 192 << 20];
/// A cache of a core, one of several, memory.
const FEW: &[u64] = &[24 << 10, 6 << 20, 192 << 20];
/// Working sets in smaller steps, for ceilings between which little changes.
const CURVE: &[u64] = &[24 << 10, 384 << 10, 3 << 19, 6 << 20, 24 << 20, 96 << 20, LARGEST];
/// Types with a peak of their own.
const DTYPES: &[&str] = &["f32", "f64", "bf16"];
const SIZES: &[u64] = &[256, 1024, 2048];

/// A field, and the values that it takes where it is open.
type OpenField = (&'static str, Vec<Value>);

fn values<T: Clone + Into<Value>>(of: &[T]) -> Vec<Value> {
    of.iter().cloned().map(Into::into).collect()
}

/// Working sets on GPUs: past most caches there, and memory.
const ON_GPUS: &[u64] = &[48 << 20, 384 << 20, 3 << 30];
const SIZES_ON_GPUS: &[u64] = &[1024, 4096, 8192];
const DTYPES_ON_GPUS: &[&str] = &["f32", "bf16", "f64", "f16"];
/// Element types of large products that native ranks measure on GPUs.
const OF_NATIVE: &[&str] = &["f32", "bf16", "f64", "f16", "f8e4m3", "i8"];

/// What is open in a test.
fn open(test: Test, on_gpus: bool) -> Vec<OpenField> {
    match test.area() {
        Area::Memory if on_gpus => vec![("bytes", values(ON_GPUS))],
        Area::Compute if on_gpus && test == Test::Fma => vec![("dtype", values(&["f32", "f64"]))],
        Area::Compute if on_gpus => vec![("dtype", values(&["f32"])), ("size", values(SIZES_ON_GPUS))],
        Area::Memory => vec![("bytes", values(WORKING_SETS))],
        Area::Compute if test == Test::Fma => vec![("dtype", values(DTYPES))],
        Area::Compute => vec![("dtype", values(&["f32"])), ("size", values(SIZES))],
        Area::Nodes | Area::Pairs | Area::Storage | Area::Transfer | Area::Results | Area::All => Vec::new(),
    }
}

/// The tests of a profile by PyTorch's ranks: those that they have, fewer for a first look.
fn by_torch(device: &str, quick: bool) -> Vec<(Test, Vec<OpenField>)> {
    let on_gpus = device == CUDA;
    let mut tests: Vec<(Test, Vec<OpenField>)> =
        [Test::Copy, Test::Triad].map(|test| (test, open(test, on_gpus))).to_vec();
    let (types, few, sizes) = if on_gpus { (DTYPES_ON_GPUS, 2, SIZES_ON_GPUS) } else { (DTYPES, 1, &SIZES[..2]) };
    let types = if quick { &types[..few] } else { types };
    tests.push((Test::Gemm, vec![("dtype", values(types)), ("size", values(sizes))]));
    let alone = on_gpus && fields::gpus() < 2;
    let rest = [&[Test::HostToDevice, Test::DeviceToHost], PAIRS].concat().into_iter();
    let rest = rest.filter(|test| torch::has(*test, device) && !(alone && test.area() == Area::Pairs));
    tests.extend(rest.map(|test| (test, Vec::new())));
    tests
}

/// The tests between each two ranks.
const PAIRS: &[Test] = &[Test::Latency, Test::Bandwidth, Test::BothWays];

/// The cases of a profile of GPUs by native ranks.
fn on_gpus(case: &Case) -> Vec<Case> {
    let memory = if case.is_quick() { &[Test::Triad][..] } else { &[Test::Copy, Test::Triad] };
    let transfers = [Test::DeviceCopy, Test::HostToDevice, Test::DeviceToHost, Test::HostBothWays, Test::HostLatency];
    let pairs = if fields::gpus() < 2 { Vec::new() } else { [&[Test::PeerCopy], PAIRS].concat() };
    let tests = [memory, &transfers[..], &pairs].concat();
    let mut cases: Vec<Case> =
        tests.into_iter().flat_map(|test| of_test(case, test, true, &open(test, true))).collect();
    cases.extend(products(case));
    cases
}

/// Peaks of computation, by type; fewer for a first look.
fn products(case: &Case) -> Vec<Case> {
    let (types, sizes) = match case.is_quick() {
        true => (&DTYPES_ON_GPUS[..2], &SIZES_ON_GPUS[1..2]),
        false => (OF_NATIVE, SIZES_ON_GPUS),
    };
    let mut cases = of_test(case, Test::Gemm, true, &[("dtype", values(types)), ("size", values(sizes))]);
    if !case.is_quick() {
        let tf32 = [("dtype", values(&["f32"])), ("matmul", values(&["tf32"])), ("size", values(sizes))];
        cases.extend(of_test(case, Test::Gemm, true, &tf32));
        cases.extend(of_test(case, Test::Fma, true, &[("dtype", values(&["f32", "f64"]))]));
    }
    cases
}

/// Working sets of a profile. The last one is in memory, in a first look, too: caches of some machines hold all others.
fn working_sets(quick: bool, memory: u64) -> Vec<u64> {
    let larger = (memory > LARGEST).then_some(memory);
    let sets = if quick { FEW } else { CURVE };
    sets.iter().copied().chain(larger).collect()
}

/// The tests of a profile of the machine, with what is open in each: what a roofline and limits need; fewer for a first look.
fn profile(quick: bool) -> Vec<(Test, Vec<OpenField>)> {
    let cpus = machine::allowed_cpus();
    let all = cpus.len().max(1) as u64;
    let memory = in_memory(machine::last_level_bytes(&cpus));
    let curve = &working_sets(quick, memory)[..];
    let stream = [Test::Copy, Test::Scale, Test::Add]
        .map(|test| (test, vec![("bytes", values(&[memory])), ("threads", values(&[all]))]));
    let threads: Vec<u64> = if all > 1 { vec![1, all] } else { vec![1] };
    let nodes = if super::numa::nodes().len() > 1 { vec![(Test::Numa, Vec::new())] } else { Vec::new() };
    let types: &[&str] = if quick { &DTYPES[..1] } else { DTYPES };
    let tests = vec![
        (Test::Triad, vec![("bytes", values(curve)), ("threads", values(&threads))]),
        (Test::ReduceBroadcast, vec![("bytes", values(curve)), ("threads", values(&threads[threads.len() - 1..]))]),
        (Test::Fma, vec![("dtype", values(DTYPES)), ("threads", values(&threads))]),
        (Test::Gemm, vec![("dtype", values(types)), ("size", values(&SIZES[..2]))]),
        (Test::Latency, Vec::new()),
        (Test::Bandwidth, Vec::new()),
        (Test::BothWays, Vec::new()),
        (Test::StorageRead, Vec::new()),
    ];
    let stream = if quick { Vec::new() } else { stream.to_vec() };
    [tests, stream, nodes].concat()
}

/// Settles what the plan's cases leave open. The same plan gives the same cases.
pub(super) fn complete(plan: &mut Plan) {
    plan.replace_cases(ABOUT.name, |case| each(&case));
}

/// The cases that one stands for.
fn each(case: &Case) -> Vec<Case> {
    let Ok(fields) = HardwareFields::of(case) else { return vec![case.clone()] };
    if fields.test != Test::All {
        return of_test(case, fields.test, false, &open(fields.test, fields.is_on_gpus()));
    }
    let device = fields.device.as_deref();
    let tests = match device {
        Some(device) if is_pytorch(case) => by_torch(device, case.is_quick()),
        None if is_pytorch(case) => by_torch("cpu", case.is_quick()),
        Some(CUDA) => return on_gpus(case),
        _ => profile(case.is_quick()),
    };
    let mut cases: Vec<Case> = tests.into_iter().flat_map(|(test, open)| of_test(case, test, true, &open)).collect();
    if device.is_none() && !is_pytorch(case) && machine::gpus() > 0 {
        cases.extend(on_gpus(&of_gpus(case)));
    }
    cases
}

/// The case on this machine's GPUs: their number and backend are their own, and they have no threads.
fn of_gpus(case: &Case) -> Case {
    let mut gpus = case.clone();
    for name in ["ranks", "threads", "runtime", "backend", "bind"] {
        gpus.parameters.shift_remove(name);
        gpus.world.shift_remove(name);
    }
    gpus.parameters.insert("device", CUDA.into());
    gpus.world.insert("device", CUDA.into());
    gpus
}

/// The case as this test, with every combination of what it leaves open. `of_all`: it stands for all tests.
fn of_test(case: &Case, test: Test, of_all: bool, open: &[OpenField]) -> Vec<Case> {
    let mut base = case.clone();
    base.parameters.insert("test", terms::Named::name(test).into());
    if of_all {
        leave_out(&mut base, test);
    }
    let mut cases = vec![base];
    for (name, values) in open {
        if cases[0].parameters.contains_key(name) {
            continue;
        }
        let with = |case: &Case, value: &Value| {
            let mut case = case.clone();
            case.parameters.insert((*name).to_owned(), value.clone());
            if *name == "threads" {
                case.world.insert((*name).to_owned(), value.clone());
            }
            case
        };
        cases = cases.iter().flat_map(|case| values.iter().map(move |value| with(case, value))).collect();
    }
    cases.iter_mut().for_each(check_and_identify);
    cases
}

/// Takes out of `all` what does not concern this test. Injected faults strike messages of native ranks.
fn leave_out(case: &mut Case, test: Test) {
    let is_torch = is_pytorch(case) || fields::is_on_gpus(case);
    let foreign: &[&str] = match test.area() {
        Area::Transfer => &["ranks", "threads", "bytes", "dtype", "size", "path", "inject"],
        Area::Pairs if is_torch => &["threads", "bytes", "dtype", "size", "path", "inject"],
        Area::Memory => &["ranks", "dtype", "size", "path", "inject"],
        Area::Nodes | Area::Results => &["ranks", "threads", "bytes", "dtype", "size", "path", "inject"],
        Area::Compute if test == Test::Fma => &["ranks", "bytes", "size", "path", "inject"],
        Area::Compute => &["ranks", "bytes", "path", "inject"],
        Area::Pairs => &["threads", "bytes", "dtype", "size", "path"],
        Area::Storage => &["ranks", "threads", "bytes", "dtype", "size", "inject"],
        Area::All => &[],
    };
    let of_products: &[&str] = if test == Test::Gemm { &[] } else { &["matmul", "tuned", "cublas_library"] };
    for name in foreign.iter().chain(of_products) {
        case.parameters.shift_remove(name);
        case.world.shift_remove(name);
    }
}

fn check_and_identify(case: &mut Case) {
    if let Err(refused) = check(case) {
        case.skip = Some(refused.error.on_one_line());
    }
    case.identify(&ABOUT);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 192 MiB lie in 512 MiB of caches: what they reach is not a bandwidth of memory, and not a limit of larger arrays.
    #[test]
    fn the_largest_arrays_are_in_memory_however_large_the_caches_are() {
        for caches in [None, Some(32 << 20)] {
            let sets = |quick| working_sets(quick, in_memory(caches));
            assert_eq!([sets(true), sets(false)], [FEW.to_vec(), CURVE.to_vec()]);
        }
        let caches = 512 << 20;
        for quick in [true, false] {
            assert_eq!(working_sets(quick, in_memory(Some(caches))).last(), Some(&(4 * caches)), "quick: {quick}");
        }
    }

    /// What is given for pairs of cores, or settled for them, is nothing that GPUs must have.
    #[test]
    fn gpus_beside_the_cpu_have_their_own_number_of_ranks() {
        let flags = [("ranks", "7"), ("threads", "1")];
        let all = record::plan::from_flags(&ABOUT, &flags, &[]).unwrap().cases.remove(0);
        let gpus = of_gpus(&all);
        for test in [Test::Triad, Test::Gemm, Test::HostToDevice] {
            let case = of_test(&gpus, test, true, &open(test, true)).remove(0);
            let ranks = case.whole("ranks");
            assert_eq!((ranks, case.whole("threads"), case.skip), (Some(fields::gpus().into()), None, None), "{test}");
        }
    }
}
