//! Curves of time over size that choose their own sizes: the middle of two is measured where the line between their neighbours
//! does not meet them. Caches make cliffs that no fixed list of sizes would hit.

use contract::Study;
use record::{About, Case, CaseLine, SharedMap};
use terms::Status;

use super::fields::Fields;

/// A line between two sizes is met where it is off by less than this.
const MET: f64 = 0.03;
/// Sizes that are closer than this factor are not divided again.
const CLOSEST: f64 = 1.25;
/// Sizes between others are multiples of so many bytes: whole elements of each rank's part, and whole cache lines.
const GRAIN: u64 = 64;

/// A curve: cases that differ in their sizes only.
struct Curve {
    /// A case of it. Its size is varied.
    pattern: Case,
    /// The identity of its cases without their sizes.
    id: String,
    /// Sizes at most.
    most: usize,
    grain: u64,
    about: &'static About,
}

/// All curves of a plan that choose sizes.
pub(super) struct Curves(Vec<Curve>);

impl Curves {
    /// A curve for each group of cases that differ in nothing but the size, and ask for it. Groups that run alone are compared with
    /// those at once: they have the same sizes already.
    pub(super) fn for_cases(cases: &[&Case], about: &'static About) -> Option<Self> {
        let mut curves: Vec<Curve> = Vec::new();
        for case in cases {
            let Ok(fields) = Fields::of(*case) else { continue };
            let Some(most) = fields.refine.filter(|_| fields.alone.is_none() && case.skip.is_none()) else { continue };
            let id = without_size(&case.benchmark, &case.parameters, about);
            if !curves.iter().any(|curve| curve.id == id) {
                let grain = GRAIN * u64::from(fields.ranks_of_a_call());
                curves.push(Curve { pattern: (*case).clone(), id, most: most as usize, grain, about });
            }
        }
        (!curves.is_empty()).then_some(Self(curves))
    }
}

/// The identity of a case whatever its size.
fn without_size(benchmark: &str, parameters: &SharedMap, about: &About) -> String {
    let mut case = Case::new(benchmark, parameters.clone());
    case.parameters.shift_remove("bytes");
    case.identify(about);
    case.id
}

impl Curve {
    fn next(&self, done: &[CaseLine]) -> Option<Case> {
        let own = |line: &&CaseLine| {
            line.benchmark == self.pattern.benchmark
                && without_size(&line.benchmark, &line.parameters, self.about) == self.id
        };
        let point = |line: &CaseLine| Some((line.bytes?, line.time_s.as_ref()?.median));
        let lines: Vec<&CaseLine> = done.iter().filter(own).collect();
        // A size that cannot be measured is not asked for again.
        if lines.iter().any(|line| line.status != Status::Ok) || lines.len() >= self.most {
            return None;
        }
        let mut points: Vec<(u64, f64)> = lines.into_iter().filter_map(point).collect();
        points.sort_by_key(|(bytes, _)| *bytes);
        let bytes = next_size(&points, self.grain)?;
        let mut case = self.pattern.clone();
        case.parameters.insert("bytes", bytes.into());
        (case.bytes_requested, case.skip) = (None, None);
        case.identify(self.about);
        Some(case)
    }
}

impl Study for Curves {
    fn next(&mut self, done: &[CaseLine]) -> Vec<Case> {
        self.0.iter().filter_map(|curve| curve.next(done)).collect()
    }
}

/// The size that tells most of a curve whose points are ordered by size; None where the lines between them are met.
///
/// How far a line is off between two points is judged by how far each of them is off the line between its own neighbours, in
/// logarithms. What is wide and off counts most: there lie most of the sizes that are asked for later.
pub(super) fn next_size(points: &[(u64, f64)], grain: u64) -> Option<u64> {
    let misses: Vec<f64> = (0..points.len()).map(|at| miss(points, at)).collect();
    let mut best: Option<(f64, u64)> = None;
    for (at, pair) in points.windows(2).enumerate() {
        let ([(low, _), (high, _)], off) = ([pair[0], pair[1]], misses[at].max(misses[at + 1]));
        let width = (high as f64 / low.max(1) as f64).ln();
        let middle = ((low.max(1) as f64 * high as f64).sqrt() as u64).next_multiple_of(grain);
        if off < MET || width < CLOSEST.ln() || middle <= low || middle >= high {
            continue;
        }
        if best.is_none_or(|(score, _)| off * width > score) {
            best = Some((off * width, middle));
        }
    }
    best.map(|(_, middle)| middle)
}

