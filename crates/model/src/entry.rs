//! What an entry of the table of models says of its model.

use crate::error::ModelError;
use crate::settings::{ModelSettings, Setting};
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
    pub(crate) build: fn(&'static str, &ModelSettings) -> Result<Model, ModelError>,
}

impl Entry {
    /// The model with these settings; what is not given is by default.
    ///
    /// # Errors
    /// A setting that it does not have, a value out of range, dimensions that do not go together.
    pub fn model(&self, settings: &[(String, f64)]) -> Result<Model, ModelError> {
        (self.build)(self.name, &ModelSettings::new(self.name, self.settings, settings)?)
    }

    /// Every setting with its value, given or by default, in the declared order.
    ///
    /// # Errors
    /// A setting that it does not have, a value out of range.
    pub fn resolved(&self, settings: &[(String, f64)]) -> Result<Vec<(&'static str, f64)>, ModelError> {
        Ok(ModelSettings::new(self.name, self.settings, settings)?.resolved())
    }
}
