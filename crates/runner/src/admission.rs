//! Whether a case can run on this machine at all, decided before any rank starts or allocates.

use std::cell::OnceCell;
use std::cmp::Ordering;
use std::collections::HashMap;

use benchmarks::{
    Common, Host, Launched, ParsedCase, Spread, backend_of, is_in_process, is_modelled, is_pytorch, is_simulated,
};
use comm::Readiness;
use record::Case;
use terms::{Bytes, Mode};

/// Hosts of the two ranks that a case's calls go between: 1 or 2. None where all ranks take part.
pub(crate) fn hosts_of_pair(spread: &Spread, parsed: &dyn ParsedCase) -> Option<u32> {
    let peer = parsed.peer()? as usize;
    Some(if spread.of.first()? == spread.of.get(peer)? { 1 } else { 2 })
}

/// What a rank's process needs in addition to the case's buffers: 6 MiB of its own were measured with 2 to 1,024 ranks, and
/// as much again is kept free.
const RANK_OVERHEAD: u64 = 12 << 20;

/// What a rank that is a thread needs in addition to the case's buffers: its stack and a few queues.
const THREAD_OVERHEAD: u64 = 1 << 20;

/// What a rank that a model computes needs in addition to the case's buffers: its clock and times.
const MODELLED_OVERHEAD: u64 = 8 << 10;

/// Ranks that are threads of this process, at most: each call of theirs takes all of them in turn.
const MOST_THREADS: u32 = 256;

/// What a rank that is a Python with torch in it needs in addition to the case's buffers: 713 MB after a first backward pass
/// (torch 2.15), 792 MB once it has compiled, libraries that ranks share among them.
const TORCH_OVERHEAD: u64 = 768 << 20;

/// Whether memory is all that the case lacks, so that it may run once others have given theirs back.
pub(crate) fn lacks_memory(parsed: &dyn ParsedCase, host: &Host) -> bool {
    check_memory(parsed, host, host.available_memory).is_err()
}

/// Reads a case, and checks whether it can run here.
///
/// # Errors
/// What this machine lacks, as the reason to skip the case.
pub fn admit(case: &Case, host: &Host) -> Result<Box<dyn ParsedCase>, String> {
    Admission::new(host).admit(case)
}

/// Admission of many cases at one moment: memory is read once, and each library is looked at once. A run asks again for
/// every case, because its own worlds change what is left.
pub struct Admission<'h> {
    host: &'h Host,
    available: OnceCell<Option<u64>>,
    /// By backend and the library that a case names.
    backends: HashMap<(&'static str, Option<String>), Result<(), String>>,
}

impl<'h> Admission<'h> {
    /// Admission to this machine; looks at nothing yet.
    pub fn new(host: &'h Host) -> Self {
        Self { host, available: OnceCell::new(), backends: HashMap::new() }
    }

    /// As [`admit`].
    ///
    /// # Errors
    /// The reason.
    pub fn admit(&mut self, case: &Case) -> Result<Box<dyn ParsedCase>, String> {
        let parsed = benchmarks::parse(case).map_err(|refused| refused.error.on_one_line())?;
        self.check(&*parsed).map(|()| parsed)
    }

    /// Checks whether a case that was read can run here.
    ///
    /// # Errors
    /// The reason.
    pub fn check(&mut self, parsed: &dyn ParsedCase) -> Result<(), String> {
        let case = parsed.case();
        if let Some(reason) = &case.skip {
            return Err(reason.clone());
        }
        if parsed.is_planned(self.host) {
            return Ok(());
        }
        self.check_launched(case)?;
        // What a torch has only its Python can tell: its ranks do, when they start.
        if !is_pytorch(case) {
            self.check_backend(case)?;
        }
        let (ranks, host) = (case.ranks(), self.host);
        let isolated = Common::of(case).map_err(|refused| refused.error.what)?.mode == Mode::Isolated;
        if isolated && !is_simulated(case) && ranks as usize > host.cores {
            return Err(format!("isolated mode needs a core for each rank: {ranks} ranks, {} cores", host.cores));
        }
        if is_in_process(case) && !is_modelled(parsed) && ranks > MOST_THREADS {
            return Err(format!(
                "its {ranks} ranks would be threads of one process, which supports at most {MOST_THREADS} of them"
            ));
        }
        parsed.admit(host)?;
        check_memory(parsed, host, || *self.available.get_or_init(host.available_memory))
    }

