//! Our own Markdown as HTML: what the report says in lists, small tables and paragraphs is worded once.
//!
//! Knows only what this crate writes: paragraphs, lists of two levels, tables, fenced code, and inside of a line bold text,
//! code and escapes. Anything else stays text. Every character that is not markup of ours is escaped.

use crate::escape::xml as escape;

/// Blocks of Markdown as HTML.
pub(super) fn html(text: &str) -> String {
    let mut out = String::new();
    let lines: Vec<&str> = text.lines().collect();
    let mut at = 0;
    while at < lines.len() {
        let rest = &lines[at..];
        at += match lines[at] {
            line if line.trim().is_empty() => 1,
            line if line.starts_with("```") => fence(&mut out, rest),
            line if line.starts_with("| ") => table(&mut out, rest),
            line if line.starts_with("* ") => list(&mut out, rest),
            _ => paragraph(&mut out, rest),
        };
    }
    out
}

fn fence(out: &mut String, lines: &[&str]) -> usize {
    let body: Vec<&str> = lines.iter().skip(1).take_while(|line| !line.starts_with("```")).copied().collect();
    *out += &format!("<pre tabindex=\"0\"><code>{}</code></pre>", escape(&body.join("\n")));
    body.len() + 2
}

fn paragraph(out: &mut String, lines: &[&str]) -> usize {
    let taken = |line: &&&str| !line.trim().is_empty() && !line.starts_with("* ") && !line.starts_with("| ");
    let body: Vec<&str> = lines.iter().take_while(taken).copied().collect();
    *out += &format!("<p>{}</p>", inline(&body.join(" ")));
    body.len().max(1)
}

fn list(out: &mut String, lines: &[&str]) -> usize {
    let (mut taken, mut nested) = (0, false);
    *out += "<ul>";
    for line in lines {
        match (line.strip_prefix("* "), line.strip_prefix("  * ")) {
            (Some(item), _) => {
                *out += if taken == 0 {
                    ""
                } else if nested {
                    "</ul></li>"
                } else {
                    "</li>"
                };
                nested = false;
                *out += &format!("<li>{}", inline(item));
            }
            (None, Some(item)) => {
                *out += if nested { "" } else { "<ul>" };
                nested = true;
                *out += &format!("<li>{}</li>", inline(item));
            }
            _ => break,
        }
        taken += 1;
    }
    *out += if nested { "</ul></li></ul>" } else { "</li></ul>" };
    taken
}

/// A table: its heads, a line of dashes that aligns them, its rows.
fn table(out: &mut String, lines: &[&str]) -> usize {
    let lines: Vec<&str> = lines.iter().take_while(|line| line.starts_with('|')).copied().collect();
    let right: Vec<bool> =
        lines.get(1).map(|line| cells(line)).unwrap_or_default().iter().map(|cell| cell.ends_with(':')).collect();
    let row = |line: &str, tag: &str| {
        let cell = |(at, cell): (usize, &String)| {
            let class = if right.get(at) == Some(&true) { " class=\"n\"" } else { "" };
            let scope = if tag == "th" { " scope=\"col\"" } else { "" };
            format!("<{tag}{scope}{class}>{}</{tag}>", inline(cell))
        };
        format!("<tr>{}</tr>", cells(line).iter().enumerate().map(cell).collect::<String>())
    };
    let head = lines.first().map(|line| row(line, "th")).unwrap_or_default();
    let body: String = lines.iter().skip(2).map(|line| row(line, "td")).collect();
    *out += &format!(
        "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"table\"><table><thead>{head}</thead><tbody>{body}</tbody></table></div>"
    );
    lines.len()
}

/// The cells of a row: what stands between bars that are not escaped.
fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut characters = line.trim().chars();
    while let Some(character) = characters.next() {
        let last = cells.len() - 1;
        match character {
            '\\' => {
                cells[last].push('\\');
                cells[last].extend(characters.next());
            }
            '|' => cells.push(String::new()),
            other => cells[last].push(other),
        }
    }
    let inner = cells.len().saturating_sub(1).max(1);
    cells[1..inner].iter().map(|cell| cell.trim().to_owned()).collect()
}

/// One line.
pub(super) fn inline(text: &str) -> String {
    let (mut out, mut bold) = (String::with_capacity(text.len() + 16), false);
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let after = &rest[character.len_utf8()..];
        rest = match character {
            '\\' => {
                let literal = after.chars().next();
                out.extend(literal.map(|literal| escape(literal.encode_utf8(&mut [0; 4]))));
                literal.map_or(after, |literal| &after[literal.len_utf8()..])
            }
            '`' => code(&mut out, rest),
            '*' if after.starts_with('*') => {
                out += if bold { "</strong>" } else { "<strong>" };
                bold = !bold;
                &after[1..]
            }
            '&' => match ["&amp;", "&lt;", "&gt;"].iter().find(|entity| rest.starts_with(**entity)) {
                Some(entity) => {
                    out += entity;
                    &rest[entity.len()..]
                }
                None => {
                    out += "&amp;";
                    after
                }
            },
            other => {
                out += &escape(other.encode_utf8(&mut [0; 4]));
                after
            }
        };
    }
    out + if bold { "</strong>" } else { "" }
}

/// Code between fences of equally many backticks; returns what is left behind it.
fn code<'t>(out: &mut String, text: &'t str) -> &'t str {
    let length = text.bytes().take_while(|byte| *byte == b'`').count();
    let (fence, body) = text.split_at(length);
    let mut from = 0;
    while let Some(found) = body[from..].find('`').map(|found| found + from) {
        let run = body[found..].bytes().take_while(|byte| *byte == b'`').count();
        if run == length {
            let inside = &body[..found];
            let inside = inside.strip_prefix(' ').and_then(|inside| inside.strip_suffix(' ')).unwrap_or(inside);
            *out += &format!("<code>{}</code>", escape(inside));
            return &body[found + run..];
        }
        from = found + run;
    }
    *out += fence;
    body
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::escape::{code, markdown};

    #[test]
    fn what_was_escaped_is_text_again_and_no_markup() {
        let hostile = "<script>alert('1')</script> | \"x\" `y` *z* # & _a_ \\ &lt;b&gt;";
        let shown = inline(&markdown(hostile));
        assert_eq!(shown, escape(hostile));
        assert_eq!(inline(&code("a`b <i>")), "<code>a`b &lt;i&gt;</code>");
        assert_eq!(inline("**bold** `x` 5 * 3"), "<strong>bold</strong> <code>x</code> 5 * 3");
    }

    #[test]
    fn blocks_become_elements() {
        let text = "One\ntwo.\n\n* a\n  * b\n* c\n\n| x \\| y | n |\n| --- | --: |\n| `1` | 2 |\n\n```sh\n<run>\n```\n";
        let shown = html(text);
        assert!(shown.starts_with("<p>One two.</p><ul><li>a<ul><li>b</li></ul></li><li>c</li></ul><div"), "{shown}");
        assert!(shown.contains("<th scope=\"col\">x | y</th><th scope=\"col\" class=\"n\">n</th>"), "{shown}");
        assert!(shown.contains("<td><code>1</code></td><td class=\"n\">2</td>"), "{shown}");
        assert!(shown.ends_with("<pre tabindex=\"0\"><code>&lt;run&gt;</code></pre>"), "{shown}");
        assert_eq!(html(""), "");
    }
}
