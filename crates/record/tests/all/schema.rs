//! The schemas accept what the reader accepts and the writer writes, and refuse slips.

use record::{CaseLine, HostClock, plan, schema};
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

    for (name, value) in [("status", json!("fine")), ("id", json!(7)), ("busbw_gbs", json!(null)), ("extra", json!(1))]
    {
        let mut wrong = line.clone();
        wrong[name] = value;
        assert!(!faults(&schema, &wrong).is_empty(), "the schema takes {name}");
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