    /// Checks a case of a launcher's ranks, of which a world takes the first ones: fewer can be, more cannot. A backend whose
    /// ranks the launcher connects has all of them.
    fn check_launched(&self, case: &Case) -> Result<(), String> {
        let Some(Launched { by, ranks: started }) = self.host.launched.filter(|_| !is_in_process(case)) else {
            return Ok(());
        };
        let needs_all = || backend_of(case).is_some_and(|backend| backend.about().launched);
        let (ranks, count) = (case.ranks(), |ranks: u32| format!("{ranks} rank{}", if ranks == 1 { "" } else { "s" }));
        let what = format!("{by} started {}, but this case needs {}", count(started), count(ranks));
        match ranks.cmp(&started) {
            Ordering::Greater => Err(what),
            Ordering::Less if needs_all() => {
                let name = backend_of(case).map_or("", |backend| backend.about().name);
                Err(format!("{what}: `{name}` always uses all ranks of its launcher"))
            }
            _ => Ok(()),
        }
    }

    fn check_backend(&mut self, case: &Case) -> Result<(), String> {
        let backend = backend_of(case).ok_or_else(|| "there is no such backend".to_owned())?;
        let library = benchmarks::library_of(case).map(str::to_owned);
        let look = |library: Option<&str>| match backend.probe_library(library) {
            Readiness::Ready { .. } => Ok(()),
            Readiness::Missing { why, hint } => {
                Err(format!("backend `{}` is not ready: {why} (hint: {hint})", backend.about().name))
            }
        };
        let key = (backend.about().name, library);
        self.backends.entry(key).or_insert_with_key(|(_, library)| look(library.as_deref())).clone()
    }
}

/// What a case needs on the host that has most of its ranks.
struct Need {
    buffers: u64,
    overhead: u64,
    /// Ranks there.
    ranks: u32,
}

fn need(parsed: &dyn ParsedCase, host: &Host) -> Need {
    let case = parsed.case();
    // Of several hosts the one with most ranks; they are taken to have what this one has.
    let spread = host.spread.as_ref().filter(|_| !is_in_process(case));
    let all = case.ranks();
    let ranks = spread.map_or(all, |spread| spread.most.min(all));
    let buffers = parsed.memory() / u64::from(all.max(1)) * u64::from(ranks);
    let each = match (is_in_process(case), is_pytorch(case)) {
        (true, _) if is_modelled(parsed) => MODELLED_OVERHEAD,
        (true, _) => THREAD_OVERHEAD,
        (_, true) => TORCH_OVERHEAD,
        _ => RANK_OVERHEAD,
    };
    Need { buffers, overhead: each * u64::from(ranks), ranks }
}

/// Bytes that the ranks of a case need together, by what is counted before they start.
pub fn memory_of(parsed: &dyn ParsedCase) -> u64 {
    let case = parsed.case();
    let each = if is_pytorch(case) { TORCH_OVERHEAD } else { RANK_OVERHEAD };
    parsed.memory().saturating_add(each.saturating_mul(case.ranks().into()))
}

/// Whether both cases can hold their memory at once, in worlds that are alive together; if not, why.
pub(crate) fn admit_both(sides: &[Box<dyn ParsedCase>; 2], host: &Host) -> Result<(), String> {
    let Some(available) = (host.available_memory)() else { return Ok(()) };
    let [a, b] =
        sides.each_ref().map(|side| need(&**side, host)).map(|need| need.buffers.saturating_add(need.overhead));
    if a.saturating_add(b) <= available {
        return Ok(());
    }
    Err(format!(
        "not enough memory for both sides at once: {} for A + {} for B, but {} is available",
        Bytes(a).about(),
        Bytes(b).about(),
        Bytes(available).about(),
    ))
}

