//! What the benchmark declares: its entry, and which combinations of fields make sense.

use contract::fields::{Execution, Sampling, Supports, World, problem};
use contract::runtime::{self, Native};
use record::{About, Case, Caveat, Command, WriteFields as _};
use serde_json::Value;
use terms::FieldError;

use super::call::{BYTES, OP, used_bytes};
use super::declared::METRICS;
use super::fields::{Stage, Start, StartupFields};

/// The table entry.
pub(super) static ABOUT: About = About {
    name: "startup",
    doc: "start-up: joining, the first call, each further communicator",
    fields: &[StartupFields::fields, Execution::fields, World::fields, comm::fields, Sampling::fields],
    metrics: METRICS,
    check,
    command: Some(Command {
        name: "startup",
        doc: "Measures how long ranks take until they can communicate, and which rank comes last",
        argument: "stage",
        examples: &[
            ("", "every stage, cold and warm"),
            ("--ranks 1,2,4 --backend shm,mpi", "by ranks and backend"),
            ("first_call --bytes 1KiB,1MiB", "the first call against a later one"),
            ("communicator --communicators 0,8,64", "does a further one cost more?"),
        ],
        notes: "docs/how-to/startup.md says what each stage covers.",
        sweep: None,
    }),
    show: super::show::show,
};

pub(super) fn check(case: &mut Case) -> Result<(), FieldError> {
    let native = Native::GpusThroughHost;
    runtime::resolve(case, &[], native)?;
    if contract::is_pytorch(case) {
        // As torchrun does. Ranks of other cases find each other through a file, where each look-up takes up to 10 ms.
        case.world.insert("rendezvous".to_owned(), Value::from("tcp"));
    }
    if contract::is_simulated(case) {
        let message = "a simulated backend models operations, not how ranks join";
        return Err(problem("backend", message, "use another backend, for example `shm`"));
    }
    let given = StartupFields::of(case)?;
    let mut fields = given.clone();
    check_fields(&fields)?;
    contract::fields::check(case, &ABOUT, Supports::default())?;
    runtime::check(case, &[], native)?;
    if fields.stage == Stage::All || fields.start == Start::Both {
        // The cases that it stands for are checked one by one.
        return Ok(());
    }
    resolve_call(&mut fields, case);
    fields.write(&given, case);
    if fields.start == Start::Cold {
        sample_once(case)?;
    }
    // Torch joins by the same library.
    let library = comm::backend(fields.backend.as_deref().unwrap_or_default());
    let joins_once = library.is_some_and(|backend| backend.about().launched);
    if fields.stage == Stage::Join && fields.start == Start::Warm && joins_once {
        let name = fields.backend.unwrap_or_default();
        case.skip = Some(format!(
            "a process can join {name} only once, since its library can be initialised only once: use `start: cold`"
        ));
    }
    contract::fields::reorder(case, &ABOUT);
    Ok(())
}

/// Refuses what means nothing in the stage.
fn check_fields(fields: &StartupFields) -> Result<(), FieldError> {
    let StartupFields { stage, start, .. } = *fields;
    if stage == Stage::LaterCall && start == Start::Cold {
        let message =
            "a later call runs in processes that have made such calls before: it does not support `start: cold`";
        return Err(problem("start", message, "`start: warm`, or `stage: first_call`"));
    }
    let given = [
        ("op", fields.op.is_some(), stage.is_call()),
        ("bytes", fields.bytes.is_some(), stage.is_call()),
        ("communicators", fields.communicators.is_some(), stage == Stage::Communicator),
    ];
    for (name, is_given, has_meaning) in given {
        if is_given && stage != Stage::All && !has_meaning {
            return Err(problem(name, format!("{stage} does not use `{name}`"), "leave it out"));
        }
    }
    Ok(())
}

/// Writes down what the case leaves open. Sizes that do not divide round down, visibly; zero elements are skipped.
fn resolve_call(fields: &mut StartupFields, case: &mut Case) {
    if !fields.stage.is_call() {
        return;
    }
    let (op, bytes) = (fields.op.unwrap_or(OP), fields.bytes.unwrap_or(BYTES));
    let used = used_bytes(op, bytes, fields.ranks);
    (fields.op, fields.bytes) = (Some(op), Some(used));
    // A case that was settled before keeps what was asked for.
    let requested = *case.bytes_requested.get_or_insert(bytes);
    if used != requested && !case.caveats.contains(&Caveat::SizeRounded) {
        case.caveats.push(Caveat::SizeRounded);
    }
    if used == 0 {
        case.skip = Some(format!("{requested} bytes are too few for one element on each of {} ranks", fields.ranks));
    }
}

