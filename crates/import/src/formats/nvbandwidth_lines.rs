//! Lines that nvbandwidth writes, by `output.cpp` and `inline_common.h`.

use super::row_like;

/// `SUM NAME 449.04`, or `&&&& PERF NAME 449.04 +GB/s`, as name and sum.
pub(super) fn sum(text: &str) -> Option<(&str, &str)> {
    let (rest, words) = match text.strip_prefix("SUM ") {
        Some(rest) => (rest, 2),
        None => (text.strip_prefix("&&&& PERF ")?, 3),
    };
    let all: Vec<&str> = rest.split_ascii_whitespace().collect();
    (all.len() == words).then(|| (all[0], all[1]))
}

/// Whether a line says what the table below it holds.
pub(super) fn is_description(text: &str) -> bool {
    let begins =
        ["memcpy ", "memory latency ", "Device to Device Latency "].iter().any(|first| text.starts_with(first));
    begins && text.trim_end().ends_with(')')
}

/// Whether a line says why a testcase has no table.
pub(super) fn is_failure(text: &str) -> bool {
    ["Error: ", "ERROR: ", "ASSERT ", "[CU_", "[cu", "[NVML_", "CUDA_ERROR", "Invalid value when checking"]
        .iter()
        .any(|first| text.starts_with(first))
        || text.contains(" in expression ")
}

/// What a run says of itself, as name and value.
pub(super) fn told(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once(": ")?;
    let is_device = name.strip_prefix("Device ").is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
    let names =
        ["CUDA Runtime Version", "CUDA Driver Version", "CUDA Driver Version (API)", "Driver Version", "MPI version"];
    (is_device || names.contains(&name)).then_some((name, value))
}

/// Whether a line is one that every run writes.
pub(super) fn is_own(text: &str) -> bool {
    const OWN: &[&str] = &[
        "Built from Git version:",
        "NOTE: The reported results",
        "NOTE: This tool reports",
        "Performance can vary with",
        "Additional system-specific tuning",
        "It is suggested to use the default buffer size",
        "Waived:",
        "Waiving ",
        "COEFFICIENT_OF_VARIATION ",
        "MIN ",
        "MAX ",
        "AVG ",
        "Sample ",
    ];
    text.is_empty()
        || OWN.iter().any(|first| text.starts_with(first))
        || is_description(text)
        || (row_like::begins_with_number(text) && !row_like::is_heading(text))
}
