//! Each sentence with data that bear it and data that do not.

use record::{CaseLine, Caveat, Placement};
use report::{Run, sentences};
use serde_json::json;
use terms::Status;

use crate::data::{self, Invented, transport};
use crate::golden::text;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A series of (bytes, seconds) on some ranks.
fn series(ranks: u32, points: &[(u64, f64)]) -> Vec<Invented> {
    points.iter().map(|(bytes, time)| Invented::new(ranks, *bytes, *time)).collect()
}

fn lines(cases: &[Invented]) -> Vec<CaseLine> {
    cases.iter().map(Invented::line).collect()
}

fn said(cases: Vec<CaseLine>) -> String {
    sentences(&data::run(cases)).join("\n")
}

#[track_caller]
fn says(cases: Vec<CaseLine>, expected: &str) {
    let text = said(cases);
    assert!(text.contains(expected), "`{expected}` is missing in:\n{text}");
}

#[track_caller]
fn says_not(cases: Vec<CaseLine>, unexpected: &str) {
    let text = said(cases);
    assert!(!text.contains(unexpected), "`{unexpected}` has no ground in:\n{text}");
}

#[test]
fn latency_floor() {
    let flat = [(KIB, 2.0e-6), (2 * KIB, 2.1e-6), (4 * KIB, 2.2e-6), (64 * KIB, 9e-6)];
    says(lines(&series(2, &flat)), "The latency floor of all_reduce is 2.10 us with 2 ranks (1 KiB to 4 KiB).");
    // Time follows bytes from the first size on.
    says_not(lines(&series(2, &[(MIB, 1e-4), (4 * MIB, 4e-4), (16 * MIB, 1.6e-3)])), "latency floor");
    // Flat, but the sizes are too close to tell.
    says_not(lines(&series(2, &[(KIB, 2.0e-6), (2 * KIB, 2.1e-6), (64 * KIB, 9e-6)])), "latency floor");
    // Flat, but what is measured is the wait for a core.
    let mut over = series(4, &flat);
    over.iter_mut().for_each(|case| case.caveats.push(Caveat::Oversubscribed));
    says_not(lines(&over), "latency floor");
    says_not(lines(&series(2, &[(KIB, 2.0e-6)])), "latency floor");
}

#[test]
fn time_model() {
    let fits: Vec<(u64, f64)> = (10..24).map(|e| (1u64 << e, 3e-6 + (1u64 << e) as f64 / 10e9)).collect();
    says(lines(&series(2, &fits)), "Time of all_reduce follows 3.00 us + bytes / (10.0 GB/s) with 2 ranks (within");
    // 3 us x 10 GB/s.
    says(lines(&series(2, &fits)), "; half of that rate at n_1/2 = 30 KB).");
    let linear: Vec<(u64, f64)> = (10..24).map(|e| (1u64 << e, (1u64 << e) as f64 / 10e9)).collect();
    says_not(lines(&series(2, &linear)), "n_1/2");
    // Two regimes: no line is near all points.
    let cached: Vec<(u64, f64)> = (10..30).map(|e| (1u64 << e, transport(1 << e, 1e-6, 200.0, 4.0))).collect();
    says_not(lines(&series(2, &cached)), "follows");
    // Three sizes always lie near some line.
    says_not(lines(&series(2, &fits[..3])), "follows");
}

#[test]
fn average_of_sizes() {
    // 2 ranks: busbw is bytes / time, 1.024 and 3.072 GB/s.
    let two = [(KIB, 1e-6), (3 * KIB, 1e-6)];
    says(lines(&series(2, &two)), "Average busbw of all_reduce is 2.05 GB/s over 2 sizes with 2 ranks.");
    says_not(lines(&series(2, &two[..1])), "Average busbw");
    // Ranks that wait for a core say nothing about the bandwidth, unless there are no others.
    let mut over = series(4, &two);
    over.iter_mut().for_each(|case| case.caveats.push(Caveat::Oversubscribed));
    let alone = "over 2 sizes with 4 ranks; waiting for cores is included.";
    says(lines(&over), alone);
    over.extend(series(2, &two));
    says(lines(&over), "Average busbw of all_reduce is 2.05 GB/s over 2 sizes with 2 ranks.");
}

