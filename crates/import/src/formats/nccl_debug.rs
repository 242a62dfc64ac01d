//! What NCCL_DEBUG lines and settings say of NVLink SHARP (NVLS), which decides how much an all_reduce of one host can reach.
//! `src/transport/nvls.cc` and `src/init.cc` of NCCL write the lines.

/// Whether NVLS was on, as one line says it; None where it says nothing of it.
pub(super) fn nvls(text: &str) -> Option<bool> {
    if text.contains("NCCL_NVLS_ENABLE=0") || text.contains("NCCL_NVLS_ENABLE set by environment to 0") {
        return Some(false);
    }
    if let Some((_, algorithms)) =
        text.split_once("NCCL_ALGO=").or_else(|| text.split_once("NCCL_ALGO set by environment to "))
    {
        return by_algorithms(algorithms);
    }
    if !text.contains(" NCCL ") {
        return None;
    }
    if text.contains("NVLS multicast support is not available") {
        return Some(false);
    }
    let channels = text.split_once(" nvls channels")?.0.rsplit(' ').next()?;
    channels.parse::<u32>().ok().map(|channels| channels > 0)
}

/// Whether NVLS was on, by the value of NCCL_ALGO. None where the value has a list for each operation, or leaves out
/// others alone.
fn by_algorithms(value: &str) -> Option<bool> {
    let word = value.trim_start_matches(['"', '\'']).split([' ', '"', '\'']).next()?;
    let list = word.split(';').next()?.trim_end_matches('.');
    if list.is_empty() || word.contains(':') {
        return None;
    }
    let is_nvls = |name: &str| ["NVLS", "NVLSTree"].iter().any(|nvls| name.eq_ignore_ascii_case(nvls));
    match list.strip_prefix('^') {
        Some(left_out) => left_out.split(',').any(|name| name.eq_ignore_ascii_case("NVLS")).then_some(false),
        None => Some(list.split(',').any(is_nvls)),
    }
}

#[cfg(test)]
mod tests {
    use super::nvls;

    #[test]
    fn lines_and_settings_say_whether_it_was_on() {
        for (text, expected) in [
            (
                "node-a:1:9 [0] NCCL INFO 24 coll channels, 24 collnet channels, 16 nvls channels, 32 p2p channels",
                Some(true),
            ),
            (
                "node-a:1:9 [0] NCCL INFO 24 coll channels, 0 collnet channels, 0 nvls channels, 32 p2p channels",
                Some(false),
            ),
            ("node-a:1:9 [0] NCCL INFO NVLS multicast support is not available on dev 0", Some(false)),
            ("node-a:1:9 [0] NCCL INFO NVLS multicast support is available on dev 0", None),
            ("node-a:1:9 [0] NCCL INFO NCCL_NVLS_ENABLE set by environment to 0.", Some(false)),
            ("mpirun -np 8 -x NCCL_NVLS_ENABLE=0 ./all_reduce_perf", Some(false)),
            ("NCCL_ALGO=Ring ./all_reduce_perf -g 8", Some(false)),
            ("NCCL_ALGO=Ring,NVLS ./all_reduce_perf -g 8", Some(true)),
            ("NCCL_ALGO=^NVLS ./all_reduce_perf -g 8", Some(false)),
            ("NCCL_ALGO=^Tree ./all_reduce_perf -g 8", None),
            ("NCCL_ALGO=^NVLSTree ./all_reduce_perf -g 8", None),
            ("export NCCL_ALGO=\"NVLS\"", Some(true)),
            ("export NCCL_ALGO='Ring,Tree';", Some(false)),
            ("mpirun -x NCCL_ALGO=NVLSTree ./all_reduce_perf", Some(true)),
            ("NCCL_ALGO=allreduce:nvls;allgather:ring ./all_reduce_perf", None),
            ("node-a:1:9 [0] NCCL INFO NCCL_ALGO set by environment to Ring.", Some(false)),
            ("export NCCL_ALGO=", None),
            ("# nThread 1 nGpus 8", None),
        ] {
            assert_eq!(nvls(text), expected, "{text}");
        }
    }
}
