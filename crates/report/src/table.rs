//! Markdown tables with an aligned source, so that they read well in a terminal and in a diff.

/// Which side a column's cells stand on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A table; cells are Markdown already.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<T: Into<String>>(columns: impl IntoIterator<Item = (T, Align)>) -> Self {
        let columns = columns.into_iter().map(|(title, align)| (title.into(), align)).collect();
        Self { columns, rows: Vec::new() }
    }

    /// The table without the columns for which `goes` holds, which sees a column's place and cells.
    pub(crate) fn without(mut self, goes: impl Fn(usize, &[&str]) -> bool) -> Self {
        for at in (0..self.columns.len()).rev() {
            let cells: Vec<&str> = self.rows.iter().map(|row| row[at].as_str()).collect();
            if goes(at, &cells) {
                self.columns.remove(at);
                self.rows.iter_mut().for_each(|row| drop(row.remove(at)));
            }
        }
        self
    }

    /// Adds a row of as many cells as there are columns.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table without columns in which every cell is `empty`: a column of dashes says nothing.
    pub(crate) fn without_empty(mut self, empty: &str, columns: &[&str]) -> Self {
        for column in columns {
            let Some(at) = self.columns.iter().position(|(name, _)| name == column) else { continue };
            if self.rows.iter().all(|row| row[at] == empty) {
                self.columns.remove(at);
                self.rows.iter_mut().for_each(|row| drop(row.remove(at)));
            }
        }
        self
    }

    pub(crate) fn markdown(&self) -> String {
        let width = |at: usize| {
            let cells = self.rows.iter().map(|row| row[at].chars().count());
            cells.chain([self.columns[at].0.chars().count(), 3]).max().unwrap_or(3)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let mut text = String::from("|");
            for ((cell, width), (_, align)) in cells.zip(&widths).zip(&self.columns) {
                match align {
                    Align::Left => text.push_str(&format!(" {cell:<width$} |")),
                    Align::Right => text.push_str(&format!(" {cell:>width$} |")),
                }
            }
            text + "\n"
        };
        let mut text = line(&mut self.columns.iter().map(|(name, _)| name.as_str()));
        text.push('|');
        for (width, (_, align)) in widths.iter().zip(&self.columns) {
            match align {
                Align::Left => text.push_str(&format!(" {} |", "-".repeat(*width))),
                Align::Right => text.push_str(&format!(" {}: |", "-".repeat(width - 1))),
            }
        }
        text.push('\n');
        for row in &self.rows {
            text += &line(&mut row.iter().map(String::as_str));
        }
        text
    }
}
