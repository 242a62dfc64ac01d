//! What a file says of NCCL and of the ranks.

use record::{BackendState, CaseLine, Machine, Placement};
use serde_json::{Value, json};

use crate::Run;

/// NCCL's version code: 23007 for 2.30.7, and 2408 for 2.4.8.
pub(super) fn nccl_version(run: &Run, case: &CaseLine) -> Option<u64> {
    if case.backend != "nccl" {
        return None;
    }
    let name = if case.runtime == "pytorch" { "pytorch/nccl" } else { "nccl" };
    let state = run.backends.iter().find(|state: &&BackendState| state.name == name);
    let version = state.and_then(|state| state.version.as_deref()).or(run.versions.get("nccl").map(String::as_str))?;
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse::<u64>().ok());
    let [major, minor, patch] = [numbers.next()?, numbers.next()?, numbers.next().unwrap_or(0)];
    let in_bounds = major < 100 && minor < 100 && patch < 100;
    let major = if (major, minor) < (2, 9) { major * 1000 } else { major * 10_000 };
    in_bounds.then_some(major + minor * 100 + patch)
}

/// One entry a rank: nccl-tests has one for each process.
pub(super) fn devices(run: &Run, case: &CaseLine, machines: &[&Machine]) -> Vec<Value> {
    let kind = |device: &str| device.split(':').next().unwrap_or_default().to_owned();
    let on = |placement: &&Placement| {
        placement.ranks == case.ranks
            && placement.devices.first().is_none_or(|device| kind(device) == kind(&case.device))
    };
    let placement = run.placement.iter().find(on);
    let device = |rank: u32| {
        let at = rank as usize;
        let host = placement.and_then(|placement| placement.hosts.get(at));
        let machine = host.and_then(|host| machines.iter().find(|machine| machine.host == *host)).or(machines.first());
        let name = placement.and_then(|placement| placement.devices.get(at)).map_or("", String::as_str);
        let number = name.split_once(':').and_then(|(_, number)| number.parse::<usize>().ok()).unwrap_or(0);
        let model = machine.map(|machine| match kind(&case.device).as_str() {
            "cpu" => machine.cpu_model.clone(),
            _ => machine.gpus.get(number).cloned().unwrap_or_default(),
        });
        json!({
            "rank": rank,
            "group": 0,
            "pid": 0,
            "hostname": host.or(machine.map(|machine| &machine.host)).map_or("", String::as_str),
            "device": number,
            "device_hex": "",
            "device_info": model.unwrap_or_default(),
        })
    };
    (0..case.ranks).map(device).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_codes_are_those_of_nccl() {
        let line = json!({"schema": 1, "id": "000000000001", "benchmark": "collective", "status": "ok", "ranks": 1,
                          "parameters": {}, "runtime": "native", "backend": "nccl", "device": "cuda", "mode": "streaming",
                          "caveats": [], "simulated": false});
        let case: CaseLine = serde_json::from_value(line).unwrap();
        let code = |version: &str| {
            let versions = [("nccl".to_owned(), version.to_owned())].into();
            nccl_version(&Run { versions, ..Run::default() }, &case)
        };
        assert_eq!([code("2.30.7"), code("2.4.8"), code("2.29.7+cuda13.0")], [Some(23007), Some(2408), Some(22907)]);
        assert_eq!([code("99999999999999999999.1"), code("?")], [None, None]);
    }
}
