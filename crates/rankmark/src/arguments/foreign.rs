//! Options of nccl-tests and of the OSU benchmarks on `comm`, rewritten as ours. Their `128M` is 128 MiB, and so it is here.

use std::ffi::OsString;

use terms::{Bytes, Dtype, Named, Reduce};

use crate::Failure;

/// The hidden option that carries the note on how sizes were read.
pub(crate) const READ_AS: &str = "read-as";

/// Options of others that stand for one of ours each.
const SAME: [(&str, &str); 6] =
    [("-n", "--iters"), ("-w", "--warmup"), ("-g", "--ranks"), ("-o", "--reduce"), ("-d", "--dtype"), ("-r", "--root")];
/// Options of others that say sizes.
const SIZES: [&str; 4] = ["-b", "-e", "-f", "-m"];

/// The arguments with options of others as ours. `-n` alone is left as it is: it could be mpirun's.
///
/// # Errors
/// What cannot be said with our options, or is said twice.
pub(super) fn rewritten(arguments: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
    let words: Option<Vec<&str>> = arguments.iter().map(|argument| argument.to_str()).collect();
    let Some(words) = words.filter(|words| words.get(1) == Some(&"comm")) else { return Ok(arguments) };
    let is_foreign = |word: &str| SIZES.contains(&word) || SAME.iter().any(|(theirs, _)| *theirs == word);
    if !words.iter().any(|word| is_foreign(word) && *word != "-n") {
        return Ok(arguments);
    }
    let (mut kept, mut sizes, mut index) = (Vec::new(), Vec::new(), 0);
    while let Some(word) = words.get(index) {
        match (words.get(index + 1).filter(|_| is_foreign(word)), SAME.iter().find(|(theirs, _)| theirs == word)) {
            (Some(value), Some((theirs, ours))) => {
                refuse_both(&words, theirs, ours)?;
                kept.extend([(*ours).to_owned(), all_of(ours, value)]);
                index += 2;
            }
            (Some(value), None) => {
                refuse_both(&words, word, "--bytes")?;
                sizes.push((*word, *value));
                index += 2;
            }
            (None, _) => {
                kept.push((*word).to_owned());
                index += 1;
            }
        }
    }
    if !sizes.is_empty() {
        let bytes = bytes(&sizes)?;
        let given: Vec<String> = sizes.iter().map(|(option, value)| format!("{option} {value}")).collect();
        let note = format!("`{}` is read as `--bytes {bytes}`: K, M and G are powers of 1024", given.join(" "));
        kept.extend(["--bytes".to_owned(), bytes, format!("--{READ_AS}"), note]);
    }
    Ok(kept.into_iter().map(OsString::from).collect())
}

fn refuse_both(words: &[&str], theirs: &str, ours: &str) -> Result<(), Failure> {
    let twice = words.iter().filter(|word| **word == theirs).count() > 1;
    if twice
        || words.iter().any(|word| *word == ours || word.strip_prefix(ours).is_some_and(|rest| rest.starts_with('=')))
    {
        let what = format!("`{theirs}` means `{ours}`, which is given twice");
        return Err(Failure::new(what).hint("leave one of them out"));
    }
    Ok(())
}

/// `all` is each operator, or each element type.
fn all_of(ours: &str, value: &str) -> String {
    match (ours, value) {
        ("--reduce", "all") => Reduce::names().join(","),
        ("--dtype", "all") => Dtype::names().join(","),
        _ => value.to_owned(),
    }
}

/// The sizes in our spelling.
fn bytes(sizes: &[(&str, &str)]) -> Result<String, Failure> {
    let value = |option: &str| sizes.iter().find(|(name, _)| *name == option).map(|(_, value)| *value);
    let refusal = |what: &str, hint: &str| Err(Failure::new(what).hint(hint));
    match [value("-b"), value("-e"), value("-f"), value("-m")] {
        [None, None, None, Some(range)] => {
            // Without a smallest size the OSU benchmarks begin at one element.
            let (least, most) = range.split_once(':').unwrap_or(("4", range));
            Ok(format!("{}..{}*2", size("-m", least)?, size("-m", most)?))
        }
        [_, _, _, Some(_)] => {
            refusal("`-m` is of the OSU benchmarks, `-b`, `-e` and `-f` are of nccl-tests", "use one of both")
        }
        [Some(begin), Some(end), None, None] if size("-b", begin)? != size("-e", end)? => {
            let hint = format!("add `-f 2`, or write `--bytes {}..{}*2`", size("-b", begin)?, size("-e", end)?);
            refusal("`-b` and `-e` need the factor between sizes", &hint)
        }
        [Some(begin), _, None, None] => size("-b", begin),
        [Some(begin), Some(end), Some(factor), None] => {
            Ok(format!("{}..{}*{factor}", size("-b", begin)?, size("-e", end)?))
        }
        _ => refusal(
            "`-b` is the smallest size, `-e` the largest, `-f` the factor between: one is missing",
            "-b 8 -e 128M -f 2",
        ),
    }
}

/// A size as these programs read it.
fn size(option: &str, text: &str) -> Result<String, Failure> {
    let binary = text.ends_with(['k', 'K', 'm', 'M', 'g', 'G']);
    let whole = if binary { format!("{text}iB") } else { text.to_owned() };
    let parsed = whole.parse::<Bytes>().map(|bytes| bytes.to_string());
    parsed.map_err(|error| Failure::new(format!("`{option} {text}`: {error}")).hint("-b 8 -e 128M -f 2"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(line: &str) -> Result<String, String> {
        let arguments =
            rewritten(line.split(' ').map(OsString::from).collect()).map_err(|failure| failure.to_string())?;
        let words: Vec<String> = arguments.into_iter().map(|word| word.into_string().unwrap()).collect();
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
            // mpirun's, as far as is known.
            ("-n 4", "-n 4"),
        ] {
            let line = format!("rankmark comm all_reduce {given}");
            assert_eq!(after(&line), Ok(format!("rankmark comm all_reduce {expected}")), "{given}");
        }
        assert_eq!(after("rankmark pack dir -o x"), Ok("rankmark pack dir -o x".to_owned()));
        for (wrong, words) in [
            ("-b 8 -e 1M", "add `-f 2`, or write `--bytes 8..1MiB*2`"),
            ("-e 1M", "one is missing"),
            ("-b 8 -f 2", "one is missing"),
            ("-b x", "`-b x`: "),
            ("-b 8 --bytes 8", "given twice"),
            ("-b 8 -b 16", "given twice"),
            ("-g 2 --ranks=4", "given twice"),
            ("-m 1:2 -b 8", "use one of both"),
        ] {
            let error = after(&format!("rankmark comm all_reduce {wrong}")).unwrap_err();
            assert!(error.contains(words), "{wrong}: {error}");
        }
    }
}
