//! What an entry of the table of models says of its model.

use crate::error::Error;
use crate::settings::{Setting, Settings};
use crate::specification::Model;

/// A model that can be asked for by name.
#[derive(Debug)]
pub struct Entry {
    /// The one spelling of the model's name; in comparisons hyphens and underscores are the same.
    pub name: &'static str,
    /// What it is, in one line.
    pub doc: &'static str,
    /// What can be set. One that follows from another stands after it.
    pub settings: &'static [Setting],
    pub(crate) build: fn(&'static str, &Settings) -> Result<Model, Error>,
}

impl Entry {
    /// The model with these settings; what is not given is by default.
    ///
    /// # Errors
    /// A setting that it does not have, a value out of range, dimensions that do not go together.
    pub fn model(&self, settings: &[(String, f64)]) -> Result<Model, Error> {
        (self.build)(self.name, &Settings::new(self.name, self.settings, settings)?)
    }

    /// Every setting with its value, given or by default, in the declared order.
    ///
    /// # Errors
    /// A setting that it does not have, a value out of range.
    pub fn resolved(&self, settings: &[(String, f64)]) -> Result<Vec<(&'static str, f64)>, Error> {
        Ok(Settings::new(self.name, self.settings, settings)?.resolved())
    }
}
