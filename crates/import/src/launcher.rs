//! What launchers put before each line that a rank writes.

/// The hosts that a file's lines begin with, as pdsh writes them: `node-a: # nThread 1`. A word with a colon is one only where
/// the file has a line of a table's head behind it, because other programs write such words, too.
pub(crate) fn hosts(text: &str) -> Vec<String> {
    let mut hosts: Vec<String> = Vec::new();
    for line in text.lines() {
        let Some((host, rest)) = host_of(line) else { continue };
        let rest = rest.trim_start();
        let is_head = rest.starts_with("# ") || rest.starts_with("| ") || rest.starts_with("The average bandwidth of");
        if is_head && !hosts.iter().any(|known| known == host) && hosts.len() < MOST_HOSTS {
            hosts.push(host.to_owned());
        }
    }
    hosts
}

/// More hosts than a file of one table can have.
const MOST_HOSTS: usize = 64;

/// `node-a: text` as host and text.
fn host_of(line: &str) -> Option<(&str, &str)> {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let end = line.bytes().take(64).position(|byte| !is_letter(byte))?;
    let (host, rest) = line.split_at(end);
    let rest = rest.strip_prefix(": ")?;
    host.starts_with(|first: char| first.is_ascii_alphabetic()).then_some((host, rest))
}

/// A line without its end and without the prefix by which a launcher names the rank that wrote it: `[1,0]<stdout>:` and
/// `[1,0]:` (mpirun), behind `[prterun-node-1@1,0]<stdout>: ` and times as Open MPI 5 writes them; `3: ` (srun --label);
/// `[default0]:` and `[rank0]:` (torchrun); `[0] ` (Hydra's `-l`); `node-a: ` (pdsh) where it is one of `hosts`.
pub(crate) fn without_prefix<'l>(line: &'l str, hosts: &[String]) -> &'l str {
    let line = line.trim_end_matches('\r');
    if !hosts.is_empty()
        && let Some((_, rest)) = host_of(line).filter(|(host, _)| hosts.iter().any(|known| known == host))
    {
        return rest;
    }
    let start = line.trim_start();
    match start.as_bytes().first() {
        Some(b'0'..=b'9') => numbered(start).unwrap_or(line),
        Some(b'[' | b'A'..=b'Z') => tagged(start).unwrap_or(line),
        _ => line,
    }
}

/// `3: text`. Every row of a table begins with a digit, too: no more of it is looked at than a rank has digits.
fn numbered(start: &str) -> Option<&str> {
    let digits = start.bytes().take(6).take_while(u8::is_ascii_digit).count();
    start[digits..].strip_prefix(": ").filter(|_| (1..=5).contains(&digits))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn tagged(start: &str) -> Option<&str> {
    let (timed, rest) = match after_time(start) {
        Some(rest) => (true, rest),
        None => (false, start),
    };
    let Some((inside, rest)) = bracket(rest) else { return stream(rest).filter(|_| timed) };
    // `--output tag-detailed` names host and process behind the rank.
    let is_rank = is_rank(inside);
    let detailed = || bracket(rest).filter(|_| is_rank).and_then(|(_, rest)| stream(rest));
    let tail = stream(rest).or_else(|| rest.strip_prefix(':')).or_else(detailed);
    match tail {
        Some(tail) if is_rank || is_number(inside) || is_torch(inside) => Some(tail),
        None if is_number(inside) => rest.strip_prefix(' '),
        _ => None,
    }
}

/// `[inside]rest`.
fn bracket(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix('[')?.split_once(']')
}

/// What stands behind `<stdout>:`.
fn stream(text: &str) -> Option<&str> {
    ["<stdout>:", "<stderr>:", "<stddiag>:"].iter().find_map(|name| text.strip_prefix(name))
}

/// `1,0`, or `prterun-node-1@1,0`.
fn is_rank(inside: &str) -> bool {
    let pair = inside.rsplit('@').next().unwrap_or(inside);
    pair.split_once(',').is_some_and(|(job, rank)| is_number(job) && is_number(rank))
}

fn is_torch(inside: &str) -> bool {
    ["default", "rank"].iter().any(|word| inside.strip_prefix(word).is_some_and(is_number))
}

/// What stands behind `Thu May  7 10:39:20 2020`, with or without brackets.
fn after_time(start: &str) -> Option<&str> {
    const LONG: usize = "Thu May  7 10:39:20 2020".len();
    if let Some((inside, rest)) = bracket(start) {
        return is_time(inside).then_some(rest);
    }
    let (time, rest) = start.split_at_checked(LONG)?;
    is_time(time).then_some(rest)
}

fn is_time(text: &str) -> bool {
    let shape = "AAA AAA 99 99:99:99 9999";
    text.len() == shape.len()
        && text.bytes().zip(shape.bytes()).all(|(byte, of)| match of {
            b'A' => byte.is_ascii_alphabetic(),
            b'9' => byte.is_ascii_digit() || byte == b' ',
            of => byte == of,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_launchers_are_taken_off_and_nothing_else_is() {
        for (line, bare) in [
            ("[1,0]<stdout>:# nThread 1", "# nThread 1"),
            ("[1,12]<stderr>: x", " x"),
            ("[1,0]:x", "x"),
            ("[default0]:x", "x"),
            ("[rank0]: x", " x"),
            ("[rankle]: x", "[rankle]: x"),
            ("[rank0] x", "[rank0] x"),
            ("[0] # x", "# x"),
            ("0: 1024 256", "1024 256"),
            (" 3:     8  2", "    8  2"),
            ("12345: x", "x"),
            ("123456: x", "123456: x"),
            ("12:x", "12:x"),
            ("1024   256 float\r", "1024   256 float"),
            ("{\"a\": 1}", "{\"a\": 1}"),
            ("[{\"a\": 1}]", "[{\"a\": 1}]"),
            ("[1, 2]", "[1, 2]"),
            ("1: ", ""),
            ("[prterun-h-1@1,0]<stdout>: # x", " # x"),
            ("[prterun-h-1@1,0]: # x", " # x"),
            ("[Thu May  7 10:39:20 2020][1,0]<stdout>: x", " x"),
            ("[Thu May  7 10:39:20 2020][prterun-h-1@1,0]<stdout>: x", " x"),
            ("[Thu May  7 10:39:20 2020]<stdout>: x", " x"),
            ("Thu May  7 10:39:20 2020[1,1]<stdout>:x", "x"),
            ("Thu May 17 10:39:20 2020<stdout>:x", "x"),
            ("[1,0][node-a:17]<stdout>: x", " x"),
            ("Thu May  7 10:39:20 2020 x", "Thu May  7 10:39:20 2020 x"),
            ("[user@node-a]: x", "[user@node-a]: x"),
            ("node-a: # x", "node-a: # x"),
            ("Date: 2026", "Date: 2026"),
        ] {
            assert_eq!(without_prefix(line, &[]), bare, "{line}");
        }
    }

    #[test]
    fn a_host_is_a_prefix_only_where_heads_of_tables_stand_behind_it() {
        let hosts = hosts("node-a: # nThread 1\nRank: 1024 2\nnode-a:    1024 2\ncases: x\n");
        assert_eq!(hosts, ["node-a"]);
        assert_eq!(without_prefix("node-a:    1024 2\r", &hosts), "   1024 2");
        for other in ["Rank: 1024 2", "node-b: 1024 2", "node-a:195:195 [0] NCCL INFO x", "# Date : x"] {
            assert_eq!(without_prefix(other, &hosts), other);
        }
        assert_eq!(super::hosts("iterations: 20\n# size: 3\n"), [""; 0]);
    }
}
