//! Words of PyTorch, NCCL and gloo for operations, element types and communicators, as ours.

use std::borrow::Cow;

use trace::timeline::{CollectiveCall, Names, synchronises};

/// The communicator of calls in a trace that does not name it.
pub const UNKNOWN_GROUP: &str = "unknown";

/// The operation that a tool's word names: `nccl:_all_gather_base`, `AllGather` and `allgather` are all `all_gather`. A word
/// that names none of ours stays as it is.
pub(super) fn operation(word: &str) -> Cow<'_, str> {
    let word = bare(word);
    Cow::Borrowed(ours(word).unwrap_or(word))
}

/// A word without the tool or library in front of it: `nccl:send`, `symm_mem::one_shot_all_reduce`.
fn bare(word: &str) -> &str {
    word.rsplit_once(':').map_or(word, |(_, word)| word)
}

/// The word of this program for an operation; None where it has none.
fn ours(word: &str) -> Option<&'static str> {
    // PyTorch writes the peers behind a transfer: `send 0->1`.
    let bare = word.split_whitespace().next().unwrap_or(word);
    let letters: String =
        bare.chars().filter(|letter| *letter != '_').map(|letter| letter.to_ascii_lowercase()).collect();
    let mut stem = letters.as_str();
    for suffix in ["coalesced", "sparse", "base", "intotensor", "tensor", "single"] {
        stem = stem.strip_suffix(suffix).unwrap_or(stem);
    }
    Some(match stem {
        "allreduce" => "all_reduce",
        "allgather" => "all_gather",
        "reducescatter" => "reduce_scatter",
        "broadcast" => "broadcast",
        "reduce" => "reduce",
        "alltoall" => "all_to_all",
        "alltoallv" => "all_to_allv",
        "gather" => "gather",
        "scatter" => "scatter",
        "sendrecv" => "send_recv",
        "send" => "send",
        "recv" | "recvanysource" => "recv",
        "barrier" => "barrier",
        _ => return of_symmetric_memory(stem),
    })
}

/// The operation of a word of PyTorch's symmetric memory, in small letters alone. Words that also multiply matrices, such as
/// `fused_all_gather_matmul`, name none.
fn of_symmetric_memory(letters: &str) -> Option<&'static str> {
    let letters = letters.strip_suffix("out").unwrap_or(letters);
    Some(match letters.strip_suffix("copy").unwrap_or(letters) {
        "oneshotallreduce" | "twoshotallreduce" | "multimemallreduce" | "multimemoneshotallreduce" => "all_reduce",
        "multimemoneshotreduce" => "reduce",
        "multimemallgather" | "lowcontentionallgather" => "all_gather",
        "reducescatter" | "lowcontentionreducescatter" => "reduce_scatter",
        "nvshmemalltoall" => "all_to_all",
        "alltoallvdev" | "alltoallvdev2d" | "alltoallvdev2doffset" => "all_to_allv",
        "nvshmembroadcast" => "broadcast",
        _ => return None,
    })
}

/// Whether this is an operation of PyTorch's symmetric memory that communicates and does nothing else.
pub(super) fn is_symmetric_exchange(name: &str) -> bool {
    name.strip_prefix("symm_mem::").is_some_and(|word| ours(word).is_some())
}

/// Whether an operation, by our word, is a transfer between two ranks.
pub(super) fn is_transfer(operation: &str) -> bool {
    matches!(operation, "send" | "recv" | "send_recv")
}

/// The operation that kernels of NCCL named `SendRecv` run: transfers of a pipeline, or the parts of any collective.
pub(super) const SEND_RECV_KERNEL: &str = "SendRecv";

/// The operation in the name of a kernel: `ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)`.
pub(super) fn operation_of_kernel(name: &str) -> String {
    let word = name.split_once("Kernel_").map_or("", |(_, rest)| rest);
    let word: String = word.chars().take_while(|letter| letter.is_ascii_alphabetic()).collect();
    match operation(&word) {
        // A generic kernel runs any operation.
        operation if word.is_empty() || operation == "Generic" => "unknown".to_owned(),
        _ if word == SEND_RECV_KERNEL => word.clone(),
        operation => operation.into_owned(),
    }
}

