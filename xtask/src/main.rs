//! The program of `cargo xtask`.

fn main() -> std::process::ExitCode {
    xtask::main()
}
