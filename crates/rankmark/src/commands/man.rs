//! `rankmark man [DIR]`: manual pages, one a command.

use std::path::PathBuf;

use clap::ValueHint;

use super::{Ended, Typed};
use crate::session::Entry;
use crate::{Failure, screen};

/// Manual pages, one a command; without DIR, the page of rankmark on standard output
#[derive(clap::Args)]
#[command(after_help = "To read one: `rankmark man DIR`, then `man -l DIR/rankmark-comm.1`.")]
pub(crate) struct Man {
    /// write all pages there, replacing those of an earlier version
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    directory: Option<PathBuf>,
}

impl Typed for Man {
    const NAME: &'static str = "man";

    fn run(self, entry: Entry<'_>) -> Ended {
        let pages = pages((entry.command_line)());
        let Some(directory) = &self.directory else {
            let own = pages.into_iter().find(|(name, _)| name == "rankmark.1").map(|(_, page)| page);
            return screen::print(&String::from_utf8_lossy(&own.unwrap_or_default()));
        };
        let mut written = String::new();
        for (name, page) in pages {
            let path = directory.join(name);
            record::file::replace_named(&path, &page)
                .map_err(|error| Failure::new(format!("{} cannot be written", path.display())).cause(error))?;
            written.push_str(&format!("{}\n", path.display()));
        }
        screen::print(&written)
    }
}

/// The name of each page's file, and the page.
fn pages(command: clap::Command) -> Vec<(String, Vec<u8>)> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut commands = vec![&command];
    let mut pages = Vec::new();
    while let Some(command) = commands.pop() {
        commands.extend(command.get_subcommands().filter(|below| !below.is_hide_set()));
        let man = clap_mangen::Man::new(command.clone())
            .manual("Rankmark")
            .source(concat!("rankmark ", env!("CARGO_PKG_VERSION")));
        let mut page = Vec::new();
        // Into memory: nothing that could fail.
        let _ = man.render(&mut page);
        pages.push((man.get_filename(), page));
    }
    pages.sort();
    pages
}
