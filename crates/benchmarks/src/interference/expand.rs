//! The cases that one stands for: each activity in the place of `all`, alone and beside each other.

use record::{Case, Plan};
use serde_json::Value;
use terms::Named;

use super::about::{ABOUT, check};
use super::fields::{Activity, Beside, InterferenceFields};

/// Settles what the plan's cases leave open, and adds each activity alone. The same plan gives the same cases.
pub(super) fn complete(plan: &mut Plan) {
    plan.replace_cases(ABOUT.name, |case| each(&case));
}

fn each(case: &Case) -> Vec<Case> {
    let Ok(fields) = InterferenceFields::of(case) else { return vec![case.clone()] };
    let activities = match fields.activity {
        Activity::All => Activity::EACH.to_vec(),
        activity => vec![activity],
    };
    let mut cases = Vec::new();
    for activity in activities {
        for beside in besides(activity, &fields) {
            let mut pair = case.clone();
            pair.parameters.insert("activity", Value::from(activity.name()));
            pair.parameters.insert("beside", Value::from(beside.name()));
            // A reason of the pair is not one of the activity alone.
            pair.skip = None;
            if let Err(refused) = check(&mut pair) {
                pair.skip = Some(refused.error.on_one_line());
            }
            pair.identify(&ABOUT);
            cases.push(pair);
        }
    }
    cases
}

/// Nothing first: it is what the others are compared with. An activity with itself is there only where it was named.
fn besides(activity: Activity, fields: &InterferenceFields) -> Vec<Beside> {
    let others = match fields.beside {
        Beside::None => Vec::new(),
        Beside::All => {
            Beside::ALL.iter().copied().filter(|beside| beside.activity().is_some_and(|of| of != activity)).collect()
        }
        beside => vec![beside],
    };
    let stands_for_all = fields.activity == Activity::All;
    let others = others.into_iter().filter(|beside| !(stands_for_all && beside.activity() == Some(activity)));
    std::iter::once(Beside::None).chain(others).collect()
}
