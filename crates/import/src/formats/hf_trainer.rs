//! The log of a training by the Trainer of Hugging Face transformers, with or without Accelerate: it prints
//! dictionaries (`src/transformers/trainer_callback.py`), `{'loss': 0.5, 'learning_rate': 1e-05, 'epoch': 0.1}`, a
//! summary at the end, `{'train_runtime': 36.4, 'train_steps_per_second': 0.275, ...}`, and tqdm's progress bars: `
//! 12%|..| 60/500 [01:23<10:11, 1.39s/it]`. Since version 5 its numbers are texts of four digits.

use std::collections::BTreeMap;

use terms::Error;

use super::bars::{self, Bar};
use super::trainer_batches::{self, Batches, HeadLine, Heads, TrainingLine};
use super::trainer_run::{TrainerRun, is_time_of_evaluation, rounding};
use super::training_log::{LoggedJob, LoggedStep};
use super::training_runs::Log;
use super::training_steps::{Logged, Program, Timed};
use super::training_text::{self as text, TextFault, as_whole, cut, without_colours};
use crate::numbers::{NotANumber, grouped, plain};
use crate::{Content, Format, Line, Results, Source};

/// The format.
pub(super) struct HfTrainer;

static PROGRAM: Program =
    Program { name: "hf_trainer", tool: "Hugging Face Trainer", statistic: "mean over the training", time: timed };

impl Format for HfTrainer {
    fn about(&self) -> (&'static str, &'static str) {
        ("hf_trainer", "Hugging Face Trainer: what a training prints, with its summary")
    }

    fn is_of_trainings(&self) -> bool {
        true
    }

    fn marks(&self) -> &'static [&'static str] {
        &["'loss':", "'learning_rate':", "train_runtime"]
    }

    fn recognises(&self, source: &Source) -> bool {
        let is_log = |text: &str| {
            let has = |keys: &[&str]| keys.iter().all(|key| text.contains(key));
            has(&["{'train_runtime':", "'train_steps_per_second':"])
                || has(&["{'loss':", "'learning_rate':", "'epoch':"])
        };
        source.text().contains("{'") && source.lines().any(|line| is_log(line.text))
    }

    fn read(&self, source: &Source) -> Result<Content, Error> {
        let mut reader = HfTrainerReader {
            log: Log::new(source, &PROGRAM)?,
            source,
            notes: Results::default(),
            heads: Heads::default(),
            batches: Batches::default(),
            edge: edge(source),
            run: TrainingSoFar::default(),
            has_ended: false,
        };
        for line in source.lines() {
            reader.line(line)?;
        }
        reader.flush()?;
        reader.log.finish()
    }
}

/// What the log says of the training so far.
#[derive(Default)]
struct TrainingSoFar {
    summary: Option<(usize, TrainerRun)>,
    evaluations: (f64, u64),
    loss: Option<f64>,
    /// Steps, seconds and line of the first and the last progress bar.
    bars: Option<[(u64, u64, usize); 2]>,
    is_resumed: bool,
    /// The epoch of the last loss.
    epoch: f64,
    /// The last evaluation of each data set as it is printed, by the key of its time.
    evaluated: BTreeMap<String, String>,
}

struct HfTrainerReader<'s> {
    log: Log<'s>,
    source: &'s Source,
    notes: Results,
    heads: Heads,
    batches: Batches,
    /// The length of lines that a terminal may have cut; 0 if there is none.
    edge: usize,
    run: TrainingSoFar,
    /// Whether a summary was read, so that evaluations are of no training until the next begins.
    has_ended: bool,
}

