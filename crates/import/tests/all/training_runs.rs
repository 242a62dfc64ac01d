//! Runs of training logs: which are trials of one case, which lines are whole, and which programs wrote at once.

use crate::{one, read, refusal, sample, source};

/// A line of torchtitan: `at` is the second at which it is written.
fn titan(rank: &str, at: u32, step: u32, tps: &str) -> String {
    format!(
        "{rank}[titan] 2026-05-04 10:{:02}:{:02},000 - root - INFO - step: {step:2}  loss:  8.1661  grad_norm:  3.6855  memory:  \
         2.47GiB(3.12%)  tps: {tps}  tflops: 1,203.52  mfu: 9.72%\n",
        at / 60,
        at % 60
    )
}

/// The start of torchtitan with so many ranks.
fn start(ranks: u32, sequence: u32) -> String {
    let at = "[titan] 2026-05-04 10:00:00,000 - root - INFO -";
    format!(
        "{at} Building device mesh with parallelism: pp=1, dp_replicate=1, dp_shard={ranks}, cp=1, tp=1, ep=1, etp=1\n\
         {at} Model llama3 8B size: 8,030,261,248 total parameters\n\
         {at} Trainer is initialized with local batch size 1, global batch size {ranks}, gradient accumulation steps 1, \
         sequence length {sequence}, total steps 40 (warmup 8)\n"
    )
}

fn steps(tps: &str) -> String {
    titan("", 1, 1, "445") + &titan("", 11, 10, tps) + &titan("", 21, 20, tps)
}

/// A line of Megatron.
fn megatron(iteration: u32, ms: &str) -> String {
    format!(
        " [2026-05-04 11:02:33] iteration {iteration:8}/     100 | consumed samples:          640 | elapsed time per iteration \
         (ms): {ms} | learning rate: 1.5E-05 | global batch size:    64 | lm loss: 1.0E+01 | loss scale: 1.0 | number of \
         skipped iterations:   0 | number of nan iterations:   0 |\n"
    )
}

/// The times of the first case of each record, in milliseconds, with its heading.
fn trials(text: &str) -> Vec<(String, Vec<f64>)> {
    let trials_of = |results: &import::Results| {
        let times = results.shapes()[0].1.iter().map(|figures| (figures.time_s * 1e4).round() / 10.0).collect();
        (results.facts.get("heading").cloned().unwrap_or_default(), times)
    };
    let given = source(text).with_given("ranks", "8");
    read(&given).unwrap().iter().map(trials_of).collect()
}

fn times(text: &str) -> Vec<Vec<f64>> {
    trials(text).into_iter().map(|(_, times)| times).collect()
}

fn why(text: &str) -> String {
    read(&source(text).with_given("ranks", "8")).unwrap_err().to_string()
}

#[test]
fn what_stands_between_two_runs_makes_them_different() {
    let (slow, quick) = (start(8, 8192) + &steps("4,096"), start(8, 8192) + &steps("8,192"));
    assert_eq!(times(&format!("{slow}{quick}")), [[2000.0, 1000.0]], "a second start of the same job is a trial");
    for between in [
        "## with torch.compile\n",
        "**with torch.compile**\n",
        "with torch.compile:\n",
        "```\n\n```\n",
        "$ NCCL_ALGO=Tree torchrun --nproc-per-node 8 train.py\n",
        "+ torchrun --nproc-per-node 8 \\\n train.py --compile\n",
        "export NCCL_ALGO=Tree\n",
        "+ export NCCL_ALGO=Tree\n+ torchrun --nproc-per-node 8 train.py\n",
        "=== second ===\n",
    ] {
        assert_eq!(times(&format!("## before\n{slow}{between}{quick}")), [[2000.0], [1000.0]], "{between}");
    }
    // Other ranks, another sequence, another model, another way to run it.
    let titled = |text: &str| text.replace("llama3 8B", "llama3 70B");
    let applied =
        "[titan] 2026-05-04 10:00:00,000 - root - INFO - Compiling each TransformerBlock with torch.compile\n";
    let applied_fsdp =
        applied.replace("Compiling each TransformerBlock with torch.compile", "Applied FSDP to the model");
    let full =
        applied.replace("Compiling each TransformerBlock with torch.compile", "Applied full activation checkpointing");
    let with = |checkpointing: &str, run: &str| format!("{}{applied_fsdp}{run}", full.replace("full", checkpointing));
    assert_eq!(times(&(with("full", &slow) + &with("selective", &quick))), [[2000.0], [1000.0]]);
    assert_eq!(times(&(with("full", &slow) + &with("full", &quick))), [[2000.0, 1000.0]]);
    for other in [
        start(16, 8192) + &steps("8,192"),
        start(8, 16384) + &steps("16,384"),
        titled(&quick),
        format!("{applied}{quick}"),
        format!("{applied}{applied_fsdp}{quick}"),
    ] {
        assert_eq!(times(&format!("{slow}{other}")), [[2000.0], [1000.0]], "{other}");
    }
    let command = "+ torchrun --nproc-per-node 8 train.py\n";
    let tree = "+ export NCCL_ALGO=Tree\n";
    assert_eq!(times(&format!("{command}{slow}{command}{quick}")), [[2000.0, 1000.0]]);
    assert_eq!(times(&format!("{command}{slow}{tree}{command}{quick}")), [[2000.0], [1000.0]]);
    // Messages of libraries are not a person's words.
    let noise = "NCCL version 2.27.5+cuda12.9\n[rank0]: W1125 19:44:46 x\n";
    assert_eq!(times(&format!("{slow}{noise}{quick}")), [[2000.0, 1000.0]]);
}

