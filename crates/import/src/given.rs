//! What the user says of a file (`--ranks`, `--op`) against what the file says.

use std::collections::BTreeSet;

use terms::{Error, Named as _};

use crate::{Results, Source, collective};

/// Refuses what contradicts the file. A word of the user stands in for what the file does not say, and for nothing else.
///
/// # Errors
/// When no case of the file is of that, naming both.
pub(crate) fn check(source: &Source, results: &[Results]) -> Result<(), Error> {
    let ranks = collective::given_ranks(source)?.map(|ranks| ranks.to_string());
    let op = collective::given_op(source)?.map(|op| op.name().to_owned());
    for (name, plural, given) in [("ranks", "ranks", ranks), ("op", "operations", op)] {
        let Some(given) = given else { continue };
        let found: BTreeSet<&str> = values(results, name).collect();
        if found.is_empty() || found.contains(given.as_str()) {
            continue;
        }
        let mut found: Vec<&str> = found.into_iter().collect();
        found.sort_by_key(|value| value.len());
        let what = format!("`--{name} {given}` contradicts {}", source.name());
        let cause = match (name, found.as_slice()) {
            ("ranks", [one]) => format!("the file says {one} ranks"),
            ("op", [one]) => format!("the file says {one}"),
            _ => format!("the {plural} in the file are {}", found.join(", ")),
        };
        return Err(Error::new(what).cause(cause).hint(format!("leave `--{name}` out: the file already has it")));
    }
    Ok(())
}

/// The values of a field over all cases. A ping-pong has two ranks, whatever the job has.
fn values<'r>(results: &'r [Results], name: &'r str) -> impl Iterator<Item = &'r str> {
    let fields = results.iter().flat_map(Results::shapes).map(|(shape, _)| shape.fields.as_slice());
    let value = |fields: &'r [(&'static str, std::borrow::Cow<'static, str>)], name: &str| {
        fields.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_ref())
    };
    fields
        .filter(move |fields| value(fields, "op") != Some("ping_pong") || name == "op")
        .filter_map(move |f| value(f, name))
}
