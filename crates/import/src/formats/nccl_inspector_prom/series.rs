//! Lines in Prometheus's text format: `metric{label="value",...} 34.2887`.

use crate::Source;
use crate::formats::nccl::plain;
use crate::numbers;

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Is {
    /// Mean time of a call, in us.
    Time,
    /// Bus bandwidth in GB/s of 1e9.
    Busbw,
    Count,
    Min,
    Max,
    P50,
    P95,
    P99,
    /// The metric follows from the others.
    Follows,
}

/// The metrics, of collectives and of transfers between two ranks. Versions before 5.1 had the bandwidth of the
/// algorithm, too; later ones count calls and have percentiles.
const METRICS: &[(&str, Is)] = &[
    ("nccl_collective_exec_time_microseconds", Is::Time),
    ("nccl_p2p_exec_time_microseconds", Is::Time),
    ("nccl_bus_bandwidth_gbs", Is::Busbw),
    ("nccl_p2p_bus_bandwidth_gbs", Is::Busbw),
    ("nccl_algorithm_bandwidth_gbs", Is::Follows),
    ("nccl_collective_count", Is::Count),
    ("nccl_p2p_count", Is::Count),
    ("nccl_collective_exec_time_sum_microseconds", Is::Follows),
    ("nccl_p2p_exec_time_sum_microseconds", Is::Follows),
    ("nccl_collective_exec_time_min_microseconds", Is::Min),
    ("nccl_p2p_exec_time_min_microseconds", Is::Min),
    ("nccl_collective_exec_time_max_microseconds", Is::Max),
    ("nccl_p2p_exec_time_max_microseconds", Is::Max),
    ("nccl_collective_exec_time_p50_microseconds", Is::P50),
    ("nccl_p2p_exec_time_p50_microseconds", Is::P50),
    ("nccl_collective_exec_time_p95_microseconds", Is::P95),
    ("nccl_p2p_exec_time_p95_microseconds", Is::P95),
    ("nccl_collective_exec_time_p99_microseconds", Is::P99),
    ("nccl_p2p_exec_time_p99_microseconds", Is::P99),
];

/// What a metric is, by its name.
pub(super) fn role(metric: &str) -> Option<Is> {
    METRICS.iter().find(|(name, _)| *name == metric).map(|(_, is)| *is)
}

/// Labels of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LineLabels {
    /// The labels as written: the same in all lines of one series of calls.
    pub(super) text: String,
    pairs: Vec<(String, String)>,
}

impl LineLabels {
    /// The value of a label.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample<'l> {
    pub(super) metric: &'l str,
    pub(super) labels: LineLabels,
    pub(super) value: f64,
}

/// Whether a line is one of NCCL Inspector's.
pub(super) fn is_one(text: &str) -> bool {
    text.trim_start().split_once('{').is_some_and(|(metric, _)| role(metric.trim()).is_some())
}

/// The length of lines that are cut: where lines end within their labels, longer ones end in the same column.
pub(super) fn cut_at(source: &Source) -> Option<usize> {
    let is_open = |text: &&str| is_one(text) && pairs(text.split_once('{').map_or("", |(_, rest)| rest)).is_err();
    source.lines().map(|line| line.text).filter(is_open).map(str::len).max()
}

/// Reads a line.
pub(super) fn sample(text: &str, cut_at: Option<usize>) -> Result<Sample<'_>, String> {
    let (metric, rest) = text.trim_start().split_once('{').ok_or("expected labels in braces")?;
    let (pairs, rest) = pairs(rest)?;
    if cut_at == Some(text.len()) {
        return Err("the line ends where others are cut, so its number may be cut".to_owned());
    }
    let labels = rest.0;
    let words: Vec<&str> = rest.1.split_ascii_whitespace().collect();
    // A second number is the time in ms.
    let value = match words[..] {
        [value] => value,
        [value, time] if time.parse::<i64>().is_ok() => value,
        _ => return Err(format!("expected one number behind the labels, found {}", words.len())),
    };
    let number = numbers::plain(value).map_err(|why| format!("expected a number, {}", why.found(value)))?;
    if number < 0.0 {
        return Err(format!("expected a number from 0, found `{}`", plain(value)));
    }
    Ok(Sample { metric: metric.trim(), labels: LineLabels { text: labels.to_owned(), pairs }, value: number })
}

type LabelPairs = Vec<(String, String)>;

/// The labels of a line from behind its brace, and the text of them and behind them.
fn pairs(text: &str) -> Result<(LabelPairs, (&str, &str)), String> {
    let cut = || "the line is cut: its labels have no end".to_owned();
    let mut pairs = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', ',']);
        if let Some(behind) = rest.strip_prefix('}') {
            let labels = &text[..text.len() - rest.len()];
            return Ok((pairs, (labels, behind)));
        }
        let (name, behind) = rest.split_once("=\"").ok_or_else(cut)?;
        let mut value = String::new();
        let mut letters = behind.char_indices();
        let end = loop {
            match letters.next().ok_or_else(cut)? {
                (at, '"') => break at,
                (_, '\\') => value.extend(letters.next().map(|(_, letter)| if letter == 'n' { ' ' } else { letter })),
                (_, letter) => value.push(letter),
            }
        };
        pairs.push((name.trim().to_owned(), value));
        rest = &behind[end + 1..];
    }
}

/// Whether a text is a range of sizes: `0B`, `134-135MB`.
pub(super) fn is_range(text: &str) -> bool {
    let Some((low, high)) = text.split_once('-') else { return text == "0B" };
    let digits = high.len() - high.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
    let (high, unit) = high.split_at(digits);
    let bounds = (low.parse::<u32>(), high.parse::<u32>());
    matches!(bounds, (Ok(low), Ok(high)) if low < high) && ["B", "KB", "MB", "GB", "TB"].contains(&unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_have_any_text() {
        let text = "nccl_bus_bandwidth_gbs{version=\"v5.1\", comm_name=\"a, {b}=\\\"c\\\"\",} 1.5e+02 1700000000000";
        let sample = sample(text, None).unwrap();
        assert_eq!((sample.metric, sample.value), ("nccl_bus_bandwidth_gbs", 150.0));
        assert_eq!(sample.labels.get("comm_name"), Some("a, {b}=\"c\""));
    }

    #[test]
    fn ranges_are_those_of_the_plugin() {
        for (text, expected) in
            [("0B", true), ("1-2MB", true), ("134-135MB", true), ("1-2", false), ("2-1MB", false), ("4MB", false)]
        {
            assert_eq!(is_range(text), expected, "{text}");
        }
    }
}
