//! The schemas accept what the reader accepts and the writer writes, and refuse slips.

use record::{CanaryKind, CaseLine, HostClock, Machine, Placement, RunFile, Seen, TimeSummary, plan, schema};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde_json::{Value, json};

use crate::table::TABLE;
use crate::validator::faults;

/// JSON of a plan; the schema sees JSON, so these plans are JSON.
fn design_plan() -> Value {
    json!({
        "experiment": "sweep",
        "defaults": {"seed": 1, "dtype": "f32", "target_precision": "2%"},
        "profiling": {"enabled": false},
        "cases": [
            {"benchmark": "collective", "op": ["all_reduce", "all_gather"], "ranks": [2, 4], "backend": "shm",
             "bytes": {"from": "1KiB", "to": "1GiB", "factor": 4}, "pace": {"bandwidth": "10GB/s", "latency": "5us"}},
            {"benchmark": "training", "model": "gpt2", "zip": {"ranks": [1, 2], "global_batch": [4, 8]}},
        ],
        "expected": [
            {"benchmark": "collective", "where": {"op": "all_reduce", "bytes": "1GiB"}, "metric": "busbw_gbs",
             "value": 480, "basis": "measured", "source": "a page"},
        ],
    })
}

#[test]
fn the_designs_plan_is_valid_to_schema_and_reader() {
    let schema = schema::plan(&TABLE);
    assert_eq!(faults(&schema, &design_plan()), Vec::<String>::new());
    plan::read(&design_plan().to_string(), "p.json", &TABLE, &[]).unwrap_or_else(|errors| panic!("{errors}"));
}

#[test]
fn slips_are_refused_by_schema_and_reader() {
    let schema = schema::plan(&TABLE);
    for (pointer, value) in [
        ("/experiment", json!("../x")),
        ("/cases", json!([])),
        ("/cases/0/benchmark", json!("colective")),
        ("/cases/0/ranks", json!(0)),
        ("/cases/0/ranks", json!("2")),
        ("/cases/0/op", json!(["all_reduce", "brodcast"])),
        ("/cases/0/bytes", json!({"from": "1KiB"})),
        ("/cases/0/pace", json!({"latncy": "1us"})),
        ("/cases/1/zip", json!({"rank": [1]})),
        ("/defaults", json!({"sed": 1})),
        ("/profiling", json!({"enabled": "no"})),
        ("/expected", json!({})),
        ("/expected/0/benchmark", json!("training")),
        ("/expected/0/where", json!({"op": "brodcast"})),
        ("/expected/0/where", json!({"max_seconds": 1})),
        ("/expected/0/metric", json!("busbw")),
        ("/expected/0/value", json!(0)),
        ("/expected/0/basis", json!("guessed")),
        ("/expected/0", json!({"benchmark": "collective", "metric": "busbw_gbs", "value": 1, "basis": "measured"})),
    ] {
        let mut wrong = design_plan();
        *wrong.pointer_mut(pointer).unwrap() = value;
        assert!(!faults(&schema, &wrong).is_empty(), "the schema takes {wrong}");
        assert!(plan::read(&wrong.to_string(), "p.json", &TABLE, &[]).is_err(), "the reader takes {wrong}");
    }
}

#[test]
fn every_field_is_described_with_its_default() {
    let schema = schema::plan(&TABLE);
    for (index, about) in TABLE.iter().enumerate() {
        let properties = &schema["properties"]["cases"]["items"]["anyOf"][index]["properties"];
        assert_eq!(properties["benchmark"]["const"], about.name);
        for field in about.all_fields() {
            let declared = &properties[field.name];
            assert_eq!(declared["description"], field.doc, "{}", field.name);
            assert_eq!(declared.get("default").is_some(), field.default.is_some(), "{}", field.name);
        }
    }
    assert_eq!(schema["properties"]["defaults"]["properties"]["ranks"]["default"], 2);
}

#[test]
fn what_is_written_is_valid() {
    let schema = schema::record(&TABLE);
    let line: Value = serde_json::from_str(crate::line::DESIGN).unwrap();
    assert_eq!(faults(&schema, &line), Vec::<String>::new());
    let run = serde_json::to_value(crate::store::run_file()).unwrap();
    assert_eq!(faults(&schema, &run), Vec::<String>::new());
    let mut samples = serde_json::to_value(crate::store::samples("0123456789ab", 0)).unwrap();
    assert_eq!(faults(&schema, &samples), Vec::<String>::new(), "as older versions wrote it");
    samples["crc32"] = json!("0123abcd");
    assert_eq!(faults(&schema, &samples), Vec::<String>::new());
    samples["crc32"] = json!("0123ABC");
    assert!(!faults(&schema, &samples).is_empty());
    let mut seen = crate::store::samples("0123456789ab", 0);
    seen.canaries = vec![Seen { canary: CanaryKind::ClockNs, host: Some(0), before: 1.0, after: 1.5 }];
    assert_eq!(faults(&schema, &json!(seen)), Vec::<String>::new());
    let read: CaseLine = serde_json::from_value(line.clone()).unwrap();
    let sealed: Value = serde_json::from_str(&record::line_text(&read).unwrap()).unwrap();
    assert!(sealed["crc32"].is_string());
    assert_eq!(faults(&schema, &sealed), Vec::<String>::new());

    let mut over_hosts: CaseLine = serde_json::from_value(line.clone()).unwrap();
    let (host, why) = ("b".to_owned(), None);
    let known = HostClock { host, offset_ns: Some(-7), drift_ppm: Some(0.5), residual_ns: Some(3e4), why };
    let unknown = HostClock { host: "c".to_owned(), why: Some("it jumped".to_owned()), ..HostClock::default() };
    (over_hosts.hosts, over_hosts.clocks, over_hosts.starts_apart_s) = (Some(3), vec![known, unknown], Some(6e-5));
    over_hosts.pair_hosts = Some(1);
    over_hosts.metrics.extend([("slow_rank".to_owned(), json!(1)), ("slow_rank_wait_s".to_owned(), json!(1e-3))]);
    let written: Value = serde_json::from_str(&record::to_json(&over_hosts).unwrap()).unwrap();
    assert_eq!(faults(&schema, &written), Vec::<String>::new());
    assert_eq!(serde_json::from_value::<CaseLine>(written).unwrap(), over_hosts);

    for (name, value) in [
        ("status", json!("fine")),
        ("id", json!(7)),
        ("busbw_gbs", json!(null)),
        ("busbw_gbs", json!("fast")),
        ("extra", json!(1)),
    ] {
        let mut wrong = line.clone();
        wrong[name] = value;
        assert!(!faults(&schema, &wrong).is_empty(), "the schema takes {name}");
    }
}