/// How far a point is off the line between its neighbours, in logarithms; 0 at the ends.
fn miss(points: &[(u64, f64)], at: usize) -> f64 {
    let Some([before, own, after]) = at.checked_sub(1).and_then(|first| points.get(first..first + 3)) else {
        return 0.0;
    };
    let size = |point: &(u64, f64)| (point.0.max(1) as f64).ln();
    let share = (size(own) - size(before)) / (size(after) - size(before));
    (own.1.ln() - before.1.ln() - share * (after.1.ln() - before.1.ln())).abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chooses sizes of a curve until it needs no more, or has so many.
    fn chosen(first: &[u64], most: usize, time: impl Fn(u64) -> f64) -> Vec<(u64, f64)> {
        let mut points: Vec<(u64, f64)> = first.iter().map(|bytes| (*bytes, time(*bytes))).collect();
        while points.len() < most {
            let Some(bytes) = next_size(&points, 128) else { break };
            points.push((bytes, time(bytes)));
            points.sort_by_key(|(bytes, _)| *bytes);
        }
        points
    }

    fn between(points: &[(u64, f64)], bytes: u64) -> f64 {
        let above = points.iter().position(|(size, _)| *size >= bytes).unwrap().max(1);
        let [(low, a), (high, b)] = [points[above - 1], points[above]];
        let share = (bytes as f64 / low as f64).ln() / (high as f64 / low as f64).ln();
        (a.ln() + share * (b / a).ln()).exp()
    }

    const FIRST: [u64; 7] = [256, 2048, 16 << 10, 128 << 10, 1 << 20, 8 << 20, 64 << 20];

    /// Latency, a rate, and a cliff of a factor of six where a cache ends.
    fn with_cliff(bytes: u64) -> f64 {
        let rate = if bytes <= 10 << 20 { 6e9 } else { 1e9 };
        2e-6 + bytes as f64 / rate
    }

    #[test]
    fn a_cliff_is_found_with_sixteen_sizes() {
        let points = chosen(&FIRST, 16, with_cliff);
        assert!(points.len() <= 16);
        let [below, above] = [10 << 20, (10 << 20) + 1]
            .map(|edge: u64| points.iter().filter(move |(bytes, _)| (*bytes <= 10 << 20) == (edge <= 10 << 20)));
        let (below, above) = (below.map(|(b, _)| *b).max().unwrap(), above.map(|(b, _)| *b).min().unwrap());
        assert!((above as f64 / below as f64) < 1.6, "the cliff lies between {below} and {above}");
        let mut errors: Vec<f64> = (0..200)
            .map(|at| (256.0 * 2f64.powf(18.0 * f64::from(at) / 200.0)) as u64)
            .map(|bytes| (between(&points, bytes) / with_cliff(bytes) - 1.0).abs())
            .collect();
        errors.sort_by(f64::total_cmp);
        assert!(errors[100] < 0.03 && errors[180] < 0.12, "median {} p90 {}", errors[100], errors[180]);
        // As many sizes at equal distances are off by more.
        let even: Vec<u64> = (0..16).map(|at| (256.0 * 2f64.powf(18.0 * f64::from(at) / 15.0)) as u64).collect();
        let even: Vec<(u64, f64)> = even.into_iter().map(|bytes| (bytes, with_cliff(bytes))).collect();
        let off = |points: &[(u64, f64)]| -> f64 {
            (0..200)
                .map(|at| (256.0 * 2f64.powf(17.9 * f64::from(at) / 200.0)) as u64)
                .map(|bytes| (between(points, bytes) / with_cliff(bytes)).ln().abs())
                .sum()
        };
        assert!(off(&points) < 0.8 * off(&even), "{} {}", off(&points), off(&even));
    }

    #[test]
    fn lines_that_are_met_need_no_more_sizes() {
        let straight = |bytes: u64| 1e-9 * bytes as f64;
        assert_eq!(chosen(&FIRST, 16, straight).len(), FIRST.len());
        assert_eq!(next_size(&[], 128), None);
        assert_eq!(next_size(&[(256, 1.0)], 128), None);
        assert_eq!(next_size(&[(256, 1.0), (512, 9.0)], 128), None, "two points are on any line");
    }

    #[test]
    fn neighbours_are_not_divided_for_ever() {
        let step = |bytes: u64| if bytes < 5000 { 1e-6 } else { 1e-3 };
        let points = chosen(&FIRST, 64, step);
        assert!(points.len() < 64, "{points:?}");
        assert!(points.iter().all(|(bytes, _)| bytes % 128 == 0 || FIRST.contains(bytes)));
    }
}
