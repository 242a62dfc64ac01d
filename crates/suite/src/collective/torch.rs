//! What differs where ranks are the user's Python: who moves the data, which forms of an operation there are, and which
//! fields mean nothing.

use record::{Case, Problem};
use serde_json::Value;
use terms::{BufferKind, Collective, Named, Runtime};

use crate::admission::is_pytorch;
use crate::fields::TORCH_BACKENDS;

fn problem(field: &'static str, message: String, hint: &str) -> Problem {
    Problem { field, message, hint: Some(hint.to_owned()) }
}

/// Settles runtime and backend where one follows from the other: `gloo` and `ucc` are PyTorch's alone, and each runtime
/// has its own default. Native is what is meant where no runtime stands in the record.
pub(super) fn resolve_runtime(case: &mut Case) -> Result<(), Problem> {
    let asked: Option<Runtime> = case.word("runtime");
    let backend = case.text("backend").map(str::to_owned);
    let is_ours = backend.as_deref().is_none_or(|name| comm::backend(name).is_some());
    let runtime = asked.unwrap_or(if is_ours { Runtime::Native } else { Runtime::Pytorch });
    let backend = backend.unwrap_or_else(|| if runtime == Runtime::Native { "shm" } else { "gloo" }.to_owned());
    let known = match runtime {
        Runtime::Native => comm::backend(&backend).is_some(),
        Runtime::Pytorch => TORCH_BACKENDS.contains(&backend.as_str()),
    };
    if !known {
        let message = format!("runtime `{runtime}` has no backend `{backend}`");
        let hint = "each runtime has its own: leave one of the two fields out, or give each pair an entry of a plan";
        return Err(problem("backend", message, hint));
    }
    set(case, "backend", Value::from(backend));
    match runtime {
        Runtime::Native => {
            case.parameters.shift_remove("runtime");
            case.world.shift_remove("runtime");
            // Beside `pytorch` in a list, it is for the other cases.
            if asked.is_some() {
                case.parameters.shift_remove("python");
                case.world.shift_remove("python");
            }
        }
        Runtime::Pytorch => {
            set(case, "runtime", Value::from(runtime.name()));
            // As torchrun starts ranks: on one core gloo's own threads and the rank's take turns, ten times as slow.
            if !case.parameters.contains_key("bind") {
                set(case, "bind", Value::from("none"));
            }
        }
    }
    Ok(())
}

/// A parameter that decides in which processes the case runs.
fn set(case: &mut Case, name: &str, value: Value) {
    case.parameters.insert(name.to_owned(), value.clone());
    case.world.insert(name.to_owned(), value);
}

/// Whether torch's form of the operation works in place; it has one form of each.
pub(super) fn works_in_place(op: Collective) -> bool {
    matches!(op, Collective::AllReduce | Collective::Reduce | Collective::Broadcast)
}

/// Refuses fields of the other runtime; skips the forms that torch has not.
pub(super) fn check(case: &mut Case, op: Collective) -> Result<(), Problem> {
    if !is_pytorch(case) {
        let stray = case.value("python").is_some();
        let message = || "`python` is for runtime `pytorch`".to_owned();
        return if stray { Err(problem("python", message(), "`runtime: pytorch`")) } else { Ok(()) };
    }
    for name in ["pace_bandwidth", "pace_latency", "mpi_library", "mpi_progress", "mpi_tuned", "mpi_collectives"] {
        if case.value(name).is_some() {
            return Err(problem(name, format!("`{name}` is for runtime `native`"), "leave it out for `pytorch`"));
        }
    }
    if case.flag("progress_thread") {
        let message = "`progress_thread` is for runtime `native`".to_owned();
        return Err(problem("progress_thread", message, "leave it out for `pytorch`"));
    }
    if case.text("backend") == Some("nccl") && case.text("device") == Some("cpu") {
        case.skip = Some("torch's nccl moves memory of GPUs only, and `device` is cpu".to_owned());
    }
    if case.word("buffers") == Some(BufferKind::Registered) {
        case.skip = Some("torch's tensors lie in ordinary memory: `buffers: private` is all it has".to_owned());
    }
    if op != Collective::Barrier && case.flag("in_place") != works_in_place(op) {
        let form = if works_in_place(op) { "in place" } else { "out of place" };
        case.skip = Some(format!("torch.distributed has {op} {form} only"));
    }
    if case.ranks() == 1 && matches!(op, Collective::SendRecv | Collective::PingPong) {
        case.skip = Some("torch.distributed sends nothing from a rank to itself".to_owned());
    }
    Ok(())
}

#[cfg(test)]
#[path = "../../../../tests/skip.rs"]
mod skip;

#[cfg(test)]
mod tests {
    use super::super::number::Number;
    use super::super::pattern::Pattern;
    use super::*;
    use crate::{Benchmark, CollectiveBenchmark};
    use record::Plan;
    use terms::{Dtype, Reduce};

    fn plan(fields: &[(&str, &str)]) -> Result<Plan, String> {
        let fields: Vec<_> = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        record::plan::from_flags(CollectiveBenchmark.about(), &fields, &[]).map_err(|errors| errors.to_string())
    }

    #[test]
    fn each_runtime_has_its_own_backend_and_form() {
        let plan = plan(&[("op", "all_gather"), ("runtime", "native,pytorch")]).unwrap();
        let about: Vec<_> = plan
            .cases
            .iter()
            .map(|case| {
                let text = |name: &str| case.text(name).unwrap_or("-").to_owned();
                (
                    text("runtime"),
                    text("backend"),
                    text("buffers"),
                    case.flag("in_place"),
                    case.world.get("backend").cloned(),
                )
            })
            .collect();
        let row = |runtime: &str, backend: &str, buffers: &str, in_place| {
            (runtime.to_owned(), backend.to_owned(), buffers.to_owned(), in_place, Some(Value::from(backend)))
        };
        assert_eq!(about, [row("-", "shm", "registered", true), row("pytorch", "gloo", "private", false)]);
        assert!(!plan.cases[0].world.contains_key("runtime") && plan.cases[1].world["runtime"] == "pytorch");
    }

