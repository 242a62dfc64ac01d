//! Host names, user names and home folders, replaced by numbers: the same name by the same number in every file.
//!
//! Names are searched as whole words: what stands before and after is neither a letter nor a digit. Where a name of a user is
//! also a word of records, only home folders are replaced; of a host it is refused, because it would stay readable.

use std::collections::HashSet;

use crate::Record;
use crate::secrets::{masked_file, masks};

/// Folders that hold home folders. In pieces: no path of one machine stands in this repository (`cargo xtask tidy`).
const HOMES: [&str; 2] = [concat!("/ho", "me/"), concat!("/Us", "ers/")];
/// Names that identify nobody.
const NOBODYS: [&str; 2] = ["localhost", "root"];
/// A user name of fewer letters is more likely another word.
const SHORTEST_USER: usize = 3;

/// Names that are known from elsewhere: the record's machines, and of the user who packs it.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Hosts; the first is `host-1`.
    pub hosts: Vec<String>,
    /// Users with their home folders, where they are known.
    pub users: Vec<(String, Option<String>)>,
    /// Words that records use for something else.
    pub words: HashSet<String>,
}

impl Names {
    /// The hosts of a record and this one, and the user whose environment has these variables. `words` are those of records.
    pub fn new(
        record: Record,
        this_host: String,
        words: HashSet<String>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let mut hosts = vec![record.file.machine.host];
        hosts.extend(record.file.hosts.into_iter().map(|machine| machine.host));
        hosts.extend(record.file.placement.into_iter().flat_map(|placement| placement.hosts));
        hosts.extend(record.cases.into_iter().flat_map(|line| line.clocks).map(|clock| clock.host));
        // The record need not be of this host; where it is not, its name is no reason to refuse anything.
        hosts.extend(Some(this_host).filter(|host| !words.contains(host)));
        let mut seen = HashSet::new();
        hosts.retain(|host| !host.is_empty() && seen.insert(host.clone()));
        let users = ["USER", "LOGNAME", "SUDO_USER"].into_iter().filter_map(&variable);
        let mut users: Vec<(String, Option<String>)> = users.map(|user| (user, None)).collect();
        // `/` is nobody's, and a slash at the end is not part of a home folder's name.
        let home = variable("HOME").map(|home| home.trim_end_matches('/').to_owned());
        if let Some(home) = home.filter(|home| !home.is_empty()) {
            match users.first_mut() {
                Some(user) => user.1 = Some(home),
                None => users.push((home.rsplit('/').next().unwrap_or_default().to_owned(), Some(home))),
            }
        }
        Self { hosts, users, words }
    }
}

/// What was replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// "host name", "user name", "home folder".
    pub kind: &'static str,
    /// What stood there.
    pub name: String,
    /// What stands there now.
    pub by: String,
    /// How often it was replaced.
    pub times: usize,
    /// How often it stands within a longer word, and stays.
    pub within_words: usize,
}

/// Replaces names, and counts.
#[derive(Debug)]
pub struct Redaction {
    names: Names,
    /// Keys of JSON objects that are also names.
    keys: HashSet<String>,
    /// In the order in which they are tried: longer ones first.
    rules: Vec<Replaced>,
    /// Users that are replaced in home folders only, because their name is also another word.
    pub only_homes: Vec<String>,
    /// Secrets that were masked.
    pub secrets: usize,
}

impl Redaction {
    /// A redaction that knows these names.
    pub fn new(names: Names) -> Self {
        Self { names, keys: HashSet::new(), rules: Vec::new(), only_homes: Vec::new(), secrets: 0 }
    }

    /// Looks for home folders in a text, and for names that are keys. Before [`Redaction::make_rules`].
    pub fn look(&mut self, text: &[u8]) {
        for root in HOMES {
            for at in positions(text, root.as_bytes()) {
                let rest = &text[at + root.len()..];
                let length = rest.iter().take_while(|byte| is_of_name(**byte)).count();
                let name = String::from_utf8_lossy(&rest[..length]).trim_end_matches('.').to_owned();
                let (user, home) = (name.clone(), Some(format!("{root}{name}")));
                if !name.is_empty() && !self.names.users.contains(&(user.clone(), home.clone())) {
                    self.names.users.push((user, home));
                }
            }
        }
        let names = self.names.hosts.iter().chain(self.names.users.iter().map(|(user, _)| user));
        let keys = names.filter(|name| !positions(text, format!("\"{name}\":").as_bytes()).is_empty());
        self.keys.extend(keys.cloned());
    }

