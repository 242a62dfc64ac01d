//! The lines of a live record that stand for their cases.

use std::collections::HashMap;

use crate::CaseLine;

/// The line that stands for each case, of those that were taken in.
#[derive(Debug, Default)]
pub struct LatestLines {
    /// The lines, in the order in which their cases came.
    pub lines: Vec<CaseLine>,
    places: HashMap<String, usize>,
}

impl LatestLines {
    /// Takes in new lines, and gives those that stand for their cases now.
    pub fn take(&mut self, lines: Vec<CaseLine>) -> Vec<CaseLine> {
        let mut stand = Vec::new();
        for line in lines {
            match self.places.get(&line.id) {
                Some(place) if !line.replaces(&self.lines[*place]) => continue,
                Some(place) => self.lines[*place] = line.clone(),
                None => {
                    self.places.insert(line.id.clone(), self.lines.len());
                    self.lines.push(line.clone());
                }
            }
            stand.push(line);
        }
        stand
    }
}
