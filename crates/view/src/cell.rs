//! Values of case lines by their source, and the text of a cell.

use record::CaseLine;
use record::show::{Column, Format, PRINTED_INTERVAL};
use serde_json::Value;
use terms::Named;

use crate::into_one_line;
use crate::number::{bounded, bytes, percent, seconds, thousands, three_digits, width};

/// The value at a source: a member of the line, a metric or something inside one, or a parameter. Of sources with `|`
/// between them, the first that has a value.
pub fn value_at(line: &CaseLine, source: &str) -> Option<Value> {
    source.split('|').find_map(|source| value_of(line, source))
}

fn value_of(line: &CaseLine, source: &str) -> Option<Value> {
    let (first, rest) = source.split_once('.').unwrap_or((source, ""));
    let time = |part: &str| {
        let time = line.time_s.as_ref()?;
        match part {
            "median" => Some(Value::from(time.median)),
            "mean" => time.mean.map(Value::from),
            "p50" => time.p50.map(Value::from),
            "p99" => time.p99.map(Value::from),
            "p999" => time.p999.map(Value::from),
            "ci95" => Some(Value::from(time.ci95?.to_vec())),
            "ci95_again" => Some(Value::from(time.ci95_again?.to_vec())),
            "ci95_earlier" => Some(Value::from(time.ci95_earlier?.to_vec())),
            _ => None,
        }
    };
    match first {
        "ranks" => Some(Value::from(line.ranks)),
        "bytes" => line.bytes.map(Value::from),
        "dtype" => line.dtype.clone().map(Value::from),
        "mode" => Some(Value::from(line.mode.to_string())),
        "device" => Some(Value::from(line.device.clone())),
        "wrong" => line.wrong.map(Value::from),
        "time_s" => time(rest),
        _ => inside(line.metrics.get(first).or_else(|| line.parameters.get(first))?, rest).cloned(),
    }
}

fn inside<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').filter(|part| !part.is_empty()).try_fold(value, |value, part| value.get(part))
}

/// The finite number at a source; the `value` of an interval.
pub fn number_at(line: &CaseLine, source: &str) -> Option<f64> {
    let value = value_at(line, source)?;
    let number = value.as_f64().or_else(|| value.get("value")?.as_f64())?;
    number.is_finite().then_some(number)
}

/// The two ends of an interval at a source.
pub fn ends(line: &CaseLine, source: &str) -> Option<[f64; 2]> {
    // Every row of a record has it: no list is made of it. Columns of earlier versions name the interval of the run's own span.
    if source == PRINTED_INTERVAL || source == "time_s.ci95" {
        let (ends, _) = line.time_s.as_ref()?.printed()?;
        return Some(ends).filter(|ends| ends.iter().all(|end| end.is_finite()));
    }
    let value = value_at(line, source)?;
    let value = value.get("ci95").unwrap_or(&value);
    let end = |place: usize| value.get(place)?.as_f64().filter(|end| end.is_finite());
    Some([end(0)?, end(1)?])
}

/// The text of a cell; None where the line has no such value.
pub fn shown(line: &CaseLine, column: &Column) -> Option<String> {
    if !column.only.is_empty() && column.only != line.mode.name() {
        return None;
    }
    let mid = || number_at(line, &column.source);
    let half = || {
        let [low, high] = ends(line, if column.ends.is_empty() { &column.source } else { &column.ends })?;
        Some((high - low) / 2.0)
    };
    let mut text = match column.format {
        Format::Word => match value_at(line, &column.source)? {
            Value::String(word) => into_one_line(word),
            other => into_one_line(other.to_string()),
        },
        Format::Switch => if value_at(line, &column.source)?.as_bool()? { "on" } else { "off" }.to_owned(),
        Format::Count => count(value_at(line, &column.source)?.as_u64()?),
        Format::Number => three_digits(mid()?),
        Format::Bytes => bytes(mid()? as u64),
        Format::Seconds => seconds(mid()?),
        Format::Share => percent(mid()?),
        Format::Bounded => bounded(mid()?),
        Format::Change => signed(mid()?),
        Format::Precision => width(half()? / mid().filter(|mid| *mid > 0.0)?),
        Format::FirstAndLast => {
            let value = value_at(line, &column.source)?;
            let items = value.as_array()?;
            let number = |item: Option<&Value>| Some(three_digits(item?.as_f64()?));
            format!("{}, {}", number(items.first())?, number(items.last())?)
        }
        Format::Each => each(value_at(line, &column.source)?.as_array()?)?,
    };
    if let Some(half) = matches!(column.format, Format::Share | Format::Bounded).then(half).flatten() {
        text += " ± ";
        text += &percent(half);
    }
    if let Some(Value::String(word)) =
        Some(&column.word).filter(|word| !word.is_empty()).and_then(|of| value_at(line, of))
    {
        text.push(' ');
        text += &into_one_line(word);
    }
    Some(text)
}

