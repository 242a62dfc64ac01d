//! Colours and weights. They only repeat what words say: output without them loses nothing.

use super::sequence::style;

/// How text looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// Text as the terminal writes it.
    #[default]
    Plain,
    /// A heading.
    Bold,
    /// What is there to be looked up: titles of columns.
    Dim,
    /// Failed, worse.
    Red,
    /// Better.
    Green,
    /// Open.
    Yellow,
    /// The word before an error.
    Error,
    /// The word before a warning.
    Warning,
}

impl Style {
    /// The text between sequences that begin and end the style, for [`super::output`].
    pub fn paint(self, text: &str) -> String {
        let code = match self {
            _ if text.is_empty() => return String::new(),
            Self::Plain => return text.to_owned(),
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Red => "31",
            Self::Green => "32",
            Self::Yellow => "33",
            Self::Error => "1;31",
            Self::Warning => "1;33",
        };
        format!("{}{text}{}", style(code), style("0"))
    }
}
