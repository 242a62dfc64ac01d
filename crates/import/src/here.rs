//! What a reader of configurations is given about the machine: readers inspect nothing themselves.

/// Counts the parameters of a model with these dimensions; None where there is no such model, or they do not fit.
pub type CountParameters = fn(&str, &[(String, f64)]) -> Option<usize>;

/// The machine that a configuration shall run on, as the caller found it. Empty where nobody looked.
#[derive(Clone, Debug, Default)]
pub struct Here {
    /// The torch of the user's Python: its version, or why it is not used and what to do, for a sentence with `because`.
    /// None: nobody looked.
    pub torch: Option<Result<String, String>>,
    /// GPUs that the driver lists.
    pub gpus: usize,
    /// Bytes of memory that processes can have.
    pub memory: Option<u64>,
    /// Hosts that ranks are on.
    pub hosts: usize,
    /// Names of the models that there are. Empty: names are not checked.
    pub models: Vec<&'static str>,
    /// Counts parameters of a model.
    pub parameters: Option<CountParameters>,
}

impl Here {
    /// The torch that was found.
    pub(crate) fn torch(&self) -> Result<&str, &str> {
        match &self.torch {
            Some(Ok(version)) => Ok(version),
            Some(Err(why)) => Err(why),
            None => Err("torch was not looked for"),
        }
    }
}
