//! What a user may measure next, in fields of the benchmark that was measured.

/// A measurement that answers what this one leaves open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Next {
    /// Fields that stay, with their values, where the user's command does not give them.
    pub keeps: Vec<(String, String)>,
    /// Fields with other values than those that were measured.
    pub changes: Vec<(String, String)>,
    /// What it would tell.
    pub tells: String,
}

impl Next {
    /// A measurement with another value of a field.
    pub fn changing(field: &str, value: impl Into<String>, tells: impl Into<String>) -> Self {
        Self { changes: vec![(field.to_owned(), value.into())], tells: tells.into(), ..Self::default() }
    }

    /// Adds a field that stays.
    pub fn keeping(mut self, field: &str, value: impl Into<String>) -> Self {
        self.keeps.push((field.to_owned(), value.into()));
        self
    }

    /// The fields of its command: those that were given, with its changes, and behind them what they do not have.
    pub fn fields(&self, given: &[(String, String)]) -> Vec<(String, String)> {
        let changed = |name: &str| self.changes.iter().find(|(other, _)| other == name);
        let mut fields: Vec<(String, String)> =
            given.iter().map(|given| changed(&given.0).unwrap_or(given).clone()).collect();
        for field in self.keeps.iter().chain(&self.changes) {
            if !fields.iter().any(|(name, _)| *name == field.0) {
                fields.push(field.clone());
            }
        }
        fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_stays_unless_it_changes() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let next = Next::changing("ranks", "1,2", "how it scales").keeping("model", "mlp");
        assert_eq!(next.fields(&[]), [pair("model", "mlp"), pair("ranks", "1,2")]);
        let given = [pair("ranks", "1"), pair("model", "mlp,vgg16"), pair("batch", "4")];
        assert_eq!(next.fields(&given), [pair("ranks", "1,2"), pair("model", "mlp,vgg16"), pair("batch", "4")]);
    }
}
