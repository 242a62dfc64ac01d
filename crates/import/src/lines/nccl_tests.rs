//! Options of nccl-tests and of the OSU benchmarks on `comm`, rewritten as ours. Their `128M` is 128 MiB, and so it is here.

mod options;
mod sizes;

use std::ffi::OsString;

use terms::{Collective, Dtype, Error, Named, Reduce, normalize};

use options::{GivenOption, Meaning, Theirs, given, is_attached};

/// The hidden option that carries the note on how options were read.
pub const READ_AS: &str = "read-as";

/// The arguments with options of others as ours. `-n` alone is left as it is: it could be mpirun's.
///
/// # Errors
/// What cannot be said with our options, or is said twice.
pub(super) fn rewritten(arguments: Vec<OsString>) -> Result<Vec<OsString>, Error> {
    let words: Option<Vec<&str>> = arguments.iter().map(|argument| argument.to_str()).collect();
    let Some(words) = words.filter(|words| words.get(1) == Some(&"comm")) else { return Ok(arguments) };
    let is_theirs = |word: &&str| given(word).is_some_and(|given| given.name != "-n");
    if !words.iter().skip(2).take_while(|word| **word != "--").any(is_theirs) {
        return Ok(arguments);
    }
    let mut line = Line { kept: words[..2].iter().map(|word| (*word).to_owned()).collect(), ..Line::default() };
    let mut rest = words[2..].iter().copied().peekable();
    while let Some(word) = rest.next() {
        let Some(GivenOption { name, option, value }) = given(word) else {
            line.kept.push(word.to_owned());
            continue;
        };
        let is_own = |next: &&str| next.starts_with("--") || given(next).is_some() && !is_attached(next);
        let value = value.or_else(|| rest.next_if(|next| !is_own(next)));
        let Some(value) = value else {
            return Err(Error::new(format!("`{name}` has no value")).hint(format!("{name} is an option of nccl-tests")));
        };
        line.take(&words, (name, option, value))?;
    }
    Ok(line.into_words()?.into_iter().map(OsString::from).collect())
}

