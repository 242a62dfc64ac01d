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
        let word = algorithms.split([' ', ';', '"', '\'']).next().unwrap_or_default();
        // `^NVLS` leaves it out.
        let names: Vec<&str> = word.trim_end_matches('.').trim_start_matches('^').split(',').collect();
        let has = names.iter().any(|name| name.eq_ignore_ascii_case("NVLS"));
        return Some(has != word.starts_with('^'));
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
            ("NCCL_ALGO=^Tree ./all_reduce_perf -g 8", Some(true)),
            ("# nThread 1 nGpus 8", None),
        ] {
            assert_eq!(nvls(text), expected, "{text}");
        }
    }
}
