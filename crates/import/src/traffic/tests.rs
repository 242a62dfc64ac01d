//! Traces by hand: sizes, types, steps, communicators, and what is left out.

use std::path::PathBuf;

use terms::Error;

use super::{JobTraffic, TrafficPlan};
use crate::traces::read_timeline;

const BASE: i64 = 1_700_000_000_000_000_000;

/// Every case is its own, whatever its times are.
fn shape(text: &str) -> Result<String, String> {
    Ok(text.split(", trace_calls").next().unwrap_or_default().to_owned())
}

fn made(files: &[(&str, String)], ranks: Option<u32>) -> Result<TrafficPlan, Error> {
    let folder = tempfile::tempdir().unwrap();
    let write = |(name, text): &(&str, String)| -> PathBuf {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let paths: Vec<PathBuf> = files.iter().map(write).collect();
    super::plan(read_timeline(&paths)?, &JobTraffic { name: "job/trace", ranks, identity: &shape })
}

/// The cases of a plan, a line each, without what all have.
fn cases(plan: &TrafficPlan) -> Vec<String> {
    let lines = plan.plan.text.lines().filter_map(|line| line.trim().strip_prefix("- {benchmark: collective, "));
    lines.map(|line| line.trim_end_matches('}').to_owned()).collect()
}

fn event(category: &str, name: &str, thread: u32, [at, time]: [f64; 2], args: &str) -> String {
    format!(
        r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":1,"tid":{thread},"ts":{at},"dur":{time},"args":{{{args}}}}}"#
    )
}

fn kineto(rank: u32, world: u32, groups: &str, events: &[String]) -> String {
    let info = format!(r#"{{"backend":"nccl","rank":{rank},"world_size":{world},"pg_config":[{groups}]}}"#);
    format!(
        r#"{{"schemaVersion":1,"distributedInfo":{info},"baseTimeNanoseconds":{BASE},"traceEvents":[{}]}}"#,
        events.join(",")
    )
}

fn step(number: u32, at: f64) -> String {
    event("user_annotation", &format!("ProfilerStep#{number}"), 1, [at, 100.0], "")
}

/// A kernel of NCCL as PyTorch describes it: operation, type, elements given and taken.
fn kernel(
    at: f64,
    time: f64,
    (word, dtype): (&str, &str),
    [given, taken]: [u64; 2],
    (group, size): (&str, u32),
) -> String {
    let args = format!(
        r#""Collective name":"{word}","dtype":"{dtype}","In msg nelems":{given},"Out msg nelems":{taken},"Group size":{size},"Process Group Name":"{group}","Process Group Description":"d""#
    );
    event("kernel", "ncclDevKernel_Generic(x)", 7, [at, time], &args)
}

const FOUR: (&str, u32) = ("0", 4);

#[test]
fn s_of_every_operation_follows_from_what_ranks_give_and_take() {
    // 4 ranks; a block is 1000 elements of 2 bytes.
    let calls = [
        ("allreduce", [1000, 1000], "op: all_reduce, bytes: 2000"),
        ("_allgather_base", [1000, 4000], "op: all_gather, bytes: 8000"),
        ("_reduce_scatter_base", [4000, 1000], "op: reduce_scatter, bytes: 8000"),
        ("all_to_all", [4000, 4000], "op: all_to_all, bytes: 8000"),
        ("all_to_allv", [3000, 5000], "op: all_to_allv, bytes: 10000"),
        ("broadcast", [1000, 1000], "op: broadcast, bytes: 2000"),
        ("reduce", [1000, 1000], "op: reduce, bytes: 2000"),
        ("gather", [1000, 4000], "op: gather, bytes: 8000"),
        ("scatter", [4000, 1000], "op: scatter, bytes: 8000"),
    ];
    for (word, elements, wanted) in calls {
        let events = [step(1, 0.0), kernel(10.0, 5.0, (word, "BFloat16"), elements, FOUR)];
        let found = cases(&made(&[("rank0.json", kineto(0, 4, "", &events))], None).unwrap());
        let wanted =
            format!("{wanted}, dtype: bf16, ranks: 4, trace_calls: 1, trace_steps: 1, trace_waiting_s: 5.000us");
        assert_eq!(found, [wanted], "{word}");
    }
}

#[test]
fn uneven_exchanges_have_the_size_of_the_widest_rank() {
    let rank = |rank: u32, elements: [u64; 2]| {
        let events = [step(1, 0.0), kernel(10.0, 5.0, ("all_to_all", "Float"), elements, ("0", 2))];
        kineto(rank, 2, "", &events)
    };
    let files = [("rank0.json", rank(0, [100, 100])), ("rank1.json", rank(1, [100, 300]))];
    let plan = made(&files, None).unwrap();
    assert!(cases(&plan)[0].starts_with("op: all_to_allv, bytes: 1200, dtype: f32"), "{:?}", cases(&plan));
    assert!(plan.plan.warnings.iter().any(|warning| warning.contains("the widest rank")), "{:?}", plan.plan.warnings);
}

#[test]
fn time_without_waiting_is_of_the_shortest_rank_of_each_call() {
    let rank = |rank: u32, times: [f64; 2]| {
        let call = |at: f64, time: f64| kernel(at, time, ("allreduce", "Float"), [8, 8], ("0", 2));
        let events = [
            // Before the first step: not of one.
            kernel(-50.0, 5.0, ("allreduce", "Float"), [8, 8], ("0", 2)),
            step(1, 0.0),
            call(10.0, times[0]),
            step(2, 100.0),
            call(110.0, times[1]),
        ];
        kineto(rank, 2, "", &events)
    };
    let files = [("rank0.json", rank(0, [30.0, 10.0])), ("rank1.json", rank(1, [20.0, 60.0]))];
    let plan = made(&files, None).unwrap();
    let wanted = "op: all_reduce, bytes: 32, dtype: f32, ranks: 2, trace_calls: 2, trace_steps: 2, trace_s: 15.000us, \
                  trace_waiting_s: 25.000us";
    assert_eq!(cases(&plan), [wanted]);
    let left = "2 calls are left out: they are before the first step or after the last";
    assert!(plan.plan.warnings.iter().any(|warning| warning == left), "{:?}", plan.plan.warnings);
}

#[test]
fn calls_are_counted_a_rank_and_not_over_ranks_or_communicators() {
    let groups = r#"{"pg_name":"1","pg_desc":"d","pg_size":2,"ranks":[0,1]},{"pg_name":"2","pg_desc":"d","pg_size":2,"ranks":"[2, 3]"},{"pg_name":"3","pg_desc":"d","pg_size":2,"ranks":[0,2]}"#;
    let rank = |rank: u32, tensor: &str| {
        let tensor = |at| kernel(at, 5.0, ("allreduce", "Float"), [8, 8], (tensor, 2));
        let mut events = vec![step(1, 0.0), tensor(10.0), tensor(20.0)];
        if rank == 0 {
            events.push(kernel(30.0, 5.0, ("allreduce", "Float"), [8, 8], ("3", 2)));
        }
        kineto(rank, 4, groups, &events)
    };
    let files = [("rank0.json", rank(0, "1")), ("rank2.json", rank(2, "2"))];
    let found = cases(&made(&files, None).unwrap());
    let wanted = |rule: &str, calls: u32| {
        format!(
            "op: all_reduce, bytes: 32, dtype: f32, ranks: 4, groups: \"{rule}\", trace_calls: {calls}, trace_steps: 1, \
             trace_waiting_s: 5.000us"
        )
    };
    assert_eq!(found, [wanted("div 2", 2), wanted("mod 2", 1)]);
    // For two ranks both are the same: its calls add up.
    let two = made(&files, Some(2)).unwrap();
    let wanted =
        "op: all_reduce, bytes: 32, dtype: f32, ranks: 2, trace_calls: 3, trace_steps: 1, trace_waiting_s: 5.000us";
    assert_eq!((cases(&two), two.ranks, two.is_uniform), (vec![wanted.to_owned()], 2, true));
}

#[test]
fn calls_that_overlap_are_counted_and_said() {
    let call = |at, thread: u32| {
        kernel(at, 20.0, ("allreduce", "Float"), [8, 8], ("0", 2)).replace("\"tid\":7", &format!("\"tid\":{thread}"))
    };
    let events = [step(1, 0.0), call(10.0, 7), call(20.0, 8), call(60.0, 7)];
    let plan = made(&[("rank0.json", kineto(0, 2, "", &events))], None).unwrap();
    assert!(cases(&plan)[0].ends_with("trace_overlapped: 2"), "{:?}", cases(&plan));
    let said = "2 of 3 calls ran while another did, up to 2 at a time";
    assert!(plan.plan.warnings.iter().any(|warning| warning.starts_with(said)), "{:?}", plan.plan.warnings);
    assert!(plan.plan.text.contains("up to 2 calls in flight"), "{}", plan.plan.text);
}

#[test]
fn what_has_no_counterpart_is_left_out_with_its_number() {
    let events = [
        step(1, 0.0),
        kernel(10.0, 5.0, ("allreduce", "Float"), [8, 8], FOUR),
        kernel(20.0, 5.0, ("send", "Float"), [8, 8], FOUR),
        kernel(30.0, 5.0, ("send", "Float"), [8, 8], FOUR),
        kernel(40.0, 5.0, ("brand_new", "Float"), [8, 8], FOUR),
        kernel(50.0, 5.0, ("allreduce", "ComplexFloat"), [8, 8], FOUR),
        kernel(60.0, 5.0, ("allreduce", "Float"), [0, 0], FOUR),
        kernel(70.0, 5.0, ("allreduce", "Float"), [8, 8], ("1", 1)),
        kernel(80.0, 5.0, ("allreduce", "Float"), [8, 8], ("2", 4096)),
        kernel(90.0, 5.0, ("allreduce", "Float"), [u64::MAX, u64::MAX], FOUR),
    ];
    let plan = made(&[("rank0.json", kineto(0, 4, "", &events))], None).unwrap();
    assert_eq!(cases(&plan).len(), 1);
    let warnings = plan.plan.warnings.join("\n");
    for said in [
        "2 calls are left out: transfers between two ranks",
        "1 call is left out: `brand_new` has no counterpart here",
        "1 call is left out: they move nothing: their size is 0",
        "1 call is left out: a communicator of one rank moves nothing",
        "1 call is left out: their communicator has more than 1024 ranks",
        "1 call is left out: element type `ComplexFloat` has no counterpart here",
        // Beyond all numbers.
        "1 call is left out: the trace has no size of them",
    ] {
        assert!(warnings.contains(said), "{said}\n{warnings}");
    }
}

#[test]
fn traces_that_say_too_little_are_refused_with_what_to_set() {
    let refused = |events: &[String]| made(&[("rank0.json", kineto(0, 2, "", events))], None).unwrap_err();
    let gloo = event("user_annotation", "gloo:all_reduce", 9, [10.0, 5.0], "");
    let only = r#"{"pg_name":"0","pg_desc":"d","pg_size":2}"#;
    let error = made(&[("rank0.json", kineto(0, 2, only, &[step(1, 0.0), gloo.clone()]))], None).unwrap_err();
    assert!(error.cause.as_deref().unwrap().starts_with("1 call: the trace has no size of them"), "{error}");
    assert!(error.hint.as_deref().unwrap().contains("record_shapes=True"), "{error}");
    let error = refused(&[step(1, 0.0), gloo]);
    assert!(error.hint.as_deref().unwrap().contains("`--ranks N`"), "{error}");
    let error = refused(&[step(1, 0.0)]);
    assert_eq!(error.what, "the traces hold no call of a collective");
    let error = refused(&[step(1, 0.0), kernel(10.0, 5.0, ("send", "Float"), [8, 8], FOUR)]);
    assert!(error.hint.as_deref().unwrap().contains("ping_pong"), "{error}");
}

#[test]
fn traces_of_several_jobs_are_refused() {
    let trace = |rank: u32, world: u32| {
        kineto(rank, world, "", &[step(1, 0.0), kernel(10.0, 5.0, ("allreduce", "Float"), [8, 8], FOUR)])
    };
    let error = made(&[("rank0.json", trace(0, 2)), ("rank1.json", trace(1, 4))], None).unwrap_err();
    assert_eq!(error.what, "the traces come from several jobs", "{error}");
    let error = made(&[("a_rank0.json", trace(0, 2)), ("b_rank0.json", trace(0, 2))], None).unwrap_err();
    assert!(error.what.starts_with("two files belong to rank 0"), "{error}");
    let log = r#"{"header":{"id":"0xab","rank":0,"n_ranks":2},"metadata":{"inspector_output_format_version":"v4.0"},"coll_perf":{"coll":"AllReduce","coll_sn":0,"coll_msg_size_bytes":32,"coll_exec_time_us":5}}"#;
    let error = made(&[("rank0.json", trace(0, 2)), ("h-pid5.log", log.to_owned())], None).unwrap_err();
    assert_eq!(error.what, "two tools recorded the calls", "{error}");
}

#[test]
fn a_gathered_size_of_gloo_is_that_of_all_ranks() {
    let args = r#""Input Dims": [[100]], "Input type": ["float"]"#;
    let events = [step(1, 0.0), event("user_annotation", "gloo:all_gather", 9, [10.0, 5.0], args)];
    let only = r#"{"pg_name":"0","pg_desc":"d","pg_size":3}"#;
    let found = cases(&made(&[("rank0.json", kineto(0, 3, only, &events))], None).unwrap());
    assert!(found[0].starts_with("op: all_gather, bytes: 1200, dtype: f32, ranks: 3"), "{found:?}");
}

#[test]
fn nccl_inspector_counts_blocks_where_s_counts_all_ranks() {
    let line = |coll: &str, number: u32| {
        format!(
            r#"{{"header":{{"id":"0xab","rank":0,"n_ranks":8,"nnodes":1}},"metadata":{{"inspector_output_format_version":"v4.0","hostname":"h","pid":5}},"coll_perf":{{"coll":"{coll}","coll_sn":{number},"coll_msg_size_bytes":4096,"coll_exec_time_us":41.5,"coll_timing_source":"kernel_gpu"}}}}"#
        )
    };
    for (coll, wanted) in [
        ("AllReduce", "op: all_reduce, bytes: 4096, dtype: f32"),
        ("AllGather", "op: all_gather, bytes: 32768, dtype: u8"),
        ("ReduceScatter", "op: reduce_scatter, bytes: 32768, dtype: f32"),
        ("Broadcast", "op: broadcast, bytes: 4096, dtype: u8"),
        ("Reduce", "op: reduce, bytes: 4096, dtype: f32"),
    ] {
        let text = format!("{}\n{}\n", line(coll, 0), line(coll, 1));
        let plan = made(&[("h-pid5.log", text)], None).unwrap();
        assert_eq!(cases(&plan), [format!("{wanted}, ranks: 8, trace_calls: 2, trace_waiting_s: 41.500us")]);
        assert!(plan.plan.read_as[0].contains("the trace marks no steps"), "{:?}", plan.plan.read_as);
    }
}

#[test]
fn a_flight_recorder_gives_sizes_and_no_times() {
    let entry = |number: u32, word: &str, sizes: [&str; 2], p2p: bool| {
        format!(
            r#"{{"record_id":{number},"pg_id":0,"process_group":["0","default_pg"],"collective_seq_id":{number},"p2p_seq_id":0,"op_id":1,"profiling_name":"nccl:{word}","time_created_ns":17000000{number},"input_sizes":{},"input_dtypes":["Half"],"output_sizes":{},"output_dtypes":["Half"],"state":"completed","retired":true,"is_p2p":{p2p}}}"#,
            sizes[0], sizes[1]
        )
    };
    let entries = [
        entry(1, "_all_gather_base", ["[[10]]", "[[40]]"], false),
        entry(2, "_reduce_scatter_base", ["[[40]]", "[[10]]"], false),
        entry(3, "all_reduce", ["[[2, 5]]", "[[2, 5]]"], false),
        entry(4, "recv 1<-0", ["[[10]]", "[[10]]"], true),
    ];
    let dump = format!(
        r#"{{"version":"2.5","pg_config":{{"0":{{"name":"0","desc":"default_pg","ranks":"[0, 1, 2, 3]"}}}},"pg_status":{{}},"entries":[{}]}}"#,
        entries.join(",")
    );
    let plan = made(&[("fr_rank_1.json", dump)], None).unwrap();
    let wanted = ["op: all_gather, bytes: 80", "op: reduce_scatter, bytes: 80", "op: all_reduce, bytes: 20"];
    assert_eq!(cases(&plan), wanted.map(|one| format!("{one}, dtype: f16, ranks: 4, trace_calls: 1")));
    let warnings = plan.plan.warnings.join("\n");
    assert!(warnings.contains("1 call is left out: transfers"), "{warnings}");
    assert!(warnings.contains("the trace has no times of calls"), "{warnings}");
}

#[test]
fn names_of_a_hostile_trace_stay_in_their_comment() {
    let evil = r"x\n  - {benchmark: memory}\u202e#";
    let events = [step(1, 0.0), kernel(10.0, 5.0, ("allreduce", "Float"), [8, 8], (evil, 2))];
    let plan = made(&[("rank0.json", kineto(0, 2, "", &events))], None).unwrap();
    assert_eq!(plan.plan.text.lines().filter(|line| !line.trim().starts_with('#')).count(), 3, "{}", plan.plan.text);
    assert!(!plan.plan.text.contains('\u{202e}'));
}

#[test]
fn more_sizes_than_a_plan_holds_are_left_out() {
    let mut events = vec![step(1, 0.0)];
    events.extend((0..250_u32).map(|at| {
        let elements = u64::from(at + 1);
        kernel(f64::from(at) * 0.3, 0.1 + f64::from(at) * 0.0005, ("allreduce", "Float"), [elements; 2], FOUR)
    }));
    let plan = made(&[("rank0.json", kineto(0, 4, "", &events))], None).unwrap();
    assert_eq!(cases(&plan).len(), 200);
    assert!(
        plan.plan.warnings[0].starts_with("50 calls are left out: the job has more than 200"),
        "{:?}",
        plan.plan.warnings
    );
}