impl HfTrainerReader<'_> {
    fn line(&mut self, line: Line<'_>) -> Result<(), Error> {
        let without = without_colours(line.text);
        if self.log.is_of_other_file(&without) {
            self.flush()?;
            self.has_ended = false;
        }
        let text = self.log.enter(line.number, &without)?.to_owned();
        match self.heads.line(&text) {
            Some(HeadLine::Training(said)) => return self.configure(line.number, &text, said),
            Some(HeadLine::Other) => return Ok(()),
            None => {}
        }
        if text.contains("Continuing training from global step") {
            self.run.is_resumed = true;
        }
        let mut is_read = false;
        if let Some(Ok(bar)) = bars::last(&text) {
            if !self.has_ended && bar.all == self.batches.steps {
                self.log.open();
            }
            self.bar(line.number, bar);
            is_read = true;
        }
        if let Some(at) = text.find("{'").filter(|at| is_dictionary(&text[*at..])) {
            match dictionary(&text[at..]) {
                Ok(values) => self.values(line.number, &text, &values)?,
                Err(fault) => self.log.fault(line.number, fault)?,
            }
            is_read = true;
        }
        if is_read || trainer_batches::is_title_of_evaluation(&text) {
            return Ok(());
        }
        if text::is_mark(text.trim()) || text::is_command(text.trim()) {
            self.flush()?;
            self.has_ended = false;
            (self.heads, self.batches) = (Heads::default(), Batches::default());
        }
        self.log.other(line.number, &text)
    }

    fn configure(&mut self, line: usize, text: &str, said: TrainingLine<'_>) -> Result<(), Error> {
        let TrainingLine { name, value, begins, examples } = said;
        if begins {
            self.flush()?;
            self.has_ended = false;
            self.batches = Batches::default();
        }
        if let Some(examples) = examples {
            self.log.configure(trainer_batches::EXAMPLES, "", &examples, true)?;
        }
        if !self.log.configure(name, "", value, true)? {
            return Ok(());
        }
        if text.chars().count() == self.edge {
            self.log.leave_out(line, "the line may be cut by a terminal: it is not read");
            return Ok(());
        }
        let value =
            grouped(value).map_err(|why| self.source.error(line, format!("expected a number, {}", why.found(value))));
        let value = as_whole(value?).unwrap_or(0);
        if self.batches.take(name, value, &mut self.log, self.source.given("ranks").is_some()) {
            self.notes.note(trainer_batches::NOTE);
        }
        Ok(())
    }

    fn values(&mut self, line: usize, text: &str, values: &BTreeMap<&str, &str>) -> Result<(), Error> {
        let source = self.source;
        let of = |key: &str| finite_number(source, line, values, key);
        if values.keys().any(|key| is_time_of_evaluation(key)) {
            return self.evaluation(line, values);
        }
        let Some(runtime_s) = of("train_runtime")? else {
            if values.contains_key("loss") {
                let loss = of("loss")?;
                if self.has_ended {
                    self.flush()?;
                }
                self.has_ended = false;
                let epoch = of("epoch")?.unwrap_or(0.0);
                if epoch < self.run.epoch {
                    // The training before was killed.
                    self.flush()?;
                }
                self.log.open();
                (self.run.loss, self.run.epoch) = (loss, epoch);
            }
            return Ok(());
        };
        let steps_per_s = of("train_steps_per_second")?.unwrap_or(0.0);
        let counted =
            text.split_once("TrainOutput(global_step=").and_then(|(_, rest)| rest.split(',').next()?.parse().ok());
        if let Some((_, known)) =
            self.run.summary.as_mut().filter(|(_, known)| known.runtime_s.to_bits() == runtime_s.to_bits())
        {
            // A notebook shows what the training returns, too.
            known.steps = counted.or(known.steps);
            return Ok(());
        }
        if self.has_ended {
            return Err(self.log.mixed(line, "two summaries stand behind one training"));
        }
        let rounding = values.get("train_steps_per_second").map_or(0.0, |word| rounding(word));
        let summary = TrainerRun {
            runtime_s,
            steps_per_s,
            rounding,
            steps: counted.or(Some(self.batches.steps).filter(|total| *total > 0)),
            evaluations: self.run.evaluations,
            loss: self.run.loss,
            global_batch: self.log.job.global_batch,
        };
        self.log.open();
        self.run.summary = Some((line, summary));
        self.has_ended = true;
        Ok(())
    }

    /// Takes what an evaluation says of its time, which has a key for each data set.
    fn evaluation(&mut self, line: usize, values: &BTreeMap<&str, &str>) -> Result<(), Error> {
        let whole = format!("{values:?}");
        for key in values.keys().filter(|key| is_time_of_evaluation(key)) {
            let Some(seconds) = finite_number(self.source, line, values, key)? else { continue };
            // Evaluations outside of a training have no epoch, or come behind its summary.
            let Some(epoch) = values.get("epoch").filter(|_| !self.has_ended) else { continue };
            // The epoch is rounded: two evaluations may have the same one, but not the same times.
            let before = self.run.evaluated.insert((*key).to_owned(), whole.clone());
            if before.is_some_and(|before| before == whole) {
                return Err(self.log.mixed(line, &format!("the evaluation at epoch {epoch} comes twice")));
            }
            self.run.evaluations = (self.run.evaluations.0 + seconds, self.run.evaluations.1 + 1);
        }
        Ok(())
    }

    fn bar(&mut self, line: usize, Bar { done, all, seconds, .. }: Bar<'_>) {
        if let Some((_, summary)) = &mut self.run.summary {
            // The bar of the training closes behind its summary.
            let is_its = done == all && (seconds as f64 - summary.runtime_s).abs() <= 1.5;
            if is_its && summary.steps.is_none() {
                summary.steps = Some(all);
            }
        } else if all == self.batches.steps && done > 0 {
            let here = (done, seconds, line);
            self.run.bars = Some([self.run.bars.map_or(here, |[first, _]| first), here]);
        }
    }

    /// Adds the training so far.
    fn flush(&mut self) -> Result<(), Error> {
        let run = std::mem::take(&mut self.run);
        let (line, step) = match (run.summary, run.bars) {
            (Some((line, _)), _) if run.is_resumed => {
                let why = "the training goes on from a checkpoint: `train_runtime` counts the steps since, \
                           and the log does not say how many";
                (line, Err(why.to_owned()))
            }
            (Some((line, summary)), _) => (line, summary.step(&mut self.notes)),
            (None, Some(bars)) => (bars[1].2, by_bars(bars, &run, &self.log.job, &mut self.notes)),
            (None, None) => return Ok(()),
        };
        match step {
            Ok(step) => {
                self.log.step(Logged { line, step, ..Logged::default() })?;
                self.log.note_all(std::mem::take(&mut self.notes.notes));
                self.log.end()
            }
            Err(why) => {
                self.log.leave_out(line, why);
                self.log.end()
            }
        }
    }
}

