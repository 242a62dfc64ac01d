//! Values that completion offers. What is typed is judged by the plan's own reader, which forgives case, hyphens and
//! underscores, splits lists, and names the nearest word.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command, Error};
use terms::{Field, Kind};

/// Takes any text; offers these words.
#[derive(Clone)]
struct OfferedWords(Vec<PossibleValue>);

impl TypedValueParser for OfferedWords {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().cloned()))
    }
}

/// The option of a field, with what can be offered for it. Help says the words in its own way.
pub(super) fn offering_field(arg: Arg, field: &Field) -> Arg {
    let offered: Vec<PossibleValue> = match field.kind {
        Kind::Word(words) => words().into_iter().map(PossibleValue::new).collect(),
        Kind::Choice(variants) => {
            variants.iter().map(|variant| PossibleValue::new(variant.name).help(variant.doc)).collect()
        }
        Kind::Bool => ["true", "false"].map(PossibleValue::new).to_vec(),
        _ => return arg,
    };
    arg.value_parser(OfferedWords(offered)).hide_possible_values(true)
}
