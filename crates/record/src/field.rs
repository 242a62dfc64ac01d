//! What a benchmark declares: its fields, its metrics, and which combinations of values make sense.

use terms::{Field, FieldError, Kind};

use crate::Case;

/// Whether more is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Larger values are better.
    Higher,
    /// Smaller values are better.
    Lower,
}

/// What a metric's value is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// A number.
    #[default]
    Number,
    /// A number that is work over time: its interval is the time's, turned over.
    Rate,
    /// A number under `value`, with the two ends of its interval under `ci95` where it has one.
    Interval,
    /// A word.
    Word,
    /// Values by name.
    Map,
    /// A list of numbers: by rank, by step.
    List,
    /// Rows of numbers of equal length.
    Matrix,
    /// Pairs `[x, y]`.
    Curve,
}

impl Shape {
    /// Whether it is one number, with or without an interval.
    pub const fn is_number(self) -> bool {
        matches!(self, Self::Number | Self::Rate | Self::Interval)
    }
}

/// A declared metric of a case line.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Key of the metric in the case line.
    pub name: &'static str,
    /// What its value is.
    pub shape: Shape,
    /// Unit of the metric.
    pub unit: &'static str,
    /// Which direction is better.
    pub better: Better,
    /// One line for help and reports.
    pub doc: &'static str,
    /// Whether it tells which results are wrong, and so is kept where any are. A rate of wrong results says nothing.
    pub evidence: bool,
}

impl Metric {
    /// A number.
    pub const fn new(name: &'static str, unit: &'static str, better: Better, doc: &'static str) -> Self {
        Self { name, shape: Shape::Number, unit, better, doc, evidence: false }
    }

    /// Sets the shape.
    pub const fn shape(self, shape: Shape) -> Self {
        Self { shape, ..self }
    }

    /// Keeps it where results are wrong.
    pub const fn evidence(self) -> Self {
        Self { evidence: true, ..self }
    }
}

/// The command that measures one benchmark from flags.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// Name of the command on the command line.
    pub name: &'static str,
    /// One line for help.
    pub doc: &'static str,
    /// The field that it takes as its argument; empty: all fields are options.
    pub argument: &'static str,
    /// What help begins with: arguments behind the command's name, and what they measure.
    pub examples: &'static [(&'static str, &'static str)],
    /// What help says below the options; empty: nothing.
    pub notes: &'static str,
    /// What it measures where the flags do not say.
    pub sweep: Option<Sweep>,
}

/// The values of a field where nobody gives any.
#[derive(Clone, Copy, Debug)]
pub struct Sweep {
    /// The field.
    pub field: &'static str,
    /// Values of the field, as a list in a flag.
    pub values: &'static str,
    /// A field and its value, for which the sweep means nothing.
    pub unless: (&'static str, &'static str),
}

/// What a benchmark says of itself.
#[derive(Clone, Copy)]
pub struct About {
    /// The one spelling of the benchmark's name.
    pub name: &'static str,
    /// One line for help.
    pub doc: &'static str,
    /// The fields that it takes, in the order of the record.
    pub fields: &'static [fn() -> &'static [Field]],
    /// The metrics that its case lines may hold.
    pub metrics: &'static [Metric],
    /// Checks one resolved combination. It may remove parameters that mean nothing in it, round sizes down (with the
    /// caveat), or mark the case to be skipped; it never replaces a value that the user gave.
    pub check: fn(&mut Case) -> Result<(), FieldError>,
    /// The command that measures it; None: plans alone do.
    pub command: Option<Command>,
    /// How its case lines are shown.
    pub show: fn() -> crate::show::Show,
}

impl About {
    /// All fields, in the order of the record.
    pub fn all_fields(&self) -> impl Iterator<Item = &'static Field> + use<> {
        self.fields.iter().flat_map(|group| group().iter())
    }

    /// The field that has this name, or had it.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        let wanted = terms::normalize(name);
        let synonym = SYNONYMS.iter().find(|(other, _)| *other == wanted);
        let wanted = synonym.map_or(wanted.as_str(), |(_, name)| *name);
        self.all_fields().find(|field| field.is_called(wanted))
    }
}

/// Other spellings of fields.
pub const SYNONYMS: &[(&str, &str)] = &[("launches", "trials"), ("pattern", "mode")];

/// The canonical value of a text, as plans and flags are read.
///
/// # Errors
/// What the field's kind does not take.
pub fn read_value(field: &Field, text: &str) -> Result<serde_json::Value, String> {
    crate::plan::canonical(field, text, false).map_err(|error| error.what)
}

/// Fields of benchmarks as name and description, each once; with the benchmarks that have it, where not all do.
pub fn described_fields(abouts: &[&'static About]) -> Vec<(String, String)> {
    let mut found: Vec<((String, String), Vec<&str>)> = Vec::new();
    for (about, field) in abouts.iter().flat_map(|about| about.all_fields().map(move |field| (about, field))) {
        let words =
            if let Kind::Word(words) = field.kind { format!(" [{}]", words().join(", ")) } else { String::new() };
        let default = field.default.map_or(String::new(), |default| format!(" (default: {default})"));
        let entry = (field.name.to_owned(), format!("{}{words}{default}", field.doc));
        match found.iter_mut().find(|(known, _)| *known == entry) {
            Some((_, benchmarks)) => benchmarks.push(about.name),
            None => found.push((entry, vec![about.name])),
        }
    }
    let line = |((name, doc), benchmarks): ((String, String), Vec<&str>)| match benchmarks.len() == abouts.len() {
        true => (name, doc),
        false => (name, format!("{}: {doc}", benchmarks.join(", "))),
    };
    found.into_iter().map(line).collect()
}

/// What stands for the value of a field in help.
pub fn field_value(field: &Field) -> &'static str {
    match field.kind {
        Kind::Whole(..) => "N",
        Kind::Bytes => "BYTES",
        Kind::Seconds => "TIME",
        Kind::Bandwidth => "BANDWIDTH",
        Kind::Ratio => "SHARE",
        Kind::Bool => "BOOL",
        Kind::Word(_) => "WORD",
        Kind::Choice(_) => "CHOICE",
        Kind::Text | Kind::Texts => "TEXT",
    }
}

/// The words of a list, or where they are many, the first of them: `rankmark list fields` has them all.
fn some(words: &[&str]) -> String {
    const ROOM: usize = 60;
    let (all, mut shown) = (words.join(", "), String::new());
    if all.len() <= ROOM {
        return all;
    }
    for word in words {
        if shown.len() + word.len() > ROOM / 2 {
            break;
        }
        shown.push_str(&format!("{word}, "));
    }
    format!("{shown}...")
}

/// Help of a field in one line: what it is, its words, its default, which is the values that the command sweeps where it does.
pub fn field_help(field: &Field, swept: Option<&str>) -> String {
    let mut help = field.doc.to_owned();
    if let Kind::Word(words) = field.kind {
        help.push_str(&format!(" [{}]", some(&words())));
    }
    if let Kind::Choice(variants) = field.kind {
        let options = |variant: &terms::Variant| -> String {
            let names: Vec<String> = variant.options.iter().map(|option| format!("{}=...", option.name)).collect();
            if names.is_empty() { String::new() } else { format!(":{}", names.join(",")) }
        };
        let shown: Vec<String> = variants.iter().map(|one| format!("{}{}", one.name, options(one))).collect();
        help.push_str(&format!(" [{}]", shown.join(" ")));
    }
    // A switch is off.
    if let Some(default) = swept.or(field.default).filter(|default| *default != "false") {
        help.push_str(&format!(" (default: {default})"));
    }
    help
}
