//! A matrix as lines of text.

use crate::number::{NONE, three_digits};
use crate::{ChartSpec, Matrix};

/// More columns are not read in a terminal: the chart shows them.
const COLUMNS: usize = 16;

/// The matrix of a chart in rows of aligned numbers, below its title; nothing where it is wider than `width` characters.
pub fn matrix_lines(spec: &ChartSpec, width: usize) -> Vec<String> {
    let Some(Matrix { rows, columns, values, .. }) = &spec.matrix else { return Vec::new() };
    let cell = |value: &f64| if value.is_finite() { three_digits(*value) } else { NONE.to_owned() };
    let cells: Vec<Vec<String>> = values.iter().map(|row| row.iter().map(cell).collect()).collect();
    let all = cells.iter().flatten().chain(columns).map(|text| text.chars().count());
    let wide = all.max().unwrap_or(0) + 2;
    let head = rows.iter().map(|text| text.chars().count()).max().unwrap_or(0) + 2;
    if columns.len() > COLUMNS || head + wide * columns.len() > width {
        return Vec::new();
    }
    let line = |name: &str, cells: &[String]| {
        let cells: String = cells.iter().map(|cell| format!("{cell:>wide$}")).collect();
        format!("{name:>head$}{cells}")
    };
    let mut lines =
        vec![[spec.title.as_str(), spec.subtitle.as_str()].join(if spec.subtitle.is_empty() { "" } else { "  " })];
    lines.push(line("", columns));
    lines.extend(rows.iter().zip(&cells).map(|(name, cells)| line(name, cells)));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Quantity;

    #[test]
    fn numbers_are_aligned_and_a_wide_matrix_is_left_to_its_chart() {
        let matrix = Matrix {
            rows: vec!["0".into(), "1".into()],
            columns: vec!["0".into(), "1".into()],
            values: vec![vec![f64::NAN, 1.25], vec![12.5, f64::NAN]],
            quantity: Quantity::Number,
            ..Matrix::default()
        };
        let spec = ChartSpec { title: "latency".into(), matrix: Some(matrix), ..ChartSpec::default() };
        assert_eq!(matrix_lines(&spec, 80), ["latency", "        0     1", "  0     -  1.25", "  1  12.5     -"]);
        assert!(matrix_lines(&spec, 10).is_empty());
        assert!(matrix_lines(&ChartSpec::default(), 80).is_empty());
    }
}
