//! Paths that Rust text names: those of `use`, each written out, and those inside code.
//!
//! Text, as everything in `tidy`: what a macro makes is not seen, nor what a glob brings in.

/// A path that begins at a module: `crate::a::b::C`, `super::d`, `child::e`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) segments: Vec<String>,
    /// Whether this is a `use`. Its last word may be a module; inside code the last word is always something in one.
    pub(crate) in_use: bool,
    /// The name under which `use` brings it in; None for a glob, and inside code.
    pub(crate) brought_in_as: Option<String>,
    /// `pub use`: passed on to others rather than used.
    pub(crate) passed_on: bool,
}

/// All paths of two and more segments, and whatever `use` names, in code without comments and literals
/// (`mask::product_code`). Inside `mod x { .. }` the file is `super`: each path is given as the file would write it.
pub(crate) fn named(code: &str) -> Vec<Named> {
    let tokens = tokens(code);
    let (mut found, mut at) = (Vec::new(), 0);
    // Braces that are open, and how many were when each module inside the file began.
    let (mut braces, mut modules) = (0_usize, Vec::new());
    while at < tokens.len() {
        let before = found.len();
        match tokens[at] {
            "{" => {
                if at >= 2 && tokens[at - 2] == "mod" {
                    modules.push(braces);
                }
                braces += 1;
            }
            "}" => {
                braces = braces.saturating_sub(1);
                modules.pop_if(|begun| *begun == braces);
            }
            _ => {}
        }
        if tokens[at] == "use" {
            // `pub` or the end of `pub(crate)`.
            let passed_on = at > 0 && matches!(tokens[at - 1], "pub" | ")");
            let end = tokens[at..].iter().position(|token| *token == ";").map_or(tokens.len(), |length| at + length);
            tree(&tokens[at + 1..end], &[], passed_on, &mut found);
            at = end;
        } else if is_word(tokens[at]) && tokens.get(at + 1) == Some(&"::") {
            let segments = segments(&tokens[at..]);
            at += 2 * segments.len() - 1;
            found.push(Named { segments, in_use: false, brought_in_as: None, passed_on: false });
        } else {
            at += 1;
        }
        found[before..].iter_mut().for_each(|path| leave(&mut path.segments, modules.len()));
    }
    found
}

/// Removes the `super` of up to so many modules inside the file.
fn leave(segments: &mut Vec<String>, modules: usize) {
    let above = segments.iter().take(modules).take_while(|word| *word == "super").count();
    segments.drain(..above);
    // `super::X` in such a module is the file's own `X`.
    if above > 0 {
        segments.insert(0, "self".to_owned());
    }
}

/// Words, `::`, and every other character but blanks by itself.
fn tokens(code: &str) -> Vec<&str> {
    let (mut found, mut rest) = (Vec::new(), code.trim_start());
    while let Some(first) = rest.chars().next() {
        let length = if is_letter(first) {
            rest.find(|letter| !is_letter(letter)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        found.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    found
}

fn is_letter(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn is_word(token: &str) -> bool {
    token.starts_with(is_letter)
}

/// The words at the beginning that `::` joins.
fn segments(tokens: &[&str]) -> Vec<String> {
    let mut found = vec![tokens[0].to_owned()];
    for pair in tokens[1..].chunks_exact(2) {
        match pair {
            ["::", word] if is_word(word) => found.push((*word).to_owned()),
            _ => break,
        }
    }
    found
}

/// The paths of what stands between `use` and `;`, or between two commas inside its braces.
fn tree(tokens: &[&str], above: &[String], passed_on: bool, found: &mut Vec<Named>) {
    let Some(first) = tokens.first() else { return };
    let own = if is_word(first) { segments(tokens) } else { Vec::new() };
    let rest = &tokens[(2 * own.len()).saturating_sub(1)..];
    // `a::{self}` is `a`.
    let own = own.into_iter().filter(|word| above.is_empty() || word != "self");
    let path: Vec<String> = above.iter().cloned().chain(own).collect();
    let rest = rest.strip_prefix(&["::"]).unwrap_or(rest);
    match rest {
        ["{", inside @ .., "}"] => {
            for part in parts(inside) {
                tree(part, &path, passed_on, found);
            }
        }
        ["as", name] => {
            found.push(Named { segments: path, in_use: true, brought_in_as: Some((*name).to_owned()), passed_on })
        }
        ["*"] => found.push(Named { segments: path, in_use: true, brought_in_as: None, passed_on }),
        _ => {
            let name = path.last().cloned();
            found.push(Named { segments: path, in_use: true, brought_in_as: name, passed_on });
        }
    }
}

/// What commas outside of braces divide.
fn parts<'a, 'b>(tokens: &'a [&'b str]) -> Vec<&'a [&'b str]> {
    let mut depth = 0_usize;
    let divides = move |token: &&'b str| {
        match *token {
            "{" => depth += 1,
            "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        *token == "," && depth == 0
    };
    tokens.split(divides).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(code: &str) -> Vec<String> {
        let text = |named: Named| {
            let name = named.brought_in_as.map_or(String::new(), |name| format!(" as {name}"));
            format!("{}{}{name}", if named.passed_on { "pub " } else { "" }, named.segments.join("::"))
        };
        named(code).into_iter().map(text).collect()
    }

    #[test]
    fn trees_of_use_are_written_out() {
        assert_eq!(texts("use crate::a::B;"), ["crate::a::B as B"]);
        assert_eq!(
            texts("pub(crate) use super::{a::{self, B as C}, d, e::*};\npub use f;"),
            ["pub super::a as a", "pub super::a::B as C", "pub super::d as d", "pub super::e", "pub f as f"]
        );
        assert_eq!(texts("#[cfg(x)]\nuse self::a::{\n    B,\n    C,\n};"), ["self::a::B as B", "self::a::C as C"]);
    }

    #[test]
    fn paths_inside_code_are_found() {
        let code = "fn f(a: crate::a::B<'_>) -> super::C { g::<u8>(d::e(), x.y); pub(super) h }";
        assert_eq!(texts(code), ["crate::a::B", "super::C", "g", "d::e"]);
        assert_eq!(texts("use"), [""; 0]);
    }

    #[test]
    fn paths_of_modules_inside_a_file_are_those_of_the_file() {
        let code = "mod a { use super::B; use super::super::c::D; mod e { super::super::f::g() } } use super::H;";
        assert_eq!(texts(code), ["self::B as B", "self::super::c::D as D", "self::f::g", "super::H as H"]);
    }
}
