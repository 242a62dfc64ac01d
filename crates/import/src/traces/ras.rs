//! What NCCL's RAS says of a job: `ncclras -f json`, from NCCL 2.28.7 on. It counts the collectives that each rank has called,
//! and knows which processes do not answer. Ranks are those of their communicator, which has a hash and no name.

use std::collections::BTreeMap;

use serde::Deserialize;
use terms::Error;

use super::flight::json;
use super::format::TraceContent;
use super::{TraceFormat, words};

/// The largest answer that is read. A rank has 600 bytes in each of its communicators.
const LARGEST: u64 = 64 << 20;

/// `ncclInProgress`: a communicator that is being made.
const IN_PROGRESS: i64 = 7;

/// An answer of RAS.
pub(super) const RAS: TraceFormat = TraceFormat {
    name: "nccl_ras",
    doc: "NCCL: what its RAS says of a job, by `ncclras -f json` of NCCL 2.28.7 and later",
    recognises: |input| {
        let keys = ["\"nccl_version\"", "\"communicators_count\"", "\"communicators\""];
        input.first() == Some(b'{') && keys.iter().all(|key| input.head_holds(key))
    },
    read: |input| {
        let named = |error: Error| Error { what: format!("{}: {}", input.name(), error.what), ..error };
        Ok(TraceContent::Ras(Box::new(read_ras(&input.bytes(LARGEST)?).map_err(named)?)))
    },
};

/// One answer of RAS.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RasReport {
    /// The version of NCCL: `2.29.1`.
    pub version: String,
    /// How many ranks its communicators hold.
    pub ranks: usize,
    /// What is wrong, by communicator; empty where all ranks have called the same.
    pub findings: Vec<RasFinding>,
    /// How often each collective was called by all ranks together: tells whether the job moved between two answers.
    pub calls: u64,
}

/// Ranks of a communicator of which the same is wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct RasFinding {
    /// The communicator's hash.
    pub communicator: String,
    /// Whether it is as large as the largest, so that its ranks are those of the job.
    pub is_largest: bool,
    /// What is wrong.
    pub problem: RasProblem,
    /// Ranks of the communicator of which it is.
    pub ranks: Vec<RasRank>,
    /// Ranks of the communicator that are ahead, where others are behind.
    pub ahead: Vec<u32>,
}

/// What is wrong with ranks of a communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RasProblem {
    /// The ranks have called an operation less often than others.
    Behind {
        /// The operation.
        operation: String,
        /// How often they have called it.
        calls: u64,
        /// How often the others have.
        most: u64,
    },
    /// The ranks' processes do not answer.
    Unresponsive,
    /// The ranks' processes have not answered for so long that RAS takes them for dead.
    Dead,
    /// The ranks answer, and do not belong to the communicator now.
    Missing,
    /// NCCL reports this error code for them.
    Error(i64),
    /// The ranks are still joining the communicator.
    Joining,
    /// The ranks abort the communicator.
    Aborting,
}

/// A rank in a communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RasRank {
    /// Number of the rank in the communicator.
    pub rank: u32,
    /// The address of its host.
    pub host: String,
    /// The number of its process.
    pub pid: Option<u32>,
}

#[derive(Deserialize)]
struct RasAnswer {
    nccl_version: String,
    communicators: Vec<Communicator>,
}

#[derive(Deserialize)]
struct Communicator {
    hash: String,
    #[serde(default)]
    size: u32,
    #[serde(default)]
    ranks: Vec<RasMember>,
    #[serde(default)]
    missing_ranks: Vec<RasMember>,
}

