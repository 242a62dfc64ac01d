//! What profiles of jobs on a GPU must say.

use serde_json::Value;

fn share(profile: &Value, part: &str) -> f64 {
    let of = |name: &str| profile["analysis"]["parts"][name].as_f64().unwrap_or(0.0);
    let step = of("step_s");
    if step > 0.0 { of(part) / step } else { 0.0 }
}

fn count(profile: &Value) -> usize {
    profile["analysis"]["steps"]["numbers"].as_array().map_or(0, Vec::len)
}

fn names(profile: &Value, kind: &str) -> bool {
    let findings = profile["analysis"]["findings"].as_array();
    findings.is_some_and(|all| all.iter().any(|finding| finding["kind"] == kind))
}

fn said(profile: &Value) -> String {
    let findings = profile["analysis"]["findings"].as_array().into_iter().flatten();
    let all: Vec<&str> = findings.filter_map(|finding| finding["what"].as_str()).collect();
    format!("{} steps; {}", count(profile), if all.is_empty() { "no finding".to_owned() } else { all.join(" ") })
}

/// Some steps were seen, and kernels of the device in them.
pub(super) fn steps(profile: &Value) -> Result<String, String> {
    let kernels = profile["analysis"]["kernels"].as_array().map_or(0, Vec::len);
    if count(profile) < 5 {
        return Err(format!("{} steps were seen", count(profile)));
    }
    if kernels == 0 {
        return Err("no kernel was seen".to_owned());
    }
    Ok(said(profile))
}

/// The device computes for most of the step.
pub(super) fn busy(profile: &Value) -> Result<String, String> {
    steps(profile)?;
    let computing = share(profile, "compute_s");
    if computing < 0.5 {
        Err(format!("computation is {:.0}% of a step: {}", computing * 100.0, said(profile)))
    } else {
        Ok(said(profile))
    }
}

/// Each batch is late by more than half a step.
pub(super) fn input(profile: &Value) -> Result<String, String> {
    steps(profile)?;
    if share(profile, "input_s") > 0.4 && names(profile, "input_bound") {
        Ok(said(profile))
    } else {
        Err(said(profile))
    }
}

/// The device waits for the host in most of a step.
pub(super) fn idle(profile: &Value) -> Result<String, String> {
    steps(profile)?;
    if names(profile, "host_bound_device") && share(profile, "host_s") > 0.4 {
        Ok(said(profile))
    } else {
        Err(said(profile))
    }
}

pub(super) fn slow(profile: &Value) -> Result<String, String> {
    steps(profile)?;
    if profile["straggler"]["rank"] == 1 { Ok(said(profile)) } else { Err(said(profile)) }
}
