//! Any text as a plan, and as the value of a flag: no panic, and every refusal says why.

#![no_main]

use libfuzzer_sys::fuzz_target;
use record::{About, Field, Kind, Shown, plan};

const fn field(name: &'static str, kind: Kind, default: Option<&'static str>, shown: Shown) -> Field {
    Field { name, kind, default, unit: "", doc: "", shown, world: false }
}

const FIELDS: &[Field] = &[
    Field { world: true, ..field("ranks", Kind::Whole(1, 4096), Some("2"), Shown::Always) },
    field("op", Kind::Word(|| vec!["all_reduce", "broadcast"]), Some("all_reduce"), Shown::Always),
    field("bytes", Kind::Bytes, Some("1KiB"), Shown::Always),
    field("in_place", Kind::Bool, Some("true"), Shown::WhenSet),
    field("max_seconds", Kind::Seconds, None, Shown::Setting),
    field("target_precision", Kind::Ratio, Some("2%"), Shown::Setting),
    field("pace_bandwidth", Kind::Bandwidth, None, Shown::WhenSet),
    field("pace_latency", Kind::Seconds, None, Shown::WhenSet),
    field("file", Kind::Text, None, Shown::WhenSet),
    field("expect", Kind::Texts, None, Shown::Setting),
    field("inject", Kind::Texts, None, Shown::WhenSet),
];

static COLLECTIVE: About =
    About { name: "collective", doc: "", fields: &[FIELDS], metrics: &[], check: |_| Ok(()) };

fuzz_target!(|text: &str| {
    match plan::read(text, "p.yaml", &[&COLLECTIVE], &[]) {
        Ok(plan) => {
            assert!(!plan.cases.is_empty() && plan.cases.len() <= plan::limits::CASES);
            // A resolved plan survives the run file.
            let again = record::to_json(&plan).expect("a plan is JSON");
            assert_eq!(serde_json::from_str::<record::Plan>(&again).expect("it reads back"), plan);
        }
        Err(errors) => {
            assert!(!errors.errors.is_empty());
            assert!(errors.to_string().chars().all(|c| c == '\n' || !c.is_control()));
        }
    }
    // The same text as flags: the first byte picks the field.
    if let Some((first, rest)) = text.split_at_checked(1) {
        let name = FIELDS[first.as_bytes()[0] as usize % FIELDS.len()].name;
        let _ = plan::from_flags(&COLLECTIVE, &[(name.to_owned(), rest.to_owned())], &[]);
    }
});
