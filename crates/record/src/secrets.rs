//! Secrets within text: what looks like a password, a key or a token, and the text without it.
//!
//! Whatever keeps or shows text from outside asks this module: environment, command lines, reasons of cases, errors, and
//! archives that `pack --redact` makes. It errs on the side of silence.

mod files;
mod json;
mod markup;
mod name;
mod value;

use std::ops::Range;

pub(crate) use files::masked_file;
pub(crate) use json::masked_json;
pub use name::smells_like_secret;

use name::is_secret_option;
use value::Extent;

/// What stands in place of a secret.
pub(crate) const MASK: &str = "***";

/// A command line fit for a record: each word as [`masked`], and without the value behind an option (`--password PW`) whose
/// name says that it is secret.
pub fn command_line(arguments: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut hide = false;
    let each = |argument: String| {
        let hidden = std::mem::replace(&mut hide, is_secret_option(&argument));
        if hidden && !argument.starts_with('-') { MASK.to_owned() } else { masked(&argument) }
    };
    arguments.into_iter().map(each).collect()
}

/// Whether a text holds something that looks like a secret, whatever its name.
pub fn holds_secret(text: &str) -> bool {
    !secrets(text, Extent::Word).is_empty()
}

/// The text with `***` in place of what looks like a secret.
pub fn masked(text: &str) -> String {
    without(text, secrets(text, Extent::Word))
}

/// A line of a plan, or an error that quotes one, with `***` in place of what looks like a secret: a value without quotes may
/// hold spaces there, so it reaches to the end of its line.
pub fn masked_lines(text: &str) -> String {
    without(text, secrets(text, Extent::Line))
}

fn without(text: &str, found: Vec<Range<usize>>) -> String {
    let mut safe = text.to_owned();
    for found in found.into_iter().rev() {
        safe.replace_range(found, MASK);
    }
    safe
}

/// How often a text has the mask.
pub(crate) fn masks(text: &[u8]) -> usize {
    text.windows(MASK.len()).filter(|window| *window == MASK.as_bytes()).count()
}

/// Where a text holds secrets, in their order, and apart from each other.
fn secrets(text: &str, extent: Extent) -> Vec<Range<usize>> {
    if is_plain(text.as_bytes()) {
        return Vec::new();
    }
    let mut found = value::named(text, extent);
    found.extend(value::behind_options(text));
    found.extend(private_keys(text));
    found.extend(of_addresses(text));
    found.extend(tokens(text));
    let mut begin = 0;
    for word in text.split_inclusive(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | ';')) {
        found.extend(password(word).map(|place| begin + place.start..begin + place.end));
        begin += word.len();
    }
    found.retain(|place| !place.is_empty() && text[place.clone()].trim_end_matches(['"', '\'', '`']) != MASK);
    found.sort_by_key(|place| place.start);
    let mut apart: Vec<Range<usize>> = Vec::new();
    for place in found {
        match apart.last_mut().filter(|last| place.start <= last.end) {
            Some(last) => last.end = last.end.max(place.end),
            None => apart.push(place),
        }
    }
    apart
}

/// Whether a text is too short and too plain for any secret, as most texts of a record are.
fn is_plain(text: &[u8]) -> bool {
    text.len() < SHORTEST_TOKEN && !text.iter().any(|byte| matches!(byte, b'=' | b':' | b'@' | b'-'))
}

/// Passwords of `scheme://user:password@host`, also without a user, and long users without a password, which are tokens.
fn of_addresses(text: &str) -> Vec<Range<usize>> {
    const SHORTEST_USER: usize = 20;
    let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>' | '\\');
    let mut found = Vec::new();
    for (at, _) in text.match_indices("://") {
        let begin = at + 3;
        let rest = &text[begin..];
        let rest = &rest[..rest.find(ends).unwrap_or(rest.len())];
        let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
        let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        // A password with a slash in it: what stands behind the colon is not a port.
        let split = authority.split_once(':').filter(|_| !authority.starts_with('['));
        let whole = match (authority.rfind('@'), split) {
            (None, Some((_, port)))
                if !is_port(port) && rest.contains('@') && !rest[..authority.len()].contains(',') =>
            {
                rest
            }
            _ => authority,
        };
        let Some(host) = whole.rfind('@') else { continue };
        // Of `tcp://host:80,user:password@host` the last of the list.
        let mut ends = whole[..host].rmatch_indices([',', ';']).map(|(end, _)| end);
        let user = ends.find(|end| whole[..*end].rfind(':').is_some_and(|colon| is_port(&whole[colon + 1..*end])));
        let user = user.map_or(0, |end| end + 1);
        match whole[user..host].find(':') {
            Some(colon) => found.push(begin + user + colon + 1..begin + host),
            None if host - user >= SHORTEST_USER => found.push(begin + user..begin + host),
            None => {}
        }
    }
    found
}

