//! The two sides of a comparison: their plans, and which case of A is compared with which of B.

use std::collections::HashSet;

use record::{Case, Plan, Roles, Side};
use serde_json::Value;
use terms::{Error, Role};

use crate::Matched;

/// Characters that the name of an experiment may have.
const NAME: usize = 64;
/// Cases that a note names.
const NAMED: usize = 3;

/// Both sides of a comparison that is measured interleaved.
pub struct Sides {
    /// What each side is.
    pub sides: [Side; 2],
    /// Each case of A with that of B, in the order of A's plan.
    pub matched: Vec<Matched>,
    /// The name of the experiment.
    pub experiment: String,
    /// The text of both plans.
    pub source_text: String,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// What the sides of a comparison set, as users write it.
pub struct SideSettings<'a> {
    /// Fields of both sides.
    pub both: &'a [String],
    /// Fields of each side.
    pub sides: [&'a [String]; 2],
    /// Variables of the ranks of each side.
    pub environments: [&'a [String]; 2],
}

/// How a plan is read, with these fields set.
pub type LoadPlan<'a, E> = &'a dyn Fn(&str, &[(String, String)]) -> Result<Plan, E>;

/// Why a word cannot be the file of a plan.
pub type RefuseWord<'a, E> = &'a dyn Fn(&str) -> Option<E>;

impl Sides {
    /// The plan of the record: each case once for each side.
    pub fn plan(&self) -> Plan {
        let cases = self.matched.iter().flat_map(|both| [crate::of_side(&both[0], 0), crate::of_side(&both[1], 1)]);
        Plan {
            experiment: self.experiment.clone(),
            profiling: false,
            cases: cases.collect(),
            notes: Vec::new(),
            read_as: None,
            expected: Vec::new(),
            source_text: self.source_text.clone(),
        }
    }

    /// Reads the plans of both sides and matches their cases. `refuse` knows words that are not the file of a plan.
    ///
    /// # Errors
    /// What a plan is refused for, and plans without a common case.
    pub fn read<E: From<Error>>(
        files: &[String],
        given: &SideSettings<'_>,
        (load, refuse): (LoadPlan<'_, E>, RefuseWord<'_, E>),
    ) -> Result<Self, E> {
        let ([a, b], common) = (two(files)?, pairs(given.both, "set")?);
        let own =
            [own_of("a", given.sides[0], given.environments[0])?, own_of("b", given.sides[1], given.environments[1])?];
        if own.iter().flatten().any(|(name, _)| name == "env") {
            refuse_own_environment(&[a, b], &common, load)?;
        }
        let read = |file: &str, own: &[(String, String)]| -> Result<Plan, E> {
            if let Some(refused) = refuse(file) {
                return Err(refused);
            }
            let mut plan = load(file, &[&common, own].concat())?;
            benchmarks::complete(&mut plan);
            Ok(plan)
        };
        let plans = [read(a, &own[0])?, read(b, &own[1])?];
        let named: HashSet<&str> = own.iter().flatten().map(|(name, _)| name.as_str()).collect();
        let (matched, mut notes) = matched([&plans[0].cases, &plans[1].cases], &named)?;
        notes.splice(0..0, plans[0].notes.iter().cloned());
        if a != b {
            notes.extend(plans[1].notes.iter().cloned());
        }
        let set = |own: &[(String, String)]| own.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let side =
            |file: &str, own: &[(String, String)]| Side { plan: file.to_owned(), set: set(own), ..Side::default() };
        let texts = [&plans[0].source_text, &plans[1].source_text];
        let both = || format!("{}\n# side B\n{}", texts[0].trim_end(), texts[1]);
        Ok(Self {
            sides: [side(a, &own[0]), side(b, &own[1])],
            matched,
            experiment: experiment(&plans),
            source_text: if texts[0] == texts[1] { texts[0].clone() } else { both() },
            notes,
        })
    }
}

fn two(files: &[String]) -> Result<[&str; 2], Error> {
    match files {
        [one] => Ok([one, one]),
        [a, b] => Ok([a, b]),
        more => Err(Error::new(format!("`--interleave` compares two plans, not {}", more.len()))
            .hint("compare the others with the first, one at a time")),
    }
}

fn experiment(plans: &[Plan; 2]) -> String {
    let [a, b] = plans.each_ref().map(|plan| plan.experiment.as_str());
    let name = if a == b { a.to_owned() } else { format!("{a}-vs-{b}") };
    name.chars().take(NAME).collect()
}

/// `FIELD=VALUE` or `NAME=VALUE` options.
fn pairs(given: &[String], option: &str) -> Result<Vec<(String, String)>, Error> {
    let pair = |text: &String| match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((terms::normalize(name.trim()), value.to_owned())),
        _ => Err(Error::new(format!("`--{option} {text}` sets nothing"))
            .hint(format!("--{option} FIELD=VALUE, as in --{option} backend=shm"))),
    };
    given.iter().map(pair).collect()
}

/// What a side alone sets: its fields, and the variables of its ranks.
fn own_of(side: &str, set: &[String], variables: &[String]) -> Result<Vec<(String, String)>, Error> {
    let mut own = pairs(set, &format!("set-{side}"))?;
    if !variables.is_empty() && own.iter().any(|(name, _)| name == "env") {
        return Err(Error::new(format!("`--env-{side}` and `--set-{side} env=` both set the environment"))
            .hint(format!("give all variables with --env-{side}")));
    }
    own.extend(variables.iter().map(|variable| ("env".to_owned(), variable.clone())));
    Ok(own)
}

/// The variables of one side replace those of the plan, which nobody asked for.
fn refuse_own_environment<E: From<Error>>(
    files: &[&str; 2],
    common: &[(String, String)],
    load: LoadPlan<'_, E>,
) -> Result<(), E> {
    for file in files {
        let plan = load(file, common)?;
        if let Some(case) = plan.cases.iter().find(|case| !case.environment().is_empty()) {
            let given = case.environment().join(" ");
            return Err(Error::new(format!("{file} sets the environment of ranks itself (`{given}`)"))
                .cause("the variables of a side would replace it")
                .hint("leave `env` out of the plan, and give all variables with --env-a and --env-b")
                .into());
        }
    }
    Ok(())
}

/// Matches cases by what they have in common: all parameters but those that tell the sides apart. Gives notes on what has no
/// partner.
fn matched(sides: [&[Case]; 2], named: &HashSet<&str>) -> Result<(Vec<Matched>, Vec<String>), Error> {
    let [a, b] = sides;
    let (mut found, mut alone_a, mut used) = (Vec::new(), Vec::new(), HashSet::new());
    for case in a {
        let apart = apart(sides, &case.benchmark, named);
        let are_same = |one: &Case, other: &Case| {
            other.benchmark == one.benchmark && common(&other.parameters, &apart).eq(common(&one.parameters, &apart))
        };
        let same = |other: &&Case| are_same(case, other);
        if a.iter().filter(same).count() > 1 || b.iter().filter(same).count() > 1 {
            let mut fields: Vec<&str> = apart.into_iter().collect();
            fields.sort_unstable();
            return Err(Error::new(format!(
                "several cases differ only in fields that distinguish the sides: {}",
                case.label()
            ))
            .cause(format!("the sides differ in {}", fields.join(", ")))
            .hint("give each of these fields one value on each side"));
        }
        // A fault that is injected on one side is not a different workload, even if other cases have none. A case with a partner
        // of its own is not taken from it.
        let faulty = |other: &Case| {
            let apart = apart.iter().copied().chain(["inject"]).collect();
            other.benchmark == case.benchmark && common(&other.parameters, &apart).eq(common(&case.parameters, &apart))
        };
        let partner = b.iter().position(|other| same(&other));
        let is_free = |at: &usize| !used.contains(at) && !a.iter().any(|own| are_same(own, &b[*at]));
        match partner.or_else(|| (0..b.len()).find(|at| is_free(at) && faulty(&b[*at]))) {
            Some(at) => {
                used.insert(at);
                found.push([case.clone(), b[at].clone()]);
            }
            None => alone_a.push(case),
        }
    }
    if found.is_empty() {
        return Err(Error::new("the two sides have nothing in common: no case of A matches one of B")
            .cause(format!(
                "A has {}, B has {}",
                some(&a.iter().collect::<Vec<_>>()),
                some(&b.iter().collect::<Vec<_>>())
            ))
            .hint("both plans need cases of the same workload: operation, bytes, ranks, model"));
    }
    let alone_b: Vec<&Case> = b.iter().enumerate().filter(|(at, _)| !used.contains(at)).map(|(_, case)| case).collect();
    let note = |side: &str, other: &str, alone: &[&Case]| {
        let shown = some(alone);
        (!alone.is_empty())
            .then(|| format!("side {other} has no match for these cases of side {side}, left out: {shown}"))
    };
    let notes = [note("A", "B", &alone_a), note("B", "A", &alone_b)].into_iter().flatten().collect();
    Ok((found, notes))
}

/// The fields that tell the cases of a benchmark apart between the sides: those that options set for one side, and those
/// without a common value. Of several cases a workload's fields match always: 1 KiB is not compared with 1 MiB by mistake.
fn apart<'c>(sides: [&'c [Case]; 2], benchmark: &str, named: &HashSet<&'c str>) -> HashSet<&'c str> {
    let of = |side: usize| sides[side].iter().filter(|case| case.benchmark == benchmark).collect::<Vec<_>>();
    let [a, b] = [of(0), of(1)];
    let mut apart = named.clone();
    let Some(known) = benchmarks::benchmark(benchmark) else { return apart };
    let single = a.len() == 1 && b.len() == 1;
    let names: HashSet<&str> = a.iter().chain(&b).flat_map(|case| case.parameters.keys()).collect();
    for name in names {
        let may = single || known.about().role(name) != Role::Workload;
        let values = |cases: &[&'c Case]| cases.iter().map(|case| case.parameters.get(name)).collect::<Vec<_>>();
        let (of_a, of_b) = (values(&a), values(&b));
        if may && !b.is_empty() && of_a.iter().all(|value| !of_b.contains(value)) {
            apart.insert(name);
        }
    }
    apart
}

/// The parameters that both sides share, by name.
fn common<'c>(
    parameters: &'c record::SharedMap,
    apart: &HashSet<&str>,
) -> std::collections::btree_map::IntoIter<&'c str, &'c Value> {
    let shared = parameters.iter().filter(|(name, _)| !apart.contains(name));
    let sorted: std::collections::BTreeMap<_, _> = shared.collect();
    sorted.into_iter()
}

