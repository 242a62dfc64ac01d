//! Interpolation between measured times: the logarithm of seconds per unit of work, over the logarithms of sizes. It changes
//! slowly with size, where time itself grows by factors.

/// Measured points: sizes, and the logarithm of seconds per unit of work.
#[derive(Clone, Debug, Default)]
pub(super) struct Points {
    points: Vec<(Vec<f64>, f64)>,
}

/// Points that decide together.
const NEAREST: usize = 8;

impl Points {
    /// Adds a point.
    pub(super) fn add(&mut self, dims: &[u64], rate: f64) {
        self.points.push((logarithms(dims), rate.ln()));
    }

    /// Seconds per unit of work at these sizes: those measured at a measured point, and those of the nearest beyond all.
    pub(super) fn at(&self, dims: &[u64]) -> f64 {
        let at = logarithms(dims);
        if let Some(rate) = self.on_a_line(&at) {
            return rate.exp();
        }
        let mut near: Vec<(f64, f64)> = self.points.iter().map(|(other, rate)| (distance(&at, other), *rate)).collect();
        near.sort_by(|a, b| a.0.total_cmp(&b.0));
        near.truncate(NEAREST);
        let mut sums = (0.0, 0.0);
        for (distance, rate) in near {
            // Squared distances: at a point only the point counts, and far away all count alike.
            let weight = 1.0 / (distance * distance + 1e-9);
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

    /// How far these sizes are from the nearest measured ones: the sum of the factors' logarithms.
    pub(super) fn distance(&self, dims: &[u64]) -> Option<f64> {
        let at = logarithms(dims);
        self.points.iter().map(|(other, _)| distance(&at, other)).min_by(f64::total_cmp)
    }
}

/// Zero is a size, too: a flag.
fn logarithms(dims: &[u64]) -> Vec<f64> {
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
        points.add(&[999], 1.0);
        points.add(&[99_999], 4.0);
        assert!((points.at(&[999]) - 1.0).abs() < 1e-9 && (points.at(&[99_999]) - 4.0).abs() < 1e-9);
        assert!((points.at(&[9_999]) - 2.0).abs() < 1e-9, "half way on both scales");
        assert_eq!((points.at(&[1]), points.at(&[1 << 40])), (points.at(&[999]), points.at(&[99_999])));
        let mut plane = Points::default();
        for (dims, rate) in [([10, 10], 1.0), ([10, 1000], 2.0), ([1000, 10], 3.0), ([1000, 1000], 6.0)] {
            plane.add(&dims, rate);
        }
        assert!((plane.at(&[1000, 10]) - 3.0).abs() < 1e-4);
        let between = plane.at(&[100, 100]);
        assert!(between > 1.5 && between < 4.0, "{between}");
        assert!(plane.distance(&[1000, 1000]).unwrap() < 1e-9 && Points::default().distance(&[1]).is_none());
    }
}
