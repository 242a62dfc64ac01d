//! Words that the terminal and the page share.

/// Text of a record, which somebody else may have written, without control characters.
pub(super) fn plain(text: &str) -> String {
    view::one_line(text)
}

/// `2026-11-24 10:15`.
pub(super) fn date(started: jiff::Timestamp) -> String {
    started.strftime("%Y-%m-%d %H:%M").to_string()
}

/// What the user calls a run, else its plan's name.
pub(super) fn run_name(run: &diagnose::history::Run) -> String {
    plain(run.labels.name.as_ref().unwrap_or(&run.experiment))
}

/// `+12%`, `-3.1%`.
pub(super) fn signed(ratio: f64) -> String {
    format!("{}{}", if ratio < 1.0 { "" } else { "+" }, view::number::percent(ratio - 1.0))
}

/// `±3.1%`; empty below five runs.
pub(super) fn band(series: &diagnose::history::Series) -> String {
    series.noise.map_or(String::new(), |noise| format!("±{}", view::number::percent(noise.band())))
}
