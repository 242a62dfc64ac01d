//! The runs of a training log. Every reader of such logs gives its lines to a [`Log`], which tells runs apart: a
//! heading, a command, a second start, another configuration, or a step number that goes back begins a run.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use terms::Error;

use super::command;
use super::nccl::plain;
use super::runs::{MOST_RESULTS, Runs};
use super::training_log::{self, LoggedJob, LoggedStep};
use super::training_steps::{Logged, MOST_BYTES, Program, Timed, Written, are_two, is_mixed};
use super::training_text::{self as text, TextFault};
use crate::collective::{given_ranks, no_ranks};
use crate::{Content, Results, Source};

/// Lines between two runs that are compared.
const MOST_LINES: usize = 20;
/// Differences between configurations that become facts.
const MOST_DIFFERENCES: usize = 12;
/// A configuration, by name.
type Config = BTreeMap<String, String>;

/// A training log that is being read.
pub(super) struct Log<'s> {
    source: &'s Source,
    program: &'static Program,
    given: u64,
    runs: Runs,
    /// What the program says of its job.
    pub(super) job: LoggedJob,
    /// What the program says of its configuration: `[name][writer]`.
    config: BTreeMap<String, BTreeMap<String, String>>,
    /// What the program has said of its configuration since the last step: it belongs to the run that begins next.
    announced: Vec<(String, String, String)>,
    /// Configurations of all runs.
    configs: Vec<Config>,
    command: String,
    /// Ranks that the command starts; 0 if it does not say.
    command_ranks: u64,
    /// A command that goes on in the next line.
    continued: Option<String>,
    /// Whether a run had this configuration and command.
    used: bool,
    /// Steps of the current run, by number. Of several ranks, the slowest.
    steps: BTreeMap<u64, Logged>,
    /// Whether the run has begun before its first step.
    is_open: bool,
    writers: BTreeMap<String, Written>,
    /// Lines that no program wrote, since the last step.
    between: VecDeque<(usize, String)>,
    left_out: Vec<(usize, String)>,
    first_left_out: Option<(usize, String)>,
    failed: Option<Error>,
    file: String,
}

impl<'s> Log<'s> {
    /// The log of a program.
    ///
    /// # Errors
    /// When what the user gives is not a number of ranks.
    pub(super) fn new(source: &'s Source, program: &'static Program) -> Result<Self, Error> {
        Ok(Self {
            source,
            program,
            given: given_ranks(source)?.map_or(0, u64::from),
            runs: Runs::apart(),
            job: LoggedJob::default(),
            config: BTreeMap::new(),
            announced: Vec::new(),
            configs: Vec::new(),
            command: String::new(),
            command_ranks: 0,
            continued: None,
            used: false,
            steps: BTreeMap::new(),
            is_open: false,
            writers: BTreeMap::new(),
            between: VecDeque::new(),
            left_out: Vec::new(),
            first_left_out: None,
            failed: None,
            file: String::new(),
        })
    }

