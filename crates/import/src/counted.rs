//! Numbers of things in notes.

/// `1 span is`, `2 spans are`.
pub(crate) fn counted(number: impl TryInto<u64>, one: &str, many: &str) -> String {
    let number = number.try_into().unwrap_or(u64::MAX);
    format!("{number} {}", if number == 1 { one } else { many })
}
