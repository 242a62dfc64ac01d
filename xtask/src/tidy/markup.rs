//! HTML, SVG and XML of reports are written by the types of `crates/report/src/markup`, which escape what is from data. A tag in
//! any other text of `report` would go round them.

use super::Finding;
use super::mask::{code, literals};
use super::tree::Tree;

const HERE: &str = "crates/report/src/";
/// Makes the types.
const TYPES: &str = "crates/report/src/markup/";
/// What a text with a tag may be handed to: it takes a literal, and the macros escape the values of one.
const TAKEN: [&str; 6] = ["html!", "svg!", "markup!", "put!", "literal", "Literal"];

/// Texts with a tag that are not handed to a type of markup.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let files = tree.rust().filter(|file| file.is_product() && file.path.starts_with(HERE));
    for file in files.filter(|file| !file.path.starts_with(TYPES)) {
        let code = code(&file.text);
        for literal in literals(&file.text) {
            let Some(tag) = tag(&file.text[literal.clone()]) else { continue };
            if !TAKEN.contains(&taker(&code[..literal.start])) {
                let line = 1 + code[..literal.start].matches('\n').count();
                let what = format!("`{tag}` is a tag: write it with `html!` or `svg!`, which escape what is from data");
                findings.push(Finding::error(&file.path, line, what));
            }
        }
    }
    findings
}

/// The first tag of a text: a `<` with the begin of a name behind it.
fn tag(literal: &str) -> Option<&str> {
    literal.match_indices('<').find_map(|(at, _)| {
        let name = literal[at + 1..].trim_start_matches(['/', '!', '?']);
        let end = name.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(name.len());
        // `{:<width$}` aligns a value.
        let begins = name.starts_with(|c: char| c.is_ascii_lowercase()) && !name[end..].starts_with('$');
        begins.then(|| literal[at..].split([' ', '>', '"']).next().unwrap_or_default())
    })
}

/// The function or macro whose arguments hold the end of this code.
fn taker(code: &str) -> &str {
    let mut open = 0;
    let opening = code.bytes().rposition(|byte| {
        match byte {
            b')' => open += 1,
            b'(' if open == 0 => return true,
            b'(' => open -= 1,
            _ => {}
        }
        false
    });
    let before = &code[..opening.unwrap_or(0)];
    let begin = before.rfind(|c: char| !c.is_alphanumeric() && c != '_' && c != '!').map_or(0, |at| at + 1);
    &before[begin..]
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::of_files;
    use super::*;

    fn found(path: &str, line: &str) -> usize {
        check(&of_files(&[(path, &format!("//! Doc.\nfn f() {{\n{line}\n}}\n"))])).len()
    }

    #[test]
    fn a_tag_outside_of_markup_is_found() {
        for line in [
            "let a = format!(\"<p>{x}</p>\");",
            "out += \"</b>\";",
            "out.push_str(r#\"<svg a=\"b\">\"#);",
            "write!(out, \"a <b\")?;",
            "html!(out => \"{}\", format!(\"<i>{x}\"));",
        ] {
            assert!(found("crates/report/src/a.rs", line) > 0, "{line}");
        }
    }

    #[test]
    fn markup_and_other_texts_are_left_alone() {
        for line in [
            "html!(out => \"<p>{}</p>\", x);",
            "let a = svg!(\n    r#\"<svg a=\"{}\">\"#,\n    f(1)\n);",
            "put!(Junit: text, \"<testcase{}/>\", about);",
            "out.literal(if a { \"</a>\" } else { \"\" });",
            "const THEME: Literal = Literal(\"<button>\");",
            "let a = \"a < b, <1, <Type>, {:<width$}\";",
            "// <p>",
            "let a: Vec<u8> = f::<x>();",
            "}\n#[cfg(test)]\nmod tests { fn a() { assert!(x.contains(\"<p>\")); }",
        ] {
            assert_eq!(found("crates/report/src/a.rs", line), 0, "{line}");
        }
        for path in ["crates/report/src/markup/a.rs", "crates/view/src/a.rs", "crates/report/tests/all/a.rs"] {
            assert_eq!(found(path, "let a = \"<p>\";"), 0, "{path}");
        }
    }
}
