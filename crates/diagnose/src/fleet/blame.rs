//! Who is to blame for a case that failed or gave wrong results: the hosts that its reason names, or those of its wrong
//! elements; and where neither tells, nobody, which is said.

use std::collections::BTreeSet;

use record::{CaseLine, MOST_WRONG_ELEMENTS, Placement};
use terms::Status;

/// What a case did wrong, and the hosts that it names: none where it cannot be told.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CaseFault {
    pub(super) why: String,
    pub(super) hosts: Vec<String>,
}

/// None for a case that is right. `here`: the host that says "this host". `hosts`: all hosts of the record.
pub(super) fn fault(line: &CaseLine, here: &str, hosts: &[&str], placed: Option<&Placement>) -> Option<CaseFault> {
    let wrong = line.wrong.unwrap_or(0);
    if wrong > 0 {
        let elements = if wrong == 1 { "element" } else { "elements" };
        let why = format!("gave wrong results ({wrong} {elements})");
        return Some(CaseFault { why, hosts: of_elements(line, hosts, placed) });
    }
    if line.status != Status::Failed {
        return None;
    }
    let why = line.reason.clone().unwrap_or_else(|| "failed".to_owned());
    let named = named(&why, here, hosts);
    // What befell most of the hosts is not the fault of each: how they were started, or the network.
    let is_common = hosts.len() > 1 && 2 * named.len() > hosts.len();
    Some(CaseFault { why, hosts: if is_common { Vec::new() } else { named } })
}

/// The host that alone has wrong elements. Where several have, the one that sent them is not known.
fn of_elements(line: &CaseLine, hosts: &[&str], placed: Option<&Placement>) -> Vec<String> {
    if let [only] = hosts {
        return vec![(*only).to_owned()];
    }
    let host = |rank: u32| placed.and_then(|placed| placed.hosts.get(rank as usize));
    let ranks: BTreeSet<u32> = line.wrong_elements.iter().map(|element| element.rank).collect();
    let found: Option<BTreeSet<&String>> = ranks.iter().map(|rank| host(*rank)).collect();
    // The record keeps the first element of each rank before a second one of any: while there is room for more ranks, no other is
    // wrong.
    match found {
        Some(found) if found.len() == 1 && ranks.len() < MOST_WRONG_ELEMENTS => found.into_iter().cloned().collect(),
        _ => Vec::new(),
    }
}

/// Whether a word is this host, perhaps at the end of a sentence.
fn is_name(word: &str, host: &str) -> bool {
    word == host || word.strip_suffix('.') == Some(host)
}

/// Hosts that a reason names.
fn named(why: &str, here: &str, hosts: &[&str]) -> Vec<String> {
    if let [only] = hosts {
        return vec![(*only).to_owned()];
    }
    let is_word =
        |host: &str| why.split(|c: char| !(c.is_alphanumeric() || "-._".contains(c))).any(|word| is_name(word, host));
    let is_here = |host: &str| host == here && why.contains("this host");
    hosts.iter().filter(|host| is_word(host) || is_here(host)).map(|host| (*host).to_owned()).collect()
}
