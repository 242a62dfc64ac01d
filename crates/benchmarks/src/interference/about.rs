//! What the benchmark declares: its entry, and which combinations of fields make sense.

use contract::fields::{Execution, Sampling, Supports, World, problem};
use contract::runtime::{self, Native};
use record::{About, Case, Command, WriteFields as _};
use terms::{FieldError, Named};

use super::activity;
use super::declared::METRICS;
use super::fields::{Activity, Beside, InterferenceFields, all_own, own};

/// The table entry.
pub(super) static ABOUT: About = About {
    name: "interference",
    doc: "interference: what products, collectives, copies and reads cost each other",
    fields: &[InterferenceFields::fields, Execution::fields, World::fields, comm::fields, Sampling::fields],
    metrics: METRICS,
    check,
    command: Some(Command {
        name: "interference",
        doc: "Measures what slows collectives and products down: each activity alone, and two at a time",
        argument: "activity",
        examples: &[
            ("", "each activity with each other"),
            ("--ranks 2 --quick", "the same, as a first look"),
            ("product,collective --collective-bytes 64MiB", "these two, with each activity"),
            ("collective --beside product --threads 3", "one pair"),
        ],
        notes: "docs/how-to/interference.md explains the matrix of slowdowns.",
        sweep: None,
    }),
    show: super::show::show,
};

pub(super) fn check(case: &mut Case) -> Result<(), FieldError> {
    runtime::resolve(case, &[], Native::Host)?;
    if contract::is_pytorch(case) {
        let message = "`interference` measures native ranks: torch's own threads are not under its control";
        return Err(problem(
            "runtime",
            message,
            "leave `runtime` out and name a backend with native ranks: `shm` on one host, `mpi` under mpirun or srun on several",
        ));
    }
    if contract::is_simulated(case) {
        let message = "a simulated backend does not model interference";
        return Err(problem("backend", message, "use another backend, for example `shm`"));
    }
    let given = InterferenceFields::of(case)?;
    // Ranks of other threads are others.
    let fields = InterferenceFields { threads: Some(given.threads.unwrap_or(1)), ..given.clone() };
    fields.write(&given, case);
    contract::fields::check(case, &ABOUT, Supports::default())?;
    runtime::check(case, &[], Native::Host)?;
    check_sizes(&fields)?;
    if fields.activity == Activity::All || fields.beside == Beside::All {
        // The cases that it stands for are checked one by one.
        return Ok(());
    }
    resolve_pair(case, &fields)
}

/// Refuses sizes that an activity of the case cannot have.
fn check_sizes(fields: &InterferenceFields) -> Result<(), FieldError> {
    let has_all = fields.activity == Activity::All || fields.beside == Beside::All;
    let is_there = |of: &Activity| has_all || fields.activity == *of || fields.beside.activity() == Some(*of);
    let refusal = |of: Activity| activity::refusal(of, fields);
    match Activity::EACH.into_iter().filter(is_there).find_map(refusal) {
        Some((field, what, hint)) => Err(problem(field, what, hint)),
        None => Ok(()),
    }
}

