//! A field that a later version renamed: plans and records with its earlier name mean the same, and no identity changes.

use record::plan::{from_flags, read};
use record::{About, Case, Declared, SharedMap, workload};
use serde_json::{Value, json};
use terms::{Field, Kind, Role};

use crate::table::pairs;
use crate::validator;

const fn sampling(kind: Kind, default: &'static str) -> Field {
    Field::new(kind, Some(default), "").role(Role::Sampling)
}

const SIZE: Field = Field::new(Kind::Bytes, Some("1KiB"), "").always();
const LINK: Field = Field::new(Kind::Seconds, None, "").role(Role::World);

record::fields! {
    /// The fields of the first version.
    struct First {
        length: u64 = SIZE,
        link_delay: Option<f64> = LINK,
        seconds: f64 = sampling(Kind::Seconds, "5s"),
    }
}

record::fields! {
    /// The fields of a later version, one of which was renamed twice.
    struct Later {
        size: u64 = SIZE.was(&["length", "extent"]),
        path_latency: Option<f64> = LINK.was(&["link_delay"]),
        max_seconds: f64 = sampling(Kind::Seconds, "5s").was(&["seconds"]),
    }
}

const fn about(fields: &'static [fn() -> &'static [Field]]) -> About {
    let show = record::show::Show::default;
    About { name: "x", doc: "", fields, metrics: &[], check: |_| Ok(()), command: None, show }
}

static FIRST: About = about(&[First::fields]);
static LATER: About = about(&[Later::fields]);

const OLD_PLAN: &str = "experiment: e\ncases: [{benchmark: x, length: [1KiB, 2KiB], link: {delay: 5us}, seconds: 1s}]";
const NEW_PLAN: &str = "experiment: e\ncases: [{benchmark: x, size: [1KiB, 2KiB], path_latency: 5us, max_seconds: 1s}]";

fn cases(about: &'static About, text: &str) -> Vec<Case> {
    read(text, "p.yaml", &[about], &[]).unwrap_or_else(|errors| panic!("{errors}")).cases
}

#[test]
fn an_old_plan_is_read_as_a_new_one() {
    let new = cases(&LATER, NEW_PLAN);
    assert_eq!(cases(&LATER, OLD_PLAN), new);
    assert_eq!(new[1].parameters, serde_json::from_value(json!({"size": 2048, "path_latency": 5e-6})).unwrap());
    let own = "cases: [{benchmark: x, length: [1KiB, 2KiB],";
    let defaults = OLD_PLAN.replace(own, "defaults: {extent: [1KiB, 2KiB]}\ncases: [{benchmark: x,");
    assert_eq!(cases(&LATER, &defaults), new, "in the defaults, by the name between the two");
    let flags = from_flags(&LATER, &pairs(&[("length", "1KiB,2KiB"), ("link_delay", "5us"), ("seconds", "1s")]), &[]);
    assert_eq!(flags.unwrap().cases, new);
    let set = read(NEW_PLAN, "p.yaml", &[&LATER], &pairs(&[("length", "4KiB")])).unwrap().cases;
    assert_eq!(set.iter().map(|case| &case.parameters["size"]).collect::<Vec<_>>(), [4096]);
}

#[test]
fn both_names_at_once_are_an_error() {
    let plan = "experiment: e\ncases: [{benchmark: x, length: 1KiB, size: 2KiB}]";
    let errors = read(plan, "p.yaml", &[&LATER], &[]).unwrap_err().to_string();
    assert!(errors.contains("`size` is given twice in this case"), "{errors}");
    let zipped = "experiment: e\ncases: [{benchmark: x, zip: {length: [1KiB], size: [2KiB]}}]";
    let errors = read(zipped, "p.yaml", &[&LATER], &[]).unwrap_err().to_string();
    assert!(errors.contains("`size` is given twice in this case"), "{errors}");
    let twice = pairs(&[("length", "1KiB"), ("size", "2KiB")]);
    let errors = from_flags(&LATER, &twice, &[]).unwrap_err().to_string();
    assert!(errors.contains("`size` is given twice"), "{errors}");
    let errors = read(NEW_PLAN, "p.yaml", &[&LATER], &twice).unwrap_err().to_string();
    assert!(errors.contains("`size` is given twice"), "{errors}");
}

#[test]
fn a_renamed_field_changes_no_identity() {
    let [old, new] = [cases(&FIRST, OLD_PLAN), cases(&LATER, NEW_PLAN)];
    let ids = |cases: &[Case]| cases.iter().map(|case| case.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&old), ids(&new));
    assert_ne!(new[0].id, new[1].id);
    assert_ne!(old, new, "they are written with other names");
    assert!(old[0].is_same(&new[0], &LATER) && new[0].is_same(&old[0], &LATER) && !old[0].is_same(&new[1], &LATER));
    // An old case that this version changes keeps the identity of a new one.
    let mut again = old[0].clone();
    again.identify(&LATER);
    assert_eq!(again.id, new[0].id);
}

#[test]
fn an_old_case_is_read_by_the_fields_of_today() {
    let old = cases(&FIRST, OLD_PLAN);
    let fields = Later::of(&old[1]).unwrap();
    assert_eq!(fields, Later { size: 2048, path_latency: Some(5e-6), max_seconds: 1.0 });
    let between: SharedMap = serde_json::from_value(json!({"extent": 7})).unwrap();
    assert_eq!(Later::of(&between).unwrap().size, 7);
}

#[test]
fn the_copy_in_a_record_knows_the_earlier_names() {
    let [old, new] = [cases(&FIRST, OLD_PLAN), cases(&LATER, NEW_PLAN)];
    let [first, later] = [Declared::of(&FIRST), Declared::of(&LATER)];
    assert_eq!(workload(&old[0].parameters, &first), workload(&new[0].parameters, &later));
    assert_ne!(workload(&old[1].parameters, &first), workload(&new[0].parameters, &later));
    let written = serde_json::to_value(&later).unwrap();
    assert_eq!(written["fields"][0]["was"], json!(["length", "extent"]));
    assert_eq!(serde_json::from_value::<Declared>(written).unwrap(), later);
    assert_eq!(serde_json::to_value(&first).unwrap()["fields"][0].get("was"), None, "as in records of before");
}

#[test]
fn the_schema_of_plans_has_the_earlier_names() {
    let schema = record::schema::plan(&[&LATER]);
    let old = json!({"benchmark": "x", "length": ["1KiB", "2KiB"], "link_delay": "5us", "seconds": "1s"});
    let new = json!({"benchmark": "x", "size": ["1KiB", "2KiB"], "path_latency": "5us", "max_seconds": "1s"});
    let zipped = json!({"benchmark": "x", "zip": {"extent": ["1KiB"]}});
    for case in [old, new, zipped] {
        let plan = json!({"experiment": "e", "cases": [case]});
        assert_eq!(validator::faults(&schema, &plan), Vec::<String>::new());
        assert!(read(&plan.to_string(), "p.json", &[&LATER], &[]).is_ok(), "{plan}");
    }
    let property = |name: &str| schema["properties"]["cases"]["items"]["anyOf"][0]["properties"][name].clone();
    assert_eq!((&property("length")["deprecated"], &property("size")["deprecated"]), (&json!(true), &Value::Null));
}