    /// The text of a line without the name of the file that `grep` found it in. Another file is another run.
    ///
    /// # Errors
    /// As [`Log::step`].
    pub(super) fn enter<'t>(&mut self, number: usize, line: &'t str) -> Result<&'t str, Error> {
        let Some((file, rest)) = text::found_in(line) else { return Ok(line) };
        if self.file != file {
            self.file = file.to_owned();
            self.divide(number, file)?;
        }
        Ok(rest)
    }

    /// Takes a line that is neither a step nor a word on the configuration.
    ///
    /// # Errors
    /// As [`Log::step`].
    pub(super) fn other(&mut self, number: usize, line: &str) -> Result<(), Error> {
        let line = line.trim();
        if line.is_empty() {
            return Ok(());
        }
        if self.continued.is_some() || text::is_command(line) {
            return self.launch(number, line);
        }
        if text::is_mark(line) {
            return self.divide(number, line);
        }
        if !text::is_chatter(line) {
            if self.between.len() == MOST_LINES {
                self.between.pop_front();
            }
            self.between.push_back((number, line.chars().take(400).collect()));
        }
        Ok(())
    }

    /// Ends the run at a heading.
    fn divide(&mut self, number: usize, heading: &str) -> Result<(), Error> {
        self.end_run()?;
        if self.used {
            self.forget();
            (self.command, self.command_ranks) = (String::new(), 0);
        }
        self.pass_lines();
        self.runs.headings.add(number, heading);
        Ok(())
    }

    /// Ends the run at a command line.
    fn launch(&mut self, number: usize, line: &str) -> Result<(), Error> {
        let so_far = self.continued.take().map_or(String::new(), |before| before + " ");
        if let Some(begin) = line.strip_suffix('\\').filter(|_| so_far.len() < 8000) {
            self.continued = Some(so_far + begin.trim_end());
            return Ok(());
        }
        let whole = so_far + line;
        self.end_run()?;
        if self.used {
            self.forget();
            self.command_ranks = 0;
        } else if !self.command.is_empty() {
            // A setting before the program.
            self.runs.headings.add(number, &self.command);
        }
        self.command = command::plain(&whole);
        self.command_ranks = command::processes(&whole).map_or(self.command_ranks, u64::from);
        Ok(())
    }

    fn pass_lines(&mut self) {
        for (number, line) in self.between.drain(..) {
            self.runs.headings.add(number, &line);
        }
    }

    /// Forgets what the program said of itself.
    fn forget(&mut self) {
        self.config.clear();
        self.job = LoggedJob::default();
        self.used = false;
    }

    /// Keeps what the program says of its configuration. `starts`: the program says it only at its start, so steps
    /// above are of another run. False if the line does not count, because a run is under way.
    ///
    /// # Errors
    /// As [`Log::step`].
    pub(super) fn configure(&mut self, name: &str, writer: &str, value: &str, starts: bool) -> Result<bool, Error> {
        if !self.steps.is_empty() {
            // Another rank says the same later.
            let is_late = self
                .config
                .get(name)
                .is_some_and(|known| !known.contains_key(writer) && known.values().any(|known| known == value));
            if is_late {
                return Ok(false);
            }
            if !starts {
                self.announced.push((name.to_owned(), writer.to_owned(), value.to_owned()));
                return Ok(false);
            }
            self.end_run()?;
        }
        if self.used {
            self.forget();
        }
        for (name, writer, value) in self.announced.drain(..) {
            self.config.entry(name).or_default().insert(writer, value);
        }
        self.config.entry(name.to_owned()).or_default().insert(writer.to_owned(), value.to_owned());
        Ok(true)
    }

    /// Says of a line why it is not read.
    pub(super) fn leave_out(&mut self, line: usize, why: impl Into<String>) {
        let what = (line, why.into());
        self.first_left_out.get_or_insert_with(|| what.clone());
        self.left_out.push(what);
    }

    /// Leaves a line out, or refuses the file.
    ///
    /// # Errors
    /// When what the line holds cannot be right.
    pub(super) fn fault(&mut self, line: usize, fault: TextFault) -> Result<(), Error> {
        match fault {
            TextFault::Cut(why) => self.leave_out(line, why),
            TextFault::Wrong(why) => return Err(self.source.error(line, why)),
        }
        Ok(())
    }

    /// Keeps the most memory that a rank reserved in this run, in bytes.
    pub(super) fn reserve(&mut self, bytes: f64) {
        self.job.reserved_bytes = self.job.reserved_bytes.into_iter().chain([bytes]).reduce(f64::max);
    }

    /// Takes what was read of a line whose steps begin at a place.
    ///
    /// # Errors
    /// As [`Log::step`] and [`Log::fault`].
    pub(super) fn take(
        &mut self,
        line: usize,
        text: &str,
        at: usize,
        read: Result<LoggedStep, TextFault>,
    ) -> Result<(), Error> {
        match read {
            Ok(step) => self.step(Logged { line, writer: text::writer(&text[..at]), time: text::time(text), step }),
            Err(fault) => self.fault(line, fault),
        }
    }

    /// Takes a line of steps.
    ///
    /// # Errors
    /// When it cannot be right, or separate programs wrote the lines, or the number of ranks of the run that it ends is
    /// unknown.
    pub(super) fn step(&mut self, logged: Logged) -> Result<(), Error> {
        self.check(&logged)?;
        let number = logged.step.number;
        let mut written = Written { last: number, lines: 1, ..Written::default() };
        if let Some(known) = self.writers.get(&logged.writer).copied() {
            let nothing_between = self.between.is_empty();
            if is_mixed(known, number, nothing_between) {
                let what = format!("step {number} comes again or out of order, and no prefix says which rank wrote it");
                return Err(self.mixed(logged.line, &what));
            }
            if number > known.last {
                let interval = number - known.last;
                written = Written { last: number, interval, lines: known.lines.saturating_add(1), ..known };
            } else {
                self.end_run()?;
                if nothing_between {
                    written.before = Some((known.last, known.interval));
                    written.short = if known.lines <= 2 { known.short + 1 } else { 0 };
                } else {
                    self.forget();
                }
            }
        }
        if self.steps.is_empty() && !self.is_open {
            self.begin();
        }
        if !self.is_open {
            self.between.clear();
            self.announced.clear();
        }
        self.writers.insert(logged.writer.clone(), written);
        match self.steps.get_mut(&number) {
            Some(known) => known.merge(logged),
            None => drop(self.steps.insert(number, logged)),
        }
        Ok(())
    }

    fn check(&self, logged: &Logged) -> Result<(), Error> {
        let wrong = |what: String| Err(self.source.error(logged.line, what));
        match logged.step {
            LoggedStep { mfu: Some(mfu), .. } if mfu > 1.0 => {
                wrong(format!("an MFU of {}% is not a share", mfu * 100.0))
            }
            LoggedStep { reserved_bytes: Some(bytes), .. } if bytes > MOST_BYTES => {
                wrong(format!("{} GiB of memory is more than a device has", bytes / f64::from(1 << 30)))
            }
            _ => Ok(()),
        }
    }

    /// The error where lines of several programs stand among each other. `what` shows it.
    pub(super) fn mixed(&self, line: usize, what: &str) -> Error {
        let what = format!("separate programs wrote here at once: {what}, so their lines are mixed");
        self.source
            .error(line, what)
            .hint("give each program a file of its own, or let the launcher name the rank in each line")
    }

    fn begin(&mut self) {
        self.pass_lines();
        let joined = |values: &BTreeMap<String, String>| {
            let values: BTreeSet<&str> = values.values().map(String::as_str).collect();
            values.into_iter().collect::<Vec<_>>().join("; ")
        };
        let config: Config = self.config.iter().map(|(name, values)| (name.clone(), joined(values))).collect();
        let key = format!("{config:?}");
        self.runs.begin(key, &self.command, Results::new(self.program.tool, self.program.statistic));
        if self.configs.len() <= MOST_RESULTS {
            self.configs.push(config);
        }
    }

    /// Adds the run so far.
    fn end_run(&mut self) -> Result<(), Error> {
        self.writers.clear();
        self.is_open = false;
        let steps: Vec<Logged> = std::mem::take(&mut self.steps).into_values().collect();
        let Some(results) = self.runs.current() else { return Ok(()) };
        for (line, why) in self.left_out.drain(..) {
            results.omit(line, why);
        }
        let Some(first) = steps.iter().map(|logged| logged.line).min() else { return Ok(()) };
        let known = [self.job.ranks, self.command_ranks, self.given];
        let Some(ranks) = known.into_iter().find(|ranks| *ranks > 0) else {
            return Err(no_ranks(self.source, first));
        };
        let job = LoggedJob { program: self.program.name, ranks, ..self.job.clone() };
        let lines: Vec<_> = steps.iter().map(|logged| (logged.line, logged.time)).collect();
        match (self.program.time)(&job, steps, results) {
            Ok(Timed { steps, has_start }) => {
                if let Some((line, what)) = are_two(&lines, &steps) {
                    return Err(self.mixed(line, &what));
                }
                training_log::add(results, &job, &steps, has_start);
            }
            Err(why) => {
                results.omit(first, &why);
                self.failed.get_or_insert_with(|| self.source.error(first, why));
            }
        }
        // Each run reserves memory of its own, and has phases of its own.
        self.job.reserved_bytes = None;
        self.job.phases.clear();
        self.used = true;
        Ok(())
    }

    /// Says that a run is under way whose steps are told at its end: lines above belong to it.
    pub(super) fn open(&mut self) {
        if !self.is_open {
            self.begin();
            self.is_open = true;
        }
        self.between.clear();
    }

    /// Whether a line of `grep` is of another file than the line before.
    pub(super) fn is_of_other_file(&self, line: &str) -> bool {
        text::found_in(line).is_some_and(|(file, _)| file != self.file)
    }

    /// Notes how the current run was read.
    pub(super) fn note_all(&mut self, notes: Vec<String>) {
        if let Some(results) = self.runs.current() {
            notes.into_iter().for_each(|note| results.note(note));
        }
    }

    /// Ends the run where the program says that it has ended.
    ///
    /// # Errors
    /// As [`Log::step`].
    pub(super) fn end(&mut self) -> Result<(), Error> {
        self.end_run()
    }

    /// Keeps as facts in what the configurations of runs differ.
    fn tell_differences(&mut self) {
        let names: BTreeSet<&String> = self.configs.iter().flat_map(BTreeMap::keys).collect();
        let differ = |name: &&String| self.configs.windows(2).any(|pair| pair[0].get(*name) != pair[1].get(*name));
        let names: Vec<&String> = names.into_iter().filter(differ).take(MOST_DIFFERENCES).collect();
        for (results, config) in self.runs.all_mut().zip(&self.configs) {
            let value = |name: &&String| config.get(*name).map_or("not told".to_owned(), |value| plain(value));
            results.facts.extend(names.iter().map(|name| (plain(name.trim()), value(name))));
        }
    }

    /// All that the log holds.
    ///
    /// # Errors
    /// When nothing of it can be read, with the line that is to blame.
    pub(super) fn finish(mut self) -> Result<Content, Error> {
        self.end_run()?;
        self.tell_differences();
        let results = self.runs.finish(self.source)?;
        if results.iter().any(|results| !results.is_empty()) {
            return Ok(Content::Results(results));
        }
        let of_line =
            |(line, why): &(usize, String)| self.source.error(*line, format!("{why}, and no line of steps is whole"));
        let nothing = || Error::new(format!("{} has no line of steps", self.source.name()));
        Err(self.failed.or_else(|| self.first_left_out.as_ref().map(of_line)).unwrap_or_else(nothing))
    }
}
