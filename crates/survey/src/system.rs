//! The machine itself: processor, NUMA, memory, and what a container or a virtual machine takes away.

use std::fs;

use measure::machine;
use record::Machine;
use terms::Bytes;

use super::{Finding, Request};

pub(super) fn look(_request: &Request) -> Vec<Finding> {
    let machine = machine::detect();
    let mut found = vec![kernel(&machine), processor(&machine), numa(&machine)];
    found.extend(memory(&machine));
    found.extend(surroundings(&machine));
    found
}

fn kernel(machine: &Machine) -> Finding {
    Finding::ready("OS", format!("{}, Linux {} on {}", machine.os, machine.kernel, machine.host))
}

fn processor(machine: &Machine) -> Finding {
    let model = machine.processor();
    let allowed = machine.allowed_cpus.len();
    let threads = machine.threads.map_or(allowed, |threads| threads as usize);
    let cores = machine.cores.map_or(String::new(), |cores| format!("{cores} cores, "));
    let vector = [("avx512_bf16", "AVX-512 with bf16"), ("avx512f", "AVX-512"), ("avx2", "AVX2")]
        .into_iter()
        .find(|(flag, _)| machine.isa.iter().any(|has| has == flag))
        .map_or(String::new(), |(_, name)| format!(", {name}"));
    let about = format!("{model}: {cores}{threads} threads{vector}");
    if allowed < threads {
        return Finding::slow("CPU", format!("{about}; {allowed} threads are allowed here"))
            .impact("more ranks than that share threads")
            .fix("raise the limit: taskset, numactl, the container's cpuset or the job's request");
    }
    Finding::ready("CPU", about)
}

/// Pages that the kernel moves between nodes while a rank works on them.
fn numa(machine: &Machine) -> Finding {
    let nodes = machine.numa_nodes.unwrap_or(1);
    let text = if nodes == 1 { "1 node".to_owned() } else { format!("{nodes} nodes") };
    let balancing = fs::read_to_string("/proc/sys/kernel/numa_balancing").unwrap_or_default();
    if nodes > 1 && !matches!(balancing.trim(), "" | "0") {
        return Finding::slow("NUMA", format!("{text}, automatic balancing on"))
            .impact("the kernel unmaps and moves pages while they are measured")
            .fix("sysctl kernel.numa_balancing=0");
    }
    Finding::ready("NUMA", text)
}

fn memory(machine: &Machine) -> Option<Finding> {
    let installed = machine.memory_bytes?;
    let available = device::available_memory()?;
    let limit = machine.memory_limit_bytes;
    let total = limit.map_or(format!("of {}", Bytes(installed).about()), |limit| {
        format!("of {} that the control group allows ({} installed)", Bytes(limit).about(), Bytes(installed).about())
    });
    Some(Finding::ready("memory", format!("{} available {total}", Bytes(available).about())))
}

/// Container, quota, virtual machine, WSL: a row where there is one.
fn surroundings(machine: &Machine) -> Vec<Finding> {
    let mut found = Vec::new();
    let quota = machine::cpu_quota();
    let place = machine.container.as_ref().map(|kind| format!("{kind} container"));
    if quota.is_some() || place.is_some() {
        found.push(container(place, quota, machine.allowed_cpus.len()));
    }
    if let Some(version) = &machine.wsl {
        let row = Finding::slow("WSL", format!("version {version}"));
        found.push(row.impact("Windows controls clocks and memory: times vary").fix("measure on Linux itself"));
    } else if let Some(hypervisor) = &machine.hypervisor {
        found.push(Finding::ready("machine", format!("virtual ({hypervisor}): other tenants may take its cores")));
    }
    found
}

fn container(place: Option<String>, quota: Option<f64>, allowed: usize) -> Finding {
    let place = place.unwrap_or_else(|| "a control group".to_owned());
    match quota {
        Some(quota) if quota < allowed as f64 => {
            Finding::slow("container", format!("{place}: {quota:.1} cores' worth of time on {allowed} threads"))
                .impact("ranks are stopped in the middle of operations once the quota is spent")
                .fix("raise the quota (docker run --cpus, a pod's CPU limit) or run fewer ranks")
        }
        Some(quota) => Finding::ready("container", format!("{place}, quota of {quota:.1} cores")),
        None => Finding::ready("container", format!("{place}, no CPU quota")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::State;

    #[test]
    fn a_quota_below_the_threads_is_slow_and_one_above_is_not() {
        assert_eq!(container(None, Some(1.5), 4).state, State::Slow);
        assert!(container(Some("docker container".into()), Some(1.5), 4).found.starts_with("docker container: 1.5"));
        assert_eq!(container(None, Some(4.0), 4).state, State::Ready);
        assert_eq!(container(Some("docker container".into()), None, 4).found, "docker container, no CPU quota");
    }

    #[test]
    fn fewer_allowed_threads_than_there_are_is_told() {
        let machine = Machine { threads: Some(8), allowed_cpus: vec![0, 1], ..Machine::default() };
        let row = processor(&machine);
        assert!(row.state == State::Slow && row.found.contains("2 threads are allowed"), "{row:?}");
        let whole = Machine { allowed_cpus: (0..8).collect(), ..machine };
        assert_eq!(processor(&whole).state, State::Ready);
    }
}
