//! The plans that the program brings along: presets of `gen-config`. `run` takes one of them when it is given none.

/// A preset: its name, what it is for, and its text for a machine of so many cores.
pub struct Preset {
    /// What users write.
    pub name: &'static str,
    /// What it is for, in a few words.
    pub doc: &'static str,
    /// The text of the plan.
    pub text: fn(cores: usize) -> String,
}

/// Every preset, in the order in which help lists them.
pub static PRESETS: &[Preset] = &[
    Preset {
        name: "quick",
        doc: "collectives and a small model on this machine, in under two minutes of measuring",
        text: quick,
    },
    Preset {
        name: "allreduce_sweep",
        doc: "all_reduce with 2, 4 and 6 ranks from 1 MB to 1 GB",
        text: |_| include_str!("../plans/allreduce_sweep.yaml").to_owned(),
    },
    Preset {
        name: "training",
        doc: "a small GPT-2 with every strategy on two ranks, and the memory that it needs",
        text: |_| include_str!("../plans/training.yaml").to_owned(),
    },
    Preset {
        name: "experts_decode",
        doc: "expert parallelism with the tokens of decoding, at the sizes of DeepSeek-V3",
        text: |_| include_str!("../plans/experts_decode.yaml").to_owned(),
    },
    Preset {
        name: "experts_training",
        doc: "expert parallelism with the tokens of training, at the sizes of DeepSeek-V3",
        text: |_| include_str!("../plans/experts_training.yaml").to_owned(),
    },
    Preset {
        name: "soak",
        doc: "one operation for an hour, drift shown",
        text: |_| include_str!("../plans/soak.yaml").to_owned(),
    },
];

/// Every preset's name.
pub fn names() -> Vec<&'static str> {
    PRESETS.iter().map(|preset| preset.name).collect()
}

/// `examples/quick.yaml` is what two cores get; others get their own numbers of ranks in the same plan.
fn quick(cores: usize) -> String {
    let plan = include_str!("../plans/quick.yaml");
    // Training runs on 1 and 2 ranks everywhere: that is where efficiency begins.
    plan.replace("ranks: [2]", &format!("ranks: [{}]", join(&quick_ranks(cores))))
        .replace("ranks: 2 # every core", &format!("ranks: {} # every core", cores.clamp(2, 8)))
}

/// The quick plan for the ranks that a launcher has started: all of them, and beside them one, where training begins.
/// `connected`: what connects their hosts, a field and its value, where there are several.
pub fn quick_of_launched(ranks: u32, connected: Option<(String, String)>) -> String {
    let plan = include_str!("../plans/quick.yaml");
    let plan = connected.map_or_else(|| plan.to_owned(), |connected| connected_by(plan, &connected));
    plan.replace("ranks: [2]", &format!("ranks: [{ranks}]"))
        .replace("ranks: 2 # every core", &format!("ranks: {ranks} # all of the launcher"))
        .replace("ranks: [1, 2]", &format!("ranks: [1, {ranks}]").replace("[1, 1]", "[1]"))
}

/// A plan whose defaults begin with a backend, with another field in its place.
fn connected_by(plan: &str, (field, value): &(String, String)) -> String {
    let (before, rest) = plan.split_once("{backend: ").unwrap_or((plan, ""));
    let after = rest.split_once(',').map_or("", |(_, after)| after);
    format!("{before}{{{field}: {value},{after}")
}

/// A pair, and every core, up to 8. No more ranks than cores: their times would be of waiting for a core, and the report would
/// advise against them.
fn quick_ranks(cores: usize) -> Vec<usize> {
    let mut ranks = vec![2, cores.clamp(2, 8)];
    ranks.dedup();
    ranks
}

pub(crate) fn join(numbers: &[usize]) -> String {
    numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_a_plan() {
        for preset in PRESETS {
            for cores in [1, 2, 3, 8, 64] {
                let plan = record::plan::read(&(preset.text)(cores), preset.name, &benchmarks::abouts(), &[]);
                let plan = plan.unwrap_or_else(|errors| panic!("{} for {cores} cores: {errors}", preset.name));
                assert!(!plan.cases.is_empty(), "{}", preset.name);
            }
        }
    }

    #[test]
    fn the_quick_plan_fits_the_machine() {
        assert_eq!(quick(2), include_str!("../plans/quick.yaml"));
        assert_eq!((quick_ranks(1), quick_ranks(2), quick_ranks(3)), (vec![2], vec![2], vec![2, 3]));
        assert_eq!((quick_ranks(4), quick_ranks(64)), (vec![2, 4], vec![2, 8]));
        assert!(quick(64).contains("ranks: [2, 8]") && quick(64).contains("ranks: 8 # every core"));
    }

    #[test]
    fn the_quick_plan_has_the_ranks_of_a_launcher() {
        let plan = record::plan::read(&quick_of_launched(4, None), "quick", &benchmarks::abouts(), &[]).unwrap();
        let ranks: std::collections::BTreeSet<u32> = plan.cases.iter().map(record::Case::ranks).collect();
        assert_eq!(ranks.into_iter().collect::<Vec<_>>(), [1, 2, 4], "2: a ping-pong has two");
        let alone = record::plan::read(&quick_of_launched(1, None), "quick", &benchmarks::abouts(), &[]).unwrap();
        assert!(alone.cases.iter().any(|case| case.ranks() == 1));
    }

    #[test]
    fn the_quick_plan_of_several_hosts_has_what_connects_them() {
        for (field, value) in [("backend", "reference"), ("runtime", "pytorch")] {
            let connected = Some((field.to_owned(), value.to_owned()));
            let text = quick_of_launched(4, connected);
            let plan = record::plan::read(&text, "quick", &benchmarks::abouts(), &[]).unwrap();
            let is_so = |case: &record::Case| case.parameters.get(field).is_some_and(|found| found == value);
            assert!(plan.cases.iter().all(is_so), "{text}");
        }
    }

    #[test]
    fn the_quick_plan_samples_for_less_than_two_minutes() {
        let plan = record::plan::read(&quick(2), "quick", &benchmarks::abouts(), &[]).unwrap();
        let seconds: f64 = plan.cases.iter().filter_map(|case| case.max_seconds()).sum();
        assert!(seconds < 120.0, "{seconds} s");
    }
}
