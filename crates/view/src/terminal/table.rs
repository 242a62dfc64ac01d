//! The one layout of all tables: columns as wide as their cells, and a rule for what gives way where there is no room.

use super::{Style, width, wrap};

/// Between two columns.
const BETWEEN: usize = 2;
/// Remarks below a row begin here.
const INDENT: usize = 11;

/// Which side of a column its cells stand on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Words begin together.
    Left,
    /// Numbers end together.
    Right,
}

/// A column.
#[derive(Clone, Debug)]
pub struct Column {
    titles: Vec<String>,
    side: Side,
    at_least: usize,
    gives_way: u8,
    is_optional: bool,
    wraps: Option<[usize; 2]>,
    group: Option<usize>,
    kind: Option<usize>,
}

impl Column {
    /// A column whose title is that.
    pub fn new(title: impl Into<String>, side: Side) -> Self {
        Self {
            titles: vec![title.into()],
            side,
            at_least: 0,
            gives_way: 0,
            is_optional: false,
            wraps: None,
            group: None,
            kind: None,
        }
    }

    /// A column of words.
    pub fn left(title: impl Into<String>) -> Self {
        Self::new(title, Side::Left)
    }

    /// A column of numbers.
    pub fn right(title: impl Into<String>) -> Self {
        Self::new(title, Side::Right)
    }

    /// A second line of its title.
    #[must_use]
    pub fn unit(mut self, unit: impl Into<String>) -> Self {
        self.titles.push(unit.into());
        self
    }

    /// Room that it takes at least, so that a table does not jump while its cells change.
    #[must_use]
    pub fn at_least(mut self, room: usize) -> Self {
        self.at_least = room;
        self
    }

    /// When it is left out of a table that is too wide: the highest number first, 0 never.
    #[must_use]
    pub fn gives_way(mut self, order: u8) -> Self {
        self.gives_way = order;
        self
    }

    /// Leaves the column out where all of its cells are empty.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.is_optional = true;
        self
    }

    /// Breaks cells into several lines where the row is too long. Others give way before the column has less than `preferred`
    /// columns, and it never has less than `fewest`.
    #[must_use]
    pub fn wraps(mut self, preferred: usize, fewest: usize) -> Self {
        self.wraps = Some([preferred, fewest]);
        self
    }

    /// Puts the column under the label of this group; columns of one kind, one in each group, give way together.
    #[must_use]
    pub fn in_group(mut self, group: usize, kind: usize) -> Self {
        (self.group, self.kind) = (Some(group), Some(kind));
        self
    }
}

/// A cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// A cell in a style of its own.
    pub fn styled(text: impl Into<String>, style: Style) -> Self {
        Self { text: text.into(), style }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.into(), style: Style::Plain }
    }
}

/// A row: a cell for each column, and what stands behind them.
#[derive(Clone, Debug, Default)]
pub struct Row {
    cells: Vec<Cell>,
    remarks: String,
    style: Style,
}

impl Row {
    /// A row of these cells.
    pub fn new<T: Into<Cell>>(cells: impl IntoIterator<Item = T>) -> Self {
        Self { cells: cells.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Words behind the cells, or below them where the line would be too long.
    #[must_use]
    pub fn remarks(mut self, remarks: impl Into<String>) -> Self {
        self.remarks = remarks.into();
        self
    }

    /// The style of the whole row.
    #[must_use]
    pub fn style(mut self, style: Style) -> Self {
        self.style = style;
        self
    }
}

/// A table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    columns: Vec<Column>,
    groups: Vec<String>,
    rows: Vec<Row>,
}

/// The columns that are printed, each with its place and its room.
type ShownColumns = Vec<(usize, usize)>;

impl Table {
    /// An empty table.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: columns.into_iter().collect(), groups: Vec::new(), rows: Vec::new() }
    }

    /// What stands above the columns of each group.
    #[must_use]
    pub fn groups(mut self, labels: impl IntoIterator<Item = String>) -> Self {
        self.groups = labels.into_iter().collect();
        self
    }

    /// Adds a row. Cells that it lacks are empty; those without a column are left out.
    pub fn push(&mut self, mut row: Row) {
        row.cells.resize(self.columns.len(), Cell::default());
        self.rows.push(row);
    }

    /// Whether it has no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether it can be printed in so many columns.
    pub fn fits(&self, limit: usize) -> bool {
        needed(&self.layout(limit)) <= limit
    }

    /// Titles of the columns that have no room in so many columns, each once.
    pub fn left_out(&self, limit: usize) -> Vec<&str> {
        let shown = self.layout(limit);
        let mut titles: Vec<&str> = Vec::new();
        for (at, _) in self.layout(usize::MAX) {
            let title = self.columns[at].titles.first().map_or("", String::as_str);
            if !shown.iter().any(|(other, _)| *other == at) && !titles.contains(&title) {
                titles.push(title);
            }
        }
        titles
    }

