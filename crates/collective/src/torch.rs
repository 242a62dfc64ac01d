//! What differs when ranks run PyTorch: which forms of an operation exist, and how a call starts its operations.

use record::Case;
use serde_json::Value;
use terms::{BufferKind, Collective, Dtype, Field, FieldError, Kind, Label, Named};

use contract::fields::groups;
use contract::runtime::is_pytorch;

terms::named! {
    /// How a call starts its operations.
    pub(super) enum Form("form of a call") {
        /// Starts one and waits for it.
        Blocking = "blocking",
        /// Starts several, each on its own buffers, and then waits for all of them.
        Async = "async",
        /// Starts several as one: torch coalesces them.
        Coalesced = "coalesced",
    }
}

const fn field(kind: Kind, doc: &'static str) -> Field {
    Field::new(kind, None, doc).owner("pytorch").group(groups::PYTORCH)
}

record::fields! {
    /// Fields that only PyTorch ranks support, apart from `runtime` itself.
    pub(super) struct Fields {
        call: Option<Form> = field(
            Kind::Word(Form::names),
            "blocking (default): one operation; async, coalesced: in_flight operations",
        ),
        in_flight: Option<u64> = field(
            Kind::Whole(1, 1024),
            "operations that an async or coalesced call starts (default: 4)",
        )
        .label(Label::Around("{} in flight")),
    }
}

/// Names of the fields.
pub(super) fn names() -> Vec<&'static str> {
    Fields::FIELDS.iter().map(|field| field.name).collect()
}

/// Default number of operations in flight.
const IN_FLIGHT: u64 = 4;

/// Settles how many operations a call starts. A blocking call is the same case as one without these fields. Runs after
/// [`contract::runtime::resolve`].
pub(super) fn resolve(case: &mut Case) -> Result<(), FieldError> {
    if !is_pytorch(case) {
        return Ok(());
    }
    let Fields { call, in_flight } = Fields::of(case)?;
    if call.is_none() && in_flight.is_some() {
        let message = "a blocking call has one operation in flight";
        return Err(FieldError::new("in_flight", message).hint("add `call: async` or `call: coalesced`"));
    }
    if matches!(call, None | Some(Form::Blocking)) {
        // If a list also has other forms, `in_flight` applies to those.
        names().iter().for_each(|name| drop(case.parameters.shift_remove(name)));
    } else if in_flight.is_none() {
        case.parameters.insert("in_flight", Value::from(IN_FLIGHT));
    }
    Ok(())
}

/// Whether torch runs the operation in place. It has only one form of each operation.
pub(super) fn works_in_place(op: Collective) -> bool {
    matches!(op, Collective::AllReduce | Collective::Reduce | Collective::Broadcast)
}

/// Whether c10d coalesces several such operations. It would run others one after another and wait for each.
fn can_coalesce(op: Collective) -> bool {
    matches!(op, Collective::AllReduce | Collective::AllGather | Collective::ReduceScatter)
}

