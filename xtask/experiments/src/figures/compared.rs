//! Tables of our times next to others', from case lines: workloads in rows, ratios by trials of the same round.

use serde_json::Value;

use crate::cases;

/// The heading and rows of a Markdown table.
struct Table {
    text: String,
}

impl Table {
    fn new(columns: &[&str]) -> Self {
        Self { text: format!("| {} |\n|{}\n", columns.join(" | "), "---|".repeat(columns.len())) }
    }

    fn row(&mut self, cells: &[String]) {
        self.text += &format!("| {} |\n", cells.join(" | "));
    }
}

/// One row a workload and peer: a collective of `shm`, and the same of another library.
pub(super) fn collectives(lines: &[Value]) -> String {
    let mut table =
        Table::new(&["operation", "ranks", "bytes", "shm", "±95%", "busbw GB/s", "limit", "peer", "peer / shm"]);
    for own in sorted(lines, |line| line["backend"] == "shm") {
        let same =
            |line: &&Value| ["op", "in_place"].iter().all(|name| line["parameters"][*name] == own["parameters"][*name]);
        let peers: Vec<&Value> = sorted(lines, |line| line["backend"] != "shm")
            .into_iter()
            .filter(same)
            .filter(|line| line["ranks"] == own["ranks"] && is_near(line["bytes"].as_u64(), own["bytes"].as_u64()))
            .collect();
        let first = [
            text(&own["parameters"]["op"]),
            own["ranks"].to_string(),
            own["bytes"].as_u64().map_or(String::new(), cases::bytes),
            seconds(median(own)),
            half(own),
            own["busbw_gbs"].as_f64().map_or("-".to_owned(), three),
            share(own),
        ];
        if peers.is_empty() {
            table.row(&[first.as_slice(), &["-".to_owned(), "-".to_owned()]].concat());
        }
        for (number, peer) in peers.into_iter().enumerate() {
            let own_cells = if number == 0 { first.to_vec() } else { vec![String::new(); first.len()] };
            table.row(&[own_cells.as_slice(), &[label(peer), ratio(peer, own)]].concat());
        }
    }
    table.text
}

/// One row a model and number of ranks.
pub(super) fn training(lines: &[Value]) -> String {
    let mut table = Table::new(&["model", "ranks", "native step", "±95%", "samples/s", "PyTorch / native"]);
    for own in sorted(lines, |line| line["runtime"] == "native") {
        let is_peer = |line: &&&Value| {
            line["runtime"] == "pytorch"
                && line["ranks"] == own["ranks"]
                && line["parameters"]["model"] == own["parameters"]["model"]
        };
        let all: Vec<&Value> = lines.iter().filter(|line| median(line).is_some()).collect();
        table.row(&[
            text(&own["parameters"]["model"]),
            own["ranks"].to_string(),
            seconds(median(own)),
            half(own),
            own["samples_per_s"].as_f64().map_or("-".to_owned(), three),
            all.iter().find(is_peer).map_or("-".to_owned(), |peer| ratio(peer, own)),
        ]);
    }
    table.text
}

/// One row a size and implementation: what overlap gains over the best sequential implementation, and PyTorch's time.
pub(super) fn primitives(lines: &[Value]) -> String {
    const COLUMNS: [&str; 8] =
        ["m", "n", "link", "implementation", "time", "communication / product", "speedup", "PyTorch / native"];
    let mut table = Table::new(&COLUMNS);
    let is_ours = |line: &Value| line["runtime"] == "native" && line["overlap"].is_object();
    let alone = |line: &Value| line["runtime"] == "native" && line["variant"].as_str() == Some("sequential");
    for own in sorted(lines, |line| is_ours(line) || alone(line)) {
        let same = |line: &&Value| ["m", "n"].iter().all(|name| line["parameters"][*name] == own["parameters"][*name]);
        let is_peer = |line: &&Value| line["runtime"] == "pytorch" && line["variant"] == own["variant"];
        let peer = lines.iter().filter(|line| median(line).is_some()).find(|line| is_peer(line) && same(line));
        let link = own["parameters"]["pace_bandwidth"].as_f64();
        table.row(&[
            own["parameters"]["m"].to_string(),
            own["parameters"]["n"].to_string(),
            link.map_or("memory".to_owned(), |rate| format!("{:.0} MB/s", rate / 1e6)),
            text(&own["variant"]),
            seconds(median(own)),
            own["overlap"]["ratio"].as_f64().map_or("-".to_owned(), three),
            interval(&own["overlap"], "speedup"),
            peer.filter(|_| link.is_none()).map_or("-".to_owned(), |peer| ratio(peer, own)),
        ]);
    }
    table.text
}

