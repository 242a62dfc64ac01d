//! Tables.

use std::borrow::Cow;

use super::timeline::Timeline;
use super::{Tone, Words};

/// Which side a column's cells stand on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A column.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) title: Words,
    pub(crate) align: Align,
    /// Widths in characters between which its cells wrap.
    pub(crate) wraps: Option<[usize; 2]>,
    /// Columns of larger numbers go first where the screen is too narrow; 0: it stays.
    pub(crate) gives_way: u8,
    /// Whether it goes where all of its cells are empty.
    pub(crate) optional: bool,
}

impl Column {
    fn new(title: impl Into<Words>, align: Align) -> Self {
        Self { title: title.into(), align, wraps: None, gives_way: 0, optional: false }
    }

    /// A column of words.
    pub(crate) fn left(title: impl Into<Words>) -> Self {
        Self::new(title, Align::Left)
    }

    /// A column of numbers.
    pub(crate) fn right(title: impl Into<Words>) -> Self {
        Self::new(title, Align::Right)
    }

    /// Cells of the column wrap: at best at the first width, and at the second where the screen is narrow.
    pub(crate) fn wraps(self, preferred: usize, fewest: usize) -> Self {
        Self { wraps: Some([preferred, fewest]), ..self }
    }

    /// It gives way where the screen is narrow.
    pub(crate) fn gives_way(self, order: u8) -> Self {
        Self { gives_way: order, ..self }
    }

    /// It goes where all of its cells are empty.
    pub(crate) fn optional(self) -> Self {
        Self { optional: true, ..self }
    }
}

impl<T: Into<Words>> From<(T, Align)> for Column {
    fn from((title, align): (T, Align)) -> Self {
        Self::new(title, align)
    }
}

/// A table.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<TableRow>,
    /// Times over runs, one a row, and the column that they are drawn in.
    timelines: Option<(usize, Vec<Timeline>)>,
    /// How the values of the columns from the second read below those of the first, where a screen is narrow.
    also: Vec<String>,
}

/// A row in one piece of memory, its cells end to end: a table of a large record has a million of them.
#[derive(Clone, Debug)]
pub(crate) struct TableRow {
    text: Box<str>,
    /// Where each cell ends.
    ends: Box<[u32]>,
    /// Tones of some cells, by their columns.
    tones: Box<[(usize, Tone)]>,
}

impl TableRow {
    /// A row of these cells.
    pub(crate) fn new<T: Into<Words>>(cells: impl IntoIterator<Item = T>) -> Self {
        Self::of(cells.into_iter().map(Into::into))
    }

    /// The row with a tone for its cell in a column.
    pub(crate) fn tone(self, column: usize, tone: Tone) -> Self {
        let own = (tone != Tone::Plain).then_some((column, tone));
        Self { tones: self.tones.into_iter().chain(own).collect(), ..self }
    }

    fn of(cells: impl Iterator<Item = Words>) -> Self {
        let (mut text, mut ends) = (String::new(), Vec::new());
        for cell in cells {
            text += cell.marked();
            ends.push(u32::try_from(text.len()).expect("a row is shorter than 4 GiB"));
        }
        Self { text: text.into(), ends: ends.into(), tones: Box::default() }
    }

    fn cell(&self, at: usize) -> Words {
        let begin = if at == 0 { 0 } else { self.ends[at - 1] };
        Words::from_marked(&self.text[begin as usize..self.ends[at] as usize])
    }

    fn cells(&self) -> impl Iterator<Item = Words> {
        (0..self.ends.len()).map(|at| self.cell(at))
    }
}

impl Table {
    pub(crate) fn new<C: Into<Column>>(columns: impl IntoIterator<Item = C>) -> Self {
        let columns = columns.into_iter().map(Into::into).collect();
        Self { columns, rows: Vec::new(), timelines: None, also: Vec::new() }
    }

    /// Adds a row of as many cells as there are columns.
    pub(crate) fn row<T: Into<Words>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.push(TableRow::new(cells));
    }

    /// Adds a row of as many cells as there are columns.
    pub(crate) fn push(&mut self, row: TableRow) {
        debug_assert_eq!(row.ends.len(), self.columns.len());
        self.rows.push(row);
    }

    /// Draws times over runs in the cells of a column, one for each row.
    pub(crate) fn draw(&mut self, column: usize, timelines: Vec<Timeline>) {
        debug_assert_eq!(timelines.len(), self.rows.len());
        self.timelines = Some((column, timelines));
    }

    /// What is drawn in a cell.
    pub(crate) fn drawn(&self, row: usize, column: usize) -> Option<&Timeline> {
        self.timelines.as_ref().filter(|(at, _)| *at == column).and_then(|(_, timelines)| timelines.get(row))
    }

    /// Says that the first columns tell rows apart, and how values of all but the first read without a title: `{} ranks`.
    pub(crate) fn tell_apart(&mut self, also: Vec<String>) {
        self.also = also;
    }

    /// How values of the columns from the second on read below those of the first.
    pub(crate) fn also(&self) -> &[String] {
        &self.also
    }

    /// The columns.
    pub(crate) fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The tone of a cell.
    pub(crate) fn tone(&self, row: usize, column: usize) -> Tone {
        let own = self.rows[row].tones.iter().find(|(at, _)| *at == column);
        own.map_or(Tone::Plain, |(_, tone)| *tone)
    }

    /// Rows of the table, each with a cell for each column.
    pub(crate) fn rows(&self) -> impl ExactSizeIterator<Item = Vec<Words>> {
        self.rows.iter().map(|row| row.cells().collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table without the columns for which `goes` holds, which sees a column's place and cells.
    pub(crate) fn without(mut self, goes: impl Fn(usize, &[Words]) -> bool) -> Self {
        for at in (0..self.columns.len()).rev() {
            let cells: Vec<Words> = self.rows.iter().map(|row| row.cell(at)).collect();
            if goes(at, &cells) {
                self.columns.remove(at);
                self.timelines = self.timelines.filter(|(drawn, _)| *drawn != at);
                if let Some((drawn, _)) = &mut self.timelines {
                    *drawn -= usize::from(*drawn > at);
                }
                if (1..=self.also.len()).contains(&at) {
                    self.also.remove(at - 1);
                }
                for row in &mut self.rows {
                    let others = row.cells().enumerate().filter(|(place, _)| *place != at).map(|(_, cell)| cell);
                    let kept = row.tones.iter().filter(|(place, _)| *place != at);
                    let tones = kept.map(|(place, tone)| (place - usize::from(*place > at), *tone)).collect();
                    *row = TableRow { tones, ..TableRow::of(others) };
                }
            }
        }
        self
    }

    /// The table without optional columns that say nothing.
    pub(crate) fn used(&self) -> Cow<'_, Self> {
        if !self.columns.iter().any(|column| column.optional) {
            return Cow::Borrowed(self);
        }
        let columns = self.columns.clone();
        let is_drawn = |at: usize| self.drawn(0, at).is_some();
        let is_unused =
            |at: usize, cells: &[Words]| columns[at].optional && !is_drawn(at) && cells.iter().all(Words::is_empty);
        Cow::Owned(self.clone().without(is_unused))
    }

    /// The table without columns in which every cell is `empty`: a column of dashes says nothing.
    pub(crate) fn without_empty(self, empty: &str, columns: &[&str]) -> Self {
        let (empty, names) =
            (Words::from(empty), self.columns.iter().map(|column| column.title.plain()).collect::<Vec<_>>());
        self.without(|at, cells| columns.contains(&names[at].as_str()) && cells.iter().all(|cell| *cell == empty))
    }
}
