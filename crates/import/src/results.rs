//! What another tool measured, before it is a record.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use terms::number::thousands;

/// What was measured, as fields of a benchmark. Fields that are left out have their defaults.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// The benchmark's name: `collective`, `primitive`, `training`.
    pub benchmark: &'static str,
    /// Fields of the benchmark and their values, as on the command line: `("bytes", "1024")`.
    pub fields: Vec<(&'static str, Cow<'static, str>)>,
    /// The device that held the buffers: `cpu`, `cuda`.
    pub device: &'static str,
    /// The name of an implementation without a counterpart here, as the tool spells it.
    pub implementation: Option<String>,
}

/// What a tool says of one shape, in seconds. Nothing that it does not say is made up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Time of one call, by the statistic of [`Results::statistic`].
    pub time_s: f64,
    /// How many times were timed.
    pub iterations: Option<u64>,
    /// Elements that its own check found wrong; None where nothing was checked.
    pub wrong: Option<u64>,
    /// What few tools tell. Apart, because a long log holds millions of figures.
    pub details: Option<Box<Details>>,
}

/// What few tools report in addition to a time, in seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Details {
    /// Mean, if it is reported in addition to the above.
    pub mean: Option<f64>,
    /// Standard deviation.
    pub std: Option<f64>,
    /// 5th percentile.
    pub p05: Option<f64>,
    /// 50th percentile.
    pub p50: Option<f64>,
    /// 95th percentile.
    pub p95: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// Smallest.
    pub min: Option<f64>,
    /// Largest.
    pub max: Option<f64>,
    /// Declared metrics of the benchmark that the time alone does not give. Bandwidths of collectives are computed.
    pub metrics: Vec<(&'static str, f64)>,
    /// Declared metrics that are words: what charts and tables tell lines apart by.
    pub words: Vec<(&'static str, Cow<'static, str>)>,
    /// Declared metrics that have a value for each pair of ranks, by row and column; None where nothing was measured.
    pub matrices: Vec<(&'static str, Vec<Vec<Option<f64>>>)>,
    /// `[process][iteration]`: times of single processes.
    pub processes: Vec<Vec<f64>>,
}

impl Figures {
    /// Details; empty where there are none.
    pub(crate) fn details(&self) -> &Details {
        static NONE: Details = Details {
            mean: None,
            std: None,
            p05: None,
            p50: None,
            p95: None,
            p99: None,
            min: None,
            max: None,
            metrics: Vec::new(),
            words: Vec::new(),
            matrices: Vec::new(),
            processes: Vec::new(),
        };
        self.details.as_deref().unwrap_or(&NONE)
    }
}

/// One line of a tool's table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What was measured.
    pub shape: Shape,
    /// What it took.
    pub figures: Figures,
}

/// The results of one tool on one machine. They make one record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// The format that read it, where a file holds results of several tools.
    pub format: Option<&'static str>,
    /// The program: `nccl-tests`, with its version where the file tells it.
    pub tool: String,
    /// What a time is: `mean over iterations of the mean over ranks`.
    pub statistic: String,
    /// When it ran, RFC 3339, where the file tells it.
    pub started: Option<String>,
    /// Host names, by their first appearance.
    pub hosts: Vec<String>,
    /// Versions of libraries, by name: `nccl`.
    pub versions: BTreeMap<String, String>,
    /// What the file says of the run, as it says it: options, devices, averages.
    pub facts: BTreeMap<String, String>,
    /// How figures were read, one sentence each.
    pub notes: Vec<String>,
    /// Whether the end of a run is missing: it was ended, or the file is cut.
    pub cut: bool,
    /// Figures that become no case, one sentence each with line and reason. At most [`Results::OMITTED`] are kept, then a count.
    pub omitted: Vec<String>,
    omitted_more: usize,
    /// Columns and keys that no case has, one sentence each; at most [`Results::OMITTED`], then a count.
    unread: Vec<String>,
    unread_more: usize,
    /// Sentences of the file that are not among the notes, because there are too many.
    quotes_more: usize,
    /// Runs that are not among the facts, because there are too many.
    facts_more: usize,
    runs: u32,
    shapes: Vec<(Shape, Vec<Figures>)>,
    /// Where the first shape of each hash is: a copy of every shape would be the most that a long log needs.
    places: HashMap<u64, usize>,
}

impl Results {
    /// Most sentences about what was omitted.
    pub const OMITTED: usize = 100;
    /// Most notes of a file's own sentences.
    pub const QUOTES: usize = 50;
    /// Runs that have facts of their own; a long log has thousands.
    pub const RUNS_WITH_FACTS: u32 = 20;

    /// Results of a tool.
    pub fn new(tool: impl Into<String>, statistic: impl Into<String>) -> Self {
        Self { tool: tool.into(), statistic: statistic.into(), ..Self::default() }
    }

    /// Says which format read it.
    #[must_use]
    pub(crate) fn read_as(self, format: &'static str) -> Self {
        Self { format: Some(format), ..self }
    }

    /// Begins another run of the program in the same file. A shape that several runs measured has one trial for each.
    pub fn begin_run(&mut self) {
        self.runs += 1;
    }

    /// Runs that the file holds.
    pub fn runs(&self) -> u32 {
        self.runs.max(1)
    }

    /// Adds what was measured of a shape. A second time is a further trial.
    pub fn add(&mut self, Row { shape, figures }: Row) {
        let place = self.place(shape);
        self.add_at(place, figures);
    }

