//! Settings of the library's choice of algorithms, protocols and thread blocks: variables, read when ranks join.
//!
//! Grammar and words are those of NCCL's own parser (`parseList`; operations as prefixes came with 2.24). They are
//! checked here because older versions pass over a word that they do not know, and then have nothing left to choose.

use serde_json::Value;
use terms::{Field, FieldError, Kind, suggestion};

use crate::Own;
use crate::own::{Section, own};

/// The field that names the library.
pub(super) const LIBRARY: &str = "nccl_library";

const SECTION: &Section = &Section { backend: "nccl", heading: "NCCL (--backend nccl)" };

/// The fields that set them.
pub(super) const FIELDS: &[Field] = &[
    own(ALGO.field, SECTION, Kind::Text, "NCCL_ALGO: Ring, Tree, ^PAT, ... (docs/how-to/nccl.md)"),
    own(PROTO.field, SECTION, Kind::Text, "NCCL_PROTO: LL, LL128, Simple"),
    own(CTA_POLICY.field, SECTION, Kind::Text, "NCCL_CTA_POLICY: default, efficiency, zero (newer NCCL)"),
    own(LIBRARY, SECTION, Kind::Text, "libnccl.so to use (default: where the loader looks, then wheels)").loads(),
];

/// A variable that narrows the library's choice.
#[derive(Debug)]
pub(super) struct ChoiceVariable {
    /// The field of plans that sets it.
    field: &'static str,
    /// Name of the variable.
    variable: &'static str,
    words: &'static [&'static str],
    /// What the variable has for each word, where the value is one word; empty: the value is a list of words.
    codes: &'static [&'static str],
}

/// Algorithms.
const ALGO: ChoiceVariable = ChoiceVariable {
    field: "nccl_algo",
    variable: "NCCL_ALGO",
    words: &["Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT"],
    codes: &[],
};

/// Protocols.
const PROTO: ChoiceVariable =
    ChoiceVariable { field: "nccl_proto", variable: "NCCL_PROTO", words: &["LL", "LL128", "Simple"], codes: &[] };

/// How many thread blocks operations take. Given as a number: the text of NCCL 2.30 calls these its older form, which it takes
/// beside words.
const CTA_POLICY: ChoiceVariable = ChoiceVariable {
    field: "nccl_cta_policy",
    variable: "NCCL_CTA_POLICY",
    words: &["default", "efficiency", "zero"],
    codes: &["0", "1", "2"],
};

/// All, in the order of their fields.
pub(super) static CHOICES: [ChoiceVariable; 3] = [ALGO, PROTO, CTA_POLICY];

/// The operations that a list may be for.
const OPERATIONS: &[&str] = &["Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce"];

impl ChoiceVariable {
    /// Gives the field's value its one spelling: `ring` and `Ring` are one case.
    pub(super) fn check(&self, own: &mut Own, environment: &[String]) -> Result<(), FieldError> {
        let (field, variable) = (self.field, self.variable);
        let refusal = |message: String, hint: String| FieldError::new(field, message).hint(hint);
        let Some(given) = own.get(field).and_then(Value::as_str) else { return Ok(()) };
        let sets = |entry: &String| entry.split_once('=').is_some_and(|(name, _)| name == variable);
        if environment.iter().any(sets) {
            let message = format!("`{field}` and `env` both set {variable}");
            return Err(refusal(message, "leave one of the two out".to_owned()));
        }
        let known = self.canonical(given).map_err(|why| {
            refusal(format!("`{field}`: {why}"), format!("`env: [{variable}=...]` hands the library any text"))
        })?;
        own.insert(field.to_owned(), Value::from(known));
        Ok(())
    }

    /// The variable and its value, where the field was given.
    pub(super) fn variable_for(&self, own: &Own) -> Option<(String, String)> {
        let given = own.get(self.field)?.as_str()?;
        let code = self.words.iter().position(|word| *word == given).and_then(|place| self.codes.get(place));
        Some((self.variable.to_owned(), code.map_or(given, |code| code).to_owned()))
    }

