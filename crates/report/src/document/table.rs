//! Tables.

use super::Words;

/// Which side a column's cells stand on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A table.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    columns: Vec<(Words, Align)>,
    rows: Vec<Row>,
    /// How the values of the columns from the second read below those of the first, where a screen is narrow.
    also: Vec<String>,
}

/// A row in one piece of memory, its cells end to end: a table of a large record has a million of them.
#[derive(Clone, Debug)]
struct Row {
    text: Box<str>,
    /// Where each cell ends.
    ends: Box<[u32]>,
}

impl Row {
    fn new(cells: impl Iterator<Item = Words>) -> Self {
        let (mut text, mut ends) = (String::new(), Vec::new());
        for cell in cells {
            text += cell.marked();
            ends.push(u32::try_from(text.len()).expect("a row is shorter than 4 GiB"));
        }
        Self { text: text.into(), ends: ends.into() }
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
    pub(crate) fn new<T: Into<Words>>(columns: impl IntoIterator<Item = (T, Align)>) -> Self {
        let columns = columns.into_iter().map(|(title, align)| (title.into(), align)).collect();
        Self { columns, rows: Vec::new(), also: Vec::new() }
    }

    /// Adds a row of as many cells as there are columns.
    pub(crate) fn row<T: Into<Words>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let row = Row::new(cells.into_iter().map(Into::into));
        debug_assert_eq!(row.ends.len(), self.columns.len());
        self.rows.push(row);
    }

    /// Says that the first columns tell rows apart, and how values of all but the first read without a title: `{} ranks`.
    pub(crate) fn tell_apart(&mut self, also: Vec<String>) {
        self.also = also;
    }

    /// How values of the columns from the second on read below those of the first.
    pub(crate) fn also(&self) -> &[String] {
        &self.also
    }

    /// Titles of the columns, and the side on which their cells stand.
    pub(crate) fn columns(&self) -> &[(Words, Align)] {
        &self.columns
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
                if (1..=self.also.len()).contains(&at) {
                    self.also.remove(at - 1);
                }
                for row in &mut self.rows {
                    *row = Row::new(row.cells().enumerate().filter(|(place, _)| *place != at).map(|(_, cell)| cell));
                }
            }
        }
        self
    }

    /// The table without columns in which every cell is `empty`: a column of dashes says nothing.
    pub(crate) fn without_empty(self, empty: &str, columns: &[&str]) -> Self {
        let (empty, names) =
            (Words::from(empty), self.columns.iter().map(|(name, _)| name.plain()).collect::<Vec<_>>());
        self.without(|at, cells| columns.contains(&names[at].as_str()) && cells.iter().all(|cell| *cell == empty))
    }
}
