//! Whether a case can run on this machine at all, decided before any rank starts or allocates.

use benchmarks::{Common, Host, Spread, World, backend_of, benchmark, is_in_process, is_pytorch, is_simulated};
use comm::Readiness;
use record::Case;
use terms::{Bytes, Mode};

/// Hosts of the two ranks that a case's calls go between: 1 or 2. None where all ranks take part.
pub(crate) fn hosts_of_pair(spread: &Spread, case: &Case) -> Option<u32> {
    let peer = benchmark(&case.benchmark)?.peer(case)? as usize;
    Some(if spread.of.first()? == spread.of.get(peer)? { 1 } else { 2 })
}

/// What a rank's process needs beside the case's buffers, on top of which 64 MiB are promised to be enough.
const RANK_OVERHEAD: u64 = 64 << 20;

/// The same for a rank that is a thread: its stack and a few queues.
const THREAD_OVERHEAD: u64 = 1 << 20;

/// The same for a rank that is a Python with torch in it: 713 MB after a first backward pass (torch 2.15), 792 MB once it has
/// compiled, libraries that ranks share among them.
const TORCH_OVERHEAD: u64 = 768 << 20;

/// Whether memory is all that the case lacks, so that it may run once others have given theirs back.
pub(crate) fn lacks_memory(case: &Case, host: &Host) -> bool {
    check_memory(case, case.ranks(), host).is_err()
}

/// Whether the case can run here; if not, what this machine lacks, as the reason to skip it.
///
/// # Errors
/// The reason.
pub fn admit(case: &Case, host: &Host) -> Result<(), String> {
    if let Some(reason) = &case.skip {
        return Err(reason.clone());
    }
    // What a torch has only its Python can tell: its ranks do, when they start.
    if !is_pytorch(case) {
        check_backend(case)?;
    }
    let ranks = case.ranks();
    let isolated = Common::of(case).map_err(|problem| problem.message)?.mode == Mode::Isolated;
    if isolated && !is_simulated(case) && ranks as usize > host.cores {
        return Err(format!("isolated mode needs a core for each rank: {ranks} ranks, {} cores", host.cores));
    }
    if let Some(benchmark) = benchmark(&case.benchmark) {
        benchmark.admit(case, host)?;
    }
    check_memory(case, ranks, host)
}

fn check_backend(case: &Case) -> Result<(), String> {
    let backend = backend_of(case).ok_or_else(|| "there is no such backend".to_owned())?;
    let world = World::of(case).map_err(|problem| problem.message)?;
    match backend.probe_library(world.mpi_library.as_deref()) {
        Readiness::Ready { .. } => Ok(()),
        Readiness::Missing { why, hint } => {
            Err(format!("backend `{}` is not ready: {why} (hint: {hint})", backend.about().name))
        }
    }
}

fn check_memory(case: &Case, ranks: u32, host: &Host) -> Result<(), String> {
    let Some(benchmark) = benchmark(&case.benchmark) else { return Ok(()) };
    let Some(available) = (host.available_memory)() else { return Ok(()) };
    // Of several hosts the one with most ranks; they are taken to have what this one has.
    let spread = host.spread.as_ref().filter(|_| !is_in_process(case));
    let (all, ranks) = (ranks.max(1), spread.map_or(ranks, |spread| spread.most.min(ranks)));
    let buffers = benchmark.memory(case) / u64::from(all) * u64::from(ranks);
    let each = match (is_in_process(case), is_pytorch(case)) {
        (true, _) => THREAD_OVERHEAD,
        (_, true) => TORCH_OVERHEAD,
        _ => RANK_OVERHEAD,
    };
    let overhead = each * u64::from(ranks);
    let wanted = buffers.saturating_add(overhead);
    if wanted <= available {
        return Ok(());
    }
    Err(format!(
        "not enough memory: {} of buffers ({} for each of {ranks} ranks) + {} for the ranks themselves = {}, and {} are \
         available",
        Bytes(buffers).about(),
        Bytes(buffers / u64::from(ranks.max(1))).about(),
        Bytes(overhead).about(),
        Bytes(wanted).about(),
        Bytes(available).about(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(fields: &[(&str, &str)]) -> Case {
        let fields: Vec<_> = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        record::plan::from_flags(benchmarks::abouts()[0], &fields, &[]).unwrap().cases.remove(0)
    }

    #[test]
    fn pairs_are_on_one_host_or_on_two() {
        // A launcher may deal ranks out to hosts in turn.
        let spread = Spread { hosts: 2, most: 2, of: vec![0, 1, 0, 1] };
        let pair = |peer: &str| hosts_of_pair(&spread, &case(&[("op", "ping_pong"), ("ranks", "4"), ("peer", peer)]));
        assert_eq!(["1", "2", "3"].map(pair), [Some(2), Some(1), Some(2)]);
        assert_eq!(hosts_of_pair(&spread, &case(&[("op", "ping_pong"), ("ranks", "4")])), Some(2), "with rank 1");
        assert_eq!(hosts_of_pair(&spread, &case(&[("op", "all_reduce"), ("ranks", "4")])), None);
    }

    #[test]
    fn memory_is_counted_before_anything_is_allocated() {
        let host = Host { spread: None, cores: 2, available_memory: || Some(1 << 30), virtualised: false };
        let fits = |fields: &[(&str, &str)]| admit(&case(fields), &host);
        assert_eq!(fits(&[("bytes", "1KiB")]), Ok(()));
        let told = fits(&[("bytes", "1GiB")]).unwrap_err();
        assert!(
            told.contains("+ 128 MiB for the ranks themselves") && told.contains("1.00 GiB are available"),
            "{told}"
        );
        assert!(fits(&[("bytes", "1KiB"), ("ranks", "16")]).is_err(), "processes have their overhead");
        assert_eq!(fits(&[("bytes", "1KiB"), ("ranks", "16"), ("backend", "sim")]), Ok(()), "threads have not");
        let spread = Some(Spread { hosts: 8, most: 2, of: (0..16).map(|rank| rank / 2).collect() });
        assert_eq!(
            admit(&case(&[("bytes", "1KiB"), ("ranks", "16")]), &Host { spread, ..host }),
            Ok(()),
            "two on each of eight hosts"
        );
        assert_eq!(admit(&case(&[("bytes", "1TB")]), &Host { available_memory: || None, ..host }), Ok(()));
    }
}
