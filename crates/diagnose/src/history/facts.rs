//! What a run's file says that may explain a change of its results.

use std::collections::BTreeMap;

use record::RunFile;

/// What of a run may explain a change, by name.
pub(super) fn facts(file: &RunFile) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    let mut put = |name: &str, value: String| {
        if !value.is_empty() {
            facts.insert(name.to_owned(), value);
        }
    };
    put(&file.tool.name, file.tool.version.clone());
    for (name, version) in &file.versions {
        put(name, version.clone());
    }
    for backend in file.backends.iter().filter(|backend| backend.ready) {
        let name = match &backend.library {
            Some(library) => format!("backend {} ({library})", backend.name),
            None => format!("backend {}", backend.name),
        };
        let parts = [backend.version.clone(), backend.path.clone()];
        put(&name, parts.into_iter().flatten().collect::<Vec<_>>().join(", "));
    }
    // What a batch system says of its job is another one in each run.
    for (name, value) in file.environment.iter().filter(|(name, _)| !record::is_of_its_job(name)) {
        put(name, value.clone());
    }
    let machine = &file.machine;
    put("host", machine.host.clone());
    put("operating system", machine.os.clone());
    put("kernel", machine.kernel.clone());
    put("hypervisor", machine.hypervisor.clone().unwrap_or_default());
    put("container", machine.container.clone().unwrap_or_default());
    put("GPUs", machine.gpus.join(", "));
    put("GPU driver", machine.gpu_driver.clone().unwrap_or_default());
    put("memory limit", machine.memory_limit_bytes.map_or(String::new(), |bytes| terms::Bytes(bytes).about()));
    put("allowed CPUs", machine.allowed_cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(","));
    put("started by", file.started_by.clone().unwrap_or_default());
    put("plan", file.experiment.clone());
    put("cases in the plan", file.plan.cases.len().to_string());
    facts
}
