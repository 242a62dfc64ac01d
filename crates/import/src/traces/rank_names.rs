//! The rank in a file's name, and the order of names that hold numbers.

use std::cmp::Ordering;
use std::path::Path;

/// Words before a number that make it a rank: `trace_3.json`, `r5.sqlite`, `gpu2.json`. Another word may be a model with its
/// size, such as `resnet-50`.
const WORDS: &[&str] = &[
    "rank", "r", "trace", "traces", "profile", "prof", "worker", "gpu", "device", "proc", "process", "report",
    "kineto", "nsys", "torch", "dump", "fr", "flight",
];

/// Endings of dumps that other programs give, the outermost first.
const ENDINGS: &[&str] = &[".gz", ".json", ".pickle", ".pkl"];

/// Digits that a rank has at most. Dates and numbers of processes have more, or as many.
const MOST_DIGITS: usize = 6;

/// The rank in a trace's name: `rank0.json`, `x_rank_12.pt.trace.json.gz`, `trace_3.json`, `worker2.pt.trace.json`.
pub(super) fn rank_of_name(path: &Path) -> Option<u32> {
    let name = lower(path)?;
    let after = after_rank(&name);
    if after.is_some() {
        return after;
    }
    let stem = name.split('.').next()?;
    // The handler of TensorBoard puts the number of the process behind the host, which may be called `worker-0`. A user who
    // names the worker writes nothing else.
    if name.contains(".pt.trace.json") {
        return digits(stem.strip_prefix("worker")?.trim_start_matches(['_', '-']));
    }
    if name.contains("activities") {
        return None;
    }
    let (front, number) = split(stem);
    let word = front.trim_end_matches(['_', '-']).rsplit(['_', '-']).next()?;
    let is_rank = front.is_empty() || WORDS.contains(&word) || words(front).any(|word| word == "rank");
    if is_rank { digits(number) } else { None }
}

/// The rank in a dump's name. PyTorch puts the rank at the end of whatever name it is given: `comm_lib_trace_rank_0`,
/// `job7_node00_3.json`.
pub(super) fn rank_of_dump(path: &Path) -> Option<u32> {
    let name = lower(path)?;
    let stem = name.split('.').next()?;
    // A name with the whole name of its host has dots before the rank: `fr_node1.cluster_5`.
    let whole = ENDINGS.iter().fold(name.as_str(), |name, ending| name.strip_suffix(*ending).unwrap_or(name));
    after_rank(&name).or_else(|| digits(split(whole).1)).or_else(|| digits(split(stem).1))
}

/// Host and process in the name that the handler of TensorBoard gives, `HOST_PID.NS.pt.trace.json`. Cycles of one process have
/// these in common.
pub(super) fn process_of_name(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let stem = name.split('.').next().filter(|_| name.contains(".pt.trace.json"))?;
    let (host, process) = stem.rsplit_once('_')?;
    let is_number = !process.is_empty() && process.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && !host.is_empty()).then(|| stem.to_owned())
}

fn lower(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_str()?.to_ascii_lowercase())
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_ascii_alphanumeric())
}

/// The number behind the last word `rank` that has one.
fn after_rank(name: &str) -> Option<u32> {
    name.rmatch_indices("rank").find_map(|(at, word)| {
        let rest = name[at + word.len()..].trim_start_matches(['_', '-', '.', '=', ' ']);
        let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
        number.parse().ok()
    })
}

/// A name without the digits at its end, and these.
fn split(stem: &str) -> (&str, &str) {
    stem.split_at(stem.trim_end_matches(|letter: char| letter.is_ascii_digit()).len())
}

fn digits(text: &str) -> Option<u32> {
    let is_number = !text.is_empty() && text.len() <= MOST_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// Compares names as people count: `worker2` comes before `worker10`.
pub(super) fn natural_order(a: &Path, b: &Path) -> Ordering {
    let (a_text, b_text) = (a.to_string_lossy(), b.to_string_lossy());
    let (mut left, mut right) = (a_text.as_ref(), b_text.as_ref());
    while let (Some(one), Some(other)) = (left.chars().next(), right.chars().next()) {
        let order = if one.is_ascii_digit() && other.is_ascii_digit() {
            let (number, rest) = leading(left);
            let (other_number, other_rest) = leading(right);
            (left, right) = (rest, other_rest);
            number.len().cmp(&other_number.len()).then_with(|| number.cmp(other_number))
        } else {
            (left, right) = (&left[one.len_utf8()..], &right[other.len_utf8()..]);
            one.cmp(&other)
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    left.len().cmp(&right.len()).then_with(|| a.cmp(b))
}

/// The digits at the beginning without zeros before them, and what follows.
fn leading(text: &str) -> (&str, &str) {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    (number.trim_start_matches('0'), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_read_from_names() {
        let cases = [
            ("a/rank0.json", Some(0)),
            ("x_rank_12.pt.trace.json.gz", Some(12)),
            ("comm_lib_trace_rank_7", Some(7)),
            ("trace_3.json.gz", Some(3)),
            ("my_trace-3.json.gz", Some(3)),
            ("7.json", Some(7)),
            ("r5.sqlite", Some(5)),
            ("x_r5.sqlite", Some(5)),
            ("nccl_trace_rank_node00_2.json", Some(2)),
            ("worker11.pt.trace.json", Some(11)),
            ("worker_2.1623143089861.pt.trace.json.gz", Some(2)),
            ("worker-0_4711.1700000000000.pt.trace.json", None),
            ("node-4_4711.1700000000000.pt.trace.json", None),
            ("libkineto_activities_4711.json", None),
            ("model7b.json", None),
            ("resnet-50.json", None),
            ("trace_resnet-50.json.gz", None),
            ("gpt2_350.json", None),
            ("trace_20240510123456.json", None),
            ("fr__dump_fr_trace_sched_rank1", Some(1)),
            ("trace.json", None),
        ];
        for (name, wanted) in cases {
            assert_eq!(rank_of_name(Path::new(name)), wanted, "{name}");
        }
    }

    #[test]
    fn a_dump_ends_with_its_rank() {
        let cases = [
            ("comm_lib_trace_rank_7", Some(7)),
            ("nccl_trace_rank_node00_2.json", Some(2)),
            ("job7_node00_3.json", Some(3)),
            ("fr0", Some(0)),
            ("fr_node1.cluster.local_5", Some(5)),
            ("nccl_trace_rank_node1.cluster.local_12.json.gz", Some(12)),
            ("fr_3.trace", Some(3)),
            ("hang-flight-rank1.pickle", Some(1)),
            ("dump", None),
        ];
        for (name, wanted) in cases {
            assert_eq!(rank_of_dump(Path::new(name)), wanted, "{name}");
        }
    }

    #[test]
    fn names_are_ordered_as_people_count() {
        let mut names =
            ["w10.json", "w2.json", "w02.json", "w1.json", "v3", "w", "w1", "ü1", "w1b2", "w1b10"].map(Path::new);
        names.sort_by(|a, b| natural_order(a, b));
        let wanted = ["v3", "w", "w1", "w1.json", "w1b2", "w1b10", "w02.json", "w2.json", "w10.json", "ü1"];
        assert_eq!(names, wanted.map(Path::new));
    }
}
