//! Which colour and marker each label of a run has, in all its charts.

use std::collections::HashMap;

/// Styles that differ by a multiple of it have the same colour.
pub const COLOURS: usize = 7;

/// The style of each label of a run: a colour of its own, or, of several backends, that of its backend and a marker of its
/// own.
pub(crate) struct Styles {
    /// Backends, each with its place in the order of first appearance.
    backends: HashMap<String, usize>,
    labels: HashMap<String, usize>,
    /// Labels of each colour so far.
    alike: [usize; COLOURS],
}

impl Styles {
    /// For the backends of all configurations, in their order.
    pub(crate) fn new<'b>(all: impl Iterator<Item = &'b str>) -> Self {
        let mut backends: HashMap<String, usize> = HashMap::new();
        for backend in all {
            let next = backends.len();
            if !backends.contains_key(backend) {
                backends.insert(backend.to_owned(), next);
            }
        }
        Self { backends, labels: HashMap::new(), alike: [0; COLOURS] }
    }

    /// The style of a label of this backend.
    pub(crate) fn style_of(&mut self, label: &str, backend: &str) -> usize {
        if let Some(known) = self.labels.get(label) {
            return *known;
        }
        let style = match self.backends.get(backend) {
            Some(place) if self.backends.len() > 1 => {
                let colour = place % COLOURS;
                let style = colour + COLOURS * self.alike[colour];
                self.alike[colour] += 1;
                style
            }
            _ => self.labels.len(),
        };
        self.labels.insert(label.to_owned(), style);
        style
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_backends_have_a_colour_each() {
        let mut alone = Styles::new(["shm", "shm"].into_iter());
        assert_eq!(["a", "b", "a"].map(|label| alone.style_of(label, "shm")), [0, 1, 0]);
        let mut several = Styles::new(["shm", "mpi", "shm"].into_iter());
        let pairs = [("shm, 2", "shm"), ("mpi, 2", "mpi"), ("shm, 4", "shm"), ("mpi, 4", "mpi"), ("shm, 2", "shm")];
        assert_eq!(pairs.map(|(label, backend)| several.style_of(label, backend)), [0, 1, 7, 8, 0]);
    }
}
