//! The call that a stack is in: functions of PyTorch, gloo, NCCL, MPI and CUDA that wait for other ranks, by their names.

use process::stack::{PythonFrame, Thread};

use super::{Call, CallKind};

/// Functions of `torch.distributed` that wait for others, by the part of their names that says what they do. A longer name
/// comes before one that it begins with.
const PYTHON: [(&str, &str, CallKind); 17] = [
    ("init_process_group", "init_process_group", CallKind::Collective),
    ("_store_based_barrier", "init_process_group", CallKind::Collective),
    ("new_group", "new_group", CallKind::Collective),
    ("all_reduce", "all_reduce", CallKind::Collective),
    ("all_gather", "all_gather", CallKind::Collective),
    ("_all_gather", "all_gather", CallKind::Collective),
    ("reduce_scatter", "reduce_scatter", CallKind::Collective),
    ("_reduce_scatter", "reduce_scatter", CallKind::Collective),
    ("all_to_all", "all_to_all", CallKind::Collective),
    ("broadcast", "broadcast", CallKind::Collective),
    ("monitored_barrier", "barrier", CallKind::Collective),
    ("barrier", "barrier", CallKind::Collective),
    ("gather", "gather", CallKind::Collective),
    ("scatter", "scatter", CallKind::Collective),
    ("reduce", "reduce", CallKind::Collective),
    ("recv", "recv", CallKind::Receive),
    ("send", "send", CallKind::Send),
];

/// The files that hold these functions.
const PYTHON_FILES: [&str; 3] =
    ["/distributed/distributed_c10d.py", "/distributed/_functional_collectives.py", "/distributed/rendezvous.py"];

/// Native functions that wait for others, by the begin of their names, without anonymous namespaces.
const NATIVE: [(&str, &str, CallKind); 39] = [
    ("gloo::allreduce", "all_reduce", CallKind::Collective),
    ("gloo::allgather", "all_gather", CallKind::Collective),
    ("gloo::alltoall", "all_to_all", CallKind::Collective),
    ("gloo::barrier", "barrier", CallKind::Collective),
    ("gloo::broadcast", "broadcast", CallKind::Collective),
    ("gloo::gather", "gather", CallKind::Collective),
    ("gloo::reduce", "reduce", CallKind::Collective),
    ("gloo::scatter", "scatter", CallKind::Collective),
    // What a worker of gloo runs, where the compiler put the functions above into it.
    ("c10d::AsyncAllreduce", "all_reduce", CallKind::Collective),
    ("c10d::AsyncAllgather", "all_gather", CallKind::Collective),
    ("c10d::AsyncAlltoall", "all_to_all", CallKind::Collective),
    ("c10d::AsyncBarrier", "barrier", CallKind::Collective),
    ("c10d::AsyncBroadcast", "broadcast", CallKind::Collective),
    ("c10d::AsyncGather", "gather", CallKind::Collective),
    ("c10d::AsyncReduce", "reduce", CallKind::Collective),
    ("c10d::AsyncScatter", "scatter", CallKind::Collective),
    ("c10d::ProcessGroupGloo::RecvWork::wait", "recv", CallKind::Receive),
    ("c10d::ProcessGroupGloo::SendWork::wait", "send", CallKind::Send),
    ("MPI_Allreduce", "all_reduce", CallKind::Collective),
    ("MPI_Allgather", "all_gather", CallKind::Collective),
    ("MPI_Alltoall", "all_to_all", CallKind::Collective),
    ("MPI_Reduce_scatter", "reduce_scatter", CallKind::Collective),
    ("MPI_Reduce", "reduce", CallKind::Collective),
    ("MPI_Barrier", "barrier", CallKind::Collective),
    ("MPI_Bcast", "broadcast", CallKind::Collective),
    ("MPI_Gather", "gather", CallKind::Collective),
    ("MPI_Scatter", "scatter", CallKind::Collective),
    ("MPI_Init", "MPI_Init", CallKind::Collective),
    ("MPI_Finalize", "MPI_Finalize", CallKind::Collective),
    ("MPI_Recv", "recv", CallKind::Receive),
    ("MPI_Send", "send", CallKind::Send),
    ("MPI_Wait", "MPI_Wait", CallKind::Collective),
    ("ncclCommInit", "ncclCommInit", CallKind::Collective),
    ("cudaDeviceSynchronize", "GPU", CallKind::Gpu),
    ("cudaStreamSynchronize", "GPU", CallKind::Gpu),
    ("cudaEventSynchronize", "GPU", CallKind::Gpu),
    ("cuStreamSynchronize", "GPU", CallKind::Gpu),
    ("cuEventSynchronize", "GPU", CallKind::Gpu),
    ("cuCtxSynchronize", "GPU", CallKind::Gpu),
];

