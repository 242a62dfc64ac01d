//! What a job's communication costs: the sum, its interval, the table, and what they leave out.

use record::{CaseLine, JobCalls};
use report::{Run, sentences};
use terms::Status;

use crate::data::{self, Invented};
use crate::golden::text;

const JOB: JobCalls = JobCalls { calls: 30, steps: Some(10), time_s: Some(1e-3), waiting_s: Some(4e-3), overlapped: 0 };

/// A case with trials of these times, in rounds from 0.
fn line(bytes: u64, trials: &[f64]) -> CaseLine {
    let line = Invented::new(2, bytes, stats::median(trials)).line();
    CaseLine { trial_median_s: trials.to_vec(), trial_round: (0..trials.len() as u32).collect(), ..line }
}

fn run(cases: Vec<(CaseLine, JobCalls)>) -> Run {
    let in_job = cases.iter().map(|(line, job)| (line.id.clone(), *job)).collect();
    Run { in_job, ..data::run(cases.into_iter().map(|(line, _)| line).collect()) }
}

/// The cells of the table, row by row.
fn rows(page: &str) -> Vec<Vec<String>> {
    let table = page.split("## Communication of a job\n\n").nth(1).unwrap_or_default();
    let lines = table.lines().take_while(|line| line.starts_with('|')).skip(2);
    lines.map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
}

#[test]
fn a_step_costs_the_sum_of_its_calls() {
    // What slows both cases in one round down is in one sum: 3 x 1 ms and 1 x 2 ms, then twice as much.
    let both = run(vec![
        (line(1024, &[1e-3, 2e-3, 1e-3, 1e-3, 1e-3, 1e-3]), JOB),
        (line(4096, &[2e-3, 4e-3, 2e-3, 2e-3, 2e-3, 2e-3]), JobCalls { calls: 10, time_s: Some(7e-3), ..JOB }),
    ]);
    let wanted = "Communication of a step of the traced job costs 5.00 ms (5.00 ms to 10.0 ms) here, 0.500x the 10.0 ms of its \
                  trace (without waiting for late ranks).";
    assert_eq!(report::traffic(&both), [wanted]);
    assert!(sentences(&both).iter().any(|sentence| sentence == wanted), "{:?}", sentences(&both));
    let found = rows(&text("markdown", &both));
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(found[0][0], "all_reduce 1 KiB, 2 ranks");
    assert_eq!(found[0][2..], ["3", "1.00 ms (990 us to 1.01 ms)", "3.00 ms", "1.00 ms", "4.00 ms", "1.00x"]);
    assert_eq!(found[2][4..], ["5.00 ms (5.00 ms to 10.0 ms)", "sum 10.0 ms", "", "0.500x"]);
}

#[test]
fn what_the_sums_leave_out_is_said() {
    let trials = [1e-3; 6];
    let failed = CaseLine { status: Status::Failed, ..line(4096, &trials) };
    let wrong = CaseLine { wrong: Some(3), ..line(16384, &trials) };
    let overlapped = JobCalls { overlapped: 15, ..JOB };
    let some = run(vec![(line(1024, &trials), overlapped), (failed, JOB), (wrong, JOB)]);
    let said = report::traffic(&some);
    assert!(said[0].contains("costs 3.00 ms") && said[0].contains("the 3.00 ms of its trace"), "{said:?}");
    assert!(said[1] == "Both sums leave out 2 of the job's 3 collectives: no correct result.", "{said:?}");
    assert!(said[2].starts_with("50% of the job's calls overlapped with another call"), "{said:?}");
    let cells = rows(&text("markdown", &some));
    assert_eq!(cells[1][3..5], ["-", "-"], "{cells:?}");
    assert!(report::traffic(&run(vec![(CaseLine { wrong: Some(1), ..line(1024, &trials) }, JOB)])).is_empty());
}

#[test]
fn a_trace_without_steps_or_times_says_so() {
    let trials = [1e-3; 3];
    let whole = JobCalls { steps: None, time_s: None, ..JOB };
    let said = report::traffic(&run(vec![(line(1024, &trials), whole)]));
    let wanted = "Communication of the whole trace of the job costs 30.0 ms here, 0.250x the 120 ms of its trace (with waiting for \
                  late ranks).";
    assert_eq!(said, [wanted]);
    let timeless = JobCalls { waiting_s: None, ..whole };
    let said = report::traffic(&run(vec![(line(1024, &trials), timeless)]));
    assert!(said[0].ends_with("here, the trace has no times of its calls."), "{said:?}");
    let simulated = CaseLine { simulated: true, ..line(1024, &trials) };
    let said = report::traffic(&run(vec![(simulated, JOB)]));
    assert!(said[0].contains("costs 3.00 ms (simulated) here"), "{said:?}");
}

#[test]
fn each_backend_and_each_number_of_ranks_has_its_own_sum() {
    let trials = [1e-3; 3];
    let other = |name: &str, number: u32, id: &str| CaseLine {
        backend: name.to_owned(),
        ranks: number,
        id: id.to_owned(),
        ..line(1024, &trials)
    };
    let backends = run(vec![(other("shm", 2, "a"), JOB), (other("mpi", 2, "b"), JOB)]);
    let said = report::traffic(&backends).join("\n");
    assert!(said.contains("here by shm, ") && said.contains("here by mpi, "), "{said}");
    let ranks = run(vec![(other("shm", 2, "a"), JOB), (other("shm", 4, "b"), JOB)]);
    let said = report::traffic(&ranks).join("\n");
    assert!(said.contains("by shm, 2 ranks, ") && said.contains("by shm, 4 ranks, "), "{said}");
    assert_eq!(said.matches("costs 3.00 ms").count(), 2, "{said}");
    // In place and out of place are one collective: the faster counts.
    let slower = CaseLine { id: "c".to_owned(), ..line(1024, &[2e-3; 3]) };
    let ways = run(vec![(slower, JOB), (other("shm", 2, "a"), JOB)]);
    assert!(report::traffic(&ways)[0].contains("costs 3.00 ms"), "{:?}", report::traffic(&ways));
    assert!(report::traffic(&data::run(vec![line(1024, &trials)])).is_empty(), "not a plan of a trace");
}
