//! What versions of NCCL have, as the table of optional functions says it.

use comm::nccl::Symbols;

use crate::skip;

/// A library has an optional function if and only if it is of a version that the table says has it.
#[track_caller]
fn has_what_the_table_says(symbols: &Symbols) {
    let version = symbols.version().unwrap();
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap());
    let release = [parts.next().unwrap(), parts.next().unwrap()];
    let missing = symbols.missing();
    for since in comm::nccl::NCCL_SINCE {
        for name in since.what.split(", ") {
            let lacks = missing.iter().any(|missing| missing.to_str() == Ok(name));
            assert_eq!(lacks, !since.is_in(release), "{name} of NCCL {version}");
        }
    }
}

#[test]
fn every_optional_function_is_in_the_table_and_documented() {
    let page = include_str!("../../../../../docs/how-to/gpu.md");
    let rows = comm::nccl::NCCL_SINCE;
    let mut named: Vec<&str> = rows.iter().flat_map(|since| since.what.split(", ")).collect();
    let mut optional: Vec<&str> = Symbols::OPTIONAL.iter().map(|name| name.to_str().unwrap()).collect();
    named.sort_unstable();
    optional.sort_unstable();
    assert_eq!(named, optional);
    rows.iter().for_each(|since| assert!(page.contains(&since.to_string()), "{since}"));
}

/// Old libraries themselves, without a GPU: RANKMARK_TEST_OLD_NCCL names them, separated by colons; `cargo xtask test --full` installs them.
#[test]
fn old_libraries_have_what_the_table_says() {
    let test = "old_libraries_have_what_the_table_says";
    let Some(paths) = std::env::var_os("RANKMARK_TEST_OLD_NCCL") else {
        return skip::skip(
            test,
            "no old NCCL (hint: RANKMARK_TEST_OLD_NCCL=PATH:...; `cargo xtask test --full` installs some)",
        );
    };
    for path in std::env::split_paths(&paths) {
        let symbols = Symbols::open(&path).unwrap();
        assert!(!symbols.missing().is_empty(), "{} is not old", path.display());
        has_what_the_table_says(&symbols);
    }
}
