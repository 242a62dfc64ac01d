//! Words for what the data show, each computed and each with a premise: without it the sentence does not appear.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use record::{CaseLine, Caveat};
use terms::Status;

use crate::Run;
use crate::escape::one_line;
use crate::number::{bandwidth, bytes, count, factor, list, percent, seconds};
use crate::study::{Configuration, Estimate, Measured, Operation, operations, ranks};
use crate::words::facts::{self, EXCEEDED, Limit, Saturation};
use crate::words::findings::Finding;
use crate::words::{drift, expected, links, peers, reproducible, states, traffic};

/// A time model that misses a point by more than this describes nothing.
const MODEL_FITS: f64 = 0.25;
/// A peak whose interval is wider than this to each side is none.
const PEAK: f64 = 0.15;
/// Configurations that one sentence names; more are in the tables.
const NAMED: usize = 3;
/// Up to this many operations, all their sentences stand at the top of the report; more have their own sections.
pub(crate) const FEW_OPERATIONS: usize = 2;

/// What the run shows, as plain text, the most important first: at most a dozen sentences, however large the run. How many
/// cases were not measured is none of them.
pub fn sentences(run: &Run) -> Vec<String> {
    let mut all = about(run, &operations(&run.cases, &run.benchmarks));
    let unmeasured = unmeasured(run).map(|sentence| one_line(&sentence));
    all.retain(|sentence| Some(sentence) != unmeasured.as_ref());
    all
}

/// What a run and these operations of it show, a sentence each.
pub(crate) fn about(run: &Run, operations: &[Operation]) -> Vec<String> {
    let mut all = of_run(run, operations);
    all.extend(traffic::sentences(run));
    all.extend(reproducible::sentences(run));
    all.extend(expected::sentences(run));
    for operation in operations {
        let mut own = of_operation(run, operation);
        own.retain(|sentence| !all.contains(sentence));
        let shown = if operations.len() <= FEW_OPERATIONS { own.len() } else { 1 };
        all.extend(own.into_iter().take(shown));
    }
    all.extend(drift::sentences(run, operations));
    all.iter().map(|sentence| one_line(sentence)).collect()
}

/// What a run and these operations of it show, without sentences that a shown finding says.
pub(crate) fn beyond(run: &Run, operations: &[Operation], found: &[Finding]) -> Vec<String> {
    let mut all = about(run, operations);
    all.retain(|sentence| !found.iter().any(|finding| sentence.starts_with(&format!("{}.", finding.title))));
    all
}

/// What holds for the whole run: cases that went wrong, gates, oversubscription, slow ways between ranks.
fn of_run(run: &Run, operations: &[Operation]) -> Vec<String> {
    let one = [wrong(run), unmeasured(run), gates(run), one_core(run), oversubscription(run), states::sentence(run)];
    let mut all: Vec<String> = one.into_iter().flatten().collect();
    all.extend(operations.iter().flat_map(|operation| links::sentences(operation, run)));
    let real = operations.iter().filter(|operation| !operation.is_emulated());
    let own = real.filter_map(|operation| run.views.for_section(operation)?.findings(operation));
    all.extend(own.flatten().filter(|finding| finding.first).map(|finding| finding.text));
    all
}

/// What one operation shows, most important first.
pub(crate) fn of_operation(run: &Run, operation: &Operation) -> Vec<String> {
    // The page says so; a sentence about its times would be one about no device.
    if operation.is_emulated() {
        return Vec::new();
    }
    if let Some(own) = run.views.for_section(operation).and_then(|view| view.findings(operation)) {
        let own = own.into_iter().map(|finding| finding.text);
        return own.chain(peers::sentence(operation)).chain(view::roofline::sentence(operation)).collect();
    }
    let mut sentences: Vec<String> = headline(operation).into_iter().collect();
    sentences.extend(averages(operation));
    sentences.extend(models(operation));
    sentences.extend(limits(run, operation));
    sentences.extend(view::roofline::sentence(operation));
    sentences.extend(floors(operation));
    sentences.extend(effect_of_ranks(operation));
    sentences.extend(backends(operation));
    sentences.extend(peers::sentence(operation));
    sentences
}

fn wrong(run: &Run) -> Option<String> {
    let wrong = run.cases.iter().filter(|case| case.wrong.unwrap_or(0) > 0).count();
    (wrong > 0)
        .then(|| format!("{} gave wrong results: charts and summaries leave them out.", count(wrong, "case", "cases")))
}

