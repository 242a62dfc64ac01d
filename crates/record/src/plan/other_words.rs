//! Values by the words of other tools: C, PyTorch, MPI, DeepSpeed, nccl-tests.

use terms::{Dtype, Named, normalize};

/// Words that mean exactly one word of a field, wherever a field has it; those of element types are in `terms`.
const SAME: &[(&str, &str)] = &[
    ("add", "sum"),
    ("product", "prod"),
    ("minimum", "min"),
    ("maximum", "max"),
    ("average", "avg"),
    ("mean", "avg"),
    ("bcast", "broadcast"),
    ("gpu", "cuda"),
    ("torch", "pytorch"),
    ("dp", "data"),
    ("ddp", "data"),
    ("data_parallel", "data"),
    ("tp", "tensor"),
    ("tensor_parallel", "tensor"),
    ("pp", "pipeline"),
    ("pipeline_parallel", "pipeline"),
    ("model_parallel", "model"),
    // Tests of nvbandwidth.
    ("host_to_device_memcpy_ce", "host_to_device"),
    ("device_to_host_memcpy_ce", "device_to_host"),
    ("host_to_device_bidirectional_memcpy_ce", "host_both_ways"),
    ("device_to_host_bidirectional_memcpy_ce", "host_both_ways"),
    ("device_local_copy", "device_copy"),
    ("device_to_device_memcpy_read_ce", "peer_copy"),
    ("host_device_latency_sm", "host_latency"),
];

/// Words that mean more or less than a word of a field: the word that a field has if it is meant, and what to write.
const NEAR: &[(&str, &str, &str)] = &[
    ("fsdp", "tensor", "write strategy data with sharded 3: optimizer, gradients and parameters are cut"),
    ("fsdp2", "tensor", "write strategy data with sharded 3: optimizer, gradients and parameters are cut"),
    ("zero", "tensor", "write strategy data with sharded 1, 2 or 3, the stage of ZeRO"),
    ("zero1", "tensor", "write strategy data with sharded 1: the optimizer is cut"),
    ("zero2", "tensor", "write strategy data with sharded 2: optimizer and gradients are cut"),
    ("zero3", "tensor", "write strategy data with sharded 3: optimizer, gradients and parameters are cut"),
    ("3d", "hybrid", "write strategy hybrid with a mesh, as in 2x2x1"),
    ("amp", "bf16", "write bf16 or f16"),
    ("openmpi", "mpi", "write backend mpi; mpi_library names the library"),
    ("mpich", "mpi", "write backend mpi; mpi_library names the library"),
    ("intelmpi", "mpi", "write backend mpi; mpi_library names the library"),
    ("impi", "mpi", "write backend mpi; mpi_library names the library"),
    ("mvapich", "mpi", "write backend mpi; mpi_library names the library"),
    ("rccl", "nccl", "write backend nccl: it finds RCCL, too"),
];

/// The word of a set that a text means.
pub(super) fn meant(text: &str, words: &[&'static str]) -> Option<&'static str> {
    let wanted = normalize(text);
    let wanted = wanted.strip_prefix("torch.").unwrap_or(&wanted);
    let find = |is: &dyn Fn(&str) -> bool| words.iter().copied().find(|word| is(word));
    let same = || {
        let word = SAME.iter().find(|(other, _)| *other == wanted).map(|(_, word)| *word);
        word.or_else(|| Dtype::from_other_name(wanted).map(Named::name))
    };
    let exact = find(&|word| normalize(word) == wanted);
    exact.or_else(|| same().and_then(|same| find(&|word| word == same))).or_else(|| {
        // `allreduce`, `AllToAllv`.
        find(&|word| letters(word) == letters(wanted))
    })
}

/// What to write for a word of another tool that means none of a set exactly.
pub(super) fn hint(text: &str, words: &[&'static str]) -> Option<String> {
    let wanted = letters(text);
    let of_set = |(other, word, _): &&(&str, &str, &str)| *other == wanted && words.contains(word);
    NEAR.iter().find(of_set).map(|(.., hint)| (*hint).to_owned())
}

fn letters(text: &str) -> String {
    normalize(text).replace(['_', ' '], "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_other_tools_mean_ours_only_where_a_field_has_them() {
        let strategies = ["data", "tensor", "pipeline", "model", "hybrid"];
        assert_eq!((meant("DDP", &strategies), meant("data-parallel", &strategies)), (Some("data"), Some("data")));
        assert_eq!(
            (meant("fsdp", &strategies), meant("half", &strategies), meant("", &strategies)),
            (None, None, None)
        );
        let types = ["f16", "i8", "f8e4m3"];
        assert_eq!((meant("half", &types), meant("torch.int8", &types)), (Some("f16"), Some("i8")));
        assert_eq!((meant("torch.float8_e4m3fn", &types), meant("uint32", &types)), (Some("f8e4m3"), None));
        let operations = ["all_reduce", "all_to_allv", "broadcast"];
        assert_eq!(meant("AllToAllv", &operations), Some("all_to_allv"));
        assert_eq!((meant("MPI_Bcast", &operations), meant("bcast", &operations)), (None, Some("broadcast")));
        assert!(hint("ZeRO-3", &strategies).unwrap().contains("sharded 3"));
        assert_eq!((hint("fsdp", &operations), hint("openmpi", &["mpi"]).is_some()), (None, true));
    }
}
