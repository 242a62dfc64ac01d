//! The first page of help: commands in groups. clap lists them in one.

use clap::Command;
use view::terminal::hanging;

use crate::commands::Section;
use crate::screen;

/// The template of `rankmark --help`. Braces would be tags of clap's.
pub(super) fn template(sections: &[Section]) -> String {
    let declared: Vec<(Option<&str>, Vec<Command>)> = sections
        .iter()
        .map(|section| (section.heading, section.rows.iter().flat_map(|row| (row.declare)()).collect()))
        .collect();
    let names = declared.iter().filter(|(heading, _)| heading.is_some()).flat_map(|(_, commands)| commands);
    let longest = names.map(|command| command.get_name().len()).max().unwrap_or(0);
    let mut listed = String::new();
    let mut rare: Vec<&str> = Vec::new();
    for (heading, commands) in &declared {
        let Some(heading) = heading else {
            rare.extend(commands.iter().map(Command::get_name));
            continue;
        };
        listed += &format!("\u{1b}[1m\u{1b}[4m{heading}:\u{1b}[0m\n");
        commands.iter().for_each(|command| listed += &line(command, longest));
        listed.push('\n');
    }
    let more = format!("{}; `rankmark help COMMAND` describes each command", rare.join(", "));
    let more = hanging("More commands: ", &more, screen::width());
    format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{listed}{more}\n\nOptions:\n{{options}}{{after-help}}"
    )
}

/// `  run       Runs a plan ... [aliases: suite]`.
fn line(command: &Command, longest: usize) -> String {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let aliases: Vec<&str> = command.get_visible_aliases().collect();
    let aliases = if aliases.is_empty() { String::new() } else { format!(" [aliases: {}]", aliases.join(", ")) };
    let label = format!("  \u{1b}[1m{:longest$}\u{1b}[0m  ", command.get_name());
    let text = hanging(&format!("  {:longest$}  ", command.get_name()), &format!("{about}{aliases}"), screen::width());
    format!("{}\n", text.replacen(&format!("  {:longest$}  ", command.get_name()), &label, 1))
}