#[test]
fn headings_name_the_records() {
    let (slow, quick) = (steps("4,096"), steps("8,192"));
    let text = format!(
        "# Debug\n## Upstream\n```\n{slow}```\n## Branch\n```\n{quick}```\n# 16B\n## Upstream\n```\n{slow}```\n## Branch\n\n{quick}"
    );
    // Without a batch, the times of lines tell: 10 steps in 10 s.
    let headings: Vec<String> = trials(&text).into_iter().map(|(heading, _)| heading).collect();
    let expected = ["Debug / Upstream", "Debug / Branch", "16B / Upstream", "16B / Branch"].map(str::to_owned);
    assert_eq!(headings, expected);
}

#[test]
fn runs_of_megatron_are_told_apart_by_their_arguments() {
    let run = |tensor: u32, ms: &str| {
        format!(
            "------------------------ arguments ------------------------\n  rank ............................................ \
             {tensor}\n  tensor_model_parallel_size ...................... {tensor}\n  world_size \
             ...................................... 8\n-------------------- end of arguments ---------------------\n{}{}",
            megatron(1, "9000.0"),
            megatron(2, ms)
        )
    };
    let same = run(8, "2000.0")
        + &run(8, "1000.0").replace(
            "  rank ............................................ 8",
            "  rank ............................................ 3",
        );
    assert_eq!(times(&same), [[2000.0, 1000.0]]);
    let other = run(8, "2000.0") + &run(4, "1000.0");
    assert_eq!(times(&other), [[2000.0], [1000.0]]);
    let told = |results: &import::Results| results.facts["tensor_model_parallel_size"].clone();
    assert_eq!(read(&source(&other)).unwrap().iter().map(told).collect::<Vec<_>>(), ["8", "4"]);
    // A step that goes back, with nothing between, is the same job again.
    let plain = megatron(1, "9000.0") + &megatron(2, "2000.0");
    assert_eq!(times(&format!("{plain}{}", plain.replace("2000.0", "1000.0"))), [[2000.0, 1000.0]]);
    let timers = "    forward-backward ...............................: (3032.1, 3033.2)\n    optimizer ..............: (1.0, 2.0)\n";
    assert_eq!(times(&format!("{}{timers}{}", megatron(1, "9000.0"), megatron(2, "2000.0"))), [[2000.0]]);
}

#[test]
fn files_that_grep_puts_together_are_apart() {
    let of = |file: &str, text: &str| text.lines().map(|line| format!("{file}:{line}\n")).collect::<String>();
    let (slow, quick) = (start(8, 8192) + &steps("4,096"), start(8, 8192) + &steps("8,192"));
    let text = of("a/slow.log", &slow) + &of("a/quick.log", &quick);
    assert_eq!(trials(&text), [("a/slow.log".to_owned(), vec![2000.0]), ("a/quick.log".to_owned(), vec![1000.0])]);
}