fn check_memory(parsed: &dyn ParsedCase, host: &Host, available: impl FnOnce() -> Option<u64>) -> Result<(), String> {
    let Some(available) = available() else { return Ok(()) };
    let Need { buffers, overhead, ranks } = need(parsed, host);
    let wanted = buffers.saturating_add(overhead);
    if wanted <= available {
        return Ok(());
    }
    Err(format!(
        "not enough memory: {} of buffers ({} for each of {ranks} ranks) + {} for the ranks themselves = {}, but {} is \
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
        record::plan::from_flags(benchmarks::abouts()[0], fields, &[]).unwrap().cases.remove(0)
    }

    fn admitted(case: &Case, host: &Host) -> Result<(), String> {
        admit(case, host).map(drop)
    }

    #[test]
    fn pairs_are_on_one_host_or_on_two() {
        // A launcher may deal ranks out to hosts in turn.
        let spread = Spread { hosts: 2, most: 2, of: vec![0, 1, 0, 1], link: None };
        let of = |fields: &[(&str, &str)]| hosts_of_pair(&spread, &*benchmarks::parse(&case(fields)).unwrap());
        let pair = |peer: &str| of(&[("op", "ping_pong"), ("ranks", "4"), ("peer", peer)]);
        assert_eq!(["1", "2", "3"].map(pair), [Some(2), Some(1), Some(2)]);
        assert_eq!(of(&[("op", "ping_pong"), ("ranks", "4")]), Some(2), "with rank 1");
        assert_eq!(of(&[("op", "all_reduce"), ("ranks", "4")]), None);
    }

    #[test]
    fn memory_is_read_once_for_many_cases_and_again_for_every_case_alone() {
        use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
        static READ: AtomicU32 = AtomicU32::new(0);
        let read = || {
            READ.fetch_add(1, Relaxed);
            Some(1 << 30)
        };
        let host = Host { spread: None, cores: 2, available_memory: read, virtualised: false, launched: None };
        let (small, large) = (case(&[("bytes", "1KiB")]), case(&[("bytes", "1GiB")]));
        let mut admission = Admission::new(&host);
        for _ in 0..3 {
            assert!(admission.admit(&small).is_ok());
            assert!(admission.admit(&large).is_err());
        }
        assert_eq!(READ.load(Relaxed), 1);
        assert!(admit(&small, &host).is_ok() && admit(&large, &host).is_err());
        assert_eq!(READ.load(Relaxed), 3);
    }

    #[test]
    fn a_launcher_has_worlds_of_its_ranks_and_of_fewer() {
        let launched = Some(Launched { by: "torchrun", ranks: 4 });
        let host = Host { spread: None, cores: 4, available_memory: || None, virtualised: false, launched };
        let admitted = |fields: &[(&str, &str)]| self::admitted(&case(fields), &host);
        for ranks in ["1", "2", "4"] {
            assert_eq!(admitted(&[("ranks", ranks), ("bytes", "1KiB")]), Ok(()), "{ranks}");
        }
        let more = admitted(&[("ranks", "8"), ("bytes", "1KiB")]).unwrap_err();
        assert_eq!(more, "torchrun started 4 ranks, but this case needs 8 ranks");
        assert_eq!(
            admitted(&[("ranks", "8"), ("backend", "sim"), ("bytes", "1KiB")]),
            Ok(()),
            "a model needs no ranks"
        );
        let fewer = admitted(&[("ranks", "2"), ("backend", "mpi"), ("bytes", "1KiB")]).unwrap_err();
        assert!(fewer.contains("`mpi` always uses all ranks of its launcher"), "{fewer}");
    }

    #[test]
    fn a_backend_is_looked_at_once_for_each_library() {
        let host = Host { spread: None, cores: 2, available_memory: || None, virtualised: false, launched: None };
        let mut admission = Admission::new(&host);
        let by_library = |library: &str| case(&[("backend", "mpi"), ("mpi_library", library)]);
        let [one, other] = ["/no/such/libmpi.so", "/no/other/libmpi.so"].map(by_library);
        let refusals = [&one, &other, &one].map(|case| admission.admit(case).err().unwrap());
        assert!(
            refusals[0].contains("/no/such/libmpi.so") && refusals[1].contains("/no/other/libmpi.so"),
            "{refusals:?}"
        );
        assert_eq!((refusals[0] == refusals[2], admission.backends.len()), (true, 2));
        assert!(admission.admit(&case(&[("backend", "sim")])).is_ok());
    }

    #[test]
    fn memory_is_counted_before_anything_is_allocated() {
        let host =
            Host { spread: None, cores: 2, available_memory: || Some(1 << 30), virtualised: false, launched: None };
        let fits = |fields: &[(&str, &str)]| self::admitted(&case(fields), &host);
        assert_eq!(fits(&[("bytes", "1KiB")]), Ok(()));
        let refusal = fits(&[("bytes", "1GiB")]).unwrap_err();
        assert!(
            refusal.contains("+ 24.0 MiB for the ranks themselves") && refusal.contains("1.00 GiB is available"),
            "{refusal}"
        );
        assert!(fits(&[("bytes", "1KiB"), ("ranks", "128")]).is_err(), "processes have their overhead");
        assert_eq!(fits(&[("bytes", "1KiB"), ("ranks", "128"), ("backend", "sim")]), Ok(()), "threads have not");
        let roomy = Host { available_memory: || Some(16 << 30), ..host.clone() };
        assert_eq!(admitted(&case(&[("bytes", "1KiB"), ("ranks", "1024")]), &roomy), Ok(()), "what it needs is there");
        let spread = Some(Spread { hosts: 64, most: 2, of: (0..128).map(|rank| rank / 2).collect(), link: None });
        assert_eq!(
            admitted(&case(&[("bytes", "1KiB"), ("ranks", "128")]), &Host { spread, ..host }),
            Ok(()),
            "two on each host"
        );
        assert_eq!(admitted(&case(&[("bytes", "1TB")]), &Host { available_memory: || None, ..host }), Ok(()));
    }
}
