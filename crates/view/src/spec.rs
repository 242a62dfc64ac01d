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
    /// Series that are not among these: no chart shows so many.
    pub left_out: usize,
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
    /// Label of the kind.
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
    /// Spans of the row.
    pub spans: Vec<Span>,
}

/// A span of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// When it begins, in seconds.
    pub begin: f64,
    /// When it ends.
    pub end: f64,
    /// Index of the span's kind in the list of kinds.
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
    /// Label of the value.
    pub label: String,
    /// The value itself.
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
    /// What the colours of the cells mean.
    pub shades: Shades,
}

/// What the colours of a matrix mean.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Shades {
    /// How much there is, from zero to the largest.
    #[default]
    Amount,
    /// How far a value is from what is neither good nor bad, as a ratio.
    Around {
        /// A cell of this value is grey.
        centre: f64,
        /// Whether more is better.
        higher_is_better: bool,
        /// Cells, by row and column, that are grey whatever their value: nothing is shown by it.
        grey: Vec<[usize; 2]>,
    },
}

/// Ratios to the centre that are not coloured: noise looks like this.
const ALIKE: f64 = 1.05;
/// The least ratio that has the full colour: where nothing is far from the centre, nothing is dark.
const FAR: f64 = 1.5;

impl Matrix {
    /// Colours around the median of the cells.
    pub fn around_median(self, higher_is_better: bool) -> Self {
        let all: Vec<f64> = self.positive().collect();
        if all.is_empty() {
            return self;
        }
        let shades = Shades::Around { centre: stats::median(&all), higher_is_better, grey: Vec::new() };
        Self { shades, ..self }
    }

    fn positive(&self) -> impl Iterator<Item = f64> {
        self.values.iter().flatten().copied().filter(|value| value.is_finite() && *value > 0.0)
    }

    /// How strongly each cell is coloured: from -1 (as good as it gets) over 0 (grey) to 1 (as bad as it gets, or the most).
    pub fn shares(&self) -> Vec<Vec<f64>> {
        let most = self.positive().fold(0.0, f64::max);
        let apart = |value: f64, centre: f64| if value > 0.0 { (value / centre).ln() } else { 0.0 };
        let span = |centre: f64| self.positive().map(|value| apart(value, centre).abs()).fold(FAR.ln(), f64::max);
        let share = |row: usize, column: usize, value: f64| match &self.shades {
            Shades::Amount if most > 0.0 => (value / most).clamp(0.0, 1.0),
            Shades::Amount => 0.0,
            Shades::Around { grey, .. } if grey.contains(&[row, column]) => 0.0,
            Shades::Around { centre, higher_is_better, .. } => {
                let apart = apart(value, *centre);
                let sign = if *higher_is_better { -1.0 } else { 1.0 };
                if apart.abs() < ALIKE.ln() { 0.0 } else { sign * apart / span(*centre) }
            }
        };
        let row = |(row, values): (usize, &Vec<f64>)| {
            values.iter().enumerate().map(|(column, value)| share(row, column, *value)).collect()
        };
        self.values.iter().enumerate().map(row).collect()
    }
}

/// What a whole bar is compared with.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// Label of the mark.
    pub label: String,
    /// What it may be at most, rather than what was measured.
    pub limit: bool,
    /// `[x, y]`, ascending in x.
    pub points: Vec<[f64; 2]>,
}

/// One part of every bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Stack {
    /// Label of the part.
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
    /// Label of the series.
    pub label: String,
    /// Which colour and marker: equal numbers look alike in all charts of a report.
    pub style: usize,
    /// Points of the series.
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
    /// Label of the line.
    pub label: String,
    /// The style of the series that it belongs to; None: of all.
    pub style: Option<usize>,
    /// `[x, y]`, ascending in x. A `y` that is not a number is a gap: there it is not known.
    pub points: Vec<[f64; 2]>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speedups(values: Vec<f64>, grey: Vec<[usize; 2]>) -> Vec<f64> {
        let shades = Shades::Around { centre: 1.0, higher_is_better: true, grey };
        Matrix { values: vec![values], shades, ..Matrix::default() }.shares().remove(0)
    }

    #[test]
    fn a_ratio_of_one_is_grey_and_the_sides_have_their_own_colours() {
        let shares = speedups(vec![0.99, 1.76, 0.5, f64::NAN], Vec::new());
        assert_eq!(shares[0], 0.0, "as fast as the other");
        assert!(shares[1] < -0.7 && shares[2] == 1.0, "{shares:?}");
        assert_eq!(
            speedups(vec![0.99, 1.02], Vec::new()),
            [0.0, 0.0],
            "nothing is far from one, so nothing has a colour"
        );
        assert_eq!(speedups(vec![1.76], vec![[0, 0]]), [0.0], "its interval holds one");
    }

    #[test]
    fn where_no_link_is_slow_all_are_grey() {
        let latencies = |slow: f64| {
            let values = vec![vec![f64::NAN, 1.02, slow], vec![1.02, f64::NAN, 1.0]];
            Matrix { values, ..Matrix::default() }.around_median(false).shares().concat()
        };
        assert!(latencies(1.04).iter().all(|share| *share == 0.0 || share.is_nan()));
        let slow = latencies(3.0);
        assert_eq!((slow[1], slow[2]), (0.0, 1.0));
    }

    #[test]
    fn amounts_begin_at_grey() {
        let shares = Matrix { values: vec![vec![0.0, 12.0, 24.0]], ..Matrix::default() }.shares();
        assert_eq!(shares, [[0.0, 0.5, 1.0]]);
    }
}
