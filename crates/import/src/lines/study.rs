//! The flags of the all-reduce study (`--num-processes 2 4 --data-sizes 10 100`) on `comm`, rewritten as ours. What a flag
//! became is a note of the plan.

use std::ffi::OsString;

use terms::Error;

use super::nccl_tests::READ_AS;

/// The hidden option that names the CSV file of the study.
pub const STUDY_CSV: &str = "study-csv";

/// The study's own flags: one of them says that the line is the study's. `--output`, `--device` and `--backend` go with them.
const OWN: [&str; 5] = ["--num-processes", "--data-sizes", "--num-warmup", "--num-iters", "--master-port"];

/// What the study measures where its flags do not say.
const PROCESSES: [&str; 3] = ["2", "4", "6"];
const MEGABYTES: [&str; 4] = ["1", "10", "100", "1000"];
/// Trials that the study's iterations are spread over: as many as an interval needs.
const TRIALS: u64 = stats::FEWEST_TRIALS as u64;

/// The arguments with the study's flags as ours. `devices` is the number of GPUs of this machine.
///
/// # Errors
/// A flag without its value, a value that is not a number, or no number of processes that this machine has devices for.
pub(super) fn rewritten(arguments: Vec<OsString>, devices: fn() -> usize) -> Result<Vec<OsString>, Error> {
    let words: Option<Vec<String>> = arguments.iter().map(|word| word.to_str().map(str::to_owned)).collect();
    let is_own = |word: &String| OWN.contains(&word.split('=').next().unwrap_or_default());
    let Some(words) = words.filter(|words| words.get(1).is_some_and(|word| word == "comm") && words.iter().any(is_own))
    else {
        return Ok(arguments);
    };
    let mut study = Study::default();
    let mut kept = words[..2].to_vec();
    let mut rest = words[2..].iter().flat_map(|word| split(word)).peekable();
    while let Some(word) = rest.next() {
        let mut values = Vec::new();
        let several = matches!(word.as_str(), "--num-processes" | "--data-sizes");
        if several || ["--device", "--output"].contains(&word.as_str()) || is_own(&word) {
            while let Some(value) = rest.next_if(|next| !is_option(next) && (several || values.is_empty())) {
                values.push(value);
            }
            if values.is_empty() {
                return Err(
                    Error::new(format!("`{word}` has no value")).hint("--num-processes 2 4 --data-sizes 10 100")
                );
            }
            study.take(&word, values);
        } else {
            kept.push(word);
        }
    }
    study.add_to(&mut kept, devices)?;
    Ok(kept.into_iter().map(OsString::from).collect())
}

/// Whether a word ends the values of a flag: `-v` does, `-` is a file.
fn is_option(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-')
}

/// `--device=cpu` as two words, where it is a flag of the study.
fn split(word: &str) -> Vec<String> {
    match word.split_once('=') {
        Some((flag, value)) if OWN.contains(&flag) || ["--device", "--output"].contains(&flag) => {
            vec![flag.to_owned(), value.to_owned()]
        }
        _ => vec![word.to_owned()],
    }
}

/// What the flags say.
#[derive(Default)]
struct Study {
    processes: Vec<String>,
    sizes: Vec<String>,
    warmup: Option<String>,
    iterations: Option<String>,
    device: Option<String>,
    output: Option<String>,
    port: Option<String>,
}

impl Study {
    fn take(&mut self, flag: &str, mut values: Vec<String>) {
        let one = values.first().cloned();
        match flag {
            "--num-processes" => self.processes.append(&mut values),
            "--data-sizes" => self.sizes.append(&mut values),
            "--num-warmup" => self.warmup = one,
            "--num-iters" => self.iterations = one,
            "--device" => self.device = one,
            "--output" => self.output = one,
            _ => self.port = one,
        }
    }

