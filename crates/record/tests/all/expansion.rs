//! What a plan stands for.

use record::{About, Case, Plan, plan};
use serde_json::json;
use terms::{Field, FieldError, Kind, Role};

use crate::table::{TABLE, pairs};

fn read(text: &str) -> Plan {
    plan::read(text, "plan.yaml", &TABLE, &[]).unwrap_or_else(|errors| panic!("{errors}"))
}

fn column<'a>(plan: &'a Plan, name: &str) -> Vec<&'a serde_json::Value> {
    plan.cases.iter().map(|case| case.value(name).unwrap()).collect()
}

fn short(case: &Case) -> String {
    format!("{} {} {}", case.text("op").unwrap_or("-"), case.ranks(), case.whole("bytes").unwrap_or(0))
}

const DESIGN: &str = "
experiment: sweep
defaults: {seed: 1, dtype: f32, target_precision: 2%}
profiling: {enabled: false}
cases:
  - benchmark: collective
    op: [all_reduce, all_gather]
    ranks: [2, 4]
    backend: shm
    bytes: {from: 1KiB, to: 1GiB, factor: 4}
  - benchmark: training
    model: gpt2
    zip: {ranks: [1, 2], global_batch: [4, 8]}
";

#[test]
fn the_designs_example_expands_in_written_order_grouped_by_world() {
    let plan = read(DESIGN);
    assert_eq!((plan.experiment.as_str(), plan.profiling), ("sweep", false));
    assert_eq!(plan.source_text, DESIGN);
    assert_eq!(plan.cases.len(), 2 * 2 * 11 + 2);
    let shown: Vec<String> = plan.cases.iter().map(short).collect();
    // Two ranks first: both operations, then the training in a world of two ranks, too. Sizes change fastest.
    assert_eq!(shown[..2], ["all_reduce 2 1024", "all_reduce 2 4096"]);
    assert_eq!(shown[10], "all_reduce 2 1073741824");
    assert_eq!(shown[11], "all_gather 2 1024");
    assert_eq!((shown[22].as_str(), plan.cases[22].whole("global_batch")), ("- 2 0", Some(8)));
    assert_eq!(shown[23], "all_reduce 4 1024");
    assert_eq!((shown[45].as_str(), plan.cases[45].whole("global_batch")), ("- 1 0", Some(4)));
}

#[test]
fn a_case_holds_parameters_settings_and_world() {
    let plan = read(
        "experiment: x\ncases:\n  - benchmark: collective\n    bytes: 1MiB\n    op: All-Reduce\n    max-seconds: 90s
    expect: [busbw_gbs >= 12, wrong == 0]\n    inject: ['delay:rank=1', 'kill:rank=0']
    pace: {bandwidth: 10GB/s, latency: 5us}\n    bind: core\n    in_place: false\n",
    );
    let case = &plan.cases[0];
    // In declared order; `bind` was given its default, so it is not among the parameters.
    let parameters = json!({"ranks": 2, "backend": "shm", "dtype": "f32", "mode": "streaming", "seed": 1,
        "inject": "delay:rank=1 kill:rank=0", "pace_bandwidth": 10_000_000_000u64, "pace_latency": 5e-6,
        "op": "all_reduce", "bytes": 1_048_576, "in_place": false});
    assert_eq!(serde_json::to_string(&case.parameters).unwrap(), parameters.to_string());
    let settings = json!({"target_precision": 0.02, "max_seconds": 90, "expect": ["busbw_gbs >= 12", "wrong == 0"]});
    assert_eq!(serde_json::to_string(&case.settings).unwrap(), settings.to_string());
    assert_eq!(json!(case.world), json!({"ranks": 2, "backend": "shm", "bind": "core"}));
    assert_eq!(case.id.len(), 12);
}

#[test]
fn json_is_read_like_yaml() {
    let json = r#"{"experiment": "x", "cases": [{"benchmark": "collective", "op": "all_reduce", "ranks": [2, 4],
	"bytes": {"from": 1024, "to": "4KiB", "factor": 2}}]}"#;
    let yaml = "experiment: x\ncases:\n- {benchmark: collective, op: all-reduce, ranks: [2, 4], bytes: 1KiB..4KiB*2}\n";
    assert_eq!(read(json).cases, read(yaml).cases);
}