#[test]
fn saturation() {
    let rising = [(KIB, 1e-6), (MIB, 1.2e-4), (16 * MIB, 1.68e-3), (64 * MIB, 6.71e-3)];
    says(lines(&series(2, &rising)), "at 64 MiB, 90% of it from 16 MiB up.");
    let still = [(KIB, 1e-6), (MIB, 5e-4), (16 * MIB, 4e-3), (64 * MIB, 8e-3)];
    says(lines(&series(2, &still)), "still rising at the largest size");
    says_not(lines(&series(2, &still)), "90% of it");
    // 64 KiB reaches 9.5 GB/s, and 1 MiB by another protocol half of it.
    let dip = [(KIB, 1e-6), (64 * KIB, 6.9e-6), (MIB, 2.1e-4), (16 * MIB, 1.68e-3), (64 * MIB, 6.71e-3)];
    says(lines(&series(2, &dip)), "at 64 MiB, 90% of it from 16 MiB up.");
    // An interval of 300% reaches 90% of everything, and so shows nothing.
    let mut vague = series(2, &still);
    vague[1].half_width = 3.0;
    says(lines(&vague), "still rising at the largest size");
    // Two sizes show no course.
    says_not(lines(&series(2, &still[..2])), "still rising");
    let falling = [(KIB, 1e-7), (2 * KIB, 2e-7), (64 * KIB, 1.28e-5)];
    says(lines(&series(2, &falling)), "; at 64 KiB it falls to 5.12 GB/s");
    says_not(lines(&series(2, &rising)), "falls");
}

#[test]
fn memory_limit() {
    let limited = |limits: [f64; 3]| {
        let mut cases = series(2, &[(KIB, 2e-6), (MIB, 1e-4), (64 * MIB, 6.4e-3)]);
        cases.iter_mut().zip(limits).for_each(|(case, limit)| case.limit = Some(limit));
        lines(&cases)
    };
    // busbw is 0.512, 10.5 and 10.5 GB/s.
    says(
        limited([10.0, 12.0, 11.5]),
        "reaches 87% to 91% with 2 ranks from 1 MiB up (bound by memory bandwidth there)",
    );
    says(limited([10.0, 20.0, 11.5]), "reaches 91% with 2 ranks at 64 MiB (bound by memory bandwidth there)");
    says(limited([10.0, 20.0, 20.0]), "reaches at most 52% with 2 ranks (at 64 MiB)");
    says_not(limited([10.0, 20.0, 20.0]), "bound");
    // Bound in cache, not beyond: no size bounds it from there up.
    says(limited([10.0, 11.0, 20.0]), "at most 95% with 2 ranks (at 1 MiB, less at larger sizes)");
    says_not(limited([10.0, 11.0, 20.0]), "bound");
    // A limit that is exceeded by half limits nothing.
    says(limited([10.0, 7.0, 7.0]), "above 100%, so this is not the limit there");
    says_not(limited([10.0, 7.0, 7.0]), "bound");
    says_not(lines(&series(2, &[(KIB, 2e-6), (MIB, 1e-4)])), "limit");
}

#[test]
fn effect_of_ranks() {
    let both = |time: f64, half_width: f64| {
        let mut cases = series(2, &[(KIB, 1e-6), (MIB, 1e-4)]);
        cases.extend(series(4, &[(KIB, 2e-6), (MIB, time)]));
        cases.iter_mut().for_each(|case| case.half_width = half_width);
        cases
    };
    says(lines(&both(3e-4, 0.01)), "4 ranks take 3.00x (2.96x to 3.04x) as long as 2 ranks at 1 MiB and 2.00x");
    // Intervals overlap at 1 MiB and not at 1 KiB.
    let text = said(lines(&both(1.01e-4, 0.05)));
    assert!(text.contains("Cannot tell whether 4 ranks take longer than 2 ranks at 1 MiB."), "{text}");
    assert!(text.contains("4 ranks take 2.00x (1.86x to 2.15x) as long as 2 ranks at 1 KiB."), "{text}");
    says_not(lines(&both(3e-4, 0.01)), "waiting for cores");
    let mut over = both(3e-4, 0.01);
    over[2].caveats.push(Caveat::Oversubscribed);
    says(lines(&over), "; waiting for cores is included.");
    // One rank count, or no common size: nothing to compare.
    says_not(lines(&series(2, &[(KIB, 1e-6), (MIB, 1e-4)])), "as long as");
    let mut apart = series(2, &[(KIB, 1e-6)]);
    apart.extend(series(4, &[(MIB, 1e-4)]));
    says_not(lines(&apart), "as long as");
}

