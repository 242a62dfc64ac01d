//! What `validate` says of GPUs and their links, by a driver of the tests (`tests/fakes/nvml.c`).

use serde_json::{Value, json};

use super::{answer, row, rows};
use crate::fakes::{self, Driver};
use crate::place::{Ended, Place};

/// Runs `validate --quick` on a machine that these variables of the fake describe.
fn validate(test: &str, driver: Driver, options: &str, machine: &[(&str, &str)]) -> Option<Ended> {
    let folder = fakes::nvml(test, driver)?;
    let place = Place::new();
    let mut starting = place.command(&format!("validate --quick {options}"));
    starting.command.env("LD_LIBRARY_PATH", folder);
    starting.command.envs(machine.iter().map(|(name, value)| (format!("FAKE_NVML_{name}"), value)));
    Some(starting.run())
}

fn asked(test: &str, driver: Driver, machine: &[(&str, &str)]) -> Option<Value> {
    validate(test, driver, "--json", machine).map(answer)
}

fn matrix(answer: &Value) -> Vec<String> {
    let row = row(answer, "GPU links", "ready", &[]);
    let line = |line: &Value| {
        let cells: Vec<&str> = line.as_array().unwrap().iter().map(|cell| cell.as_str().unwrap()).collect();
        cells.join(" ")
    };
    row["details"]["matrix"].as_array().unwrap().iter().map(line).collect()
}

#[track_caller]
fn says(row: &Value, impact: &str, fix: &str) {
    assert!(row["impact"].as_str().unwrap().contains(impact), "{row:#}");
    assert!(row["fix"].as_str().unwrap().contains(fix), "{row:#}");
}

const EIGHT: &str = "NVIDIA H100 80GB HBM3, 80.0 GiB, 18 NVLinks, PCIe 5 x16, ECC on";

#[test]
fn eight_gpus_behind_switches_are_joined_by_all_their_links() {
    let test = "eight_gpus_behind_switches_are_joined_by_all_their_links";
    let Some(answer) = asked(test, Driver::New, &[]) else { return };
    let first = row(&answer, "GPU 0", "ready", &[EIGHT]);
    let details = &first["details"];
    assert_eq!(details["nvlinks"]["up"].as_array().unwrap().len(), 18, "{details:#}");
    assert_eq!((&details["nvlinks"]["down"], &details["nvlinks"]["ends"]), (&json!([]), &json!({"switch": 18})));
    assert_eq!(details["ecc"]["uncorrected"], json!({"volatile": 0, "aggregate": 0}));
    assert_eq!(details["remapped_rows"]["pending"], false);
    assert_eq!(details["clocks_event_reasons"], json!(["gpu_idle"]));
    row(&answer, "GPU links", "ready", &["NV18 between all 8 GPUs"]);
    assert_eq!(matrix(&answer)[1], "NV18 X NV18 NV18 NV18 NV18 NV18 NV18");
    // Newer GPUs have twice as many.
    let Some(many) = asked(test, Driver::New, &[("LINKS", "many")]) else { return };
    row(&many, "GPU links", "ready", &["NV36 between all 8 GPUs"]);
    assert_eq!(row(&many, "GPU 0", "ready", &["36 NVLinks"])["details"]["nvlinks"]["ends"], json!({"switch": 36}));
    // An old driver does not say that the other ends are switches, and has another name for the reasons.
    let Some(old) = asked(test, Driver::Old, &[]) else { return };
    assert_eq!(matrix(&old), matrix(&answer));
    assert_eq!(row(&old, "GPU 0", "ready", &[])["details"]["clocks_event_reasons"], json!(["gpu_idle"]));
}

#[test]
fn pairs_with_nvlinks_reach_others_through_the_host() {
    let machine = [("GPUS", "4"), ("LINKS", "pairs")];
    let test = "pairs_with_nvlinks_reach_others_through_the_host";
    let Some(answer) = asked(test, Driver::New, &machine) else { return };
    row(&answer, "GPU links", "ready", &["NV4 between 2 pairs, SYS between 4 pairs"]);
    assert_eq!(matrix(&answer), ["X NV4 SYS SYS", "NV4 X SYS SYS", "SYS SYS X NV4", "SYS SYS NV4 X"]);
    assert_eq!(rows(&answer, "GPU 2")[0]["details"]["nvlinks"]["ends"], json!({"GPU 3": 4}));
    let Some(none) = asked(test, Driver::New, &[("GPUS", "4"), ("LINKS", "none")]) else { return };
    assert_eq!(matrix(&none)[0], "X PHB SYS SYS");
}