    fn add_to(self, kept: &mut Vec<String>, devices: fn() -> usize) -> Result<(), Error> {
        let mut notes = Vec::new();
        // The study has one operation and does not name it.
        if kept.get(2).is_none_or(|word| word.starts_with('-')) {
            kept.insert(2, "all_reduce".to_owned());
        }
        let or = |given: Vec<String>, default: &[&str]| match given.as_slice() {
            [] => default.iter().map(|word| (*word).to_owned()).collect(),
            _ => given,
        };
        let mut processes = or(self.processes, &PROCESSES);
        if matches!(self.device.as_deref(), Some("cuda" | "gpu")) {
            processes = within(processes, devices(), &mut notes)?;
            kept.extend(["--device", "cuda"].map(str::to_owned));
        } else if let Some(device) = self.device {
            kept.extend(["--device".to_owned(), device]);
        }
        let sizes = or(self.sizes, &MEGABYTES);
        for size in &sizes {
            parse_positive(size, "--data-sizes")?;
        }
        let bytes: Vec<String> = sizes.iter().map(|size| format!("{size}MB")).collect();
        notes.push(format!("--data-sizes {} are MB of 1e6 bytes: --bytes {}", sizes.join(" "), bytes.join(",")));
        kept.extend(["--ranks".to_owned(), processes.join(","), "--bytes".to_owned(), bytes.join(",")]);
        if let Some(warmup) = self.warmup {
            kept.extend(["--warmup".to_owned(), warmup]);
        }
        if let Some(iterations) = self.iterations {
            let each = (parse_positive(&iterations, "--num-iters")? as u64).div_ceil(TRIALS).max(1);
            notes.push(format!("--num-iters {iterations} are {TRIALS} trials of {each}: an interval needs trials"));
            kept.extend(["--iters", &each.to_string(), "--trials", &TRIALS.to_string()].map(str::to_owned));
        }
        if let Some(port) = self.port {
            notes.push(format!("--master-port {port} is not needed: ranks meet at a port that is free"));
        }
        if let Some(output) = self.output {
            notes.push(format!(
                "the study's CSV goes to {output}; `rankmark report DIR --layout allreduce-study` writes the rest"
            ));
            kept.extend([format!("--{STUDY_CSV}"), output]);
        }
        kept.extend([format!("--{READ_AS}"), notes.join("; ")]);
        Ok(())
    }
}

fn parse_positive(text: &str, flag: &str) -> Result<f64, Error> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
    number
        .ok_or_else(|| Error::new(format!("`{flag}` takes positive numbers, not `{text}`")).hint("--data-sizes 10 100"))
}

/// The numbers of processes that have a device each.
fn within(processes: Vec<String>, devices: usize, notes: &mut Vec<String>) -> Result<Vec<String>, Error> {
    let fits = |text: &String| text.parse::<usize>().is_ok_and(|number| number <= devices);
    let (kept, cut): (Vec<String>, Vec<String>) = processes.into_iter().partition(fits);
    if kept.is_empty() {
        let what = format!("{} processes need a GPU each, and this machine has {devices}", cut.join(", "));
        return Err(Error::new(what).hint("--backend gloo --device cpu runs the study on the processor"));
    }
    if !cut.is_empty() {
        let gpus = if devices == 1 { "GPU" } else { "GPUs" };
        notes.push(format!("{} processes are left out: this machine has {devices} {gpus}", cut.join(" and ")));
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(line: &str, devices: fn() -> usize) -> Result<(String, String), String> {
        let arguments = line.split(' ').map(OsString::from).collect();
        let arguments = rewritten(arguments, devices).map_err(|failure| failure.to_string())?;
        let words: Vec<String> = arguments.into_iter().map(|word| word.into_string().unwrap()).collect();
        let end = words.iter().position(|word| word == "--read-as").unwrap_or(words.len());
        Ok((words[..end].join(" "), words.get(end + 1).cloned().unwrap_or_default()))
    }

    #[test]
    fn flags_of_the_study_are_ours() {
        let four = || 4;
        for (given, expected) in [
            (
                "all_reduce --backend gloo --device cpu --num-processes 2 4 --data-sizes 10 100",
                "all_reduce --backend gloo --device cpu --ranks 2,4 --bytes 10MB,100MB",
            ),
            (
                "--backend nccl --device cuda --num-warmup 5 --num-iters 100",
                "all_reduce --backend nccl --device cuda --ranks 2,4 --bytes 1MB,10MB,100MB,1000MB --warmup 5 --iters 17 --trials 6",
            ),
            (
                "--data-sizes 1 --num-processes=2 --output a.csv --quiet",
                "all_reduce --quiet --ranks 2 --bytes 1MB --study-csv a.csv",
            ),
            ("--data-sizes 1 --num-processes 2 4 -v", "all_reduce -v --ranks 2,4 --bytes 1MB"),
            ("all_reduce --bytes 1KiB --output-dir x", "all_reduce --bytes 1KiB --output-dir x"),
        ] {
            let (line, _) = after(&format!("rankmark comm {given}"), four).unwrap();
            assert_eq!(line, format!("rankmark comm {expected}"), "{given}");
        }
        let (_, note) = after("rankmark comm --device cuda --num-processes 2 4 6 --master-port 29501", four).unwrap();
        for word in ["6 processes are left out: this machine has 4 GPUs", "--master-port 29501 is not needed"] {
            assert!(note.contains(word), "{note}");
        }
    }

    #[test]
    fn what_the_study_cannot_be_given_is_refused() {
        for (wrong, word) in [
            ("--num-processes 2 4 --device cuda", "this machine has 0"),
            ("--data-sizes x", "not `x`"),
            ("--num-iters 0", "not `0`"),
            ("--num-processes --data-sizes 1", "`--num-processes` has no value"),
        ] {
            let why = after(&format!("rankmark comm all_reduce {wrong}"), || 0).unwrap_err();
            assert!(why.contains(word), "{wrong}: {why}");
        }
    }
}
