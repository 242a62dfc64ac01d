//! Words of a record that nobody would take for a name.

use std::collections::HashSet;

use terms::{Kind, Named, Status};

use crate::{About, Caveat};

/// Words that records of these benchmarks use, and that must not be replaced.
pub fn words(abouts: &[&About]) -> HashSet<String> {
    let mut words: Vec<&str> = vec!["host", "user", "home", "rankmark", "results", "pytorch", "native"];
    for about in abouts {
        words.push(about.name);
        words.extend(about.metrics.iter().map(|metric| metric.name));
        for field in about.all_fields() {
            words.push(field.name);
            if let Kind::Word(values) = field.kind {
                words.extend(values());
            }
        }
    }
    words.extend(Status::names());
    words.extend(Caveat::ALL.iter().map(|caveat| caveat.name()));
    words.into_iter().map(str::to_owned).collect()
}
