//! Why a process may not be traced, and which permission is missing.

use std::io;

/// `CAP_SYS_PTRACE`, as a bit of a set of capabilities.
const TRACING: u64 = 1 << 19;

/// What the kernel knows about both processes.
#[derive(Clone, Copy, Default)]
struct PermissionFacts {
    /// Who traces it already.
    tracer: u32,
    /// The user that it belongs to.
    owner: Option<u32>,
    /// Who we are.
    own: Option<u32>,
    /// This process has `CAP_SYS_PTRACE`.
    capable: bool,
    /// We are under a filter of system calls.
    filtered: bool,
    /// `kernel.yama.ptrace_scope`.
    yama: u32,
}

/// What stands in the way, in words for a person who may change it.
pub(super) fn explain(pid: u32, error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM) => missing(PermissionFacts::read(pid)),
        Some(libc::ESRCH) => "the process has ended".to_owned(),
        Some(libc::ENOSYS) => "this kernel has no ptrace".to_owned(),
        _ => error.to_string(),
    }
}

impl PermissionFacts {
    fn read(pid: u32) -> Self {
        let status = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let (theirs, ours) = (status(&pid.to_string()), status("self"));
        let yama = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
        let capabilities = field(&ours, "CapEff").and_then(|text| u64::from_str_radix(text, 16).ok());
        Self {
            tracer: number_field(&theirs, "TracerPid").unwrap_or(0),
            owner: number_field(&theirs, "Uid"),
            own: number_field(&ours, "Uid"),
            capable: capabilities.is_some_and(|set| set & TRACING != 0),
            filtered: number_field(&ours, "Seccomp") == Some(2),
            yama: yama.trim().parse().unwrap_or(0),
        }
    }
}

fn missing(facts: PermissionFacts) -> String {
    if facts.tracer != 0 {
        return format!("process {} traces it already (a debugger?): a process has one tracer", facts.tracer);
    }
    let other = facts.owner.filter(|owner| facts.own != Some(*owner));
    if let Some(owner) = other.filter(|_| !facts.capable) {
        return format!(
            "it belongs to user {owner}: the capability CAP_SYS_PTRACE (root has it) allows reading its stack"
        );
    }
    if facts.yama == 3 {
        return "kernel.yama.ptrace_scope is 3, which forbids ptrace until the next boot".to_owned();
    }
    if facts.yama > 0 && !facts.capable {
        return format!(
            "kernel.yama.ptrace_scope is {}: `sysctl kernel.yama.ptrace_scope=0` or CAP_SYS_PTRACE allows reading its stack",
            facts.yama
        );
    }
    if facts.filtered {
        return "a filter of system calls (seccomp) forbids ptrace: a container started with `--cap-add SYS_PTRACE` \
                allows it"
            .to_owned();
    }
    "the kernel forbids ptrace: the capability CAP_SYS_PTRACE (in a container `--cap-add SYS_PTRACE`) allows it"
        .to_owned()
}

/// The first word of a field of /proc/PID/status.
fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let of_field = |line: &'a str| line.strip_prefix(name)?.strip_prefix(':');
    status.lines().find_map(of_field)?.split_whitespace().next()
}

fn number_field(status: &str, name: &str) -> Option<u32> {
    field(status, name)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_obstacle_is_named_with_what_removes_it() {
        let own = PermissionFacts { owner: Some(1000), own: Some(1000), ..PermissionFacts::default() };
        for (facts, part) in [
            (PermissionFacts { tracer: 77, ..own }, "process 77 traces it already"),
            (PermissionFacts { owner: Some(0), ..own }, "belongs to user 0: the capability CAP_SYS_PTRACE"),
            (PermissionFacts { yama: 1, ..own }, "`sysctl kernel.yama.ptrace_scope=0`"),
            (PermissionFacts { yama: 3, capable: true, ..own }, "until the next boot"),
            (PermissionFacts { filtered: true, ..own }, "--cap-add SYS_PTRACE"),
            (own, "CAP_SYS_PTRACE"),
        ] {
            assert!(missing(facts).contains(part), "{part}: {}", missing(facts));
        }
    }

    #[test]
    fn fields_of_a_status_are_read() {
        let status = "Name:\tx\nTracerPid:\t12\nUid:\t1000\t1001\t1000\t1000\nSeccomp_filters:\t3\n";
        assert_eq!((number_field(status, "TracerPid"), number_field(status, "Uid")), (Some(12), Some(1000)));
        assert_eq!(number_field(status, "Seccomp"), None);
    }
}
