//! Steps of native ranks beside torch's, eager and compiled: each time in fresh processes, one after the other.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Row, Training};
use crate::gpu_check::peer::middle;
use crate::gpu_check::stages::Stage;
use crate::gpu_check::units::{Unit, Work};
use crate::gpu_model;

/// GPT-2 with 124 million parameters.
pub(in crate::gpu_check) const GPT2: &str = "--model gpt2 --sequence 1024 --batch 16";
/// Rounds of it: each variant once, and another one first in each.
const ROUNDS: usize = 3;
const VARIANTS: [(&str, &str); 4] = [
    ("native", "--attention own --kernel-times"),
    ("native with cuDNN's attention", "--attention cudnn --kernel-times"),
    ("eager", "--runtime pytorch --python python"),
    ("compiled", "--runtime pytorch --python python --compile"),
];

/// Native ranks multiply by the library that torch does, where that is the Python's own.
const SAME_LIBRARIES: &str = "--cublas-library python --cudnn-library python --nccl-library python";

/// Other models, native and eager, once each. bert-large has 340 million parameters. GPT-2 again with the vocabulary that nanoGPT and llm.c
/// pad it to: native steps of both should take the same time, because rows of logits are padded so.
const OTHERS: [(&str, &str); 4] = [
    ("gpt2-50304", "--model gpt2 --sequence 1024 --batch 16 --vocabulary 50304"),
    ("llama-tiny", "--model llama-tiny --batch 16"),
    ("bert-large", "--model bert-large --batch 16"),
    ("resnet50", "--model resnet50 --batch 64"),
];

/// Seconds of the median step, by variant, of the rounds in which it ran.
type Rounds = Vec<BTreeMap<&'static str, f64>>;

/// What one variant gave: its row, or why there is none.
fn measured(training: &Training<'_>, name: &str, model: &str, variant: &str) -> Row {
    let is_native = !variant.contains("pytorch");
    let libraries = if is_native && has_wheels(training.run.python) { SAME_LIBRARIES } else { "" };
    let words = format!("{model} {variant} {libraries} --device cuda --precision bf16 --limits false --quick");
    match training.lines(&file(name), &words) {
        Ok(lines) => lines.first().map_or_else(|| Row::Failed("no row".to_owned()), |line| Row::of(line, "cuda")),
        Err(why) => Row::Failed(why),
    }
}

/// Whether NVIDIA's wheels of cuBLAS, cuDNN and NCCL are beside a Python. Where they are not, both have the loader's libraries.
fn has_wheels(python: &Path) -> bool {
    let is_bare = python.components().count() == 1;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let place = match is_bare {
        true => std::env::split_paths(&path).map(|folder| folder.join(python)).find(|file| file.is_file()),
        false => Some(python.to_owned()),
    };
    let Some(prefix) = place.as_deref().and_then(Path::parent).and_then(Path::parent) else { return false };
    let entries = |folder: &Path| {
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect::<Vec<_>>()
    };
    // The places of `device::library::wheels`, which the options read.
    let versions: Vec<PathBuf> = ["lib", "local/lib"].iter().flat_map(|lib| entries(&prefix.join(lib))).collect();
    let sites = ["site-packages/nvidia", "dist-packages/nvidia"];
    let parts = versions.iter().flat_map(|version| sites.map(|site| entries(&version.join(site)))).flatten();
    let files: Vec<PathBuf> = parts.flat_map(|part| entries(&part.join("lib"))).collect();
    let has = |stem: &str| {
        files.iter().any(|file| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(stem)))
    };
    has("libcublasLt.so") && has("libcudnn.so") && has("libnccl.so")
}

fn step(line: &Value) -> Option<f64> {
    line["step_s"]["median"].as_f64()
}

/// Median of `other` over `own` in each round that has both, with the least and the most.
fn ratio(rounds: &Rounds, other: &str, own: &str) -> Option<[f64; 3]> {
    let of = |round: &BTreeMap<&str, f64>| Some(round.get(other)? / round.get(own)?);
    let all: Vec<f64> = rounds.iter().filter_map(of).collect();
    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
    let most = all.iter().copied().fold(0.0, f64::max);
    (!all.is_empty()).then(|| [middle(all), least, most])
}

