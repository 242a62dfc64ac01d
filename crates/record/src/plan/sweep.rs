//! What a command sweeps where its user names no values.

use terms::Error;

use crate::{Plan, Sweep};

impl Sweep {
    /// Adds the values to flags in which nobody names any. True: somebody did.
    pub fn fill(&self, pairs: &mut Vec<(String, String)>) -> bool {
        let of = |name: &str| pairs.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str());
        let (field, value) = self.unless;
        let is_void = of(field).is_some_and(|given| terms::normalize(given) == value);
        let is_given = of(self.field).is_some();
        if !is_given && !is_void {
            pairs.push((self.field.to_owned(), self.values.to_owned()));
        }
        is_given
    }

    /// Refuses values of the swept field that no case has: a table without the size that was asked for would be taken for one of
    /// that size.
    ///
    /// # Errors
    /// Where no case of the plan has the field.
    pub fn check(&self, plan: &Plan) -> Result<(), Error> {
        if plan.cases.iter().any(|case| case.value(self.field).is_some()) {
            return Ok(());
        }
        let (field, value) = self.unless;
        Err(Error::new(format!("`{value}` has no {}: `--{}` means nothing", self.field, self.field))
            .cause(format!("{field} is {value}"))
            .hint(format!("leave `--{}` out", self.field)))
    }
}
