//! Rust text without what is not code: comments, literals, tests. Lines keep their numbers.
//!
//! A scanner and not a parser: a parser (syn) would be the heaviest dependency of this program, and every check here
//! looks for words.

use std::ops::Range;

/// `text` with comments and the insides of string and character literals turned to spaces.
pub(crate) fn code(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut masked = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = skipped_until(bytes, at);
        match end {
            Some(end) => {
                masked[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
                at = end;
            }
            // An identifier is passed whole, so that the r or b at its end begins no literal.
            None if is_word(bytes[at]) => at += bytes[at..].iter().take_while(|byte| is_word(**byte)).count(),
            None => at += 1,
        }
    }
    String::from_utf8(masked).expect("whole literals and comments were replaced by spaces")
}

/// Where string and character literals stand in code that ships.
pub(crate) fn literals(text: &str) -> Vec<Range<usize>> {
    let (bytes, code, product) = (text.as_bytes(), code(text), product_code(text));
    let is_shipped = |at: usize| {
        let before = code[..at].rfind(|c: char| !c.is_whitespace());
        before.is_none_or(|before| product.as_bytes()[before] == code.as_bytes()[before])
    };
    let (mut literals, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        match skipped_until(bytes, at) {
            Some(end) => {
                if bytes[at] != b'/' && is_shipped(at) {
                    literals.push(at..end);
                }
                at = end;
            }
            None if is_word(bytes[at]) => at += bytes[at..].iter().take_while(|byte| is_word(**byte)).count(),
            None => at += 1,
        }
    }
    literals
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Where the comment or literal that begins at `at` ends; None if none begins there.
fn skipped_until(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = &bytes[at..];
    if rest.starts_with(b"//") {
        return Some(at + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()));
    }
    if rest.starts_with(b"/*") {
        return Some(at + block_comment(rest));
    }
    // b"..", r"..", br#".."#, c"..": the prefix belongs to the literal.
    let prefix = rest.iter().take_while(|byte| matches!(byte, b'b' | b'r' | b'c')).count();
    let literal = &rest[prefix..];
    if prefix <= 2 && rest[..prefix].contains(&b'r') {
        let hashes = literal.iter().take_while(|byte| **byte == b'#').count();
        if literal.get(hashes) == Some(&b'"') {
            return Some(at + prefix + raw_string(literal, hashes));
        }
    }
    match literal.first() {
        Some(b'"') if prefix <= 2 => Some(at + prefix + quoted(literal, b'"')),
        Some(b'\'') if prefix <= 1 && is_character(literal) => Some(at + prefix + quoted(literal, b'\'')),
        _ => None,
    }
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest[at..].starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

fn raw_string(literal: &[u8], hashes: usize) -> usize {
    let end = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
    let inside = &literal[hashes + 1..];
    let length = inside.windows(end.len()).position(|window| window == end).map(|found| found + end.len());
    hashes + 1 + length.unwrap_or(inside.len())
}

fn quoted(literal: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < literal.len() {
        match literal[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    literal.len()
}

/// Whether this quote begins a character and not a lifetime: `'a'`, `'\n'`, `'é'`; not `'a`, `'static`.
fn is_character(literal: &[u8]) -> bool {
    match literal.get(1) {
        Some(b'\\') => true,
        Some(byte) if byte.is_ascii() => literal.get(2) == Some(&b'\''),
        Some(_) => literal.iter().skip(2).take(4).any(|byte| *byte == b'\''),
        None => false,
    }
}

/// [`code`] without items that exist in tests only (`#[cfg(test)]`, `#[test]`).
pub(crate) fn product_code(text: &str) -> String {
    let masked = code(text);
    let mut bytes = masked.clone().into_bytes();
    let mut from = 0;
    while let Some(begin) = masked[from..].find("#[").map(|found| from + found) {
        let attribute_end = begin + masked[begin..].find(']').map_or(masked.len() - begin, |found| found + 1);
        from = attribute_end;
        if is_test_attribute(&masked[begin..attribute_end]) {
            let end = item_end(masked.as_bytes(), attribute_end);
            bytes[begin..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
            from = end;
        }
    }
    String::from_utf8(bytes).expect("whole items were replaced by spaces")
}

fn is_test_attribute(attribute: &str) -> bool {
    let words: String = attribute.split_whitespace().collect();
    words == "#[test]" || words == "#[cfg(test)]" || words.starts_with("#[cfg(all(test,")
}

/// The end of the item after its first attribute: its closing brace, or its semicolon if that comes first. Other
/// attributes are brackets, in which neither counts.
fn item_end(bytes: &[u8], from: usize) -> usize {
    let (mut braces, mut brackets) = (0usize, 0usize);
    for (at, byte) in bytes.iter().enumerate().skip(from) {
        match byte {
            b'[' | b'(' => brackets += 1,
            b']' | b')' => brackets = brackets.saturating_sub(1),
            b'{' => braces += 1,
            b'}' => {
                braces = braces.saturating_sub(1);
                if braces == 0 && brackets == 0 {
                    return at + 1;
                }
            }
            b';' if braces == 0 && brackets == 0 => return at + 1,
            _ => {}
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_no_code() {
        let text = r####"let a = "exit() \" unsafe"; // unsafe
/* unsafe /* nested */ unsafe */ let b = r#"unsafe " unsafe"#; let c = b"unsafe"; let d = br"unsafe\";
let e: &'static str = x; let f = 'u'; let g = '\''; let h = 'é'; fn keep<'a>() {} for_r"unsafe";
"####;
        let masked = code(text);
        assert!(!masked.contains("unsafe"), "{masked}");
        for kept in ["let a =", "let b =", "let c =", "let d =", "&'static str = x", "let g =", "fn keep<'a>() {}"] {
            assert!(masked.contains(kept), "{kept} in {masked}");
        }
        assert_eq!(masked.lines().count(), text.lines().count());
    }

    #[test]
    fn text_that_ends_inside_a_literal_ends_there() {
        for text in ["\"abc", "/* abc", "r#\"abc", "'\\", "// abc", "\"abc\\"] {
            assert_eq!(code(text).trim(), "", "{text}");
        }
    }

    #[test]
    fn literals_of_tests_and_comments_do_not_ship() {
        let text = "let a = \"b\"; // \"c\"\n#[cfg(test)]\nmod tests { fn a() { \"d\" } }\nconst E: char = 'e';";
        let found: Vec<&str> = literals(text).into_iter().map(|at| &text[at]).collect();
        assert_eq!(found, ["\"b\"", "'e'"]);
    }

    #[test]
    fn items_of_tests_are_no_product() {
        let text = "fn shipped() { unsafe {} }\n#[cfg(test)]\n#[allow(x = [1; 2])]\nmod tests { fn a() { one(); } }\n\
                    #[cfg(test)] use two;\nfn also() { three(); }\n#[test]\nfn b() { four(); }\n#[cfg(not(test))] fn c() { five() }";
        let product = product_code(text);
        for kept in ["shipped", "three", "five", "unsafe"] {
            assert!(product.contains(kept), "{kept} in {product}");
        }
        for gone in ["one", "two", "four"] {
            assert!(!product.contains(gone), "{gone} in {product}");
        }
        assert_eq!(product.lines().count(), text.lines().count());
    }
}
