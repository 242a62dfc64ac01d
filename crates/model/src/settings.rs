//! Settings of models: each entry of the catalog declares its own, and what a user gives is checked against them.

use crate::error::ModelError;

/// What values a setting takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Values {
    /// A whole number from 1 to this. The bounds keep every product of dimensions inside 64 bits.
    Count(u32),
    /// From 0 to less than 1.
    Rate,
    /// 0 for no, 1 for yes.
    Switch,
}

/// What holds when a setting is not given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fallback {
    /// This value.
    Value(f64),
    /// This many times another setting.
    Times(u32, &'static str),
}

/// A dimension or rate of a model that the user may set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// The one spelling of the setting's name.
    pub name: &'static str,
    /// What it takes.
    pub values: Values,
    /// What holds when it is not given.
    pub fallback: Fallback,
    /// What it is, in one line.
    pub doc: &'static str,
}

impl Setting {
    /// A whole number, by default `value`.
    pub(crate) const fn count(name: &'static str, most: u32, value: u32, doc: &'static str) -> Self {
        Self { name, values: Values::Count(most), fallback: Fallback::Value(value as f64), doc }
    }

    /// A whole number, by default `times` the setting `of`.
    pub(crate) const fn multiple(
        name: &'static str,
        most: u32,
        times: u32,
        of: &'static str,
        doc: &'static str,
    ) -> Self {
        Self { name, values: Values::Count(most), fallback: Fallback::Times(times, of), doc }
    }

    /// Yes or no, by default yes.
    pub(crate) const fn switch(name: &'static str, doc: &'static str) -> Self {
        Self { name, values: Values::Switch, fallback: Fallback::Value(1.0), doc }
    }

    fn check(&self, value: f64) -> Result<(), ModelError> {
        let (fits, takes) = match self.values {
            Values::Count(most) => (
                value.fract() == 0.0 && (1.0..=f64::from(most)).contains(&value),
                format!("a whole number from 1 to {most}"),
            ),
            Values::Rate => ((0.0..1.0).contains(&value), "a number from 0 to less than 1".to_owned()),
            Values::Switch => (value == 0.0 || value == 1.0, "0 (no) or 1 (yes)".to_owned()),
        };
        if fits {
            return Ok(());
        }
        Err(ModelError::new(self.name, format!("{} = {value}: takes {takes}", self.name), self.doc.to_owned()))
    }
}

/// The default of all models: with dropout, a benchmark would time random numbers that its peers do not draw.
pub(crate) const DROPOUT: Setting = Setting {
    name: "dropout",
    values: Values::Rate,
    fallback: Fallback::Value(0.0),
    doc: "dropout of embeddings and of each branch before it is added (never of attention probabilities); published \
          models train with 0.1, benchmarks without",
};

/// The values of an entry's settings, given ones and defaults. All are in range.
#[derive(Clone, Debug)]
pub(crate) struct ModelSettings {
    declared: &'static [Setting],
    values: Vec<f64>,
}

impl ModelSettings {
    /// Checks names and ranges of what is given, and fills in the rest.
    pub(crate) fn new(model: &str, declared: &'static [Setting], given: &[(String, f64)]) -> Result<Self, ModelError> {
        let mut set: Vec<Option<f64>> = vec![None; declared.len()];
        for (name, value) in given {
            let wanted = terms::normalize(name);
            let Some(place) = declared.iter().position(|setting| setting.name == wanted) else {
                return Err(unknown(model, declared, name));
            };
            declared[place].check(*value)?;
            if set[place].replace(*value).is_some() {
                let name = declared[place].name;
                return Err(ModelError::new(name, format!("{name} is set twice"), "keep one of the two".to_owned()));
            }
        }
        let mut settings = Self { declared, values: Vec::with_capacity(declared.len()) };
        for (setting, given) in declared.iter().zip(set) {
            let value = match (given, setting.fallback) {
                (Some(value), _) | (None, Fallback::Value(value)) => value,
                // The other one stands earlier in the table; a test holds all entries to it.
                (None, Fallback::Times(times, of)) => f64::from(times) * settings.get(of),
            };
            setting.check(value)?;
            settings.values.push(value);
        }
        Ok(settings)
    }

    /// All names and values, in the declared order.
    pub(crate) fn resolved(&self) -> Vec<(&'static str, f64)> {
        self.declared.iter().map(|setting| setting.name).zip(self.values.iter().copied()).collect()
    }

    /// A value.
    ///
    /// # Panics
    /// When the entry does not declare it: a mistake in the entry, which tests over the catalog find.
    fn get(&self, name: &str) -> f64 {
        let place = self.declared.iter().position(|setting| setting.name == name);
        self.values[place.unwrap_or_else(|| panic!("no setting `{name}`"))]
    }

    /// A whole number.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.get(name) as usize
    }

    /// A rate.
    pub(crate) fn rate(&self, name: &str) -> f64 {
        self.get(name)
    }

    /// A yes or no.
    pub(crate) fn switch(&self, name: &str) -> bool {
        self.get(name) != 0.0
    }

    /// `whole / parts`, both being settings.
    ///
    /// # Errors
    /// When it does not divide, with the arithmetic.
    pub(crate) fn divided(&self, whole: &'static str, parts: &'static str) -> Result<usize, ModelError> {
        let (all, by) = (self.count(whole), self.count(parts));
        let (each, over) = (all / by, all % by);
        if over == 0 {
            return Ok(each);
        }
        let below = if each > 0 { format!("{whole} = {} or ", each * by) } else { String::new() };
        let divisor = (1..by).rev().find(|divisor| all.is_multiple_of(*divisor)).unwrap_or(1);
        Err(ModelError::new(
            parts,
            format!("{whole} = {all} is not divisible by {parts} = {by}: {all} = {by} x {each} + {over}"),
            format!("{below}{whole} = {}, or {parts} = {divisor}", (each + 1) * by),
        ))
    }

    /// Refuses a sequence longer than the table of learned positions.
    pub(crate) fn sequence_fits_positions(&self) -> Result<(), ModelError> {
        let (sequence, positions) = (self.count("sequence"), self.count("positions"));
        if sequence <= positions {
            return Ok(());
        }
        Err(ModelError::new(
            "sequence",
            format!("sequence = {sequence} is longer than the {positions} learned positions"),
            format!("sequence = {positions}, or positions = {sequence}"),
        ))
    }
}

fn unknown(model: &str, declared: &'static [Setting], name: &str) -> ModelError {
    let hint = terms::suggestion(name, declared.iter().map(|setting| setting.name));
    ModelError::new(name, format!("{model} has no setting `{name}`"), hint)
}
