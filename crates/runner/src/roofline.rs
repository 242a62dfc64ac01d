//! A case below the ceilings of a machine's profile: its limit, and its place in the roofline.

use benchmarks::{ParsedCase, backend_of};
use measure::{BEYOND_LIMIT, CaseRun, limit_share};
use record::found::{PartWork, ROOFLINE, Roofline};
use record::{Case, CaseLine, Caveat, Demand, Limit, Profile};
use serde_json::{Map, Value};

/// The profile that a case names in `limits`, where it names one.
pub(crate) fn named<'p>(case: &Case, profiles: &'p [Profile]) -> Option<&'p Profile> {
    let path = case.limits()?;
    profiles.iter().find(|profile| profile.path == path)
}

/// What a call of this run's case asks of the machine.
pub(crate) fn demand<'r>(run: &'r CaseRun, parsed: &dyn ParsedCase) -> Option<Demand<'r>> {
    let ready = &run.trials.last()?.ready;
    let messages = f64::from(ready.first()?.messages.max(1));
    // What ranks of one host send through its memory is part of their traffic.
    let in_memory = backend_of(&run.case).is_some_and(|backend| backend.about().one_host);
    Some(Demand {
        threads: run.case.ranks().saturating_mul(run.case.threads()),
        working_set: parsed.working_set(),
        traffic: ready.iter().map(|ready| ready.traffic_bytes as f64).sum::<f64>() / messages,
        flops: ready.iter().map(|ready| ready.flops).sum::<f64>() / messages,
        dtype: run.case.arithmetic().unwrap_or("f32"),
        device: run.case.device().unwrap_or("cpu"),
        sent: if in_memory { 0.0 } else { parsed.sent() },
        message: parsed.operation().1,
        backend: run.case.backend().unwrap_or_default(),
    })
}

/// Places the parts of a call, where its benchmark tells their work: phases of a step. The whole then has their traffic, too.
pub(crate) fn place_parts(line: &mut CaseLine, profile: &Profile, whole: Demand<'_>) {
    let Some(parts) = PartWork::of_parts(line) else { return };
    let above_0 = |number: Option<f64>| number.filter(|number| *number > 0.0);
    let placed = |part: &PartWork| {
        let flops = above_0(part.flops).unwrap_or(0.0);
        let demand = Demand { traffic: above_0(part.bytes)?, flops, ..whole };
        let point = profile.roof(&demand)?.point(&demand, above_0(part.seconds)?);
        let share = point.share.filter(|share| *share <= BEYOND_LIMIT);
        serde_json::to_value(Roofline { share, ..point }).ok()
    };
    let placed: Map<String, Value> =
        parts.iter().filter_map(|(name, part)| Some((name.clone(), placed(part)?))).collect();
    let traffic = whole.traffic + parts.iter().filter_map(|(_, part)| above_0(part.bytes)).sum::<f64>();
    // A whole without a place lacks a ceiling of its own: the traffic of its phases alone would name a wrong bound.
    if placed.is_empty() || ROOFLINE.of(line).is_none() {
        return;
    }
    place(line, profile, &Demand { traffic, ..whole });
    if let Some(roofline) = ROOFLINE.of(line) {
        ROOFLINE.put(&mut line.metrics, Roofline { parts: placed, ..roofline });
    }
}

