//! `rankmark man`: a page a command.

use crate::place::Place;

#[test]
fn each_command_has_a_page() {
    let place = Place::new();
    let ended = place.run("man pages").exits(0);
    let help = place.run("--help").exits(0).out;
    let listed = help.split("Options:").next().unwrap();
    let named = help.split_once("More commands: ").unwrap().1.split(';').next().unwrap().split(", ");
    let first = |line: &'_ str| line.strip_prefix("  ").and_then(|line| line.split(' ').next()).map(str::to_owned);
    let mut commands: Vec<String> = listed.lines().filter_map(first).chain(named.map(str::to_owned)).collect();
    commands.retain(|name| !name.is_empty());
    assert!(commands.len() > 10, "{help}");
    for command in &commands {
        let page = place.read(&format!("pages/rankmark-{command}.1"));
        assert!(
            page.contains(".TH") && page.contains(&format!("rankmark\\-{}", command.replace('-', "\\-"))),
            "{page}"
        );
    }
    // So are `report generate`, and three of `baseline`.
    let names = std::fs::read_dir(place.path("pages")).unwrap().count();
    assert_eq!((names, ended.out.lines().count()), (commands.len() + 5, commands.len() + 5));
    assert!(place.read("pages/rankmark-comm.1").contains("\\-\\-ranks"));
    let own = place.run("man").exits(0).out;
    assert_eq!(own, place.read("pages/rankmark.1"));
    // Again: the same pages, and nothing else.
    let before = place.read("pages/rankmark-run.1");
    place.run("man pages").exits(0);
    assert_eq!(
        (before, names),
        (place.read("pages/rankmark-run.1"), std::fs::read_dir(place.path("pages")).unwrap().count())
    );
}

#[test]
fn a_page_that_cannot_be_written_is_an_error() {
    let place = Place::new();
    place.write("pages", "a file");
    place.run("man pages").refuses(&["pages/rankmark", "cannot be written"]);
    std::fs::create_dir(place.path("linked")).unwrap();
    std::os::unix::fs::symlink("/dev/null", place.path("linked/rankmark.1")).unwrap();
    place.run("man linked").refuses(&["linked/rankmark.1 cannot be written", "symbolic link"]);
}
