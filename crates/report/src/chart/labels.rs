//! Where labels stand, so that none covers another.

/// Moves `wanted` positions apart to at least `gap`, within `[top, bottom]`, as little as possible in the sense of least
/// squares, keeping their order: each run of labels in conflict becomes a block around the mean of what its members
/// wanted (pool adjacent violators). Positions come back in the order of `wanted`.
///
/// The caller makes sure that all fit: `(n - 1) * gap <= bottom - top`.
pub(crate) fn spread(wanted: &[f64], gap: f64, [top, bottom]: [f64; 2]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]));
    // Subtracting each label's share of the gaps turns "at least a gap apart" into "not descending".
    let mut blocks: Vec<(f64, usize)> = Vec::new();
    for (place, index) in order.iter().enumerate() {
        blocks.push((wanted[*index] - place as f64 * gap, 1));
        while let [.., (before, n), (after, m)] = blocks[..] {
            if before <= after {
                break;
            }
            blocks.truncate(blocks.len() - 2);
            blocks.push(((before * n as f64 + after * m as f64) / (n + m) as f64, n + m));
        }
    }
    let highest = bottom - wanted.len().saturating_sub(1) as f64 * gap;
    let flattened = blocks.iter().flat_map(|(mean, n)| std::iter::repeat_n(mean.clamp(top, highest.max(top)), *n));
    let mut placed = vec![0.0; wanted.len()];
    for ((place, index), mean) in order.iter().enumerate().zip(flattened) {
        placed[*index] = mean + place as f64 * gap;
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_apart_and_in_order() {
        assert_eq!(spread(&[10.0, 50.0], 10.0, [0.0, 100.0]), [10.0, 50.0]);
        assert_eq!(spread(&[50.0, 50.0], 10.0, [0.0, 100.0]), [45.0, 55.0]);
        assert_eq!(spread(&[50.0, 49.0, 51.0], 10.0, [0.0, 100.0]), [50.0, 40.0, 60.0]);
        assert_eq!(spread(&[99.0, 99.0], 10.0, [0.0, 100.0]), [90.0, 100.0]);
        assert_eq!(spread(&[-5.0], 10.0, [0.0, 100.0]), [0.0]);
        assert!(spread(&[], 10.0, [0.0, 100.0]).is_empty());
    }
}
