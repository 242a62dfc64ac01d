//! Any bytes as a configuration of another tool, by each of its readers: no panic, and what is read is a plan of printable lines.

#![no_main]

use import::{Content, Here, Source};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    let Ok(source) = Source::new("file", rest.to_vec()) else { return };
    let torch = if first & 1 == 0 { Ok("2.13".to_owned()) } else { Err("none".to_owned()) };
    let here = Here { torch: Some(torch), hosts: usize::from(first & 2), memory: Some(1 << 34), ..Here::default() };
    let source = source.on(here);
    for name in ["ddlb", "torchscale", "candle", "cloudai"] {
        let Ok(format) = import::format(name) else { panic!("there is no format {name}") };
        let Ok(Content::Plan(plan)) = format.read(&source) else { continue };
        assert!(plan.warnings.iter().chain(&plan.read_as).all(|line| !line.contains(char::is_control)));
        assert!(plan.text.lines().all(|line| !line.contains(char::is_control)));
        assert!(plan.text.contains("\ncases:\n"));
    }
});