#[test]
fn oversubscription() {
    let mut cases = series(2, &[(KIB, 1e-6)]);
    says_not(lines(&cases), "oversubscribed");
    cases.extend(series(4, &[(KIB, 2e-6)]));
    cases[1].caveats.push(Caveat::Oversubscribed);
    says(lines(&cases), "4 ranks share 2 cores (oversubscribed): their times include waiting for a core");
    let mut unknown = data::run(lines(&cases));
    unknown.cores = None;
    assert!(sentences(&unknown)[0].starts_with("4 ranks share fewer cores (oversubscribed)"));
    // As many ranks as cores, and each has several threads.
    let mut threads = series(2, &[(KIB, 1e-6)]);
    threads[0].caveats.push(Caveat::Oversubscribed);
    says(lines(&threads), "2 ranks have more threads than 2 cores (oversubscribed): times include waiting");
    let mut one = series(1, &[(KIB, 1e-6)]);
    one[0].caveats.push(Caveat::Oversubscribed);
    says(lines(&one), "1 rank has more threads than 2 cores");
    // Ranks that have a core each do not share the cores with those of other cases.
    one.extend(cases.iter().skip(1).cloned());
    says(lines(&one), "4 ranks share 2 cores");
    // A skipped case has no times to caveat.
    let mut skipped = lines(&cases);
    (skipped[1].status, skipped[1].time_s) = (Status::Skipped, None);
    says_not(skipped, "oversubscribed");
}

#[test]
fn backends() {
    let two = |time: f64| {
        let mut cases = series(2, &[(KIB, 1e-6), (MIB, 1e-4)]);
        cases.extend(series(2, &[(KIB, 2e-6), (MIB, time)]));
        cases[2].backend = "reference";
        cases[3].backend = "reference";
        lines(&cases)
    };
    says(two(4e-4), "At 1 MiB with 2 ranks, reference takes 4.00x (3.94x to 4.06x) the time of shm.");
    says(
        two(1.01e-4),
        "Cannot tell which of shm and reference is faster at 1 MiB with 2 ranks: 1.01x (0.996x to 1.02x).",
    );
    says_not(lines(&series(2, &[(KIB, 1e-6), (MIB, 1e-4)])), "the time of");
}

#[test]
fn what_went_wrong() {
    let good = || lines(&series(2, &[(KIB, 1e-6), (MIB, 1e-4)]));
    for word in ["failed", "wrong", "gate", "skipped"] {
        says_not(good(), word);
    }
    let mut failed = good();
    (failed[0].status, failed[0].time_s, failed[0].reason) = (Status::Failed, None, Some("rank 1 died".into()));
    // A line of the page, and no finding.
    says_not(failed.clone(), "1 failed");
    let page = text("markdown", &data::run(failed));
    assert!(page.contains("Of 2 cases, 1 failed: see the reasons below."), "{page}");
    let mut wrong = good();
    (wrong[1].wrong, wrong[1].status) = (Some(3), Status::Failed);
    says(wrong.clone(), "1 case gave wrong results: charts and summaries leave them out.");
    // The wrong case was the faster one: it must not be the peak.
    says_not(wrong, "10.5 GB/s");
    let mut gate = good();
    gate[0].gates_missed = vec!["busbw_gbs>=12: 1.02".into()];
    says(gate, "1 case missed a gate, the first: busbw_gbs>=12: 1.02.");
}

#[test]
fn drift() {
    let text = |rise: f64| sentences(&data::soak(rise)).join("\n");
    assert!(text(0.03).contains("became 3.0% slower over its 4,000 samples: median 4.81 ms"), "{}", text(0.03));
    assert!(text(-0.03).contains("faster"), "{}", text(-0.03));
    assert!(text(0.0).contains("shows no drift beyond its noise over 4,000 samples"), "{}", text(0.0));
    assert!(!text(0.0).contains("slower"));
    // Up, far down, up again: no trend, and yet not the same at the end.
    let mut levels = data::soak(0.0);
    let samples = levels.samples.values_mut().next().unwrap();
    let level = |index: usize| [1.0, 3.0, 0.6, 2.8, 0.8, 3.0, 0.7, 2.9, 2.2, 1.6][index / 400];
    samples.iter_mut().enumerate().for_each(|(index, sample)| *sample *= level(index));
    let levels = sentences(&levels).join("\n");
    assert!(levels.contains("has no steady trend over 4,000 samples, but its level changed"), "{levels}");
}

