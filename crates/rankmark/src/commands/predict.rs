//! `rankmark predict`: what a training step takes that was not measured, and the best mesh for it.

mod check;

use std::path::{Path, PathBuf};

use clap::ValueHint;
use engine::cuda::LOGITS_MULTIPLE;
use parallel::{Mesh, Optimizer, Recipe, Schedule};
use plans::{calibration, measured_steps};
use predict::asked::{AskedSamples, model_of};
use predict::fit::refuse_milliseconds;
use predict::sweep::{Choices, sweep};
use predict::{Fitted, Predictor, Software, Workload, candidates, fitted, json, judge, text};
use terms::Dtype;

use super::calibrate::USUAL;
use super::{Ended, Typed};
use crate::session::Entry;
use crate::{Failure, screen};

/// What a sweep tries all values of.
const TRIED: [&str; 5] = ["schedule", "micro_batches", "recompute", "sharded", "sequence_parallel"];
/// What describes a step, or a sweep over steps. Rows of a table and cases of a plan say it themselves.
const DESCRIBED: [&str; 20] = [
    "model",
    "set",
    "ranks",
    "ranks_per_node",
    "mesh",
    "schedule",
    "chunks",
    "micro_batches",
    "batch",
    "global_batch",
    "sequence",
    "precision",
    "recompute",
    "sharded",
    "sequence_parallel",
    "no_overlap",
    "optimizer",
    "software",
    "sweep",
    "top",
];

/// Step time, memory and the best mesh of training that was not measured, with the error of each answer
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  rankmark predict --model gpt2 --machine h100-nvlink --mesh 8x1x1 --global-batch 64\n  \
                        rankmark predict --model gpt2 --machine h100-nvlink --ranks 512 --sweep\n  \
                        rankmark predict --machine a100-nvlink --fit steps.csv --rows others.csv\n\n\
                        Nothing is measured. Public machines give guesses. docs/how-to/predict.md says how far to trust them."
)]
pub(crate) struct Predict {
    /// the model (see `rankmark list models`)
    #[arg(long, value_name = "MODEL", default_value = "gpt2")]
    model: String,
    /// sets a field of the model: layers, width, heads, vocabulary
    #[arg(long, value_name = "FIELD=VALUE", value_delimiter = ',')]
    set: Vec<String>,
    /// a machine that is known by public numbers
    #[arg(long, value_name = "NAME", conflicts_with = "profile")]
    machine: Option<String>,
    /// a machine that was measured: the file of `rankmark calibrate` (default: results/machine-profile.json)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    profile: Option<PathBuf>,
    /// ranks in all (default: those of the mesh)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    ranks: Option<u32>,
    /// ranks on one node (default: the machine's)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    ranks_per_node: Option<u32>,
    /// data x tensor x pipeline
    #[arg(long, value_name = "DxTxP")]
    mesh: Option<Mesh>,
    /// the order of a pipeline's passes: gpipe, 1f1b, interleaved
    #[arg(long, value_name = "NAME")]
    schedule: Option<Schedule>,
    /// chunks of a stage, if interleaved; the most that a sweep tries
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    chunks: Option<u32>,
    /// micro-batches of a replica's step
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    micro_batches: Option<u32>,
    /// samples of a replica's step
    #[arg(long, value_name = "N", conflicts_with = "global_batch", value_parser = clap::value_parser!(u32).range(1..))]
    batch: Option<u32>,
    /// samples of a step over all replicas
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    global_batch: Option<u32>,
    /// tokens of a sample
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    sequence: Option<u32>,
    /// type of activations: bf16, f16, f32, f64
    #[arg(long, value_name = "TYPE", default_value = "bf16")]
    precision: Dtype,
    /// blocks run their forward pass again
    #[arg(long)]
    recompute: bool,
    /// what replicas cut: 0 nothing, 1 optimizer state, 2 gradients, 3 parameters
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=3))]
    sharded: u8,
    /// norms and additions are cut by rows
    #[arg(long)]
    sequence_parallel: bool,
    /// exchanges of gradients do not overlap computation
    #[arg(long)]
    no_overlap: bool,
    /// how parameters change: adamw, sgd
    #[arg(long, value_name = "NAME", default_value = "adamw", value_parser = ["adamw", "sgd"])]
    optimizer: String,
    /// the program that trains: rankmark, megatron (default: megatron for a table alone, else rankmark)
    #[arg(long, value_name = "NAME")]
    software: Option<Software>,
    /// finds the best of all legal meshes, schedules and batches
    #[arg(long, conflicts_with_all = TRIED)]
    sweep: bool,
    /// how many of the best to show
    #[arg(long, value_name = "K", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    top: u32,
    /// moves the machine's constants by measured steps: a CSV table, or a record of training
    #[arg(long, value_name = "RECORD|CSV", value_hint = ValueHint::AnyPath)]
    fit: Option<PathBuf>,
    /// draws this many rows of --fit, by --seed; the rest becomes --rows
    #[arg(long, value_name = "N", requires = "fit", conflicts_with_all = DESCRIBED,
          value_parser = clap::value_parser!(u32).range(1..))]
    draw: Option<u32>,
    /// seed of --draw
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// predicts each row of a table of measured steps, and says the errors
    #[arg(long, value_name = "CSV", value_hint = ValueHint::FilePath, conflicts_with_all = DESCRIBED)]
    rows: Option<PathBuf>,
    // clap does not ask for a required option that conflicts with one which is there.
    /// writes the plan that measures the three best of a sweep
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "sweep",
          conflicts_with_all = ["rows", "check"], conflicts_with_all = TRIED)]
    plan: Option<PathBuf>,
    /// predicts the training cases of a plan, seals that, measures them, and says the errors
    #[arg(long, value_name = "PLAN", value_hint = ValueHint::FilePath,
          conflicts_with_all = ["rows", "draw"], conflicts_with_all = DESCRIBED)]
    check: Option<PathBuf>,
    /// directory of the record of --check (default: results/TIME-EXPERIMENT)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, requires = "check",
          conflicts_with_all = ["rows", "draw"], conflicts_with_all = DESCRIBED)]
    output_dir: Option<PathBuf>,
    /// one JSON object on standard output
    #[arg(long)]
    json: bool,
}

