//! Small traces by hand: phases, waits, collectives, and every kind of damage.

use std::io::Write;

use trace::timeline::{Kind, NO_CALL, ONE_OF_SEVERAL, RankTimeline, Timeline};

use crate::traces::{Traces, UNKNOWN_GROUP, read_timeline};

const BASE: i64 = 1_700_000_000_000_000_000;

fn event(category: &str, name: &str, thread: u32, ts: f64, dur: f64, args: &str) -> String {
    format!(
        r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":10,"tid":{thread},"ts":{ts},"dur":{dur},"args":{{{args}}}}}"#
    )
}

/// One step of a job with DDP over gloo, from `at`.
fn step(number: u32, at: f64) -> Vec<String> {
    let main = |category, name, from: f64, dur| event(category, name, 10, at + from, dur, "");
    vec![
        main("user_annotation", &format!("ProfilerStep#{number}"), 0.0, 1000.0),
        main("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 10.0, 20.0),
        main("user_annotation", "my own range", 90.0, 800.0),
        main("cpu_op", "DistributedDataParallel.forward", 100.0, 100.0),
        main("cpu_op", "aten::linear", 110.0, 10.0),
        main("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", 300.0, 50.0),
        main("cpu_op", "aten::mm", 310.0, 10.0),
        main("cpu_op", "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 360.0, 40.0),
        main("cpu_op", "c10d::allreduce_", 390.0, 5.0),
        event(
            "user_annotation",
            "gloo:all_reduce",
            11,
            at + 395.0,
            105.0,
            r#""Input Dims": [[1000], [24]], "Input type": ["float", "float"]"#,
        ),
        main("cpu_op", "aten::as_strided", 401.0, 1.0),
        main("cpu_op", "torch.distributed.ddp.reducer::copy_bucket_to_grad", 502.0, 3.0),
        main("user_annotation", "Optimizer.step#SGD.step", 600.0, 50.0),
        main("python_function", "main.py(1): main", 0.0, 5000.0),
    ]
}

fn file(header: &str, events: &[String], tail: &str) -> String {
    format!(r#"{{"schemaVersion":1,{header}"traceEvents":[{}]{tail}}}"#, events.join(","))
}

fn base() -> String {
    format!(r#""baseTimeNanoseconds":{BASE},"#)
}

fn read(files: &[(&str, Vec<u8>)]) -> Result<Traces, terms::Error> {
    let folder = tempfile::tempdir().unwrap();
    let write = |(name, bytes): &(&str, Vec<u8>)| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let paths: Vec<_> = files.iter().map(write).collect();
    read_timeline(&paths)
}

fn one(text: &str) -> Timeline {
    read(&[("rank0.json", text.as_bytes().to_vec())]).unwrap().timeline.unwrap()
}

/// Spans of a kind in microseconds from the base.
fn spans_of(rank: &RankTimeline, kind: Kind) -> Vec<(f64, f64)> {
    let us = |ns: i64| (ns - BASE) as f64 / 1e3;
    let spans = rank.spans.iter().filter(|span| span.kind == kind);
    spans.map(|span| (us(span.begin_ns), us(span.end_ns))).collect()
}

#[test]
fn a_step_of_ddp_has_its_phases_and_its_wait() {
    let events = [step(2, 1000.0), step(3, 2000.0)].concat();
    let info = r#","distributedInfo":{"backend":"gloo","rank":"1","world_size":8,"pg_config":[{"pg_name":"0","pg_desc":"default_pg","pg_size":8}]}"#;
    let timeline = one(&file(&base(), &events, info));
    assert_eq!((timeline.world, timeline.ranks.len(), timeline.clock_error_ns), (Some(8), 1, None));
    let rank = &timeline.ranks[0];
    assert_eq!(rank.rank, 1);
    assert_eq!(spans_of(rank, Kind::Step), [(1000.0, 2000.0), (2000.0, 3000.0)]);
    assert_eq!(spans_of(rank, Kind::Input)[0], (1010.0, 1030.0));
    assert_eq!(spans_of(rank, Kind::Forward)[0], (1100.0, 1200.0));
    assert_eq!(spans_of(rank, Kind::Backward), [(1300.0, 1400.0), (2300.0, 2400.0)]);
    assert_eq!(spans_of(rank, Kind::Optimizer)[1], (2600.0, 2650.0));
    assert_eq!(spans_of(rank, Kind::Collective), [(1395.0, 1500.0), (2395.0, 2500.0)]);
    assert_eq!(spans_of(rank, Kind::Wait), [(1402.0, 1500.0), (2402.0, 2500.0)]);
    let call = rank.spans.iter().find(|span| span.kind == Kind::Collective).unwrap();
    let known = rank.call(call).unwrap();
    assert_eq!((timeline.names.get(known.operation), known.bytes), ("all_reduce", Some(4096)));
    assert_eq!((timeline.names.get(known.group), known.ranks), ("0 (default_pg)", Some(8)));
    assert_ne!(call.queue, 0);
    let steps: Vec<u32> = rank.spans.iter().filter(|span| span.kind == Kind::Step).map(|span| span.number).collect();
    assert_eq!(steps, [2, 3]);
    let waits: Vec<u32> =
        rank.spans.iter().filter(|span| span.kind == Kind::Wait).map(|span| span.collective).collect();
    assert_eq!(waits, [0, 1]);
    assert_eq!(timeline.notes, Vec::<String>::new());
}

#[test]
fn a_mark_around_the_whole_job_is_no_step() {
    // A profiler with a schedule opens its first step at once, and nobody ends it.
    let optimizer = |at: u32| event("user_annotation", "Optimizer.step#SGD.step", 10, f64::from(at) * 100.0, 50.0, "");
    let events = |steps: u32| -> Vec<String> {
        let whole = event("user_annotation", "ProfilerStep#0", 10, 0.0, 9000.0, "");
        std::iter::once(whole).chain((1..=steps).map(optimizer)).collect()
    };
    let timeline = one(&file(&base(), &events(6), ""));
    assert_eq!(spans_of(&timeline.ranks[0], Kind::Step).len(), 6);
    assert!(timeline.notes[0].contains("does not call `profiler.step()`"), "{:?}", timeline.notes);
    // A step may run its optimizer several times.
    assert_eq!(spans_of(&one(&file(&base(), &events(3), "")).ranks[0], Kind::Step), [(0.0, 9000.0)]);
}

#[test]
fn a_hole_without_a_transfer_is_no_wait() {
    let events: Vec<String> = step(0, 0.0).into_iter().filter(|event| !event.contains("gloo:")).collect();
    let timeline = one(&file(&base(), &events, ""));
    assert_eq!(spans_of(&timeline.ranks[0], Kind::Wait), []);
    assert!(timeline.ranks[0].collectives.is_empty());
}

/// A step with an exchange from `from` to `until`. Its thread goes on a little later.
fn exchange(operation: &str, from: f64, until: f64) -> Vec<String> {
    vec![
        event("user_annotation", "ProfilerStep#0", 10, 0.0, 9000.0, ""),
        event("cpu_op", "aten::randn", 10, 10.0, 20.0, ""),
        event("cpu_op", "c10d::call_", 10, from - 20.0, 20.0, ""),
        event("user_annotation", &format!("gloo:{operation}"), 11, from, until - from, ""),
        event("cpu_op", "aten::relu", 10, until + 15.0, 100.0, ""),
        event("user_annotation", "Optimizer.step#SGD.step", 10, 8500.0, 50.0, ""),
    ]
}

#[test]
fn a_step_waits_in_any_exchange() {
    for operation in ["all_gather", "all_reduce", "barrier", "broadcast"] {
        // Before the forward pass.
        let timeline = one(&file(&base(), &exchange(operation, 100.0, 4000.0), ""));
        assert_eq!(spans_of(&timeline.ranks[0], Kind::Wait), [(100.0, 4000.0)], "{operation}");
        // In the forward pass: DDP sends its buffers.
        let forward = event("user_annotation", "DistributedDataParallel.forward", 10, 50.0, 6000.0, "");
        let events = [exchange(operation, 100.0, 4000.0), vec![forward]].concat();
        let timeline = one(&file(&base(), &events, ""));
        assert_eq!(spans_of(&timeline.ranks[0], Kind::Wait), [(100.0, 4000.0)], "{operation}");
        // A sleep behind the exchange is not a wait for it.
        let events: Vec<String> =
            exchange(operation, 100.0, 4000.0).into_iter().filter(|event| !event.contains("relu")).collect();
        let timeline = one(&file(&base(), &events, ""));
        assert_eq!(spans_of(&timeline.ranks[0], Kind::Wait), [(100.0, 4000.0)], "{operation}");
    }
}

#[test]
fn a_wait_is_cut_where_a_step_ends() {
    let events = vec![
        event("user_annotation", "ProfilerStep#0", 10, 0.0, 1000.0, ""),
        event("cpu_op", "c10d::barrier", 10, 500.0, 20.0, ""),
        event("user_annotation", "gloo:barrier", 11, 515.0, 985.0, ""),
        event("user_annotation", "ProfilerStep#1", 10, 1010.0, 1000.0, ""),
        event("cpu_op", "aten::randn", 10, 1510.0, 20.0, ""),
    ];
    let timeline = one(&file(&base(), &events, ""));
    assert_eq!(spans_of(&timeline.ranks[0], Kind::Wait), [(520.0, 1000.0), (1010.0, 1500.0)]);
}

#[test]
fn a_thread_works_while_it_has_an_exchange_under_way() {
    // `gloo:recv` is on the thread that called it, from the call to the end of the wait for it.
    let events = vec![
        event("user_annotation", "ProfilerStep#0", 10, 0.0, 5000.0, ""),
        event("cpu_op", "c10d::recv_", 10, 100.0, 20.0, ""),
        event("user_annotation", "gloo:recv", 10, 110.0, 2890.0, ""),
        event("cpu_op", "aten::mm", 10, 120.0, 1880.0, ""),
        event("cpu_op", "aten::relu", 10, 3010.0, 100.0, ""),
    ];
    let timeline = one(&file(&base(), &events, ""));
    let rank = &timeline.ranks[0];
    assert_eq!(spans_of(rank, Kind::Wait), [(2000.0, 3000.0)]);
    let recv = rank.spans.iter().find(|span| span.kind == Kind::Collective).unwrap();
    assert!(recv.queue != 0, "what is on the step's own queue is a wait in whole");
}

#[test]
fn exchanges_without_an_end_are_counted() {
    let calls = |events: Vec<String>| one(&file(&base(), &events, "")).ranks[0].endless;
    assert_eq!(calls(step(0, 0.0)), 0);
    let of_mpi: Vec<String> = (0..8).flat_map(|number| step(number, 1000.0 * f64::from(number))).collect();
    assert_eq!(calls(of_mpi.into_iter().filter(|event| !event.contains("gloo:")).collect()), 8);
}

/// A kernel that sends and receives, and its launch within a call of the host.
fn send_recv(call: &str, at: f64, correlation: u32) -> Vec<String> {
    let args = format!(r#""correlation":{correlation}"#);
    let sizes = r#""Input Dims": [[1000]], "Input type": ["float"]"#;
    vec![
        event("user_annotation", &format!("nccl:{call}"), 10, at, 20.0, sizes),
        event("cuda_runtime", "cudaLaunchKernel", 10, at + 5.0, 5.0, &args),
        event("kernel", "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", 20, at + 50.0, 30.0, &args),
    ]
}

#[test]
fn kernels_that_send_and_receive_are_what_launched_them() {
    let collectives = |events: Vec<String>| -> Vec<(String, Option<u64>, bool)> {
        let timeline = one(&file(&base(), &events, ""));
        let rank = &timeline.ranks[0];
        let spans = rank.spans.iter().filter(|span| span.kind == Kind::Collective);
        let described = |span| {
            let call = rank.call(span).unwrap();
            assert_eq!(span.name, call.operation);
            (timeline.names.get(call.operation).to_owned(), call.bytes, call.synchronises)
        };
        spans.map(described).collect()
    };
    let events = [send_recv("all_to_all", 0.0, 1), send_recv("_reduce_scatter_base", 200.0, 2)].concat();
    let named = |word: &str| (word.to_owned(), Some(4000), true);
    assert_eq!(collectives(events), [named("all_to_all"), named("reduce_scatter")]);
    let without_launch = |call: &str| -> Vec<String> {
        send_recv(call, 0.0, 1).into_iter().filter(|event| !event.contains("cudaLaunchKernel")).collect()
    };
    assert_eq!(collectives(without_launch("all_to_all")), [("SendRecv".to_owned(), None, false)]);
    assert_eq!(collectives(without_launch("send 0->1")), [("send_recv".to_owned(), None, false)]);
}

/// Asynchronous tensor parallelism: PyTorch splits a product of matrices and exchanges its parts meanwhile, in one operation.
#[test]
fn kernels_of_an_operation_that_also_multiplies_stay_kernels() {
    let kinds = |operation: &str| {
        let sizes = r#""Input Dims": [[1000]], "Input type": ["float"]"#;
        let events = [
            event("cpu_op", &format!("symm_mem::{operation}"), 10, 0.0, 50.0, sizes),
            event("cuda_runtime", "cudaLaunchKernel", 10, 5.0, 5.0, r#""correlation":1"#),
            event("kernel", "gemm<float>", 20, 60.0, 30.0, r#""correlation":1"#),
        ];
        let timeline = one(&file(&base(), &events, ""));
        let rank = &timeline.ranks[0];
        let calls = rank.collectives.iter().map(|call| timeline.names.get(call.operation).to_owned());
        (calls.collect::<Vec<String>>(), spans_of(rank, Kind::Kernel).len())
    };
    for operation in ["fused_all_gather_matmul", "fused_matmul_reduce_scatter", "fused_all_gather_scaled_matmul"] {
        assert_eq!(kinds(operation), (Vec::new(), 1), "{operation}");
    }
    assert_eq!(kinds("one_shot_all_reduce"), (vec!["all_reduce".to_owned()], 0));
}

#[test]
fn a_call_that_names_no_communicator_may_be_of_any_of_several() {
    let group = |[first, second]: [u32; 2]| {
        let groups = format!(r#"{{"pg_name":"0","pg_size":{first}}},{{"pg_name":"1","pg_size":{second}}}"#);
        let info = format!(r#","distributedInfo":{{"rank":0,"world_size":4,"pg_config":[{groups}]}}"#);
        let timeline = one(&file(&base(), &step(0, 0.0), &info));
        timeline.names.get(timeline.ranks[0].collectives[0].group).to_owned()
    };
    assert_eq!(group([4, 2]), ONE_OF_SEVERAL);
    // Each of them has all ranks.
    assert_eq!(group([4, 4]), UNKNOWN_GROUP);
}

/// Two by two ranks: a split made two communicators, which have one name.
#[test]
fn communicators_of_one_name_are_told_apart_by_their_ranks() {
    let group = |ranks: [&str; 2]| -> Vec<String> {
        let text = |rank: u32| {
            let of = ranks[rank as usize / 2];
            let args = format!(
                r#""Collective name":"_allgather_base","Group size":2,"Process Group Name":"3","Process Group Ranks":"{of}","Seq":17"#
            );
            let kernel = event("kernel", "ncclDevKernel_AllGather_RING_LL(x)", 20, 5.0, 7.5, &args);
            let info = format!(r#","distributedInfo":{{"rank":{rank},"world_size":4}}"#);
            file(&base(), &[kernel], &info).into_bytes()
        };
        let files = [("a.json", text(0)), ("b.json", text(1)), ("c.json", text(2)), ("d.json", text(3))];
        let timeline = read(&files).unwrap().timeline.unwrap();
        timeline.ranks.iter().map(|rank| timeline.names.get(rank.collectives[0].group).to_owned()).collect()
    };
    assert_eq!(group(["[0, 1]", "[2, 3]"]), ["3 [0, 1]", "3 [0, 1]", "3 [2, 3]", "3 [2, 3]"]);
    // A list with a hole in it says nothing.
    assert_eq!(group(["[0, 1]", "[2, ..., 3]"]), ["3"; 4]);
}

#[test]
fn without_marks_steps_end_with_the_optimizer() {
    let events: Vec<String> = [step(0, 0.0), step(0, 1000.0)].concat();
    let events: Vec<String> = events.into_iter().filter(|event| !event.contains("ProfilerStep")).collect();
    let timeline = one(&file(&base(), &events, ""));
    assert_eq!(spans_of(&timeline.ranks[0], Kind::Step), [(10.0, 650.0), (650.0, 1650.0)]);
    assert!(timeline.notes[0].starts_with("steps are counted from 0"), "{:?}", timeline.notes);
    let events: Vec<String> = events.into_iter().filter(|event| !event.contains("Optimizer")).collect();
    let timeline = one(&file(&base(), &events, ""));
    assert!(timeline.notes[0].starts_with("no step is marked"), "{:?}", timeline.notes);
}

#[test]
fn micro_batches_are_phases_with_numbers() {
    let run = |from: f64| {
        [
            event("cpu_op", "DistributedDataParallel.forward", 10, from, 10.0, ""),
            event("cpu_op", "autograd::engine::evaluate_function: A", 20, from + 20.0, 10.0, ""),
            event("cpu_op", "autograd::engine::evaluate_function: B", 20, from + 40.0, 10.0, ""),
        ]
    };
    let events =
        [&[event("user_annotation", "ProfilerStep#5", 10, 0.0, 300.0, "")][..], &run(10.0), &run(110.0)].concat();
    let timeline = one(&file(&base(), &events, ""));
    let rank = &timeline.ranks[0];
    assert_eq!(spans_of(rank, Kind::Backward), [(30.0, 60.0), (130.0, 160.0)]);
    let numbers: Vec<(Kind, u32, u32)> = rank.spans.iter().map(|span| (span.kind, span.number, span.queue)).collect();
    assert_eq!(
        numbers,
        [
            (Kind::Step, 5, 0),
            (Kind::Forward, 0, 0),
            (Kind::Backward, 0, 0),
            (Kind::Forward, 1, 0),
            (Kind::Backward, 1, 0)
        ]
    );
}

#[test]
fn fsdp_runs_from_its_first_mark_to_its_last() {
    let names =
        ["FSDP::root_pre_forward (0)", "FSDP::pre_forward (0)", "FSDP::all_gather (0)", "FSDP::post_forward (0)"];
    let mut events: Vec<String> =
        (0..).zip(names).map(|(at, name)| event("cpu_op", name, 10, 10.0 * f64::from(at), 5.0, "")).collect();
    events.push(event("cpu_op", "autograd::engine::evaluate_function: A", 20, 100.0, 50.0, ""));
    // Backward runs a forward pass again: activation checkpointing.
    events.push(event("cpu_op", "FSDP::pre_forward (0)", 20, 110.0, 5.0, ""));
    let timeline = one(&file(&base(), &events, ""));
    assert_eq!(spans_of(&timeline.ranks[0], Kind::Forward), [(0.0, 35.0)]);
    assert_eq!(spans_of(&timeline.ranks[0], Kind::Backward), [(100.0, 150.0)]);
}

#[test]
fn kernels_of_nccl_are_collectives_with_what_they_say() {
    let args = r#""stream":20,"Collective name":"_allgather_base","In msg nelems":1024,"Out msg nelems":2048,"Group size":2,"dtype":"BFloat16","Process Group Name":"1","Process Group Description":"tp","Process Group Ranks":"[0, 1]","Seq":17"#;
    let events = [
        event("kernel", "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 20, 5.0, 7.5, args),
        event("Kernel", "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", 20, 15.0, 1.0, ""),
        event("kernel", "gemm<float>", 7, 5.0, 7.0, ""),
        event("gpu_memcpy", "Memcpy HtoD", 7, 1.0, 0.0, ""),
        event("gpu_user_annotation", "nccl:all_gather", 20, 5.0, 7.5, ""),
        event("user_annotation", "nccl:all_gather", 10, 1.0, 0.5, ""),
        event("cpu_op", "aten::mm", 10, 0.0, 1.0, ""),
        // A hole on the host while NCCL runs is not a wait for it.
        event("cpu_op", "autograd::engine::evaluate_function: A", 10, 2.0, 4.0, ""),
        event("cpu_op", "aten::mm", 10, 30.0, 1.0, ""),
    ];
    let timeline = one(&file(&base(), &events, ""));
    let rank = &timeline.ranks[0];
    assert_eq!(spans_of(rank, Kind::Collective), [(5.0, 12.5), (15.0, 16.0)]);
    let call = rank.collectives[0];
    assert_eq!((call.sequence, call.ranks, call.bytes, call.synchronises), (Some(17), Some(2), Some(4096), true));
    assert_eq!((timeline.names.get(call.operation), timeline.names.get(call.group)), ("all_gather", "1 (tp)"));
    let old = rank.collectives[1];
    assert_eq!((timeline.names.get(old.operation), timeline.names.get(old.group)), ("all_reduce", UNKNOWN_GROUP));
    assert_eq!((old.sequence, old.bytes), (None, None));
    assert_eq!((spans_of(rank, Kind::Copy), spans_of(rank, Kind::Wait)), (vec![(1.0, 1.0)], vec![]));
    let kernel = rank.spans.iter().find(|span| span.kind == Kind::Kernel).unwrap();
    assert_eq!((timeline.names.get(kernel.name), kernel.collective), ("gemm<float>", NO_CALL));
    assert!(kernel.queue != 0 && rank.spans.iter().any(|span| span.queue != 0 && span.queue != kernel.queue));
}

#[test]
fn calls_that_are_only_enqueued_are_told() {
    let events = [event("user_annotation", "nccl:all_reduce", 10, 1.0, 0.5, "")];
    let notes = one(&file(&base(), &events, "")).notes;
    assert!(notes[0].starts_with("1 call of NCCL is left out"), "{notes:?}");
}

#[test]
fn a_trace_of_2022_has_absolute_times() {
    let events = [event("cpu_op", "aten::mm", 10, 1.0, 1.0, ""), event("Kernel", "k", 7, 0.0, 1.0, "")];
    let text = file("", &events, "").replace(r#""ts":0"#, r#""ts":1640311492912345.678"#);
    let timeline = one(&text);
    assert_eq!(timeline.ranks[0].spans[0].begin_ns, 1_640_311_492_912_345_678);
}

#[test]
fn odd_events_are_counted() {
    let mut events = step(0, 0.0);
    events.push(event("kernel", "k", 7, 10.0, -3.0, ""));
    events.push(r#"{"ph":"X","cat":"kernel","name":"k","pid":1,"tid":1,"ts":"NaN"}"#.to_owned());
    events.push(event("user_annotation", "ProfilerStep#0", 10, 2000.0, 10.0, ""));
    let notes = one(&file(&base(), &events, r#","ERROR":"out of memory""#)).notes;
    for wanted in [
        "1 event is left out: an end before",
        "1 event is left out: no time",
        "1 mark of a step is left out",
        "the profiler says: out of",
    ] {
        assert!(notes.iter().any(|note| note.starts_with(wanted)), "{wanted}: {notes:?}");
    }
}

#[test]
fn steps_that_overlap_are_counted() {
    let mark = |number: u32, from: f64| event("user_annotation", &format!("ProfilerStep#{number}"), 10, from, 10.0, "");
    let notes = |from: f64| one(&file(&base(), &[mark(0, 0.0), mark(1, from)], "")).notes;
    assert_eq!(notes(9.0), ["1 step begins before the end of the step before"]);
    assert_eq!(notes(10.0), Vec::<String>::new());
}

#[test]
fn a_clock_that_jumps_is_told() {
    let events = [step(0, 5000.0), step(1, 1000.0)].concat();
    let notes = one(&file(&base(), &events, "")).notes;
    assert!(notes[0].starts_with("the clock jumped"), "{notes:?}");
}

#[test]
fn a_cut_file_gives_what_it_has() {
    let text = file(&base(), &[step(0, 0.0), step(1, 1000.0)].concat(), "");
    let cut = &text.as_bytes()[..text.len() - 300];
    let timeline = read(&[("rank0.json", cut.to_vec())]).unwrap().timeline.unwrap();
    assert_eq!(spans_of(&timeline.ranks[0], Kind::Step).len(), 2);
    assert!(timeline.notes[0].starts_with("the file ends too early"), "{:?}", timeline.notes);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(text.as_bytes()).unwrap();
    let whole = gzip.finish().unwrap();
    let timeline = read(&[("rank0.json", whole.clone())]).unwrap().timeline.unwrap();
    assert_eq!((spans_of(&timeline.ranks[0], Kind::Step).len(), timeline.notes.len()), (2, 0));
    let cut = whole[..whole.len() - 40].to_vec();
    let timeline = read(&[("rank0.json", cut)]).unwrap().timeline.unwrap();
    assert!(timeline.notes[0].contains("what stands before is used"), "{:?}", timeline.notes);
    let none = read(&[("rank0.json", br#"{"schemaVersion": 1, "traceEvents": ["#.to_vec())]).unwrap_err().to_string();
    assert!(none.contains("holds no event that is whole"), "{none}");
}

#[test]
fn ranks_are_joined_by_header_name_and_order() {
    let text = |header: &str, steps: &[u32]| {
        let events: Vec<String> = steps.iter().flat_map(|number| step(*number, 1000.0 * f64::from(*number))).collect();
        file(&(base() + header), &events, "").into_bytes()
    };
    let two = r#""distributedInfo":{"rank":2,"world_size":4},"#;
    let files = [("a.json", text(two, &[1, 2])), ("x_0.json", text("", &[1, 2])), ("b.json", text("", &[1, 2, 3]))];
    let timeline = read(&files).unwrap().timeline.unwrap();
    let ranks: Vec<u32> = timeline.ranks.iter().map(|rank| rank.rank).collect();
    assert_eq!((ranks, timeline.world, timeline.clock_error_ns), (vec![0, 1, 2], Some(4), None));
    assert!(timeline.notes.iter().any(|note| note.contains("b.json names no rank: it is read as rank 1")));
    let steps = timeline.notes.iter().find(|note| note.starts_with("ranks have different steps")).unwrap();
    assert!(steps.ends_with("rank 0 has 2 steps from 1 to 2, rank 1 has 3 steps from 1 to 3"), "{steps}");
    for rank in &timeline.ranks {
        let names: Vec<&str> = rank.spans.iter().map(|span| timeline.names.get(span.name)).collect();
        assert!(names.contains(&"Optimizer.step#SGD.step") && names.contains(&"all_reduce"), "{names:?}");
    }
    let twice = read(&[("a.json", text(two, &[1])), ("rank2.json", text("", &[1]))]).unwrap_err().to_string();
    assert!(twice.starts_with("two files belong to rank 2"), "{twice}");
}

#[test]
fn files_without_a_rank_are_numbered_as_people_count() {
    let text = |at: f64| file(&base(), &step(1, at), "").into_bytes();
    // As a shell orders them.
    let files = [("job-1.json", text(1.0)), ("job-10.json", text(10.0)), ("job-2.json", text(2.0))];
    let timeline = read(&files).unwrap().timeline.unwrap();
    let begins: Vec<(u32, f64)> =
        timeline.ranks.iter().map(|rank| (rank.rank, spans_of(rank, Kind::Step)[0].0)).collect();
    assert_eq!(begins, [(0, 1.0), (1, 2.0), (2, 10.0)]);
    assert_eq!(timeline.notes.iter().filter(|note| note.contains("names no rank")).count(), 3);
    // The user names the worker, and the number of a model is not a rank.
    let files = [("worker3.pt.trace.json", text(3.0)), ("resnet-50.json", text(0.0))];
    let timeline = read(&files).unwrap().timeline.unwrap();
    assert_eq!(timeline.ranks.iter().map(|rank| rank.rank).collect::<Vec<_>>(), [0, 3]);
    // Cycles of one process without a rank are one rank.
    let cycle = |number, at| file(&base(), &step(number, at), "").into_bytes();
    let files = [
        ("n1_12.1700000000000000000.pt.trace.json", cycle(1, 1000.0)),
        ("n1_13.1700000000000000000.pt.trace.json", cycle(1, 1000.0)),
        ("n1_12.1700000001000000000.pt.trace.json", cycle(9, 9000.0)),
        ("n1_13.1700000001000000000.pt.trace.json", cycle(9, 9000.0)),
    ];
    let timeline = read(&files).unwrap().timeline.unwrap();
    let steps: Vec<(u32, usize)> =
        timeline.ranks.iter().map(|rank| (rank.rank, spans_of(rank, Kind::Step).len())).collect();
    assert_eq!(steps, [(0, 2), (1, 2)]);
}

#[test]
fn base_times_of_ranks_may_differ() {
    let quarter = 7_889_238_000_000_000_i64;
    let events = step(1, 1000.0);
    let later = step(1, 1000.0 - quarter as f64 / 1e3);
    let other = format!(r#""baseTimeNanoseconds":{},"#, BASE + quarter);
    let files = [
        ("rank0.json", file(&base(), &events, "").into_bytes()),
        ("rank1.json", file(&other, &later, "").into_bytes()),
    ];
    let timeline = read(&files).unwrap().timeline.unwrap();
    assert_eq!(spans_of(&timeline.ranks[0], Kind::Step), spans_of(&timeline.ranks[1], Kind::Step));
    let files = [
        ("rank0.json", file(&base(), &events, "").into_bytes()),
        ("rank1.json", file(&other, &events, "").into_bytes()),
    ];
    let notes = read(&files).unwrap().timeline.unwrap().notes;
    assert!(notes[0].starts_with("ranks 0 and 1 have no time in common"), "{notes:?}");
}

#[test]
fn clocks_of_one_host_can_be_compared() {
    let text = |rank: u32| {
        file(&(base() + &format!(r#""distributedInfo":{{"rank":{rank}}},"#)), &step(1, 1000.0), "").into_bytes()
    };
    let read_hosts = |first: &str, second: &str| {
        read(&[(first, text(0)), (second, text(1))]).unwrap().timeline.unwrap().clock_error_ns
    };
    assert_eq!(read_hosts("n1_12.1700000000000000000.pt.trace.json", "n1_13.1700000000123.pt.trace.json"), Some(0));
    assert_eq!(read_hosts("n1_12.1700000000000000000.pt.trace.json", "n2_13.1700000000123.pt.trace.json"), None);
    assert_eq!(read_hosts("a.json", "b.json"), None);
    assert_eq!(read_hosts("rank-0.Jul_15_10.1074.pt.trace.json", "rank-1.Jul_15_10.1074.pt.trace.json"), None);
    let header = |rank: u32| {
        file(&(base() + r#""host_name":"n1","#), &step(1, 1000.0), &format!(r#","distributedInfo":{{"rank":{rank}}}"#))
    };
    let read = read(&[("a.json", header(0).into_bytes()), ("b.json", header(1).into_bytes())]).unwrap();
    assert_eq!(read.timeline.unwrap().clock_error_ns, Some(0));
}

#[test]
fn what_is_no_trace_is_refused() {
    let chrome = br#"{"traceEvents": [{"ph": "X", "name": "a", "cat": "v8", "ts": 1, "dur": 2}]}"#.to_vec();
    let error = read(&[("a.json", chrome)]).unwrap_err().to_string();
    assert!(error.contains("holds no event of PyTorch's profiler"), "{error}");
    let error = read(&[("a.json", b"[1, 2]".to_vec())]).unwrap_err().to_string();
    assert!(error.contains("is not a trace that can be read"), "{error}");
    let bad = file(r#""baseTimeNanoseconds":"soon","#, &step(0, 0.0), "");
    let error = read(&[("a.json", bad.into_bytes())]).unwrap_err().to_string();
    assert!(error.contains("`baseTimeNanoseconds` is soon"), "{error}");
    let sqlite = read(&[("a.sqlite", b"SQLite format 3\0....".to_vec())]).unwrap_err().to_string();
    assert!(sqlite.contains("a.sqlite"), "{sqlite}");
}
