//! What the Python package knows, for tests that compare it with the Rust code.
//!
//! In the `lib.rs` of a crate, beside `tests/skip.rs`: `#[path = "../../../tests/facts.rs"] mod facts;`.

use serde_json::Value;

/// What `script` of the Python package's tests says of `wanted`; None, listed as skipped, where there is no Python, or
/// where the script says (exit code 3, and why) that it lacks something.
#[expect(clippy::disallowed_methods, reason = "a variable names the Python of tests")]
pub(crate) fn facts(name: &str, script: &str, wanted: &Value) -> Option<Value> {
    const LACKING: i32 = 3;
    let program = std::env::var_os("RANKMARK_TEST_PYTHON").unwrap_or_else(|| "python3".into());
    let script = format!("{}/../../python/tests/{script}", env!("CARGO_MANIFEST_DIR"));
    let run = std::process::Command::new(&program).args(["-B", &script, &wanted.to_string()]).output();
    let why = match run {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            if output.status.code() != Some(LACKING) {
                let told = serde_json::from_slice(&output.stdout);
                return Some(told.unwrap_or_else(|error| panic!("{error}: {said}")));
            }
            said
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => error.to_string(),
        Err(error) => panic!("{script}: {error}"),
    };
    crate::skip::skip(name, &format!("{}: {why}", program.display()));
    None
}