/// What a kernel moves between ranks that is none of NCCL's, by names of libraries that launch it without a mark of PyTorch:
/// DeepEP, NVSHMEM, PyTorch's symmetric memory, and the all-reduce kernels of vLLM, SGLang, FlashInfer and TensorRT-LLM.
pub(super) fn operation_of_other_kernel(name: &str) -> Option<&'static str> {
    // Template arguments hold any name.
    let name = name.split_once('(').map_or(name, |(name, _)| name);
    let has = |word: &str| name.contains(word);
    let of_experts = ["deep_ep::", "::ep::internode", "::ep::intranode"].into_iter().any(has);
    let of_reductions = [
        "multimem_all_reduce",
        "multimem_one_shot_all_reduce",
        "one_shot_all_reduce",
        "two_shot_all_reduce",
        "cross_device_reduce",
        "oneShotAllReduce",
        "twoShotAllReduce",
        "allreduce_fusion_kernel",
        "trtllm_allreduce",
        "lamportAllReduce",
        "nvshmem_allreduce",
    ];
    match () {
        () if of_experts && !has("get_dispatch_layout") => Some("all_to_all"),
        () if of_reductions.into_iter().any(has) => Some("all_reduce"),
        () if has("multimem_all_gather") => Some("all_gather"),
        () if has("multimem_reduce_scatter") => Some("reduce_scatter"),
        () if has("nvshmem") => Some("nvshmem"),
        () => None,
    }
}

/// Bytes of one element of a type, by the words of PyTorch's C++ and Python.
pub(crate) fn element_bytes(dtype: &str) -> Option<u64> {
    let word = dtype.trim().trim_start_matches("torch.").trim_start_matches("c10::").to_ascii_lowercase();
    Some(match word.as_str() {
        "float" | "float32" | "int" | "int32" | "uint32" => 4,
        "double" | "float64" | "long" | "long int" | "int64" | "uint64" => 8,
        "half" | "float16" | "bfloat16" | "short" | "int16" | "uint16" => 2,
        "char" | "signed char" | "unsigned char" | "byte" | "int8" | "uint8" | "bool" => 1,
        _ if word.starts_with("float8") => 1,
        _ => return None,
    })
}

/// The name of a communicator, from PyTorch's name and description of a process group. The same in every format.
pub(super) fn group(name: &str, description: &str) -> String {
    match (name.trim(), description.trim()) {
        ("", "" | "undefined") => UNKNOWN_GROUP.to_owned(),
        (name, "" | "undefined") => name.to_owned(),
        ("", description) => description.to_owned(),
        (name, description) => format!("{name} ({description})"),
    }
}

/// A call with operation and communicator; nothing else is known.
pub(super) fn call(names: &mut Names, operation: &str, group: &str) -> CollectiveCall {
    CollectiveCall {
        operation: names.intern(operation),
        group: names.intern(group),
        sequence: None,
        ranks: None,
        bytes: None,
        input_bytes: None,
        dtype: None,
        synchronises: synchronises(operation),
        first_byte_ns: None,
    }
}

