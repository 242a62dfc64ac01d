//! Every option of nccl-tests and rccl-tests, of each of their versions, and what it is here.

/// What an option of theirs is here.
pub(super) enum Meaning {
    /// An option of Rankmark.
    Ours(&'static str),
    /// An option of Rankmark that takes seconds; 0 is none.
    Seconds(&'static str),
    /// Threads of a process.
    Threads,
    /// GPUs of a thread.
    Gpus,
    /// Part of the sizes.
    Size,
    /// An option that ranks on GPUs have, with another value; elsewhere it is ignored, because of this.
    OnGpus(&'static str, fn(&str) -> Option<String>, &'static str),
    /// The option is ignored, because of this.
    Nothing(&'static str),
}

/// Calls of a graph: those that nccl-tests captures by default. 0 is none.
fn graph(value: &str) -> Option<String> {
    value.parse::<u32>().ok().filter(|replays| *replays > 0).map(|_| "20".to_owned())
}

/// `-R 1` registers buffers, `-R 2` as windows.
fn registration(value: &str) -> Option<String> {
    match value {
        "1" => Some("local".to_owned()),
        "2" => Some("window".to_owned()),
        _ => None,
    }
}

/// `-x 1`, as it stands.
fn policy(value: &str) -> Option<String> {
    Some(value.to_owned())
}

/// An option of theirs.
pub(super) struct Theirs {
    /// `-b`; empty where Rankmark has an option of this letter.
    pub(super) short: &'static str,
    /// Long names that are not ours, with underscores.
    pub(super) longs: &'static [&'static str],
    pub(super) meaning: Meaning,
}

/// Why several operations are not put in a group.
pub(super) const NO_GROUPS: &str = "`--aggregate N` is for `--backend nccl`; `--call coalesced` for PyTorch ranks";

const fn theirs(short: &'static str, longs: &'static [&'static str], meaning: Meaning) -> Theirs {
    Theirs { short, longs, meaning }
}

/// All options of nccl-tests and rccl-tests.
pub(super) static TABLE: &[Theirs] = &[
    theirs("-b", &["minbytes"], Meaning::Size),
    theirs("-e", &["maxbytes"], Meaning::Size),
    theirs("-f", &["stepfactor"], Meaning::Size),
    theirs("-i", &["stepbytes"], Meaning::Size),
    // The sizes of the OSU benchmarks.
    theirs("-m", &[], Meaning::Size),
    theirs("-t", &["nthreads"], Meaning::Threads),
    theirs("-g", &["ngpus"], Meaning::Gpus),
    // `--iters` and `--root` are the same words here.
    theirs("-n", &[], Meaning::Ours("--iters")),
    theirs("-r", &[], Meaning::Ours("--root")),
    theirs("-w", &["warmup_iters"], Meaning::Ours("--warmup")),
    theirs("-o", &["op"], Meaning::Ours("--reduce")),
    theirs("-d", &["datatype"], Meaning::Ours("--dtype")),
    theirs("-T", &[], Meaning::Seconds("--timeout")),
    theirs("", &["agg_iters"], Meaning::Nothing(NO_GROUPS)),
    theirs("-c", &["check"], Meaning::Nothing("results are always checked")),
    theirs("-p", &["parallel_init"], Meaning::Nothing("each rank is a process and starts by itself")),
    theirs("-z", &["blocking"], Meaning::Nothing("`--mode isolated` times each call by itself")),
    theirs("-G", &["cudagraph"], Meaning::OnGpus("--graph", graph, "`--graph N` is for `--backend nccl`")),
    theirs("-a", &["average"], Meaning::Nothing("the time of a sample is that of the slowest rank")),
    theirs(
        "-C",
        &["report_cputime"],
        Meaning::Nothing("on GPUs each row has the time of launching a call, and that of the whole call"),
    ),
    theirs("-S", &["report_timestamps"], Meaning::Nothing("the record has the time of each case")),
    theirs("-N", &["run_cycles", "stop_cycle"], Meaning::Nothing("`--trials` says how often a case is repeated")),
    theirs(
        "-R",
        &["local_register"],
        Meaning::OnGpus("--registration", registration, "`--registration` is for `--backend nccl`"),
    ),
    theirs("-J", &["output_file"], Meaning::Nothing("`rankmark report RECORD --layout nccl-tests-json` writes it")),
    theirs(
        "-F",
        &["cache_flush", "ft_test"],
        Meaning::Nothing("the record has all results; `--cache cold` empties caches"),
    ),
    theirs("-O", &["out_of_place"], Meaning::Nothing("`--in-place` says where the output goes")),
    theirs("-M", &["memory", "memory_report"], Meaning::Nothing("on GPUs each row has the memory of the library")),
    theirs("-D", &["device_implementation"], Meaning::Nothing("kernels of nccl-tests itself are not measured")),
    theirs("-V", &["device_cta_count"], Meaning::Nothing("kernels of nccl-tests itself are not measured")),
    theirs(
        "-x",
        &["cta_policy"],
        Meaning::OnGpus("--nccl-cta-policy", policy, "`--nccl-cta-policy` is for `--backend nccl`"),
    ),
    theirs("-y", &["stream_null"], Meaning::Nothing("streams are those of the backend")),
    theirs("-k", &["side_comp"], Meaning::Nothing("nothing is computed at the same time")),
    theirs("-l", &["replay"], Meaning::Nothing("calls are not replayed")),
    theirs("-u", &["unalign", "cumask"], Meaning::Nothing("`--offset-bytes` moves buffers by whole elements")),
    theirs(
        "-s",
        &["swap_args", "swap_comms", "tbytes"],
        Meaning::Nothing("calls are not swapped between communicators"),
    ),
    theirs("-P", &["split_comm"], Meaning::Nothing("`--groups` measures several communicators at once")),
    theirs("-B", &["commblocking"], Meaning::Nothing("how communicators are made is the backend's choice")),
    theirs("-L", &["ft_list"], Meaning::Nothing("`--inject` injects faults")),
    theirs("-A", &["per_coll_perf"], Meaning::Nothing("each case has its own results")),
    theirs(
        "-E",
        &["rotating_tensor", "simulate"],
        Meaning::Nothing("`--cache cold` rotates through copies of buffers"),
    ),
    theirs(
        "-I",
        &["init_ids"],
        Meaning::Nothing(
            "samples of all ranks are in samples.jsonl; on GPUs rows have p50, p90, p99 of the device's clock",
        ),
    ),
    theirs("-Y", &["memory_type"], Meaning::Nothing("`--buffers` and `--device` say where buffers are")),
    // `-q` is ours.
    theirs("", &["delay_inout_place", "traffic_class"], Meaning::Nothing("calls are not delayed")),
];

/// An option of theirs in a line.
#[derive(Clone, Copy)]
pub(super) struct GivenOption<'a> {
    /// Name of the option as it is written.
    pub(super) name: &'a str,
    pub(super) option: &'static Theirs,
    /// The value, where it is part of the same word.
    pub(super) value: Option<&'a str>,
}

/// The option that a word is: `-b`, `-b8`, `--minbytes`, `--minbytes=8`.
pub(super) fn given(word: &str) -> Option<GivenOption<'_>> {
    if let Some(long) = word.strip_prefix("--") {
        let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        let wanted = name.replace('-', "_");
        let option = TABLE.iter().find(|option| option.longs.contains(&wanted.as_str()))?;
        return Some(GivenOption { name: &word[..name.len() + 2], option, value });
    }
    let (name, value) = word.split_at_checked(2)?;
    let option = TABLE.iter().find(|option| option.short == name)?;
    match value {
        "" => Some(GivenOption { name, option, value: None }),
        // `-np` is not `-n p`.
        _ if value.starts_with(|first: char| first.is_ascii_digit()) => {
            Some(GivenOption { name, option, value: Some(value) })
        }
        _ => None,
    }
}

/// Whether a word has its value in it.
pub(super) fn is_attached(word: &str) -> bool {
    given(word).is_some_and(|given| given.value.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_option_stands_in_the_table_twice() {
        let mut names: Vec<&str> =
            TABLE.iter().flat_map(|option| option.longs.iter().copied().chain([option.short])).collect();
        names.retain(|name| !name.is_empty());
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(given("-np").is_none() && given("-q").is_none() && given("-v").is_none() && given("-h").is_none());
    }
}