/// Skips the cases that torch does not support.
pub(super) fn check(case: &mut Case, fields: &super::fields::Fields) -> Result<(), FieldError> {
    if !is_pytorch(case) {
        return Ok(());
    }
    let op = fields.op;
    if fields.buffers == Some(BufferKind::Registered) {
        case.skip = Some("torch's tensors are in ordinary memory: only `buffers: private` is possible".to_owned());
    }
    if op != Collective::Barrier && fields.in_place.unwrap_or(false) != works_in_place(op) {
        let form = if works_in_place(op) { "in place" } else { "out of place" };
        case.skip = Some(format!("torch.distributed supports {op} {form} only"));
    }
    if op.reduces() && matches!(fields.dtype, Dtype::U32 | Dtype::U64) {
        case.skip = Some(format!("torch.distributed does not reduce {}", fields.dtype));
    }
    if fields.ranks == 1 && matches!(op, Collective::SendRecv | Collective::PingPong) {
        case.skip = Some("torch.distributed cannot send from a rank to itself".to_owned());
    }
    let form = Fields::of(case)?.call.unwrap_or(Form::Blocking);
    if form == Form::Coalesced && !can_coalesce(op) {
        case.skip = Some(format!("torch coalesces all_reduce, all_gather and reduce_scatter, not {op}"));
    }
    if form == Form::Async && op == Collective::PingPong {
        case.skip = Some("ping_pong sends one message after the other: none can be started early".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::number::Number;
    use super::super::pattern::Pattern;
    use super::super::random::Random;
    use super::*;
    use crate::CollectiveBenchmark;
    use crate::facts::facts;
    use contract::Benchmark;
    use record::Plan;
    use serde_json::Value;
    use terms::Reduce;

    fn plan(fields: &[(&str, &str)]) -> Result<Plan, String> {
        record::plan::from_flags(CollectiveBenchmark.about(), fields, &[]).map_err(|errors| errors.to_string())
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
    fn ranks_on_gpus_are_native_unless_something_says_pytorch() {
        let resolved = |fields: &[(&str, &str)]| {
            let case = plan(fields).unwrap().cases.remove(0);
            let text = |name: &str| case.text(name).unwrap_or("-").to_owned();
            let memory = CollectiveBenchmark.parse(&case).unwrap().memory();
            (text("runtime"), text("backend"), memory, case.world.get("device").cloned())
        };
        let on_cuda =
            |runtime: &str, backend: &str| (runtime.to_owned(), backend.to_owned(), 0, Some(Value::from("cuda")));
        let gpu = ("device", "cuda");
        assert_eq!(resolved(&[gpu]), on_cuda("-", "nccl"));
        assert_eq!(resolved(&[gpu, ("backend", "nccl")]), on_cuda("-", "nccl"));
        assert_eq!(resolved(&[("backend", "nccl")]), on_cuda("-", "nccl"));
        assert_eq!(resolved(&[gpu, ("backend", "gloo")]), on_cuda("pytorch", "gloo"));
        for torch in [("runtime", "pytorch"), ("python", "python3"), ("call", "async")] {
            assert_eq!(resolved(&[gpu, torch]), on_cuda("pytorch", "nccl"));
        }
        assert_eq!(plan(&[gpu]).unwrap().cases[0].skip, None);
        let all_to_all = plan(&[gpu, ("op", "all_to_all")]).unwrap().cases.remove(0);
        assert!(!all_to_all.flag("in_place"), "NCCL has no other form");
        let mean = |ranks, dtype| {
            let fields = [gpu, ("op", "all_reduce"), ("reduce", "avg"), ("ranks", ranks), ("dtype", dtype)];
            plan(&fields).unwrap().cases[0].skip.clone()
        };
        assert!(mean("7", "f32").is_some_and(|why| why.contains("a power of two, which 7 is not")));
        assert_eq!([mean("8", "f32"), mean("7", "i32")], [None, None]);
        // Ranks that communicate through the host also hold buffers in its memory.
        let (runtime, backend, host_bytes, _) = resolved(&[gpu, ("backend", "shm")]);
        assert_eq!((runtime.as_str(), backend.as_str(), host_bytes > 0), ("-", "shm", true));
        let error = plan(&[gpu, ("backend", "reference")]).unwrap_err();
        assert!(error.contains("`reference`"), "{error}");
        let error = plan(&[gpu, ("backend", "shm"), ("runtime", "pytorch")]).unwrap_err();
        assert!(error.contains("runtime `pytorch` has no backend `shm`"), "{error}");
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
    fn fields_of_the_other_runtime_are_refused() {
        for (fields, said) in [
            ([("runtime", "native"), ("backend", "gloo")], "runtime `native` has no backend `gloo`"),
            ([("runtime", "pytorch"), ("backend", "shm")], "runtime `pytorch` has no backend `shm`"),
            ([("backend", "shm"), ("python", "python3")], "`python` is for runtime `pytorch`"),
            ([("backend", "gloo"), ("pace_bandwidth", "1GB/s")], "`pace_bandwidth` is for runtime `native`"),
            ([("backend", "gloo"), ("progress_thread", "true")], "`progress_thread` is for runtime `native`"),
            ([("backend", "shm"), ("call", "async")], "`call` is for runtime `pytorch`"),
            ([("backend", "shm"), ("in_flight", "2")], "`in_flight` is for runtime `pytorch`"),
            ([("backend", "gloo"), ("in_flight", "2")], "a blocking call has one operation in flight"),
        ] {
            let error = plan(&fields).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn forms_that_torch_does_not_support_are_skipped() {
        let skip = |fields: &[(&str, &str)]| plan(fields).unwrap().cases[0].skip.clone().unwrap_or_default();
        let torch = ("runtime", "pytorch");
        assert!(skip(&[torch, ("op", "all_reduce"), ("in_place", "false")]).contains("all_reduce in place only"));
        assert!(skip(&[torch, ("op", "all_to_all"), ("in_place", "true")]).contains("all_to_all out of place only"));
        assert!(skip(&[torch, ("buffers", "registered")]).contains("ordinary memory"));
        assert!(skip(&[torch, ("backend", "nccl")]).contains("moves GPU memory only"));
        for dtype in ["u32", "u64"] {
            let fields = |op| [torch, ("op", op), ("dtype", dtype)];
            assert_eq!(skip(&fields("all_reduce")), format!("torch.distributed does not reduce {dtype}"));
            assert_eq!(skip(&fields("all_gather")), "");
        }
        assert_eq!(skip(&[torch, ("dtype", "i8")]), "");
        assert_eq!(skip(&[torch, ("op", "barrier")]), "");
    }

    #[test]
    fn each_form_of_a_call_is_its_own_case() {
        let lists = [("runtime", "native,pytorch"), ("call", "blocking,async,coalesced"), ("in_flight", "2,3")];
        let cases = plan(&lists).unwrap().cases;
        let described = |case: &Case| {
            let text = |name: &str| case.text(name).unwrap_or("-").to_owned();
            (text("runtime"), text("call"), case.whole("in_flight"))
        };
        let row = |runtime: &str, call: &str, in_flight| (runtime.to_owned(), call.to_owned(), in_flight);
        let expected = [
            row("-", "-", None),
            row("pytorch", "-", None),
            row("pytorch", "async", Some(2)),
            row("pytorch", "async", Some(3)),
            row("pytorch", "coalesced", Some(2)),
            row("pytorch", "coalesced", Some(3)),
        ];
        assert_eq!(cases.iter().map(described).collect::<Vec<_>>(), expected);
        let id = |fields: &[(&str, &str)]| plan(fields).unwrap().cases[0].id.clone();
        let torch = ("runtime", "pytorch");
        assert_eq!(cases[1].id, id(&[torch]));
        assert_eq!(id(&[torch, ("call", "async")]), id(&[torch, ("call", "async"), ("in_flight", "4")]));
        assert_ne!(id(&[torch, ("call", "async"), ("in_flight", "1")]), id(&[torch]));
    }

    #[test]
    fn operations_that_torch_runs_one_by_one_are_not_coalesced() {
        let torch = ("runtime", "pytorch");
        for op in Collective::ALL {
            let fields = |form| [torch, ("op", op.name()), ("call", form)];
            let skip = |form| plan(&fields(form)).unwrap().cases[0].skip.clone().unwrap_or_default();
            let coalesces = ["all_reduce", "all_gather", "reduce_scatter"].contains(&op.name());
            assert_eq!(skip("coalesced").is_empty(), coalesces, "{op}: {}", skip("coalesced"));
            assert_eq!(skip("async").is_empty(), *op != Collective::PingPong, "{op}: {}", skip("async"));
        }
    }

    #[test]
    fn every_operation_in_flight_has_its_own_memory() {
        let memory =
            |fields: &[(&str, &str)]| CollectiveBenchmark.parse(&plan(fields).unwrap().cases[0]).unwrap().memory();
        let common = [("runtime", "pytorch"), ("op", "all_gather"), ("bytes", "1MiB")];
        let several = [&common[..], &[("call", "async"), ("in_flight", "8")]].concat();
        assert_eq!(memory(&several), 8 * memory(&common));
        assert_eq!(memory(&common), 2 * ((1 << 19) + (1 << 20)));
    }

    #[test]
    fn the_python_package_makes_the_same_patterns() {
        let mut wanted = Vec::new();
        let mut ours = Vec::new();
        for op in [Collective::AllReduce, Collective::Reduce, Collective::ReduceScatter, Collective::Broadcast] {
            for (dtype, reduce) in Dtype::ALL.iter().flat_map(|dtype| Reduce::ALL.iter().map(move |by| (*dtype, *by))) {
                for (ranks, in_place) in
                    [(1, true), (2, true), (3, true), (12, true), (24, true), (100, true), (5, false), (300, false)]
                {
                    // Many ranks take long in Python: only types too narrow for sums over them get that many.
                    let narrow = matches!(dtype, Dtype::I8 | Dtype::U8 | Dtype::Bf16)
                        && matches!(reduce, Reduce::Sum | Reduce::Avg);
                    if ranks > 24 && !(narrow && op == Collective::AllReduce) {
                        continue;
                    }
                    if let Some(pattern) = Pattern::new(op, dtype, reduce, ranks, in_place, 5) {
                        wanted.push(serde_json::json!([op.name(), dtype.name(), reduce.name(), ranks, in_place]));
                        ours.push((pattern, dtype, ranks));
                    }
                }
            }
        }
        let Some(theirs) = facts("patterns of the Python package", "facts.py", &Value::from(wanted.clone())) else {
            return;
        };
        let theirs = theirs.as_array().cloned().unwrap_or_default();
        assert_eq!((theirs.len(), ours.len() > 400), (ours.len(), true));
        for ((theirs, (pattern, dtype, ranks)), what) in theirs.iter().zip(&ours).zip(&wanted) {
            assert_eq!(theirs[0].as_u64(), Some(pattern.max_calls()), "{what}");
            let encoded = |numbers: &Value| {
                let mut bytes = Vec::new();
                for number in numbers.as_array().into_iter().flatten() {
                    let whole = || number.as_i64().or(number.as_u64().map(|bits| bits as i64)).unwrap_or_default();
                    let float = || number.as_f64().unwrap_or_default();
                    let number = if dtype.is_float() { Number::Float(float()) } else { Number::Whole(whole()) };
                    number.encode(*dtype, &mut bytes);
                }
                bytes
            };
            let begins = |bytes: &[u8]| bytes[..40 * dtype.bytes() as usize].to_vec();
            assert_eq!(encoded(&theirs[1]), begins(&pattern.inputs(ranks - 1).bytes()), "{what}");
            if theirs[2].as_array().is_some_and(|numbers| !numbers.is_empty()) {
                let calls = pattern.max_calls().min(2);
                assert_eq!(encoded(&theirs[2]), begins(&pattern.reduced(&pattern.once(), calls, 0).bytes()), "{what}");
            }
        }
    }

    /// The bytes of a number in this type.
    fn bits(dtype: Dtype, value: f64) -> Vec<u8> {
        let mut bytes = Vec::new();
        Number::Float(value).encode(dtype, &mut bytes);
        bytes
    }

    const FLOATS: [Dtype; 4] = [Dtype::F32, Dtype::F64, Dtype::F16, Dtype::Bf16];

    #[test]
    fn the_python_package_makes_the_same_random_floats() {
        let (mut wanted, mut ours) = (Vec::new(), Vec::new());
        for (op, in_place) in
            [(Collective::AllReduce, true), (Collective::ReduceScatter, false), (Collective::AllGather, false)]
        {
            for (dtype, reduce) in FLOATS.iter().flat_map(|dtype| Reduce::ALL.iter().map(move |by| (*dtype, *by))) {
                for ranks in [1, 2, 3, 12, 24] {
                    if let Some(random) = Random::new((op, reduce), dtype, ranks, in_place, 5) {
                        wanted.push(serde_json::json!([op.name(), dtype.name(), reduce.name(), ranks, in_place]));
                        ours.push((random, dtype, ranks));
                    }
                }
            }
        }
        let asked = serde_json::json!({"random": wanted});
        let Some(theirs) = facts("random floats of the Python package", "facts.py", &asked) else { return };
        let theirs = theirs.as_array().cloned().unwrap_or_default();
        assert_eq!((theirs.len(), ours.len() > 200), (ours.len(), true));
        for ((theirs, (random, dtype, ranks)), what) in theirs.iter().zip(&ours).zip(&wanted) {
            assert_eq!(theirs[0].as_u64(), Some(random.max_calls()), "{what}");
            let numbers = theirs[1].as_array().expect("numbers").iter().map(|number| number.as_f64().expect("a float"));
            let encoded: Vec<u8> = numbers.flat_map(|number| bits(*dtype, number)).collect();
            assert!(encoded == random.inputs(ranks - 1).bytes(), "{what}: inputs differ");
            for (index, result) in theirs[2].as_array().expect("results").iter().enumerate() {
                let (expected, bound) = random.expected(index as u64, random.max_calls().min(2));
                assert_eq!(result[0].as_f64(), Some(expected), "{what}, element {index}");
                let theirs = result[1].as_f64().expect("a bound");
                assert!((theirs - bound).abs() <= 1e-9 * bound, "{what}, element {index}: {theirs} {bound}");
            }
        }
    }

    #[test]
    fn the_python_package_describes_bits_in_the_same_way() {
        let (mut wanted, mut ours) = (Vec::new(), Vec::new());
        for dtype in FLOATS {
            let random = Random::new((Collective::AllReduce, Reduce::Sum), dtype, 3, false, 5).expect("it is bounded");
            let element = dtype.bytes() as usize;
            for (elements, change) in [(1, 0), (64, 5), (65, 64), (300, 70), (300, 299), (300, 300)] {
                let from = random.inputs(1).bytes()[..elements * element].to_vec();
                let mut to = from.clone();
                // Changes the last bit of some elements, and the sign of one.
                for at in (change..elements).step_by(90) {
                    to[at * element] ^= 1;
                }
                if elements == 65 {
                    to[element - 1] ^= 0x80;
                }
                let words = |bytes: &[u8]| -> Vec<u64> {
                    let word = |element: &[u8]| element.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
                    bytes.chunks_exact(element).map(word).collect()
                };
                wanted.push(serde_json::json!([dtype.name(), words(&from), words(&to)]));
                let short = serde_json::to_value(contract::bits::in_short(dtype, &from)).expect("plain data");
                let apart = serde_json::to_value(contract::bits::difference(dtype, &from, &to)).expect("plain data");
                ours.push(serde_json::json!([short, apart]));
            }
        }
        let Some(theirs) = facts("bits by the Python package", "results.py", &Value::from(wanted)) else { return };
        for (theirs, ours) in theirs.as_array().expect("a list").iter().zip(&ours) {
            assert_eq!(theirs, ours);
        }
        assert_eq!(theirs.as_array().map(Vec::len), Some(ours.len()));
    }
}
