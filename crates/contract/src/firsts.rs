//! Which line of a run another one is compared with, found without a look at all of them.

use std::collections::HashMap;
use std::fmt::Write as _;

use record::CaseLine;

/// The first of some lines with each combination of parameters, some parameters apart. A run may have 20,000 lines, so
/// comparing each with each takes minutes.
#[derive(Debug)]
pub struct Firsts<'a> {
    apart: Vec<&'static str>,
    found: HashMap<String, &'a CaseLine>,
}

impl<'a> Firsts<'a> {
    /// The first of `lines` of each kind, which may differ in the parameters `apart`.
    pub fn new(apart: &[&'static str], lines: impl IntoIterator<Item = &'a CaseLine>) -> Self {
        let mut firsts = Self { apart: apart.to_vec(), found: HashMap::new() };
        for line in lines {
            firsts.found.entry(firsts.key(line)).or_insert(line);
        }
        firsts
    }

    /// The first line with the same parameters as this one.
    pub fn like(&self, line: &CaseLine) -> Option<&'a CaseLine> {
        self.found.get(&self.key(line)).copied()
    }

    fn key(&self, line: &CaseLine) -> String {
        let mut key = String::new();
        for (name, value) in line.parameters.iter().filter(|(name, _)| !self.apart.contains(name)) {
            // A value is JSON, so no text in it can look like the next parameter.
            let _ = writeln!(key, "{name}={value}");
        }
        key
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use terms::Status;

    use super::*;

    fn line(parameters: Value) -> CaseLine {
        let case = json!({"id": parameters.to_string(), "benchmark": "b", "parameters": parameters, "settings": {},
            "world": {}, "caveats": [], "bytes_requested": null, "skip": null});
        CaseLine::unmeasured(&serde_json::from_value(case).unwrap(), Status::Ok, "")
    }

    #[test]
    fn the_first_line_counts_that_differs_only_where_it_may() {
        let lines = [
            line(json!({"model": "a", "ranks": 1})),
            line(json!({"model": "b", "ranks": 1})),
            line(json!({"model": "b", "ranks": 2})),
        ];
        let firsts = Firsts::new(&["ranks"], &lines);
        let like = |parameters| firsts.like(&line(parameters)).map(|line| line.id.clone());
        assert_eq!(like(json!({"model": "b", "ranks": 4})), Some(lines[1].id.clone()));
        assert_eq!(like(json!({"ranks": 4, "model": "a"})), Some(lines[0].id.clone()));
        assert_eq!(like(json!({"model": "c", "ranks": 1})), None);
        assert_eq!(like(json!({"model": "a", "seed": 1})), None, "a parameter more is another case");
        let text = line(json!({"model": "a\"\nseed=1", "ranks": 1}));
        assert!(firsts.like(&text).is_none());
    }
}
