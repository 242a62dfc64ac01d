//! More ranks than a machine has memory for are refused with the reason, before any of them starts.

use benchmarks::Host;
use measure::{Starter, Verdict, VerdictKind, World, WorldSpec};
use terms::Status;

use crate::plans::{HOST, plan, run_with};

/// Counts the worlds that it is asked for, and starts none.
#[derive(Default)]
struct Counting(usize);

impl Starter for Counting {
    fn start(&mut self, _: &WorldSpec) -> Result<Box<dyn World>, Verdict> {
        self.0 += 1;
        let message = "asked for".to_owned();
        Err(Verdict::new(VerdictKind::Lacking, message))
    }
}

#[test]
fn a_thousand_ranks_are_refused_where_memory_lacks_before_they_start() {
    let plan = plan("op: all_reduce, backend: shm, ranks: 1024, bytes: 1KiB, trials: 1");
    // 8 GiB: less than 12 MiB for each of them. 16 GiB: more.
    for (available, asked) in [((|| Some(8 << 30)) as fn() -> Option<u64>, 0), (|| Some(16 << 30), 1)] {
        let mut starter = Counting::default();
        let outcome = run_with(&plan, &mut starter, Host { available_memory: available, ..HOST });
        let line = &outcome.lines[0];
        assert_eq!((line.status, starter.0), (Status::Skipped, asked), "{line:?}");
        let reason = line.reason.as_deref().unwrap_or("");
        let named = ["not enough memory", "1024 ranks", "12.0 GiB for the ranks", "8.00 GiB is available"];
        assert_eq!(named.iter().all(|part| reason.contains(part)), asked == 0, "{reason}");
    }
}

/// A Python without torch takes seconds to say so: once for each kind of ranks, not for each case.
#[test]
fn what_ranks_lack_is_found_out_once_for_all_cases_of_their_world() {
    let mut starter = Counting::default();
    let plan = plan("op: [all_reduce, broadcast], backend: shm, ranks: [2, 4], bytes: [1KiB, 4KiB]");
    let outcome = run_with(&plan, &mut starter, HOST);
    assert!(outcome.lines.len() == 8 && outcome.lines.iter().all(|line| line.status == Status::Skipped));
    assert!(outcome.lines.iter().all(|line| line.reason.as_deref() == Some("asked for")), "{:?}", outcome.lines);
    assert_eq!(starter.0, 2, "worlds of 2 and of 4 ranks");
}