/// The time of a step between the first and the last progress bar of a training without a summary.
fn by_bars(
    [(first, began, _), (last, ended, _)]: [(u64, u64, usize); 2],
    run: &TrainingSoFar,
    job: &LoggedJob,
    notes: &mut Results,
) -> Result<LoggedStep, String> {
    let seconds = ended.saturating_sub(began) as f64 - run.evaluations.0;
    let steps = last.saturating_sub(first);
    let (time_s, note) = bars::step_time(steps, seconds)?;
    notes.note(note);
    Ok(LoggedStep { number: last, time_s, global_batch: job.global_batch, loss: run.loss, ..LoggedStep::default() })
}

/// Whether a dictionary is one of the Trainer, even if it is cut.
fn is_dictionary(text: &str) -> bool {
    let is_read = |key: &str| {
        let is_loss = || key.starts_with("eval_") && key.ends_with("_loss");
        matches!(key, "loss" | "train_runtime") || is_time_of_evaluation(key) || is_loss()
    };
    let ends_key = |(at, _): (usize, &str)| text[..at].rsplit('\'').next().is_some_and(is_read);
    text.match_indices("':").any(ends_key)
}

/// The number of a key. None where the dictionary does not have it, or it is not finite.
fn finite_number(source: &Source, line: usize, values: &BTreeMap<&str, &str>, key: &str) -> Result<Option<f64>, Error> {
    let Some(word) = values.get(key) else { return Ok(None) };
    match plain(word) {
        Ok(value) => Ok(Some(value)),
        Err(NotANumber::Other) if matches!(*word, "nan" | "inf" | "-inf") => Ok(None),
        Err(why) => Err(source.error(line, format!("expected a number as `{key}`, {}", why.found(word)))),
    }
}

/// Keys and values of a dictionary that Python printed.
fn dictionary(text: &str) -> Result<BTreeMap<&str, &str>, TextFault> {
    let (body, _) = text.strip_prefix('{').and_then(|text| text.split_once('}')).ok_or_else(cut)?;
    let items = body.split(", '").map(|item| item.strip_prefix('\'').unwrap_or(item).split_once("': "));
    Ok(items.flatten().map(|(key, value)| (key, value.trim_matches('\''))).collect())
}

/// The length of the longest lines, if several have it and one of them is a dictionary without its end: a terminal cut
/// them.
fn edge(source: &Source) -> usize {
    let cut = source.lines().filter(|line| line.text.contains("{'") && !line.text.contains('}'));
    cut.map(|line| line.text.chars().count()).max().unwrap_or(0)
}

fn timed(_: &LoggedJob, lines: Vec<Logged>, _: &mut Results) -> Result<Timed, String> {
    Ok(Timed { steps: lines.into_iter().map(|logged| logged.step).collect(), has_start: false })
}