fn written(ratio: Option<[f64; 3]>) -> String {
    ratio.map_or_else(String::new, |[middle, least, most]| format!("{middle:.3} ({least:.3} to {most:.3})"))
}

/// All that was found.
pub(in crate::gpu_check) struct Found {
    /// What a step of each variant of native ranks should take by kind of kernel, or why nobody knows: of `gpu_model`.
    model: Result<Value, String>,
    rounds: Rounds,
    /// Times by kind in the last round of each variant of native ranks.
    kinds: BTreeMap<&'static str, Value>,
    /// Versions and kernels of these.
    conditions: BTreeMap<&'static str, Value>,
    /// Figures of the other models.
    others: BTreeMap<&'static str, Value>,
}

/// GPT-2 by each variant in rounds, the first of them early, and the other models.
pub(in crate::gpu_check) fn units() -> impl Iterator<Item = Unit> {
    let rounds = (0..ROUNDS).flat_map(|round| {
        (0..VARIANTS.len()).map(move |place| {
            let at = (round + place) % VARIANTS.len();
            let (variant, words) = VARIANTS[at];
            Unit {
                name: format!("gpt2_{}_{}", file(variant), round + 1),
                stage: if round == 0 { Stage::Round } else { Stage::Rest },
                seconds: if variant == "compiled" { 60 } else { 25 },
                command: format!("rankmark train {GPT2} {words}"),
                work: Work::Variant(at, round),
            }
        })
    });
    let others = OTHERS.iter().enumerate().map(|(at, (name, words))| Unit {
        name: (*name).to_owned(),
        stage: Stage::Rest,
        seconds: 50,
        command: format!("rankmark train {words}, native and eager"),
        work: Work::Model(at),
    });
    rounds.chain(others)
}

/// What each variant of native ranks should take on a device, by the program of `gpu_model`.
///
/// # Errors
/// What the program says.
pub(in crate::gpu_check) fn modelled(program: &Path, gpu: &str) -> Result<Value, String> {
    let [own, cudnn] = ["own", "cudnn"].map(|by| gpu_model::times(program, gpu, &format!("{GPT2} --attention {by}")));
    Ok(json!({VARIANTS[0].0: own?, VARIANTS[1].0: cudnn?}))
}

/// A name as part of a file's.
fn file(name: &str) -> String {
    name.replace([' ', '\''], "_")
}

impl Training<'_> {
    /// Times a variant of GPT-2. Figures so far go to `training.json`.
    ///
    /// # Errors
    /// It failed: why. What is skipped did not.
    pub(in crate::gpu_check) fn variant(&mut self, at: usize, round: usize) -> Result<String, String> {
        let (variant, words) = VARIANTS[at];
        let row = measured(self, &format!("gpt2_{variant}_{round}"), GPT2, words);
        if let Row::Ok(line) = &row {
            self.found.add((variant, round), line);
        }
        self.keep()?;
        row.said()
    }

    /// Times another model, native and eager.
    ///
    /// # Errors
    /// One of both failed: why.
    pub(in crate::gpu_check) fn model(&mut self, at: usize) -> Result<String, String> {
        let (name, model) = OTHERS[at];
        let [native, eager] = ["native", "eager"].map(|wanted| {
            let (variant, words) = VARIANTS.into_iter().find(|(variant, _)| *variant == wanted).unwrap_or(VARIANTS[0]);
            measured(self, &format!("{name}_{variant}"), model, words)
        });
        let seconds = |row: &Row| if let Row::Ok(line) = row { step(line) } else { None };
        let kinds = if let Row::Ok(line) = &native { line["kernel_times_ms"].clone() } else { Value::Null };
        let figures = json!({"native_s": seconds(&native), "eager_s": seconds(&eager), "kernel_times_ms": kinds});
        let ratio =
            seconds(&eager).zip(seconds(&native)).map(|(eager, native)| format!(", {:.3} times", eager / native));
        self.found.others.insert(name, figures);
        self.keep()?;
        Ok(format!("native {}, eager {}{}", native.said()?, eager.said()?, ratio.unwrap_or_default()))
    }

    /// The figures so far.
    fn keep(&self) -> Result<(), String> {
        let figures = json!({"gpt2": self.found.figures(), "others": self.found.others});
        let path = self.run.out.join("training.json");
        let json = serde_json::to_string_pretty(&figures).map_err(|error| error.to_string())?;
        std::fs::write(&path, json + "\n").map_err(|error| format!("{}: {error}", path.display()))
    }
}