/// A value with its interval, `speedup` with `speedup_ci95`.
fn interval(of: &Value, name: &str) -> String {
    let Some(middle) = of[name].as_f64() else { return "-".to_owned() };
    match cases::ends(of, &format!("{name}_ci95")) {
        Some([low, high]) => format!("{} ({} to {})", three(middle), three(low), three(high)),
        None => three(middle),
    }
}

/// Lines that were measured, in a reader's order.
fn sorted(lines: &[Value], wanted: impl Fn(&Value) -> bool) -> Vec<&Value> {
    let mut found: Vec<&Value> = lines.iter().filter(|line| median(line).is_some() && wanted(line)).collect();
    let key = |line: &Value| {
        let parameters = &line["parameters"];
        let name = if parameters["op"].is_string() { &parameters["op"] } else { &parameters["model"] };
        let size = line["bytes"].as_u64().or(parameters["n"].as_u64());
        (text(name), line["ranks"].as_u64(), size, label(line), text(&line["variant"]))
    };
    found.sort_by_key(|line| key(line));
    found
}

/// Sizes that do not divide are rounded down: one element of each rank at most.
fn is_near(a: Option<u64>, b: Option<u64>) -> bool {
    a.zip(b).is_some_and(|(a, b)| a.abs_diff(b) <= a.max(b) / 50)
}

/// The name of the peer: the MPI library, or gloo of torch.
fn label(line: &Value) -> String {
    let library = line["parameters"]["mpi_library"].as_str();
    library.map_or_else(|| text(&line["backend"]), |library| format!("mpi ({library})"))
}

fn text(of: &Value) -> String {
    of.as_str().unwrap_or_default().to_owned()
}

fn median(line: &Value) -> Option<f64> {
    line["time_s"]["median"].as_f64()
}

/// The share of the limit that was measured; none where a better limit must exist.
fn share(line: &Value) -> String {
    let caveats = line["caveats"].as_array().map_or(&[][..], Vec::as_slice);
    if caveats.iter().any(|caveat| caveat == "limit_not_found") {
        return "not found".to_owned();
    }
    line["limit"]["share"].as_f64().map_or("-".to_owned(), |share| format!("{:.0} %", 100.0 * share))
}

/// Half the width of the printed interval.
fn half(line: &Value) -> String {
    let ends = cases::ends(&line["time_s"], "ci95").zip(median(line));
    ends.map_or("-".to_owned(), |(ends, middle)| format!("{:.1} %", 100.0 * stats::relative_half_width(ends, middle)))
}

/// Trials of the same round, ours below theirs.
fn ratio(peer: &Value, own: &Value) -> String {
    let trials = |line: &Value| -> Vec<(u64, f64)> {
        let (rounds, medians) = (line["trial_round"].as_array(), line["trial_median_s"].as_array());
        let pairs = rounds.into_iter().flatten().zip(medians.into_iter().flatten());
        pairs.filter_map(|(round, median)| Some((round.as_u64()?, median.as_f64()?))).collect()
    };
    let ours = trials(own);
    let of_round = |round: u64| ours.iter().find(|(known, _)| *known == round).map(|(_, median)| *median);
    let (theirs, ours): (Vec<f64>, Vec<f64>) =
        trials(peer).into_iter().filter_map(|(round, median)| Some((median, of_round(round)?))).unzip();
    match stats::paired_ratio(&theirs, &ours) {
        Some(stats::Ratio { mid, ends: Some([low, high]) }) => {
            format!("{} ({} to {})", three(mid), three(low), three(high))
        }
        Some(ratio) => three(ratio.mid),
        None => "-".to_owned(),
    }
}

