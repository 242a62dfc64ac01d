//! Tests of CloudAI that run nccl-tests become plans.

use import::{Content, ForeignPlan, Here, Source};
use record::Plan;
use terms::Named as _;

use crate::{sample, source};

fn here(gpus: usize) -> Here {
    Here { gpus, hosts: 1, ..Here::default() }
}

fn foreign(source: &Source) -> Result<ForeignPlan, terms::Error> {
    match import::read(source, None)?.content {
        Content::Plan(plan) => Ok(plan),
        Content::Results(results) => panic!("results: {results:?}"),
    }
}

fn plan_of(foreign: &ForeignPlan) -> Plan {
    let read = record::plan::read(&foreign.text, "made", &benchmarks::abouts(), &[]);
    read.unwrap_or_else(|errors| panic!("{errors}\n{}", foreign.text))
}

fn made(text: &str) -> (ForeignPlan, Plan) {
    let foreign = foreign(&source(text).on(here(0)).with_given("ranks", "4")).unwrap();
    let plan = plan_of(&foreign);
    (foreign, plan)
}

fn refusal(text: &str) -> String {
    foreign(&source(text).on(here(0))).unwrap_err().to_string()
}

#[test]
fn sizes_grow_by_the_factor_in_units_of_1024() {
    let (foreign, plan) = made(&sample("cloudai", "all_gather.toml"));
    let bytes: Vec<u64> = plan.cases.iter().map(|case| case.bytes().unwrap()).collect();
    assert_eq!((bytes.len(), bytes[0], bytes[25]), (26, 128, 4 << 30));
    for case in &plan.cases {
        assert_eq!((case.op().unwrap().name(), case.ranks(), case.dtype()), ("all_gather", 4, Some("f32")));
        assert_eq!([case.whole("iters"), case.whole("warmup")], [Some(100), Some(50)]);
    }
    assert_eq!(plan.experiment, "nccl_test_all_gather");
    let read_as = foreign.read_as.join("\n");
    assert!(
        read_as.contains("minbytes: 128, maxbytes: 4G, stepfactor: 2 -> bytes: 128, 256 to 4294967296 (26 sizes)"),
        "{read_as}"
    );
    assert!(foreign.warnings.iter().any(|what| what.contains("no GPU was found")), "{:?}", foreign.warnings);
}

#[test]
fn gpus_are_used_where_there_are_some_and_ranks_follow() {
    let source = source(&sample("cloudai", "all_reduce_loopback.toml")).on(here(8));
    let foreign = foreign(&source).unwrap();
    let plan = plan_of(&foreign);
    // 8 MiB to 16 GiB.
    assert_eq!(plan.cases.len(), 12);
    for case in &plan.cases {
        assert_eq!((case.backend(), case.device(), case.ranks()), (Some("nccl"), Some("cuda"), 8));
        assert_eq!(case.text("reduce"), Some("sum"));
    }
    let warnings = foreign.warnings.join("\n");
    let environment = "NCCL_P2P_DISABLE=1 is not set: `--set env=NAME=VALUE` sets it for the ranks";
    assert!(warnings.contains(environment), "{warnings}");
    // A plan has such a field.
    let set = [("env".to_owned(), "NCCL_P2P_DISABLE=1".to_owned())];
    assert!(record::plan::read(&foreign.text, "made", &benchmarks::abouts(), &set).is_ok());
    assert!(warnings.contains("ranks: a scenario of CloudAI sets the nodes, not this file: 8"), "{warnings}");
}

#[test]
fn ranks_of_the_user_may_be_a_list() {
    let source = source(&sample("cloudai", "all_gather.toml")).on(here(0)).with_given("ranks", "2,4");
    let ranks: Vec<u32> = plan_of(&foreign(&source).unwrap()).cases.iter().map(record::Case::ranks).collect();
    assert!(ranks.contains(&2) && ranks.contains(&4), "{ranks:?}");
}

#[test]
fn lists_and_defaults_are_those_of_cloudai() {
    let (foreign, plan) = made(&sample("cloudai", "dse_all_gather.toml"));
    assert_eq!((plan.cases.len(), plan.cases[0].whole("warmup")), (26, Some(50)), "{}", foreign.text);
    assert!(foreign.warnings.iter().any(|what| what.contains("warmup_iters: 5, 50: a plan takes one number")));
    let (base, plan) = made(&sample("cloudai", "base.toml"));
    assert!(plan.cases.iter().all(|case| case.op().unwrap().name() == "all_reduce"));
    assert!(base.warnings.iter().any(|what| what.contains("subtest_name: a scenario gives it")), "{:?}", base.warnings);
    let least =
        "name = \"x\"\ndescription = \"\"\ntest_template_name = \"NcclTest\"\n[cmd_args]\ndocker_image_url = \"x\"\n";
    let (_, plan) = made(least);
    assert_eq!((plan.cases.len(), plan.cases[0].bytes()), (1, Some(32 << 20)));
    let more = "subtest_name = [\"reduce_perf\", \"bisection_perf_mpi\"]\nop = \"max\"\ndatatype = \"uint8\"\n\
                blocking = 1\nroot = 1\n";
    let (foreign, plan) = made(&(least.to_owned() + more));
    let case = &plan.cases[0];
    assert_eq!((plan.cases.len(), case.text("reduce"), case.dtype()), (1, Some("max"), Some("u8")));
    assert_eq!((case.text("mode"), case.whole("root")), (Some("isolated"), Some(1)));
    assert!(foreign.warnings.iter().any(|what| what.contains("bisection_perf_mpi is left out")));
}

#[test]
fn what_is_wrong_is_refused_by_line() {
    let whole = sample("cloudai", "all_gather.toml");
    for (from, to, why) in [
        ("\"4G\"", "\"4GB\"", "line 10: `maxbytes` must be a size such as 128 or 4G, not `4GB`"),
        ("\"4G\"", "\"1,5G\"", "line 10: `maxbytes` must be a size such as 128 or 4G, not `1,5G`"),
        ("\"4G\"", "\"64\"", "line 10: `maxbytes` 64 is smaller than `minbytes` 128"),
        ("\"stepfactor\" = 2", "", "line 10: 128 to 4G in steps of 1M are more than 256 sizes"),
        ("all_gather_perf_mpi", "all_father_perf", "line 7: `subtest_name` does not take `all_father_perf`"),
        ("\"100\"", "\"many\"", "line 11: `iters` must be a whole number from 1 to 10000, not `many`"),
        ("\"4G\"", "\"4G", "line 10: not valid TOML"),
        ("[cmd_args]", "[cmd_args", "line 5: not valid TOML"),
    ] {
        let damaged = whole.replace(from, to);
        assert_ne!(damaged, whole);
        let found = refusal(&damaged);
        assert!(found.contains(why), "{from}: {found}");
    }
    assert!(import::recognise(&source(&whole.replace("NcclTest", "NeMoRun"))).is_none());
}