/// The call of a Python stack, innermost first.
pub(super) fn of_python(frames: &[PythonFrame]) -> Option<Call> {
    let is_torch = |frame: &&PythonFrame| PYTHON_FILES.iter().any(|file| frame.file.ends_with(file));
    frames.iter().filter(is_torch).find_map(|frame| {
        let name = frame.function.rsplit('.').next().unwrap_or(&frame.function);
        let (_, operation, kind) = PYTHON.iter().find(|(known, ..)| is_form(name, known))?;
        let side = match kind {
            CallKind::Receive => "src",
            CallKind::Send => "dst",
            CallKind::Collective | CallKind::Gpu => "",
        };
        let peer = frame.numbers.iter().find(|(argument, _)| argument == side).map(|(_, number)| *number);
        let peer = peer.and_then(|number| number.try_into().ok());
        Some(Call { operation: (*operation).to_owned(), peer, kind: *kind })
    })
}

/// Whether a function is the known one or a form of it: `all_gather_into_tensor`, `broadcast_object_list`.
fn is_form(name: &str, known: &str) -> bool {
    name.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
}

/// The call that native threads are in: the main one first, then the workers of gloo.
pub(super) fn of_threads(threads: &[Thread]) -> Option<Call> {
    threads.iter().find_map(|thread| {
        let functions = thread.frames.iter().filter_map(|frame| frame.function.as_deref());
        functions.rev().find_map(of_function)
    })
}

/// How many frames lie outside of the call, and so stay the same while its inner ones poll.
pub(super) fn outside(thread: &Thread) -> usize {
    let is_call =
        |frame: &process::stack::Frame| frame.function.as_deref().is_some_and(|name| of_function(name).is_some());
    let at = thread.frames.iter().rposition(is_call);
    at.map_or(thread.frames.len(), |at| thread.frames.len() - at)
}

