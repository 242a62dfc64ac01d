//! What of a case is compared: its time, or where that is not the thing (memory), the value that its benchmark declares.

use record::show::Format;
use record::{Better, CaseLine, Declared, Shape, SharedMap};

/// The unit that tells a metric which has nothing to do with time.
const BYTES: &str = "bytes";

/// What is compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantity {
    /// `time`, or the title of the column that shows it.
    pub name: String,
    /// How its values are written.
    pub format: Format,
    /// Whether more is better.
    pub better: Better,
    /// Where it is in the case line.
    source: String,
}

/// A value that sums a case up, on both sides: for reading, not for the verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// The metric.
    pub name: String,
    /// Unit of the metric.
    pub unit: String,
    /// In the base.
    pub base: f64,
    /// In the new record.
    pub new: f64,
}

impl Quantity {
    fn time() -> Self {
        let (name, source) = ("time".to_owned(), "time_s".to_owned());
        Self { name, format: Format::Seconds, better: Better::Lower, source }
    }

    /// Whether it is the time. Every trial has a time, and only a run has another value.
    pub fn is_time(&self) -> bool {
        self.source == "time_s"
    }

    /// What a benchmark is compared by.
    pub(super) fn from_declared(declared: Option<&Declared>) -> Self {
        let Some(declared) = declared else { return Self::time() };
        let first = declared.show.headline.first();
        let metric = first.and_then(|name| declared.metrics.iter().find(|metric| metric.name == *name));
        let Some(metric) = metric.filter(|metric| metric.unit == BYTES) else { return Self::time() };
        let inside = format!("{}.", metric.name);
        let columns = declared.show.tables.first().map_or(&[][..], |table| &table.columns);
        let own = |source: &str| source == metric.name || source.starts_with(&inside);
        // The last one is the result; those before it are its parts, and what was predicted.
        match columns.iter().rfind(|column| column.format == Format::Bytes && own(&column.source)) {
            Some(column) => Self {
                name: format!("{} ({})", metric.name, column.title),
                format: Format::Bytes,
                better: metric.better,
                source: column.source.clone(),
            },
            None => Self::time(),
        }
    }

    /// Value of the quantity in a case line, where it is a positive number.
    pub(super) fn value(&self, line: &CaseLine) -> Option<f64> {
        let value = match self.is_time() {
            true => line.time_s.as_ref().map(|time| time.median),
            false => inside(&line.metrics, &self.source),
        };
        value.filter(|value| value.is_finite() && *value > 0.0)
    }
}

fn inside(metrics: &SharedMap, path: &str) -> Option<f64> {
    let mut parts = path.split('.');
    let first = metrics.get(parts.next()?)?;
    parts.try_fold(first, |value, part| value.get(part))?.as_f64()
}

/// The first metric of a benchmark's headline that both lines have as one number.
pub(super) fn headline(declared: Option<&Declared>, base: &CaseLine, new: &CaseLine) -> Option<Shown> {
    let declared = declared?;
    declared.show.headline.iter().find_map(|name| {
        let metric = declared.metrics.iter().find(|metric| metric.name == *name)?;
        let number = |line: &CaseLine| {
            let value = line.metrics.get(name)?;
            let number = if metric.shape == Shape::Interval { value.get("value")?.as_f64() } else { value.as_f64() };
            number.filter(|number| number.is_finite())
        };
        Some(Shown { name: name.clone(), unit: metric.unit.clone(), base: number(base)?, new: number(new)? })
    })
}