/// The password of `user:password@host`, without a scheme.
fn password(word: &str) -> Option<Range<usize>> {
    if word.contains("://") {
        return None;
    }
    // A path may hold anything.
    let address = &word[..word.find(['/', '?', '#']).unwrap_or(word.len())];
    let at = address.rfind('@')?;
    let colon = address[..at].find(':')?;
    let host = address[at + 1..].chars().next();
    (colon > 0 && host.is_some_and(char::is_alphanumeric)).then_some(colon + 1..at)
}

/// Private keys in the form of OpenSSL, from their first line to the end of their last.
fn private_keys(text: &str) -> Vec<Range<usize>> {
    const KIND: &str = "PRIVATE KEY-----";
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(begin) = text[from..].find("-----BEGIN ").map(|at| from + at) {
        let head = &text[begin..];
        let Some(kind) = head.find(KIND).filter(|kind| *kind < 40) else {
            from = begin + 1;
            continue;
        };
        let body = begin + kind + KIND.len();
        let end = text[body..].find(KIND).map_or(text.len(), |end| body + end + KIND.len());
        found.push(begin..end);
        from = end;
    }
    found
}

/// Characters of the shortest token.
const SHORTEST_TOKEN: usize = 20;

/// Tokens with the beginnings that services give them.
fn tokens(text: &str) -> Vec<Range<usize>> {
    const BEGINNINGS: [&str; 24] = [
        "ghp_",
        "gho_",
        "ghs_",
        "ghu_",
        "ghr_",
        "github_pat_",
        "glpat-",
        "glsa_",
        "hf_",
        "sk-",
        "sk_live_",
        "rk_live_",
        "xoxb-",
        "xoxp-",
        "xoxa-",
        "AKIA",
        "ASIA",
        "AIza",
        "ya29.",
        "eyJ",
        "npm_",
        "pypi-",
        "dop_v1_",
        "dckr_pat_",
    ];
    let is_of_token = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let mut found = Vec::new();
    let mut at = 0;
    // Word by word of letters that a token may have: a beginning counts only where none stands before it.
    while let Some(begin) = text[at..].find(is_of_token).map(|offset| at + offset) {
        let end = text[begin..].find(|c| !is_of_token(c)).map_or(text.len(), |length| begin + length);
        let word = &text[begin..end];
        let is_begin = |place: usize| !word[..place].ends_with(|c: char| c.is_ascii_alphanumeric());
        // Logs and scripts are called `hf_trainer_8_gpus.txt`; such a token has letters and digits only.
        let is_name = |one: &str, place: usize| {
            let body = word.bytes().skip(place + one.len());
            one == "hf_" && body.take_while(u8::is_ascii_alphanumeric).count() < SHORTEST_TOKEN - one.len()
        };
        let starts = BEGINNINGS
            .iter()
            .filter_map(|one| word.find(one).filter(|place| is_begin(*place) && !is_name(one, *place)));
        if let Some(place) = starts.min().filter(|place| word.len() - place >= SHORTEST_TOKEN) {
            found.push(begin + place..end);
        }
        at = end;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_masks_secrets() {
        let typed = ["rankmark", "run", "--env", "NCCL_DEBUG=INFO", "--env", "HF_TOKEN=abc=d", "--env=API_KEY=x y&z"];
        let kept = command_line(typed.iter().map(|word| (*word).to_owned()));
        let expected = ["rankmark", "run", "--env", "NCCL_DEBUG=INFO", "--env", "HF_TOKEN=***", "--env=API_KEY=***"];
        assert_eq!(kept, expected);
        let typed = ["rankmark", "profile", "--", "train", "--hf-token", "abc", "--epochs", "3", "--use-token", "--x"];
        let kept = command_line(typed.iter().map(|word| (*word).to_owned()));
        let expected =
            ["rankmark", "profile", "--", "train", "--hf-token", "***", "--epochs", "3", "--use-token", "--x"];
        assert_eq!(kept, expected);
        // Tokens of experts.
        let shown = [
            "rankmark",
            "--tokens",
            "zipf:exponent=1",
            "--tokens-file=counts",
            "--set",
            "tokens=skewed",
            "--set=tokens=hot",
            "--max-tokens=4096",
        ];
        assert_eq!(command_line(shown.map(str::to_owned)), shown);
        assert!(smells_like_secret("--hf-tokens") && smells_like_secret("API_TOKENS"));
    }

    #[test]
    fn secrets_within_texts_are_masked() {
        let long = "a1B2".repeat(8);
        for (text, expected) in [
            ("http://user:pass@proxy:3128".to_owned(), "http://user:***@proxy:3128"),
            ("--index=https://me:t0k%40en@host/simple".to_owned(), "--index=https://me:***@host/simple"),
            ("postgres://a:b@c,redis://d:e@f".to_owned(), "postgres://a:***@c,redis://d:***@f"),
            ("redis://:PW@h:6379/0".to_owned(), "redis://:***@h:6379/0"),
            ("amqps://u:p/w,@[::1]/x a@b".to_owned(), "amqps://u:***@[::1]/x a@b"),
            ("x+y://:a@b@h".to_owned(), "x+y://:***@h"),
            (format!("https://{long}@o1.ingest/2"), "https://***@o1.ingest/2"),
            ("admin:hunter2@node-a".to_owned(), "admin:***@node-a"),
            ("curl -H 'Authorization: Bearer abc.def'".to_owned(), "curl -H 'Authorization: ***"),
            ("AUTHORIZATION=Basic dXNlcg==".to_owned(), "AUTHORIZATION=***"),
            ("x-api-key: a b\nnext".to_owned(), "x-api-key: ***\nnext"),
            (r#"{"password": "a b", "x": 1}"#.to_owned(), r#"{"password": "***", "x": 1}"#),
            (r#"{\"token\":\"a b\",\"x\":1}"#.to_owned(), r#"{\"token\":\"***\",\"x\":1}"#),
            (format!("x ghp_{long} y hf_{long}"), "x *** y ***"),
            (format!("--note=hf_{long}"), "--note=***"),
            (format!("-----BEGIN RSA PRIVATE KEY-----\n{long}\n-----END RSA PRIVATE KEY-----\nx"), "***\nx"),
            ("mysql --password PW -h x".to_owned(), "mysql --password *** -h x"),
            ("sh -c 'a --db-passwd \"P W\"; b'".to_owned(), "sh -c 'a --db-passwd \"***\"; b'"),
            ("x --secret=PW y".to_owned(), "x --secret=*** y"),
            ("the option `--env MY_TOKEN=a b` is wrong".to_owned(), "the option `--env MY_TOKEN=***` is wrong"),
            ("https://h/x?sig=a%2Fb&x=1#y".to_owned(), "https://h/x?sig=***&x=1#y"),
            ("https://h/x?a=1&X-Amz-Signature=ab&code=c".to_owned(), "https://h/x?a=1&X-Amz-Signature=***&code=***"),
            ("p=https;AccountKey=PW==;Suffix=x".to_owned(), "p=https;AccountKey=***;Suffix=x"),
            ("Server=h; Pwd=P W".to_owned(), "Server=h; Pwd=***"),
            ("PASSWORD=a\nb".to_owned(), "PASSWORD=***"),
            ("A=1 MY_SECRET=a\\ b c".to_owned(), "A=1 MY_SECRET=*** c"),
        ] {
            assert!(holds_secret(&text), "{text}");
            assert_eq!(masked(&text), expected);
            assert_eq!(masked(expected), expected, "a mask is not a secret");
        }
        for plain in [
            "mlx5_0:1",
            "git@host:path",
            "delay:rank=1,us=20",
            "tcp://10.0.0.1:29500",
            "tcp://10.0.0.1:29500,me@host",
            "http://host:80/a@b",
            "all@once",
            "sk-1",
            "logs/hf_trainer_8_gpus_run_2.txt",
            "",
            "a:@b",
            "redis://:@h",
            "while scanning for the next token: found x",
            "a mapping key: 3 = 4",
            "--use-token --next",
            "`--tokens` takes a choice; tokens=4096, max_tokens=4096",
            "std::token::x",
            "2026-11-28T10:15:00Z",
            "exit code=1",
            "TOKEN_FILE is /a/secret: it is open to all users",
            "tokens.bin: token 9 is past the vocabulary",
            "`x` is not key=value",
            "export PASSWORD=...",
        ] {
            assert_eq!(masked(plain), plain);
            assert!(!holds_secret(plain), "{plain}");
        }
    }

    #[test]
    fn a_line_of_a_plan_hides_whole_values() {
        assert_eq!(masked_lines("    - MY_TOKEN=a b"), "    - MY_TOKEN=***");
        assert_eq!(masked_lines("env: [\"MY_TOKEN=a b\", \"X=1\"]"), "env: [\"MY_TOKEN=***\", \"X=1\"]");
        assert_eq!(masked_lines("tokens: skewed"), "tokens: skewed");
    }
}
