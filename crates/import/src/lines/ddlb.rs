//! The command line of DDLB (`--primitive tp_columnwise -m 1024 --impl "pytorch;backend=nccl"`) on `primitive`, rewritten as a
//! run of its configuration: what each option becomes is said where configurations are read.

use std::ffi::OsString;

use serde_json::{Map, Value, json};
use terms::Error;

/// The hidden option of `run` that has a configuration as text.
pub const DDLB_CONFIG: &str = "ddlb-config";

/// Options that only DDLB has: one of them says that the line is its own.
const OWN: [&str; 5] = ["--impl", "--primitive", "--num-iterations", "--num-warmups", "--output-csv"];
/// Options that both have, with the key of the configuration.
const SHARED: [(&str, &str); 7] =
    [("-m", "m"), ("--m", "m"), ("-n", "n"), ("--n", "n"), ("-k", "k"), ("--k", "k"), ("--dtype", "dtype")];

/// The arguments with DDLB's options as those of `rankmark run`.
///
/// # Errors
/// An option without its value, or no implementation: DDLB has no default.
pub(super) fn rewritten(arguments: Vec<OsString>) -> Result<Vec<OsString>, Error> {
    let words: Option<Vec<String>> = arguments.iter().map(|word| word.to_str().map(str::to_owned)).collect();
    let is_own = |word: &String| OWN.contains(&word.split('=').next().unwrap_or_default());
    let Some(words) =
        words.filter(|words| words.get(1).is_some_and(|word| word == "primitive") && words.iter().any(is_own))
    else {
        return Ok(arguments);
    };
    // What DDLB takes where its options do not say.
    let mut benchmark = json!({"dtype": "float16", "num_iterations": 50, "num_warmups": 5, "validate": true});
    let mut implementations = Map::new();
    let mut kept: Vec<String> = Vec::new();
    let mut rest = words[2..].iter().cloned();
    while let Some(word) = rest.next() {
        let (option, inline) = match word.split_once('=') {
            Some((option, value)) if option.starts_with("--") => (option.to_owned(), Some(value.to_owned())),
            _ => (word.clone(), None),
        };
        let shared = SHARED.iter().find(|(name, _)| *name == option).map(|(_, key)| *key);
        let key = match option.as_str() {
            "--num-iterations" => Some("num_iterations"),
            "--num-warmups" => Some("num_warmups"),
            "--output-csv" => Some("output_csv"),
            "--primitive" => Some("primitive"),
            _ => shared,
        };
        if key.is_none() && option != "--impl" {
            match option.as_str() {
                "--validate" => {}
                // The argument of `primitive`.
                name if !name.starts_with('-') && benchmark.get("primitive").is_none() && kept.is_empty() => {
                    benchmark["primitive"] = values(name);
                }
                _ => kept.push(word),
            }
            continue;
        }
        let value = inline.or_else(|| rest.next()).ok_or_else(|| {
            Error::new(format!("`{option}` has no value")).hint("--impl \"pytorch;backend=nccl;order=AG_before\"")
        })?;
        match key {
            Some(key) => benchmark[key] = values(&value),
            None => add(&mut implementations, &value)?,
        }
    }
    if implementations.is_empty() {
        let what = "DDLB's options need an implementation";
        return Err(Error::new(what).hint("--impl pytorch, and once more for each other implementation"));
    }
    benchmark["implementations"] = Value::Object(implementations);
    let text = json!({ "benchmark": benchmark }).to_string();
    let run = [words[0].clone(), "run".to_owned(), format!("--{DDLB_CONFIG}"), text];
    Ok(run.into_iter().chain(kept).map(OsString::from).collect())
}

/// `name;key=value[,value];flag`: one entry of `implementations`.
fn add(implementations: &mut Map<String, Value>, spec: &str) -> Result<(), Error> {
    let mut parts = spec.split(';').map(str::trim).filter(|part| !part.is_empty());
    let name = parts.next().ok_or_else(|| {
        Error::new("`--impl` names no implementation").hint("--impl \"pytorch;backend=nccl;order=AG_before\"")
    })?;
    let options: Map<String, Value> = parts
        .map(|part| match part.split_once('=') {
            Some((key, value)) => (key.trim().to_owned(), values(value)),
            None => (part.to_owned(), Value::Bool(true)),
        })
        .collect();
    let entries = implementations.entry(name.to_owned()).or_insert_with(|| json!([]));
    if let Some(entries) = entries.as_array_mut() {
        entries.push(Value::Object(options));
    }
    Ok(())
}

/// A value, or a list of them, each a number, a truth value or a word.
fn values(text: &str) -> Value {
    let one = |word: &str| match word.parse::<u64>() {
        Ok(number) => Value::from(number),
        Err(_) if word.eq_ignore_ascii_case("true") => Value::Bool(true),
        Err(_) if word.eq_ignore_ascii_case("false") => Value::Bool(false),
        Err(_) => Value::from(word),
    };
    let mut all: Vec<Value> = text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(one).collect();
    if all.len() == 1 { all.remove(0) } else { Value::Array(all) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(words: &[&str]) -> Result<Vec<String>, String> {
        let arguments = ["rankmark", "primitive"].iter().chain(words).map(OsString::from).collect();
        let rewritten = rewritten(arguments).map_err(|failure| failure.to_string())?;
        Ok(rewritten.into_iter().map(|word| word.into_string().unwrap()).collect())
    }

    #[test]
    fn its_command_line_is_its_configuration() {
        let line = [
            "--primitive",
            "tp_columnwise",
            "-m",
            "1024,8192",
            "-n",
            "128",
            "--k=1024",
            "--num-iterations",
            "20",
            "--impl",
            "pytorch;backend=nccl,ucc;order=AG_before",
            "--impl",
            "compute_only;size=unsharded",
            "--impl",
            "pytorch",
            "--output-dir",
            "r",
        ];
        let words = after(&line).unwrap();
        assert_eq!(
            (&words[1..3], &words[4..]),
            (&["run", "--ddlb-config"].map(str::to_owned)[..], &["--output-dir", "r"].map(str::to_owned)[..])
        );
        let config: Value = serde_json::from_str(&words[3]).unwrap();
        let expected = json!({"benchmark": {
            "primitive": "tp_columnwise", "m": [1024, 8192], "n": 128, "k": 1024, "dtype": "float16", "num_iterations": 20,
            "num_warmups": 5, "validate": true,
            "implementations": {
                "pytorch": [{"backend": ["nccl", "ucc"], "order": "AG_before"}, {}],
                "compute_only": [{"size": "unsharded"}],
            },
        }});
        assert_eq!(config, expected);
        // The primitive as an argument, as `rankmark primitive` has it.
        let words = after(&["tp_rowwise", "-m", "64", "--impl", "pytorch"]).unwrap();
        assert!(words[3].contains("\"primitive\":\"tp_rowwise\"") && words.len() == 4, "{words:?}");
    }

    #[test]
    fn other_lines_are_left_alone_and_bad_ones_refused() {
        let own = ["tp_rowwise", "-m", "64", "--implementation", "sequential"];
        assert_eq!(after(&own).unwrap()[2..], own);
        assert!(after(&["--primitive", "tp_rowwise", "-m", "64"]).unwrap_err().contains("need an implementation"));
        assert!(after(&["tp_rowwise", "--impl"]).unwrap_err().contains("`--impl` has no value"));
        assert!(after(&["tp_rowwise", "--impl", ";"]).unwrap_err().contains("names no implementation"));
    }
}