    /// Makes the rules, once all texts were looked at.
    ///
    /// # Errors
    /// The name of a host that is also a word of records.
    pub fn make_rules(&mut self) -> Result<(), String> {
        let is_word = |name: &str| self.names.words.contains(name) || self.keys.contains(name);
        let mut rules: Vec<Replaced> = Vec::new();
        let mut add = |kind, name: &str, by: String| {
            if !name.is_empty() && !NOBODYS.contains(&name) && !rules.iter().any(|known| known.name == name) {
                rules.push(Replaced { kind, name: name.to_owned(), by, times: 0, within_words: 0 });
            }
        };
        let mut hosts: Vec<&str> = Vec::new();
        for host in &self.names.hosts {
            // `node1.example.org` and `node1` are one host. The first part of `10.0.0.7` may be any number of a record.
            let first = host.split('.').next().filter(|first| !first.bytes().all(|byte| byte.is_ascii_digit()));
            let short = first.unwrap_or(host);
            if is_word(host) || is_word(short) {
                return Err(host.clone());
            }
            let known = hosts.iter().position(|known| *known == short);
            let number = known.unwrap_or_else(|| {
                hosts.push(short);
                hosts.len() - 1
            });
            [host, short].into_iter().for_each(|name| add("host name", name, format!("host-{}", number + 1)));
        }
        let mut users: Vec<&str> = Vec::new();
        for (user, home) in &self.names.users {
            let number = users.iter().position(|known| known == user).unwrap_or_else(|| {
                users.push(user);
                users.len() - 1
            });
            if let Some(home) = home.as_deref().filter(|home| home.len() > 1) {
                add("home folder", home, format!("{}user-{}", HOMES[0], number + 1));
            }
            if user.len() < SHORTEST_USER || is_word(user) {
                self.only_homes.extend((!self.only_homes.contains(user)).then(|| user.clone()));
            } else {
                add("user name", user, format!("user-{}", number + 1));
            }
        }
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.name.len()));
        self.rules = rules;
        Ok(())
    }

    /// The content of a file with all names replaced, and without secrets, which records of earlier versions may hold.
    pub(super) fn clean(&mut self, file: &str, content: &[u8]) -> Vec<u8> {
        let named = self.replace_bytes(content);
        let clean = masked_file(file, &named);
        self.secrets += masks(&clean).saturating_sub(masks(&named));
        clean
    }

    /// The text with all names replaced.
    pub fn replace(&mut self, text: &str) -> String {
        String::from_utf8_lossy(&self.replace_bytes(text.as_bytes())).into_owned()
    }

    /// The bytes with all names replaced. One pass: what was put there is not replaced again.
    pub fn replace_bytes(&mut self, text: &[u8]) -> Vec<u8> {
        let mut first = [false; 256];
        self.rules.iter().for_each(|rule| first[usize::from(rule.name.as_bytes()[0])] = true);
        let mut replaced = Vec::with_capacity(text.len());
        let mut at = 0;
        while let Some(byte) = text.get(at) {
            let rule = if first[usize::from(*byte)] { self.rule_at(text, at) } else { None };
            match rule {
                Some(rule) => {
                    rule.times += 1;
                    replaced.extend_from_slice(rule.by.as_bytes());
                    at += rule.name.len();
                }
                None => {
                    replaced.push(*byte);
                    at += 1;
                }
            }
        }
        replaced
    }

    /// The rule for the name that stands here as a word of its own.
    fn rule_at(&mut self, text: &[u8], at: usize) -> Option<&mut Replaced> {
        let before = at.checked_sub(1).map(|before| text[before]);
        let mut hit = None;
        for (index, rule) in self.rules.iter_mut().enumerate() {
            if !text[at..].starts_with(rule.name.as_bytes()) {
                continue;
            }
            let after = text.get(at + rule.name.len()).copied();
            let is_whole = match rule.kind {
                // `~/ann-b` is not below `~/ann`.
                "home folder" => !after.is_some_and(|byte| is_of_name(byte) && byte != b'.'),
                _ => ![before, after].into_iter().flatten().any(|byte| byte.is_ascii_alphanumeric()),
            };
            if is_whole {
                hit = Some(index);
                break;
            }
            rule.within_words += 1;
        }
        hit.map(|index| &mut self.rules[index])
    }

    /// What was found, in the order of what stands there now.
    pub fn replaced(&self) -> Vec<Replaced> {
        let mut found: Vec<Replaced> =
            self.rules.iter().filter(|rule| rule.times + rule.within_words > 0).cloned().collect();
        found.sort_by(|a, b| (&a.by, &a.name).cmp(&(&b.by, &b.name)));
        found
    }
}

/// Whether a byte may be of a name of a user or of a host.
fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-') || byte >= 0x80
}

