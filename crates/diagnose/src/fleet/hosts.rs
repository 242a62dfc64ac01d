//! Names of hosts: their natural order, and the short form that Slurm takes.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use terms::{Error, HostName};

/// `node-2` before `node-10`.
pub(super) fn natural(a: &HostName, b: &HostName) -> Ordering {
    let (a, b) = (a.as_str(), b.as_str());
    let (head_a, number_a) = split(a);
    let (head_b, number_b) = split(b);
    match (number_a.is_empty(), number_b.is_empty()) {
        (false, false) if head_a == head_b => {
            let value = |digits: &str| digits.parse::<u64>().unwrap_or(u64::MAX);
            value(number_a).cmp(&value(number_b)).then(a.cmp(b))
        }
        _ => a.cmp(b),
    }
}

/// A name and the digits at its end.
fn split(name: &str) -> (&str, &str) {
    let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
    name.split_at(name.len() - digits)
}

/// Hosts of a list, at most: a range from data must not fill the memory.
const MOST_HOSTS: usize = 1 << 20;

/// The hosts of Slurm's short form: `node[01-03,07],login`.
///
/// # Errors
/// When it is not such a list.
pub(super) fn expanded(list: &str) -> Result<Vec<HostName>, Error> {
    let refused = || Error::new(format!("`{}` is not a list of hosts", list.escape_default()));
    let (mut hosts, mut rest) = (Vec::new(), list);
    while !rest.is_empty() {
        let end = rest.find([',', '[']).unwrap_or(rest.len());
        let head = &rest[..end];
        if !rest[end..].starts_with('[') {
            hosts.push(HostName::parse(head)?);
            rest = rest[end..].strip_prefix(',').unwrap_or_default();
            continue;
        }
        let (ranges, after) = rest[end + 1..].split_once(']').ok_or_else(refused)?;
        for range in ranges.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let width = first.len();
            let [low, high] = [first, last].map(|digits| digits.parse::<u64>().map_err(|_| refused()));
            let (low, high) = (low?, high?);
            if low > high || (high - low) as usize >= MOST_HOSTS - hosts.len().min(MOST_HOSTS) {
                return Err(refused());
            }
            for number in low..=high {
                hosts.push(HostName::parse(&format!("{head}{number:0width$}"))?);
            }
        }
        rest = match after.strip_prefix(',') {
            Some(rest) => rest,
            None if after.is_empty() => after,
            None => return Err(refused()),
        };
    }
    if hosts.is_empty() { Err(refused()) } else { Ok(hosts) }
}

/// Hosts as Slurm takes them, for `--exclude` and `--nodelist`: `node[01-03,07],login`.
pub fn compressed(hosts: &[&HostName]) -> String {
    // By what stands before the number, and how many digits that has: `node1` and `node01` are two hosts.
    let mut numbered: BTreeMap<(&str, usize), Vec<u64>> = BTreeMap::new();
    let mut whole: Vec<String> = Vec::new();
    for host in hosts {
        let (head, digits) = split(host.as_str());
        match digits.parse::<u64>() {
            Ok(number) if digits.len() == number.to_string().len() => {
                numbered.entry((head, 0)).or_default().push(number);
            }
            Ok(number) => numbered.entry((head, digits.len())).or_default().push(number),
            Err(_) => whole.push(host.to_string()),
        }
    }
    let one = |((head, width), mut numbers): ((&str, usize), Vec<u64>)| {
        numbers.sort_unstable();
        numbers.dedup();
        let mut ranges: Vec<[u64; 2]> = Vec::new();
        for number in numbers {
            match ranges.last_mut() {
                Some([_, last]) if *last + 1 == number => *last = number,
                _ => ranges.push([number, number]),
            }
        }
        let text = |number: u64| format!("{number:0width$}");
        let said: Vec<String> = ranges
            .iter()
            .map(|[first, last]| if first == last { text(*first) } else { format!("{}-{}", text(*first), text(*last)) })
            .collect();
        match ranges.as_slice() {
            [[first, last]] if first == last => format!("{head}{}", said[0]),
            _ => format!("{head}[{}]", said.join(",")),
        }
    };
    whole.sort();
    numbered.into_iter().map(one).chain(whole).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(hosts: &[&str]) -> Vec<HostName> {
        hosts.iter().map(|host| HostName::parse(host).unwrap()).collect()
    }

    #[test]
    fn hosts_are_written_as_slurm_has_them() {
        for (hosts, expected) in [
            (&["node01", "node02", "node03", "node07"][..], "node[01-03,07]"),
            (&["n9", "n10", "n11", "login"], "n[9-11],login"),
            (&["node-4"], "node-4"),
            (&["a1", "a01", "b"], "a1,a01,b"),
            (&[], ""),
        ] {
            let hosts = names(hosts);
            assert_eq!(compressed(&hosts.iter().collect::<Vec<_>>()), expected);
        }
    }

    #[test]
    fn the_short_form_is_read_back() {
        for list in ["node[01-03,07]", "n[9-11],login", "node-4", "a1,a01,b"] {
            let hosts = expanded(list).unwrap();
            assert_eq!(compressed(&hosts.iter().collect::<Vec<_>>()), list);
        }
        for bad in ["", "n[", "n[1-]", "n[2-1]", "n[1]x", "n[0-99999999999]", "a b"] {
            assert!(expanded(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_at_the_end_are_compared_as_numbers() {
        let mut hosts = names(&["n10", "n9", "m2", "n", "n100000000000000000000000"]);
        hosts.sort_by(natural);
        assert_eq!(hosts, ["m2", "n", "n9", "n10", "n100000000000000000000000"]);
    }
}