    /// Where the figures of a shape are. Long logs ask once for each shape, not for each line.
    pub(crate) fn place(&mut self, shape: Shape) -> usize {
        self.find(&shape).unwrap_or_else(|| {
            self.places.entry(hash(&shape)).or_insert(self.shapes.len());
            self.shapes.push((shape, Vec::new()));
            self.shapes.len() - 1
        })
    }

    fn find(&self, shape: &Shape) -> Option<usize> {
        let first = *self.places.get(&hash(shape))?;
        let is_it = |at: &usize| self.shapes[*at].0 == *shape;
        Some(first).filter(is_it).or_else(|| (0..self.shapes.len()).find(is_it))
    }

    /// Adds what was measured of the shape at this place.
    pub(crate) fn add_at(&mut self, place: usize, figures: Figures) {
        let all = &mut self.shapes[place].1;
        if all.is_empty() {
            // Most shapes are measured once.
            all.reserve_exact(1);
        }
        all.push(figures);
    }

    /// Says how figures were read, once.
    pub(crate) fn note(&mut self, what: impl Into<String>) {
        let what = what.into();
        if !self.notes.contains(&what) {
            self.notes.push(what);
        }
    }

    /// Notes what a line of the file says, once: a log may have any number of failures.
    pub(crate) fn quote(&mut self, line: String) {
        match self.notes.len() < Self::QUOTES {
            true => self.note(line),
            false => self.quotes_more += usize::from(!self.notes.contains(&line)),
        }
    }

    /// Keeps what the file says of its latest run.
    pub(crate) fn tell(&mut self, facts: impl IntoIterator<Item = (String, String)>) {
        let run = self.runs();
        if run > Self::RUNS_WITH_FACTS {
            self.facts_more += 1;
            return;
        }
        for (name, value) in facts {
            let name = if run == 1 { name } else { format!("run {run}: {name}") };
            let known = self.facts.entry(name).or_default();
            if known.is_empty() {
                *known = value;
            } else if *known != value {
                *known += &format!("; {value}");
            }
        }
    }

    /// Says of a column or a key why it is in no case, once.
    pub(crate) fn leave_unread(&mut self, what: String) {
        if self.unread.contains(&what) {
            return;
        }
        match self.unread.len() < Self::OMITTED {
            true => self.unread.push(what),
            false => self.unread_more += 1,
        }
    }

    /// Says of a figure why it is in no case.
    pub fn omit(&mut self, line: usize, why: impl std::fmt::Display) {
        self.leave_out(format!("line {line}: {why}"));
    }

    pub(crate) fn leave_out(&mut self, what: String) {
        if self.omitted.len() < Self::OMITTED {
            self.omitted.push(what);
        } else {
            self.omitted_more += 1;
        }
    }

    /// Takes what another, of the same file and without a case, says of figures that are in none.
    pub(crate) fn absorb(&mut self, other: Self) {
        self.cut |= other.cut;
        other.omitted.into_iter().for_each(|what| self.leave_out(what));
        other.unread.into_iter().for_each(|what| self.leave_unread(what));
        other.notes.into_iter().for_each(|note| self.quote(note));
        self.omitted_more += other.omitted_more;
        self.unread_more += other.unread_more;
        self.quotes_more += other.quotes_more;
    }

    /// Takes a further run of the same program. What both measured has one more trial.
    pub(crate) fn absorb_run(&mut self, mut other: Self) {
        self.begin_run();
        self.tell(std::mem::take(&mut other.facts));
        for host in std::mem::take(&mut other.hosts) {
            if !self.hosts.contains(&host) {
                self.hosts.push(host);
            }
        }
        for (shape, figures) in other.take_shapes() {
            let place = self.place(shape);
            self.shapes[place].1.extend(figures);
        }
        self.absorb(other);
    }

    /// Whether both measured the same of something.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        other.shapes.iter().any(|(shape, _)| self.find(shape).is_some())
    }

    pub(crate) fn take_shapes(&mut self) -> Vec<(Shape, Vec<Figures>)> {
        self.places.clear();
        std::mem::take(&mut self.shapes)
    }

    /// What was omitted, with a count of what is not listed.
    pub fn all_omitted(&self) -> Vec<String> {
        let mut all = self.omitted.clone();
        let more =
            |count: usize, what: &str| (count > 0).then(|| format!("and {} more{what}", thousands(count as u64)));
        all.extend(more(self.omitted_more, ""));
        all.extend_from_slice(&self.unread);
        all.extend(more(self.unread_more, " columns or keys"));
        all.extend(more(self.quotes_more, " lines like those of the notes"));
        let from = Self::RUNS_WITH_FACTS;
        all.extend(more(self.facts_more, &format!(" runs: facts are listed of the first {from}")));
        all
    }

    /// Shapes in the order of the file, each with what its runs say.
    pub fn shapes(&self) -> &[(Shape, Vec<Figures>)] {
        &self.shapes
    }

    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.shapes.is_empty()
    }
}

fn hash(shape: &Shape) -> u64 {
    let mut hasher = DefaultHasher::new();
    shape.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_to_list_is_counted() {
        let mut results = Results::new("x", "mean");
        (0..19_040).for_each(|line| results.omit(line, "cut"));
        (0..3).for_each(|_| results.leave_unread("the column `x`: no place".to_owned()));
        (0..60).for_each(|line| results.quote(format!("failure {line}")));
        for run in 0..57 {
            results.begin_run();
            results.tell([("options".to_owned(), format!("-n {run}"))]);
        }
        assert_eq!(
            results.all_omitted()[100..],
            [
                "and 18,940 more",
                "the column `x`: no place",
                "and 10 more lines like those of the notes",
                "and 37 more runs: facts are listed of the first 20",
            ]
        );
        assert_eq!((results.facts.len(), results.notes.len()), (20, 50));
    }
}
