//! How long blocks sleep in a case in which nothing is computed: one time for all, or a table's.

use std::io::Read;
use std::path::Path;

use contract::fields::problem;
use parallel::{Recipe, SleepTable, SleepTimes};
use record::Case;
use serde_json::Value;
use sha2::{Digest, Sha256};
use terms::FieldError;

use super::fields::{Compute, Sleeping};

/// The setting with the text of the table: ranks do not read the file.
const LINES: &str = "sleep_lines";
/// The parameter with the beginning of its digest: another table is another case.
const DIGEST: &str = "sleep_sha256";
/// Room for a line of each block of the deepest model.
const LARGEST: u64 = 1 << 20;
/// Seconds of a pass, where nobody says.
const USUAL_S: f64 = 1e-3;
const HINT: &str = "a line for each block: `h 1ms 2ms`, name, forward, backward; and `optimizer 1ms`";

fn refused(message: String) -> FieldError {
    problem("sleep_table", message, HINT)
}

/// Reads the table, if the case names one, into its settings.
///
/// # Errors
/// A file that cannot be read, or a table where nothing sleeps or a time is given, too.
pub(super) fn resolve(case: &mut Case) -> Result<(), FieldError> {
    let sleeping = Sleeping::of(case)?;
    let Some(path) = &sleeping.sleep_table.filter(|_| sleeping.compute == Compute::Sleep) else { return Ok(()) };
    if sleeping.sleep_time.is_some() {
        let message = "`sleep_table` sets the time of each block, but `sleep_time` sets one time for all";
        return Err(problem("sleep_time", message, "leave one of the two out"));
    }
    let unreadable = |error: std::io::Error| refused(format!("{path}: {error}"));
    let file = record::file::open_named(Path::new(path)).map_err(unreadable)?;
    let mut text = String::new();
    file.take(LARGEST + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > LARGEST {
        return Err(refused(format!("{path} has more than {LARGEST} bytes")));
    }
    SleepTable::parse(&text).map_err(|why| refused(format!("{path}: {why}")))?;
    let digest: String = Sha256::digest(text.as_bytes()).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    case.parameters.insert(DIGEST.to_owned(), Value::from(digest));
    case.settings.insert(LINES, Value::from(text));
    Ok(())
}

/// How long passes of a case's blocks take.
///
/// # Errors
/// A block that the table has no line of.
pub(super) fn times(case: &Case, sleeping: &Sleeping, recipe: &Recipe) -> Result<SleepTimes, FieldError> {
    if sleeping.sleep_table.is_none() {
        return Ok(SleepTimes::Equal(sleeping.sleep_time.unwrap_or(USUAL_S)));
    }
    // Before the case is resolved, nothing is known of it yet.
    let Some(text) = case.settings.get(LINES).and_then(Value::as_str) else {
        return Err(refused("the table of the case is missing".to_owned()));
    };
    let table = SleepTable::parse(text).map_err(refused)?;
    let passes = table.passes(recipe).map_err(refused)?;
    Ok(SleepTimes::Table { passes: passes.into(), optimizer_s: table.optimizer_s() })
}

#[cfg(test)]
mod tests {
    use record::plan::from_flags;

    use super::super::about::TRAINING;
    use super::super::resolve::Task;
    use super::*;

    fn case(flags: &[(&str, &str)]) -> Result<Case, String> {
        let all = [&[("model", "gpt2-mini"), ("compute", "sleep"), ("ranks", "1")], flags].concat();
        Ok(from_flags(&TRAINING, &all, &[]).map_err(|error| error.to_string())?.cases.remove(0))
    }

    #[test]
    fn ranks_get_the_times_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table");
        let named = path.to_str().unwrap();
        std::fs::write(&path, "embedding 1ms 2ms\nh 3ms 4ms\nhead 5ms 6ms\noptimizer 7ms").unwrap();
        let one = case(&[("sleep_table", named)]).unwrap();
        // What a rank gets: the file may be on another host.
        std::fs::remove_file(&path).unwrap();
        let Some(SleepTimes::Table { passes, optimizer_s }) =
            Task::from_case(&one).unwrap().sleep.map(|sleep| sleep.times)
        else {
            panic!("no table: {one:?}")
        };
        assert_eq!((passes[0], passes[2], passes[5], optimizer_s), ([1e-3, 2e-3], [3e-3, 4e-3], [5e-3, 6e-3], 7e-3));
        std::fs::write(&path, "* 1ms 2ms").unwrap();
        let other = case(&[("sleep_table", named)]).unwrap();
        assert_ne!(one.id, other.id, "another table is another case");
        assert_eq!(Task::from_case(&case(&[]).unwrap()).unwrap().sleep.unwrap().times, SleepTimes::Equal(1e-3));
    }

    #[test]
    fn what_is_no_table_is_refused_before_anything_runs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table");
        let named = path.to_str().unwrap();
        let refused = |more: &[(&str, &str)]| case(&[&[("sleep_table", named)], more].concat()).unwrap_err();
        assert!(refused(&[]).contains("No such file"), "{}", refused(&[]));
        std::fs::write(&path, "h 1ms").unwrap();
        assert!(refused(&[]).contains("line 1: `h` has 1 times"), "{}", refused(&[]));
        std::fs::write(&path, "h 1ms 2ms").unwrap();
        assert!(refused(&[]).contains("no line is of the block `embedding`"), "{}", refused(&[]));
        let both = refused(&[("sleep_time", "2ms")]);
        assert!(both.contains("`sleep_table` sets the time of each block"), "{both}");
        std::fs::write(&path, vec![b'#'; LARGEST as usize + 1]).unwrap();
        assert!(refused(&[]).contains("more than"), "{}", refused(&[]));
    }
}
