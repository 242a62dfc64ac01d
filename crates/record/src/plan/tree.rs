//! The text of a plan as a tree, with errors that say what a plan may hold.

use std::ops::Range;

use terms::Error;

use super::error::Diagnostics;
use super::limits;
use super::source::{At, shown};
use crate::yaml::{self, Fault, Places};

/// The smallest plan, for hints.
pub(crate) const SHAPE: &str = "a plan holds `experiment: NAME` and `cases:` with `- benchmark: NAME` items";

pub(crate) type PlanNode = yaml::Node<At>;
pub(crate) type PlanKey = yaml::Key<At>;
pub(crate) type Tree = yaml::Tree<At>;

/// Reads one source; keys that are written twice are errors.
struct Reading<'d> {
    source: u32,
    errors: &'d mut Diagnostics,
}

impl Places<At> for Reading<'_> {
    fn place(&self, range: Range<usize>) -> At {
        At { source: self.source, start: range.start as u32, end: range.end as u32 }
    }

    fn name(&self, key: &str) -> String {
        terms::normalize(key)
    }

    fn twice(&mut self, key: &str, at: At, first: At) {
        let line = self.errors.sources.place(first).position.map_or(0, |(line, _)| line);
        self.errors.add(at, Error::new(format!("key `{}` is given twice, first in line {line}", shown(key))));
    }
}

/// The tree of a text, or None after an error that leaves no tree. Duplicate keys are reported and the first is kept.
pub(crate) fn parse(source: u32, text: &str, errors: &mut Diagnostics) -> Option<PlanNode> {
    let limits = yaml::Limits { depth: limits::DEPTH, nodes: limits::NODES, scalar: limits::SCALAR };
    match yaml::parse(text, limits, &mut Reading { source, errors }) {
        Ok(None) => {
            let end = At { source, start: text.len() as u32, end: text.len() as u32 };
            errors.add(end, Error::new("the plan is empty").hint(SHAPE));
            None
        }
        Ok(root) => root,
        Err((at, fault)) => {
            errors.add(at, error(fault));
            None
        }
    }
}

/// A fault in the words of somebody who writes a plan.
fn error(fault: Fault) -> Error {
    match fault {
        Fault::Syntax { message, is_tab } => {
            let error = Error::new(format!("not valid YAML or JSON: {message}"));
            if is_tab { error.hint("indent with spaces") } else { error }
        }
        Fault::TooDeep => {
            Error::new(format!("nested more than {} levels deep", limits::DEPTH)).hint("a plan needs about five")
        }
        Fault::TooMany => Error::new(format!("more than {} keys and values", limits::NODES))
            .hint("use ranges (`8..1GiB*2`) and lists, or several plans"),
        Fault::TooLong(bytes) => Error::new(format!("a text of {bytes} bytes; at most {}", limits::SCALAR)),
        Fault::Alias => Error::new("plans do not support anchors, aliases and merge keys")
            .hint("write the values out, or put what all cases share under `defaults`"),
        Fault::Tag => Error::new("plans do not support tags").hint("write the value alone"),
        Fault::NotAName => Error::new("a key must be a name, not a list or a mapping"),
        Fault::Second => Error::new("a second document begins here").hint("one file holds one plan"),
    }
}