/// Processes are cold once: one sample in each trial, and no warm-up.
fn sample_once(case: &mut Case) -> Result<(), FieldError> {
    let given = Sampling::of(case)?;
    for (name, given, fixed) in [("warmup", given.warmup, 0), ("iters", given.iters, 1)] {
        if given.is_some_and(|given| given != fixed) {
            let message = format!("`start: cold` has one sample in each trial, so `{name}` must be {fixed}");
            return Err(problem(name, message, "give more `trials`, or use `start: warm`"));
        }
    }
    Sampling { warmup: Some(0), iters: Some(1), ..given.clone() }.write(&given, case);
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

    /// Stage, start, communicators that are open.
    fn seen(cases: &[Case]) -> Vec<(String, String, Option<u64>)> {
        let text = |case: &Case, name: &str| case.text(name).unwrap_or_default().to_owned();
        cases.iter().map(|case| (text(case, "stage"), text(case, "start"), case.whole("communicators"))).collect()
    }

    #[test]
    fn without_a_stage_each_is_measured_cold_and_warm() {
        let all = cases(&[]).unwrap();
        let expected = [
            ("join", "cold", None),
            ("join", "warm", None),
            ("first_call", "cold", None),
            ("first_call", "warm", None),
            ("later_call", "warm", None),
            ("communicator", "cold", Some(0)),
            ("communicator", "warm", Some(0)),
            ("communicator", "warm", Some(4)),
            ("communicator", "warm", Some(16)),
        ];
        let expected = expected.map(|(stage, start, open)| (stage.to_owned(), start.to_owned(), open));
        assert_eq!(seen(&all), expected);
        assert!(all.iter().all(|case| case.skip.is_none()), "{all:?}");
        let ids: std::collections::HashSet<&String> = all.iter().map(|case| &case.id).collect();
        assert_eq!(ids.len(), all.len());
    }

    #[test]
    fn a_plan_that_is_read_again_has_the_same_cases() {
        let mut plan = record::plan::from_flags(&ABOUT, &[("bytes", "1000")], &[]).unwrap();
        complete(&mut plan);
        let before = plan.cases.clone();
        complete(&mut plan);
        assert_eq!(plan.cases, before);
    }

    #[test]
    fn a_first_call_brings_the_later_call_that_it_is_compared_with() {
        let two = cases(&[("stage", "first_call"), ("start", "warm"), ("bytes", "1KiB,4KiB")]).unwrap();
        let stages: Vec<(String, Option<u64>)> =
            two.iter().map(|case| (case.text("stage").unwrap().to_owned(), case.bytes())).collect();
        let first = |bytes| ("first_call".to_owned(), Some(bytes));
        let later = |bytes| ("later_call".to_owned(), Some(bytes));
        assert_eq!(stages, [first(1024), later(1024), first(4096), later(4096)]);
    }

    #[test]
    fn a_cold_case_has_one_sample_in_each_trial_and_ranks_of_its_own() {
        use super::super::StartupBenchmark;
        use contract::Benchmark as _;
        for case in cases(&[]).unwrap() {
            let is_cold = case.text("start") == Some("cold");
            assert_eq!((case.warmup(), case.iters()), if is_cold { (Some(0), Some(1)) } else { (None, None) });
            assert_eq!(StartupBenchmark.parse(&case).unwrap().needs_new_ranks(), is_cold);
        }
        assert!(cases(&[("start", "cold"), ("iters", "1"), ("warmup", "0")]).is_ok());
    }

    #[test]
    fn what_means_nothing_is_refused_by_name() {
        for (fields, said) in [
            (vec![("stage", "join"), ("bytes", "5")], "join does not use `bytes`"),
            (vec![("stage", "communicator"), ("op", "all_gather")], "communicator does not use `op`"),
            (vec![("stage", "first_call"), ("communicators", "2")], "first_call does not use `communicators`"),
            (vec![("stage", "later_call"), ("start", "cold")], "does not support `start: cold`"),
            (vec![("stage", "join"), ("start", "cold"), ("iters", "5")], "one sample in each trial"),
            (vec![("stage", "join"), ("start", "cold"), ("warmup", "2")], "one sample in each trial"),
            (vec![("backend", "sim")], "not how ranks join"),
            (vec![("op", "ping_pong")], "valid values"),
        ] {
            let why = cases(&fields).unwrap_err();
            assert!(why.contains(said), "{fields:?}: {why}");
        }
    }

    #[test]
    fn ranks_of_pytorch_join_as_under_torchrun_and_have_each_stage() {
        let native = cases(&[]).unwrap();
        for fields in [[("runtime", "pytorch")], [("backend", "gloo")]] {
            let all = cases(&fields).unwrap();
            assert_eq!(seen(&all), seen(&native));
            assert!(all.iter().all(|case| case.skip.is_none() && case.world["rendezvous"] == "tcp"), "{all:?}");
            assert!(all.iter().all(|case| case.value("rendezvous").is_none()), "no parameter: it is always so");
        }
        assert!(native.iter().all(|case| !case.world.contains_key("rendezvous")));
        let joins = cases(&[("stage", "join"), ("runtime", "pytorch"), ("backend", "mpi")]).unwrap();
        assert!(joins[1].skip.as_ref().unwrap().contains("can be initialised only once"), "{joins:?}");
    }

    #[test]
    fn ranks_of_mpi_join_once() {
        let joins = cases(&[("stage", "join"), ("backend", "mpi")]).unwrap();
        let skipped: Vec<bool> = joins.iter().map(|case| case.skip.is_some()).collect();
        assert_eq!(skipped, [false, true], "{joins:?}");
        assert!(joins[1].skip.as_ref().unwrap().contains("can be initialised only once"));
    }

    #[test]
    fn sizes_are_whole_elements_of_each_rank() {
        let case = |bytes: &str| {
            let fields = [("stage", "first_call"), ("start", "warm"), ("op", "all_gather"), ("bytes", bytes)];
            cases(&fields).unwrap().remove(0)
        };
        assert_eq!((case("1003").bytes(), case("1003").bytes_requested), (Some(1000), Some(1003)));
        assert!(case("1003").caveats.contains(&Caveat::SizeRounded) && case("1000").caveats.is_empty());
        assert!(case("7").skip.unwrap().contains("too few for one element"));
    }
}