#[test]
fn one_rank_has_no_peak() {
    let broadcast = |ranks| {
        let mut cases = series(ranks, &[(KIB, 2.2e-8), (MIB, 2.2e-8)]);
        cases.iter_mut().for_each(|case| case.op = "broadcast");
        lines(&cases)
    };
    says(broadcast(2), "broadcast peaks at ");
    says_not(broadcast(1), "peaks at ");
    says(broadcast(1), "broadcast takes 22.0 ns");
}

#[test]
fn operations_without_bytes_have_times() {
    let mut cases = series(2, &[(0, 2e-7)]);
    cases.extend(series(4, &[(0, 3e-6)]));
    cases.iter_mut().for_each(|case| case.op = "barrier");
    says(
        lines(&cases),
        "barrier takes 0.200 us (0.198 us to 0.202 us) with 2 ranks and 3.00 us (2.97 us to 3.03 us) with 4 ranks.",
    );
}

#[test]
fn efficiencies_stand_with_their_intervals() {
    let mut run = data::scaled();
    for case in &mut run.cases {
        if let Some(scaling) = case.metrics.get_mut("scaling") {
            scaling["base_ranks"] = json!(1);
        }
    }
    let text = sentences(&run).join("\n");
    assert!(text.contains("weak-scaling efficiency 81% (79% to 83%), compared with 1 rank"), "{text}");
}

/// A barrier with nothing to compare was not found right: it shows no number of wrong exits.
#[test]
fn what_was_not_compared_shows_no_number() {
    let line = |ranks: u32, wrong: Option<u64>| {
        let mut line = Invented { op: "barrier", ..Invented::new(ranks, 0, 2e-7) }.line();
        line.wrong = wrong;
        line
    };
    let run = data::run(vec![line(2, Some(0)), line(4, None)]);
    let page = text("markdown", &run);
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let rows: Vec<Vec<String>> = page.lines().filter(|line| line.starts_with('|')).map(cells).collect();
    let (at, place) = rows
        .iter()
        .enumerate()
        .find_map(|(at, row)| Some((at, row.iter().position(|cell| cell == "wrong")?)))
        .unwrap_or_else(|| panic!("no column: {page}"));
    assert_eq!([2, 3].map(|below| rows[at + below][place].as_str()), ["0", "-"], "{page}");
}

#[test]
fn many_operations_get_one_sentence_each_at_the_top() {
    let mut cases = Vec::new();
    for op in ["all_reduce", "all_gather", "broadcast", "reduce"] {
        for (bytes, time) in [(KIB, 2e-6), (2 * KIB, 2e-6), (4 * KIB, 2e-6), (MIB, 1e-4)] {
            cases.push(Invented { op, ..Invented::new(2, bytes, time) }.line());
        }
    }
    let run = data::run(cases);
    assert_eq!(sentences(&run).len(), 4);
    let markdown = text("markdown", &run);
    assert_eq!(markdown.matches("The latency floor of").count(), 4, "each section has its own");
}

#[test]
fn banners() {
    let marked = |caveats: &[Caveat], simulated: bool| {
        let mut cases = lines(&series(2, &[(KIB, 1e-6), (64 * KIB, 1e-5), (MIB, 1e-4)]));
        cases[0].caveats = caveats.to_vec();
        cases[0].simulated = simulated;
        let run = data::run(cases);
        let render = |name: &str| {
            let files = report::format(name).unwrap().render(&run).unwrap();
            files.into_iter().map(|file| String::from_utf8(file.content).unwrap()).collect::<Vec<_>>()
        };
        (render("markdown").remove(0), render("svg"))
    };
    let (page, charts) = marked(&[], false);
    assert!(!page.contains("> **") && charts.iter().all(|chart| !chart.contains("SIMULATED")));
    for (caveats, simulated, word) in [
        (&[Caveat::Simulated][..], true, "SIMULATED"),
        // The mark on the line is enough, and so is the caveat alone.
        (&[], true, "SIMULATED"),
        (&[Caveat::Simulated], false, "SIMULATED"),
        (&[Caveat::Paced], false, "PACED"),
        (&[Caveat::Injected], false, "FAULT INJECTED"),
    ] {
        let (page, charts) = marked(caveats, simulated);
        assert!(page.contains(&format!("> **{word}")) && page.contains("(1 of 3 cases)"), "{page}");
        assert!(!charts.is_empty() && charts.iter().all(|chart| chart.contains(word)), "{word} is not on every chart");
    }
}