/// Numbers of a list that a cell has room for.
const EACH: usize = 8;

fn each(items: &[Value]) -> Option<String> {
    let numbers: Option<Vec<String>> = items.iter().take(EACH).map(|item| item.as_f64().map(three_digits)).collect();
    let more = items.len().saturating_sub(EACH);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    Some(numbers?.join(", ") + &more).filter(|text| !text.is_empty())
}

/// Exactly, with separators from five digits on: `2048` is a size that many know by heart.
fn count(number: u64) -> String {
    if number < 10_000 { number.to_string() } else { thousands(i64::try_from(number).unwrap_or(i64::MAX)) }
}

fn signed(value: f64) -> String {
    format!("{}{}", if value < 0.0 { "" } else { "+" }, percent(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn line(metrics: Value) -> CaseLine {
        let Value::Object(metrics) = metrics else { panic!("an object") };
        let line = json!({
            "schema": 1, "id": "0", "benchmark": "x", "parameters": {}, "status": "ok", "ranks": 4, "runtime": "native",
            "backend": "shm", "device": "cpu", "mode": "streaming", "bytes": 65_536, "caveats": [], "simulated": false,
        });
        CaseLine { metrics: metrics.into(), ..serde_json::from_value(line).unwrap() }
    }

    #[test]
    fn a_source_is_a_member_a_metric_or_a_parameter() {
        let mut line = line(json!({"mfu": {"headline": 0.5}, "scaling": {"value": 0.9, "ci95": [0.88, 0.92]}}));
        line.parameters.insert("mesh", json!("2x2x1"));
        assert_eq!(value_at(&line, "ranks"), Some(json!(4)));
        assert_eq!(number_at(&line, "mfu.headline"), Some(0.5));
        assert_eq!((number_at(&line, "scaling"), ends(&line, "scaling")), (Some(0.9), Some([0.88, 0.92])));
        assert_eq!(value_at(&line, "mesh"), Some(json!("2x2x1")));
        assert_eq!((value_at(&line, "mfu.other"), value_at(&line, "time_s.median")), (None, None));
    }

    #[test]
    fn cells_are_written_by_their_format() {
        let line = line(json!({
            "share": {"value": 0.9, "ci95": [0.88, 0.92], "word": "good"},
            "loss": [2.5, 2.0, 1.25], "off": -0.031, "many": 123_456, "on": true, "nan": "x",
        }));
        let shown = |source: &str, format| super::shown(&line, &Column::new("", source, format));
        assert_eq!(shown("share", Format::Share), Some("90% ± 2.0%".into()));
        let shares = [(0.9, "90%"), (1.04, "100%"), (1.51, ">100%")];
        assert!(shares.iter().all(|(share, text)| crate::number::bounded(*share) == *text));
        let word = Column::new("", "share", Format::Share).word("share.word");
        assert_eq!(super::shown(&line, &word), Some("90% ± 2.0% good".into()));
        assert_eq!(shown("loss", Format::FirstAndLast), Some("2.50, 1.25".into()));
        assert_eq!(shown("loss", Format::Each), Some("2.50, 2.00, 1.25".into()));
        assert_eq!(shown("off", Format::Change), Some("-3.1%".into()));
        assert_eq!(shown("many", Format::Count), Some("123,456".into()));
        assert_eq!(shown("on", Format::Switch), Some("on".into()));
        assert_eq!(shown("bytes", Format::Bytes), Some("64 KiB".into()));
        assert_eq!((shown("nan", Format::Number), shown("gone", Format::Word)), (None, None));
    }
}
