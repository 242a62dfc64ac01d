//! `rankmark gen-config PRESET`, `rankmark gen-config --hardware NAME`: a plan to start from.

use clap::ArgMatches;
use measure::machine;

use crate::{Failure, hardware, plans, terminal};

pub(crate) fn run(matches: &ArgMatches) -> Result<u8, Failure> {
    if let Some(name) = matches.get_one::<&str>("hardware") {
        return terminal::print(&hardware::text(name));
    }
    let name = matches.get_one::<String>("preset").map_or("quick", String::as_str);
    let preset = plans::PRESETS.iter().find(|preset| preset.name == name);
    let preset = preset.ok_or_else(|| Failure::new(format!("there is no preset `{name}`")))?;
    terminal::print(&(preset.text)(machine::allowed_cpus().len()))
}
