//! Tables of evidence and the sentences that follow from it.

use super::*;

const SAMPLE: Phase = Phase::Command("sample");

fn state(rank: u32, outcome: Outcome, at: Option<(u64, bool)>) -> RankState {
    let operation = at.map(|(number, inside)| OperationState { number, operation: Collective::AllReduce, inside });
    RankState { rank, pid: 4700 + rank, host: None, outcome, operation, last_words: Vec::new() }
}

fn pending() -> Outcome {
    Outcome::Pending { silent: None, exchanging: false }
}

fn failed(message: &str) -> Outcome {
    Outcome::Failed(Failure::new(message))
}

fn ranks(verdict: &Verdict) -> Vec<u32> {
    verdict.ranks.iter().map(|rank| rank.0).collect()
}

#[track_caller]
fn check(states: &[RankState], kind: VerdictKind, culprits: &[u32], message: &str) {
    let verdict = verdict(SAMPLE, Occasion::Evidence, Some(Bytes(64 << 20)), states);
    assert_eq!((verdict.kind, ranks(&verdict).as_slice(), verdict.error.what.as_str()), (kind, culprits, message));
}

#[test]
fn the_dead_are_named_with_operation_and_waiters() {
    let mut states = [0, 1, 2].map(|rank| state(rank, pending(), Some((17, true)))).to_vec();
    states.push(state(3, Outcome::Signalled(libc::SIGKILL), Some((17, true))));
    check(
        &states,
        VerdictKind::Died,
        &[3],
        "rank 3 (pid 4703, this host) died of signal 9 (SIGKILL) in all_reduce #17, 64MiB; ranks 0-2 had entered #17 \
         and waited",
    );
    states[3] = RankState {
        host: Some("node-b".to_owned()),
        last_words: vec!["thread 'main' panicked".to_owned(), "boom".to_owned()],
        ..state(3, Outcome::Exited(101), Some((16, false)))
    };
    states[0].operation = None;
    check(
        &states,
        VerdictKind::Died,
        &[3],
        "rank 3 (pid 4703, on node-b) panicked after all_reduce #16, 64MiB, before #17; rank 0 had entered no operation; \
         ranks 1, 2 had entered #17 and waited; last words of rank 3: thread 'main' panicked | boom",
    );
}

#[test]
fn a_rank_without_a_known_process_has_no_number() {
    let unknown = |outcome| RankState { pid: 0, ..state(1, outcome, None) };
    let lost = "the control connection of the process that starts it (pid 4711) ended";
    let states = [state(0, Outcome::Answered, None), unknown(Outcome::Lost(lost.to_owned()))];
    let report = verdict(Phase::Start, Occasion::Evidence, None, &states);
    assert_eq!((report.kind, ranks(&report)), (VerdictKind::NotStarted, vec![1]));
    assert_eq!(report.error.what, format!("rank 1 (this host) is lost while starting: {lost}"));
    let states = [state(0, Outcome::Answered, None), unknown(pending())];
    let report = verdict(Phase::Start, Occasion::Deadline(Seconds(60.0)), None, &states);
    assert_eq!(report.error.what, "no world within 60.0 s: rank 1 was while starting");
}

#[test]
fn the_strongest_evidence_names_the_culprit() {
    let outcomes = [
        Outcome::Signalled(libc::SIGBUS),
        Outcome::Stopped,
        Outcome::Exited(1),
        Outcome::Lost("its control connection ended".to_owned()),
        failed("a peer is gone"),
        pending(),
    ];
    for weaker in 1..outcomes.len() {
        for stronger in 0..weaker {
            let states = [
                state(0, outcomes[weaker].clone(), Some((5, true))),
                state(1, outcomes[stronger].clone(), Some((5, true))),
                state(2, pending(), Some((5, true))),
            ];
            let verdict = verdict(SAMPLE, Occasion::Evidence, None, &states);
            assert_eq!(ranks(&verdict), [1], "{verdict}");
            assert!(!verdict.kind.world_lives());
        }
    }
}

#[test]
fn a_failure_that_others_wait_for_ends_the_world() {
    let states = [
        state(0, pending(), Some((3, true))),
        state(1, Outcome::Pending { silent: None, exchanging: true }, None),
        state(2, failed("not enough memory"), None),
        state(3, Outcome::Answered, Some((3, false))),
    ];
    check(
        &states,
        VerdictKind::Died,
        &[2],
        "rank 2 (pid 4702, this host) failed in `sample`, before its first operation: not enough memory; rank 0 had \
         entered all_reduce #3 and waited; rank 1 waited in an exchange",
    );
}