#[test]
fn faults_of_a_gpu_are_rows_with_what_fixes_them() {
    let test = "faults_of_a_gpu_are_rows_with_what_fixes_them";
    let faulty = |driver: Driver, fault: &str| asked(test, driver, &[("FAULTS", fault)]);
    let Some(down) = faulty(Driver::New, "down") else { return };
    says(row(&down, "GPU 1", "slow", &["16 of 18 NVLinks up (down: 3 7)"]), "16 of 18", "nvidia-smi nvlink -e");
    assert_eq!(matrix(&down)[0], "X NV16 NV18 NV18 NV18 NV18 NV18 NV18");
    row(&down, "GPU 2", "ready", &["18 NVLinks"]);
    let Some(ecc) = faulty(Driver::New, "ecc") else { return };
    let words = "ECC on with 3 uncorrected errors since the driver was loaded, 5 in all";
    says(row(&ecc, "GPU 1", "misconfigured", &[words]), "end processes on this GPU", "nvidia-smi -q -d ECC");
    let Some(hot) = faulty(Driver::Old, "hot") else { return };
    let found = row(&hot, "GPU 1", "slow", &["clocks lowered: HW slowdown, HW thermal slowdown"]);
    says(found, "too low now", "airflow");
    let Some(capped) = faulty(Driver::New, "capped") else { return };
    row(&capped, "GPU 1", "ready", &["clocks lowered: SW power cap"]);
    for driver in [Driver::New, Driver::Old] {
        let Some(pending) = faulty(driver, "pending") else { return };
        says(row(&pending, "GPU 1", "misconfigured", &[]), "until the GPU is reset", "nvidia-smi -r");
    }
    let Some(lost) = faulty(Driver::New, "lost") else { return };
    row(&lost, "GPU 1", "misconfigured", &["GPU is lost"]);
    assert_eq!(rows(&lost, "GPU links")[0]["details"]["gpus"], json!([0, 2, 3, 4, 5, 6, 7]));
}

#[test]
fn a_driver_without_optional_functions_leaves_their_facts_out() {
    let test = "a_driver_without_optional_functions_leaves_their_facts_out";
    let Some(answer) = asked(test, Driver::Bare, &[]) else { return };
    let gpu = row(&answer, "GPU 7", "ready", &[]);
    assert_eq!(gpu["found"], "NVIDIA H100 80GB HBM3, 80.0 GiB, PCIe 5 x16");
    for key in ["ecc", "remapped_rows", "retired_pages_pending", "clocks_event_reasons"] {
        assert!(gpu["details"].get(key).is_none(), "{key}: {gpu:#}");
    }
    assert!(rows(&answer, "GPU links").is_empty(), "{answer:#}");
}

#[test]
fn a_library_that_answers_out_of_bounds_is_survived() {
    let test = "a_library_that_answers_out_of_bounds_is_survived";
    let gpus = |count: &str| asked(test, Driver::New, &[("GPUS", count), ("FAULTS", "noise")]);
    let Some(noise) = gpus("4") else { return };
    assert_eq!(matrix(&noise)[0], "X ? NV18 NV18");
    assert!(rows(&noise, "GPU 1")[0]["found"].as_str().unwrap().contains("in use"), "{noise:#}");
    // The most that are believed: the whole answer gets through, and the matrix is folded.
    let Some(most) = asked(test, Driver::New, &[("GPUS", "32")]) else { return };
    assert_eq!(matrix(&most).len(), 32);
    let Some(absurd) = gpus("4000000000") else { return };
    let found = rows(&absurd, "driver")[0]["found"].as_str().unwrap();
    assert!(found.contains("`nvmlDeviceGetCount` reports 4000000000 GPUs"), "{absurd:#}");
    let Some(none) = asked(test, Driver::New, &[("FAULTS", "driver")]) else { return };
    assert!(rows(&none, "driver")[0]["found"].as_str().unwrap().contains("Driver Not Loaded"), "{none:#}");
}

#[test]
fn the_matrix_of_eight_gpus_needs_no_more_than_eighty_columns() {
    let test = "the_matrix_of_eight_gpus_needs_no_more_than_eighty_columns";
    let Some(ended) = validate(test, Driver::New, "", &[]) else { return };
    let lines: Vec<&str> = ended.out.lines().filter(|line| line.trim_start().starts_with("GPU")).collect();
    assert!(lines.len() > 8 && lines.iter().all(|line| line.chars().count() <= 80), "{}", ended.out);
    assert!(lines.iter().any(|line| line.trim() == "GPU0  GPU1  GPU2  GPU3  GPU4  GPU5  GPU6  GPU7"), "{}", ended.out);
}
