//! `rankmark predict`: what a training step takes that was not measured, and the best mesh for it.

mod check;
mod rows;
mod wanted;

use std::path::{Path, PathBuf};

use clap::ValueHint;
use parallel::{Mesh, Schedule};
use predict::fit::refuse_milliseconds;
use predict::sweep::{Choices, sweep};
use predict::{Fitted, Predictor, Software, candidates, json, judge, text};
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
        let fitted = match &self.fit {
            Some(path) => Some(rows::fitted(&mut predictor, path, self.draw.map(|count| (count as usize, self.seed)))?),
            None => None,
        };
        if let Some(path) = &self.check {
            return check::run(&predictor, path, (self.output_dir.as_deref(), self.json), entry);
        }
        if self.rows.is_some() || fitted.as_ref().is_some_and(|fitted| !fitted.rest.is_empty()) {
            return self.errors(&predictor, fitted.as_ref());
        }
        if self.sweep {
            return self.swept(&predictor, fitted.as_ref());
        }
        if let Some(fitted) = fitted.as_ref().filter(|_| self.mesh.is_none()) {
            return match self.json {
                true => screen::print_json(&json::fitted(fitted)),
                false => screen::print(&(text::banner(&predictor) + &text::constants(fitted))),
            };
        }
        let workload = self.workload(&predictor)?;
        let prediction = predictor.predict(&workload)?;
        if self.json {
            return screen::print_json(&json::prediction(&predictor, &workload, &prediction, fitted.as_ref()));
        }
        let head = fitted.as_ref().map_or_else(String::new, text::constants);
        screen::print(&(text::banner(&predictor) + &head + &text::prediction(&workload, &prediction, screen::width())))
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
        self.warn_of_another_machine(&profile);
        // Tables of others are steps of Megatron-LM.
        let is_table = [&self.fit, &self.rows].into_iter().flatten().any(|path| rows::is_table(path));
        let is_alone = is_table && self.mesh.is_none() && !self.sweep;
        let usual = if is_alone { Software::Megatron } else { Software::Rankmark };
        Ok(Predictor::new(profile, self.software.unwrap_or(usual)))
    }

    /// A profile of another machine predicts that machine: it is said, and nothing is refused.
    fn warn_of_another_machine(&self, profile: &record::MachineProfile) {
        let here = measure::machine::detect();
        if let Some(other) = profile.machine.as_ref().filter(|other| other.processor() != here.processor()) {
            let name = view::one_line(other.processor());
            screen::remark(&format!("note: the profile is of another machine ({name}): times are of that one\n"));
        }
        if profile.basis == record::ProfileBasis::Measured && profile.transfers.is_empty() {
            screen::remark("note: the profile has no measured exchanges: assumed rates of links are used instead\n");
        }
    }

    fn errors(&self, predictor: &Predictor, fitted: Option<&Fitted>) -> Ended {
        let judged = match &self.rows {
            Some(path) => rows::read(path)?,
            None => Vec::new(),
        };
        let rest = fitted.map_or(&[][..], |fitted| &fitted.rest);
        let found = judge(predictor, if self.rows.is_some() { &judged } else { rest });
        // A record has seconds, however far off a prediction for another machine is.
        if self.rows.as_deref().is_some_and(rows::is_table) {
            refuse_milliseconds(&found.errors)?;
        }
        if self.json {
            return screen::print_json(&json::errors(predictor, fitted, &found));
        }
        let head = fitted.map_or_else(String::new, text::constants);
        screen::print(&(text::banner(predictor) + &head + &text::errors(&found, screen::width())))
    }

    fn swept(&self, predictor: &Predictor, fitted: Option<&Fitted>) -> Ended {
        let base = self.base(predictor)?;
        let ranks = self.ranks.map(|ranks| ranks as usize).or(self.mesh.map(Mesh::ranks));
        let ranks = ranks.ok_or_else(|| Failure::new("a sweep needs a number of ranks").hint("`--ranks N`"))?;
        let choices = Choices {
            ranks,
            global_batch: self.samples(ranks),
            most_chunks: self.chunks.unwrap_or(8) as usize,
            most_micro_batch: 64,
        };
        let found = sweep(predictor, &base, &choices, self.top as usize)?;
        if let Some((smallest, bytes)) = &found.smallest {
            return Err(Failure::new("no mesh fits into memory")
                .cause(format!(
                    "the smallest, {}, needs {:.1} GB a rank of {:.1} GB",
                    candidates::words(smallest),
                    *bytes as f64 / 1e9,
                    predictor.profile.memory_bytes as f64 / 1e9
                ))
                .hint("more ranks, a smaller global batch, or a smaller model"));
        }
        if let Some(path) = &self.plan {
            let text = {
                let basis = predictor.profile.basis;
                candidates::plan((&self.model, &self.set), &base, &found.best, basis)
            };
            record::file::replace_named(path, text.as_bytes())
                .map_err(|error| Failure::new(format!("cannot write {}", path.display())).cause(error))?;
            screen::remark(&format!("plan     {}\n", path.display()));
        }
        if self.json {
            return screen::print_json(&json::sweep(predictor, &base, &choices, &found, fitted));
        }
        let head = fitted.map_or_else(String::new, text::constants);
        screen::print(
            &(text::banner(predictor)
                + &head
                + &text::sweep((&base, &choices), &found, self.plan.is_some(), screen::width())),
        )
    }
}
