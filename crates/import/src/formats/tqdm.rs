//! Logs of trainings whose progress bars are all that tells the time of a step: loops with Accelerate and tqdm, as those of
//! diffusers (`Steps:  12%|..| 120/1000 [02:13<15:01, 1.02s/it, lr=1e-05, step_loss=0.1]`), and Lightning without a timer
//! (`Epoch 0:  1%|..| 189/9000 [59:12<.., 18.79s/it, v_num=0, reduced_train_loss=7.56]`).
//!
//! A step is one of the bar. Only bars with a loss are those of a training: others show loading, validation and sampling.

use std::collections::BTreeMap;

use terms::Error;

use super::bars::{self, Bar};
use super::trainer_batches::{self, Batches, HeadLine, Heads, TrainingLine};
use super::training_log::{LoggedJob, LoggedStep};
use super::training_runs::Log;
use super::training_steps::{Logged, Program, Timed};
use super::training_text::{self as text, as_whole, cut, number_after, without_colours, writer};
use crate::numbers::{grouped, plain};
use crate::{Content, Format, Line, Results, Source};

/// The format.
pub(super) struct Tqdm;

static PROGRAM: Program = Program {
    name: "tqdm",
    tool: "training with tqdm",
    statistic: "mean between the first and the last progress bar, in whole seconds",
    time: timed,
};

impl Format for Tqdm {
    fn about(&self) -> (&'static str, &'static str) {
        ("tqdm", "progress bars of a training by tqdm, as of Accelerate and Lightning")
    }

    fn is_of_trainings(&self) -> bool {
        true
    }

    fn marks(&self) -> &'static [&'static str] {
        &["%|", "s/it", "loss="]
    }

    fn recognises(&self, source: &Source) -> bool {
        let is_one = |text: &str| bars::last(text).is_some_and(|bar| bar.is_ok_and(|bar| has_loss(bar.values)));
        source.text().contains("%|") && source.lines().any(|line| is_one(line.text))
    }

    fn read(&self, source: &Source) -> Result<Content, Error> {
        let log = Log::new(source, &PROGRAM)?;
        let mut reader =
            TqdmReader { source, log, heads: Heads::default(), batches: Batches::default(), tracks: BTreeMap::new() };
        for line in source.lines() {
            reader.line(line)?;
        }
        reader.end()?;
        reader.log.finish()
    }
}

/// Names of the loss of a step; that of a validation is another.
const LOSSES: &[&str] = &["step_loss=", "reduced_train_loss=", "train_loss=", "train_loss_step=", " loss="];

fn has_loss(values: &str) -> bool {
    LOSSES.iter().any(|key| values.contains(key))
}

/// The bars of one epoch, or of the whole training, that one rank shows.
struct Track {
    /// Steps and seconds.
    first: (u64, u64),
    last: (u64, u64),
    line: usize,
    all: u64,
    epoch: Option<u64>,
    loss: Option<f64>,
}

struct TqdmReader<'s> {
    source: &'s Source,
    log: Log<'s>,
    heads: Heads,
    batches: Batches,
    /// By writer.
    tracks: BTreeMap<String, Track>,
}