/// Gives a measured line its limit by the profile, and its place in the roofline where it computes.
pub(crate) fn place(line: &mut CaseLine, profile: &Profile, demand: &Demand<'_>) {
    let Some(time) = line.time_s.as_ref() else { return };
    let Some(roof) = profile.roof(demand) else {
        // The profile lacks the ceiling: of this type, or of memory at all.
        if demand.is_any() {
            line.caveats.push(Caveat::LimitNotFound);
        }
        return;
    };
    let share = |seconds: f64| roof.time_s / seconds;
    let limit = Limit {
        variant: format!("{} ceiling of the profile", roof.bound),
        time_s: roof.time_s,
        share: share(time.median),
        share_ci95: time.ci95.map(|[low, high]| [share(high), share(low)]),
        ..Limit::default()
    };
    let is_limit = limit_share(Some(&limit)).is_some();
    if demand.flops > 0.0 {
        let point = roof.point(demand, time.median);
        // Beyond its ceiling it has no share of it.
        let share = point.share.filter(|_| is_limit);
        ROOFLINE.put(&mut line.metrics, Roofline { share, ..point });
    }
    if !is_limit && !line.caveats.contains(&Caveat::LimitNotFound) {
        line.caveats.push(Caveat::LimitNotFound);
    }
    line.limit = Some(Box::new(limit));
}

#[cfg(test)]
mod tests {
    use measure::{Ready, Settings, Trial};
    use record::{Ceiling, CeilingKind, TimeSummary};
    use serde_json::json;
    use terms::Status;

    use super::*;

    /// One step of training that takes a second, with these phases.
    fn step() -> (CaseRun, CaseLine) {
        let text = "experiment: t
cases: [{benchmark: training, model: mlp, ranks: 1, threads: 1, precision: f32}]";
        let read = record::plan::read(text, "t.yaml", &benchmarks::abouts(), &[]);
        let plan = read.unwrap_or_else(|errors| panic!("{errors}"));
        let mut run = CaseRun::new(&plan.cases[0], Settings::from_case(&plan.cases[0]), false);
        run.trials.push(Trial { ready: vec![Ready { flops: 2e9, ..Ready::default() }], ..Trial::default() });
        let mut line = CaseLine::unmeasured(&run.case, Status::Ok, "");
        line.time_s = Some(TimeSummary { median: 1.0, ..TimeSummary::default() });
        let part = |flops: f64, bytes: f64| json!({"seconds": 0.5, "flops": flops, "bytes": bytes});
        line.metrics.insert("parts".to_owned(), json!({"forward": part(2e9, 1e9), "optimizer": part(0.0, 8e9)}));
        (run, line)
    }

    fn profile(dtype: &str) -> Profile {
        let ceiling = |kind, dtype: Option<&str>| Ceiling {
            kind,
            rate: 10e9,
            threads: 1,
            bytes: Some(1 << 20),
            dtype: dtype.map(str::to_owned),
            ..Ceiling::default()
        };
        let ceilings = vec![ceiling(CeilingKind::Memory, None), ceiling(CeilingKind::Compute, Some(dtype))];
        Profile { ceilings, ..Profile::default() }
    }

    #[test]
    fn a_step_has_the_traffic_of_its_phases() {
        let (run, mut line) = step();
        let demand = demand(&run, &*benchmarks::parse(&run.case).unwrap()).unwrap();
        place(&mut line, &profile("f32"), &demand);
        assert_eq!(line.metrics["roofline"]["bound"], "compute", "the step alone knows no traffic");
        place_parts(&mut line, &profile("f32"), demand);
        let roofline = &line.metrics["roofline"];
        assert_eq!((&roofline["bound"], line.limit.as_ref().map(|limit| limit.time_s)), (&"memory".into(), Some(0.9)));
        let bound = |part: &str| roofline["parts"][part]["bound"].as_str().unwrap().to_owned();
        assert_eq!([bound("forward"), bound("optimizer")], ["compute", "memory"]);
    }

    /// The traffic of phases alone would call memory the bound of a step that computes in a type without a peak.
    #[test]
    fn a_step_without_a_ceiling_of_its_own_has_no_bound() {
        let (run, mut line) = step();
        let foreign = profile("f64");
        let demand = demand(&run, &*benchmarks::parse(&run.case).unwrap()).unwrap();
        place(&mut line, &foreign, &demand);
        place_parts(&mut line, &foreign, demand);
        assert!(!line.metrics.contains_key("roofline") && line.limit.is_none(), "{:?}", line.metrics);
        assert_eq!(line.caveats, [Caveat::LimitNotFound]);
    }
}