/// Absent members are omitted. A null is read as one only where an older record may have it.
#[test]
fn a_null_is_valid_only_where_one_is_written() {
    let schema = schema::record(&TABLE);
    let line: Value = serde_json::from_str(crate::line::DESIGN).unwrap();
    let run = json!(crate::store::run_file());
    let with = |value: &Value, parent: &str, name: &str| {
        let mut value = value.clone();
        value.pointer_mut(parent).unwrap()[name] = Value::Null;
        faults(&schema, &value)
    };
    let optional = ["reason", "hosts", "worlds", "samples", "limit", "states", "roofline", "time_s"];
    for (value, parent, names) in [
        (&line, "", &optional[..]),
        (&line, "/time_s", &["ci95", "p05"]),
        (&run, "", &["labels", "launcher", "hosts", "versions", "started_by", "rounds", "imported", "end"]),
        (&run, "/machine", &["cores", "wsl", "caches"]),
        (&run, "/benchmarks/0/fields/0", &["default", "role"]),
    ] {
        assert_eq!(faults(&schema, value), Vec::<String>::new());
        for name in names {
            assert!(!with(value, parent, name).is_empty(), "the schema takes a null as {parent}/{name}");
        }
    }
    for written in ["bytes_requested", "skip"] {
        assert!(run["plan"]["cases"][0].get(written).is_some_and(Value::is_null), "{written}");
        assert_eq!(with(&run, "/plan/cases/0", written), Vec::<String>::new());
    }
}

#[test]
fn other_members_are_refused_at_the_top_and_taken_within_a_machine() {
    let schema = schema::record(&TABLE);
    let mut run = json!(crate::store::run_file());
    run["machine"]["colour"] = json!("grey");
    assert_eq!(faults(&schema, &run), Vec::<String>::new());
    run["machine"]["threads"] = json!("many");
    assert!(!faults(&schema, &run).is_empty(), "the schema takes a word as a number");
    for name in ["colour", "labels"] {
        let mut wrong = json!(crate::store::run_file());
        wrong[name] = json!({"colour": "grey"});
        assert!(!faults(&schema, &wrong).is_empty(), "the schema takes {name}");
    }
}

/// Notes the members of a struct that serde asks for.
struct Members<'a>(&'a mut Vec<&'static str>);

impl<'de> Deserializer<'de> for Members<'_> {
    type Error = serde::de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(Error::custom("not a struct"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &str,
        members: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Self::Error> {
        self.0.extend(members);
        Err(Error::custom("only its members are wanted"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

fn members<'de, T: Deserialize<'de>>() -> Vec<&'static str> {
    let mut found = Vec::new();
    assert!(T::deserialize(Members(&mut found)).is_err());
    found
}

#[test]
fn every_member_that_is_read_is_described_in_words_for_users() {
    let schema = schema::record(&TABLE);
    for (name, members) in [
        ("run", members::<RunFile>()),
        ("Machine", members::<Machine>()),
        ("Placement", members::<Placement>()),
        ("TimeSummary", members::<TimeSummary>()),
    ] {
        assert!(!members.is_empty(), "{name}");
        for member in members {
            assert!(schema["$defs"][name]["properties"][member].is_object(), "{name}.{member}");
        }
    }
    for (name, schema) in schema["$defs"].as_object().unwrap() {
        let members = schema["properties"].as_object().into_iter().flatten();
        for (member, schema) in members.map(|(member, schema)| (member.as_str(), schema)).chain([("", schema)]) {
            let description = schema["description"].as_str().unwrap_or_default();
            let is_for_rust = ["[`", "::", "None", "\n"].iter().any(|sign| description.contains(sign));
            assert!(!description.is_empty() && !is_for_rust, "{name}.{member}: `{description}`");
        }
    }
}

#[test]
fn the_test_table_itself_is_right() {
    for about in TABLE {
        assert_eq!(about.faults(), Vec::<String>::new(), "{}", about.name);
    }
}

#[test]
fn a_placement_of_an_older_record_names_no_devices_and_no_interfaces() {
    let older =
        r#"{"ranks":2,"bind":"core","hosts":["a","b"],"cpus":[[0],[0]],"sockets":[[0],[0]],"numa_nodes":[[0],[0]]}"#;
    let read: record::Placement = serde_json::from_str(older).unwrap();
    assert!(read.devices.is_empty() && read.interfaces.is_empty());
    assert_eq!(serde_json::to_string(&read).unwrap(), older);
    let newer = record::Placement { interfaces: vec![Some("eth0".to_owned()), None], ..read };
    assert_eq!(serde_json::from_value::<record::Placement>(json!(newer)).unwrap(), newer);
}