    #[test]
    fn ranks_of_pytorch_are_bound_only_on_request() {
        let bind = |fields: &[(&str, &str)]| {
            let case = &plan(fields).unwrap().cases[0];
            (case.text("bind").map(str::to_owned), case.world.get("bind").cloned())
        };
        assert_eq!(bind(&[("runtime", "pytorch")]), (Some("none".into()), Some("none".into())));
        assert_eq!(bind(&[("runtime", "pytorch"), ("bind", "core")]).0.as_deref(), Some("core"));
        assert_ne!(bind(&[]).0.as_deref(), Some("none"));
    }

    #[test]
    fn a_named_native_runtime_is_the_same_case() {
        let id = |fields: &[(&str, &str)]| plan(fields).unwrap().cases[0].id.clone();
        assert_eq!(id(&[("op", "all_reduce")]), id(&[("op", "all_reduce"), ("runtime", "native"), ("backend", "shm")]));
        assert_eq!(id(&[("backend", "gloo")]), id(&[("runtime", "pytorch")]));
    }

    #[test]
    fn what_the_other_runtime_has_is_refused() {
        for (fields, said) in [
            ([("runtime", "native"), ("backend", "gloo")], "runtime `native` has no backend `gloo`"),
            ([("runtime", "pytorch"), ("backend", "shm")], "runtime `pytorch` has no backend `shm`"),
            ([("backend", "shm"), ("python", "python3")], "`python` is for runtime `pytorch`"),
            ([("backend", "gloo"), ("pace_bandwidth", "1GB/s")], "`pace_bandwidth` is for runtime `native`"),
            ([("backend", "gloo"), ("progress_thread", "true")], "`progress_thread` is for runtime `native`"),
        ] {
            let error = plan(&fields).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn forms_that_torch_has_not_are_skipped() {
        let skip = |fields: &[(&str, &str)]| plan(fields).unwrap().cases[0].skip.clone().unwrap_or_default();
        let torch = ("runtime", "pytorch");
        assert!(skip(&[torch, ("op", "all_reduce"), ("in_place", "false")]).contains("all_reduce in place only"));
        assert!(skip(&[torch, ("op", "all_to_all"), ("in_place", "true")]).contains("all_to_all out of place only"));
        assert!(skip(&[torch, ("buffers", "registered")]).contains("ordinary memory"));
        assert!(skip(&[torch, ("backend", "nccl")]).contains("memory of GPUs only"));
        assert_eq!(skip(&[torch, ("op", "barrier")]), "");
    }

    /// What the Python package says of these patterns; None, listed as skipped, where there is no Python.
    fn python(wanted: &Value) -> Option<Vec<Value>> {
        let program = std::env::var_os("RANKMARK_TEST_PYTHON").unwrap_or_else(|| "python3".into());
        let facts = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/tests/facts.py");
        match std::process::Command::new(&program).args(["-B", facts, &wanted.to_string()]).output() {
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                Some(serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}")))
            }
            Err(error) => {
                super::skip::skip("patterns of the Python package", &format!("{}: {error}", program.display()));
                None
            }
        }
    }

    #[test]
    fn the_packages_patterns_are_ours() {
        let mut wanted = Vec::new();
        let mut ours = Vec::new();
        for op in [Collective::AllReduce, Collective::Reduce, Collective::ReduceScatter, Collective::Broadcast] {
            for (dtype, reduce) in Dtype::ALL.iter().flat_map(|dtype| Reduce::ALL.iter().map(move |by| (*dtype, *by))) {
                for (ranks, in_place) in [(1, true), (2, true), (3, true), (6, true), (12, true), (5, false)] {
                    if let Some(pattern) = Pattern::new(op, dtype, reduce, ranks, in_place, 5) {
                        wanted.push(serde_json::json!([op.name(), dtype.name(), reduce.name(), ranks, in_place]));
                        ours.push((pattern, dtype, ranks));
                    }
                }
            }
        }
        let Some(theirs) = python(&Value::from(wanted.clone())) else { return };
        assert_eq!((theirs.len(), ours.len() > 400), (ours.len(), true));
        for ((theirs, (pattern, dtype, ranks)), what) in theirs.iter().zip(&ours).zip(&wanted) {
            assert_eq!(theirs[0].as_u64(), Some(pattern.max_calls()), "{what}");
            let encoded = |numbers: &Value| {
                let mut bytes = Vec::new();
                for number in numbers.as_array().into_iter().flatten() {
                    let whole = || number.as_i64().unwrap_or_default();
                    let float = || number.as_f64().unwrap_or_default();
                    let number = if dtype.is_float() { Number::Float(float()) } else { Number::Whole(whole()) };
                    number.encode(*dtype, &mut bytes);
                }
                bytes
            };
            let begins = |bytes: &[u8]| bytes[..40 * dtype.bytes() as usize].to_vec();
            assert_eq!(encoded(&theirs[1]), begins(&pattern.inputs(ranks - 1).bytes), "{what}");
            if theirs[2].as_array().is_some_and(|numbers| !numbers.is_empty()) {
                let calls = pattern.max_calls().min(2);
                assert_eq!(encoded(&theirs[2]), begins(&pattern.reduced(calls, 0).bytes), "{what}");
            }
        }
    }
}
