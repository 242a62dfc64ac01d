//! Declared fields: what a benchmark or a backend takes. Plan checking, command-line flags, JSON Schema, help, labels and
//! comparison are made from these declarations.

/// What values a field takes. Every kind reads the same text in a plan and in a flag.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A whole number in this range (inclusive).
    Whole(u64, u64),
    /// A number of bytes: `64KiB`; a list may hold ranges `8..1GiB*2`, a plan also `{from, to, factor}`.
    Bytes,
    /// A duration: `5us`. Kept in seconds.
    Seconds,
    /// A bandwidth: `10GB/s`. Kept in bytes per second.
    Bandwidth,
    /// A share: `2%`. Kept as a fraction.
    Ratio,
    /// `true` or `false`.
    Bool,
    /// One of these words (in this spelling; hyphens, underscores and case are forgiven).
    Word(fn() -> Vec<&'static str>),
    /// One of these variants, each with options of its own, which multiply.
    Choice(&'static [Variant]),
    /// Any text, such as a path.
    Text,
    /// Texts that repeat and never multiply: all of them belong to one case (`inject`, `expect`, `env`).
    Texts,
}

impl Kind {
    /// The kind in one word.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Whole(..) => "whole",
            Self::Bytes => "bytes",
            Self::Seconds => "seconds",
            Self::Bandwidth => "bandwidth",
            Self::Ratio => "ratio",
            Self::Bool => "bool",
            Self::Word(_) => "word",
            Self::Choice(_) => "choice",
            Self::Text => "text",
            Self::Texts => "texts",
        }
    }
}

/// One variant of a choice.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// The one spelling of the variant.
    pub name: &'static str,
    /// One line for help.
    pub doc: &'static str,
    /// The options that it alone takes. Their values are scalars without white space, `,`, `=` and `:`.
    pub options: &'static [Field],
}

crate::named! {
    /// What a field decides. Which cases share rank processes, and which are compared as implementations of one workload,
    /// follows from the roles of their fields.
    pub enum Role("role") {
        /// What is measured: operation, sizes, model. Compared cases agree in it.
        Workload = "workload",
        /// The conditions that ranks are started under: their number, device, threads, the modelled link. Other ranks for
        /// other values; compared cases agree in it.
        World = "world",
        /// Who runs the ranks and moves the data: backend, library, binding, environment. Other ranks for other values;
        /// compared cases may differ in it.
        Launch = "launch",
        /// How the same ranks do it: kind of buffers, size of a bucket. Compared cases may differ in it.
        Implementation = "implementation",
        /// How long to sample, and what is expected. No part of a case's identity.
        Sampling = "sampling",
    }
}

impl Role {
    /// Whether cases that differ in the field need different rank processes.
    pub const fn starts_ranks(self) -> bool {
        matches!(self, Self::World | Self::Launch)
    }

    /// Whether cases must agree in the field to be compared as implementations of one workload.
    pub const fn defines_workload(self) -> bool {
        matches!(self, Self::Workload | Self::World)
    }
}

/// How a value is written in headings and labels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Label {
    /// By its kind: a word alone, a switch as the field's name, a number with the field's name.
    #[default]
    Plain,
    /// The text with the value in place of `{}`: `{} in flight`.
    Around(&'static str),
    /// A switch: the words for true and for false.
    Switch(&'static str, &'static str),
    /// As plain, but only where two cases have different values.
    Quiet,
}

/// A section of help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Heading of the section.
    pub heading: &'static str,
    /// Where it stands among the sections: the lowest comes first.
    pub place: u8,
}

impl Group {
    /// What most users give: first in help, and all that short help lists.
    pub const COMMON: Self = Self { heading: "Common options", place: 0 };
    /// Fields that are in no other section.
    pub const OTHER: Self = Self { heading: "What is measured", place: 1 };
}

