//! Logs of training programs: time of a step, throughput, MFU and memory, by case.

use crate::{one, refusal, sample, source};

/// The only case of a log: its fields, its figures by name, and how many trials it has.
fn case(results: &import::Results) -> (String, Vec<(&'static str, f64)>, usize) {
    let [(shape, figures)] = results.shapes() else { panic!("one case: {:?}", results.shapes()) };
    let fields: Vec<String> = shape.fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let details = figures[0].details.as_ref().unwrap();
    (fields.join(" "), [vec![("time_s", figures[0].time_s)], details.metrics.clone()].concat(), figures.len())
}

fn near(figures: &[(&'static str, f64)], wanted: &[(&str, f64)]) {
    assert_eq!(figures.len(), wanted.len(), "{figures:?}");
    for ((name, value), (wanted_name, wanted)) in figures.iter().zip(wanted) {
        assert!(
            name == wanted_name && (value / wanted - 1.0).abs() < 1e-6,
            "{name} {value}, wanted {wanted_name} {wanted}"
        );
    }
}

#[test]
fn a_log_of_torchtitan_has_steps_throughput_mfu_and_memory() {
    let results = one(&sample("torchtitan", "two_ranks.txt"));
    let (fields, figures, trials) = case(&results);
    assert_eq!(fields, "program=torchtitan ranks=8 model=llama3 8B global_batch=8 sequence=8192");
    // Steps 10 to 40, and of two ranks the slower one: 5349, 5334, 5334 and 5330 tokens a second.
    let tokens = 5334.0 * 8.0;
    let time = 8.0 * 8192.0 / tokens;
    let wanted = [
        ("time_s", time),
        ("tokens_per_s", tokens),
        ("tokens_per_s_per_rank", 5334.0),
        ("samples_per_s", 8.0 / time),
        ("tflops_per_rank", 308.97),
        ("mfu", 0.3124),
        ("reserved_bytes", 53.10 * f64::from(1 << 30)),
        ("loss", 7.1839),
    ];
    near(&figures, &wanted);
    assert_eq!((trials, results.shapes()[0].1[0].iterations), (1, Some(4)));
    let notes = [
        "the time of a step is the tokens of a step over the rate `tps` of all ranks",
        "the first line of each run is left out: it has the start of the program",
    ];
    assert_eq!(results.notes, notes);
}

#[test]
fn without_a_batch_the_times_of_lines_tell_how_long_a_step_takes() {
    let text = sample("torchtitan", "times_alone.txt");
    let refused = refusal(&text);
    assert!(refused.contains("line 1: the file does not say how many ranks ran"), "{refused}");
    let read = crate::read(&source(&text).with_given("ranks", "2")).unwrap();
    let (fields, figures, _) = case(&read[0]);
    assert_eq!(fields, "program=torchtitan ranks=2");
    // 10 steps from 41.663 to 43.763; the 10 steps before them have the start.
    near(&figures[..3], &[("time_s", 0.21), ("tokens_per_s", 160_002.0), ("tokens_per_s_per_rank", 80_001.0)]);
    // One line alone does not tell.
    let first = text.lines().next().unwrap().to_owned() + "\n";
    let why = crate::read(&source(&first).with_given("ranks", "2")).unwrap_err().to_string();
    assert!(why.contains("does not say how long a step took"), "{why}");
}

#[test]
fn a_log_of_gpt_neox_is_one_of_megatron() {
    let step = |at: u32, ms: f64| {
        format!(
            " samples/sec: 31.200 | iteration {at:8}/   10000 | elapsed time per iteration (ms): {ms:.1} | \
             learning rate: 2.111E-06 | approx flops per GPU: 110.5TFLOPS | lm_loss: 1.100000E+01 | \
             number of skipped iterations:   0 | number of nan iterations:   0 |\n"
        )
    };
    let arguments = "  seq_length ...................... 2048........................updated\n  \
                     train_batch_size ................ 32..........................updated\n  \
                     world_size ...................... 8...........................default\n";
    let steps = step(1, 9000.0) + &step(2, 4000.0) + &step(3, 4100.0) + &step(4, 4200.0);
    let (fields, figures, _) = case(&one(&(arguments.to_owned() + &steps)));
    assert_eq!(fields, "program=megatron ranks=8 global_batch=32 sequence=2048");
    assert_eq!(figures[0], ("time_s", 4.1));
    for figure in [("tflops_per_rank", 110.5), ("loss", 11.0), ("samples_per_s", 32.0 / 4.1)] {
        assert!(figures.contains(&figure), "{figure:?}: {figures:?}");
    }
}

#[test]
fn a_log_of_megatron_has_steps_throughput_and_memory() {
    let results = one(&sample("megatron", "eight_ranks.txt"));
    let (fields, figures, trials) = case(&results);
    assert_eq!((fields.as_str(), trials), ("program=megatron ranks=8 global_batch=64 sequence=2048", 1));
    let wanted = [
        ("time_s", 1.026),
        ("tokens_per_s", 64.0 * 2048.0 / 1.026),
        ("tokens_per_s_per_rank", 8.0 * 2048.0 / 1.026),
        ("samples_per_s", 64.0 / 1.026),
        ("tflops_per_rank", 254.6),
        ("reserved_bytes", 18432.0 * f64::from(1 << 20)),
        ("loss", 7.018934),
    ];
    near(&figures, &wanted);
    assert!(results.notes.iter().any(|note| note.starts_with("1 iteration was skipped")), "{:?}", results.notes);
}

#[test]
fn runs_of_one_log_are_trials() {
    let text = sample("megatron", "primus_two_runs.txt");
    let results = crate::read(&source(&text).with_given("ranks", "8")).unwrap().remove(0);
    let (_, figures, trials) = case(&results);
    assert_eq!((trials, results.runs(), results.shapes()[0].1[1].time_s), (2, 2, 13.3));
    near(&figures[..3], &[("time_s", 13.1), ("tokens_per_s", 80_033.6), ("tokens_per_s_per_rank", 10_004.2)]);
}

#[test]
fn a_batch_that_grows_makes_a_case_for_each_size() {
    let text = sample("megatron", "eight_ranks.txt").replace("1920 | elapsed", "1984 | elapsed");
    let (before, last) = text.split_at(text.rfind("global batch size:    64").unwrap());
    let results = one(&format!("{before}{}", last.replace("   64", "  128")));
    let batches: Vec<String> = results.shapes().iter().map(|(shape, _)| format!("{:?}", shape.fields[2])).collect();
    assert_eq!(batches, [r#"("global_batch", "64")"#, r#"("global_batch", "128")"#]);
}

#[test]
fn a_public_log_of_torchtitan_has_the_ranks_of_its_mesh() {
    let results = one(&sample("torchtitan", "h200_debug.txt"));
    let (fields, figures, trials) = case(&results);
    assert_eq!(fields, "program=torchtitan ranks=8 model=llama3 debugmodel global_batch=64 sequence=2048");
    // Steps 2 and 3: 64 x 2048 tokens at 301,092 and 359,546 tokens a second on each of 8 ranks.
    let time = |rate: f64| 64.0 * 2048.0 / (8.0 * rate);
    near(&figures[..1], &[("time_s", f64::midpoint(time(301_092.0), time(359_546.0)))]);
    assert_eq!(trials, 1);
}
