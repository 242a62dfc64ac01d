//! A case below the ceilings of a machine's profile: its limit, and its place in the roofline.

use benchmarks::benchmark;
use measure::{BEYOND_LIMIT, CaseRun, limit_share};
use record::{Case, CaseLine, Caveat, Demand, Limit, Profile};
use serde_json::{Map, Value};

/// The profile that a case names in `limits`, where it names one.
pub(crate) fn named<'p>(case: &Case, profiles: &'p [Profile]) -> Option<&'p Profile> {
    let path = case.limits()?;
    profiles.iter().find(|profile| profile.path == path)
}

fn demand(run: &CaseRun) -> Option<Demand<'_>> {
    let ready = &run.trials.last()?.ready;
    let messages = f64::from(ready.first()?.messages.max(1));
    Some(Demand {
        threads: run.case.ranks().saturating_mul(run.case.threads()),
        working_set: benchmark(&run.case.benchmark)?.memory(&run.case),
        traffic: ready.iter().map(|ready| ready.traffic_bytes as f64).sum::<f64>() / messages,
        flops: ready.iter().map(|ready| ready.flops).sum::<f64>() / messages,
        dtype: run.case.dtype().unwrap_or("f32"),
    })
}

/// Places the parts of a call, where its benchmark tells their work: phases of a step. The whole then has their traffic, too.
pub(crate) fn place_parts(run: &CaseRun, line: &mut CaseLine, profile: &Profile) {
    let Some((whole, parts)) = demand(run).zip(line.metrics.get("parts").and_then(Value::as_object)) else { return };
    let member = |part: &Value, name: &str| part.get(name)?.as_f64().filter(|number| *number > 0.0);
    let placed = |part: &Value| {
        let flops = member(part, "flops").unwrap_or(0.0);
        let demand = Demand { traffic: member(part, "bytes")?, flops, ..whole };
        let mut point = profile.roof(&demand)?.point(&demand, member(part, "seconds")?);
        point.retain(|name, value| name != "share" || value.as_f64().is_some_and(|share| share <= BEYOND_LIMIT));
        Some(Value::Object(point))
    };
    let placed: Map<String, Value> =
        parts.iter().filter_map(|(name, part)| Some((name.clone(), placed(part)?))).collect();
    let traffic = whole.traffic + parts.values().filter_map(|part| member(part, "bytes")).sum::<f64>();
    // A whole without a place lacks a ceiling of its own: the traffic of its phases alone would name a wrong bound.
    if placed.is_empty() || !line.metrics.contains_key("roofline") {
        return;
    }
    set(line, profile, &Demand { traffic, ..whole });
    if let Some(Value::Object(roofline)) = line.metrics.get_mut("roofline") {
        roofline.insert("parts".to_owned(), Value::Object(placed));
    }
}

/// Gives a measured line its limit by the profile, and its place in the roofline where it computes.
pub(crate) fn place(run: &CaseRun, line: &mut CaseLine, profile: &Profile) {
    if let Some(demand) = demand(run) {
        set(line, profile, &demand);
    }
}

fn set(line: &mut CaseLine, profile: &Profile, demand: &Demand<'_>) {
    let Some(time) = line.time_s.as_ref() else { return };
    let Some(roof) = profile.roof(demand) else {
        // The profile lacks the ceiling: of this type, or of memory at all.
        if demand.flops > 0.0 || demand.traffic > 0.0 {
            line.caveats.push(Caveat::LimitNotFound);
        }
        return;
    };
    let share = |seconds: f64| roof.time_s / seconds;
    let limit = Limit {
        variant: format!("{} ceiling of the profile", roof.bound),
        time_s: roof.time_s,
        ci95: None,
        share: share(time.median),
        share_ci95: time.ci95.map(|[low, high]| [share(high), share(low)]),
    };
    let is_limit = limit_share(Some(&limit)).is_some();
    if demand.flops > 0.0 {
        let mut point = roof.point(demand, time.median);
        // Beyond its ceiling it has no share of it.
        point.retain(|name, _| is_limit || name != "share");
        line.metrics.insert("roofline".to_owned(), Value::Object(point));
    }
    if !is_limit && !line.caveats.contains(&Caveat::LimitNotFound) {
        line.caveats.push(Caveat::LimitNotFound);
    }
    line.limit = Some(limit);
}