#[test]
fn programs_that_wrote_at_once_are_refused() {
    let mixed = |text: &str| {
        let why = why(text);
        assert!(why.contains("separate programs wrote here at once") && why.contains("lines are mixed"), "{why}");
        assert!(why.contains("line "), "{why}");
    };
    let (first, second) = (steps("4,096"), steps("8,192"));
    mixed(&first.lines().zip(second.lines()).map(|(a, b)| format!("{a}\n{b}\n")).collect::<String>());
    let line = |step| megatron(step, "100.0");
    mixed(&[11, 12, 1, 13, 2, 14, 3].map(line).concat());
    mixed(&[50, 1, 51, 2, 52, 3].map(line).concat());
    // With their ranks they are two ranks of one program.
    let two: String = ["[rank0]:", "[rank1]:"].map(|rank| titan(rank, 1, 1, "445")).concat()
        + &["[rank0]:", "[rank1]:"].map(|rank| titan(rank, 11, 10, "4,096")).concat()
        + &["[rank1]:", "[rank0]:"].map(|rank| titan(rank, 21, 20, "4,096")).concat();
    assert_eq!(times(&format!("{}{two}", start(8, 8192))), [[2000.0]]);
    let nodes = two.replace("[rank0]:", "0: [rank0]:").replace("[rank1]:", "1: [rank0]:");
    assert_eq!(times(&format!("{}{nodes}", start(8, 8192))), [[2000.0]]);
    let numbered = two.replace("[rank0]:", "0: ").replace("[rank1]:", "1: ");
    assert_eq!(times(&format!("{}{numbered}", start(8, 8192))), [[2000.0]]);
    mixed(&two.replace("[rank1]:", "[rank0]:"));
}

#[test]
fn programs_whose_steps_rise_together_are_refused() {
    // Steps 10, 20, 30 of one program and 15, 25, 35 of another, each of one second.
    let line = |second: u32, step: u32| titan("", second, step, "8,192");
    let with = |later: u32, other: fn(String) -> String| -> String {
        let pair = |at: u32| line(10 * at, 10 * at) + &other(line(10 * at + later, 10 * at + 5));
        start(8, 8192) + &(1..=5).map(pair).collect::<String>()
    };
    let mixed = |text: &str, what: &str| {
        let why = why(text);
        assert!(why.contains("separate programs wrote here at once") && why.contains(what), "{why}");
    };
    assert_eq!(times(&with(5, |line| line)), [[1000.0]], "one program, each five steps");
    mixed(&with(5, |line| line.replace("8.1661", "8.9123")), "line 5: ");
    mixed(&with(5, |line| line.replace("8.1661", "8.9123")), "the loss of every other line");
    mixed(&with(5, |line| line.replace("2.47GiB", "3.10GiB")), "the memory of every other line");
    mixed(&with(0, |line| line), "5 lines follow in less than half of the time that the steps between them take");
    // Few lines, or a loss that falls, are those of one.
    let falling: String =
        (1..=9).map(|at| line(5 * at, 5 * at).replace("8.1661", &format!("8.{}661", 10 - at))).collect();
    assert_eq!(times(&(start(8, 8192) + &falling)), [[1000.0]]);
}

#[test]
fn lines_that_a_terminal_cut_give_no_shorter_number() {
    let logs = [
        start(8, 8192) + &steps("4,096") + &titan("", 31, 30, "4,100") + &titan("", 41, 40, "4,104"),
        "  world_size ...................................... 8\n  seq_length ...................................... 4096\n"
            .to_owned()
            + &[(1, "13035.3"), (2, "12137.8"), (3, "12068.8"), (4, "12036.3")].map(|(at, ms)| megatron(at, ms)).concat(),
    ];
    for text in logs {
        let all: Vec<f64> = times(&text).concat();
        let longest = text.lines().map(str::len).max().unwrap();
        for width in 20..longest {
            let cut: String = text.lines().map(|line| format!("{}\n", &line[..line.len().min(width)])).collect();
            let Ok(results) = read(&source(&cut).with_given("ranks", "8")) else { continue };
            for (shape, figures) in results.iter().flat_map(import::Results::shapes) {
                let time = figures[0].time_s * 1e3;
                assert!((time / all[0] - 1.0).abs() < 0.01 || time == 1000.0, "{width}: {time} of {all:?}");
                assert!(
                    shape.fields.iter().all(|(name, value)| *name != "sequence" || value.len() == 4),
                    "{width}: {shape:?}"
                );
            }
        }
    }
    // Some lines are cut, and some are not.
    let text = megatron(1, "9000.0") + &megatron(2, "2000.0") + &megatron(3, "2000.0")[..120] + "\n";
    let results = read(&source(&text).with_given("ranks", "8")).unwrap().remove(0);
    assert!(results.all_omitted()[0].starts_with("line 3: the line is cut"), "{:?}", results.all_omitted());
    let why = why(&(megatron(1, "9000.0")[..120].to_owned() + "\n"));
    assert!(why.contains("line 1: the line is cut"), "{why}");
    // A length of the sequence at the edge of the terminal.
    let cut = start(8, 8192).replace("8192, total steps 40 (warmup 8)", "81") + &steps("4,096");
    let results = read(&source(&cut)).unwrap().remove(0);
    assert!(results.shapes()[0].0.fields.iter().all(|(name, _)| *name != "sequence"), "{results:?}");
    assert!(results.all_omitted()[0].starts_with("line 3: "), "{:?}", results.all_omitted());
}

