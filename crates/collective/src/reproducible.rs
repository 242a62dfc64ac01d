//! What a case and a run say about the bits of results, and which cases support it.

use contract::fields::problem;
use contract::reproducible::{self, Noted};
use contract::{Measured, Relations};
use record::CaseLine;
use serde_json::{Map, Value};
use terms::{Cache, Collective, FieldError, Reduce};

use super::data::{Data, InputSource};
use super::fields::Fields;
use super::parameters::Parameters;

/// Parameters that say what is computed. Cases that differ in them have different results.
const FIXED: &[&str] = &[
    "op",
    "ranks",
    "dtype",
    "reduce",
    "seed",
    "data",
    "reproducible",
    "groups",
    "alone",
    "direction",
    "peer",
    // In place, each call of a graph adds up what the one before left.
    "graph",
];

/// Refuses comparisons that would be meaningless. Runs after the operation's own fields are settled.
pub(super) fn check(fields: &Fields) -> Result<(), FieldError> {
    if fields.op == Collective::Barrier {
        return Ok(());
    }
    if fields.reproducible && fields.data == Data::Exact {
        let message =
            "`reproducible` would always hold: sums of small integers are exact in any order of the additions";
        return Err(problem("reproducible", message, "add `data: random` (--data random)"));
    }
    if fields.data == Data::Exact {
        return Ok(());
    }
    if !fields.dtype.is_float() {
        let message =
            format!("`data: random` is for floats: results of {} are the same bits in any order", fields.dtype);
        return Err(problem("data", message, "`dtype: f32`, f64, f16 or bf16"));
    }
    if fields.reproducible && fields.groups.is_some() {
        let message = "`reproducible` compares the ranks of one communicator, but `groups` makes several";
        return Err(problem("reproducible", message, "leave `groups` out"));
    }
    if fields.reproducible && fields.cache == Some(Cache::Cold) {
        let message =
            "`reproducible` compares calls on the same inputs, but `cache: cold` gives each call other inputs";
        return Err(problem("reproducible", message, "leave `cache` out"));
    }
    check_bound(fields)
}

/// Refuses sums over so many ranks that no bound on their errors is useful.
fn check_bound(fields: &Fields) -> Result<(), FieldError> {
    let (ranks, reduce) = (fields.ranks_of_a_call(), fields.reduce.unwrap_or(Reduce::Sum));
    let in_place = fields.in_place.unwrap_or(false);
    if InputSource::new(Data::Random, (fields.op, reduce), fields.dtype, ranks, in_place, 1).is_some() {
        return Ok(());
    }
    let message = format!(
        "rounding may change the {reduce} of {} over {ranks} ranks by half of its value, so a check with random \
         numbers would prove nothing",
        fields.dtype
    );
    Err(problem("data", message, "use a wider type, for example `dtype: f32`"))
}

/// The metrics of a case whose results were compared.
pub(super) fn metrics(parameters: &Parameters, measured: &Measured<'_>) -> Map<String, Value> {
    let mut metrics = Map::new();
    if !parameters.reproducible {
        return metrics;
    }
    let Parameters { op, reduce, .. } = *parameters;
    let computed = op.reduces() && matches!(reduce, Reduce::Sum | Reduce::Avg | Reduce::Prod);
    let noted = measured.trials.iter().map(|trial| trial.details.iter().map(Noted::read).collect::<Vec<_>>());
    if let Some(found) = reproducible::within("element", computed, &noted.collect::<Vec<_>>()) {
        reproducible::put(&mut metrics, found);
    }
    metrics
}

/// Comparisons with other cases of the run.
pub(super) fn relations<'a>(all: &[&'a CaseLine]) -> Relations<'a> {
    reproducible::relations(all, FIXED)
}

#[cfg(test)]
mod tests {
    use crate::CollectiveBenchmark;
    use contract::Benchmark;
    use contract::bits::in_short;
    use contract::reproducible::{Noted, put, within};
    use record::{CaseLine, Plan};
    use serde_json::{Value, json};
    use terms::{Dtype, Status};

