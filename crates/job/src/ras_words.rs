//! What an answer of NCCL's RAS says, in sentences.

use import::traces::{RasFinding, RasProblem, RasReport};

use crate::hangs::ranks;

/// Findings that are said; the rest is counted.
const MOST: usize = 12;

/// A sentence for each thing that is wrong; empty where all ranks have called the same.
pub(crate) fn sentences(report: &RasReport) -> Vec<String> {
    let mut all: Vec<String> = report.findings.iter().take(MOST).map(sentence).collect();
    let more = report.findings.len().saturating_sub(MOST);
    all.extend((more > 0).then(|| format!("NCCL RAS reports {more} more differences")));
    all
}

fn sentence(found: &RasFinding) -> String {
    let numbers: Vec<u32> = found.ranks.iter().map(|rank| rank.rank).collect();
    let of = if found.is_largest { String::new() } else { format!(" of communicator {}", found.communicator) };
    let who = format!("{}{of}", ranks(&numbers));
    let (is, has, does) = if numbers.len() == 1 { ("is", "has", "does") } else { ("are", "have", "do") };
    // The first of them, to be found on its host.
    let process = found.ranks.first().and_then(|rank| Some((rank.rank, rank.pid?, &rank.host)));
    let process =
        process.map_or(String::new(), |(rank, pid, host)| format!("; rank {rank} is process {pid} on {host}"));
    let told = match &found.problem {
        RasProblem::Behind { operation, calls, most } => format!(
            "{who} {has} called {operation} {} in communicator {}, and {} {}",
            times(*calls),
            found.communicator,
            ranks(&found.ahead),
            times(*most)
        ),
        RasProblem::Unresponsive => format!("{who} {does} not answer NCCL RAS"),
        RasProblem::Dead => format!("{who} {is} dead for NCCL RAS: no answer for a minute"),
        RasProblem::Missing => format!("{who} {does} not take part in communicator {}", found.communicator),
        RasProblem::Error(code) => format!("{who} {has} error {code} of NCCL in communicator {}", found.communicator),
        RasProblem::Joining => format!("{who} {has} not joined communicator {}", found.communicator),
        RasProblem::Aborting => format!("{who} {is} aborting communicator {}", found.communicator),
    };
    told + &process
}

fn times(count: u64) -> String {
    match count {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}

#[cfg(test)]
mod tests {
    use import::traces::RasRank;

    use super::*;

    #[test]
    fn who_is_behind_is_named_with_its_process() {
        let rank = RasRank { rank: 1, host: "10.0.0.1".to_owned(), pid: Some(101) };
        let problem = RasProblem::Behind { operation: "all_reduce".to_owned(), calls: 1, most: 5 };
        let communicator = "0xae".to_owned();
        let found = RasFinding { communicator, is_largest: true, problem, ranks: vec![rank], ahead: vec![0, 2] };
        let says = "rank 1 has called all_reduce once in communicator 0xae, and ranks 0, 2 5 times; rank 1 is process 101 on \
                    10.0.0.1";
        assert_eq!(sentence(&found), says);
        let part = RasFinding { is_largest: false, problem: RasProblem::Unresponsive, ..found };
        assert!(sentence(&part).starts_with("rank 1 of communicator 0xae does not answer NCCL RAS; "));
        let report = RasReport { findings: vec![part; 15], ..RasReport::default() };
        assert_eq!(sentences(&report).len(), 13);
    }
}
