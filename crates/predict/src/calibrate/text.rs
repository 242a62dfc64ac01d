//! What a calibration says for people: what it measures, and the profile in short.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use record::{Constant, MachineProfile, Plan, TransferTime};
use view::number::{bytes, count, percent, seconds, three_digits};

/// What is about to be measured.
pub fn begins(plan: &Plan, ranks: u32, quick: bool) -> String {
    let mut cases: Vec<(&str, usize)> = Vec::new();
    for case in &plan.cases {
        match cases.iter_mut().find(|(name, _)| *name == case.benchmark) {
            Some((_, count)) => *count += 1,
            None => cases.push((&case.benchmark, 1)),
        }
    }
    let cases: Vec<String> = cases.into_iter().map(|(name, count)| format!("{count} of {name}")).collect();
    let ranks = count(ranks as usize, "rank", "ranks");
    let time = if quick { "about a minute" } else { "several minutes: `--quick` takes one" };
    format!("calibrating {ranks}: {} cases, and more sizes where curves bend; {time}\n", cases.join(", "))
}

/// The profile in short.
pub fn summary(profile: &MachineProfile, target: &Path, record: &Path) -> String {
    let mut text = format!("{}: {}\n\n", profile.name, count(profile.ranks_per_node as usize, "rank", "ranks"));
    for constant in &profile.constants {
        let (name, value) = (constant.name.to_string(), shown(constant));
        let _ = writeln!(text, "  {name:<18} {value:>14}  ± {}", percent(constant.spread));
    }
    let (operations, spread) = (profile.kernels.len(), percent(profile.launch_spread));
    let _ = writeln!(text, "\n  {operations} operations, {spread} apart between launches");
    for line in curves(&profile.transfers) {
        let _ = writeln!(text, "  {line}");
    }
    if let Some(slowdowns) = &profile.slowdowns {
        let (computation, collective) = (three_digits(slowdowns.computation), three_digits(slowdowns.collective));
        let _ = writeln!(
            text,
            "  beside each other: computation takes {computation} times as long, exchanges {collective}"
        );
    }
    let _ = writeln!(text, "\nprofile: {}\nrecord:  {}", target.display(), record.display());
    text
}

/// `85.2 GFLOP/s`, `1.2 us`.
fn shown(constant: &Constant) -> String {
    match constant.unit.as_str() {
        "s" => seconds(constant.value),
        "FLOP/s" => format!("{} GFLOP/s", three_digits(constant.value / 1e9)),
        "B/s" => format!("{} GB/s", three_digits(constant.value / 1e9)),
        "FLOP" => format!("{} MFLOP", three_digits(constant.value / 1e6)),
        _ => three_digits(constant.value),
    }
}

/// Each curve: how many sizes it has, and its ends.
fn curves(transfers: &[TransferTime]) -> Vec<String> {
    let mut found: BTreeMap<(String, u32, u32), Vec<&TransferTime>> = BTreeMap::new();
    for transfer in transfers {
        found.entry((transfer.operation.to_string(), transfer.ranks, transfer.groups)).or_default().push(transfer);
    }
    let line = |((operation, ranks, groups), points): ((String, u32, u32), Vec<&TransferTime>)| {
        let (low, high) =
            (points.iter().map(|point| point.bytes).min()?, points.iter().map(|point| point.bytes).max()?);
        let at_once = if groups > 1 { format!(", {groups} groups at once") } else { String::new() };
        let sizes = count(points.len(), "size", "sizes");
        Some(format!("{operation} of {ranks} ranks{at_once}: {sizes} from {} to {}", bytes(low), bytes(high)))
    };
    found.into_iter().filter_map(line).collect()
}
