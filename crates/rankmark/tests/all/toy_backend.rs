//! What one module and one line give a backend: `examples/toy_backend.rs` is nowhere else in the program.

use std::path::Path;

use crate::place::{Ended, Place};

fn run(place: &Place, arguments: &str) -> Ended {
    let program = Path::new(env!("CARGO_BIN_EXE_rankmark")).with_file_name("examples").join("toy_backend");
    assert!(program.exists(), "cargo test -p rankmark builds {}, and --test all does not", program.display());
    place.command_of(&program.display().to_string(), arguments).start().wait()
}

const SMALL: &str = "comm all_reduce --ranks 2 --bytes 1KiB --iters 6 --warmup 1 --trials 1 --output-dir";

#[test]
fn a_backend_is_one_module_and_one_line() {
    let place = Place::new();
    let listed = run(&place, "list backends").exits(0);
    assert!(listed.out.contains("relay") && listed.out.contains("shared memory with a delay"), "{}", listed.out);
    let help = run(&place, "comm --help").exits(0);
    assert!(help.out.contains("--relay-delay"), "{}", help.out);

    // Its own field: checked by it, refused with another backend, the same in flags and plans.
    run(&place, &format!("{SMALL} x --backend relay --relay-delay 2s")).refuses(&["at most a second", "2ms"]);
    run(&place, &format!("{SMALL} x --backend shm --relay-delay 2ms"))
        .refuses(&["`relay_delay` is for the backend `relay`", "`backend: relay`"]);
    place.write(
        "plan.yaml",
        "experiment: relay\ncases:\n  - {benchmark: collective, op: all_reduce, backend: relay, relay: {delay: [1ms, 3ms]}, \
         bytes: [1KiB, 2KiB, 4KiB], iters: 6, warmup: 1, trials: 1}\n",
    );

    // Its ranks come from its own launcher, obey its field, and their results are right.
    run(&place, "run plan.yaml --output-dir r").exits(0);
    let cases = place.cases("r");
    assert_eq!(cases.len(), 6);
    for line in &cases {
        let (time, delay) = (line["time_s"]["median"].as_f64(), line["parameters"]["relay_delay"].as_f64());
        assert!(line["wrong"] == 0 && delay.is_some() && time >= delay, "{line}");
    }

    // Its name goes with its version, and with who started the ranks.
    let file = place.run_file("r");
    let states = file["backends"].as_array().unwrap();
    let state = states.iter().find(|state| state["name"] == "relay").unwrap();
    assert_eq!(state["version"], "toy 1.0");
    assert!(state["launcher"].as_str().unwrap().ends_with("toy_backend"), "{state}");
    let chart = place.read("r/charts/all_reduce-busbw.svg");
    assert!(chart.contains("relay (toy 1.0)") && chart.contains("toy_backend"), "{chart}");
    assert!(place.read("r/report.md").contains("relay delay 1.00 ms"), "{}", place.read("r/report.md"));
}

/// Other programs show its record without it.
#[test]
fn a_record_of_a_backend_that_is_not_known_is_shown() {
    let place = Place::new();
    run(&place, &format!("{SMALL} r --backend relay --relay-delay 1ms")).exits(0);
    std::fs::remove_file(place.path("r/report.md")).unwrap();
    place.run("report r").exits(0);
    assert!(place.read("r/report.md").contains("relay"));
}