/// Bytes of an operation (S) from the elements of its input: what all ranks' blocks hold where S counts them together. None
/// where that needs a number of ranks that is not known.
pub(super) fn bytes_of_input(operation: &str, input_bytes: u64, ranks: Option<u32>) -> Option<u64> {
    match operation {
        "all_gather" | "gather" => input_bytes.checked_mul(u64::from(ranks?)),
        "scatter" | "barrier" => None,
        _ => Some(input_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_tools_become_operations() {
        let cases = [
            ("gloo:all_reduce", "all_reduce"),
            ("nccl:_all_gather_base", "all_gather"),
            ("nccl:_reduce_scatter_base", "reduce_scatter"),
            ("allreduce", "all_reduce"),
            ("allreduce_coalesced", "all_reduce"),
            ("allgather_into_tensor_coalesced", "all_gather"),
            ("reduce_scatter_tensor_coalesced", "reduce_scatter"),
            ("AllToAll", "all_to_all"),
            ("all_to_allv", "all_to_allv"),
            ("ReduceScatter", "reduce_scatter"),
            ("Broadcast", "broadcast"),
            ("SendRecv", "send_recv"),
            ("nccl:send 0->1", "send"),
            ("nccl:coalesced", "coalesced"),
            ("gloo:recvAnySource", "recv"),
            ("gloo:brand_new", "brand_new"),
            ("symm_mem::one_shot_all_reduce", "all_reduce"),
            ("symm_mem::two_shot_all_reduce_", "all_reduce"),
            ("symm_mem::one_shot_all_reduce_copy_out", "all_reduce"),
            ("symm_mem::multimem_all_gather_out", "all_gather"),
            ("symm_mem::_low_contention_reduce_scatter", "reduce_scatter"),
            ("symm_mem::fused_all_gather_matmul", "fused_all_gather_matmul"),
        ];
        for (word, wanted) in cases {
            assert_eq!(operation(word), wanted, "{word}");
        }
    }

    #[test]
    fn what_multiplies_matrices_is_no_exchange() {
        for name in ["symm_mem::one_shot_all_reduce", "symm_mem::reduce_scatter_out", "symm_mem::all_to_all_vdev"] {
            assert!(is_symmetric_exchange(name), "{name}");
        }
        let others = [
            "symm_mem::fused_all_gather_matmul",
            "symm_mem::fused_matmul_reduce_scatter",
            "symm_mem::fused_scaled_matmul_reduce_scatter",
            "symm_mem::_async_input_mm",
            "one_shot_all_reduce",
        ];
        for name in others {
            assert!(!is_symmetric_exchange(name), "{name}");
        }
    }

    #[test]
    fn communicators_have_one_name() {
        assert_eq!(group("0", "default_pg"), "0 (default_pg)");
        assert_eq!((group("7", "undefined"), group("", "")), ("7".to_owned(), UNKNOWN_GROUP.to_owned()));
    }

    #[test]
    fn bytes_count_all_blocks_where_the_operation_does() {
        assert_eq!(bytes_of_input("all_reduce", 8, None), Some(8));
        assert_eq!(bytes_of_input("all_gather", 8, Some(4)), Some(32));
        assert_eq!(bytes_of_input("all_gather", 8, None), None);
        assert_eq!(element_bytes("c10::BFloat16").zip(element_bytes("Float")), Some((2, 4)));
        assert_eq!(element_bytes("complex"), None);
    }

    #[test]
    fn kernels_name_their_operation() {
        assert_eq!(operation_of_kernel("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)"), "all_reduce");
        assert_eq!(operation_of_kernel("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(x)"), "reduce_scatter");
        assert_eq!(operation_of_kernel("ncclDevKernel_Generic_4(x)"), "unknown");
        let others = [
            ("void deep_ep::internode::combine<false, 8>(int4*)", Some("all_to_all")),
            ("void dpsk::ep::internode::cached_notify<false>(int)", Some("all_to_all")),
            ("void deep_ep::layout::get_dispatch_layout<256>(long)", None),
            ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(x)", Some("all_reduce")),
            ("void c10d::symmetric_memory::multimem_all_reduce_kernel<float>(x)", Some("all_reduce")),
            ("void gemm<nothing>(deep_ep::internode*)", None),
        ];
        for (name, wanted) in others {
            assert_eq!(operation_of_other_kernel(name), wanted, "{name}");
        }
        // All collectives may run as sends and receives.
        assert_eq!(operation_of_kernel("ncclDevKernel_SendRecv(x)"), "SendRecv");
    }
}
