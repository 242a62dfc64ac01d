//! The whole check, with programs of the shell in the place of rankmark, Python and compute-sanitizer.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;

use super::*;
use stages::Stage;

/// A folder with programs that answer as they must, but for what `broken` names: `case` patterns of records' names.
struct Fakes {
    folder: PathBuf,
}

impl Fakes {
    fn new(name: &str, broken: &[&str]) -> Self {
        let folder = std::env::temp_dir().join(format!("xtask-gpu-check-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let fakes = Self { folder };
        let broken: String = broken.iter().map(|pattern| format!("*/{pattern} | ")).collect();
        fakes.program(
            "rankmark",
            &format!("case \"$*\" in {broken} */none) echo broken >&2; exit 7;; esac\n{RANKMARK}"),
        );
        fakes.program("compute-sanitizer", SANITIZER);
        fakes.program("python", "echo 500.0\n");
        fakes.program("gpu_model", "echo '{\"basis\": \"a stand-in\", \"ms\": {\"products\": 9.5}}'\n");
        fakes
    }

    fn program(&self, name: &str, text: &str) {
        let path = self.folder.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Runs what is asked for, and reads the table's rows: stage, name, answer.
    fn run(&self, minutes: usize, only: &str) -> (Vec<[String; 3]>, String, bool) {
        let options = Options {
            python: self.folder.join("python"),
            program: Some(self.folder.join("rankmark")),
            out: self.folder.join("out"),
            nccl_tests: None,
            sanitizer: self.folder.join("compute-sanitizer"),
            model: Some(self.folder.join("gpu_model")),
            minutes,
            only: only.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect(),
        };
        let (text, passed) = table(Path::new("/"), &options).unwrap();
        let row = |line: &str| {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            let named = Stage::ALL.iter().any(|stage| cells[0] == stage.name());
            (named && cells.len() > 3).then(|| [cells[0], cells[1], cells[3]].map(str::to_owned))
        };
        (text.lines().filter_map(row).collect(), text, passed)
    }
}

impl Drop for Fakes {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// So many right cases that every count is reached, in each precision, and what commands are asked to say.
const RANKMARK: &str = r#"
case "$*" in *"--device cpu"*) device=cpu;; *) device=cuda;; esac
case "$*" in *"--inject wrong"*) wrong=1;; *) wrong=0;; esac
i=0
while [ $i -lt 24 ]; do
  for p in f64 f32 bf16 f16; do
    echo "{\"status\":\"ok\",\"device\":\"$device\",\"wrong\":$wrong,\"parameters\":{\"precision\":\"$p\"},\"loss\":[2.0,1.0],\"step_s\":{\"median\":0.02},\"gflops\":5e5,\"conditions\":{\"joined_products\":\"2 GELU\"}}"
  done
  i=$((i+1))
done
echo "GPU 0 pytorch/nccl  is available"
case "$*" in *300GiB* | *"nccl --ranks 2"*) exit 2;; *"--inject"*) exit 1;; esac
"#;

const SANITIZER: &str = r#"
case "$*" in *racecheck*) echo "========= RACECHECK SUMMARY: 0 hazards displayed";; *) echo "========= ERROR SUMMARY: 0 errors";; esac
"#;

/// The first check of each stage, by its record; of the stage of barriers, by its program.
const FIRST: [(&str, Stage); 8] = [
    ("driver", Stage::Driver),
    ("text_check", Stage::Kernels),
    ("products_of_each_type", Stage::Products),
    ("nccl_call", Stage::Nccl),
    ("gpt2_mini_step", Stage::Step),
    ("losses_mlp_f32_cuda", Stage::Losses),
    ("gpt2_eager_0", Stage::Round),
    ("native_types", Stage::Rest),
];
const ONLY: &str =
    "driver,text_,products_of_each,nccl_call,gpt2_mini_step,losses_mlp,_1,_race,native_types,native_wrong";

#[test]
fn a_broken_check_of_each_stage_fails_alone_and_the_run_ends() {
    let fakes = Fakes::new("broken", &FIRST.map(|(name, _)| name));
    // A program that is missing.
    std::fs::remove_file(fakes.folder.join("compute-sanitizer")).unwrap();
    let (rows, text, passed) = fakes.run(8, ONLY);
    assert!(!passed);
    let failed: BTreeSet<&str> =
        rows.iter().filter(|row| row[2].starts_with("**failed**")).map(|row| row[0].as_str()).collect();
    assert_eq!(failed, Stage::ALL.map(Stage::name).into_iter().collect(), "{text}");
    for name in ["text_loops", "products_of_each_epilogue", "losses_mlp_further", "gpt2_compiled_1", "native_wrong"] {
        let row = rows.iter().find(|row| row[1] == name).unwrap_or_else(|| panic!("{name}: {text}"));
        assert!(!row[2].starts_with("**failed**"), "{row:?}");
    }
    let race = rows.iter().find(|row| row[0] == "barriers").unwrap();
    assert!(race[2].contains("compute-sanitizer cannot start"), "{race:?}");
    assert!(text.contains("nvidia-smi: ") && text.contains("compute-sanitizer: none ("), "{text}");
    // In the order of the stages.
    let order: Vec<usize> =
        rows.iter().map(|row| Stage::ALL.iter().position(|stage| stage.name() == row[0]).unwrap()).collect();
    assert!(order.is_sorted(), "{text}");
}

#[test]
fn all_that_answers_as_it_must_passes() {
    let fakes = Fakes::new("right", &[]);
    let (rows, text, passed) = fakes.run(8, ONLY);
    assert!(passed, "{text}");
    assert!(rows.len() > 20 && fakes.folder.join("out/training.json").is_file(), "{text}");
    assert!(text.contains("| native | 20.00 | 1.000 (1.000 to 1.000) |"), "{text}");
}

#[test]
fn what_does_not_fit_is_left_out_and_named() {
    let fakes = Fakes::new("late", &[]);
    let (rows, text, passed) = fakes.run(1, "driver,gpt2_compiled,product_bf16");
    assert!(passed, "{text}");
    let compiled = rows.iter().find(|row| row[1] == "gpt2_compiled_1").unwrap();
    assert!(compiled[2].starts_with("left out: it takes about 60 s, and 5"), "{text}");
    assert!(text.contains("3 left out for lack of time: gpt2_compiled_1, "), "{text}");
}

/// A command that hangs is ended long before the time of all is over.
#[test]
fn a_check_that_hangs_leaves_time_for_the_others() {
    let longest = units::all(true).iter().map(limit).max().unwrap();
    assert_eq!(longest, LIMIT);
    let first = units::all(false).into_iter().find(|unit| unit.name == "driver").unwrap();
    assert_eq!(limit(&first), Duration::from_secs(30));
}

/// Eight minutes suffice for all stages but the last.
#[test]
fn all_stages_but_the_last_fit_into_the_default() {
    let seconds: u64 = units::all(false).iter().filter(|unit| unit.stage < Stage::Rest).map(|unit| unit.seconds).sum();
    assert!(seconds < 8 * 60, "{seconds} s");
}

/// Kernels with barriers are seen by all three tools, at the sizes of a small transformer and of a small convolutional network.
#[test]
fn barriers_are_seen_by_each_tool() {
    for text in ["gpt2-mini", "resnet18"] {
        for tool in ["racecheck", "synccheck", "memcheck"] {
            let all = units::all(false);
            let found = all.iter().filter(|unit| unit.stage == Stage::Barriers);
            assert_eq!(found.filter(|unit| unit.command.contains(text) && unit.command.contains(tool)).count(), 1);
        }
    }
}
