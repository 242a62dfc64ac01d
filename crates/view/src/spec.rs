//! What a chart shows, without how it is drawn.

/// A chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChartSpec {
    /// What is shown (`all_reduce: time against bytes`).
    pub title: String,
    /// What holds for all of it (`shm, f32, sum`).
    pub subtitle: String,
    /// A warning across the top: simulated, paced or injected data.
    pub banner: Option<String>,
    /// How to read it, below the axis.
    pub note: String,
    /// Where the numbers come from, below the note, a line each: machine, date, software, launcher, trials.
    pub origin: Vec<String>,
    /// Across.
    pub x: Axis,
    /// Up.
    pub y: Axis,
    /// What was measured.
    pub series: Vec<Series>,
    /// What limits it.
    pub references: Vec<Reference>,
    /// Parts of a whole, in bars from zero: the first at the bottom.
    pub stacks: Vec<Stack>,
    /// Marks across the bars.
    pub marks: Vec<Mark>,
    /// Whether the points of a series stand alone, without a line between them.
    pub scattered: bool,
    /// Cells coloured by their value; the axes then only have titles.
    pub matrix: Option<Matrix>,
    /// Spans of time in rows. The axis across is the time, and the title of the other one says what a row is.
    pub lanes: Option<Lanes>,
    /// Terms that lead from one value to another. The axis across has their values.
    pub waterfall: Option<Waterfall>,
    /// What the values across mean where they are words: the value `n` of an axis of steps is the entry `n`. Empty: numbers.
    pub names: Vec<String>,
}

/// Spans of time, one row a rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lanes {
    /// What spans may be.
    pub kinds: Vec<SpanKind>,
    /// The rows, the first on top.
    pub rows: Vec<Lane>,
}

/// What spans may be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpanKind {
    /// Its label.
    pub label: String,
    /// Which colour.
    pub style: usize,
    /// Whether it is time in which nothing is done: drawn hatched and without a colour.
    pub stall: bool,
}

/// One row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lane {
    /// What stands before it.
    pub label: String,
    /// Its spans.
    pub spans: Vec<Span>,
}

/// A span of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// When it begins, in seconds.
    pub begin: f64,
    /// When it ends.
    pub end: f64,
    /// Its place in the list of kinds.
    pub kind: usize,
}

/// How one value becomes another: a bar from zero, terms that each begin where the one before ends, a bar from zero.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Waterfall {
    /// The value at the beginning.
    pub from: Term,
    /// What is added to it, or taken away.
    pub terms: Vec<Term>,
    /// The value at the end.
    pub to: Term,
}

/// A value of a waterfall with its label.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Term {
    /// Its label.
    pub label: String,
    /// Its value.
    pub value: f64,
}

/// Rows of numbers, drawn as coloured cells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Matrix {
    /// What stands before each row.
    pub rows: Vec<String>,
    /// What stands above each column.
    pub columns: Vec<String>,
    /// A row of values each; one that is not finite is an empty cell.
    pub values: Vec<Vec<f64>>,
    /// What the values are.
    pub quantity: Quantity,
}

/// What a whole bar is compared with.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// Its label.
    pub label: String,
    /// What it may be at most, rather than what was measured.
    pub limit: bool,
    /// `[x, y]`, ascending in x.
    pub points: Vec<[f64; 2]>,
}

/// One part of every bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Stack {
    /// Its label.
    pub label: String,
    /// Which colour.
    pub style: usize,
    /// `[x, height]`, ascending in x.
    pub bars: Vec<[f64; 2]>,
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// What it shows; the unit stands on the ticks or, for a quantity without a unit of its own, in the title.
    pub title: String,
    /// What its values are.
    pub quantity: Quantity,
    /// How they are spread.
    pub scale: Scale,
}

/// What the values of an axis are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Quantity {
    /// Bytes; ticks are powers of two.
    Bytes,
    /// Seconds.
    Seconds,
    /// GB/s (1e9 bytes a second).
    Bandwidth,
    /// A whole number, such as ranks.
    #[default]
    Count,
    /// Any number, with three significant digits.
    Number,
    /// A share of a whole, shown as per cent.
    Share,
}

/// How the values of an axis are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Logarithmic; values that are not positive cannot be shown and are left out.
    Log,
    /// Linear from zero.
    #[default]
    FromZero,
    /// Linear around the data.
    Linear,
    /// Each value that occurs, at equal distances.
    Steps,
}

/// A series of points, ascending in `x`.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its label.
    pub label: String,
    /// Which colour and marker: equal numbers look alike in all charts of a report.
    pub style: usize,
    /// Its points.
    pub points: Vec<Point>,
}

/// A value with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Across.
    pub x: f64,
    /// Up.
    pub y: f64,
    /// Lower end of the interval of `y`.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// More ranks than cores: the marker is hollow.
    pub oversubscribed: bool,
}

/// A line that the data is compared with.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    /// Its label.
    pub label: String,
    /// The style of the series that it belongs to; None: of all.
    pub style: Option<usize>,
    /// `[x, y]`, ascending in x.
    pub points: Vec<[f64; 2]>,
}
