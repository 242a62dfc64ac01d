//! Files of a record without secrets.

use super::json::masked_json;
use super::markup::masked_markup;
use super::masked;

/// The content of a file of a record without secrets. What it is, its name says.
pub(crate) fn masked_file(name: &str, content: &[u8]) -> Vec<u8> {
    let text = || String::from_utf8_lossy(content);
    match name.strip_suffix(".gz").unwrap_or(name).rsplit('.').next() {
        Some("json" | "jsonl") => masked_json(content).into_owned(),
        Some("html" | "svg") => masked_markup(&text()).into_bytes(),
        _ => text().split_inclusive('\n').map(masked).collect::<String>().into_bytes(),
    }
}
