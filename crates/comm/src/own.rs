//! Fields that one backend alone understands: it declares them, checks their values, and reads them into a struct of its
//! own. Nobody else knows their names.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use terms::{Field, Group, Kind, Role};

use crate::{Backend, Error, Result};

/// Values of a backend's own fields, by name; a field that was not given is absent.
pub type Own = Map<String, Value>;

/// A field of one backend. It decides how ranks start, and has no default: the library's own is what it has without.
pub(crate) const fn own(name: &'static str, section: &Section, kind: Kind, doc: &'static str) -> Field {
    let group = Group { heading: section.heading, place: 8 };
    Field::new(kind, None, doc).named(name).owner(section.backend).group(group).role(Role::Launch)
}

/// The section of help that lists the fields of one backend.
pub(crate) struct Section {
    pub(crate) backend: &'static str,
    pub(crate) heading: &'static str,
}

/// What of a case's values is the backend's own. `value` gives that of a name, which may be an earlier one of a field.
pub fn own_of<'v>(backend: &dyn Backend, value: impl Fn(&str) -> Option<&'v Value>) -> Own {
    let own = |field: &Field| Some((field.name.to_owned(), field.names().find_map(&value)?.clone()));
    backend.fields().iter().filter_map(own).collect()
}

/// The values as the backend's own struct.
///
/// # Errors
/// A value of another type than the declared one, which a case cannot have: only a caller can.
pub(crate) fn read<T: DeserializeOwned>(backend: &'static str, own: &Own) -> Result<T> {
    let what = |error: serde_json::Error| Error::Unsupported { backend, what: format!("read its options: {error}") };
    serde_json::from_value(Value::Object(own.clone())).map_err(what)
}