/// The Python of a peer is shown only if the run has two of them.
#[test]
fn pythons_are_told_from_each_other_only() {
    let line = |python: Option<&str>, time: f64| {
        let mut line = data::Invented::new(2, 1024, time).line();
        if let Some(python) = python {
            (line.runtime, line.backend) = ("pytorch".into(), "gloo".into());
            line.parameters.insert("python", python.into());
        }
        line.id = format!("{:012x}", (time * 1e9) as u64);
        line
    };
    let page = |lines: Vec<_>| text("markdown", &data::run(lines));
    let [ours, one, other] = [line(None, 1e-6), line(Some("/a/python"), 3e-6), line(Some("/b/python"), 2e-6)];
    for lines in [[ours.clone(), one.clone()], [one.clone(), ours.clone()]] {
        let both = page(lines.to_vec());
        assert!(both.contains("pytorch/gloo") && !both.contains("/a/python"), "{both}");
    }
    let all = page(vec![ours, one, other]);
    for python in ["/a/python", "/b/python"] {
        assert!(all.lines().any(|row| row.starts_with('|') && row.contains(python)), "{python}: {all}");
    }
}

/// Several operations in flight are distinct from one that is waited for, and are not a peer of it.
#[test]
fn operations_in_flight_are_no_peer_of_one_that_is_waited_for() {
    let line = |runtime: &str, call: Option<&str>, time: f64| {
        let mut line = data::Invented::new(2, 1024, time).line();
        line.runtime = runtime.into();
        line.backend = if runtime == "native" { "shm" } else { "gloo" }.into();
        if let Some(call) = call {
            line.parameters.insert("call", call.into());
            line.parameters.insert("in_flight", 4.into());
        }
        line.id = format!("{:012x}", (time * 1e9) as u64);
        line
    };
    let blocking = [line("native", None, 1e-6), line("pytorch", None, 3e-6)];
    let lines = [line("pytorch", Some("async"), 2e-6), line("pytorch", Some("coalesced"), 1.5e-6)];
    let page = |lines: Vec<_>| text("markdown", &data::run(lines));
    let all = page([&blocking[..], &lines[..]].concat());
    for variant in ["async, 4 in flight", "coalesced, 4 in flight"] {
        assert!(all.lines().any(|row| row.starts_with('|') && row.contains(variant)), "{variant}: {all}");
    }
    let table = all.split("Against the best peer of this run").nth(1).expect("a table");
    let row = table.lines().find(|line| line.contains("1 KiB")).expect("a row");
    assert!(row.contains("3.00x") && !row.contains("in flight"), "{row}");
    let alone = page([&blocking[..1], &lines[..]].concat());
    assert!(!alone.contains("Against the best peer"), "{alone}");
    let asynchronous = page(lines[..1].to_vec());
    assert!(asynchronous.contains("async, 4 in flight"), "what holds for all rows stands above them: {asynchronous}");
}