fn unmeasured(run: &Run) -> Option<String> {
    let number = |status: Status| run.cases.iter().filter(|case| case.status == status).count();
    let parts: Vec<String> = [(Status::Failed, "failed"), (Status::Skipped, "skipped"), (Status::NotRun, "not run")]
        .into_iter()
        .map(|(status, word)| (number(status), word))
        .filter(|(number, _)| *number > 0)
        .map(|(number, word)| format!("{number} {word}"))
        .collect();
    let total = count(run.cases.len(), "case", "cases");
    (!parts.is_empty()).then(|| format!("Of {total}, {}: see the reasons below.", list(&parts)))
}

fn gates(run: &Run) -> Option<String> {
    let missed: Vec<&CaseLine> = run.cases.iter().filter(|case| !case.gates_missed.is_empty()).collect();
    let first = missed.first()?.gates_missed.first()?;
    Some(format!("{} missed a gate, the first: {first}.", count(missed.len(), "case", "cases")))
}

/// Ranks that something binds to one core: that is not how many ranks there are.
fn one_core(run: &Run) -> Option<String> {
    let bound = |case: &&CaseLine| case.caveats.contains(&Caveat::OneCore) && case.time_s.is_some();
    let ranks: BTreeSet<u32> = run.cases.iter().filter(bound).map(|case| case.ranks).collect();
    let ranks: Vec<u32> = ranks.into_iter().collect();
    (!ranks.is_empty()).then(|| {
        format!(
            "With {} ranks, all of them had to share one core, because of an affinity (taskset) or a control group \
             (cgroup): their times include waiting for it. Give the run more cores, and run it again.",
            list(&ranks)
        )
    })
}

fn oversubscription(run: &Run) -> Option<String> {
    let over = |case: &&CaseLine| {
        let has = |caveat| case.caveats.contains(&caveat);
        has(Caveat::Oversubscribed) && !has(Caveat::OneCore) && case.time_s.is_some()
    };
    let ranks: BTreeSet<u32> = run.cases.iter().filter(over).map(|case| case.ranks).collect();
    let cores = match run.cores {
        Some(cores) => count(cores as usize, "core", "cores"),
        None => "fewer cores".to_owned(),
    };
    let has_core_each = |ranks: &u32| run.cores.is_some_and(|own| *ranks as usize <= own as usize);
    let (threaded, sharing): (Vec<u32>, Vec<u32>) = ranks.into_iter().partition(has_core_each);
    if !sharing.is_empty() {
        return Some(format!(
            "{} ranks share {cores} (oversubscribed): their times include waiting for a core and say nothing about the transport.",
            list(&sharing)
        ));
    }
    let who = if threaded == [1] { "1 rank has".to_owned() } else { format!("{} ranks have", list(&threaded)) };
    (!threaded.is_empty())
        .then(|| format!("{who} more threads than {cores} (oversubscribed): times include waiting for a core."))
}

/// `28.9 GB/s (28.1 to 29.3)`.
fn rated(busbw: Estimate) -> String {
    let number = crate::number::three_digits;
    format!("{} busbw{}", bandwidth(busbw.mid), busbw.range(number))
}

fn timed(time: Estimate) -> String {
    format!("{}{}", seconds(time.mid), time.range(seconds))
}

/// The best bandwidth and where it is reached; times, for an operation without bytes.
fn headline(operation: &Operation) -> Option<String> {
    let best = operation.configurations.iter().filter_map(|c| Some((c, facts::peak(c)?)));
    let Some((configuration, (at, peak, point))) = best.max_by(|(_, a), (_, b)| a.1.mid.total_cmp(&b.1.mid)) else {
        return times(operation);
    };
    let (name, label) = (&operation.name, &configuration.label);
    if configuration.points.len() == 1 {
        return Some(format!("{name} of {} with {label} takes {}, {}.", bytes(at), timed(point.time), rated(peak)));
    }
    // With an interval this wide another size may be the fastest.
    if peak.relative_half_width().is_some_and(|half| half > PEAK) {
        return Some(format!(
            "{name} reaches {} with {label} at {}: the interval is too wide to call it the peak.",
            rated(peak),
            bytes(at)
        ));
    }
    let mut text = format!("{name} peaks at {} with {label} at {}", rated(peak), bytes(at));
    match facts::saturation(configuration) {
        Some(Saturation::From(size)) if size < at => text += &format!(", 90% of it from {} up", bytes(size)),
        Some(Saturation::AtSmallest(size)) if size < at => {
            text += &format!(", 90% of it already at the smallest size, {}", bytes(size));
        }
        Some(Saturation::StillRising(_)) => text += ", still rising at the largest size",
        _ => {}
    }
    if let Some((size, last)) = facts::decline(configuration) {
        text += &format!("; at {} it falls to {}", bytes(size), bandwidth(last.mid));
    }
    Some(text + ".")
}

fn times(operation: &Operation) -> Option<String> {
    let one = |c: &Configuration| Some(format!("{} with {}", timed(c.points.first()?.time), c.label));
    let shown: Vec<String> = operation.configurations.iter().filter_map(one).take(NAMED).collect();
    (!shown.is_empty()).then(|| format!("{} takes {}.", operation.name, list(&shown)))
}