fn positions(text: &[u8], word: &[u8]) -> Vec<usize> {
    let starts = text.iter().enumerate().filter(|(_, byte)| **byte == word[0]).map(|(at, _)| at);
    starts.filter(|at| text[*at..].starts_with(word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(hosts: &[&str], users: &[(&str, &str)], words: &[&str]) -> Names {
        Names {
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            users: users.iter().map(|(user, home)| ((*user).to_owned(), Some((*home).to_owned()))).collect(),
            words: words.iter().map(|word| (*word).to_owned()).collect(),
        }
    }

    /// With HOME for the folder of home folders.
    fn redacted(names: Names, text: &str) -> (String, Redaction) {
        let at_home = |text: &str| text.replace("HOME/", HOMES[0]).replace("ROOT", "/root");
        let users = names.users.iter().map(|(user, home)| (user.clone(), home.as_deref().map(at_home))).collect();
        let mut redaction = Redaction::new(Names { users, ..names });
        redaction.look(at_home(text).as_bytes());
        redaction.make_rules().unwrap();
        let text = redaction.replace(&at_home(text)).replace(HOMES[0], "HOME/");
        redaction.rules.iter_mut().for_each(|rule| {
            rule.name = rule.name.replace(HOMES[0], "HOME/");
            rule.by = rule.by.replace(HOMES[0], "HOME/");
        });
        (text, redaction)
    }

    #[test]
    fn a_name_has_the_same_number_everywhere() {
        let known = names(&["node-a.example.org", "node-b"], &[("ann", "/data/ann")], &[]);
        let text = "node-b: /data/ann/x and HOME/bob.j/y, node-a (node-a.example.org) of ann; bob.j@node-b.";
        let (text, redaction) = redacted(known, text);
        let expected = "host-2: HOME/user-1/x and HOME/user-2/y, host-1 (host-1) of user-1; user-2@host-2.";
        assert_eq!(text, expected);
        let found: Vec<(String, String, usize)> =
            redaction.replaced().into_iter().map(|found| (found.name, found.by, found.times)).collect();
        let one = |name: &str, by: &str, times| (name.to_owned(), by.to_owned(), times);
        assert_eq!(
            found,
            [
                one("/data/ann", "HOME/user-1", 1),
                one("HOME/bob.j", "HOME/user-2", 1),
                one("node-a", "host-1", 1),
                one("node-a.example.org", "host-1", 1),
                one("node-b", "host-2", 2),
                one("ann", "user-1", 1),
                one("bob.j", "user-2", 1),
            ]
        );
    }

    #[test]
    fn whole_words_only_and_what_stays_is_counted() {
        let (text, redaction) =
            redacted(names(&["vm"], &[("ann", "HOME/ann")], &[]), "vm kvm vm2 vm_x ann-b HOME/ann-c annual");
        assert_eq!(text, "host-1 kvm vm2 host-1_x user-1-b HOME/user-2 annual");
        let vm = redaction.replaced().into_iter().find(|found| found.name == "vm").unwrap();
        assert_eq!((vm.times, vm.within_words), (2, 2));
    }

    #[test]
    fn a_number_is_no_short_name_of_a_host() {
        let known = names(&["10.0.0.7", "12.example.org"], &[], &[]);
        let (text, _) = redacted(known, r#"{"ranks":10,"bytes":12,"hosts":["10.0.0.7","10.0.0.70","12.example.org"]}"#);
        assert_eq!(text, r#"{"ranks":10,"bytes":12,"hosts":["host-1","10.0.0.70","host-2"]}"#);
    }

    #[test]
    fn what_was_put_there_is_not_replaced_again() {
        let (text, _) = redacted(names(&["a1", "host-1", "user-1"], &[], &[]), "a1 host-1 user-1");
        assert_eq!(text, "host-1 host-2 host-3");
    }

    #[test]
    fn words_of_records_are_no_names() {
        let mut redaction = Redaction::new(names(&["shm"], &[], &["shm"]));
        assert_eq!(redaction.make_rules(), Err("shm".to_owned()));
        let mut redaction = Redaction::new(names(&["cores"], &[], &[]));
        redaction.look(br#"{"cores": 2}"#);
        assert_eq!(redaction.make_rules(), Err("cores".to_owned()));
        let known = names(&["localhost"], &[("data", "HOME/data"), ("root", "/root"), ("al", "HOME/al")], &["data"]);
        let (text, redaction) = redacted(known, "localhost data root al HOME/data <ROOT>/x HOME/al/y");
        assert_eq!(text, "localhost data root al HOME/user-1 <HOME/user-2>/x HOME/user-3/y");
        assert_eq!(redaction.only_homes, ["data", "al"]);
    }
}