    /// The text in the library's own spelling, which disregards case: `ring` and `Ring` say the same. Lists are
    /// separated by `;`, words by `,`; `^` before a list excludes its words; `AllReduce:` before it confines it to one
    /// operation, which all lists but the first must be.
    ///
    /// # Errors
    /// What the library would not understand.
    fn canonical(&self, text: &str) -> Result<String, String> {
        if !self.codes.is_empty() {
            // nccl-tests takes the numbers.
            let number = self.codes.iter().position(|code| *code == text);
            return number.map_or_else(|| spelt(text, self.words), |place| Ok(self.words[place])).map(str::to_owned);
        }
        let lists = text.split(';').enumerate().map(|(number, list)| self.list(list, number == 0));
        Ok(lists.collect::<Result<Vec<_>, _>>()?.join(";"))
    }

    fn list(&self, text: &str, is_first: bool) -> Result<String, String> {
        let (operation, words) = match text.split_once(':') {
            Some((operation, words)) => (format!("{}:", spelt(operation, OPERATIONS)?), words),
            None if is_first => (String::new(), text),
            None => return Err(format!("`{text}` names no operation: all lists but the first need one")),
        };
        let (except, words) = words.strip_prefix('^').map_or(("", words), |words| ("^", words));
        let words: Vec<&str> = words.split(',').map(|word| spelt(word, self.words)).collect::<Result<_, _>>()?;
        Ok(format!("{operation}{except}{}", words.join(",")))
    }
}

/// A word as the library spells it.
fn spelt(word: &str, known: &[&'static str]) -> Result<&'static str, String> {
    let found = known.iter().copied().find(|name| name.eq_ignore_ascii_case(word));
    found.ok_or_else(|| format!("`{word}` is not known; {}", suggestion(word, known.iter().copied())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_library_understands_has_one_spelling() {
        for (choice, given, expected) in [
            (&ALGO, "ring", "Ring"),
            (&ALGO, "^tree,NVLSTREE", "^Tree,NVLSTree"),
            (
                &ALGO,
                "ring,collnetdirect;allreduce:tree,collnetdirect;broadcast:ring",
                "Ring,CollNetDirect;AllReduce:Tree,CollNetDirect;Broadcast:Ring",
            ),
            (&ALGO, "allgather:pat", "AllGather:PAT"),
            (&PROTO, "^ll128;allreduce:ll128", "^LL128;AllReduce:LL128"),
            (&PROTO, "LL,Simple;reducescatter:^LL", "LL,Simple;ReduceScatter:^LL"),
            (&CTA_POLICY, "Zero", "zero"),
            (&CTA_POLICY, "1", "efficiency"),
        ] {
            assert_eq!(choice.canonical(given).as_deref(), Ok(expected));
            assert_eq!(choice.canonical(expected).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn what_it_would_pass_over_is_refused() {
        for (choice, given, said) in [
            (&ALGO, "Rings", "did you mean `Ring`?"),
            (&ALGO, "LL128", "valid values: Tree, Ring, CollNetDirect"),
            (&ALGO, "Ring,^Tree", "`^Tree`"),
            (&ALGO, "Ring;Tree", "`Tree` names no operation"),
            (&ALGO, "AllToAll:Ring", "`AllToAll`"),
            (&ALGO, "Ring,", "``"),
            (&ALGO, "", "``"),
            (&PROTO, "^", "``"),
            (&PROTO, "Simple LL", "`Simple LL`"),
        ] {
            let why = choice.canonical(given).unwrap_err();
            assert!(why.contains(said), "{given}: {why}");
        }
    }

    #[test]
    fn a_policy_is_given_as_a_number() {
        let mut own = Own::new();
        own.insert(CTA_POLICY.field.to_owned(), Value::from("Efficiency"));
        CTA_POLICY.check(&mut own, &[]).unwrap();
        assert_eq!(own[CTA_POLICY.field], "efficiency");
        assert_eq!(CTA_POLICY.variable_for(&own), Some(("NCCL_CTA_POLICY".to_owned(), "1".to_owned())));
        for wrong in ["zero,default", "^zero", "3", "fast"] {
            own.insert(CTA_POLICY.field.to_owned(), Value::from(wrong));
            assert!(CTA_POLICY.check(&mut own, &[]).is_err(), "{wrong}");
        }
        assert_eq!(ALGO.variable_for(&own), None);
    }
}
