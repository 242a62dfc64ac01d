//! From trials to the line of a case: what `measure` found, with what the benchmark adds.

use std::collections::HashMap;

use benchmarks::{Gate, Host, Measured, ParsedCase, Relations, Sampling, benchmark, is_in_process, is_simulated};
use measure::{Canary, CaseRun, Circumstances, case_line};
use record::{Case, CaseLine, CaseSamples, Profile, Seen};
use serde_json::Value;
use terms::Status;

use crate::bounds::Bounds;
use crate::{admission, links, roofline};

/// The line of these trials. `open`: further ones may follow.
pub(crate) fn measured(run: &CaseRun, host: &Host, (profiles, bounds): (&[Profile], &Bounds), open: bool) -> CaseLine {
    let case = &run.case;
    let parsed = match benchmarks::parse(case) {
        Ok(parsed) => parsed,
        Err(refused) => return unmeasured(case, Status::Failed, refused.error.on_one_line()),
    };
    let parsed = &*parsed;
    let about = Circumstances {
        oversubscribed: !run.simulated && parsed.cores_wanted() > host.cores,
        simulated: run.simulated,
        virtualised: !run.simulated && host.virtualised,
        open,
    };
    let spread = host.spread.as_ref().filter(|_| !is_in_process(case));
    let shown = run.in_state();
    let mut line = case_line(run, about);
    line.hosts = spread.map(|spread| spread.hosts);
    line.pair_hosts = spread.and_then(|spread| admission::hosts_of_pair(spread, parsed));
    links::place(run, parsed, host, &mut line);
    let profile = roofline::named(&run.case, profiles);
    let demand = roofline::demand(&shown, parsed);
    match (profile, &demand) {
        (Some(profile), Some(demand)) => roofline::place(&mut line, profile, demand),
        (None, Some(demand)) if !shown.simulated => bounds.check(demand, &mut line),
        _ => (),
    }
    let placed = profile.zip(demand);
    let peak = placed.and_then(|(profile, demand)| Some((profile.compute(&demand)?, profile.path.as_str())));
    complete(run, &shown, (parsed, peak), &mut line);
    if let Some((profile, demand)) = placed {
        roofline::place_parts(&mut line, profile, demand);
    }
    match without_state(run) {
        Some(why) if line.status == Status::Ok => {
            CaseLine { states: line.states, trials: line.trials, ..unmeasured(case, Status::NotRun, why) }
        }
        _ => line,
    }
}

/// Why a case has no trial in the machine's state that was asked for; None where it has, or none was asked for.
fn without_state(run: &CaseRun) -> Option<String> {
    let labels = run.labels.as_ref().filter(|labels| labels.lacks_state())?;
    if labels.blind {
        return Some("its ranks do not measure the machine's state, so no trial counts under --state".to_owned());
    }
    let others = labels.names.iter().enumerate();
    let seen: Vec<String> = others
        .filter_map(|(at, name)| Some((name, labels.trials(at).len())).filter(|(_, trials)| *trials > 0))
        .map(|(name, trials)| format!("{trials} with {name}"))
        .collect();
    let seen = if seen.is_empty() { "their state is not known".to_owned() } else { seen.join(", ") };
    Some(format!("no trial was in the state that --state asks for, of {} ({seen})", run.trials.len()))
}

/// What each line says in relation to the others. `before` are those of a run that this one resumes.
pub(crate) fn relations(lines: &[CaseLine], before: &[&CaseLine]) -> Vec<serde_json::Map<String, Value>> {
    let mut of_benchmark: HashMap<&str, Vec<&CaseLine>> = HashMap::new();
    for line in before.iter().copied().chain(lines).filter(|line| line.status == Status::Ok) {
        of_benchmark.entry(&line.benchmark).or_default().push(line);
    }
    let relations: HashMap<&str, Relations<'_>> =
        of_benchmark.iter().filter_map(|(name, all)| Some((*name, benchmark(name)?.relations(all)))).collect();
    let relate = |line: &CaseLine| match relations.get(line.benchmark.as_str()) {
        Some(relations) if line.status == Status::Ok => relations(line),
        _ => serde_json::Map::new(),
    };
    lines.iter().map(relate).collect()
}

/// The last trial's samples as they are kept.
pub(crate) fn samples_of(run: &CaseRun, after: Option<String>) -> CaseSamples {
    let Some(last) = run.trials.last() else { return CaseSamples::default() };
    let several = run.host_of.iter().any(|host| *host > 0);
    let seen = |(before, after): &(Canary, Canary)| -> Vec<Seen> {
        let mut seen = Vec::new();
        for ((host, canary, before), (.., after)) in before.levels().zip(after.levels()) {
            if let Some((before, after)) = before.zip(after) {
                seen.push(Seen { canary, host: several.then_some(host), before, after });
            }
        }
        seen
    };
    CaseSamples {
        id: run.case.id.clone(),
        trial: run.trials.len() as u32 - 1,
        round: last.round,
        begun_s: last.begun_s,
        after,
        fresh: last.fresh,
        canaries: last.canaries.as_ref().map(seen).unwrap_or_default(),
        slices: Vec::new(),
        calls: u64::from(last.calls),
        rows: shared_rows(last.samples.row_of()),
        ns: last.samples.rows().to_vec(),
    }
}

