//! Interpolation between measured times: the logarithm of seconds per unit of work, over the logarithms of sizes. It changes
//! slowly with size, where time itself grows by factors.

/// Measured points: places, and the logarithm of seconds per unit of work.
#[derive(Clone, Debug, Default)]
pub(super) struct Points {
    points: Vec<(Vec<f64>, f64)>,
}

/// Points that decide together.
const NEAREST: usize = 16;
/// Points nearer than this, a factor of 1.35, count about alike: however near it is, a point has an error of its own.
const NEAR: f64 = 0.3;
/// Places that are closer than this are the same.
const SAME: f64 = 1e-6;

impl Points {
    /// Adds a point.
    pub(super) fn add(&mut self, place: Vec<f64>, rate: f64) {
        self.points.push((place, rate.ln()));
    }

    /// Seconds per unit of work at this place: those measured at a measured point, and those of the nearest beyond all.
    pub(super) fn at(&self, at: &[f64]) -> f64 {
        if let Some(rate) = self.on_a_line(at) {
            return rate.exp();
        }
        let mut near: Vec<(f64, f64)> = self.points.iter().map(|(other, rate)| (distance(at, other), *rate)).collect();
        near.sort_by(|a, b| a.0.total_cmp(&b.0));
        near.truncate(NEAREST);
        if let Some((_, rate)) = near.first().filter(|(distance, _)| *distance < SAME) {
            return rate.exp();
        }
        let mut sums = (0.0, 0.0);
        for (distance, rate) in near {
            let weight = 1.0 / (distance * distance + NEAR * NEAR);
            sums = (sums.0 + weight * rate, sums.1 + weight);
        }
        if sums.1 > 0.0 { (sums.0 / sums.1).exp() } else { 1.0 }
    }

    /// Where points differ in one size only, that in between is on the line between the two neighbours.
    fn on_a_line(&self, at: &[f64]) -> Option<f64> {
        let (first, _) = self.points.first()?;
        let differs = |size: &usize| self.points.iter().any(|(other, _)| other.get(*size) != first.get(*size));
        let mut varying = (0..first.len()).filter(differs);
        let (axis, None) = (varying.next().unwrap_or(0), varying.next()) else { return None };
        let x = *at.get(axis)?;
        let mut line: Vec<(f64, f64)> = self.points.iter().map(|(other, rate)| (other[axis], *rate)).collect();
        line.sort_by(|a, b| a.0.total_cmp(&b.0));
        let above = line.iter().position(|point| point.0 >= x);
        Some(match above {
            Some(0) => line[0].1,
            None => line[line.len() - 1].1,
            Some(above) => {
                let ((low, from), (high, to)) = (line[above - 1], line[above]);
                if high > low { from + (x - low) / (high - low) * (to - from) } else { to }
            }
        })
    }
}

/// The place of sizes. Zero is a size, too: a flag.
pub(super) fn logarithms(dims: &[u64]) -> Vec<f64> {
    dims.iter().map(|size| (*size as f64 + 1.0).ln()).collect()
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    if a.len() != b.len() {
        return f64::MAX;
    }
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measured_point_is_met_and_a_line_is_followed() {
        let mut points = Points::default();
        points.add(logarithms(&[999]), 1.0);
        points.add(logarithms(&[99_999]), 4.0);
        let on_line = |size: u64| points.at(&logarithms(&[size]));
        assert!((on_line(999) - 1.0).abs() < 1e-9 && (on_line(99_999) - 4.0).abs() < 1e-9);
        assert!((on_line(9_999) - 2.0).abs() < 1e-9, "half way on both scales");
        assert_eq!((on_line(1), on_line(1 << 40)), (on_line(999), on_line(99_999)));
        let mut plane = Points::default();
        for (dims, rate) in [([10, 10], 1.0), ([10, 1000], 2.0), ([1000, 10], 3.0), ([1000, 1000], 6.0)] {
            plane.add(logarithms(&dims), rate);
        }
        assert!((plane.at(&logarithms(&[1000, 10])) - 3.0).abs() < 1e-4);
        let between = plane.at(&logarithms(&[100, 100]));
        assert!(between > 1.5 && between < 4.0, "{between}");
    }

    #[test]
    fn one_disturbed_point_does_not_decide_alone() {
        let mut points = Points::default();
        for place in [[-0.4, 0.0], [0.4, 0.0], [0.0, -0.4], [0.0, 0.4]] {
            points.add(place.to_vec(), 1.0);
        }
        points.add(vec![0.05, 0.0], 1.5);
        let beside = points.at(&[0.0, 0.0]);
        assert!(beside > 1.0 && beside < 1.25, "{beside}");
        assert!((points.at(&[0.05, 0.0]) - 1.5).abs() < 1e-9, "a measured point is met");
    }
}
