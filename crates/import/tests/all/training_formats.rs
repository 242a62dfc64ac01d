//! Logs of NeMo, DeepSpeed and the Hugging Face Trainer.

use import::{Results, Source};

use crate::{read, sample, source};

fn given(text: &str) -> Source {
    source(text).with_given("ranks", "8")
}

fn why(text: &str) -> String {
    read(&given(text)).unwrap_err().to_string()
}

/// The fields of the first case, its time in milliseconds, and its metrics by name.
fn case(results: &Results) -> (String, f64, Vec<(&'static str, f64)>) {
    let (shape, figures) = &results.shapes()[0];
    let fields: Vec<String> = shape.fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let rounded = (figures[0].time_s * 1e6).round() / 1e3;
    (fields.join(" "), rounded, figures[0].details.as_ref().unwrap().metrics.clone())
}

fn times(text: &str) -> Vec<Vec<f64>> {
    let of =
        |results: &Results| results.shapes()[0].1.iter().map(|figures| (figures.time_s * 1e6).round() / 1e3).collect();
    read(&given(text)).unwrap().iter().map(of).collect()
}

fn metric(metrics: &[(&'static str, f64)], name: &str) -> Option<f64> {
    metrics.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

/// No width of a terminal gives another time than one of the lines.
fn cut_anywhere(text: &str, known: &[f64]) {
    let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
    for width in 20..longest {
        let cut: String = text.lines().map(|line| line.chars().take(width).collect::<String>() + "\n").collect();
        let Ok(all) = read(&given(&cut)) else { continue };
        for (shape, figures) in all.iter().flat_map(Results::shapes) {
            let time = figures[0].time_s * 1e3;
            assert!(known.iter().any(|known| (time / known - 1.0).abs() < 0.005), "{width}: {time}");
            let batch = shape.fields.iter().find(|(name, _)| *name == "global_batch").map(|(_, value)| value.len());
            assert!(batch.is_none_or(|digits| digits != 2), "{width}: {shape:?}");
        }
    }
}

#[test]
fn nemo_prints_the_time_of_each_step() {
    let text = sample("nemo", "nemo2_steps.txt");
    let results = read(&given(&text)).unwrap().remove(0);
    let (fields, time, metrics) = case(&results);
    assert_eq!((fields.as_str(), time), ("program=nemo ranks=8 global_batch=128", 8756.0));
    assert_eq!(metric(&metrics, "reserved_bytes"), Some(64_286_097_408.0));
    assert_eq!((metric(&metrics, "tflops_per_rank"), metric(&metrics, "loss")), (Some(866.9), Some(11.87)));
    cut_anywhere(&text, &[8756.0, 8768.0, 8748.0, 8758.0, 8752.0, 8762.0]);
    assert!(why(&text.replace("8.748", "8,748")).contains("line 2: "));
    assert!(why(&text.replace("64286097408", "6428609740800")).contains("more than a device has"));
    // The first step has no field behind its time, so the time may be cut.
    let first =
        "Training epoch 0, iteration 0/99 | global_batch_size: 128 | global_step: 0 | train_step_timing in s: 23.52\n";
    let results = read(&given(&(first.to_owned() + &text))).unwrap().remove(0);
    assert!(results.all_omitted()[0].starts_with("line 1: the time is the last field"), "{:?}", results.all_omitted());
    // A batch that is rounded is not read.
    let rounded = read(&given(&text.replace("size: 128", "size: 1.229e+04"))).unwrap().remove(0);
    assert_eq!(case(&rounded).0, "program=nemo ranks=8");
    assert_eq!(times(&format!("## a\n{text}## b\n{}", text.replace("s: 8.7", "s: 4.7"))), [[8756.0], [4756.0]]);
    let doubled: String = text.lines().map(|line| format!("{line}\n{line}\n")).collect();
    assert!(why(&doubled).contains("separate programs wrote here at once"));
}

#[test]
fn progress_bars_of_nemo_round_their_times() {
    let text = sample("nemo", "nemo1_bar.txt");
    let results = read(&given(&text)).unwrap().remove(0);
    assert_eq!((case(&results).0.as_str(), case(&results).1), ("program=nemo ranks=8", 24_000.0));
    assert!(results.notes.iter().any(|note| note.contains("three digits")), "{:?}", results.notes);
    cut_anywhere(&text, &[24_000.0]);
    // A bar is shown again when a value changes; then the number of steps is rounded.
    let bar = |at: u32, global: &str, s: &str| {
        format!(
            "Epoch 0: :   1%|▏ | {at}/9000 [01:00<02:00, v_num=, global_step={global}, train_step_timing in s={s}]\n"
        )
    };
    let shown =
        bar(2, "1.000", "2.00") + &bar(2, "1.000", "2.00") + &bar(3, "2.000", "3.00") + &bar(4, "3.000", "3.00");
    assert_eq!(times(&shown), [[3000.0]]);
    let late = bar(2000, "2e+3", "2.00")
        + &bar(2001, "2e+3", "2.00")
        + &bar(2001, "2e+3", "4.00")
        + &bar(2002, "2e+3", "4.00");
    assert_eq!(times(&late), [[4000.0]]);
}

#[test]
fn deepspeed_tells_samples_per_second() {
    let with_batch = sample("deepspeed", "bert_with_batch.txt");
    let results = read(&given(&with_batch)).unwrap().remove(0);
    let (fields, time, _) = case(&results);
    // 8 samples at 142.08 a second, the mean of the middle two.
    assert_eq!(fields, "program=deepspeed ranks=8 global_batch=8");
    assert!((time - (8e3 / 144.438_794_880_955_98 + 8e3 / 141.283_008_699_020_63) / 2.0).abs() < 0.01, "{time}");
    let text = sample("deepspeed", "chat_step2.txt");
    let results = read(&given(&text)).unwrap().remove(0);
    let (fields, time, metrics) = case(&results);
    // Lines of steps 10, 450, 460, 470: 1097.703 s, 24.979 s, 24.984 s.
    assert_eq!((fields.as_str(), time), ("program=deepspeed ranks=8", 2497.9));
    assert!((metric(&metrics, "samples_per_s").unwrap() - 25.733_803).abs() < 1e-5);
    assert!(results.notes.iter().any(|note| note.contains("no line `train_batch_size`")), "{:?}", results.notes);
    cut_anywhere(&text, &[2497.9, 2494.8, 2498.4]);
    // Without a clock the rate gives nothing.
    let bare: String =
        text.lines().filter_map(|line| line.split_once("stop] ")).map(|(_, rest)| format!("{rest}\n")).collect();
    assert!(why(&bare).contains("samples per second need the line `train_batch_size`"), "{}", why(&bare));
    assert!(why(&text.replace("=25.73", "=25,73")).contains("`25,73380362582048`"));
    let doubled: String = text.lines().map(|line| format!("{line}\n{line}\n")).collect();
    assert!(why(&doubled).contains("separate programs wrote here at once"));
    let other = with_batch.replace("train_batch_size ............. 8", "train_batch_size ............. 16");
    assert_eq!(times(&(with_batch + &other)).len(), 2, "another batch is another run");
}

#[test]
fn the_summary_of_a_trainer_gives_the_time_of_a_step() {
    let text = sample("hf_trainer", "neuron.txt");
    let results = read(&source(&text)).unwrap().remove(0);
    let (fields, time, metrics) = case(&results);
    // 36.3738 s of 10 steps; 640 samples are 8 ranks with 8 steps of 10.
    assert_eq!((fields.as_str(), time), ("program=hf_trainer ranks=8 global_batch=640", 3637.38));
    assert_eq!(metric(&metrics, "loss"), Some(0.0));
    assert!(results.notes.iter().any(|note| note.starts_with("ranks are the total batch")), "{:?}", results.notes);
    cut_anywhere(&text, &[3637.38]);
    assert!(
        why(&text.replace("36.3738", "36,3738")).contains("line 18: "),
        "{}",
        why(&text.replace("36.3738", "36,3738"))
    );
    // A second start of the same training is a trial; another batch makes another record.
    assert_eq!(times(&format!("{text}{}", text.replace("36.3738", "36.4000"))), [[3637.38, 3640.0]]);
    let other = text.replace("= 640", "= 320").replace("= 8\n", "= 4\n");
    assert_eq!(times(&format!("{text}{other}")).len(), 2);
    // A count that contradicts the rate.
    let contradicted = why(&text.replace("steps = 10", "steps = 20").replace("10/10", "20/20"));
    assert!(contradicted.contains("and the log counts 20"), "{contradicted}");
    // Version 5 prints texts.
    assert_eq!(times(&text.replace("36.3738", "'36.37'").replace("0.275", "'0.2749'")), [[3637.0]]);
    let resumed = text.replace("  Number of", "  Continuing training from global step 5\n  Number of");
    assert!(why(&resumed).contains("goes on from a checkpoint"), "{}", why(&resumed));
}

#[test]
fn evaluations_are_not_steps() {
    let text = sample("hf_trainer", "evaluations.txt");
    let results = read(&given(&text)).unwrap().remove(0);
    // 204.0818 s without 10.0917 s of three evaluations, over the 30 steps of the bar behind the summary.
    assert_eq!(case(&results).1, 6466.337);
    assert!(results.notes.iter().any(|note| note.starts_with("3 evaluations are not counted")), "{:?}", results.notes);
    let bare: String = text.lines().filter(|line| !line.contains("30/30")).map(|line| format!("{line}\n")).collect();
    let results = read(&given(&bare)).unwrap().remove(0);
    assert!(results.notes.iter().any(|note| note.contains("off by 0.34%")), "{:?}", results.notes);
    assert_eq!(times(&format!("## a\n{text}## b\n{text}")).len(), 2);
    let doubled: String = text.lines().map(|line| format!("{line}\n{line}\n")).collect();
    assert!(why(&doubled).contains("separate programs wrote here at once"), "{}", why(&doubled));
    let summary = text.lines().find(|line| line.contains("train_runtime")).unwrap();
    let twice = format!("{summary}\n{}\n", summary.replace("204.0818", "304.0818"));
    assert!(why(&twice).contains("two summaries stand behind one training"), "{}", why(&twice));
    assert!(read(&source(&text)).unwrap_err().to_string().contains("does not say how many ranks ran"));
}

#[test]
fn evaluations_of_named_data_sets_are_not_steps() {
    let text = sample("hf_trainer", "evaluations.txt");
    let named = text.replace("'eval_", "'eval_squad_");
    let results = read(&given(&named)).unwrap().remove(0);
    assert_eq!(case(&results).1, 6466.337);
    assert!(results.notes.iter().any(|note| note.starts_with("3 evaluations are not counted")), "{:?}", results.notes);
    // Each of two data sets has a dictionary: 204.0818 s without twice 10.0917 s, over 30 steps.
    let of_both = |line: &str| match line.contains("'eval_") {
        true => format!("{line}\n{}\n", line.replace("'eval_", "'eval_squad_")),
        false => format!("{line}\n"),
    };
    let results = read(&given(&text.lines().map(of_both).collect::<String>())).unwrap().remove(0);
    assert_eq!(case(&results).1, 6129.947);
    assert!(results.notes.iter().any(|note| note.starts_with("6 evaluations are not counted")), "{:?}", results.notes);
    let state = sample("trainer_state", "whisper.json").replace("\"eval_", "\"eval_squad_");
    assert!((case(&read(&given(&state)).unwrap().remove(0)).1 - 4185.1675).abs() < 0.01);
}

#[test]
fn evaluations_may_have_one_epoch_where_it_is_rounded() {
    let text = sample("hf_trainer", "evaluations.txt").replace("'epoch': 2.0", "'epoch': 1.0");
    let results = read(&given(&text)).unwrap().remove(0);
    assert_eq!(case(&results).1, 6466.337);
    // The very same evaluation is of a second program.
    let evaluation = text.lines().find(|line| line.contains("eval_runtime")).unwrap();
    let why = why(&text.replacen(evaluation, &format!("{evaluation}\n{evaluation}"), 1));
    assert!(why.contains("the evaluation at epoch 1.0 comes twice"), "{why}");
}

#[test]
fn the_head_of_an_evaluation_begins_no_training() {
    let head = "***** Running training *****\n  Num examples = 1,600\n  Num Epochs = 2\n  \
                Instantaneous batch size per device = 4\n  \
                Total train batch size (w. parallel, distributed & accumulation) = 32\n  \
                Gradient Accumulation steps = 1\n  Total optimization steps = 100\n";
    let loss = |epoch: &str| format!("{{'loss': 0.5, 'learning_rate': 1e-05, 'epoch': {epoch}}}\n");
    let bar = |at: u32, elapsed: &str| format!(" 12%|█▏ | {at}/100 [{elapsed}<10:11,  2.00s/it]\n");
    let evaluation = |epoch: &str, s: &str| {
        let title = "***** Running Evaluation *****\n  Num examples = 146721\n  Batch size = 128\n";
        format!("{title}{{'eval_loss': 0.4, 'eval_runtime': {s}, 'eval_steps_per_second': 0.9, 'epoch': {epoch}}}\n")
    };
    let summary = "{'train_runtime': 220.0, 'train_steps_per_second': 0.455, 'train_loss': 0.5, 'epoch': 2.0}\n";
    let parts = [
        bar(10, "00:20"),
        bar(50, "01:40"),
        loss("1.0"),
        evaluation("1.0", "9.5"),
        bar(60, "02:10"),
        bar(100, "03:30"),
        loss("2.0"),
        evaluation("2.0", "10.5"),
    ];
    let body = parts.concat();
    let text = format!("{head}{body}{summary}");
    let results = read(&source(&text)).unwrap().remove(0);
    // 220 s without 20 s of two evaluations, over 100 steps.
    let (fields, time, _) = case(&results);
    assert_eq!((fields.as_str(), time), ("program=hf_trainer ranks=8 global_batch=32", 2000.0));
    // An evaluation behind the training is of none, and the same training again is a trial.
    assert_eq!(times(&format!("{text}{}{text}", evaluation("2.0", "11.5"))), [[2000.0, 2000.0]]);
    let resumed = format!("{head}  Continuing training from global step 5\n{body}{summary}");
    assert!(why(&resumed).contains("goes on from a checkpoint"), "{}", why(&resumed));
    // Bars show the steps of training alone, too.
    let tqdm = sample("tqdm", "diffusers_8_ranks.txt");
    let (before, behind) = tqdm.split_once("Steps:  99%").unwrap();
    let title = "***** Running evaluation *****\n  Num examples = 10\n  Batch size = 8\n";
    let evaluated = format!("{before}{title}Steps:  99%{behind}");
    assert_eq!(case(&read(&source(&evaluated)).unwrap().remove(0)), case(&read(&source(&tqdm)).unwrap().remove(0)));
}

#[test]
fn bars_alone_tell_a_time_if_long_enough() {
    let head = "  Num examples = 1,000\n  Total optimization steps = 500\n{'loss': 0.5, 'learning_rate': 1e-05, 'epoch': 0.1}\n";
    let bar = |at: u32, elapsed: &str| format!(" 12%|█▏ | {at}/500 [{elapsed}<10:11,  1.39s/it]\n");
    let results = read(&given(&format!("{head}{}{}", bar(10, "00:20"), bar(110, "02:40")))).unwrap().remove(0);
    assert_eq!(case(&results).1, 1400.0);
    assert!(results.notes.iter().any(|note| note.contains("off by 0.7%")), "{:?}", results.notes);
    assert!(why(&format!("{head}{}{}", bar(10, "00:20"), bar(12, "00:23"))).contains("less than 10"));
}

#[test]
fn the_state_of_a_trainer_has_its_summary() {
    let text = sample("trainer_state", "whisper.json");
    let results = read(&given(&text)).unwrap().remove(0);
    // 2211.2333 s without 537.1663 s of four evaluations, over 400 steps.
    assert_eq!(case(&results).0, "program=hf_trainer ranks=8");
    assert!((case(&results).1 - 4185.1675).abs() < 0.01, "{:?}", case(&results));
    assert!(read(&source(&text)).unwrap_err().to_string().contains("does not say how many ranks ran"));
    assert!(why(&text.replace("train_runtime", "other")).contains("no entry of `log_history` has `train_runtime`"));
    assert!(why(&text.replace("\"step\": 400", "\"step\": 800")).contains("and the log counts 800"));
}

#[test]
fn progress_bars_tell_whole_seconds_and_no_rate() {
    let text = sample("tqdm", "diffusers_8_ranks.txt");
    let results = read(&source(&text)).unwrap().remove(0);
    // Step 1 shows at 4 s and step 101 at 203 s; the bar closes at 212 s. It says 1.98 s a step.
    assert_eq!(
        case(&results),
        (
            "program=tqdm ranks=8 global_batch=256".to_owned(),
            1990.0,
            vec![("samples_per_s", 256.0 / 1.99), ("loss", 0.0456)]
        )
    );
    assert!(results.notes.iter().any(|note| note.ends_with("it may be off by 0.5%")), "{:?}", results.notes);
    let lightning = sample("tqdm", "lightning_neuron.rst");
    assert_eq!(times(&lightning), [[18_000.0]]);
    let bar = |title: &str, done: u64, all: u64, seconds: u64| {
        format!("{title}: 9%|▏ | {done}/{all} [{:02}:{:02}<01:00, 2.00s/it, loss=0.5]\n", seconds / 60, seconds % 60)
    };
    let steps = |list: &[(u64, u64)]| list.iter().map(|(done, s)| bar("Steps", *done, 90, *s)).collect::<String>();
    assert_eq!(times(&steps(&[(1, 3), (11, 23)])), [[2000.0]]);
    assert_eq!(times(&(steps(&[(1, 3), (11, 23)]) + &steps(&[(1, 3), (11, 43)]))), [[2000.0, 4000.0]]);
    assert!(why(&steps(&[(1, 3), (5, 12)])).contains("less than 10 of them lie between the first and the last"));
    // Bars of two programs rise in steps or in seconds alone.
    for mixed in [&[(10, 20), (11, 60), (12, 24)][..], &[(10, 20), (8, 60)], &[(10, 20), (8, 16), (11, 22)]] {
        let why = why(&steps(mixed));
        assert!(why.contains("separate programs wrote here at once: a bar of "), "{why}");
    }
    // Each epoch has a bar of its own.
    let epochs =
        bar("Epoch 0", 1, 9, 10) + &bar("Epoch 0", 9, 9, 26) + &bar("Epoch 1", 1, 9, 2) + &bar("Epoch 1", 9, 9, 26);
    assert_eq!(times(&epochs), [[2500.0]]);
    let results = read(&given(&epochs)).unwrap().remove(0);
    assert_eq!(results.shapes()[0].1[0].iterations, Some(2));
    // A terminal keeps the last state of each bar, and an epoch may take longer than the one before.
    let closed = bar("Epoch 0", 100, 100, 220) + &bar("Epoch 1", 100, 100, 240);
    assert_eq!(times(&closed), [[2300.0]]);
    let results = read(&given(&closed)).unwrap().remove(0);
    assert!(results.notes.iter().any(|note| note.contains("its end alone")), "{:?}", results.notes);
    // Loops without a name are trials, whatever of their first steps is shown.
    let loops = steps(&[(1, 3), (90, 183)]) + &steps(&[(5, 10), (90, 197)]);
    assert_eq!(times(&loops), [[2022.472, 2200.0]]);
}

#[test]
fn bars_of_nemo_need_no_number_of_all_steps() {
    let bar = |position: &str, values: &str| format!("Epoch 0: :   0%|      | {position} [00:10<00:00, {values}]\n");
    let step = |at: u32, time: &str| {
        let values =
            format!("v_num=, reduced_train_loss=10.40, global_step={at}.000, train_step_timing in s={time}, val_loss=");
        bar(&format!("{}/?", at + 1), &values)
    };
    let empty = bar("1/?", "v_num=, reduced_train_loss=, global_step=, train_step_timing in s=, val_loss=");
    assert_eq!(times(&(empty + &step(1, "3.500") + &step(2, "4.500"))), [[4000.0]]);
}

#[test]
fn deepspeed_before_december_2022_tells_steps_by_its_engine() {
    let text = sample("deepspeed", "engine_2022.txt");
    let results = read(&given(&text)).unwrap().remove(0);
    // Steps 40, 50 and 60: 15.145 s and 15.144 s. A rate since the start is not one of a step.
    assert_eq!(case(&results), ("program=deepspeed ranks=8".to_owned(), 1514.45, vec![]));
    assert!(results.notes.iter().any(|note| note.contains("rates of this version are means")));
    // From June to December 2022 each micro step had a rate.
    let micro = text.replace(", SamplesPerSec=", ", RunningAvgSamplesPerSec=90.25, CurrSamplesPerSec=");
    assert_eq!(case(&read(&given(&micro)).unwrap().remove(0)), case(&results));
    let without: String =
        text.lines().map(|line| line.split_once("] ").unwrap_or(("", line)).1.to_owned() + "\n").collect();
    assert!(why(&without).contains("not those of steps, and no two lines have"), "{}", why(&without));
}

#[test]
fn phases_of_deepspeed_become_metrics() {
    let text = sample("deepspeed", "phases.md");
    let results = read(&given(&text)).unwrap().remove(0);
    let (_, time, metrics) = case(&results);
    assert_eq!(time, 16_061.5);
    // Of three steps, and not of their micro steps.
    for (name, expected) in
        [("forward_s", 3.86814), ("backward_s", 11.27009), ("reduce_s", 0.74021), ("optimizer_s", 0.86513)]
    {
        assert!((metric(&metrics, name).unwrap() - expected).abs() < 1e-9, "{name}: {metrics:?}");
    }
    assert!(results.notes.iter().any(|note| note.contains("`wall_clock_breakdown`")));
    let older = text.replace("fwd", "forward").replace("bwd", "backward");
    assert_eq!(case(&read(&given(&older)).unwrap().remove(0)).2, metrics);
    let cut = read(&given(&text.replace("step: 839.36", "step: 839.3"))).unwrap().remove(0);
    assert!(cut.all_omitted()[0].starts_with("line 15: the line is cut"), "{:?}", cut.all_omitted());
    assert!(why(&text.replace("839.36", "839,36")).contains("line 15: expected a time, found `839,36`"));
}
