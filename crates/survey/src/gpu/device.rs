//! The row of one GPU: what it is, and everything that is wrong with it.

use serde_json::Value;
use terms::Bytes;

use super::word;
use crate::{Finding, State};

/// Something wrong with a GPU.
struct GpuFault {
    state: State,
    impact: String,
    fix: &'static str,
}

impl GpuFault {
    fn slow(impact: impl Into<String>, fix: &'static str) -> Self {
        Self { state: State::Slow, impact: impact.into(), fix }
    }

    fn broken(impact: impl Into<String>, fix: &'static str) -> Self {
        Self { state: State::Misconfigured, impact: impact.into(), fix }
    }
}

/// What is said of a GPU, and its faults.
#[derive(Default)]
struct Summary {
    parts: Vec<String>,
    faults: Vec<GpuFault>,
}

/// The row of one GPU. `nvlinks`: a GPU of this machine has NVLinks that are up.
pub(super) fn row(about: &Value, nvlinks: bool) -> Finding {
    let name = format!("GPU {}", word(about, "index"));
    if let Some(why) = about.get("error").and_then(Value::as_str) {
        let fix = "nvidia-smi -q shows more; a GPU that fell off the bus needs a restart";
        return Finding::misconfigured(name, why).impact("this GPU cannot be used").fix(fix);
    }
    let mut summary = Summary { parts: vec![word(about, "name")], ..Summary::default() };
    summary.parts.extend(number_at(about, "/memory_bytes").map(|bytes| Bytes(bytes).about()));
    links(about, nvlinks, &mut summary);
    for add in [pcie, ecc, remapped_rows, clocks, use_by_others] {
        add(about, &mut summary);
    }
    if about.get("mig").and_then(Value::as_bool) == Some(true) {
        summary.parts.push("MIG on".to_owned());
    }
    finding(name, summary).details(about.clone())
}

/// One row for all faults: the worst state, and each impact with its fix.
fn finding(name: String, summary: Summary) -> Finding {
    let found = summary.parts.join(", ");
    let is_broken = summary.faults.iter().any(|fault| fault.state == State::Misconfigured);
    let row = match summary.faults.as_slice() {
        [] => return Finding::ready(name, found),
        _ if is_broken => Finding::misconfigured(name, found),
        _ => Finding::slow(name, found),
    };
    let mut fixes: Vec<&str> = summary.faults.iter().map(|fault| fault.fix).collect();
    fixes.dedup();
    let impacts: Vec<String> = summary.faults.into_iter().map(|fault| fault.impact).collect();
    row.impact(impacts.join("; ")).fix(fixes.join("; "))
}

fn number_at(about: &Value, path: &str) -> Option<u64> {
    about.pointer(path).and_then(Value::as_u64)
}

fn is_true(about: &Value, path: &str) -> bool {
    about.pointer(path).and_then(Value::as_bool) == Some(true)
}