/// What becomes of a line.
#[derive(Default)]
struct Line {
    kept: Vec<String>,
    /// Options that say sizes, by their short names, each as written and with its value.
    sizes: Vec<(&'static str, String, String)>,
    /// Threads, and GPUs of each: their product are the ranks.
    threads: Option<String>,
    gpus: Option<String>,
    root_is_any: bool,
    notes: Vec<String>,
}

impl Line {
    fn take(&mut self, words: &[&str], (name, option, value): (&str, &'static Theirs, &str)) -> Result<(), Error> {
        match option.meaning {
            Meaning::Ours(ours) => {
                refuse_both(words, (name, option), ours)?;
                match (ours, value) {
                    ("--root", "all") => self.root_is_any = true,
                    ("--dtype", "all") => {
                        let types = self.all_types(words, name);
                        self.kept.extend([ours.to_owned(), types]);
                    }
                    _ => self.kept.extend([ours.to_owned(), all_of(ours, value)]),
                }
            }
            Meaning::Threads | Meaning::Gpus => {
                refuse_both(words, (name, option), "--ranks")?;
                let of = if matches!(option.meaning, Meaning::Gpus) { &mut self.gpus } else { &mut self.threads };
                *of = Some(value.to_owned());
            }
            Meaning::Size => {
                refuse_both(words, (name, option), "--bytes")?;
                self.sizes.push((option.short, name.to_owned(), value.to_owned()));
            }
            Meaning::Seconds(_) if value == "0" => {
                self.notes.push(format!("`{name} 0` is ignored: a case has a timeout"))
            }
            Meaning::Seconds(ours) => {
                refuse_both(words, (name, option), ours)?;
                self.kept.extend([ours.to_owned(), format!("{value}s")]);
            }
            Meaning::OnGpus(ours, value_of, _) if on_gpus(words) => match value_of(value) {
                Some(meant) => {
                    refuse_both(words, (name, option), ours)?;
                    self.notes.push(format!("`{name} {value}` is read as `{ours} {meant}`"));
                    self.kept.extend([ours.to_owned(), meant]);
                }
                None if value == "0" => {}
                None => return Err(Error::new(format!("`{name} {value}` is not a value of nccl-tests"))),
            },
            Meaning::OnGpus(_, _, why) | Meaning::Nothing(why) => {
                self.notes.push(format!("`{name} {value}` is ignored: {why}"))
            }
        }
        Ok(())
    }

    /// Every type that the operations take.
    fn all_types(&mut self, words: &[&str], name: &str) -> String {
        let operations: Vec<Collective> = words[2..].iter().flat_map(|word| word.split(',')).filter_map(op).collect();
        let only_move = !operations.is_empty() && operations.iter().all(|op| !op.reduces());
        let (taken, left_out): (Vec<Dtype>, Vec<Dtype>) =
            Dtype::ALL.iter().partition(|dtype| only_move || dtype.reduces());
        let list = |types: Vec<Dtype>| types.into_iter().map(Named::name).collect::<Vec<_>>().join(",");
        if !left_out.is_empty() {
            let what = list(left_out);
            self.notes.push(format!("`{name} all` is read without {what}: sums of these are not exact here"));
        }
        list(taken)
    }

    fn into_words(mut self) -> Result<Vec<String>, Error> {
        self.add_ranks()?;
        self.add_sizes()?;
        if !self.notes.is_empty() {
            self.kept.extend([format!("--{READ_AS}"), self.notes.join("; ")]);
        }
        Ok(self.kept)
    }

    fn add_ranks(&mut self) -> Result<(), Error> {
        let (threads, gpus) = (self.threads.take(), self.gpus.take());
        let ranks = match (&threads, gpus) {
            (None, None) => None,
            (Some(threads), None) => Some(threads.clone()),
            (None, Some(gpus)) => Some(gpus),
            (Some(threads), Some(gpus)) => {
                let product = || Some(threads.parse::<u32>().ok()?.checked_mul(gpus.parse().ok()?)?.to_string());
                let wrong = || Error::new(format!("`-t {threads} -g {gpus}` are not two numbers")).hint("--ranks 4");
                Some(product().ok_or_else(wrong)?)
            }
        };
        // What they have without these options, and what each process of mpirun is given.
        let ranks = match ranks {
            Some(one) if one == "1" => {
                self.notes.push(
                    "one GPU of each process: the number of ranks is that of the launcher or of `--ranks`".into(),
                );
                None
            }
            ranks => ranks,
        };
        if let Some(threads) = threads.filter(|threads| threads != "1") {
            let ranks = ranks.as_deref().unwrap_or_default();
            self.notes.push(format!("`-t {threads}`: {ranks} ranks, each a process of its own"));
        }
        self.kept.extend(ranks.iter().flat_map(|ranks| ["--ranks".to_owned(), ranks.clone()]));
        if self.root_is_any {
            let ranks = ranks.or_else(|| value_of(&self.kept, "--ranks")).unwrap_or_else(|| "2".to_owned());
            let roots = (0..ranks.parse::<u32>().unwrap_or(1).clamp(1, 1024)).map(|root| root.to_string());
            self.kept.extend(["--root".to_owned(), roots.collect::<Vec<_>>().join(",")]);
        }
        Ok(())
    }

    fn add_sizes(&mut self) -> Result<(), Error> {
        self.sizes_of_aggregation();
        if self.sizes.is_empty() {
            return Ok(());
        }
        let sizes: Vec<(&str, &str)> = self.sizes.iter().map(|(short, _, value)| (*short, value.as_str())).collect();
        let bytes = sizes::bytes(&sizes)?;
        let given: Vec<String> = self.sizes.iter().map(|(_, name, value)| format!("{name} {value}")).collect();
        self.notes
            .insert(0, format!("`{}` is read as `--bytes {bytes}`: K, M and G are powers of 1024", given.join(" ")));
        self.kept.extend(["--bytes".to_owned(), bytes]);
        Ok(())
    }

    /// `-m 1` among sizes of nccl-tests: operations in one group, where the OSU benchmarks have sizes.
    fn sizes_of_aggregation(&mut self) {
        let is_of_nccl = self.sizes.iter().any(|(short, ..)| *short != "-m");
        let is_group = |(short, _, value): &(&str, String, String)| *short == "-m" && value.parse::<u32>().is_ok();
        if let Some(at) = self.sizes.iter().position(is_group).filter(|_| is_of_nccl) {
            let (_, name, value) = self.sizes.remove(at);
            self.notes.push(format!("`{name} {value}` is ignored: {}", options::NO_GROUPS));
        }
    }
}

/// Whether a line says that its ranks are native ranks on GPUs.
fn on_gpus(words: &[&str]) -> bool {
    let has = |wanted: &str| words.join(" ").replace('=', " ").contains(wanted);
    (has("--backend nccl") || has("--device cuda")) && !has("--runtime pytorch") && !has("--python ")
}

/// The value behind an option.
fn value_of(words: &[String], option: &str) -> Option<String> {
    let inline = || words.iter().find_map(|word| word.strip_prefix(option)?.strip_prefix('=').map(str::to_owned));
    words.windows(2).find(|pair| pair[0] == option).map(|pair| pair[1].clone()).or_else(inline)
}

fn refuse_both(words: &[&str], (name, option): (&str, &'static Theirs), ours: &str) -> Result<(), Error> {
    let same = |word: &&&str| given(word).is_some_and(|given| std::ptr::eq(given.option, option));
    let is_ours = |word: &&str| **word == *ours || word.strip_prefix(ours).is_some_and(|rest| rest.starts_with('='));
    if words.iter().filter(same).count() > 1 || words.iter().any(is_ours) {
        let what = format!("`{name}` means `{ours}`, which is given twice");
        return Err(Error::new(what).hint("leave one of them out"));
    }
    Ok(())
}

/// The operation that a word names: `all_reduce`, `AllReduce`.
fn op(word: &str) -> Option<Collective> {
    let letters = |word: &str| normalize(word).replace('_', "");
    Collective::ALL.iter().copied().find(|op| letters(op.name()) == letters(word))
}

/// `all` is each operator.
fn all_of(ours: &str, value: &str) -> String {
    match (ours, value) {
        ("--reduce", "all") => Reduce::names().join(","),
        _ => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<Vec<String>, String> {
        let arguments =
            rewritten(line.split(' ').map(OsString::from).collect()).map_err(|failure| failure.to_string())?;
        Ok(arguments.into_iter().map(|word| word.into_string().unwrap()).collect())
    }

    fn after(line: &str) -> Result<String, String> {
        let words = words(line)?;
        let end = words.iter().position(|word| word == "--read-as").unwrap_or(words.len());
        Ok(words[..end].join(" "))
    }

    #[test]
    fn options_of_other_tests_are_ours() {
        for (given, expected) in [
            ("-b 8 -e 128M -f 2 -g 4", "--ranks 4 --bytes 8..128MiB*2"),
            ("-b 1k -e 1K", "--bytes 1KiB"),
            ("-b 4G -n 20 -w 5", "--iters 20 --warmup 5 --bytes 4GiB"),
            ("-o max -d half -r 1 --ranks 2", "--reduce max --dtype half --root 1 --ranks 2"),
            ("-o all -b 8", "--reduce sum,prod,min,max,avg --bytes 8"),
            ("-m 4:1M --quiet", "--quiet --bytes 4..1MiB*2"),
            ("-m 65536", "--bytes 4..64KiB*2"),
            ("-b 100MB", "--bytes 100MB"),
            ("-b8 -e128M -f2 -g4 -n20", "--iters 20 --ranks 4 --bytes 8..128MiB*2"),
            ("--minbytes=8 --maxbytes 1M --stepfactor=4 --ngpus 2", "--ranks 2 --bytes 8..1MiB*4"),
            (
                "--warmup_iters 5 --op prod --datatype=float -g 1 -t 4",
                "--warmup 5 --reduce prod --dtype float --ranks 4",
            ),
            ("-b 1M -e 4M -i 1M", "--bytes 1MiB,2MiB,3MiB,4MiB"),
            ("-b 8 -e 16 -i 4 -f 2", "--bytes 8..16*2"),
            ("-t 2 -g 3", "--ranks 6"),
            ("-g 1 -t 1", ""),
            ("-b 8 -g 1", "--bytes 8"),
            ("-T 30 -b 8", "--timeout 30s --bytes 8"),
            ("-r all -g 3", "--ranks 3 --root 0,1,2"),
            ("-b 8 -m 4", "--bytes 8"),
            ("-c 1 --iters 3", "--iters 3"),
            // mpirun's, as far as is known.
            ("-n 4", "-n 4"),
            ("--iters 3 --root 1 --timeout 3s", "--iters 3 --root 1 --timeout 3s"),
        ] {
            let line = format!("rankmark comm all_reduce {given}");
            assert_eq!(
                after(&line),
                Ok(format!("rankmark comm all_reduce {expected}").trim_end().to_owned()),
                "{given}"
            );
        }
        let types = "f32,f64,f16,bf16,i8,i32,i64,u8,u32,u64";
        for (operations, more) in [
            ("all_reduce", ""),
            ("all_gather,ReduceScatter", ""),
            ("all_gather", ",f8e4m3,f8e5m2"),
            ("all-to-all,broadcast", ",f8e4m3,f8e5m2"),
        ] {
            let given = words(&format!("rankmark comm {operations} -d all")).unwrap();
            assert_eq!(given[3..5], ["--dtype".to_owned(), format!("{types}{more}")], "{operations}");
            let noted = given.iter().any(|word| word.contains("`-d all` is read without f8e4m3,f8e5m2: "));
            assert_eq!(noted, more.is_empty(), "{operations}");
        }
        assert_eq!(after("rankmark pack dir -o x"), Ok("rankmark pack dir -o x".to_owned()));
        for (wrong, words) in [
            ("-b 8 -e 1M", "add `-f 2`, or write `--bytes 8..1MiB*2`"),
            ("-e 1M", "one is missing"),
            ("-b 8 -f 2", "one is missing"),
            ("-b x", "`-b x`: "),
            ("-b 8 --bytes 8", "given twice"),
            ("-b 8 -b 16", "given twice"),
            ("-b 8 --minbytes 16", "given twice"),
            ("-g 2 --ranks=4", "given twice"),
            ("-m 1:2 -b 8", "use one of both"),
            ("-b 1 -e 1M -i 1", "is a list of 1048576 sizes"),
            ("-b 8 -c", "`-c` has no value"),
        ] {
            let error = after(&format!("rankmark comm all_reduce {wrong}")).unwrap_err();
            assert!(error.contains(words), "{wrong}: {error}");
        }
    }

    #[test]
    fn every_other_option_is_ignored_with_its_reason() {
        for option in options::TABLE.iter().filter(|option| matches!(option.meaning, Meaning::Nothing(_))) {
            for name in option.longs.iter().map(|long| format!("--{long}")).chain([option.short.to_owned()]) {
                if name.is_empty() {
                    continue;
                }
                let words = words(&format!("rankmark comm all_reduce {name} 1")).unwrap();
                assert_eq!(words[..4], ["rankmark", "comm", "all_reduce", "--read-as"], "{name}");
                assert!(words[4].starts_with(&format!("`{name} 1` is ignored: ")), "{words:?}");
            }
        }
    }
}
