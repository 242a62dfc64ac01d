//! Any text as a plan, and as the value of a flag: no panic, and every refusal says why.

#![no_main]

use libfuzzer_sys::fuzz_target;
use record::show::Show;
use record::{About, plan};
use terms::{Field, Kind, Role};

const fn field(name: &'static str, kind: Kind, default: Option<&'static str>) -> Field {
    Field::new(kind, default, "").named(name)
}

static FIELDS: &[Field] = &[
    field("ranks", Kind::Whole(1, 4096), Some("2")).always().role(Role::World),
    field("op", Kind::Word(|| vec!["all_reduce", "broadcast"]), Some("all_reduce")).always(),
    field("bytes", Kind::Bytes, Some("1KiB")).always(),
    field("in_place", Kind::Bool, Some("true")),
    field("max_seconds", Kind::Seconds, None).role(Role::Sampling),
    field("target_precision", Kind::Ratio, Some("2%")).role(Role::Sampling),
    field("pace_bandwidth", Kind::Bandwidth, None),
    field("pace_latency", Kind::Seconds, None),
    field("file", Kind::Text, None),
    field("expect", Kind::Texts, None).role(Role::Sampling),
    field("inject", Kind::Texts, None),
];

static COLLECTIVE: About = About {
    name: "collective",
    doc: "",
    fields: &[|| FIELDS],
    metrics: &[],
    check: |_| Ok(()),
    command: None,
    show: Show::default,
};

fuzz_target!(|text: &str| {
    match plan::read(text, "p.yaml", &[&COLLECTIVE], &[]) {
        Ok(plan) => {
            assert!(!plan.cases.is_empty() && plan.cases.len() <= plan::limits::CASES);
            // A resolved plan survives the run file.
            let again = record::to_json(&plan).expect("a plan is JSON");
            assert_eq!(record::from_json::<record::Plan>(&again).expect("it reads back"), plan);
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