fn list<'v>(about: &'v Value, path: &str) -> &'v [Value] {
    about.pointer(path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Whether any NVLink of it is up.
pub(super) fn has_nvlinks(about: &Value) -> bool {
    !list(about, "/nvlinks/up").is_empty()
}

/// `18 NVLinks`, or those that are down. All down is what a card without a bridge has, unless other GPUs have links.
fn links(about: &Value, nvlinks: bool, summary: &mut Summary) {
    let down: Vec<String> = list(about, "/nvlinks/down").iter().map(Value::to_string).collect();
    let up = list(about, "/nvlinks/up").len();
    let all = up + down.len();
    match (up, down.len()) {
        (0, 0) => {}
        (_, 0) => summary.parts.push(format!("{up} NVLinks")),
        (0, _) => summary.parts.push(format!("0 of {all} NVLinks up")),
        _ => summary.parts.push(format!("{up} of {all} NVLinks up (down: {})", down.join(" "))),
    }
    if !down.is_empty() && nvlinks {
        summary.faults.push(GpuFault::slow(
            format!("only {up} of {all} NVLinks carry data, and the slowest GPU limits every collective"),
            "dmesg and nvidia-smi nvlink -e show why; nvidia-smi -r resets the GPU (a bridge that connects fewer links is \
             not a fault)",
        ));
    }
}

fn pcie(about: &Value, summary: &mut Summary) {
    let width = number_at(about, "/pcie_width").zip(number_at(about, "/pcie_width_max"));
    let generation = number_at(about, "/pcie_generation_max");
    summary.parts.extend(width.zip(generation).map(|((width, _), generation)| format!("PCIe {generation} x{width}")));
    // The generation falls when a GPU is idle; the width does not, unless the slot or the riser has fewer lanes.
    if let Some((now, most)) = width.filter(|(now, most)| now < most) {
        summary.faults.push(GpuFault::slow(
            format!("it has only {now} of {most} PCIe lanes, which slows copies and collectives through the host"),
            "use another slot, or change the firmware's bifurcation setting",
        ));
    }
}

/// Errors since the driver was loaded are a fault. Earlier ones are only named: their rows were replaced since.
fn ecc(about: &Value, summary: &mut Summary) {
    let Some(ecc) = about.get("ecc") else { return };
    let on = is_true(ecc, "/on");
    let mut said = if on { "ECC on" } else { "ECC off" }.to_owned();
    if on != is_true(ecc, "/on_after_reset") {
        said += if on { ", off after a reset" } else { ", on after a reset" };
    }
    let errors = |counter: &str| number_at(ecc, &format!("/uncorrected/{counter}")).unwrap_or(0);
    let (recent, all) = (errors("volatile"), errors("aggregate"));
    if recent > 0 || all > 0 {
        said += &format!(" with {recent} uncorrected errors since the driver was loaded, {all} in all");
    }
    summary.parts.push(said);
    if recent > 0 {
        summary.faults.push(GpuFault::broken(
            "uncorrected memory errors end processes on this GPU",
            "nvidia-smi -q -d ECC,ROW_REMAPPER; reset it (nvidia-smi -r); have it replaced if errors return",
        ));
    }
}

fn remapped_rows(about: &Value, summary: &mut Summary) {
    let rows =
        ["corrected", "uncorrected"].map(|kind| number_at(about, &format!("/remapped_rows/{kind}")).unwrap_or(0));
    let rows = rows[0].saturating_add(rows[1]);
    if rows > 0 {
        summary.parts.push(format!("{rows} memory {} replaced", if rows == 1 { "row" } else { "rows" }));
    }
    if is_true(about, "/remapped_rows/failed") {
        summary
            .faults
            .push(GpuFault::broken("no spare memory row is left for one that failed", "have the GPU replaced"));
    }
    if is_true(about, "/remapped_rows/pending") || is_true(about, "/retired_pages_pending") {
        summary.faults.push(GpuFault::broken(
            "failed memory stays in use until the GPU is reset",
            "end its processes and reset it (nvidia-smi -r), or restart the host",
        ));
    }
}

/// What holds the clocks down. An idle GPU and clocks that the user set are not worth a word.
fn clocks(about: &Value, summary: &mut Summary) {
    const HEAT: &str = "nvidia-smi -q -d TEMPERATURE,PERFORMANCE; check fans, airflow and coolant";
    const POWER: &str = "nvidia-smi -q -d POWER,PERFORMANCE; check power supplies and cables";
    let known = |reason: &str| match reason {
        "sw_power_cap" => Some(("SW power cap", None)),
        "hw_slowdown" => Some(("HW slowdown", Some(HEAT))),
        "sw_thermal_slowdown" => Some(("SW thermal slowdown", Some(HEAT))),
        "hw_thermal_slowdown" => Some(("HW thermal slowdown", Some(HEAT))),
        "hw_power_brake_slowdown" => Some(("HW power brake", Some(POWER))),
        _ => None,
    };
    let reasons = list(about, "/clocks_event_reasons").iter().filter_map(Value::as_str).filter_map(known);
    let (words, fixes): (Vec<&str>, Vec<Option<&'static str>>) = reasons.unzip();
    if !words.is_empty() {
        summary.parts.push(format!("clocks lowered: {}", words.join(", ")));
    }
    // The last is the most particular: a brake also sets the bit of any slowdown.
    if let Some(fix) = fixes.into_iter().flatten().next_back() {
        summary.faults.push(GpuFault::slow("all its results are too low now", fix));
    }
}

fn use_by_others(about: &Value, summary: &mut Summary) {
    let used = number_at(about, "/used_bytes").zip(number_at(about, "/memory_bytes"));
    if let Some((used, _)) = used.filter(|(used, all)| *used > *all / 10) {
        summary.parts.push(format!("{} in use", Bytes(used).about()));
        summary.faults.push(GpuFault::slow("another process uses it", "nvidia-smi lists these processes"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn whole() -> Value {
        json!({"index": 0, "name": "H100", "memory_bytes": 80_u64 << 30, "used_bytes": 0,
               "pcie_generation_max": 5, "pcie_width": 16, "pcie_width_max": 16, "nvlinks": nvlinks(18, &[]),
               "ecc": {"on": true, "on_after_reset": true, "uncorrected": {"volatile": 0, "aggregate": 0}},
               "remapped_rows": {"corrected": 0, "uncorrected": 0, "pending": false, "failed": false},
               "clocks_event_reasons": ["gpu_idle", "applications_clocks_setting"]})
    }

    fn nvlinks(all: u64, down: &[u64]) -> Value {
        let up: Vec<u64> = (0..all).filter(|number| !down.contains(number)).collect();
        json!({"up": up, "down": down})
    }

    /// The row of a GPU that differs in one thing.
    fn with(path: &str, value: Value) -> Finding {
        let mut about = whole();
        *about.pointer_mut(path).unwrap() = value;
        row(&about, true)
    }

    #[track_caller]
    fn check(finding: &Finding, state: State, found: &str, impact: &str) {
        assert_eq!(finding.state, state, "{finding:?}");
        assert!(finding.found.contains(found), "{finding:?}");
        assert!(finding.impact.as_ref().unwrap().contains(impact) && finding.fix.is_some(), "{finding:?}");
    }

    #[test]
    fn a_gpu_without_its_lanes_or_to_itself_is_slow() {
        let expected = "H100, 80.0 GiB, 18 NVLinks, PCIe 5 x16, ECC on";
        assert_eq!(row(&whole(), true), Finding::ready("GPU 0", expected).details(whole()));
        check(&with("/pcie_width", json!(8)), State::Slow, "PCIe 5 x8", "8 of 16 PCIe lanes");
        check(&with("/used_bytes", json!(20_u64 << 30)), State::Slow, "20.0 GiB in use", "another process");
        assert_eq!(row(&json!({"index": 1, "error": "GPU is lost"}), true).state, State::Misconfigured);
    }

    #[test]
    fn links_that_are_down_are_named() {
        let some = with("/nvlinks", nvlinks(18, &[3, 7]));
        check(&some, State::Slow, "16 of 18 NVLinks up (down: 3 7)", "only 16 of 18 NVLinks");
        let down: Vec<u64> = (0..12).collect();
        check(&with("/nvlinks", nvlinks(12, &down)), State::Slow, "0 of 12 NVLinks up", "0 of 12");
        // No GPU of the machine has a bridge.
        let mut alone = whole();
        alone["nvlinks"] = nvlinks(12, &down);
        assert_eq!((row(&alone, false).state, row(&alone, false).fix), (State::Ready, None));
    }

    #[test]
    fn memory_errors_are_faults_unless_they_are_past() {
        let errors = |recent: u64, all: u64| with("/ecc/uncorrected", json!({"volatile": recent, "aggregate": all}));
        check(&errors(3, 5), State::Misconfigured, "ECC on with 3 uncorrected errors since", "end processes");
        let past = errors(0, 2);
        assert!(past.state == State::Ready && past.found.contains("2 in all"), "{past:?}");
        check(&with("/remapped_rows/pending", json!(true)), State::Misconfigured, "", "until the GPU is reset");
        check(&with("/remapped_rows/failed", json!(true)), State::Misconfigured, "", "no spare memory row");
        let replaced = with("/remapped_rows/uncorrected", json!(1));
        assert!(replaced.state == State::Ready && replaced.found.contains("1 memory row replaced"), "{replaced:?}");
        assert!(with("/ecc/on", json!(false)).found.contains("ECC off, on after a reset"));
    }

    #[test]
    fn clocks_that_are_held_down_by_heat_or_power_are_slow() {
        for (reason, said) in [
            ("sw_thermal_slowdown", "SW thermal slowdown"),
            ("hw_thermal_slowdown", "HW thermal slowdown"),
            ("hw_power_brake_slowdown", "HW power brake"),
            ("hw_slowdown", "HW slowdown"),
        ] {
            check(
                &with("/clocks_event_reasons", json!([reason])),
                State::Slow,
                &format!("clocks lowered: {said}"),
                "too low now",
            );
        }
        let brake = with("/clocks_event_reasons", json!(["hw_slowdown", "hw_power_brake_slowdown"]));
        assert!(brake.fix.as_ref().unwrap().contains("power supplies"), "{brake:?}");
        let capped = with("/clocks_event_reasons", json!(["sw_power_cap"]));
        assert!(capped.state == State::Ready && capped.found.ends_with("clocks lowered: SW power cap"), "{capped:?}");
    }

    #[test]
    fn several_faults_are_one_row_with_the_worst_state() {
        let mut about = whole();
        about["clocks_event_reasons"] = json!(["hw_thermal_slowdown"]);
        about["remapped_rows"]["failed"] = true.into();
        let row = row(&about, true);
        check(&row, State::Misconfigured, "clocks lowered: HW thermal slowdown", "no spare memory row");
        check(&row, State::Misconfigured, "", "too low now");
    }
}
