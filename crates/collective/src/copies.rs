//! Copies of a case's buffers: with `cache: cold` calls rotate through as many as no cache holds, as IMB's `-off_cache` does.

use contract::Host;
use contract::fields::problem;
use contract::runtime::{is_pytorch, is_simulated};
use measure::machine;
use record::Case;
use terms::{Bytes, Cache, Collective, FieldError};

use super::fields::Fields;
use super::parameters::Parameters;

/// The setting that says how large all copies of all ranks are together.
const COLD_BYTES: &str = "cold_bytes";

/// Copies begin pairs of lines, which processors fetch together.
const ALIGNED: usize = 128;

/// More copies than this take longer to fill and check than anybody waits: of a few bytes each, for hundreds of MiB.
const MOST: u64 = 1 << 20;

/// All copies are this many times as large as the caches that they must not stay in.
const TIMES: u64 = 2;

impl Parameters {
    /// Copies of the buffers: one, unless the cache is to be cold.
    pub(super) fn copies(&self) -> u64 {
        let Some(wanted) = self.cold_bytes else { return 1 };
        let lines = |bytes: usize| bytes.next_multiple_of(64) as u64;
        let of_rank = |(input, output): (usize, usize)| {
            if self.in_place { lines(input.max(output)) } else { lines(input) + lines(output) }
        };
        let each: u64 = (0..self.ranks).map(|rank| of_rank(self.lengths(rank))).fold(0, u64::saturating_add);
        (wanted / each.max(1) + 1).max(2)
    }

    /// Bytes from one copy of a buffer of this length to the next; zero where there is one.
    pub(super) fn step(&self, len: usize) -> usize {
        if self.cold_bytes.is_some() { len.next_multiple_of(ALIGNED) } else { 0 }
    }

    /// Bytes of a region that holds all copies of a buffer of this length.
    pub(super) fn region(&self, len: usize) -> Option<usize> {
        match self.copies() {
            1 => Some(len),
            copies => self.step(len).checked_mul(usize::try_from(copies).ok()?),
        }
    }
}

/// Settles how large all copies are, and refuses what cannot be cold. The size is found here, once, because all ranks must
/// have as many copies.
pub(super) fn resolve(fields: &mut Fields, case: &Case) -> Result<(), FieldError> {
    let Fields { op, cache, cold_bytes, .. } = *fields;
    if op == Collective::Barrier || cache != Some(Cache::Cold) {
        // Beside `cold` in a list, and for other operations, it is for the other cases.
        if op != Collective::Barrier && cache.is_none() && cold_bytes.is_some() {
            return Err(problem(COLD_BYTES, "`cold_bytes` is for `cache: cold`", "add `cache: cold`"));
        }
        (fields.cache, fields.cold_bytes) = (None, None);
        return Ok(());
    }
    if is_pytorch(case) {
        let message =
            "`cache: cold` is for runtime `native`: torch's tensors are bound to calls before these are timed";
        return Err(problem("cache", message, "leave `cache` out for `pytorch`"));
    }
    if is_simulated(case) {
        let message = "`cache: cold` needs caches: times of a simulated backend are computed";
        return Err(problem("cache", message, "leave `cache` out, or choose another backend"));
    }
    if fields.touch {
        let message =
            "`cache: cold` and `touch: true` exclude each other: buffers that were just rewritten are in the caches";
        return Err(problem("cache", message, "give one of the two"));
    }
    if cold_bytes.is_none() {
        let caches = machine::last_level_bytes(&machine::allowed_cpus()).ok_or_else(|| {
            problem(
                "cache",
                "the system does not report the size of its last-level cache",
                "give `cold_bytes`, for example `cold_bytes: 128MiB`",
            )
        })?;
        fields.cold_bytes = Some(caches.saturating_mul(TIMES));
    }
    Ok(())
}

/// Refuses more copies than can be filled and checked. After the size was rounded.
pub(super) fn check(case: &Case, fields: &Fields) -> Result<(), FieldError> {
    let Ok(parameters) = Parameters::new(case, fields) else { return Ok(()) };
    let copies = parameters.copies();
    if copies <= MOST || case.skip.is_some() {
        return Ok(());
    }
    let wanted = Bytes(parameters.cold_bytes.unwrap_or(0)).about();
    let message =
        format!("{} of all ranks' buffers need {copies} copies: at most {MOST} can be filled and checked", wanted);
    Err(problem("cache", message, "use larger `bytes`, or a smaller `cold_bytes`"))
}