#[test]
fn answers_that_they_could_not_leave_the_world_alive() {
    let mut states = [0, 1, 2].map(|rank| state(rank, failed("too large"), None)).to_vec();
    check(&states, VerdictKind::Refused, &[0, 1, 2], "ranks 0-2: too large");
    states[1].outcome = Outcome::Answered;
    states[2].outcome = Outcome::Failed(Failure::lacking("no device"));
    check(&states, VerdictKind::Refused, &[0, 2], "rank 0: too large; rank 2: no device");
    states[0].outcome = Outcome::Answered;
    check(&states, VerdictKind::Lacking, &[2], "rank 2: no device");
    assert_eq!(verdict(Phase::Start, Occasion::Evidence, None, &states).kind, VerdictKind::Lacking);
    states[0].outcome = failed("too large");
    assert_eq!(verdict(Phase::Start, Occasion::Evidence, None, &states).kind, VerdictKind::NotStarted);
}

/// A fleet can only go on without a host that is named.
#[test]
fn where_ranks_are_on_several_hosts_theirs_are_named() {
    let on = |rank: u32, outcome, host: &str| RankState {
        host: (!host.is_empty()).then(|| host.to_owned()),
        ..state(rank, outcome, None)
    };
    let mut states = [on(0, Outcome::Answered, ""), on(1, failed("ECC error"), "n1"), on(2, Outcome::Answered, "n2")];
    check(&states, VerdictKind::Refused, &[1], "rank 1 on n1: ECC error");
    states[0].outcome = failed("ECC error");
    check(&states, VerdictKind::Refused, &[0, 1], "ranks 0, 1 on this host, n1: ECC error");
    states[2].outcome = failed("ECC error");
    check(&states, VerdictKind::Refused, &[0, 1, 2], "ranks 0-2: ECC error");
    let hung = [on(0, Outcome::Answered, ""), on(1, pending(), "n1"), on(2, Outcome::Answered, "n2")];
    check_hung(&hung, &[1], "rank 1 was in `sample`, before its first operation (pid 4701 on n1)");
}

#[track_caller]
fn check_hung(states: &[RankState], culprits: &[u32], message: &str) {
    let verdict = verdict(SAMPLE, Occasion::Deadline(Seconds(10.0)), None, states);
    let message = format!("no answer to `sample` within 10.0 s: {message}");
    assert_eq!((verdict.kind, ranks(&verdict).as_slice(), verdict.error.what), (VerdictKind::Hung, culprits, message));
    assert!(verdict.error.hint.is_some());
}

#[test]
fn the_late_are_told_from_those_that_wait_for_them() {
    let silent = Outcome::Pending { silent: Some(4), exchanging: false };
    let mut states = [0, 1, 2, 3].map(|rank| state(rank, pending(), Some((17, true)))).to_vec();
    check_hung(&states, &[0, 1, 2, 3], "ranks 0-3 hung in all_reduce #17 (pid 4700, 4701, 4702, 4703)");
    states[3].operation = state(3, pending(), Some((16, true))).operation;
    check_hung(&states, &[3], "rank 3 hung in all_reduce #16 (pid 4703); ranks 0-2 had entered #17 and waited");
    states[3].operation = state(3, pending(), Some((16, false))).operation;
    check_hung(
        &states,
        &[3],
        "rank 3 was after all_reduce #16, before #17 (pid 4703); ranks 0-2 had entered #17 and waited",
    );
    states[1].outcome = silent;
    check_hung(
        &states,
        &[1],
        "rank 1 hung in all_reduce #17, its heartbeat 4 s ago (pid 4701); ranks 0, 2 had entered #17 and waited; rank 3 \
         had left all_reduce #16",
    );
}

#[test]
fn interrupts_blame_nobody() {
    let states = [state(0, pending(), None)];
    let verdict = verdict(SAMPLE, Occasion::Interrupted(libc::SIGINT), None, &states);
    assert_eq!(verdict.kind, VerdictKind::Interrupted);
    assert_eq!((verdict.error.what.as_str(), verdict.ranks.len()), ("interrupted by SIGINT", 0));
}

#[test]
fn ranks_are_named_in_runs() {
    assert_eq!(name_ranks(&[3]), "rank 3");
    assert_eq!(name_ranks(&[0, 1]), "ranks 0, 1");
    assert_eq!(name_ranks(&[0, 1, 2, 5, 7, 8, 9, 10]), "ranks 0-2, 5, 7-10");
}

#[test]
fn a_kill_hints_at_memory() {
    let killed = [state(0, Outcome::Signalled(libc::SIGKILL), None)];
    assert!(verdict(SAMPLE, Occasion::Evidence, None, &killed).error.hint.is_some_and(|hint| hint.contains("memory")));
    let aborted = [state(0, Outcome::Signalled(libc::SIGABRT), None)];
    assert_eq!(verdict(SAMPLE, Occasion::Evidence, None, &aborted).error.hint, None);
}
