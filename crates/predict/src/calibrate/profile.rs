//! From the results of a calibration to the profile of a machine.

use engine::{OperationShape, Sample};
use record::found::SLOWDOWN;
use record::{
    Case, CaseLine, KernelTime, MACHINE_PROFILE_VERSION, Machine, MachineProfile, ProfileBasis, Slowdowns, TransferTime,
};
use serde_json::Value;
use terms::{Collective, Dtype, Error, Named, Status};

use super::constants;

/// What a record does not say.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// What the machine is called.
    pub name: String,
    /// The command that measured.
    pub source: String,
    /// When: UTC, RFC 3339.
    pub created: String,
    /// Version of the program.
    pub version: String,
    /// Ranks on this machine.
    pub ranks: u32,
}

/// An operation that was measured, with what it computes and moves.
pub(super) struct MeasuredOperation {
    pub(super) time: KernelTime,
    pub(super) shape: OperationShape,
}

/// Operations shorter than this say more of the clock and of caches than of how runs differ.
const TOLD_S: f64 = 50e-6;
/// Standard deviation of a normal distribution over its median absolute deviation.
const NORMAL: f64 = 1.4826;

/// The profile of a machine.
///
/// # Errors
/// Where no operation was measured, or the size of the machine's memory is not known.
pub fn machine_profile(lines: &[CaseLine], machine: &Machine, given: Given) -> Result<MachineProfile, Error> {
    let right: Vec<&CaseLine> = lines.iter().filter(|line| is_right(line)).collect();
    let measured: Vec<MeasuredOperation> = right.iter().filter_map(|line| kernel(line)).collect();
    if measured.is_empty() {
        let failed = lines.iter().find(|line| line.status == Status::Failed).and_then(|line| line.reason.clone());
        let error = Error::new("no operation was measured: there is no profile of this machine");
        let why =
            failed.unwrap_or_else(|| "the record has no case of the benchmark `kernel` with right results".to_owned());
        return Err(error.cause(why).hint("`rankmark calibrate` measures them"));
    }
    let memory = machine.memory_limit_bytes.or(machine.memory_bytes);
    let memory = memory.ok_or_else(|| Error::new("the size of this machine's memory is not known"))?;
    let transfers: Vec<TransferTime> = right.iter().filter_map(|line| transfer(line, given.ranks)).collect();
    let slowdowns = slowdowns(&right, machine.allowed_cpus.len());
    let constants = constants::constants(&measured, &transfers, slowdowns.as_ref(), &right);
    Ok(MachineProfile {
        schema: MACHINE_PROFILE_VERSION,
        name: given.name,
        basis: ProfileBasis::Measured,
        source: given.source,
        machine: Some(machine.clone()),
        created: given.created,
        version: given.version,
        ranks_per_node: given.ranks.max(1),
        memory_bytes: memory / u64::from(given.ranks.max(1)),
        launch_spread: launch_spread(&right),
        kernels: measured.into_iter().map(|measured| measured.time).collect(),
        transfers,
        slowdowns,
        multiprocessors: 0,
        constants,
    })
}

fn is_right(line: &CaseLine) -> bool {
    let is_possible = |time: f64| time.is_finite() && time > 0.0;
    line.status == Status::Ok
        && line.wrong.unwrap_or(0) == 0
        && line.time_s.as_ref().is_some_and(|time| is_possible(time.median))
}

fn text<'l>(line: &'l CaseLine, name: &str) -> Option<&'l str> {
    line.parameters.get(name).and_then(Value::as_str)
}

/// The time of a line that has one.
fn seconds(line: &CaseLine) -> Option<f64> {
    Some(line.time_s.as_ref()?.median)
}

