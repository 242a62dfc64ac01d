//! How the case lines of a benchmark are shown: sections, tables, charts. All of it is data, and `run.json` holds a copy, so
//! that a record can be shown by a program that does not know its benchmark. A declaration selects and formats; what must
//! be computed is a metric.
//!
//! A **source** is the path of a value in a case line: a member of the line (`ranks`, `bytes`, `time_s.median`), a metric
//! (`busbw_gbs`, `mfu.headline`), or a parameter (`mesh`). No two have the same name.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the ends of a time's printed interval are, as `TimeSummary::printed` chooses them.
pub const PRINTED_INTERVAL: &str = "time_s.ci95_again|time_s.ci95_earlier|time_s.ci95";

/// How a benchmark's case lines are shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Show {
    /// The parameter with a section for each of its values (`op`); empty: the benchmark is one section.
    pub section: String,
    /// What is timed: `call`, `step`.
    pub timed: String,
    /// The tables of a section. The first also is the terminal's.
    pub tables: Vec<Table>,
    /// The charts of a section.
    pub charts: Vec<Chart>,
    /// Metrics that sum a case up, the most important first.
    pub headline: Vec<String>,
}

impl Default for Show {
    /// One section, a table of ranks and times, and no chart: what every benchmark has.
    fn default() -> Self {
        let columns = vec![
            Column::new("ranks", "ranks", Format::Count),
            Column::time("time"),
            Column::precision(),
            Column::wrong(),
        ];
        Self {
            section: String::new(),
            timed: "call".to_owned(),
            tables: vec![Table { columns, ..Table::default() }],
            charts: Vec::new(),
            headline: Vec::new(),
        }
    }
}

/// A table: a row for each case that has a value in one of its metrics' columns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Table {
    /// What it shows, as a line above it; empty for the section's main table.
    pub title: String,
    /// Columns of the table, in order.
    pub columns: Vec<Column>,
    /// Parameters that its columns tell in other words, so that headings need not.
    pub covers: Vec<String>,
    /// The parameter that has its values side by side: cases that differ in it alone share a row, and each value has its own
    /// group of the columns marked `each`. Where one value ran alone, or there is no room, each case has a row. Empty: none.
    pub pivot: String,
    /// How to read it, below it.
    pub note: String,
}

/// How a value becomes the text of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// A word as it is.
    #[default]
    Word,
    /// A switch: on or off.
    Switch,
    /// A whole number, exactly.
    Count,
    /// Three significant digits.
    Number,
    /// Bytes with a binary unit.
    Bytes,
    /// A duration.
    Seconds,
    /// A share, as per cent.
    Share,
    /// A share of a bound, as per cent. What lies above it is `>100%`: then the bound is none, and the number says nothing.
    Bounded,
    /// A difference as a signed share.
    Change,
    /// Half of the interval's width, relative to the value, as per cent.
    Precision,
    /// The first and the last number of a list.
    FirstAndLast,
    /// The numbers of a list, up to eight of them.
    Each,
}

/// One column.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Column {
    /// Title of the column.
    pub title: String,
    /// Unit of the column, where cells do not carry one.
    pub unit: String,
    /// Where the value is.
    pub source: String,
    /// Where the two ends of its interval are; empty: it has none.
    pub ends: String,
    /// Where the word is that stands behind the value (`excellent`); empty: nowhere.
    pub word: String,
    /// How the value is written.
    pub format: Format,
    /// On a narrow terminal the column with the highest number goes first; 0 always stays.
    pub gives_way: u8,
    /// Where all rows have the same value it stands in the heading instead, in place of `{}`; empty: never.
    pub lifted: String,
    /// Whether it stands once for each value of the table's pivot.
    pub each: bool,
    /// The only mode in whose rows it stands; empty: any.
    pub only: String,
}