fn seconds(seconds: Option<f64>) -> String {
    match seconds {
        None => "-".to_owned(),
        Some(s) if s < 1e-3 => format!("{} us", three(1e6 * s)),
        Some(s) if s < 1.0 => format!("{} ms", three(1e3 * s)),
        Some(s) => format!("{} s", three(s)),
    }
}

/// Three significant digits.
fn three(value: f64) -> String {
    let digits = if value > 0.0 { 2 - value.log10().floor() as i32 } else { 0 };
    format!("{value:.*}", digits.clamp(0, 4) as usize)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(backend: &str, rounds: &[u64], medians: &[f64]) -> Value {
        json!({"id": backend, "backend": backend, "ranks": 2, "bytes": 1024, "runtime": "native",
            "parameters": {"op": "all_reduce", "in_place": true},
            "time_s": {"median": 2e-6, "ci95": [1.9e-6, 2.1e-6]}, "busbw_gbs": 0.5,
            "trial_round": rounds, "trial_median_s": medians})
    }

    #[test]
    fn ratios_pair_trials_of_one_round() {
        // The peer has no round 2. Paired by position, the quotients would be 3, 1.5 and so on.
        let own = line("shm", &[0, 1, 2, 3, 4, 5, 6], &[1.0, 2.0, 9.0, 1.0, 2.0, 1.0, 2.0]);
        let peer = line("mpi", &[0, 1, 3, 4, 5, 6], &[3.0, 6.0, 3.0, 6.0, 3.0, 6.0]);
        assert_eq!(ratio(&peer, &own), "3.00 (3.00 to 3.00)");
        let rows = collectives(&[peer, own]);
        assert!(
            rows.contains("| all_reduce | 2 | 1 KiB | 2.00 us | 5.0 % | 0.500 | - | mpi | 3.00 (3.00 to 3.00) |"),
            "{rows}"
        );
    }

    #[test]
    fn a_row_of_a_primitive_has_its_gain_and_the_peer_of_its_size() {
        let line = |runtime: &str, variant: &str, n: u64, medians: &[f64]| {
            json!({"id": variant, "runtime": runtime, "backend": "shm", "ranks": 2, "variant": variant,
                "parameters": {"m": 8, "n": n}, "time_s": {"median": medians[0]},
                "trial_round": [0, 1, 2, 3, 4, 5], "trial_median_s": medians})
        };
        let mut fused = line("native", "fused", 4, &[1.0; 6]);
        fused["overlap"] = json!({"ratio": 0.9, "speedup": 1.5, "speedup_ci95": [1.4, 1.6]});
        let lines = [
            line("native", "sequential", 4, &[2.0; 6]),
            fused,
            line("pytorch", "sequential", 4, &[5.0; 6]),
            line("pytorch", "sequential", 9, &[50.0; 6]),
        ];
        let rows = primitives(&lines);
        let body: Vec<&str> = rows.lines().skip(2).collect();
        assert_eq!(
            body,
            [
                "| 8 | 4 | memory | fused | 1.00 s | 0.900 | 1.50 (1.40 to 1.60) | - |",
                "| 8 | 4 | memory | sequential | 2.00 s | - | - | 2.50 (2.50 to 2.50) |"
            ]
        );
    }

    #[test]
    fn a_limit_that_is_none_is_no_share() {
        let mut own = line("shm", &[0], &[1.0]);
        own["limit"] = json!({"share": 1.75});
        assert_eq!(share(&own), "175 %");
        own["caveats"] = json!(["oversubscribed", "limit_not_found"]);
        assert_eq!(share(&own), "not found");
    }

    #[test]
    fn what_was_not_measured_makes_no_row() {
        let mut skipped = line("shm", &[], &[]);
        skipped["time_s"] = Value::Null;
        assert_eq!(collectives(&[skipped]).lines().count(), 2);
    }

    #[test]
    fn figures_have_three_digits() {
        assert_eq!([0.012_345, 1.2345, 12.345, 123.45, 1234.5].map(three), ["0.0123", "1.23", "12.3", "123", "1234"]);
    }
}