/// An operation; None where the line is of another benchmark, or of an operation that this program does not know.
fn kernel(line: &CaseLine) -> Option<MeasuredOperation> {
    let dtype = Dtype::from_name(text(line, "dtype")?).filter(|_| line.benchmark == "kernel")?;
    let words = text(line, "dims")?.split('x').filter(|word| *word != "none");
    let dims: Vec<u64> = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let kernel = text(line, "kernel")?;
    let sample = Sample::new(kernel, &dims, dtype).ok()?;
    let shape = OperationShape::of(&sample.program, sample.op());
    let (seconds, spread) = (seconds(line)?, spread(line));
    let time = KernelTime { kernel: kernel.to_owned(), dtype, dims, ranks: line.ranks, seconds, spread };
    Some(MeasuredOperation { time, shape })
}

/// An exchange; None where the line is of another benchmark, or has a group that runs alone.
fn transfer(line: &CaseLine, ranks_per_node: u32) -> Option<TransferTime> {
    let operation = Collective::from_name(text(line, "op")?).filter(|_| line.benchmark == "collective")?;
    if line.parameters.get("alone").is_some() {
        return None;
    }
    let (ranks, groups) = match text(line, "groups") {
        None => (line.ranks, 1),
        Some(rule) => grouped(rule, line.ranks)?,
    };
    Some(TransferTime {
        operation,
        backend: line.backend.clone(),
        ranks,
        ranks_per_node: ranks.min(ranks_per_node.max(1)),
        groups,
        bytes: line.bytes?,
        seconds: seconds(line)?,
        spread: spread(line),
    })
}

/// The exchange that a case measures alone, with its ranks and bytes; None where the case is another, or has groups.
pub fn exchange_of(case: &Case) -> Option<(Collective, u32, u64)> {
    let word = |name: &str| case.parameters.get(name).and_then(Value::as_str);
    let operation = Collective::from_name(word("op")?).filter(|_| case.benchmark == "collective")?;
    let bytes = case.parameters.get("bytes").and_then(Value::as_u64)?;
    (word("groups").is_none() && case.ranks() > 1).then(|| (operation, case.ranks(), bytes))
}

/// Ranks of a group, and groups: `div 2` makes groups of two, `mod 2` makes two groups.
fn grouped(rule: &str, ranks: u32) -> Option<(u32, u32)> {
    let (word, number) = rule.split_once(' ')?;
    let number: u32 = number.parse().ok().filter(|number| *number > 0 && ranks.is_multiple_of(*number))?;
    match word {
        "div" => Some((number, ranks / number)),
        "mod" => Some((ranks / number, number)),
        _ => None,
    }
}

/// What computation and exchanges cost each other. Two activities of a rank run in two threads: where there are fewer cores
/// than that, they wait for each other's core, which a step does not, so nothing is known. `cores` is 0 where it is not known.
fn slowdowns(lines: &[&CaseLine], cores: usize) -> Option<Slowdowns> {
    let of = |activity: &str, beside: &str| {
        let is_pair = |line: &&&CaseLine| {
            line.benchmark == "interference"
                && (cores == 0 || 2 * line.ranks as usize <= cores)
                && text(line, "activity") == Some(activity)
                && text(line, "beside") == Some(beside)
        };
        // Nothing is quicker beside another: what says so is noise.
        lines.iter().find(is_pair).and_then(|line| SLOWDOWN.of(line)).map(|slowdown| slowdown.value.max(1.0))
    };
    Some(Slowdowns { computation: of("product", "collective")?, collective: of("collective", "product")? })
}

/// Standard deviation of the logarithms of a line's trials; 0 with fewer than two.
fn spread(line: &CaseLine) -> f64 {
    let logs = logs(line);
    if logs.len() < 2 {
        return 0.0;
    }
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
    (squares / (logs.len() - 1) as f64).sqrt().min(10.0)
}

fn logs(line: &CaseLine) -> Vec<f64> {
    line.trial_median_s.iter().filter(|time| **time > 0.0).map(|time| time.ln()).collect()
}

