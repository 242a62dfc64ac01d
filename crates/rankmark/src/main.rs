//! The binary: everything is in the library of this crate, so that a test can add a benchmark to it.

use std::process::ExitCode;

fn main() -> ExitCode {
    rankmark::main()
}
