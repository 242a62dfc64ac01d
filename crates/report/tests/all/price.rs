//! What steps and tokens cost at the price that the user gives.

use report::{Run, format};
use serde_json::json;

use crate::data;

fn page(run: &Run, name: &str) -> String {
    let files = format(name).unwrap().render(run).unwrap();
    String::from_utf8(files[0].content.clone()).unwrap()
}

/// 0.36 s a step on 8 GPUs, 10,000 tokens a second.
fn steps(device: &str) -> Run {
    let mut run = data::study();
    let line = &mut run.cases[0];
    let time = line.time_s.as_mut().unwrap();
    (time.median, time.ci95, time.ci95_again) = (0.36, Some([0.3, 0.4]), Some([0.27, 0.45]));
    (line.ranks, line.hosts, line.device) = (8, None, device.to_owned());
    line.metrics.insert("step_s", json!({"median": 0.36}));
    line.metrics.insert("tokens_per_s", json!(10_000.0));
    line.metrics
        .insert("sensors", json!({"devices": [{"device": 0, "power_w": 300.0}, {"device": 1, "power_w": 200.0}]}));
    run
}

#[test]
fn a_step_and_a_million_tokens_have_a_price_with_its_interval() {
    for name in ["markdown", "html"] {
        let without = page(&steps("cuda"), name);
        assert!(!without.contains("energy of a step"), "{without}");
        let text = page(&Run { price: Some("5/gpu-hour".parse().unwrap()), ..steps("cuda") }, name).replace("\\$", "$");
        // 8 GPUs x 5 $/h x 0.36 s = 0.004 $; 3,600 tokens a step.
        for part in
            ["$0.00400 ($0.00300 to $0.00500)", "$1.11 ($0.833 to $1.39)", "180 J", "$5.00 for an hour of a GPU"]
        {
            assert!(text.contains(part), "{name}: no `{part}` in\n{text}");
        }
    }
    let node =
        page(&Run { price: Some("$36/node-hour".parse().unwrap()), ..steps("cpu") }, "markdown").replace("\\$", "$");
    assert!(node.contains("$0.00360 ($0.00270 to $0.00450)"), "{node}");
}

#[test]
fn the_energy_of_gpus_that_no_rank_used_is_not_that_of_a_step() {
    let mut run = Run { price: Some("5/gpu-hour".parse().unwrap()), ..steps("cuda") };
    run.cases[0].ranks = 1;
    let text = page(&run, "markdown");
    assert!(text.contains("for an hour of a GPU") && !text.contains("energy of a step"), "{text}");
}

#[test]
fn a_price_of_gpus_says_nothing_of_a_run_without_them() {
    let text =
        page(&Run { price: Some("5/gpu-hour".parse().unwrap()), ..steps("cpu") }, "markdown").replace("\\$", "$");
    assert!(text.contains("No case measured a step on GPUs") && !text.contains("$0"), "{text}");
}