/// How far trials are apart, which run in fresh processes: from all cases together, so that three trials each suffice. Deviations
/// from a mean of n values are too small by the root of (n-1)/n.
fn launch_spread(lines: &[&CaseLine]) -> f64 {
    let is_told = |line: &&&CaseLine| line.benchmark == "kernel" && seconds(line).is_some_and(|time| time >= TOLD_S);
    let own = |line: &&CaseLine| {
        let logs = logs(line);
        let (count, mean) = (logs.len() as f64, logs.iter().sum::<f64>() / logs.len().max(1) as f64);
        let scale = if count > 1.0 { (count / (count - 1.0)).sqrt() } else { 0.0 };
        logs.into_iter().map(move |log| scale * (log - mean).abs()).filter(move |_| count > 1.0)
    };
    let deviations: Vec<f64> = lines.iter().filter(is_told).flat_map(own).collect();
    if deviations.is_empty() { 0.0 } else { (NORMAL * stats::median(&deviations)).min(10.0) }
}

#[cfg(test)]
pub(super) mod tests {
    use record::ConstantName;
    use serde_json::json;

    use super::*;

    /// A line with these parameters, time and trials.
    pub(in crate::calibrate) fn line(benchmark: &str, parameters: &Value, ranks: u32, trials: &[f64]) -> CaseLine {
        let median = stats::median(trials);
        serde_json::from_value(json!({
            "schema": 1, "id": "a", "benchmark": benchmark, "parameters": parameters, "status": "ok", "ranks": ranks,
            "runtime": "native", "backend": "shm", "device": "cpu", "mode": "streaming", "caveats": [], "simulated": false,
            "time_s": {"median": median}, "trial_median_s": trials, "bytes": parameters.get("bytes"), "wrong": 0,
        }))
        .unwrap()
    }

    fn kernel_line(kernel: &str, dims: &str, ranks: u32, trials: &[f64]) -> CaseLine {
        line("kernel", &json!({"kernel": kernel, "dims": dims, "dtype": "f32"}), ranks, trials)
    }

    fn machine() -> Machine {
        Machine { host: "node".to_owned(), memory_bytes: Some(16 << 30), ..Machine::default() }
    }

    fn given() -> Given {
        let text = |word: &str| word.to_owned();
        Given { name: text("here"), source: text("test"), created: text("now"), version: text("0"), ranks: 2 }
    }

    /// A machine whose products reach 100 GFLOP/s, whose rows go through memory at 10 GB/s, and whose operations take 1 us.
    fn lines() -> Vec<CaseLine> {
        let mut lines = Vec::new();
        let around = |time: f64| [time * 0.98, time, time * 1.02];
        for side in [64_u64, 128, 256, 512] {
            let time = 2.0 * (side as f64).powi(3) / 1e11 + 1e-6;
            for ranks in [1, 2] {
                lines.push(kernel_line("product_nn", &format!("{side}x{side}x{side}x0x4"), ranks, &around(time)));
            }
        }
        for elements in [1_u64 << 10, 1 << 18, 1 << 20] {
            lines.push(kernel_line("add", &elements.to_string(), 2, &around(12.0 * elements as f64 / 1e10 + 1e-6)));
        }
        lines.push(kernel_line("begin_norm", "none", 2, &around(1e-6)));
        lines.push(kernel_line("attention_forward", "1x128x4x4x32x1", 2, &around(1e-4)));
        for bytes in [256_u64, 1 << 20] {
            let parameters = json!({"op": "send_recv", "bytes": bytes});
            lines.push(line("collective", &parameters, 2, &around(3e-6 + bytes as f64 / 5e9)));
        }
        let grouped = json!({"op": "all_reduce", "groups": "div 2", "bytes": 4096});
        lines.push(line("collective", &grouped, 8, &around(1e-5)));
        lines.push(line(
            "collective",
            &json!({"op": "all_reduce", "groups": "div 2", "alone": 0, "bytes": 4096}),
            8,
            &[1e-6],
        ));
        for (activity, beside, value) in [("product", "collective", 1.3), ("collective", "product", 0.97)] {
            let mut pair = line("interference", &json!({"activity": activity, "beside": beside}), 2, &around(1e-3));
            pair.metrics = serde_json::from_value(json!({"slowdown": {"value": value}})).unwrap();
            lines.push(pair);
        }
        lines
    }