fn of_function(name: &str) -> Option<Call> {
    // MPI's functions have a second name for tools.
    let name = name.strip_prefix('P').filter(|rest| rest.starts_with("MPI_")).unwrap_or(name);
    let name = name.replace("(anonymous namespace)::", "");
    let (_, operation, kind) = NATIVE.iter().find(|(known, ..)| {
        // `MPI_Gatherv`, `MPI_Init_thread`, `gloo::allgatherv`, `c10d::AsyncAllreduceWork::run`.
        let is_end = |rest: &str| matches!(rest, "" | "v" | "w" | "all") || rest.starts_with(['_', '<', 'R', 'W', 'C']);
        name.strip_prefix(known).is_some_and(is_end)
    })?;
    Some(Call { operation: (*operation).to_owned(), peer: None, kind: *kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn python(function: &str, file: &str) -> PythonFrame {
        PythonFrame { function: function.to_owned(), file: file.to_owned(), line: 7, numbers: Vec::new() }
    }

    const C10D: &str = "/venv/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py";

    #[test]
    fn the_innermost_function_of_torch_is_the_call() {
        let wrapper = python("_exception_logger.<locals>.wrapper", "/x/torch/distributed/c10d_logger.py");
        let own = python("all_reduce", "/job/train.py");
        for (function, operation) in [
            ("all_reduce", "all_reduce"),
            ("all_gather_into_tensor", "all_gather"),
            ("reduce_scatter_tensor", "reduce_scatter"),
            ("broadcast_object_list", "broadcast"),
            ("monitored_barrier", "barrier"),
            ("reduce", "reduce"),
            ("init_process_group", "init_process_group"),
        ] {
            let call = of_python(&[python(function, C10D), wrapper.clone(), own.clone()]).unwrap();
            assert_eq!((call.operation.as_str(), call.kind), (operation, CallKind::Collective), "{function}");
        }
        let nested = [python("all_gather", C10D), wrapper.clone(), python("all_gather_object", C10D), own.clone()];
        assert_eq!(of_python(&nested).unwrap().operation, "all_gather");
        for other in [vec![own], vec![python("get_rank", C10D)], vec![wrapper], vec![python("reducer", C10D)]] {
            assert_eq!(of_python(&other), None, "{other:?}");
        }
    }

    #[test]
    fn a_transfer_names_its_other_side() {
        let mut frame = python("recv", C10D);
        frame.numbers = vec![("tag".to_owned(), 0), ("src".to_owned(), 3)];
        let call = of_python(std::slice::from_ref(&frame)).unwrap();
        assert_eq!((call.kind, call.peer), (CallKind::Receive, Some(3)));
        frame.function = "send".to_owned();
        assert_eq!(of_python(&[frame]).unwrap().peer, None, "a sender has no source");
    }

    #[test]
    fn native_functions_are_known_by_their_names() {
        let call = |name: &str| of_function(name).map(|call| call.operation);
        for (name, operation) in [
            ("gloo::allreduce", "all_reduce"),
            ("gloo::allgatherv", "all_gather"),
            ("gloo::(anonymous namespace)::allreduce", "all_reduce"),
            ("c10d::(anonymous namespace)::AsyncBarrierWork::run", "barrier"),
            ("c10d::AsyncReduceWork::run", "reduce"),
            ("c10d::AsyncAllreduceCoalescedWork::run", "all_reduce"),
            ("PMPI_Allreduce", "all_reduce"),
            ("MPI_Gatherv", "gather"),
            ("MPI_Reduce", "reduce"),
            ("MPI_Reduce_scatter_block", "reduce_scatter"),
            ("PMPI_Init_thread", "MPI_Init"),
            ("MPI_Waitall", "MPI_Wait"),
            ("ncclCommInitRank", "ncclCommInit"),
            ("cuStreamSynchronize_ptsz", "GPU"),
        ] {
            assert_eq!(call(name).as_deref(), Some(operation), "{name}");
        }
        for name in ["gloo::allreducer", "MPI_Comm_rank", "PMPI_Iallreduce", "main", "Ptr", "c10d::Work::wait", ""] {
            assert_eq!(call(name), None, "{name}");
        }
    }

    #[test]
    fn the_outermost_native_call_counts_and_frames_inside_of_it_do_not() {
        let frame = |name: &str| process::stack::Frame { address: 1, function: Some(name.to_owned()), module: None };
        let thread =
            |names: &[&str]| Thread { frames: names.iter().map(|name| frame(name)).collect(), ..Thread::default() };
        // An MPI library implements one call by others.
        let main = thread(&["poll", "MPI_Recv", "MPI_Allreduce", "solve", "main"]);
        assert_eq!(of_threads(std::slice::from_ref(&main)).unwrap().operation, "all_reduce");
        assert_eq!((outside(&main), outside(&thread(&["work", "main"]))), (3, 2));
        let threads = [thread(&["pthread_cond_wait", "main"]), thread(&["poll", "gloo::allreduce", "run"])];
        assert_eq!(of_threads(&threads).unwrap().operation, "all_reduce");
    }
}
