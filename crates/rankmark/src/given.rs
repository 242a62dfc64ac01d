//! What the user gave: fields of benchmarks from flags.

use clap::ArgMatches;
use record::About;
use terms::Kind;

/// The fields that were given, in the benchmarks' order, each as the text of a list.
pub(crate) fn given(matches: &ArgMatches, abouts: &[&'static About]) -> Vec<(String, String)> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    for field in abouts.iter().flat_map(|about| about.all_fields()) {
        if pairs.iter().any(|(name, _)| name == field.name) {
            continue;
        }
        let Ok(Some(values)) = matches.try_get_many::<String>(field.name) else { continue };
        let values: Vec<&str> = values.map(String::as_str).collect();
        match field.kind {
            // These repeat and never split.
            Kind::Texts => pairs.extend(values.iter().map(|value| (field.name.to_owned(), (*value).to_owned()))),
            _ => pairs.push((field.name.to_owned(), values.join(","))),
        }
    }
    pairs
}