fn some(cases: &[&Case]) -> String {
    let named: Vec<String> = cases.iter().take(NAMED).map(|case| case.label()).collect();
    let more = cases.len().saturating_sub(NAMED);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{rest}", named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cases(entries: &str) -> Vec<Case> {
        let text = format!("experiment: t\ncases:\n{entries}");
        record::plan::read(&text, "t.yaml", &benchmarks::abouts(), &[]).unwrap().cases
    }

    fn pairs_of(a: &str, b: &str, named: &[&str]) -> Result<Vec<(String, String)>, String> {
        let (a, b) = (cases(a), cases(b));
        let bytes_and_backend =
            |case: &Case| format!("{} {}", case.whole("bytes").unwrap(), case.text("backend").unwrap());
        let found = matched([&a, &b], &named.iter().copied().collect()).map_err(|failure| failure.to_string())?;
        Ok(found.0.iter().map(|[a, b]| (bytes_and_backend(a), bytes_and_backend(b))).collect())
    }

    #[test]
    fn cases_are_matched_by_what_they_have_in_common() {
        let a = "- {benchmark: collective, ranks: 2, backend: shm, bytes: [1KB, 2KB]}";
        let b = "- {benchmark: collective, ranks: 2, backend: reference, bytes: [2KB, 4KB]}";
        assert_eq!(pairs_of(a, b, &[]).unwrap(), [("2000 shm".to_owned(), "2000 reference".to_owned())]);
        assert_eq!(pairs_of(a, a, &[]).unwrap().len(), 2, "equal sides");
        let (a, b) = (cases(a), cases(b));
        let notes = matched([&a, &b], &HashSet::new()).unwrap().1;
        assert_eq!(notes.len(), 2);
        assert!(notes[0].contains("side A, left out: all_reduce 1 KB, 2 ranks"), "{notes:?}");
    }

    #[test]
    fn one_case_a_side_needs_nothing_in_common_but_the_benchmark() {
        let a = "- {benchmark: collective, ranks: 2, bytes: 1KB}";
        let b = "- {benchmark: collective, ranks: 3, op: broadcast, bytes: 2KB}";
        assert_eq!(pairs_of(a, b, &[]).unwrap().len(), 1);
        let b = "- {benchmark: training, model: mlp, ranks: 2, batch: 2}";
        let error = matched([&cases(a), &cases(b)], &HashSet::new()).unwrap_err().to_string();
        assert!(error.contains("nothing in common"), "{error}");
    }

    #[test]
    fn plans_of_other_workloads_are_refused_and_so_are_several_partners() {
        let a = "- {benchmark: collective, ranks: 2, bytes: [1KB, 2KB]}";
        let error = pairs_of(a, "- {benchmark: collective, ranks: 2, bytes: [4KB, 8KB]}", &[]).unwrap_err();
        assert!(error.contains("nothing in common") && error.contains("hint:"), "{error}");
        let error = pairs_of(a, a, &["bytes"]).unwrap_err();
        assert!(error.contains("the sides differ in bytes"), "{error}");
    }

    #[test]
    fn a_fault_on_one_side_tells_the_sides_apart() {
        let a = "- {benchmark: collective, ranks: 2, bytes: [1KB, 2KB]}";
        let b = "- {benchmark: collective, ranks: 2, bytes: [1KB, 2KB], inject: 'delay:rank=1,time=5us'}";
        assert_eq!(pairs_of(a, b, &[]).unwrap().len(), 2);
        let b = "- {benchmark: collective, ranks: 2, bytes: 2KB, inject: 'delay:rank=1,time=5us'}\n\
                 - {benchmark: collective, ranks: 2, bytes: 1KB}";
        assert_eq!(pairs_of(a, b, &[]).unwrap().len(), 2, "on some cases only");
        // The case of B is the partner of the one without a fault, and of no other.
        let a = "- {benchmark: collective, ranks: 2, bytes: 1KB, inject: 'delay:rank=1,time=5us'}\n\
                 - {benchmark: collective, ranks: 2, bytes: 1KB}";
        let (a, b) = (cases(a), cases("- {benchmark: collective, ranks: 2, bytes: 1KB}"));
        let (found, notes) = matched([&a, &b], &HashSet::new()).unwrap();
        assert_eq!(found.len(), 1, "{notes:?}");
        assert!(found[0][0].value("inject").is_none() && notes.len() == 1, "{notes:?}");
    }
}
