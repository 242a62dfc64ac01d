//! What this machine has and lacks: one file a group, one table of them. Reads what the kernel tells; opens libraries
//! and runs programs in children only, each with a deadline.
//!
//! Says what is, never what a benchmark makes of it: that is the caller's.

mod device_sensors;
mod finding;
mod function;
mod gpu;
mod inspect;
mod job_words;
mod launchers;
mod limits;
mod mpi;
mod native;
mod network;
mod nvml;
mod probe;
mod profilers;
mod programs;
mod pytorch;
mod request;
mod system;
mod versions;

pub use device_sensors::NvidiaSmi;
pub use finding::{Finding, State};
pub use inspect::{inspect_in_child, probe_answer};
pub use job_words::{is_script, place_of_program, python_name, starts_jobs};
pub use nvml::NVML_SINCE;
pub use probe::{is_probe, probe_main};
pub use programs::Programs;
pub use pytorch::{Torch, python, torch};
pub use request::Request;
pub use versions::versions;

/// What belongs together.
struct FindingGroup {
    name: &'static str,
    /// Why it is left out when things are to be quick; None: it is quick.
    takes_long: Option<&'static str>,
    look: fn(&Request) -> Vec<Finding>,
}

/// Every group, in the order in which they are listed.
static GROUPS: &[FindingGroup] = &[
    FindingGroup { name: "system", takes_long: None, look: system::look },
    FindingGroup { name: "limits", takes_long: None, look: limits::look },
    FindingGroup { name: "GPU", takes_long: None, look: gpu::look },
    FindingGroup { name: "MPI", takes_long: None, look: mpi::look },
    FindingGroup { name: "PyTorch", takes_long: Some("importing torch takes seconds"), look: pytorch::look },
    FindingGroup { name: "launchers", takes_long: None, look: launchers::look },
    FindingGroup { name: "network", takes_long: None, look: network::look },
    FindingGroup {
        name: "profilers",
        takes_long: Some("nsys takes a second to say its version"),
        look: profilers::look,
    },
];

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// In the table's order.
    pub findings: Vec<Finding>,
    /// Groups that were left out, with the reason.
    pub left_out: Vec<(&'static str, &'static str)>,
}

/// Looks at everything. Groups are looked at side by side: nearly all their time is spent waiting for children.
pub fn survey(request: &Request) -> Survey {
    // What was asked for by name is never left out.
    let asked = |group: &FindingGroup| request.python.is_some() && group.name == "PyTorch";
    let (wanted, left_out): (Vec<&FindingGroup>, Vec<&FindingGroup>) =
        GROUPS.iter().partition(|group| !request.quick || group.takes_long.is_none() || asked(group));
    let left_out = left_out.into_iter().filter_map(|group| Some((group.name, group.takes_long?))).collect();
    Survey { findings: looked_at(wanted, request), left_out }
}

/// What there is in these groups.
fn looked_at(groups: Vec<&FindingGroup>, request: &Request) -> Vec<Finding> {
    std::thread::scope(|scope| {
        let looks: Vec<_> =
            groups.into_iter().map(|group| (group, scope.spawn(move || (group.look)(request)))).collect();
        looks.into_iter().flat_map(|(group, look)| found(group, look.join())).collect()
    })
}

fn found(group: &FindingGroup, looked: std::thread::Result<Vec<Finding>>) -> Vec<Finding> {
    let broken = |_| vec![Finding::misconfigured(group.name, "looking at it failed: this is a fault of rankmark")];
    looked.unwrap_or_else(broken).into_iter().map(|finding| finding.group(group.name)).collect()
}

#[cfg(test)]
mod tests;