impl Column {
    /// A column that always stands.
    pub fn new(title: &str, source: &str, format: Format) -> Self {
        Self { title: title.to_owned(), source: source.to_owned(), format, ..Self::default() }
    }

    /// The time of a call, under this title.
    pub fn time(title: &str) -> Self {
        Self::new(title, "time_s.median", Format::Seconds)
    }

    /// Half the width of the time's printed interval.
    pub fn precision() -> Self {
        Self::new("±95%", "time_s.median", Format::Precision).ends(PRINTED_INTERVAL)
    }

    /// Wrong elements.
    pub fn wrong() -> Self {
        Self::new("wrong", "wrong", Format::Count)
    }

    /// A percentile of the calls' times, for the rows of chained calls.
    pub fn tail(title: &str, source: &str) -> Self {
        Self { only: terms::Mode::Decode.to_string(), ..Self::new(title, source, Format::Seconds) }
    }

    /// Adds a unit below the title.
    pub fn unit(self, unit: &str) -> Self {
        Self { unit: unit.to_owned(), ..self }
    }

    /// Adds an interval.
    pub fn ends(self, ends: &str) -> Self {
        Self { ends: ends.to_owned(), ..self }
    }

    /// Adds a word behind the value.
    pub fn word(self, word: &str) -> Self {
        Self { word: word.to_owned(), ..self }
    }

    /// Lets the column give way on a narrow terminal: those with the highest number go first.
    pub fn gives_way(self, order: u8) -> Self {
        Self { gives_way: order, ..self }
    }

    /// Moves a value that all rows have to the heading, in place of `{}`.
    pub fn lifted(self, around: &str) -> Self {
        Self { lifted: around.to_owned(), ..self }
    }

    /// Repeats the column for each value of the table's pivot.
    pub fn each(self) -> Self {
        Self { each: true, ..self }
    }
}

/// What a chart draws.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChartKind {
    /// A line for each configuration, with intervals.
    #[default]
    Lines,
    /// Points alone, below ceilings.
    Scatter,
    /// A bar for each case.
    Bars,
    /// A bar for each case, of the parts of a map.
    Stacked,
    /// A field of coloured cells for each case, from a matrix.
    Matrix,
}

/// Which of several sizes a chart against something else takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum At {
    /// Every size.
    #[default]
    Every,
    /// The largest size.
    Largest,
    /// A chart of cases without a size.
    Unsized,
    /// The one at which several backends meet that is nearest to 100 MB; no chart where there is none.
    Shared,
}

/// A chart of a section.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Chart {
    /// What its files are named after, in addition to the section.
    pub stem: String,
    /// What is drawn: `time`.
    pub title: String,
    /// What it draws.
    pub kind: ChartKind,
    /// Where the value across is; of a matrix, where the list of names for its rows is.
    pub x: String,
    /// What stands along the axis across; of a matrix, its rows.
    pub x_title: String,
    /// How the values across are written and spread: bytes in powers of two, all else step by step.
    pub x_format: Format,
    /// Where the value upwards is.
    pub y: String,
    /// Where the two ends of its interval are. A metric of the shape `rate` has the time's, turned over.
    pub ends: String,
    /// What stands along the axis upwards.
    pub y_title: String,
    /// How values upwards are written.
    pub y_format: Format,
    /// Whether the axis upwards is logarithmic.
    pub log: bool,
    /// Where the value of a ceiling is that the points stay below; empty: none.
    pub ceiling: String,
    /// Which of several sizes it takes.
    pub at: At,
}

impl Chart {
    /// Lines of a value over the ranks.
    pub fn over_ranks(stem: &str, title: &str, y: &str) -> Self {
        Self {
            stem: stem.to_owned(),
            title: title.to_owned(),
            x: "ranks".to_owned(),
            x_title: "ranks".to_owned(),
            x_format: Format::Count,
            y: y.to_owned(),
            y_title: title.to_owned(),
            y_format: Format::Number,
            ..Self::default()
        }
    }
}