/// Which row each rank has, as `[row, ranks]` in rank order; empty where each has its own.
fn shared_rows(row_of: &[u32]) -> Vec<[u32; 2]> {
    if row_of.iter().copied().eq(0..row_of.len() as u32) {
        return Vec::new();
    }
    row_of.chunk_by(|one, next| one == next).map(|run| [run[0], run.len() as u32]).collect()
}

/// The line of a case that gave no number. What would have been computed is marked here, too.
pub(crate) fn unmeasured(case: &Case, status: Status, reason: String) -> CaseLine {
    CaseLine { simulated: is_simulated(case), ..CaseLine::unmeasured(case, status, reason) }
}

/// The line of a case that this machine cannot run, with what is known without a run.
pub(crate) fn skipped(parsed: &dyn ParsedCase, reason: String) -> CaseLine {
    CaseLine { metrics: parsed.predicted().into(), ..unmeasured(parsed.case(), Status::Skipped, reason) }
}

/// The line of a case that is answered without ranks, by what its benchmark knows; None where ranks must run.
pub(crate) fn planned(parsed: &dyn ParsedCase, host: &Host) -> Option<CaseLine> {
    let case = Some(parsed.case()).filter(|case| case.skip.is_none() && parsed.is_planned(host))?;
    let metrics = parsed.predicted().into();
    let line = match parsed.fault(&[]) {
        Some(why) => unmeasured(case, Status::Failed, why),
        None => CaseLine { reason: None, ..unmeasured(case, Status::Ok, String::new()) },
    };
    Some(CaseLine { metrics, simulated: true, ..line })
}

/// Adds the benchmark's metrics, of the trials that are shown and before what `measure` knew, and what it finds wrong in any.
fn complete(
    run: &CaseRun,
    shown: &CaseRun,
    (parsed, peak): (&dyn ParsedCase, Option<(f64, &str)>),
    line: &mut CaseLine,
) {
    let Some(times) = &line.time_s else { return };
    let measured = Measured { times, limit: line.limit.as_deref(), peak, trials: &shown.trials };
    let mut metrics = parsed.metrics(&measured);
    if let Some(reason) = parsed.fault(&run.trials).filter(|_| line.status == Status::Ok) {
        line.status = Status::Failed;
        line.reason = Some(reason);
    }
    // A bandwidth of wrong data is not a bandwidth.
    if line.wrong != Some(0) {
        let own = benchmark(&run.case.benchmark).map_or(&[][..], |benchmark| benchmark.about().metrics);
        let is_evidence = |name: &str| own.iter().any(|metric| metric.name == name && metric.evidence);
        metrics.retain(|name, value: &mut Value| is_evidence(name) || !value.is_number() && !value.is_object());
    }
    let known = std::mem::replace(&mut line.metrics, metrics.into());
    line.metrics.extend(known.iter().map(|(name, value)| (name, value.clone())));
}

/// The gates of the case that the line misses, each with the value. What a plan answered has no time, and is judged, too.
pub(crate) fn missed(case: &Case, line: &CaseLine) -> Vec<String> {
    let is_judged = line.time_s.is_some() || line.status == Status::Ok;
    let Some(benchmark) = benchmark(&case.benchmark).filter(|_| is_judged) else { return Vec::new() };
    let expected = Sampling::of(case).map_or_else(|_| Vec::new(), |sampling| sampling.expect);
    let gates = expected.into_iter().filter_map(|text| Some((Gate::parse(&text, benchmark.about()).ok()?, text)));
    gates.filter_map(|(gate, text)| Some(format!("{text}: {}", gate.miss(line)?))).collect()
}

#[cfg(test)]
mod tests {
    use measure::{Settings, Trial};
    use record::TimeSummary;
    use serde_json::json;

    use super::*;

    /// Which results differ tells whose fault it is.
    #[test]
    fn wrong_results_keep_what_tells_of_them() {
        let text = "experiment: t
cases: [{benchmark: hardware, test: results, ranks: 2, threads: 1}]";
        let read = record::plan::read(text, "t.yaml", &benchmarks::abouts(), &[]);
        let plan = read.unwrap_or_else(|errors| panic!("{errors}"));
        let case = &plan.cases[0];
        let details = |rounds: Value| json!({"how": "fma", "rounds": rounds}).as_object().cloned().unwrap();
        let details = vec![details(json!({"a": 9})), details(json!({"a": 7, "b": 2}))];
        let mut run = CaseRun::new(case, Settings::from_case(case), false);
        run.trials.push(Trial { details, ..Trial::default() });
        let mut line = CaseLine::unmeasured(case, Status::Failed, "2 wrong elements");
        (line.wrong, line.time_s) = (Some(2), Some(TimeSummary { median: 1.0, ..TimeSummary::default() }));
        complete(&run, &run, (&*benchmarks::parse(case).unwrap(), None), &mut line);
        assert_eq!(line.metrics["results"]["rounds"][1]["b"], 2, "{:?}", line.metrics);
    }
}