/// Skips what the size of the caches is not known for: it is that of this host, for all ranks together.
pub(super) fn admit(parameters: &Parameters, host: &Host) -> Result<(), String> {
    match &host.spread {
        Some(spread) if spread.hosts > 1 && parameters.cold_bytes.is_some() => Err(format!(
            "`cache: cold` is sized for the caches of one host, but ranks are on {} hosts: put all ranks on one",
            spread.hosts
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CollectiveBenchmark;
    use contract::{Benchmark, Spread};

    fn cases(fields: &[(&str, &str)]) -> Result<Vec<Case>, String> {
        let plan = record::plan::from_flags(CollectiveBenchmark.about(), fields, &[]);
        plan.map(|plan| plan.cases).map_err(|errors| errors.to_string())
    }

    const COLD: (&str, &str) = ("cache", "cold");

    #[test]
    fn what_cannot_be_cold_is_refused_by_name() {
        for (fields, said) in [
            (vec![COLD, ("touch", "true")], "`cache: cold` and `touch: true` exclude each other"),
            (vec![COLD, ("backend", "sim")], "times of a simulated backend are computed"),
            (vec![COLD, ("runtime", "pytorch")], "`cache: cold` is for runtime `native`"),
            (vec![COLD, ("bytes", "4"), ("cold_bytes", "1GiB")], "copies: at most 1048576"),
            (vec![("cold_bytes", "1MiB")], "`cold_bytes` is for `cache: cold`"),
            (vec![("cache", "hot")], "warm, cold"),
        ] {
            let error = cases(&fields).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn a_cold_case_is_another_and_its_size_is_recorded() {
        let both = cases(&[("cache", "warm,cold"), ("cold_bytes", "64MiB")]).unwrap();
        let plain = cases(&[]).unwrap();
        assert_eq!((both.len(), &both[0].id), (2, &plain[0].id));
        assert_ne!(both[1].id, plain[0].id);
        assert_eq!((both[1].text("cache"), both[1].whole(COLD_BYTES)), (Some("cold"), Some(64 << 20)));
        // The size is how, not what: another machine's caches are larger.
        assert_eq!(both[1].id, cases(&[COLD, ("cold_bytes", "1MiB")]).unwrap()[0].id);
        if let Some(caches) = machine::last_level_bytes(&machine::allowed_cpus()) {
            assert_eq!(cases(&[COLD]).unwrap()[0].whole(COLD_BYTES), Some(2 * caches));
        }
        assert!(cases(&[COLD, ("op", "barrier")]).unwrap()[0].whole(COLD_BYTES).is_none());
    }

    #[test]
    fn copies_exceed_what_was_asked_for_and_are_counted_as_memory() {
        for op in ["all_reduce", "all_gather", "gather", "all_to_allv", "ping_pong"] {
            for (in_place, bytes) in [("true", "1000"), ("false", "1000"), ("false", "1MiB")] {
                let cold = [("op", op), ("in-place", in_place), ("bytes", bytes), COLD, ("cold_bytes", "8MiB")];
                let Ok(case) = cases(&cold) else { continue };
                let parameters = Parameters::new(&case[0], &Fields::of(&case[0]).unwrap()).unwrap();
                let held =
                    |rank| parameters.lengths(rank).0.max(parameters.lengths(rank).1).next_multiple_of(64) as u64;
                let least = parameters.copies() * (0..2).map(held).sum::<u64>();
                let memory = CollectiveBenchmark.parse(&case[0]).unwrap().memory();
                assert!(memory > 8 << 20 && memory >= least, "{op} {in_place} {bytes}: {memory}");
                assert!(memory < 40 << 20, "{op} {in_place} {bytes}: {memory}");
            }
        }
    }

    #[test]
    fn ranks_on_several_hosts_are_skipped() {
        let spread = Spread { hosts: 2, most: 1, of: vec![0, 1], link: None };
        let host =
            Host { spread: Some(spread), cores: 2, available_memory: || None, virtualised: false, launched: None };
        let admitted =
            |fields: &[(&str, &str)]| CollectiveBenchmark.parse(&cases(fields).unwrap()[0]).unwrap().admit(&host);
        let reason = admitted(&[COLD, ("cold_bytes", "1MiB"), ("backend", "reference")]).unwrap_err();
        assert!(reason.contains("ranks are on 2 hosts"), "{reason}");
        assert_eq!(admitted(&[("backend", "reference")]), Ok(()));
    }
}