/// A declared field.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The one spelling of the field's name, with underscores (the flag has hyphens).
    pub name: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// The value when it is not given, as text; None: it is absent then.
    pub default: Option<&'static str>,
    /// For help ("bytes", "s"); empty where the kind says it.
    pub unit: &'static str,
    /// One line for help.
    pub doc: &'static str,
    /// What it decides.
    pub role: Role,
    /// Whether a case that has the default names it among its parameters.
    pub always: bool,
    /// The backend or runtime that alone understands it; empty: all do.
    pub owner: &'static str,
    /// Whether it names code that is loaded or run: a library, an interpreter. It distinguishes backends. Nothing that it names
    /// is touched before the user trusts the plan.
    pub loads: bool,
    /// How its values are written in headings and labels.
    pub label: Label,
    /// `field=value`: in all other cases its value follows from the ranks, and tells no cases apart. Empty: it never does.
    pub follows_unless: &'static str,
    /// The section of help that lists it.
    pub group: Group,
    /// The field whose value gives this one its meaning, as the model its width: where a user replaces that one of a plan, the
    /// plan's value of this one is dropped. Empty: it stands for itself.
    pub of: &'static str,
    /// Earlier names of the field, the oldest first. Plans and options take them, and records that have them are read. Identities
    /// of cases are made with the oldest, so that a renamed field changes none.
    pub was: &'static [&'static str],
}

impl Field {
    /// A field of the workload that stands among a case's parameters where it differs from its default. Its name is given
    /// by the command that lists it.
    pub const fn new(kind: Kind, default: Option<&'static str>, doc: &'static str) -> Self {
        Self {
            name: "",
            kind,
            default,
            unit: "",
            doc,
            role: Role::Workload,
            always: false,
            owner: "",
            loads: false,
            label: Label::Plain,
            follows_unless: "",
            group: Group::OTHER,
            of: "",
            was: &[],
        }
    }

    /// Sets the name.
    pub const fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// Sets the role.
    pub const fn role(self, role: Role) -> Self {
        Self { role, ..self }
    }

    /// Keeps the field among a case's parameters even at its default.
    pub const fn always(self) -> Self {
        Self { always: true, ..self }
    }

    /// Restricts the field to one backend or runtime.
    pub const fn owner(self, owner: &'static str) -> Self {
        Self { owner, ..self }
    }

    /// Says that the value names code that is loaded or run.
    pub const fn loads(self) -> Self {
        Self { loads: true, ..self }
    }

    /// Says that the value follows from the ranks, except in cases with this `field=value`.
    pub const fn follows_unless(self, follows_unless: &'static str) -> Self {
        Self { follows_unless, ..self }
    }

    /// Names another field, whose value gives this one a meaning.
    pub const fn of(self, of: &'static str) -> Self {
        Self { of, ..self }
    }

    /// Gives the earlier names of a renamed field, the oldest first.
    pub const fn was(self, was: &'static [&'static str]) -> Self {
        Self { was, ..self }
    }

    /// The name of the field and its earlier names, the latest first.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        std::iter::once(self.name).chain(self.was.iter().rev().copied())
    }

    /// Whether the field has this name, or had it.
    pub fn is_called(&self, name: &str) -> bool {
        self.names().any(|known| known == name)
    }

    /// The name with which identities are made: the oldest.
    pub fn first_name(&self) -> &'static str {
        self.was.first().unwrap_or(&self.name)
    }

    /// Moves the field to another section of help.
    pub const fn group(self, group: Group) -> Self {
        Self { group, ..self }
    }

    /// Moves the field to the first section of help and to short help.
    pub const fn common(self) -> Self {
        self.group(Group::COMMON)
    }

    /// Sets how labels write the field.
    pub const fn label(self, label: Label) -> Self {
        Self { label, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Named as _;

    #[test]
    fn roles_say_what_is_shared_and_what_is_compared() {
        let traits = |role: Role| (role.name(), role.starts_ranks(), role.defines_workload());
        assert_eq!(
            Role::ALL.iter().map(|role| traits(*role)).collect::<Vec<_>>(),
            [
                ("workload", false, true),
                ("world", true, true),
                ("launch", true, false),
                ("implementation", false, false),
                ("sampling", false, false),
            ]
        );
    }
}
