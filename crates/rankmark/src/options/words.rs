//! Values that completion offers. What is typed is judged by the plan's own reader, which forgives case, hyphens and
//! underscores, splits lists, and names the nearest word.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command, Error};
use terms::{Field, Kind};

/// Takes any text; knows which words to offer.
#[derive(Clone)]
pub(super) struct OfferedWords(fn() -> Vec<&'static str>);

impl TypedValueParser for OfferedWords {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().into_iter().map(PossibleValue::new)))
    }
}

/// Takes any text; offers the variants of a choice.
#[derive(Clone)]
struct Variants(Vec<PossibleValue>);

impl TypedValueParser for Variants {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().cloned()))
    }
}

/// The argument, with its words offered. Help says them in its own way.
pub(super) fn offering(arg: Arg, words: fn() -> Vec<&'static str>) -> Arg {
    arg.value_parser(OfferedWords(words)).hide_possible_values(true)
}

/// The option of a field, with what can be offered for it.
pub(super) fn offering_field(arg: Arg, field: &Field) -> Arg {
    match field.kind {
        Kind::Word(words) => offering(arg, words),
        Kind::Choice(variants) => {
            let names = variants.iter().map(|variant| PossibleValue::new(variant.name).help(variant.doc));
            arg.value_parser(Variants(names.collect())).hide_possible_values(true)
        }
        Kind::Bool => offering(arg, || vec!["true", "false"]),
        _ => arg,
    }
}