#[derive(Deserialize)]
struct RasMember {
    rank: u32,
    #[serde(default)]
    host: String,
    #[serde(default)]
    pid: i64,
    #[serde(default)]
    status: RasStatus,
    #[serde(default)]
    collective_counts: BTreeMap<String, u64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RasStatus {
    init_state: i64,
    async_error: i64,
    abort_flag: bool,
    unresponsive: bool,
    considered_dead: bool,
}

/// Reads an answer of RAS.
///
/// # Errors
/// When it is not one.
pub fn read_ras(bytes: &[u8]) -> Result<RasReport, Error> {
    let wrong = |cause: String| Error::new("this is not an answer of NCCL's RAS as JSON").cause(cause);
    let value = json(bytes).or_else(|error| json(&repaired(bytes)).map_err(|_| error));
    let value = value.map_err(|error| wrong(error.cause.unwrap_or(error.what)))?;
    let answer: RasAnswer = serde_json::from_value(value).map_err(|error| wrong(error.to_string()))?;
    let largest = answer.communicators.iter().map(|one| one.size).max().unwrap_or(0);
    let of = |one: &Communicator| one.ranks.len() + one.missing_ranks.len();
    let calls = answer.communicators.iter().flat_map(|one| &one.ranks).flat_map(|rank| rank.collective_counts.values());
    Ok(RasReport {
        ranks: answer.communicators.iter().map(of).max().unwrap_or(0),
        calls: calls.fold(0, |sum, count| sum.wrapping_add(*count)),
        findings: answer.communicators.iter().flat_map(|one| findings(one, largest)).collect(),
        version: answer.nccl_version,
    })
}

/// NCCL 2.28.9 writes no comma between the last number of a missing rank and its status.
fn repaired(bytes: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::with_capacity(bytes.len() + 64);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let end = out.trim_ascii_end().len();
        if line.trim_ascii_start().starts_with(b"\"status\"") && out[..end].last().is_some_and(u8::is_ascii_digit) {
            out.insert(end, b',');
        }
        out.extend_from_slice(line);
    }
    out
}

fn findings(one: &Communicator, largest: u32) -> Vec<RasFinding> {
    let finding = |problem: RasProblem, ranks: Vec<&RasMember>, ahead: Vec<u32>| RasFinding {
        communicator: one.hash.clone(),
        is_largest: one.size == largest,
        problem,
        ranks: ranks.into_iter().map(rank).collect(),
        ahead,
    };
    let mut found = Vec::new();
    let absence = |status: &RasStatus| match status {
        RasStatus { considered_dead: true, .. } => RasProblem::Dead,
        RasStatus { unresponsive: true, .. } => RasProblem::Unresponsive,
        RasStatus { .. } => RasProblem::Missing,
    };
    for problem in [RasProblem::Dead, RasProblem::Unresponsive, RasProblem::Missing] {
        let ranks: Vec<&RasMember> =
            one.missing_ranks.iter().filter(|member| absence(&member.status) == problem).collect();
        found.extend((!ranks.is_empty()).then(|| finding(problem, ranks, Vec::new())));
    }
    let mut odd: Vec<(RasProblem, Vec<&RasMember>)> = Vec::new();
    for member in &one.ranks {
        let Some(problem) = problem(&member.status) else { continue };
        match odd.iter_mut().find(|(known, _)| *known == problem) {
            Some((_, ranks)) => ranks.push(member),
            None => odd.push((problem, vec![member])),
        }
    }
    found.extend(odd.into_iter().map(|(problem, ranks)| finding(problem, ranks, Vec::new())));
    let mut operations: Vec<&String> = one.ranks.iter().flat_map(|member| member.collective_counts.keys()).collect();
    operations.sort();
    operations.dedup();
    for name in operations {
        let count = |member: &RasMember| member.collective_counts.get(name).copied().unwrap_or(0);
        let most = one.ranks.iter().map(count).max().unwrap_or(0);
        let mut behind: BTreeMap<u64, Vec<&RasMember>> = BTreeMap::new();
        for member in one.ranks.iter().filter(|member| count(member) < most) {
            behind.entry(count(member)).or_default().push(member);
        }
        let ahead: Vec<u32> =
            one.ranks.iter().filter(|member| count(member) == most).map(|member| member.rank).collect();
        let operation = words::operation(name).into_owned();
        found.extend(behind.into_iter().map(|(calls, ranks)| {
            finding(RasProblem::Behind { operation: operation.clone(), calls, most }, ranks, ahead.clone())
        }));
    }
    found
}

fn problem(status: &RasStatus) -> Option<RasProblem> {
    match status {
        RasStatus { abort_flag: true, .. } => Some(RasProblem::Aborting),
        RasStatus { init_state: IN_PROGRESS, .. } => Some(RasProblem::Joining),
        RasStatus { init_state, .. } if *init_state != 0 => Some(RasProblem::Error(*init_state)),
        RasStatus { async_error, .. } if ![0, IN_PROGRESS].contains(async_error) => {
            Some(RasProblem::Error(*async_error))
        }
        RasStatus { .. } => None,
    }
}

