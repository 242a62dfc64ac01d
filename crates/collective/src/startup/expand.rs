//! The cases that one stands for: each stage in the place of `all`, cold and warm in the place of `both`.

use std::collections::HashSet;

use record::{Case, Plan};
use serde_json::Value;
use terms::Named;

use super::about::{ABOUT, check};
use super::fields::{Stage, Start, StartupFields};

/// Communicators that are open already, where a case names no number: from none to some tens of a job with several
/// dimensions of parallelism.
const OPEN: &[u32] = &[0, 4, 16];

/// Settles what the plan's cases leave open. The same plan gives the same cases.
pub(super) fn complete(plan: &mut Plan) {
    // What the plan has itself stays where it is.
    let given: HashSet<String> = plan.cases.iter().map(|case| case.id.clone()).collect();
    plan.replace_cases(ABOUT.name, |case| {
        let is_there = |other: &Case| other.id != case.id && given.contains(&other.id);
        each(&case).into_iter().filter(|other| !is_there(other)).collect()
    });
}

/// The cases that one stands for, and the later call that a first one is compared with.
fn each(case: &Case) -> Vec<Case> {
    let Ok(fields) = StartupFields::of(case) else { return vec![case.clone()] };
    let stages = match fields.stage {
        Stage::All => Stage::EACH.to_vec(),
        Stage::FirstCall => vec![Stage::FirstCall, Stage::LaterCall],
        stage => vec![stage],
    };
    let mut cases = Vec::new();
    for stage in stages {
        for start in starts(stage, &fields) {
            cases.extend(of_stage(case, &fields, stage, start));
        }
    }
    cases
}

/// A later call is warm, and is compared with first ones of both kinds.
fn starts(stage: Stage, fields: &StartupFields) -> Vec<Start> {
    match (stage, fields.start) {
        (Stage::LaterCall, Start::Cold) if fields.stage == Stage::All => Vec::new(),
        (Stage::LaterCall, _) => vec![Start::Warm],
        (_, Start::Both) => vec![Start::Cold, Start::Warm],
        (_, start) => vec![start],
    }
}

fn of_stage(case: &Case, fields: &StartupFields, stage: Stage, start: Start) -> Vec<Case> {
    let mut base = case.clone();
    base.parameters.insert("stage", Value::from(stage.name()));
    base.parameters.insert("start", Value::from(start.name()));
    let foreign: &[&str] = match stage {
        Stage::Join => &["op", "bytes", "communicators", "inject"],
        Stage::Communicator => &["op", "bytes", "inject"],
        _ => &["communicators"],
    };
    let stands_for_others = stage != fields.stage;
    for name in foreign.iter().filter(|_| stands_for_others) {
        base.parameters.shift_remove(name);
    }
    if start != fields.start {
        // Cold processes have one sample; how many others have is theirs.
        let cold = [start, fields.start].contains(&Start::Cold);
        for name in ["warmup", "iters"].iter().filter(|_| cold) {
            base.settings.shift_remove(name);
        }
    }
    let open = match (stage, fields.communicators, start) {
        (Stage::Communicator, None, Start::Warm) => OPEN,
        (Stage::Communicator, None, _) => &OPEN[..1],
        _ => &[],
    };
    let with = |open: &u32| {
        let mut case = base.clone();
        case.parameters.insert("communicators", Value::from(*open));
        case
    };
    let mut cases = if open.is_empty() { vec![base] } else { open.iter().map(with).collect() };
    cases.iter_mut().for_each(check_and_identify);
    cases
}

fn check_and_identify(case: &mut Case) {
    if let Err(refused) = check(case) {
        case.skip = Some(refused.error.on_one_line());
    }
    case.identify(&ABOUT);
}