#[test]
fn ranges_end_at_or_below_their_end() {
    let sizes = |bytes: &str| {
        let text = format!("experiment: x\ncases:\n- {{benchmark: collective, op: reduce, bytes: {bytes}}}\n");
        column(&read(&text), "bytes").iter().map(|size| size.as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(sizes("8..64"), [8, 16, 32, 64]);
    assert_eq!(sizes("8..100*3"), [8, 24, 72]);
    assert_eq!(sizes("'8..8'"), [8]);
    assert_eq!(sizes("[4, 1KiB..2KiB, {from: 1MB, to: 4MB, factor: 4}]"), [4, 1024, 2048, 1_000_000, 4_000_000]);
    assert_eq!(sizes("1TiB..18446744073709551612*65536").len(), 2);
}

#[test]
fn case_overrides_default_and_set_overrides_both() {
    let text = "experiment: x\ndefaults: {dtype: [f32, f64], ranks: 3, global_batch: 2}\ncases:
  - {benchmark: collective, op: all_reduce, bytes: 1KiB, dtype: bf16}
  - {benchmark: training, ranks: 4}\n";
    let plan = read(text);
    assert_eq!(column(&plan, "dtype"), ["bf16", "f32", "f64"]);
    assert_eq!(column(&plan, "ranks"), [3, 4, 4]);
    let set = pairs(&[("ranks", "1,2"), ("bytes", "8..16"), ("pace.latency", "1us")]);
    let plan = plan::read(text, "plan.yaml", &TABLE, &set).unwrap();
    assert_eq!(
        column(&plan, "ranks"),
        [1, 1, 1, 1, 2, 2, 2, 2].map(serde_json::Value::from).iter().collect::<Vec<_>>()
    );
    assert_eq!(plan.cases[0].whole("bytes"), Some(8));
    assert_eq!(plan.cases[0].number("pace_latency"), Some(1e-6));
}

#[test]
fn an_overridden_field_leaves_its_zip() {
    let text = "experiment: x\ncases:\n  - {benchmark: training, zip: {ranks: [1, 2], global_batch: [4, 8]}}\n";
    let plan = plan::read(text, "plan.yaml", &TABLE, &pairs(&[("ranks", "7")])).unwrap();
    assert_eq!(column(&plan, "ranks"), [7, 7]);
    assert_eq!(column(&plan, "global_batch"), [4, 8]);
}

#[test]
fn repeated_cases_run_once_and_it_is_said() {
    let plan = read("experiment: x\ncases:\n- {benchmark: collective, op: all_reduce, bytes: [8, 9, 1KiB, 1024]}\n");
    assert_eq!(column(&plan, "bytes"), [8, 1024]);
    assert_eq!(plan.notes, ["2 cases are asked for more than once; each runs once, at its first place"]);
}

#[test]
fn what_the_check_removes_or_rounds_is_kept_so() {
    let plan = read("experiment: x\ncases:\n- {benchmark: collective, op: [barrier, reduce], bytes: 10}\n");
    assert!(plan.cases[0].value("bytes").is_none());
    assert_eq!((plan.cases[1].whole("bytes"), plan.cases[1].bytes_requested), (Some(8), Some(10)));
    assert_eq!(plan.cases[1].caveats, [record::Caveat::SizeRounded]);
}

#[test]
fn a_resolved_plan_survives_json() {
    let plan = read(DESIGN);
    let text = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
}

#[test]
fn a_world_is_not_split_by_what_the_check_removes() {
    const fn world(name: &'static str, default: &'static str) -> Field {
        let kind = Kind::Whole(1, 64);
        Field::new(kind, Some(default), "").named(name).role(Role::World).always()
    }
    const FIELDS: &[Field] = &[world("ranks", "2"), world("threads", "1")];
    // Threads mean nothing to a single rank here, and at most four are used.
    fn check(case: &mut Case) -> Result<(), FieldError> {
        match (case.ranks(), case.whole("threads")) {
            (1, _) => drop(case.parameters.shift_remove("threads")),
            (_, Some(5..)) => case.parameters.insert("threads", 4.into()),
            _ => {}
        }
        Ok(())
    }
    static ABOUT: About = About {
        name: "x",
        doc: "",
        fields: &[|| FIELDS],
        metrics: &[],
        check,
        command: None,
        show: record::show::Show::default,
    };
    let plan = plan::from_flags(&ABOUT, &pairs(&[("ranks", "1,2"), ("threads", "1,2,8")]), &[]).unwrap();
    let worlds: Vec<String> = plan.cases.iter().map(|case| json!(case.world).to_string()).collect();
    assert_eq!(
        worlds,
        [r#"{"ranks":1}"#, r#"{"ranks":2,"threads":1}"#, r#"{"ranks":2,"threads":2}"#, r#"{"ranks":2,"threads":4}"#]
    );
}