impl Typed for Predict {
    const NAME: &'static str = "predict";

    fn run(self, entry: Entry<'_>) -> Ended {
        let mut predictor = self.predictor()?;
        let moved = match &self.fit {
            Some(path) => {
                let steps = measured_steps::read(path, &mut screen::remark)?;
                Some(fitted(&mut predictor, steps, self.draw.map(|count| (count as usize, self.seed)))?)
            }
            None => None,
        };
        if let Some(path) = &self.check {
            if let Some(other) = self.other_software() {
                predictor = predictor.of_software(other);
            }
            return check::run(&predictor, path, (self.output_dir.as_deref(), self.json), entry);
        }
        let fitted = moved.as_ref();
        if self.rows.is_some() || fitted.is_some_and(|fitted| !fitted.rest.is_empty()) {
            return self.errors(&predictor, fitted);
        }
        if self.sweep {
            return self.swept(&predictor, fitted);
        }
        if let Some(alone) = fitted.filter(|_| self.mesh.is_none()) {
            return self.say(json::fitted(alone), text::head(&predictor, fitted));
        }
        let base = self.base(&predictor)?;
        let ranks = self.ranks.map_or(1, |ranks| ranks as usize);
        let mesh = self.mesh.unwrap_or(Mesh { data: ranks, tensor: 1, pipeline: 1 });
        let workload = self.samples().divided(base, mesh, self.chunks)?;
        let prediction = predictor.predict(&workload)?;
        let head = text::head(&predictor, fitted);
        self.say(
            json::prediction(&predictor, &workload, &prediction, fitted),
            head + &text::prediction(&workload, &prediction, screen::width()),
        )
    }
}

impl Predict {
    fn predictor(&self) -> Result<Predictor, Failure> {
        let profile = match (&self.machine, &self.profile) {
            (_, Some(path)) => record::read_machine_profile(path)?,
            (Some(name), None) => predict::machines::machine(name)?.profile(),
            (None, None) if Path::new(USUAL).is_file() => {
                screen::remark(&format!("machine  {USUAL}, of `rankmark calibrate`\n"));
                record::read_machine_profile(Path::new(USUAL))?
            }
            (None, None) => {
                let names: Vec<&str> = predict::machines::MACHINES.iter().map(|machine| machine.name).collect();
                return Err(Failure::new("predict needs a machine").hint(format!(
                    "`rankmark calibrate --quick` measures this one; or `--profile FILE`, or `--machine` with one of: {}",
                    names.join(", ")
                )));
            }
        };
        calibration::notes(&profile).iter().for_each(|note| screen::remark(note));
        let is_alone = self.mesh.is_none() && !self.sweep;
        let measured = self.fit.as_deref().or(self.rows.as_deref()).filter(|_| is_alone);
        let usual = measured.map_or(Software::Rankmark, measured_steps::software);
        Ok(Predictor::new(profile, self.software.unwrap_or(usual)))
    }

    /// Prints one of the two.
    fn say(&self, json: String, text: String) -> Ended {
        if self.json { screen::print_json(&json) } else { screen::print(&text) }
    }

    fn samples(&self) -> AskedSamples {
        AskedSamples { all: self.global_batch, each: self.batch, micros: self.micro_batches }
    }

