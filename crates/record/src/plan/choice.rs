//! A choice: a variant with options of its own, in plans (`pipelined: {chunks: [4, 8]}`) and in flags
//! (`pipelined:chunks=4,algorithm=ring`). Kept as one text with all options in their declared order, so that a case has one
//! identity however it was written.

use serde_json::{Map, Value};
use terms::{Error, Field, Kind, Variant, normalize, suggestion};

use super::limits;
use super::list::Item;
use super::source::{At, shown};
use super::tree::{PlanNode, Tree};
use super::value::canonical;

type ChoiceResult<T> = Result<T, (At, Error)>;

/// The value of an option as it was written.
#[derive(Clone, Copy)]
enum GivenValue<'a> {
    Text(&'a str),
    Node(&'a PlanNode),
}

/// The chosen variants that a text or a mapping stands for: the product of its options' lists.
pub(crate) fn items(field: &Field, variants: &'static [Variant], node: &PlanNode) -> ChoiceResult<Vec<Item>> {
    match &node.tree {
        Tree::Scalar { text, .. } => {
            let (name, options) = parts(text).map_err(|fault| (node.at, fault))?;
            let variant = variant(field, variants, name, node.at)?;
            let given = options.into_iter().map(|(option, value)| (option, GivenValue::Text(value), node.at));
            product(field, variant, &given.collect::<Vec<_>>(), node.at)
        }
        Tree::Map(entries) => {
            let [(key, options)] = entries.as_slice() else {
                let fault = Error::new(format!("`{}` takes one variant in each entry of its list", field.name));
                return Err((node.at, fault.hint("write `- one: {...}` and `- other: {...}`")));
            };
            let variant = variant(field, variants, &key.text, key.at)?;
            let given = match &options.tree {
                Tree::Null => Vec::new(),
                Tree::Map(options) => {
                    options.iter().map(|(key, value)| (key.text.as_str(), GivenValue::Node(value), key.at)).collect()
                }
                _ => {
                    let message = format!("`{}` takes options as a mapping, not {}", variant.name, options.kind());
                    return Err((options.at, Error::new(message)));
                }
            };
            product(field, variant, &given, node.at)
        }
        _ => Err((node.at, Error::new(format!("`{}` takes a variant, not {}", field.name, node.kind())))),
    }
}

/// A name and its options.
type ChoiceParts<'t> = (&'t str, Vec<(&'t str, &'t str)>);

/// `pipelined:chunks=4,algorithm=ring` as name and options.
fn parts(text: &str) -> Result<ChoiceParts<'_>, Error> {
    let (name, options) = text.split_once(':').unwrap_or((text, ""));
    let option = |part| -> Result<(&str, &str), Error> {
        let part: &str = part;
        let wrong =
            || Error::new(format!("`{}` is not an option=value", shown(part))).hint("for example `pipelined:chunks=4`");
        part.split_once('=').map(|(name, value)| (name.trim(), value.trim())).ok_or_else(wrong)
    };
    let given = options.split(',').filter(|part| !part.trim().is_empty());
    Ok((name.trim(), given.map(option).collect::<Result<_, _>>()?))
}

