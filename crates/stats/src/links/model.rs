//! The additive model of a tournament: the logarithm of a pair's time is what each of its two members adds.

/// Steps of the solver, at most; it ends where the solution no longer changes.
const STEPS: usize = 200;
/// What is left of the right side where it ends.
const EXACT: f64 = 1e-11;

/// Pairs, some of them left out, and the parts of members that fit the others best.
pub(crate) struct Additive {
    /// Members and logarithms, around the mean of all.
    pairs: Vec<([u32; 2], f64)>,
    is_out: Vec<bool>,
    left: usize,
    /// Pairs of each member that are not left out.
    partners: Vec<usize>,
    added: Vec<f64>,
}

impl Additive {
    /// Fits the logarithms of these pairs.
    pub(crate) fn new(members: usize, mut pairs: Vec<([u32; 2], f64)>) -> Self {
        // Around the mean, sums keep their digits.
        let mean = pairs.iter().map(|(_, value)| value).sum::<f64>() / pairs.len().max(1) as f64;
        pairs.iter_mut().for_each(|(_, value)| *value -= mean);
        let mut partners = vec![0; members];
        pairs.iter().flat_map(|(pair, _)| pair).for_each(|member| partners[*member as usize] += 1);
        let (is_out, left) = (vec![false; pairs.len()], pairs.len());
        let mut model = Self { pairs, is_out, left, partners, added: vec![0.0; members] };
        model.solve();
        model
    }

    /// What each member adds, around the mean of all pairs.
    pub(crate) fn added(&self) -> &[f64] {
        &self.added
    }

    /// Pairs of a member.
    pub(crate) fn partners(&self, member: usize) -> usize {
        self.partners[member]
    }

    /// Pairs that are not left out.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// Degrees of freedom of the rests.
    pub(crate) fn free(&self) -> f64 {
        self.left as f64 - self.added.len() as f64
    }

    /// The share of its variance that a pair's rest keeps. It is exact where all pairs were measured.
    pub(crate) fn share(&self, place: usize) -> f64 {
        let leverage: f64 = self.pairs[place].0.iter().map(|at| 1.0 / self.partners[*at as usize].max(1) as f64).sum();
        (1.0 - leverage).max(0.1)
    }

    /// The logarithm of a pair's own time above what its members explain.
    pub(crate) fn rest(&self, place: usize) -> f64 {
        let ([low, high], value) = self.pairs[place];
        value - self.added[low as usize] - self.added[high as usize]
    }

    /// The rests of the pairs that are not left out, each with its place.
    pub(crate) fn rests(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        (0..self.pairs.len()).filter(|place| !self.is_out[*place]).map(|place| (place, self.rest(place)))
    }

    /// The standard deviation of a pair.
    pub(crate) fn deviation(&self) -> f64 {
        let squares: f64 = self.rests().map(|(_, rest)| rest.powi(2)).sum();
        (squares / self.free()).sqrt()
    }

    pub(crate) fn leave_out(&mut self, place: usize) {
        self.switch(place, true);
        self.solve();
    }

    pub(crate) fn take_back(&mut self, places: impl Iterator<Item = usize>) {
        places.for_each(|place| self.switch(place, false));
        self.solve();
    }

    fn switch(&mut self, place: usize, is_out: bool) {
        if self.is_out[place] == is_out {
            return;
        }
        self.is_out[place] = is_out;
        for member in self.pairs[place].0.map(|member| member as usize) {
            if is_out { self.partners[member] -= 1 } else { self.partners[member] += 1 }
        }
        if is_out { self.left -= 1 } else { self.left += 1 }
    }

    /// For each member, the sum of this over its pairs.
    fn sums(&self, of: impl Fn(usize, [usize; 2]) -> f64) -> Vec<f64> {
        let mut sums = vec![0.0; self.added.len()];
        for (place, (pair, _)) in self.pairs.iter().enumerate().filter(|(place, _)| !self.is_out[*place]) {
            let [low, high] = pair.map(|member| member as usize);
            let value = of(place, [low, high]);
            sums[low] += value;
            sums[high] += value;
        }
        sums
    }

    /// Least squares by conjugate gradients with the number of partners as preconditioner, from the last solution on: two steps
    /// where all pairs were measured.
    fn solve(&mut self) {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let conditioned = |rest: &[f64], partners: &[usize]| -> Vec<f64> {
            rest.iter().zip(partners).map(|(rest, partners)| rest / (*partners).max(1) as f64).collect()
        };
        let mut rest = self.sums(|place, _| self.rest(place));
        let scale = self.sums(|place, _| self.pairs[place].1);
        let most = EXACT.powi(2) * dot(&scale, &scale);
        let mut better = conditioned(&rest, &self.partners);
        let mut direction = better.clone();
        let mut energy = dot(&rest, &better);
        for _ in 0..STEPS {
            if dot(&rest, &rest) <= most {
                break;
            }
            let image = self.sums(|_, [low, high]| direction[low] + direction[high]);
            let curvature = dot(&direction, &image);
            // Two parts without a common pair, or members without any: nothing more can be told.
            if curvature <= 0.0 {
                break;
            }
            let step = energy / curvature;
            self.added.iter_mut().zip(&direction).for_each(|(added, direction)| *added += step * direction);
            rest.iter_mut().zip(&image).for_each(|(rest, image)| *rest -= step * image);
            better = conditioned(&rest, &self.partners);
            let next = dot(&rest, &better);
            let turn = next / energy;
            direction.iter_mut().zip(&better).for_each(|(direction, better)| *direction = better + turn * *direction);
            energy = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Members add their number in percent; the pair of the first two takes 0.5 more.
    fn pairs(members: u32, all: bool) -> Vec<([u32; 2], f64)> {
        let pairs = (0..members).flat_map(|low| (low + 1..members).map(move |high| [low, high]));
        let value = |[low, high]: [u32; 2]| {
            -13.0 + 0.01 * f64::from(low + high) + if [low, high] == [0, 1] { 0.5 } else { 0.0 }
        };
        let is_kept = |[low, high]: &[u32; 2]| all || (5 * low + 3 * high) % 4 < 2 || *low == 0;
        pairs.filter(is_kept).map(|pair| (pair, value(pair))).collect()
    }

    #[test]
    fn members_are_found_from_a_part_of_the_pairs_too() {
        for all in [true, false] {
            let mut model = Additive::new(40, pairs(40, all));
            assert!(model.rest(0) > 0.4, "{}", model.rest(0));
            model.leave_out(0);
            assert!((model.rest(0) - 0.5).abs() < 1e-8, "{}", model.rest(0));
            assert!(model.deviation() < 1e-8, "{}", model.deviation());
            let steps = model.added().windows(2).map(|pair| pair[1] - pair[0]);
            assert!(steps.into_iter().all(|step| (step - 0.01).abs() < 1e-8), "{:?}", model.added());
            model.take_back([0].into_iter());
            assert!(model.rest(0) < 0.5 - 1e-3);
        }
    }

    #[test]
    fn all_pairs_have_the_leverage_of_a_square() {
        let model = Additive::new(12, pairs(12, true));
        assert!((model.share(5) - (1.0 - 2.0 / 11.0)).abs() < 1e-12);
        assert_eq!((model.left(), model.free()), (66, 54.0));
    }
}