#[test]
fn commas_and_impossible_figures_are_refused_with_their_line() {
    let titan = start(8, 8192) + &steps("4,096");
    let megatron = format!("  world_size ........ 8\n{}{}", megatron(1, "9000.0"), megatron(2, "2000.0"));
    for (text, line, words) in [
        (titan.replace("mfu: 9.72%", "mfu: 9,72%"), 4, "`9,72`"),
        (titan.replace("mfu: 9.72%", "mfu: 257%"), 4, "257"),
        (titan.replace("2.47GiB", "2,47GiB"), 4, "`2,47`"),
        (titan.replace("2.47GiB", "2047GiB"), 4, "2047 GiB"),
        (titan.replace("(3.12%)", "(312%)"), 4, "312%"),
        (titan.replace("3.6855", "3,6855"), 4, "`3,6855`"),
        (titan.replace("loss:  8.1661", "loss:  8,1661"), 4, "`8,1661`"),
        (titan.replace("1,203.52", "1203,52"), 4, "`1203,52`"),
        (titan.replace("tps: 4,096", "tps: 4,0"), 5, "`4,0`"),
        (megatron.replace("2000.0", "2000,0"), 3, "`2000,0`"),
        (megatron.replace("1.5E-05", "1,5E-05"), 2, "`1,5E-05`"),
    ] {
        let why = why(&text);
        assert!(why.contains(&format!("line {line}: ")) && why.contains(words), "{words}: {why}");
    }
    // A loss may be anything.
    assert_eq!(times(&titan.replace("loss:  8.1661", "loss:  nan")), [[2000.0]]);
    assert_eq!(times(&megatron.replace("1.0E+01", "inf")), [[2000.0]]);
}

#[test]
fn times_of_lines_count_from_the_first_line() {
    let lines: String =
        [(0, 200), (15, 210), (29, 220), (43, 230)].map(|(at, step)| titan("", at, step, "5,856")).concat();
    // 1.5, 1.4, 1.4 s: the first line alone has no time.
    assert_eq!(times(&lines), [[1400.0]]);
    let results = read(&source(&lines).with_given("ranks", "8")).unwrap().remove(0);
    assert_eq!(results.shapes()[0].1[0].iterations, Some(3));
    assert!(results.notes.iter().any(|note| note.starts_with("the first line of each run has no time of a step")));
    assert!(!results.notes.iter().any(|note| note.contains("left out")), "{:?}", results.notes);
}

#[test]
fn a_rounded_rate_gives_way_to_the_times_of_lines() {
    // 8192 tokens a rank in 510 s are 16.06 a second; the program prints 16.
    let steps: String = (1..=4).map(|step| titan("", 90 + 510 * step, step, "16")).collect();
    let text = start(8, 8192) + &steps;
    assert_eq!(times(&text), [[510_000.0]]);
    let results = read(&source(&text)).unwrap().remove(0);
    let (shape, figures) = &results.shapes()[0];
    assert!(shape.fields.contains(&("global_batch", "8".into())), "{shape:?}");
    let metrics = &figures[0].details.as_ref().unwrap().metrics;
    let rate = metrics.iter().find(|(name, _)| *name == "tokens_per_s_per_rank").unwrap().1;
    assert!((rate - 8192.0 / 510.0).abs() < 1e-9, "{metrics:?}");
    assert!(results.notes.iter().any(|note| note.contains("times by it may be off by 3.1%")), "{:?}", results.notes);
    // Without the times of lines nothing is more exact.
    let bare: String = steps.lines().map(|line| format!("{}\n", &line[line.find("step: ").unwrap()..])).collect();
    let results = read(&source(&(start(8, 8192) + &bare))).unwrap().remove(0);
    assert_eq!(results.shapes()[0].1[0].time_s, 512.0);
    assert!(results.notes.iter().any(|note| note.ends_with("may be off by 3.1%")), "{:?}", results.notes);
    // Whole seconds may be worse: 1 of 10 s, where 70 tokens a second may be 69.5.
    let short: String = (1..=4).map(|step| titan("", 10 * step, step, "70")).collect();
    let results = read(&source(&(start(8, 700) + &short))).unwrap().remove(0);
    assert_eq!(results.shapes()[0].1[0].time_s, 10.0);
    assert!(results.notes.iter().any(|note| note.ends_with("may be off by 0.7%")), "{:?}", results.notes);
}