    /// What all candidates of a sweep have in common, and a workload begins as.
    fn base(&self, predictor: &Predictor) -> Result<Workload, Failure> {
        if let (Some(ranks), Some(mesh)) = (self.ranks, self.mesh)
            && ranks as usize != mesh.ranks()
        {
            let what = format!("the mesh {mesh} has {} ranks, not {ranks}", mesh.ranks());
            return Err(Failure::new(what).hint("leave out --ranks, or name a mesh of as many"));
        }
        let model = model_of(&self.model, &self.set, self.sequence)?;
        let recipe = Recipe {
            schedule: self.schedule.unwrap_or(Schedule::OneForwardOneBackward),
            sharded: self.sharded,
            overlap: !self.no_overlap,
            sequence_parallel: self.sequence_parallel,
            recompute: self.recompute,
            optimizer: match self.optimizer.as_str() {
                "sgd" => Optimizer::Sgd { rate: 1e-3, momentum: 0.9 },
                _ => Optimizer::ADAMW,
            },
            logits_multiple: if predictor.profile.multiprocessors > 0 { LOGITS_MULTIPLE } else { 1 },
            ..Recipe::plain(model, Mesh::SERIAL, self.precision)
        };
        let node = self.ranks_per_node.unwrap_or(predictor.profile.ranks_per_node);
        let software = self.software.unwrap_or(Software::Rankmark);
        Ok(Workload { software, ..Workload::new(recipe, node.max(1) as usize) })
    }

    fn errors(&self, predictor: &Predictor, fitted: Option<&Fitted>) -> Ended {
        let judged = match &self.rows {
            Some(path) => measured_steps::read(path, &mut screen::remark)?,
            None => Vec::new(),
        };
        let rest = fitted.map_or(&[][..], |fitted| &fitted.rest);
        let found = match self.other_software() {
            Some(other) => judge(&predictor.clone().of_software(other), &judged),
            None => judge(predictor, if self.rows.is_some() { &judged } else { rest }),
        };
        // A record has seconds, however far off a prediction for another machine is.
        if self.rows.as_deref().is_some_and(measured_steps::is_table) {
            refuse_milliseconds(&found.errors)?;
        }
        let text = text::head(predictor, fitted) + &text::errors(&found, screen::width());
        self.say(json::errors(predictor, fitted, &found), text)
    }

    /// The program of the steps to predict, where the fitted ones are of another.
    fn other_software(&self) -> Option<Software> {
        let of_fit = measured_steps::software(self.fit.as_deref()?);
        // A plan trains by this program.
        let of_plan = self.check.as_ref().map(|_| Software::Rankmark);
        let other = of_plan.or(self.rows.as_deref().map(measured_steps::software))?;
        (other != of_fit).then_some(other)
    }

    fn swept(&self, predictor: &Predictor, fitted: Option<&Fitted>) -> Ended {
        let base = self.base(predictor)?;
        let ranks = self.ranks.map(|ranks| ranks as usize).or(self.mesh.map(Mesh::ranks));
        let ranks = ranks.ok_or_else(|| Failure::new("a sweep needs a number of ranks").hint("`--ranks N`"))?;
        let choices = Choices {
            ranks,
            global_batch: self.samples().of_sweep(ranks),
            most_chunks: self.chunks.unwrap_or(8) as usize,
            most_micro_batch: 64,
        };
        let found = sweep(predictor, &base, &choices, self.top as usize)?;
        candidates::refuse_too_large(&found, predictor.profile.memory_bytes)?;
        if let Some(path) = &self.plan {
            let text = candidates::plan((&self.model, &self.set), &base, &found.best, predictor.profile.basis);
            record::file::replace_named(path, text.as_bytes())
                .map_err(|error| Failure::new(format!("cannot write {}", path.display())).cause(error))?;
            screen::remark(&format!("plan     {}\n", path.display()));
        }
        let text = text::sweep((&base, &choices), &found, self.plan.is_some(), screen::width());
        self.say(json::sweep(predictor, &base, &choices, &found, fitted), text::head(predictor, fitted) + &text)
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, FromArgMatches as _};

    use super::*;

    #[test]
    fn steps_are_of_the_program_that_made_them_whatever_was_fitted() {
        let other = |words: &str| {
            let command = Predict::augment_args(clap::Command::new("predict"));
            let matches = command.try_get_matches_from(words.split(' ')).unwrap();
            Predict::from_arg_matches(&matches).unwrap().other_software()
        };
        assert_eq!(other("predict --fit steps.csv --rows results/train"), Some(Software::Rankmark));
        assert_eq!(other("predict --fit steps.csv --check plan.yaml"), Some(Software::Rankmark));
        assert_eq!(other("predict --fit results/train --rows steps.csv"), Some(Software::Megatron));
        for words in ["--fit steps.csv --rows more.csv", "--fit results/train --check plan.yaml", "--rows steps.csv"] {
            assert_eq!(other(&format!("predict {words}")), None, "{words}");
        }
    }
}
