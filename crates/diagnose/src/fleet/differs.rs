//! In what nodes differ besides their speed: kernels, drivers, versions.

use std::collections::BTreeMap;

use terms::HostName;

use super::hosts::compressed;

/// What can differ between nodes, by name.
pub(super) type NodeFacts = BTreeMap<&'static str, String>;

/// A group has a value where this share of its nodes has it.
const SHARE: f64 = 0.8;

/// Facts that tell two groups apart, each with the value of both: `kernel: 6.1.0, others 6.8.0`.
pub(super) fn between(slower: &[&NodeFacts], others: &[&NodeFacts]) -> Vec<String> {
    let mut names: Vec<&'static str> = slower.iter().chain(others).flat_map(|facts| facts.keys().copied()).collect();
    names.sort_unstable();
    names.dedup();
    let clause = |name: &'static str| {
        let (own, other) = (most(slower, name)?, most(others, name)?);
        (own != other).then(|| format!("{name}: {own}, others {other}"))
    };
    names.into_iter().filter_map(clause).collect()
}

/// The value that most nodes of a group have.
fn most<'f>(nodes: &[&'f NodeFacts], name: &str) -> Option<&'f str> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    nodes.iter().filter_map(|facts| facts.get(name)).for_each(|value| *counts.entry(value).or_default() += 1);
    let (value, count) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    (count as f64 >= SHARE * nodes.len() as f64).then_some(value)
}

/// A sentence for each fact that is not the same on all nodes: `kernel differs: 6.1.0 on n[1-8], 6.8.0 on n[9-16].`
pub(super) fn among(nodes: &[(&HostName, &NodeFacts)]) -> Vec<String> {
    const LISTED: usize = 3;
    let mut values: BTreeMap<&'static str, BTreeMap<&str, Vec<&HostName>>> = BTreeMap::new();
    for (host, facts) in nodes {
        facts.iter().for_each(|(name, value)| values.entry(name).or_default().entry(value).or_default().push(host));
    }
    let sentence = |(name, values): (&&'static str, &BTreeMap<&str, Vec<&HostName>>)| {
        let mut of: Vec<(&&str, &Vec<&HostName>)> = values.iter().collect();
        of.sort_by_key(|(_, hosts)| std::cmp::Reverse(hosts.len()));
        let listed: Vec<String> =
            of.iter().take(LISTED).map(|(value, hosts)| format!("{value} on {}", compressed(hosts))).collect();
        let more = of.len().saturating_sub(LISTED);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        format!("{name} differs: {}{more}.", listed.join(", "))
    };
    values.iter().filter(|(_, values)| values.len() > 1).map(sentence).collect()
}