#[test]
fn ranks_without_the_loss_do_not_hide_it() {
    // Rank 0 has the first stage of a pipeline, and rank 1 the last.
    let lines = |of_first: &str, ranks: [usize; 2]| {
        let of = |rank: usize, at: u32, step: u32| match rank {
            0 => titan("[rank0]:", at, step, of_first).replace("loss:  8.1661", "loss: -1.0000"),
            _ => titan("[rank1]:", at, step, "4,096"),
        };
        let pair = |step: u32| ranks.map(|rank| of(rank, 20 * step, step)).concat();
        start(8, 8192) + &(1..=3).map(pair).collect::<String>()
    };
    let loss = |text: &str| {
        let results = read(&source(text)).unwrap().remove(0);
        let metrics = &results.shapes()[0].1[0].details.as_ref().unwrap().metrics;
        metrics.iter().find(|(name, _)| *name == "loss").map(|(_, value)| *value)
    };
    for of_first in ["4,000", "4,096", "4,200"] {
        for ranks in [[0, 1], [1, 0]] {
            assert_eq!(loss(&lines(of_first, ranks)), Some(8.1661), "{of_first}, {ranks:?}");
        }
    }
    let both = lines("4,096", [0, 1]);
    let of_first = both.lines().filter(|line| !line.starts_with("[rank1]"));
    assert_eq!(loss(&of_first.map(|line| format!("{line}\n")).collect::<String>()), None);
}

#[test]
fn commands_tell_the_number_of_ranks() {
    let run = steps("4,096");
    let text = format!("$ torchrun --nnodes 2 \\\n  --nproc-per-node 4 train.py\n{run}");
    let results = read(&source(&text)).unwrap().remove(0);
    assert!(results.shapes()[0].0.fields.contains(&("ranks", "8".into())), "{results:?}");
    // The next run under a heading has not that command.
    assert!(refusal(&format!("{text}## other\n{run}")).contains("does not say how many ranks ran"));
}

#[test]
fn torchtitan_of_other_years() {
    let at = "2026-05-04 10:00:00,000 - root - INFO -";
    let tokens = format!(
        "{at} Trainer is initialized with 8192 tokens per DP rank, 65536 tokens per train step, gradient accumulation steps 1, \
         maximum context length 8192, total steps 40 (warmup 8)\n"
    );
    assert_eq!(times(&(tokens + &steps("4,096"))), [[2000.0]]);
    let quantized = start(8, 8192) + &steps("4,096").replace("mfu: 9.72%", "mfu: N/A");
    assert_eq!(times(&quantized), [[2000.0]]);
    // In March 2024, `peak_memory` was a share.
    let old = format!("{at} step: 10  loss: 8.1000  wps:  4,096  peak_memory: 81.5%\n");
    let text = start(8, 8192) + &old + &old.replace("step: 10", "step: 20");
    let results = read(&source(&text)).unwrap().remove(0);
    let metrics = &results.shapes()[0].1[0].details.as_ref().unwrap().metrics;
    assert!(metrics.iter().all(|(name, _)| *name != "reserved_bytes"), "{metrics:?}");
}

#[test]
fn a_trainer_and_the_library_below_it_are_one_training() {
    let steps = sample("megatron", "eight_ranks.txt");
    let timer = "[2023-11-07 01:55:23,714] [INFO] [timer.py:260:stop] epoch=0/micro_step=40/global_step=10, RunningAvgSamplesPerSec=25.02, CurrSamplesPerSec=25.70, MemAllocated=4.32GB, MaxMemAllocated=38.49GB\n";
    let both = one(&format!("{steps}{timer}"));
    let program = &both.shapes()[0].0.fields[0];
    assert_eq!((program.0, program.1.as_ref()), ("program", "megatron"));
    let told = "steps that deepspeed printed of the same training: `--format deepspeed` reads those";
    assert!(both.all_omitted().iter().any(|what| what == told), "{:?}", both.all_omitted());
}