/// Joins what is said of some configurations; what does not fit is counted.
fn some(parts: Vec<String>) -> String {
    let rest = parts.len().saturating_sub(NAMED);
    let mut shown: Vec<String> = parts.into_iter().take(NAMED).collect();
    if rest > 0 {
        shown.push(format!("{rest} more (see the table)"));
    }
    list(&shown)
}

/// How near each configuration comes to its limit. "Bound" is said only of sizes from which on every case reaches at least 80%
/// of it.
fn limits(run: &Run, operation: &Operation) -> Option<String> {
    let one = |configuration: &Configuration| {
        let label = &configuration.label;
        Some(match facts::limit(configuration)? {
            Limit::Bound { bytes: from, shares: [low, high] } => {
                let shares_exceed = high > EXCEEDED;
                let shares = match shares_exceed {
                    true => format!("{} to {}", percent(low), percent(high)),
                    false => facts::shares([low, high]),
                };
                let largest = configuration.sized().next_back().map_or(from, |(size, _)| size);
                let meaning = facts::memory(run.cache_bytes, configuration.ranks, largest).bound();
                let largest = largest == from;
                let sizes = if largest { format!("at {}", bytes(from)) } else { format!("from {} up", bytes(from)) };
                // A limit that is far exceeded is not one: the probe next to the case missed the working set.
                let meaning = match shares_exceed {
                    true => "above 100%, so this is not the limit there".to_owned(),
                    false => format!("{meaning} there"),
                };
                format!("{shares} with {label} {sizes} ({meaning})")
            }
            Limit::Below { bytes: at, share } => format!("at most {} with {label} (at {})", percent(share), bytes(at)),
            Limit::InPlaces { bytes: at, share } => {
                format!("at most {} with {label} (at {}, less at larger sizes)", percent(share), bytes(at))
            }
        })
    };
    let parts: Vec<String> = operation.configurations.iter().filter_map(one).collect();
    (!parts.is_empty()).then(|| format!("Share of the limit: {} reaches {}.", operation.name, some(parts)))
}

/// Configurations with times that belong to the transport, not to the wait for a core.
fn on_own_cores<'o>(operation: &'o Operation) -> impl Iterator<Item = &'o Configuration<'o>> {
    operation.configurations.iter().filter(|configuration| !configuration.oversubscribed())
}

fn floors(operation: &Operation) -> Option<String> {
    let floor = |c: &Configuration| {
        let floor = facts::floor(c)?;
        let [low, high] = floor.bytes;
        Some(format!("{} with {} ({} to {})", seconds(floor.seconds), c.label, bytes(low), bytes(high)))
    };
    let floors: Vec<String> = on_own_cores(operation).filter_map(floor).collect();
    (!floors.is_empty()).then(|| format!("The latency floor of {} is {}.", operation.name, some(floors)))
}

/// The mean busbw over all sizes, as nccl-tests ends with. Waiting for a core is not a bandwidth: configurations that do are left
/// out where others do not.
fn averages(operation: &Operation) -> Option<String> {
    let one = |c: &Configuration| {
        let (sizes, mean) = facts::average(c)?;
        Some(format!("{} over {sizes} sizes with {}", bandwidth(mean), c.label))
    };
    let own: Vec<String> = on_own_cores(operation).filter_map(one).collect();
    let (averages, caveat) = match own.is_empty() {
        true => (operation.configurations.iter().filter_map(one).collect(), "; waiting for cores is included"),
        false => (own, ""),
    };
    (!averages.is_empty()).then(|| format!("Average busbw of {} is {}{caveat}.", operation.name, some(averages)))
}

fn models(operation: &Operation) -> Option<String> {
    let model = |c: &Configuration| {
        let line = facts::line(c).filter(|line| line.worst <= MODEL_FITS)?;
        let start = if line.alpha > 0.0 { format!("{} + ", seconds(line.alpha)) } else { String::new() };
        let rate = bandwidth(line.beta / 1e9);
        let half =
            line.half_peak().map_or(String::new(), |size| format!("; half of that rate at n_1/2 = {}", bytes(size)));
        Some(format!("{start}bytes / ({rate}) with {} (within {}{half})", c.label, percent(line.worst)))
    };
    let models: Vec<String> = on_own_cores(operation).filter_map(model).collect();
    (!models.is_empty()).then(|| format!("Time of {} follows {}.", operation.name, some(models)))
}

