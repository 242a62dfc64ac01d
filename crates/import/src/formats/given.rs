//! What the user says of a file that may say it itself: `--ranks`, `--op`. What the file says counts. What is given fills
//! the places where the file says nothing, and is refused if the file says everything, and something else.

use terms::{Collective, Error};

use crate::{Source, collective};

/// A number or an operation, and what the file says in its place.
struct One<T> {
    given: Option<T>,
    /// Whether the file needed it, or says the same.
    is_right: bool,
    /// The first place that says something else: its line, what says it, and what.
    other: Option<(usize, &'static str, T)>,
}

impl<T: Copy + PartialEq> One<T> {
    fn new(given: Option<T>) -> Self {
        Self { given, is_right: false, other: None }
    }

    fn told(&mut self, line: usize, by: &'static str, told: T) {
        self.is_right |= self.given == Some(told);
        self.other.get_or_insert((line, by, told));
    }

    /// What is given and nowhere right, with what the file says.
    fn wrong(&self) -> Option<(T, (usize, &'static str, T))> {
        self.given.filter(|_| !self.is_right).zip(self.other)
    }
}

/// `--ranks` and `--op` of a file.
pub(super) struct Given<'s> {
    source: &'s Source,
    ranks: One<u32>,
    op: One<Collective>,
}

impl<'s> Given<'s> {
    /// What the user says of a file.
    ///
    /// # Errors
    /// When it is neither a number of ranks nor an operation.
    pub(super) fn new(source: &'s Source) -> Result<Self, Error> {
        let op = source
            .given("op")
            .map(|word| collective::op(word).ok_or_else(|| Error::new(format!("there is no operation `{word}`"))));
        let ranks = collective::given_ranks(source)?;
        Ok(Self { source, ranks: One::new(ranks), op: One::new(op.transpose()?) })
    }

    /// The ranks of the table at a line: those that the file tells there, else those that the user gives. `by` is what
    /// tells them, as the subject of a sentence.
    ///
    /// # Errors
    /// When neither does.
    pub(super) fn ranks(&mut self, line: usize, by: &'static str, told: Option<u32>) -> Result<u32, Error> {
        if let Some(told) = told {
            self.ranks.told(line, by, told);
            return Ok(told);
        }
        self.ranks.is_right = true;
        self.ranks.given.ok_or_else(|| collective::no_ranks(self.source, line))
    }

    /// The file says that the table at a line is of this operation.
    pub(super) fn op(&mut self, line: usize, op: Collective) {
        self.op.told(line, "the table", op);
    }

    /// Refuses what the file contradicts. Once all of it was read.
    ///
    /// # Errors
    /// What is given, and what the file says.
    pub(super) fn check(&self) -> Result<(), Error> {
        if let Some((given, (line, by, told))) = self.ranks.wrong() {
            let what = format!("{by} says {told} ranks, and `--ranks` says {given}");
            return Err(self.source.error(line, what).hint("leave `--ranks` out: the file tells the number"));
        }
        if let Some((given, (line, by, told))) = self.op.wrong() {
            let what = format!("{by} is of {told}, and `--op` says {given}");
            return Err(self.source.error(line, what).hint("leave `--op` out: the file names its operations"));
        }
        Ok(())
    }
}
