//! Profilers: what they are, and whether the kernel lets them look.

use std::fs;

use process::first_program;

use super::programs::{ask, version_in};
use super::{Finding, Request};

pub(super) fn look(request: &Request) -> Vec<Finding> {
    const IMPACT: &str = "no traces of CUDA kernels with nsys";
    const FIX: &str = "https://developer.nvidia.com/nsight-systems (Debian: apt install nsight-systems)";
    let nsys = match first_program(&request.path, "nsys") {
        None => Finding::missing("nsys", "not on PATH").impact(IMPACT).fix(FIX),
        Some(program) => match ask(&program, &["--version"]) {
            Ok(said) => {
                let version = version_in(&said.out).unwrap_or("of unknown version");
                Finding::ready("nsys", format!("{version}  {}", program.display()))
            }
            Err(why) => Finding::misconfigured("nsys", format!("{} {why}", program.display())).impact(IMPACT).fix(FIX),
        },
    };
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok();
    vec![nsys, sampling(paranoid.and_then(|text| text.trim().parse().ok()))]
}

/// Whether the kernel lets a user sample the CPU.
fn sampling(paranoid: Option<i32>) -> Finding {
    match paranoid {
        None => Finding::missing("perf events", "this kernel has none").impact("no CPU samples in profiles"),
        Some(level) if level <= 2 => Finding::ready("perf events", format!("perf_event_paranoid {level}")),
        Some(level) => Finding::slow("perf events", format!("perf_event_paranoid {level}"))
            .impact("no CPU samples in profiles, except root's")
            .fix("sysctl kernel.perf_event_paranoid=2"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::State;

    #[test]
    fn the_kernels_word_is_judged() {
        assert_eq!(
            [None, Some(-1), Some(2), Some(4)].map(|level| sampling(level).state),
            [State::Missing, State::Ready, State::Ready, State::Slow]
        );
    }
}