/// The largest size, and the smallest if it is at most a sixteenth of it, that both were measured at.
fn common_sizes<'c>(a: &'c Configuration, b: &'c Configuration) -> Vec<(u64, &'c Measured<'c>, &'c Measured<'c>)> {
    let mut common: Vec<_> = a.sized().filter_map(|(size, point)| Some((size, point, b.at(size)?))).collect();
    match (common.first().cloned(), common.pop()) {
        (Some(first), Some(last)) if first.0 <= last.0 / 16 => vec![last, first],
        (_, Some(last)) => vec![last],
        _ => Vec::new(),
    }
}

/// Configurations of equal keys, groups in the order of their first.
fn grouped<'o, K: Hash + Eq>(
    configurations: impl Iterator<Item = &'o Configuration<'o>>,
    key: impl Fn(&'o Configuration<'o>) -> K,
) -> Vec<Vec<&'o Configuration<'o>>> {
    let mut places: HashMap<K, usize> = HashMap::new();
    let mut groups: Vec<Vec<&Configuration>> = Vec::new();
    for configuration in configurations {
        let place = *places.entry(key(configuration)).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Vec::new());
        }
        groups[place].push(configuration);
    }
    groups
}

/// How much longer more ranks take at equal bytes: fewest against most ranks of otherwise equal configurations.
fn effect_of_ranks(operation: &Operation) -> Vec<String> {
    let measured = operation.configurations.iter().filter(|c| !c.points.is_empty());
    let mut groups = grouped(measured, |c| (c.backend.as_str(), &*c.others));
    let mut sentences = Vec::new();
    for group in &mut groups {
        group.sort_by_key(|configuration| configuration.ranks);
        if let [few, .., many] = group[..] {
            sentences.extend(ranks_apart(few, many));
        }
    }
    sentences.truncate(NAMED);
    sentences
}

fn ranks_apart(few: &Configuration, many: &Configuration) -> Vec<String> {
    if few.ranks == many.ranks {
        return Vec::new();
    }
    let (mut longer, mut unclear) = (Vec::new(), Vec::new());
    let few_ranks = ranks(few.ranks);
    for (size, fewer, more) in common_sizes(few, many) {
        let ratio = crate::study::ratio(more, fewer);
        if ratio.exceeds(1.0) || ratio.is_below(1.0) {
            let than = if longer.is_empty() { format!(" as long as {few_ranks}") } else { String::new() };
            longer.push(format!("{}{}{than} at {}", factor(ratio.mid), ratio.range(factor), bytes(size)));
        } else {
            unclear.push(bytes(size));
        }
    }
    let doubted = many.oversubscribed() || few.oversubscribed();
    let mut sentences = Vec::new();
    if !longer.is_empty() {
        let caveat = if doubted { "; waiting for cores is included" } else { "" };
        sentences.push(format!("{} take {}{caveat}.", many.label, list(&longer)));
    }
    if !unclear.is_empty() {
        let at = list(&unclear);
        sentences.push(format!("Cannot tell whether {} take longer than {few_ranks} at {at}.", many.label));
    }
    sentences
}

/// The fastest backend against the slowest, at the largest size that both have with equal ranks.
fn backends(operation: &Operation) -> Option<String> {
    let mut best: Option<(u64, &Configuration, &Configuration, &Measured, &Measured)> = None;
    // Of equal ranks and fields, one a backend.
    let alike = grouped(operation.configurations.iter(), |c| (c.ranks, &*c.others));
    let pairs = alike.iter().flat_map(|all| all.iter().enumerate().map(|(index, a)| (a, &all[index + 1..])));
    for (a, others) in pairs {
        for b in others {
            let Some(&(size, of_a, of_b)) = common_sizes(a, b).first() else { continue };
            let apart = |x: &Measured, y: &Measured| (x.time.mid / y.time.mid).ln().abs();
            let further = best.is_none_or(|(other, _, _, x, y)| (size, apart(of_a, of_b)) > (other, apart(x, y)));
            if further {
                best = Some((size, a, b, of_a, of_b));
            }
        }
    }
    let (size, a, b, of_a, of_b) = best?;
    let (fast, slow, of_fast, of_slow) =
        if of_a.time.mid <= of_b.time.mid { (a, b, of_a, of_b) } else { (b, a, of_b, of_a) };
    let at = format!("{} with {}", bytes(size), ranks(fast.ranks));
    let ratio = crate::study::ratio(of_slow, of_fast);
    if !ratio.exceeds(1.0) {
        return Some(format!(
            "Cannot tell which of {} and {} is faster at {at}: {}{}.",
            fast.backend,
            slow.backend,
            factor(ratio.mid),
            ratio.range(factor)
        ));
    }
    let caveat = if of_fast.has(Caveat::Oversubscribed) { "; both wait for cores" } else { "" };
    Some(format!(
        "At {at}, {} takes {}{} the time of {}{caveat}.",
        slow.backend,
        factor(ratio.mid),
        ratio.range(factor),
        fast.backend
    ))
}