    /// Lines of the table: labels of groups, titles, rows. In at most `limit` columns where that is possible.
    pub fn lines(&self, limit: usize) -> Vec<String> {
        let shown = self.layout(limit);
        let folded = self.titles(&shown);
        let heights = shown.iter().map(|(at, _)| folded[*at].len());
        let titles = (0..heights.max().unwrap_or(0)).map(|line| {
            let title = |at: usize| folded[at].get(line).map_or("", String::as_str);
            self.joined(&shown, |at| (title(at), Style::Plain))
        });
        let above = std::iter::once(self.labels(&shown)).chain(titles).filter(|line| !line.is_empty());
        let mut lines: Vec<String> = above.map(|line| Style::Dim.paint(&line)).collect();
        lines.extend(self.rows.iter().flat_map(|row| self.row(row, &shown, limit)));
        lines
    }

    /// The lines of each column's title. Where cells wrap, so does the title.
    fn titles(&self, shown: &ShownColumns) -> Vec<Vec<String>> {
        let mut titles: Vec<Vec<String>> = self.columns.iter().map(|column| column.titles.clone()).collect();
        for (at, room) in shown.iter().filter(|(at, _)| self.columns[*at].wraps.is_some()) {
            let folded: Vec<String> = titles[*at].iter().map(|title| wrap(title, *room)).collect();
            titles[*at] = folded.iter().flat_map(|title| title.lines().map(str::to_owned)).collect();
        }
        titles
    }

    /// The table as one text; empty where it has no row.
    pub fn text(&self, limit: usize) -> String {
        if self.is_empty() { String::new() } else { self.lines(limit).iter().map(|line| format!("{line}\n")).collect() }
    }

    fn layout(&self, limit: usize) -> ShownColumns {
        let is_used = |at: &usize| {
            let column = &self.columns[*at];
            !column.is_optional || self.rows.iter().any(|row| !row.cells[*at].text.is_empty())
        };
        let mut shown: ShownColumns = (0..self.columns.len()).filter(is_used).map(|at| (at, self.room(at))).collect();
        while self.wanted(&shown) > limit {
            let most = shown.iter().map(|(at, _)| self.columns[*at].gives_way).max().unwrap_or(0);
            let goes = shown.iter().rev().find(|(at, _)| most > 0 && self.columns[*at].gives_way == most);
            let Some(goes) = goes.map(|(at, _)| self.kind(*at)) else { break };
            shown.retain(|(at, _)| self.kind(*at) != goes);
        }
        self.shrink(&mut shown, limit);
        self.widen(&mut shown);
        shown
    }

    /// Columns of several groups that are the same column of each have the same kind.
    fn kind(&self, at: usize) -> (bool, usize) {
        self.columns[at].kind.map_or((false, at), |kind| (true, kind))
    }

    /// Columns that its titles and cells take.
    fn room(&self, at: usize) -> usize {
        let column = &self.columns[at];
        let cells = self.rows.iter().map(|row| width(&row.cells[at].text));
        cells.chain(column.titles.iter().map(|title| width(title))).chain([column.at_least]).max().unwrap_or(0)
    }

    /// What these columns take while those that wrap still have what they prefer.
    fn wanted(&self, shown: &ShownColumns) -> usize {
        let room = |(at, room): &(usize, usize)| {
            (*at, self.columns[*at].wraps.map_or(*room, |[preferred, _]| preferred.min(*room)))
        };
        let mut shown: ShownColumns = shown.iter().map(room).collect();
        self.widen(&mut shown);
        needed(&shown)
    }

    fn shrink(&self, shown: &mut ShownColumns, limit: usize) {
        let mut missing = needed(shown).saturating_sub(limit);
        for (at, room) in shown {
            let Some([_, fewest]) = self.columns[*at].wraps else { continue };
            let less = missing.min(room.saturating_sub(fewest));
            *room -= less;
            missing -= less;
        }
    }

    /// Makes the first column of a group wider where the label would not fit above it.
    fn widen(&self, shown: &mut ShownColumns) {
        for (group, label) in self.groups.iter().enumerate() {
            let missing = (width(label) + BETWEEN).saturating_sub(self.span(shown, group));
            if let Some((_, room)) = shown.iter_mut().find(|(at, _)| self.columns[*at].group == Some(group)) {
                *room += missing;
            }
        }
    }

    /// Columns that a group takes.
    fn span(&self, shown: &ShownColumns, group: usize) -> usize {
        needed(&shown.iter().filter(|(at, _)| self.columns[*at].group == Some(group)).copied().collect())
    }