impl Found {
    /// Nothing yet.
    pub(in crate::gpu_check) fn new(model: Result<Value, String>) -> Self {
        let (rounds, kinds, conditions, others) = Default::default();
        Self { model, rounds, kinds, conditions, others }
    }

    /// A row of a round.
    fn add(&mut self, (variant, round): (&'static str, usize), line: &Value) {
        if self.rounds.len() <= round {
            self.rounds.resize(round + 1, BTreeMap::new());
        }
        if let Some(seconds) = step(line) {
            self.rounds[round].insert(variant, seconds);
        }
        if line["kernel_times_ms"].is_object() {
            self.kinds.insert(variant, line["kernel_times_ms"].clone());
            self.conditions.insert(variant, line["conditions"].clone());
        }
    }

    fn median_ms(&self, variant: &str) -> Option<f64> {
        let all: Vec<f64> = self.rounds.iter().filter_map(|round| round.get(variant)).map(|s| s * 1e3).collect();
        (!all.is_empty()).then(|| middle(all))
    }

    /// GPT-2 by variant; empty where nothing was timed.
    pub(in crate::gpu_check) fn text(&self) -> String {
        if self.rounds.is_empty() {
            return String::new();
        }
        let mut text =
            "\n| GPT-2 124M, bf16, batch 16 x 1024 | step, ms | over native (least to most of 3) |\n|---|---|---|\n"
                .to_owned();
        for (variant, _) in VARIANTS {
            let ms = self.median_ms(variant).map_or_else(String::new, |ms| format!("{ms:.2}"));
            let _ = writeln!(text, "| {variant} | {ms} | {} |", written(ratio(&self.rounds, variant, "native")));
        }
        for (variant, conditions) in &self.conditions {
            let all = conditions.as_object().into_iter().flatten();
            let words: Vec<String> = all.map(|(name, value)| format!("{name} {value}")).collect();
            let _ = writeln!(text, "\n{variant}: {}", words.join(", "));
        }
        for (variant, kinds) in &self.kinds {
            let head = "a step by kind of kernel, given singly | measured, ms | by the model, ms |\n|---|---|---|";
            let _ = writeln!(text, "\n| {variant}: {head}");
            for (kind, ms) in kinds.as_object().into_iter().flatten().filter(|(kind, _)| *kind != "steps") {
                let _ = writeln!(
                    text,
                    "| {kind} | {:.3} | {} |",
                    ms.as_f64().unwrap_or(f64::NAN),
                    self.modelled(variant, kind)
                );
            }
        }
        match &self.model {
            Ok(model) => {
                let basis = model[VARIANTS[0].0]["basis"].as_str().unwrap_or("not said");
                let _ = writeln!(text, "\nThe model's rates: {basis}");
            }
            Err(why) => {
                let _ = writeln!(text, "\nNo times by the model: {why}");
            }
        }
        text
    }

    /// What the model says of a kind in a variant; nothing where it knows none.
    fn modelled(&self, variant: &str, kind: &str) -> String {
        let ms = self.model.as_ref().ok().and_then(|model| model[variant]["ms"][kind].as_f64());
        ms.map_or_else(String::new, |ms| format!("{ms:.3}"))
    }

    /// The figures, to be kept.
    fn figures(&self) -> Value {
        let ratios: BTreeMap<&str, _> =
            VARIANTS.iter().filter_map(|(name, _)| Some((*name, ratio(&self.rounds, name, "native")?))).collect();
        json!({
            "model": GPT2,
            "step_s": self.rounds,
            "over_native": ratios,
            "kernel_times_ms": self.kinds,
            "model": self.model.as_ref().unwrap_or(&Value::Null),
            "conditions": self.conditions,
        })
    }
}

impl Row {
    /// Milliseconds of a step.
    fn said(&self) -> Result<String, String> {
        match self {
            Row::Ok(line) => step(line).map(|seconds| format!("{:.2} ms", seconds * 1e3)).ok_or("no step".to_owned()),
            Row::Skipped(why) => Ok(format!("skipped: {why}")),
            Row::Failed(why) => Err(why.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds() -> Rounds {
        let round = |native: f64, eager: Option<f64>| {
            let eager = eager.map(|seconds| ("eager", seconds));
            [("native", native)].into_iter().chain(eager).collect()
        };
        vec![round(2.0, Some(3.0)), round(2.0, Some(5.0)), round(4.0, Some(4.0)), round(1.0, None)]
    }

    #[test]
    fn wheels_are_those_of_the_python() {
        let prefix = std::env::temp_dir().join(format!("xtask-wheels-{}", std::process::id()));
        let python = prefix.join("bin/python3");
        let file = |part: &str, name: &str| {
            let folder = prefix.join("lib/python3.12/site-packages/nvidia").join(part).join("lib");
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(name), "").unwrap();
        };
        let none = has_wheels(&python);
        file("cublas", "libcublasLt.so.12");
        file("cudnn", "libcudnn.so.9");
        let half = has_wheels(&python);
        file("nccl", "libnccl.so.2");
        let both = has_wheels(&python);
        std::fs::remove_dir_all(&prefix).unwrap();
        assert_eq!((none, half, both), (false, false, true));
    }

    /// Ubuntu's own Python, for which pip installs below `local`.
    #[test]
    fn wheels_of_a_distribution_are_found() {
        let prefix = std::env::temp_dir().join(format!("xtask-wheels-local-{}", std::process::id()));
        let folder = prefix.join("local/lib/python3.10/dist-packages/nvidia/all/lib");
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["libcublasLt.so.12", "libcudnn.so.9", "libnccl.so.2"] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        let found = has_wheels(&prefix.join("bin/python3"));
        std::fs::remove_dir_all(&prefix).unwrap();
        assert!(found);
    }

    #[test]
    fn ratios_are_of_rounds_that_have_both() {
        assert_eq!(ratio(&rounds(), "eager", "native"), Some([1.5, 1.0, 2.5]));
        assert_eq!(ratio(&rounds(), "compiled", "native"), None);
        assert_eq!(written(ratio(&rounds(), "eager", "native")), "1.500 (1.000 to 2.500)");
    }

    #[test]
    fn kinds_of_kernels_are_told() {
        let kinds = json!({"products": 12.5, "sum": 20.0, "steps": 5, "step": 18.0});
        let conditions = BTreeMap::from([("native", json!({"cublas": "12.9.1"}))]);
        let model = json!({"native": {"basis": "a data sheet", "ms": {"products": 11.0, "sum": 19.25}}});
        let mut found = Found {
            model: Ok(model),
            rounds: rounds(),
            kinds: BTreeMap::from([("native", kinds.clone())]),
            conditions,
            others: BTreeMap::new(),
        };
        let text = found.text();
        for line in [
            "| eager | 4000.00 | 1.500",
            "| compiled |  |  |",
            "| products | 12.500 | 11.000 |",
            "| sum | 20.000 | 19.250 |",
            "| step | 18.000 |  |",
            "The model's rates: a data sheet",
            "cublas \"12.9.1\"",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        found.model = Err("nothing is known of NVIDIA L4".to_owned());
        let without = found.text();
        assert!(without.contains("| products | 12.500 |  |"), "{without}");
        assert!(without.contains("No times by the model: nothing is known of NVIDIA L4"), "{without}");
        assert!(!text.contains("steps"), "{text}");
        let none = || Found::new(Err("none".to_owned()));
        assert_eq!(none().text(), "");
        let mut late = none();
        late.add(("eager", 1), &json!({"step_s": {"median": 0.5}}));
        assert_eq!((late.rounds[0].len(), late.rounds[1]["eager"]), (0, 0.5));
        assert_eq!(Row::Skipped("no compiler".to_owned()).said().as_deref(), Ok("skipped: no compiler"));
        assert_eq!(found.figures()["over_native"]["eager"], json!([1.5, 1.0, 2.5]));
        assert_eq!(found.figures()["kernel_times_ms"]["native"], kinds);
    }
}