/// Training by another engine is a peer of ours if both train the same, however they do it. Every table distinguishes them.
#[test]
fn training_stands_beside_the_peer_that_trains_the_same() {
    let line = |runtime: &str, fields: serde_json::Value, time: f64| {
        let mut line = data::Invented::new(2, 0, time).line();
        let common = serde_json::json!({"strategy": "data", "mesh": "2x1x1", "ranks": 2, "runtime": runtime});
        line.benchmark = "training".into();
        line.parameters = common.as_object().cloned().unwrap().into();
        line.parameters.extend(fields.as_object().cloned().unwrap());
        line.runtime = runtime.into();
        line.backend = if runtime == "native" { "shm" } else { "gloo" }.into();
        line.id = format!("{:012x}", (time * 1e6) as u64);
        line.metrics.insert("samples_per_s", (8.0 / time).into());
        let phases =
            serde_json::json!({"input": 0.0, "forward": 0.3 * time, "backward": 0.6 * time, "optimizer": 0.1 * time});
        line.metrics.insert("phases_s", phases);
        line
    };
    let gpt2 = serde_json::json!({"model": "gpt2", "precision": "f32"});
    let with = |name: &str, value: serde_json::Value| {
        let mut fields = gpt2.clone();
        fields[name] = value;
        fields
    };
    let lines = vec![
        line("native", gpt2.clone(), 1.0),
        line("pytorch", with("compile", false.into()), 2.5),
        line("pytorch", with("compile", true.into()), 2.0),
        // Faster, and another thing.
        line("pytorch", with("precision", "bf16".into()), 0.5),
        line("pytorch", with("model", "mlp".into()), 0.1),
    ];
    let page = text("markdown", &data::run(lines));
    let table = page.split("Against the best peer of this run").nth(1).expect("a table");
    let row = table.lines().find(|line| line.contains("1.00 s")).expect("a row");
    assert!(row.contains("pytorch/gloo") && row.contains("compile") && row.contains("2.00x"), "{row}");
    assert!(
        page.contains(
            "Native ranks are 2.00x as fast as pytorch/gloo in training with 2 ranks (1.97x to 2.03x): faster."
        ),
        "{page}"
    );
    let phases = page.split("by phase").nth(1).expect("phases");
    assert!(
        phases.contains("pytorch/gloo") && !phases.contains("exposed communication"),
        "untold is not a column: {page}"
    );
    assert!(page.contains("mlp by pytorch/gloo with 2 ranks (2x1x1)"), "{page}");
}

/// `ping_pong` of 1 MiB between rank 0 and these partners.
fn partners(times: &[(u32, f64)]) -> Run {
    let line = |(peer, time): &(u32, f64)| {
        let mut line = Invented { op: "ping_pong", ..Invented::new(4, MIB, *time) }.line();
        // Records leave rank 1 out.
        if *peer != 1 {
            line.parameters.insert("peer", json!(peer));
        }
        line
    };
    let mut run = data::run(times.iter().map(line).collect());
    let hosts = ["a", "a", "b", "c"].map(str::to_owned).to_vec();
    run.placement = vec![Placement { ranks: 4, hosts, ..Placement::default() }];
    run
}

#[test]
fn a_slow_way_names_the_rank_and_its_host() {
    let text = |times: &[(u32, f64)]| sentences(&partners(times)).join("\n");
    let slow = text(&[(1, 1e-4), (2, 1e-3), (3, 9e-3)]);
    let expected =
        "From rank 0, ping_pong of 1 MiB takes 9.00x (8.87x to 9.13x) as long with rank 3 on c as with rank 2 on b.";
    assert!(slow.contains(expected), "{slow}");
    let mut far = partners(&[(1, 8e-3), (2, 1e-3)]);
    far.placement[0].hosts = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
    let far = sentences(&far).join("\n");
    assert!(far.contains("as long with rank 1 on b as with rank 2 on c."), "{far}");
    let mut shared = partners(&[(2, 1e-3), (3, 9e-3)]);
    shared.cases.iter_mut().for_each(|case| case.caveats.push(Caveat::Oversubscribed));
    assert!(!sentences(&shared).join("\n").contains("as long with"), "nobody knows who shares a core with whom");
    // Rank 2 has the core of rank 0, or one of that number on another machine.
    let bound = |cpus: [u32; 4]| {
        let mut bound = shared.clone();
        bound.placement[0].cpus = cpus.map(|cpu| vec![cpu]).to_vec();
        sentences(&bound).join("\n")
    };
    assert!(!bound([0, 1, 0, 1]).contains("as long with"));
    assert!(bound([0, 0, 1, 1]).contains("as long with rank 3 on c as with rank 2 on b."), "{}", bound([0, 0, 1, 1]));
    // Rank 3 shares its core with another rank, and rank 2 does not.
    assert!(!bound([0, 1, 2, 1]).contains("as long with"), "{}", bound([0, 1, 2, 1]));
    // Rank 1 is near: nobody on another host is compared with it. And what is less than twice as slow is not named.
    for even in [&[(1, 1e-4), (2, 1e-3), (3, 1.9e-3)][..], &[(1, 1e-4), (3, 9e-3)], &[(3, 9e-3)]] {
        assert!(!text(even).contains("as long with"), "{}", text(even));
    }
}
