//! `rankmark gen-config PRESET`, `rankmark gen-config --hardware NAME`: a plan to start from.

use clap::builder::PossibleValuesParser;
use measure::machine;
use plans::{hardware, presets};

use super::{Ended, Typed};
use crate::session::Entry;
use crate::{Failure, screen};

/// Prints a plan to start from
#[derive(clap::Args)]
pub(crate) struct GenConfig {
    /// which plan (default: quick)
    #[arg(value_parser = PossibleValuesParser::new(presets::names()))]
    preset: Option<String>,
    #[arg(long, value_name = "NAME", value_parser = hardware::named, conflicts_with = "preset", help = hardware_help())]
    hardware: Option<&'static str>,
}

fn hardware_help() -> String {
    let names = hardware::names().join(", ");
    format!("a plan for this hardware, with the figures that it should reach; auto: for this machine [{names}]")
}

impl Typed for GenConfig {
    const NAME: &'static str = "gen-config";

    fn run(self, _: Entry<'_>) -> Ended {
        if let Some(name) = self.hardware {
            return screen::print(&hardware::text(name));
        }
        let name = self.preset.as_deref().unwrap_or("quick");
        let preset = presets::PRESETS.iter().find(|preset| preset.name == name);
        let preset = preset.ok_or_else(|| Failure::new(format!("there is no preset `{name}`")))?;
        screen::print(&(preset.text)(machine::allowed_cpus().len()))
    }
}