    fn labels(&self, shown: &ShownColumns) -> String {
        let mut text = String::new();
        for (group, label) in self.groups.iter().enumerate() {
            let before = |(at, _): &&(usize, usize)| self.columns[*at].group.is_none_or(|own| own < group);
            let indent: usize = shown.iter().take_while(before).map(|(_, room)| room + BETWEEN).sum();
            let span = self.span(shown, group);
            text = format!("{text:indent$}{:-^span$}", format!(" {label} "));
        }
        text.trim_end().to_owned()
    }

    fn joined<'t>(&self, shown: &ShownColumns, cell: impl Fn(usize) -> (&'t str, Style)) -> String {
        let mut text = String::new();
        let Some(last) = shown.iter().rposition(|(at, _)| !cell(*at).0.is_empty()) else { return text };
        for (place, (at, room)) in shown.iter().enumerate().take(last + 1) {
            let (words, style) = cell(*at);
            let space = " ".repeat(room.saturating_sub(width(words)));
            let words = style.paint(words);
            text += &match self.columns[*at].side {
                Side::Left if place == last => words,
                Side::Left => format!("{words}{space}"),
                Side::Right => format!("{space}{words}"),
            };
            text += if place == last { "" } else { "  " };
        }
        text
    }

    fn row(&self, row: &Row, shown: &ShownColumns, limit: usize) -> Vec<String> {
        // Of a first cell that wraps, the last line stands beside the others; of any other cell, the first.
        let mut above: Vec<String> = Vec::new();
        let mut below: Vec<Vec<String>> = vec![Vec::new(); row.cells.len()];
        let mut texts: Vec<String> = row.cells.iter().map(|cell| cell.text.clone()).collect();
        for (place, (at, room)) in shown.iter().enumerate().filter(|(_, (at, _))| self.columns[*at].wraps.is_some()) {
            let folded = wrap(&texts[*at], *room);
            let mut lines: Vec<String> = folded.lines().map(str::to_owned).collect();
            if place == 0 {
                texts[*at] = lines.pop().unwrap_or_default();
                above.append(&mut lines);
            } else if !lines.is_empty() {
                texts[*at] = lines.remove(0);
                below[*at] = lines;
            }
        }
        let taken = width(&self.joined(shown, |at| (&texts[at], Style::Plain)));
        let cells = self.joined(shown, |at| (&texts[at], row.cells[at].style));
        let more = (0..below.iter().map(Vec::len).max().unwrap_or(0)).map(|line| {
            let text = |at: usize| below[at].get(line).map_or("", String::as_str);
            self.joined(shown, |at| (text(at), row.cells[at].style))
        });
        let mut lines = above;
        let has_room = taken + BETWEEN + width(&row.remarks) <= limit;
        let beside = if row.remarks.is_empty() || !has_room { String::new() } else { format!("  {}", row.remarks) };
        lines.push(format!("{cells}{beside}"));
        lines.extend(more);
        if !has_room {
            let under = wrap(&row.remarks, limit.saturating_sub(INDENT).max(20));
            lines.extend(under.lines().map(|line| format!("{:INDENT$}{line}", "")));
        }
        lines.iter().map(|line| row.style.paint(line)).collect()
    }
}

/// Columns that these take.
fn needed(shown: &ShownColumns) -> usize {
    shown.iter().map(|(_, room)| room + BETWEEN).sum::<usize>().saturating_sub(BETWEEN)
}

#[cfg(test)]
mod tests {
    use super::super::output;
    use super::*;

    #[test]
    fn cells_behind_wide_letters_stay_in_their_column() {
        let mut table = Table::new([Column::left("name"), Column::right("time")]);
        table.push(Row::new(["学習 1", "2 us"]));
        table.push(Row::new(["sweep", "10 us"]));
        assert_eq!(plain(&table, 80), ["name     time", "学習 1   2 us", "sweep   10 us"]);
    }

    #[test]
    fn units_that_no_shown_column_has_take_no_line() {
        let columns = [Column::right("ranks").unit(""), Column::right("rate").unit("GB/s").gives_way(1)];
        let mut table = Table::new(columns);
        table.push(Row::new(["2", "1.00"]));
        assert_eq!(plain(&table, 5), ["ranks", "    2"]);
        assert_eq!(plain(&table, 80).len(), 3);
    }

    fn plain(table: &Table, limit: usize) -> Vec<String> {
        let codes = ["0", "1", "2", "31", "32", "33"].map(|code| format!("\u{1b}[{code}m"));
        table
            .lines(limit)
            .into_iter()
            .map(|line| output(&line))
            .map(|line| codes.iter().fold(line, |line, code| line.replace(code, "")))
            .collect()
    }

