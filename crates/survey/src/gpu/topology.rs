//! The row of the links between GPUs, with their matrix below it.

use serde_json::Value;

use crate::Finding;

/// The row of a matrix as NVML's child gives it; None where it cannot be read.
pub(super) fn row(links: &Value) -> Option<Finding> {
    let numbers: Vec<u64> = list(links.get("gpus")?, Value::as_u64)?;
    let cells = list(links.get("matrix")?, |line| list(line, |cell| Some(cell.as_str()?.to_owned())))?;
    if cells.len() != numbers.len() || cells.iter().any(|line| line.len() != numbers.len()) {
        return None;
    }
    let found = summary(&cells);
    let names = || numbers.iter().map(|number| format!("GPU{number}"));
    let head = std::iter::once(String::new()).chain(names()).collect();
    let lines = names().zip(cells).map(|(name, line)| std::iter::once(name).chain(line).collect());
    let table = std::iter::once(head).chain(lines).collect();
    Some(Finding::ready("GPU links", found).table(table).details(links.clone()))
}

fn list<T>(value: &Value, of: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    value.as_array()?.iter().map(of).collect()
}

/// `NV18 between all 8 GPUs`, or how many pairs have each kind of link.
fn summary(cells: &[Vec<String>]) -> String {
    let mut kinds: Vec<(&str, usize)> = Vec::new();
    for (at, line) in cells.iter().enumerate() {
        for cell in line.iter().skip(at + 1) {
            match kinds.iter_mut().find(|(kind, _)| kind == cell) {
                Some((_, pairs)) => *pairs += 1,
                None => kinds.push((cell, 1)),
            }
        }
    }
    if let [(kind, _)] = kinds.as_slice() {
        return format!("{kind} between all {} GPUs", cells.len());
    }
    let pairs = kinds
        .iter()
        .map(|(kind, pairs)| format!("{kind} between {pairs} {}", if *pairs == 1 { "pair" } else { "pairs" }));
    pairs.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_matrix_is_summed_up_and_shown() {
        let same = row(&json!({"gpus": [0, 1], "matrix": [["X", "NV18"], ["NV18", "X"]]})).unwrap();
        assert_eq!(same.found, "NV18 between all 2 GPUs");
        let mixed = json!({"gpus": [0, 1, 4],
                           "matrix": [["X", "NV4", "SYS"], ["NV4", "X", "SYS"], ["SYS", "SYS", "X"]]});
        let row = row(&mixed).unwrap();
        assert_eq!(row.found, "NV4 between 1 pair, SYS between 2 pairs");
        assert_eq!(row.table[0], ["", "GPU0", "GPU1", "GPU4"]);
        assert_eq!(row.table[3], ["GPU4", "SYS", "SYS", "X"]);
        assert_eq!(row.details, Some(mixed));
    }

    #[test]
    fn a_matrix_that_cannot_be_read_is_left_out() {
        for links in [json!({}), json!({"gpus": [0, 1], "matrix": [["X"]]}), json!({"gpus": [0], "matrix": [[1]]})] {
            assert_eq!(row(&links), None, "{links}");
        }
    }
}
