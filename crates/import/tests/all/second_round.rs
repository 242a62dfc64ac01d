//! Files of the second round of public logs: each has a right answer beside it.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{read, skip};

/// Where the files are; they are not part of this repository.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases/import4")
}

/// What is wanted of a case, by its field here.
const FIELDS: [(&str, &str); 6] = [
    ("op", "op"),
    ("ranks", "ranks"),
    ("bytes", "bytes"),
    ("dtype", "dtype"),
    ("in_place", "in_place"),
    ("device", ""),
];

/// A case as it was read: its fields, its device, the median of its trials in microseconds, and elements that are wrong.
struct Found {
    fields: Vec<(String, String)>,
    device: String,
    time_us: f64,
    wrong: Option<u64>,
}

fn found(results: &import::Results) -> Vec<Found> {
    let case = |(shape, figures): &(import::Shape, Vec<import::Figures>)| {
        let times: Vec<f64> = figures.iter().map(|figures| figures.time_s * 1e6).collect();
        Found {
            fields: shape.fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone().into_owned())).collect(),
            device: shape.device.to_owned(),
            time_us: stats::median(&times),
            wrong: figures.iter().map(|figures| figures.wrong).sum(),
        }
    };
    results.shapes().iter().map(case).collect()
}

/// Whether a case is the one that is wanted.
fn is(found: &Found, wanted: &Value) -> bool {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let fits = |(key, field): &(&str, &str)| match (&wanted[*key], *field) {
        (Value::Null, _) => true,
        (value, "") => found.device == text(value),
        (value, field) => found.fields.iter().any(|(name, known)| name == field && *known == text(value)),
    };
    let time = wanted["time_us"].as_f64().unwrap();
    FIELDS.iter().all(fits)
        && (found.time_us / time - 1.0).abs() < 1e-2
        && wanted["wrong"].as_u64().is_none_or(|wrong| found.wrong == Some(wrong))
}

fn check(path: &Path) -> Result<(), String> {
    let wanted: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let file = PathBuf::from(path.to_str().unwrap().trim_end_matches(".expected.json"));
    let mut source = import::Source::load(&file).map_err(|error| error.to_string())?;
    if let Some((_, ranks)) = wanted["command"].as_str().unwrap().split_once("--ranks ") {
        source = source.with_given("ranks", ranks);
    }
    let made = read(&source).and_then(|results| {
        let tool = record::Tool { name: "rankmark".to_owned(), version: "0".to_owned() };
        import::records(&source, "x", results.clone(), &benchmarks::abouts(), &tool, jiff::Timestamp::UNIX_EPOCH)
            .map(|records| (results, records))
    });
    if let Some(words) = wanted["refuse"].as_array() {
        let Err(why) = made else { return Err("it is read, and should be refused".to_owned()) };
        let missing = words.iter().find(|word| !why.to_string().contains(word.as_str().unwrap()));
        return missing.map_or(Ok(()), |word| Err(format!("{word} is not said: {why}")));
    }
    let (results, records) = made.map_err(|error| format!("refused: {error}"))?;
    let groups = wanted["groups"].as_array().unwrap();
    let records_found: Vec<Vec<Found>> = results.iter().filter(|results| !results.is_empty()).map(found).collect();
    let mut open: Vec<&Vec<Found>> = records_found.iter().collect();
    for (number, group) in groups.iter().enumerate() {
        let holds = |record: &&Vec<Found>| {
            group.as_array().unwrap().iter().all(|wanted| record.iter().any(|found| is(found, wanted)))
        };
        let at = open.iter().position(holds).ok_or_else(|| format!("group {number} is in no record of its own"))?;
        open.remove(at);
    }
    let said: Vec<String> = records.iter().map(|record| format!("{:?}", record.file.imported)).collect();
    for word in wanted["words"].as_array().into_iter().flatten() {
        let word = word.as_str().unwrap();
        if !said.iter().any(|said| said.contains(word)) {
            return Err(format!("`{word}` is not said: {said:?}"));
        }
    }
    Ok(())
}

#[test]
fn each_file_is_read_right_or_refused() {
    let Ok(files) = std::fs::read_dir(folder()) else {
        return skip::skip("files of the second round", "they are not beside this checkout");
    };
    let paths =
        files.map(|file| file.unwrap().path()).filter(|path| path.to_str().unwrap().ends_with(".expected.json"));
    let wrong: Vec<String> = paths
        .filter_map(|path| check(&path).err().map(|why| format!("{}: {why}", path.file_name().unwrap().display())))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
