//! What is said of a record that was packed.

use std::path::Path;

use terms::Bytes;

use super::{Packed, Redaction};

impl Packed {
    /// The archive, what is not in it, and what was replaced.
    pub fn text(&self, to: &Path, redaction: Option<&Redaction>) -> String {
        let count = |number: usize, one: &str| format!("{number} {one}{}", if number == 1 { "" } else { "s" });
        let files = count(self.files.len(), "file");
        let mut text = format!("packed    {}  ({files}, {})\n", to.display(), Bytes(self.bytes).about());
        for (name, why) in &self.left_out {
            text.push_str(&format!("left out  {}: {why}\n", name.escape_debug()));
        }
        let Some(redaction) = redaction else { return text };
        let replaced = redaction.replaced();
        for found in replaced.iter().filter(|found| found.times > 0) {
            let times = count(found.times, "time");
            text.push_str(&format!(
                "replaced  {} `{}` by `{}`: {times}\n",
                found.kind,
                found.name.escape_debug(),
                found.by
            ));
        }
        if replaced.iter().all(|found| found.times == 0) {
            text.push_str("replaced  nothing: no name was found\n");
        }
        if redaction.secrets > 0 {
            let times = count(redaction.secrets, "time");
            text.push_str(&format!("replaced  passwords and tokens by `***`: {times}\n"));
        }
        for found in replaced.iter().filter(|found| found.within_words > 0) {
            let times = count(found.within_words, "time");
            text.push_str(&format!("note      `{}` stays within longer words: {times}\n", found.name.escape_debug()));
        }
        for user in &redaction.only_homes {
            let why = "is replaced in home folders only: it is too short, or also a word of records";
            text.push_str(&format!("note      the user name `{}` {why}\n", user.escape_debug()));
        }
        text
    }
}