    fn plan(fields: &[(&str, &str)]) -> Result<Plan, String> {
        record::plan::from_flags(CollectiveBenchmark.about(), fields, &[]).map_err(|errors| errors.to_string())
    }

    const RANDOM: (&str, &str) = ("data", "random");
    const REPRODUCIBLE: (&str, &str) = ("reproducible", "true");

    #[test]
    fn meaningless_comparisons_are_refused_with_the_reason() {
        for (fields, said) in [
            (vec![REPRODUCIBLE], "`reproducible` would always hold"),
            (vec![REPRODUCIBLE, ("data", "exact")], "`reproducible` would always hold"),
            (vec![RANDOM, ("dtype", "i32")], "results of i32 are the same bits in any order"),
            (vec![RANDOM, ("dtype", "f8e4m3"), ("op", "all_gather")], "`data: random` is for floats"),
            (vec![RANDOM, REPRODUCIBLE, ("groups", "mod 2"), ("ranks", "4")], "leave `groups` out"),
            (vec![RANDOM, REPRODUCIBLE, ("cache", "cold"), ("cold_bytes", "1MiB")], "leave `cache` out"),
            (vec![RANDOM, ("dtype", "bf16"), ("ranks", "256")], "sum of bf16 over 256 ranks by half of it"),
            (vec![("data", "noise")], "exact, random"),
        ] {
            let error = plan(&fields).unwrap_err();
            assert!(error.contains(said), "{fields:?}: {error}");
        }
    }

    #[test]
    fn graphs_of_more_calls_have_other_results() {
        let line = |calls: u32| {
            let mut case = plan(&[RANDOM, REPRODUCIBLE]).unwrap().cases.remove(0);
            case.id = format!("{calls:012}");
            case.parameters.insert("graph", Value::from(calls));
            let mut line = CaseLine::unmeasured(&case, Status::Ok, "");
            let bits = Some(in_short(Dtype::F32, &(calls as f32).to_ne_bytes()));
            let noted = Noted { bits, results: 4, ..Noted::default() };
            put(&mut line.metrics, within("element", true, &[vec![Some(noted)]]).unwrap());
            line
        };
        let lines = [line(2), line(4)];
        let all: Vec<&CaseLine> = lines.iter().collect();
        assert_eq!(super::relations(&all)(&lines[1])["same_bits"]["across"], json!([]));
    }

    #[test]
    fn fields_at_their_defaults_change_no_identity() {
        let id = |fields: &[(&str, &str)]| plan(fields).unwrap().cases[0].id.clone();
        let plain = plan(&[]).unwrap().cases.remove(0);
        assert!(!plain.parameters.contains_key("data") && !plain.parameters.contains_key("reproducible"));
        assert_eq!(plain.id, id(&[("data", "exact"), ("reproducible", "false")]));
        assert_ne!(plain.id, id(&[RANDOM]));
        let barrier = plan(&[("op", "barrier"), RANDOM, REPRODUCIBLE]).unwrap().cases.remove(0);
        assert_eq!(barrier.id, id(&[("op", "barrier")]), "a barrier has no data");
    }

    #[test]
    fn averages_that_are_not_exact_have_a_bound() {
        let avg = [("op", "all_reduce"), ("reduce", "avg"), ("ranks", "7"), ("backend", "nccl")];
        assert!(plan(&avg).unwrap().cases[0].skip.is_some());
        assert_eq!(plan(&[&avg[..], &[RANDOM]].concat()).unwrap().cases[0].skip, None);
    }

    #[test]
    fn copies_of_results_count_as_memory() {
        let memory =
            |fields: &[(&str, &str)]| CollectiveBenchmark.parse(&plan(fields).unwrap().cases[0]).unwrap().memory();
        assert_eq!(memory(&[RANDOM, REPRODUCIBLE]) - memory(&[RANDOM]), (2 * super::super::watch::COPIES) << 20);
    }
}
