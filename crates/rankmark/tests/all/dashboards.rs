//! examples/grafana: each metric and label that a dashboard asks for is one that a run writes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::place::Place;

/// The label that Prometheus adds to whatever it collects from a host.
const OF_PROMETHEUS: &str = "instance";

fn dashboard() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/grafana/rankmark.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The labels of each metric in the text format.
fn written(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut metrics: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, rest) = line.split_once('{').unwrap();
        let of = metrics.entry(name.to_owned()).or_default();
        of.extend(rest.split("=\"").filter_map(|before| before.rsplit(['{', ',']).next()).map(str::to_owned));
        of.insert(OF_PROMETHEUS.to_owned());
    }
    metrics
}

/// The values under this key, wherever they are.
fn texts_under(value: &Value, key: &str) -> Vec<String> {
    match value {
        Value::Object(members) => {
            let own = members.get(key).and_then(Value::as_str).map(str::to_owned);
            own.into_iter().chain(members.values().flat_map(|member| texts_under(member, key))).collect()
        }
        Value::Array(items) => items.iter().flat_map(|item| texts_under(item, key)).collect(),
        _ => Vec::new(),
    }
}

/// The words of PromQL outside quotes, each with the character behind it.
fn words(expression: &str) -> Vec<(String, char)> {
    let mut found = Vec::new();
    for plain in expression.split('"').step_by(2) {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut rest = plain;
        while let Some(start) = rest.find(is_part) {
            let word = &rest[start..];
            let end = word.find(|c| !is_part(c)).unwrap_or(word.len());
            let behind = word[end..].trim_start().chars().next().unwrap_or('"');
            found.push((word[..end].to_owned(), behind));
            rest = &word[end..];
        }
    }
    found
}

/// The metrics and the labels that an expression names: words of a list behind `by`, `without` or `ignoring`, and those before
/// a matcher's operator.
fn asked(expression: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let words = words(expression);
    let metrics = words.iter().filter(|(word, _)| word.starts_with("rankmark_")).map(|(word, _)| word.clone());
    let matched = words.iter().filter(|(word, behind)| *behind == '=' && !word.starts_with("rankmark_"));
    let mut labels: BTreeSet<String> = matched.map(|(word, _)| word.clone()).collect();
    for clause in ["by (", "without (", "ignoring ("] {
        for rest in expression.split(clause).skip(1) {
            labels.extend(rest.split(')').next().unwrap().split(',').map(|label| label.trim().to_owned()));
        }
    }
    (metrics.collect(), labels)
}

#[test]
fn a_run_writes_what_the_dashboard_asks_for() {
    let place = Place::new();
    // Six trials have intervals, and the limit needs ranks that move data.
    let line = "comm all_reduce --ranks 2 --bytes 64KiB --trials 6 --spacing 0s --max-seconds 0.6s --prometheus run.prom --output-dir r";
    place.run(line).exits(0);
    let mut written = written(&place.read("run.prom"));
    // Where the machine was too busy to find a limit, there is no share of it: it has the labels of the other figures of a case.
    if !place.cases("r")[0]["limit_share"].is_number() {
        let of_case = written["rankmark_case_time_seconds"].clone();
        written.entry("rankmark_case_limit_ratio".to_owned()).or_insert(of_case);
    }
    let dashboard = dashboard();
    let mut used = BTreeSet::new();
    for target in dashboard["panels"].as_array().unwrap().iter().flat_map(|panel| panel["targets"].as_array().unwrap())
    {
        let expression = target["expr"].as_str().unwrap();
        let (metrics, labels) = asked(expression);
        assert!(!metrics.is_empty() && labels.contains("run"), "{expression}");
        let legend = target["legendFormat"].as_str().unwrap();
        let shown = legend.split("{{").skip(1).map(|rest| rest.split("}}").next().unwrap().to_owned());
        let labels: BTreeSet<String> = labels.into_iter().chain(shown).collect();
        for metric in &metrics {
            let of = written.get(metric).unwrap_or_else(|| panic!("no run writes {metric}: {expression}"));
            assert!(labels.is_subset(of), "{metric} has {of:?}, and not all of {labels:?}: {expression}");
        }
        used.extend(metrics);
    }
    assert!(used.len() >= 9, "{used:?}");
    // `label_values(METRIC{...}, LABEL)`.
    let queries = texts_under(&dashboard["templating"], "definition");
    assert_eq!(queries.len(), 4, "{queries:?}");
    for query in queries {
        let inside = query.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')')).unwrap();
        let (selector, label) = inside.rsplit_once(", ").unwrap();
        let (metrics, mut labels) = asked(selector);
        labels.insert(label.to_owned());
        let metric = metrics.first().unwrap();
        assert!(labels.is_subset(&written[metric]), "{query}");
    }
}

#[test]
fn the_dashboard_has_what_grafana_needs_to_import_it() {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
    // 24 columns, and no two panels in one place.
    let mut taken = BTreeSet::new();
    for panel in panels {
        let of = |name: &str| panel["gridPos"][name].as_u64().unwrap();
        assert!(of("x") + of("w") <= 24, "{panel}");
        for x in of("x")..of("x") + of("w") {
            for y in of("y")..of("y") + of("h") {
                assert!(taken.insert((x, y)), "{}: something is there", panel["title"]);
            }
        }
        assert!(!panel["title"].as_str().unwrap().is_empty() && !panel["description"].as_str().unwrap().is_empty());
    }
    // Each variable that is used is defined, and no other.
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let defined: BTreeSet<&str> = variables.iter().map(|variable| variable["name"].as_str().unwrap()).collect();
    let text = dashboard.to_string();
    let used: BTreeSet<&str> = text
        .split('$')
        .skip(1)
        .map(|rest| rest.trim_start_matches('{'))
        .map(|rest| &rest[..rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap()])
        .filter(|name| !name.starts_with("__"))
        .collect();
    assert_eq!(used, defined);
    let sources: BTreeSet<String> = panels.iter().flat_map(|panel| texts_under(panel, "uid")).collect();
    assert_eq!(sources, BTreeSet::from(["${datasource}".to_owned()]));
}