impl TqdmReader<'_> {
    fn line(&mut self, line: Line<'_>) -> Result<(), Error> {
        let without = without_colours(line.text);
        if self.log.is_of_other_file(&without) {
            self.end()?;
        }
        let text = self.log.enter(line.number, &without)?.to_owned();
        match bars::last(&text) {
            Some(Ok(bar)) if has_loss(bar.values) => return self.bar(line.number, bar),
            Some(Err(())) => return self.log.fault(line.number, cut()),
            Some(Ok(_)) => return Ok(()),
            None => {}
        }
        match self.heads.line(&text) {
            Some(HeadLine::Training(said)) => return self.configure(line.number, said),
            Some(HeadLine::Other) => return Ok(()),
            None => {}
        }
        if trainer_batches::is_title_of_evaluation(&text) {
            return Ok(());
        }
        if text::is_mark(text.trim()) || text::is_command(text.trim()) {
            self.end()?;
            (self.heads, self.batches) = (Heads::default(), Batches::default());
        }
        self.log.other(line.number, &text)
    }

    fn configure(&mut self, line: usize, said: TrainingLine<'_>) -> Result<(), Error> {
        let TrainingLine { name, value, begins, examples } = said;
        if begins {
            self.end()?;
            self.batches = Batches::default();
        }
        if let Some(examples) = examples {
            self.log.configure(trainer_batches::EXAMPLES, "", &examples, true)?;
        }
        if !self.log.configure(name, "", value, true)? {
            return Ok(());
        }
        let wrong = |why: crate::numbers::NotANumber| {
            self.source.error(line, format!("expected a number, {}", why.found(value)))
        };
        let value = as_whole(grouped(value).map_err(wrong)?).unwrap_or(0);
        self.batches.take(name, value, &mut self.log, self.source.given("ranks").is_some());
        Ok(())
    }

    fn bar(&mut self, line: usize, bar: Bar<'_>) -> Result<(), Error> {
        let writer = writer(bar.title);
        let epoch = epoch(bar.title);
        let loss = LOSSES
            .iter()
            .find(|key| bar.values.contains(**key))
            .map_or(Ok(None), |key| number_after(bar.values, key, plain));
        let loss = match loss {
            Ok(loss) => loss,
            Err(fault) => return self.log.fault(line, fault),
        };
        if bar.done == 0 {
            return Ok(());
        }
        let here = (bar.done, bar.seconds);
        if let Some(track) = self.tracks.get_mut(&writer) {
            let is_same = (track.epoch, track.all) == (epoch, bar.all);
            if is_same && here.0 == track.last.0 && here.1 >= track.last.1 {
                // A bar is shown again when a value changes, or when it closes: the first time counts.
                track.loss = loss.or(track.loss);
                return Ok(());
            }
            if is_same && here.0 > track.last.0 && here.1 >= track.last.1 {
                (track.last, track.line, track.loss) = (here, line, loss.or(track.loss));
                return Ok(());
            }
            // A loop begins another bar where one is complete. Its first steps may have been too quick to show.
            let is_complete = track.all == bar.all && track.last.0 == track.all;
            let is_next = track.all == bar.all && track.epoch < epoch && (is_complete || here.1 <= track.last.1);
            let is_trial = is_complete && track.epoch == epoch;
            if !is_next && !is_trial && bar.done > 1 {
                let what = format!(
                    "a bar of {}/{} at {} s stands behind one of {}/{} at {} s",
                    here.0, bar.all, here.1, track.last.0, track.all, track.last.1
                );
                return Err(self.log.mixed(line, &what));
            }
            match is_next {
                true => self.flush()?,
                false => self.end()?,
            }
        }
        self.log.open();
        self.tracks.insert(writer, Track { first: here, last: here, line, all: bar.all, epoch, loss });
        Ok(())
    }

    /// Adds what the bars so far tell.
    fn flush(&mut self) -> Result<(), Error> {
        for (writer, track) in std::mem::take(&mut self.tracks) {
            // Of a bar that closed, a terminal may keep the last state alone.
            let is_alone = track.first == track.last && track.last.0 == track.all;
            let (from, began) = if is_alone { (0, 0) } else { track.first };
            let seconds = (track.last.1 - began) as f64;
            match bars::step_time(track.last.0 - from, seconds) {
                Ok((time_s, note)) => {
                    let number = track.epoch.map_or(track.last.0, |epoch| epoch.saturating_add(1));
                    let global_batch = self.log.job.global_batch;
                    let step = LoggedStep { number, time_s, global_batch, loss: track.loss, ..LoggedStep::default() };
                    self.log.step(Logged { line: track.line, writer, time: None, step })?;
                    self.log.note_all(vec![note, NOTE.to_owned()]);
                    if is_alone {
                        self.log.note_all(vec![ALONE.to_owned()]);
                    }
                    if self.source.given("ranks").is_none() && self.log.job.global_batch.is_some() {
                        self.log.note_all(vec![trainer_batches::NOTE.to_owned()]);
                    }
                }
                Err(why) => self.log.leave_out(track.line, why),
            }
        }
        Ok(())
    }

    /// Ends the training.
    fn end(&mut self) -> Result<(), Error> {
        if self.tracks.is_empty() {
            return Ok(());
        }
        self.flush()?;
        self.log.end()
    }
}

/// What is said of every such time.
const NOTE: &str = "a step is one of the progress bar; evaluations, checkpoints and samples between the bars count, and the rate \
                    that the bar shows is not read: it is smoothed";

/// What is said of a bar without a state before its last one.
const ALONE: &str =
    "a bar that shows its end alone counts from its begin, so the time of a step has the start of the loop";

/// The epoch that a bar is of.
fn epoch(title: &str) -> Option<u64> {
    let (_, behind) = title.rsplit_once("Epoch ")?;
    let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

fn timed(_: &LoggedJob, lines: Vec<Logged>, _: &mut Results) -> Result<Timed, String> {
    Ok(Timed { steps: lines.into_iter().map(|logged| logged.step).collect(), has_start: false })
}