fn rank(member: &RasMember) -> RasRank {
    RasRank { rank: member.rank, host: member.host.clone(), pid: member.pid.try_into().ok().filter(|pid| *pid > 0) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn member(rank: u32, all_reduce: u64) -> Value {
        json!({
            "rank": rank, "host": "10.0.0.1", "pid": 100 + rank, "cuda_dev": rank, "nvml_dev": rank,
            "status": {"init_state": 0, "async_error": 0, "finalize_called": false, "destroy_flag": false, "abort_flag": false},
            "collective_counts": {"Broadcast": 1, "Reduce": 0, "AllGather": 0, "ReduceScatter": 0, "AllReduce": all_reduce},
        })
    }

    fn answer(ranks: &[Value], missing: &[Value]) -> Value {
        json!({
            "nccl_version": "2.29.1", "cuda_runtime_version": 13000, "cuda_driver_version": 13000,
            "timestamp": "2025-12-19 13:06:53", "communicators_count": 1,
            "communicators": [{
                "hash": "0xae94", "secondary_hash": "0xb7:0xb8", "size": ranks.len() + missing.len(),
                "ranks_count": ranks.len(), "missing_ranks_count": missing.len(), "ranks": ranks, "missing_ranks": missing,
            }],
            "ras": {"collection_time_sec": 0.0, "timeouts_count": 0},
        })
    }

    fn read(answer: &Value) -> RasReport {
        read_ras(&serde_json::to_vec_pretty(answer).unwrap()).unwrap()
    }

    #[test]
    fn ranks_that_called_less_are_behind() {
        let report = read(&answer(&[member(0, 5), member(1, 4), member(2, 5)], &[]));
        let [found] = &report.findings[..] else { panic!("{:?}", report.findings) };
        let behind = RasProblem::Behind { operation: "all_reduce".to_owned(), calls: 4, most: 5 };
        assert_eq!((&found.problem, &found.ahead), (&behind, &vec![0, 2]));
        assert_eq!(found.ranks, [RasRank { rank: 1, host: "10.0.0.1".to_owned(), pid: Some(101) }]);
        assert_eq!((report.ranks, report.version.as_str(), found.is_largest), (3, "2.29.1", true));
        let even = read(&answer(&[member(0, 5), member(1, 5)], &[]));
        assert_eq!((even.findings.len(), even.calls), (0, 12));
    }

    #[test]
    fn states_of_ranks_are_told_apart() {
        let missing = |rank: u32, unresponsive: bool, dead: bool| {
            json!({"rank": rank, "host": "unknown", "pid": -1, "cuda_dev": 0, "nvml_dev": 0,
                   "status": {"unresponsive": unresponsive, "considered_dead": dead}})
        };
        let odd = |rank: u32, name: &str, value: Value| {
            let mut member = member(rank, 5);
            member["status"][name] = value;
            member
        };
        let ranks = [
            member(0, 5),
            odd(1, "async_error", json!(2)),
            odd(2, "init_state", json!(7)),
            odd(3, "abort_flag", json!(true)),
            odd(4, "async_error", json!(7)),
        ];
        let report =
            read(&answer(&ranks, &[missing(5, true, true), missing(6, true, false), missing(7, false, false)]));
        let found: Vec<(RasProblem, u32)> =
            report.findings.iter().map(|found| (found.problem.clone(), found.ranks[0].rank)).collect();
        let expected = [
            (RasProblem::Dead, 5),
            (RasProblem::Unresponsive, 6),
            (RasProblem::Missing, 7),
            (RasProblem::Error(2), 1),
            (RasProblem::Joining, 2),
            (RasProblem::Aborting, 3),
        ];
        assert_eq!(found, expected);
        assert_eq!(report.findings[0].ranks[0].pid, None);
    }

    #[test]
    fn what_2_28_9_writes_of_a_missing_rank_is_read() {
        let missing =
            json!({"rank": 1, "host": "h", "pid": 9, "cuda_dev": 1, "nvml_dev": 1, "status": {"unresponsive": true}});
        let text = serde_json::to_string_pretty(&answer(&[member(0, 4)], &[missing])).unwrap();
        let (head, tail) = text.split_at(text.find("\"missing_ranks\":").unwrap());
        let broken = format!("{head}{}", tail.replacen("\"nvml_dev\": 1,", "\"nvml_dev\": 1", 1));
        assert!(serde_json::from_str::<Value>(&broken).is_err(), "{broken}");
        assert_eq!(read_ras(broken.as_bytes()).unwrap().findings[0].problem, RasProblem::Unresponsive);
        for text in ["{", "[]", "{\"nccl_version\": 2}", "{\"nccl_version\": \"2\", \"communicators\": [{}]}"] {
            assert!(read_ras(text.as_bytes()).is_err(), "{text}");
        }
    }
}