    fn times() -> Table {
        let columns = [
            Column::left("case").wraps(12, 8),
            Column::right("time").unit("us"),
            Column::right("count").gives_way(1),
            Column::right("note").optional(),
            Column::left("verdict"),
        ];
        let mut table = Table::new(columns);
        table.push(Row::new(["all_reduce of 1 MiB", "1.25", "1000", "", "same"]));
        table.push(Row::new(["barrier", "10.5", "7", "", "worse"]).style(Style::Red));
        table
    }

    #[test]
    fn words_begin_together_numbers_end_together_and_empty_columns_go() {
        assert_eq!(
            plain(&times(), 80),
            [
                "case                 time  count  verdict",
                "                       us",
                "all_reduce of 1 MiB  1.25   1000  same",
                "barrier              10.5      7  worse",
            ]
        );
        assert_eq!(output(&times().lines(80)[3]), "\u{1b}[31mbarrier              10.5      7  worse\u{1b}[0m");
        assert_eq!(Table::new([Column::left("case")]).text(80), "");
    }

    #[test]
    fn columns_give_way_then_cells_wrap() {
        let narrow = plain(&times(), 30);
        assert_eq!(narrow[0], "case             time  verdict");
        assert_eq!(narrow[2..4], ["all_reduce of 1", "MiB              1.25  same"], "{narrow:#?}");
        assert!(narrow.iter().all(|line| width(line) <= 30), "{narrow:#?}");
        assert_eq!((times().left_out(30), times().left_out(80)), (vec!["count"], vec![]));
        // Below what it needs at least, a table is as narrow as it can be.
        assert!(!times().fits(10) && times().fits(23));
        assert_eq!(plain(&times(), 10)[0], "case      time  verdict");
    }

    #[test]
    fn a_title_wraps_with_its_cells() {
        let mut table =
            Table::new([Column::right("time"), Column::left("mesh and schedule").wraps(12, 8), Column::left("why")]);
        table.push(Row::new(["1 ms", "2x1x1, interleaved", "transfers"]));
        let wanted = ["time  mesh and  why", "      schedule", "1 ms  2x1x1,    transfers", "      interleaved"];
        let narrow = plain(&table, 28);
        assert_eq!(
            narrow.iter().map(|line| line.split_whitespace().collect()).collect::<Vec<Vec<&str>>>(),
            wanted.iter().map(|line| line.split_whitespace().collect()).collect::<Vec<Vec<&str>>>()
        );
        assert!(narrow.iter().all(|line| width(line) <= 28), "{narrow:#?}");
    }

    #[test]
    fn a_cell_that_is_not_the_first_goes_on_below_its_beginning() {
        let mut table = Table::new([Column::left("node"), Column::left("verdict"), Column::left("why").wraps(20, 12)]);
        table.push(Row::new(["node07", "slow", "all_reduce takes longer than elsewhere"]));
        table.push(Row::new(["node08", "good", ""]));
        let wanted = [
            "node    verdict  why",
            "node07  slow     all_reduce takes",
            "                 longer than",
            "                 elsewhere",
            "node08  good",
        ];
        assert_eq!(plain(&table, 34), wanted);
    }

    #[test]
    fn remarks_stand_behind_a_row_or_below_it() {
        let mut table = Table::new([Column::right("bytes").at_least(9), Column::right("time")]);
        table.push(Row::new(["1 KiB", "2 us"]).remarks("noisy, and wider than the target"));
        assert_eq!(plain(&table, 80)[1], "    1 KiB  2 us  noisy, and wider than the target");
        let below = plain(&table, 36);
        assert_eq!(below[1..], ["    1 KiB  2 us", "           noisy, and wider than the", "           target"]);
    }

    #[test]
    fn groups_stand_under_their_labels_and_give_way_together() {
        let column = |title: &str, group, kind| Column::right(title).in_group(group, kind);
        let columns = [
            Column::right("bytes"),
            column("time", 0, 0),
            column("rate", 0, 1).gives_way(1),
            column("time", 1, 0),
            column("rate", 1, 1).gives_way(1),
        ];
        let mut table = Table::new(columns).groups(["out of place", "in place"].map(str::to_owned));
        table.push(Row::new(["64", "1", "2", "3", "4"]));
        assert_eq!(
            plain(&table, 80),
            [
                "        out of place    in place",
                "bytes      time  rate  time  rate",
                "   64         1     2     3     4",
            ]
            .map(|line| line.to_owned())
        );
        assert!(plain(&table, 32).iter().all(|line| !line.contains("rate")), "{:#?}", plain(&table, 32));
    }

    #[test]
    fn a_styled_cell_takes_the_room_of_its_text() {
        let mut table = Table::new([Column::left("what"), Column::left("verdict"), Column::right("n")]);
        table.push(Row::new([Cell::from("a"), Cell::styled("worse", Style::Red), Cell::from("1")]));
        assert_eq!(output(&table.lines(80)[1]), "a     \u{1b}[31mworse\u{1b}[0m    1");
    }
}