    #[test]
    fn what_was_measured_stands_in_the_profile() {
        let profile = machine_profile(&lines(), &machine(), given()).unwrap();
        assert_eq!((profile.ranks_per_node, profile.memory_bytes), (2, 8 << 30));
        assert_eq!((profile.kernels.len(), profile.transfers.len()), (13, 3));
        let add = profile.kernels.iter().find(|kernel| kernel.kernel == "add" && kernel.dims == [1 << 20]).unwrap();
        assert!((add.seconds / (12.0 * 1048576.0 / 1e10 + 1e-6) - 1.0).abs() < 1e-9 && add.ranks == 2);
        assert!((add.spread - 0.02).abs() < 0.001, "{}", add.spread);
        let groups = profile.transfers.iter().find(|transfer| transfer.groups > 1).unwrap();
        assert_eq!((groups.ranks, groups.groups, groups.ranks_per_node, groups.bytes), (2, 4, 2, 4096));
        let slowdowns = profile.slowdowns.unwrap();
        assert_eq!((slowdowns.computation, slowdowns.collective), (1.3, 1.0), "nothing is quicker beside another");
        let crowded = Machine { allowed_cpus: vec![0, 1], ..machine() };
        assert_eq!(machine_profile(&lines(), &crowded, given()).unwrap().slowdowns, None, "four threads on two cores");
        // Deviations of 2%, 0 and 2%, of three trials each.
        assert!((profile.launch_spread / 0.0363 - 1.0).abs() < 0.02, "{}", profile.launch_spread);
        let constant = |name| profile.constant(name).map(|constant| constant.value).unwrap();
        assert!((constant(ConstantName::ProductRate) / 1e11 - 1.0).abs() < 0.05, "{:?}", profile.constants);
        assert!((constant(ConstantName::MemoryRate) / 1e10 - 1.0).abs() < 0.01, "{:?}", profile.constants);
        assert!((constant(ConstantName::OperationTime) / 1e-6 - 1.0).abs() < 1e-9, "{:?}", profile.constants);
        assert!((constant(ConstantName::LinkLatency) / 3e-6 - 1.0).abs() < 0.05, "{:?}", profile.constants);
        assert!((constant(ConstantName::LinkRate) / 5e9 - 1.0).abs() < 0.05, "{:?}", profile.constants);
        assert_eq!(constant(ConstantName::OverlapSlowdown), 1.3);
        assert!(profile.constants.iter().all(|constant| constant.spread > 0.0 && constant.value > 0.0));
    }

    #[test]
    fn lines_that_are_wrong_or_of_others_are_left_out() {
        let mut all = lines();
        all[0].wrong = Some(1);
        all[1].status = Status::Failed;
        all[2].time_s = None;
        all[3].parameters = serde_json::from_value(json!({"kernel": "none", "dims": "1", "dtype": "f32"})).unwrap();
        all[4].parameters = serde_json::from_value(json!({"kernel": "add", "dims": "1xx", "dtype": "f32"})).unwrap();
        all[5].benchmark = "hardware".to_owned();
        assert_eq!(machine_profile(&all, &machine(), given()).unwrap().kernels.len(), 7);
        let none: Vec<CaseLine> = all.into_iter().filter(|line| line.benchmark != "kernel").collect();
        let refused = machine_profile(&none, &machine(), given()).unwrap_err();
        assert!(refused.what.contains("no operation") && refused.hint.is_some(), "{refused:?}");
        assert!(machine_profile(&lines(), &Machine::default(), given()).unwrap_err().what.contains("memory"));
    }
}
