//! Comma-separated values: quoted cells, a head line.

use terms::Error;
use terms::outside;

/// A table with its head.
pub(super) struct HeadedTable<'a> {
    head: Vec<String>,
    lines: Vec<(usize, Vec<String>)>,
    text: std::marker::PhantomData<&'a str>,
}

impl HeadedTable<'_> {
    pub(super) fn parse(text: &str, most: usize) -> Result<Self, Error> {
        // Spreadsheets begin a file with a byte order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lines =
            text.lines().enumerate().map(|(at, line)| (at + 1, line)).filter(|(_, line)| !line.trim().is_empty());
        let Some((_, head)) = lines.next() else { return Err(Error::new("the table of steps is empty")) };
        let head = cells(head).into_iter().map(|name| name.trim().to_lowercase()).collect();
        let lines: Vec<(usize, Vec<String>)> = lines.map(|(at, line)| (at, cells(line))).take(most + 1).collect();
        if lines.len() > most {
            return Err(Error::new("the table of steps is too long").cause(format!("at most {most} rows are read")));
        }
        Ok(Self { head, lines, text: std::marker::PhantomData })
    }

    pub(super) fn column(&self, name: &str) -> Option<usize> {
        self.head.iter().position(|column| column == name)
    }

    /// A cell; empty where the line or the table has none.
    pub(super) fn cell<'c>(&self, cells: &'c [String], name: &str) -> &'c str {
        self.column(name).and_then(|at| cells.get(at)).map_or("", |cell| cell.trim())
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &Vec<String>)> {
        self.lines.iter().map(|(line, cells)| (*line, cells))
    }
}

/// The cells of a line. A quote within a quoted cell is written twice.
fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut quoted = false;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        let cell = cells.last_mut().expect("there is a cell");
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                cell.push('"');
                letters.next();
            }
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            other => cell.push(other),
        }
    }
    cells.into_iter().map(|cell| outside::text(&cell).into_owned()).collect()
}