/// Leaves out what means nothing in the pair, and skips what cannot be.
fn resolve_pair(case: &mut Case, fields: &InterferenceFields) -> Result<(), FieldError> {
    let pair = [Some(fields.activity), fields.beside.activity()];
    let concerned: Vec<&str> = pair.into_iter().flatten().flat_map(|of| own(of).iter().copied()).collect();
    for name in all_own().filter(|name| !concerned.contains(name)) {
        case.parameters.shift_remove(name);
    }
    if fields.beside.activity() == Some(fields.activity) {
        case.skip =
            Some(format!("`{}` cannot run concurrently with itself: choose another activity", fields.activity.name()));
    }
    let threads =
        World::of(case)?.progress_thread || contract::backend_of(case).is_none_or(|backend| backend.takes_threads());
    if fields.beside != Beside::None && !threads {
        let name = fields.backend.clone().unwrap_or_default();
        case.skip = Some(format!(
            "`{name}` serves one thread of a rank, and two activities run in two: `--progress-thread` serves both"
        ));
    }
    contract::fields::reorder(case, &ABOUT);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::expand::complete;
    use super::*;

    fn cases(fields: &[(&str, &str)]) -> Result<Vec<Case>, String> {
        let mut plan = record::plan::from_flags(&ABOUT, fields, &[]).map_err(|errors| errors.to_string())?;
        complete(&mut plan);
        Ok(plan.cases)
    }

    fn pairs(cases: &[Case]) -> Vec<(String, String)> {
        let text = |case: &Case, name: &str| case.text(name).unwrap_or_default().to_owned();
        cases.iter().map(|case| (text(case, "activity"), text(case, "beside"))).collect()
    }

    #[test]
    fn without_an_activity_each_is_measured_alone_and_beside_each_other() {
        let all = cases(&[]).unwrap();
        let seen = pairs(&all);
        for activity in Activity::EACH {
            let of: Vec<&str> =
                seen.iter().filter(|(of, _)| of == activity.name()).map(|(_, beside)| beside.as_str()).collect();
            let others = Activity::EACH.iter().filter(|other| **other != activity).map(|other| other.name());
            assert_eq!(of, std::iter::once("none").chain(others).collect::<Vec<_>>(), "{activity}");
        }
        assert_eq!(all.len(), 25);
        assert!(all.iter().all(|case| case.skip.is_none()), "{all:?}");
    }

    #[test]
    fn a_case_has_the_fields_of_its_pair_and_no_others() {
        let names = |activity: &str, beside: &str| -> Vec<String> {
            let all = cases(&[("activity", activity), ("beside", beside)]).unwrap();
            let case = all.iter().find(|case| case.text("beside") == Some(beside)).unwrap();
            all_own().filter(|name| case.value(name).is_some()).map(str::to_owned).collect()
        };
        assert_eq!(names("product", "none"), ["product_size"]);
        assert_eq!(names("product", "host_copy"), ["product_size", "copy_bytes"]);
        let collectives = ["collective_op", "collective_bytes", "collective_op", "second_bytes"];
        assert_eq!(names("collective", "second"), collectives);
    }

    #[test]
    fn a_pair_brings_what_is_timed_alone_and_only_once() {
        let some = cases(&[("activity", "product"), ("beside", "host_copy"), ("copy_bytes", "1MiB,2MiB")]).unwrap();
        let pair = |beside: &str| ("product".to_owned(), beside.to_owned());
        assert_eq!(pairs(&some), [pair("none"), pair("host_copy"), pair("host_copy")]);
        let alone = cases(&[("activity", "product"), ("beside", "none")]).unwrap();
        assert_eq!((alone.len(), &alone[0].id), (1, &some[0].id));
    }

    #[test]
    fn a_plan_that_is_read_again_has_the_same_cases() {
        let mut plan = record::plan::from_defaults(&ABOUT).unwrap();
        complete(&mut plan);
        let before = plan.cases.clone();
        complete(&mut plan);
        assert_eq!(plan.cases, before);
    }

    #[test]
    fn ranks_of_other_threads_are_others() {
        let case = &cases(&[("threads", "3"), ("activity", "product"), ("beside", "collective")]).unwrap()[1];
        assert_eq!((case.threads(), case.world.get("threads")), (3, Some(&3.into())));
        use contract::Benchmark as _;

        use super::super::InterferenceBenchmark;
        let wanted = |case: &Case| InterferenceBenchmark.parse(case).unwrap().cores_wanted();
        // Two ranks of three threads, and one more each beside them.
        assert_eq!(wanted(case), 8);
        let alone = &cases(&[("activity", "product"), ("beside", "none")]).unwrap()[0];
        assert_eq!(wanted(alone), 2);
    }

    #[test]
    fn what_cannot_be_is_refused_or_skipped_by_name() {
        for (fields, said) in [
            (vec![("backend", "sim")], "does not model interference"),
            (vec![("runtime", "pytorch")], "measures native ranks"),
            (vec![("backend", "gloo")], "measures native ranks"),
            (
                vec![("activity", "collective"), ("collective_bytes", "7"), ("beside", "none")],
                "into whole elements of each",
            ),
            (vec![("activity", "host_copy"), ("copy_bytes", "8"), ("beside", "none")], "of two arrays"),
            (vec![("collective_op", "barrier")], "valid values"),
        ] {
            let why = cases(&fields).unwrap_err();
            assert!(why.contains(said), "{fields:?}: {why}");
        }
        let skip = |fields: &[(&str, &str)]| cases(fields).unwrap().pop().unwrap().skip.unwrap_or_default();
        assert!(skip(&[("activity", "product"), ("beside", "product")]).contains("concurrently with itself"));
        let mpi = [("backend", "mpi"), ("activity", "product"), ("beside", "collective")];
        assert!(skip(&mpi).contains("serves one thread"), "{}", skip(&mpi));
        let alone = cases(&mpi).unwrap().remove(0);
        assert_eq!(alone.skip, None, "alone, one thread calls");
        assert_eq!(skip(&[&mpi[..], &[("progress_thread", "true")]].concat()), "");
    }
}