fn variant(field: &Field, variants: &'static [Variant], name: &str, at: At) -> ChoiceResult<&'static Variant> {
    let wanted = normalize(name);
    variants.iter().find(|variant| variant.name == wanted).ok_or_else(|| {
        let hint = suggestion(name, variants.iter().map(|variant| variant.name));
        (at, Error::new(format!("`{}` does not take `{}`", field.name, shown(name))).hint(hint))
    })
}

/// Every combination of the options' values, the last option fastest.
fn product(field: &Field, variant: &Variant, given: &[(&str, GivenValue, At)], at: At) -> ChoiceResult<Vec<Item>> {
    let known = |name: &str| variant.options.iter().find(|option| option.name == normalize(name));
    if let Some((name, _, at)) = given.iter().find(|(name, ..)| known(name).is_none()) {
        let hint = suggestion(name, variant.options.iter().map(|option| option.name));
        let message = format!("`{}` of `{}` has no option `{}`", variant.name, field.name, shown(name));
        return Err((*at, Error::new(message).hint(hint)));
    }
    let mut texts = vec![String::new()];
    for option in variant.options {
        let mut written = given.iter().filter(|(name, ..)| normalize(name) == option.name);
        let values = match (written.next(), written.next()) {
            (Some((name, _, at)), Some(_)) => {
                return Err((*at, Error::new(format!("option `{}` is given twice", shown(name)))));
            }
            (Some((_, GivenValue::Node(node), _)), None) => values(option, node)?,
            (Some((_, GivenValue::Text(text), at)), None) => {
                vec![value(option, text, false).map_err(|fault| (*at, fault))?]
            }
            (None, _) => match option.default {
                Some(default) => vec![value(option, default, false).map_err(|fault| (at, fault))?],
                None => continue,
            },
        };
        if texts.len().saturating_mul(values.len()) > limits::CASES {
            return Err((at, Error::new(format!("`{}` has more than {} combinations", variant.name, limits::CASES))));
        }
        let join = |text: &String, value: &String| {
            format!("{text}{}{}={value}", if text.is_empty() { "" } else { "," }, option.name)
        };
        texts = texts.iter().flat_map(|text| values.iter().map(move |value| join(text, value))).collect();
    }
    let whole = |options: String| match options.is_empty() {
        true => variant.name.to_owned(),
        false => format!("{}:{options}", variant.name),
    };
    Ok(texts.into_iter().map(|text| Item { value: Value::String(whole(text)), at }).collect())
}

/// The values of an option: one, or a list.
fn values(option: &Field, node: &PlanNode) -> ChoiceResult<Vec<String>> {
    match &node.tree {
        Tree::Scalar { text, quoted } => {
            value(option, text, *quoted).map(|value| vec![value]).map_err(|fault| (node.at, fault))
        }
        Tree::List(nodes) if !nodes.is_empty() => {
            let all: Result<Vec<_>, _> = nodes.iter().map(|node| values(option, node)).collect();
            Ok(all?.concat())
        }
        _ => Err((node.at, Error::new(format!("option `{}` has no value", option.name)))),
    }
}

fn value(option: &Field, text: &str, quoted: bool) -> Result<String, Error> {
    let value = canonical(option, text, quoted)?;
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if text.contains([',', '=', ':']) || text.contains(char::is_whitespace) {
        return Err(Error::new(format!("option `{}` cannot hold `{}`", option.name, shown(&text))));
    }
    Ok(text)
}

/// A flag's list of choices: a part that is an option belongs to the variant before it.
pub(crate) fn split(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for part in text.split(',') {
        let is_option = part.find('=').is_some_and(|equals| part.find(':').is_none_or(|colon| colon > equals));
        match found.last_mut().filter(|_| is_option) {
            Some(last) => *last += &format!(",{part}"),
            None => found.push(part.to_owned()),
        }
    }
    found
}

/// The variant that a case's value names, and its options by name.
///
/// # Errors
/// When the value is none of the field's variants: it was not read from a plan.
pub fn chosen(field: &Field, text: &str) -> Result<(&'static Variant, Map<String, Value>), String> {
    let Kind::Choice(variants) = field.kind else { return Err(format!("`{}` is not a choice", field.name)) };
    let (name, given) = parts(text).map_err(|fault| fault.what)?;
    let variant = variants.iter().find(|variant| variant.name == name);
    let variant = variant.ok_or_else(|| format!("`{}` does not take `{}`", field.name, shown(name)))?;
    let mut options = Map::new();
    for (name, value) in given {
        let option = variant.options.iter().find(|option| option.name == name);
        let option = option.ok_or_else(|| format!("`{}` has no option `{}`", variant.name, shown(name)))?;
        let value = canonical(option, value, false).map_err(|fault| fault.what)?;
        options.insert(option.name.to_owned(), value);
    }
    Ok((variant, options))
}
