//! Collectives of a trace: what a span's name and arguments say of them.

use trace::timeline::{CollectiveCall, Names};

use crate::traces::events::TraceEvent;
use crate::traces::words::{self, UNKNOWN_GROUP};

/// Communicators whose ranks are kept.
pub(super) const MOST_GROUPS: usize = 10_000;

/// The numbers of a list that is written as a text: `[0, 1]`. None of a list in which something else stands.
pub(super) fn listed(text: &str) -> Option<Vec<u32>> {
    let words = text.split(['[', ']', ',', ' ']).filter(|word| !word.is_empty());
    words.map(|word| word.parse().ok()).collect()
}

/// The call of a span `gloo:OPERATION`, which names no communicator.
pub(super) fn gloo(event: &TraceEvent, names: &mut Names) -> CollectiveCall {
    let name = event.name();
    let operation = words::operation(&name);
    let mut call = words::call(names, &operation, UNKNOWN_GROUP);
    let types = event.argument("Input type").map(first_text);
    let element = types.and_then(words::element_bytes);
    let elements = event.argument("Input Dims").and_then(elements);
    let input = elements.zip(element).and_then(|(elements, element)| elements.checked_mul(element));
    call.bytes = input.and_then(|input| words::bytes_of_input(&operation, input, None));
    call.input_bytes = input;
    call.dtype = types.filter(|word| !word.is_empty()).map(|word| names.intern(word));
    call
}

/// The call of a span `nccl:OPERATION` of the host, which only puts it on a stream.
pub(super) fn enqueued(event: &TraceEvent, names: &mut Names) -> CollectiveCall {
    // The same name and the same arguments.
    gloo(event, names)
}

/// The call that a record function of torch.distributed marks on the host, or an operation of symmetric memory.
pub(super) fn recorded(event: &TraceEvent, names: &mut Names) -> CollectiveCall {
    match event.argument("Collective name") {
        Some(_) => nccl(event, names),
        None => gloo(event, names),
    }
}

/// The call of a kernel of NCCL or RCCL. Traces before 2023 have a kernel's name only.
pub(super) fn nccl(event: &TraceEvent, names: &mut Names) -> CollectiveCall {
    let name = event.name();
    let word = event.argument("Collective name").filter(|word| !word.is_empty());
    let operation = match word {
        Some(word) => words::operation(word).into_owned(),
        None => words::operation_of_kernel(&name),
    };
    let text = |key: &str| event.argument(key).unwrap_or_default();
    let group = match words::group(text("Process Group Name"), text("Process Group Description")) {
        unknown if unknown == UNKNOWN_GROUP && !text("Process Group Ranks").is_empty() => {
            format!("ranks {}", text("Process Group Ranks"))
        }
        group => group,
    };
    let mut call = words::call(names, &operation, &group);
    call.sequence = event.number("Seq");
    call.ranks = event.number("Group size").filter(|ranks| *ranks > 0);
    let elements = event.number::<u64>("In msg nelems").max(event.number("Out msg nelems"));
    let element = words::element_bytes(text("dtype"));
    let bytes = |elements: Option<u64>| elements.zip(element).and_then(|(elements, one)| elements.checked_mul(one));
    call.input_bytes = bytes(event.number("In msg nelems"));
    call.dtype = Some(text("dtype")).filter(|word| !word.is_empty()).map(|word| names.intern(word));
    // The larger side holds all ranks' blocks, where the operation counts them together; else both sides are equal.
    call.bytes = bytes(elements);
    call
}

/// The first text of a list of texts, or the text itself.
fn first_text(value: &str) -> &str {
    let list = value.trim_start_matches(['[', ' ']);
    list.split(['"', ',', ']']).find(|part| !part.trim().is_empty()).unwrap_or("").trim()
}

/// Elements of all tensors in a list of dimensions: `[[64, 128], [10]]` has 8202. Lists may be nested once more.
/// None of a list that is cut: its last tensors are missing.
fn elements(value: &str) -> Option<u64> {
    let count = |bracket: u8| value.bytes().filter(|byte| *byte == bracket).count();
    if count(b'[') != count(b']') {
        return None;
    }
    let (mut total, mut product, mut digits) = (0_u64, None::<u64>, None::<u64>);
    for byte in value.bytes() {
        match byte {
            b'0'..=b'9' => {
                digits = Some(digits.unwrap_or(0).checked_mul(10)?.checked_add(u64::from(byte - b'0'))?);
            }
            b',' | b']' => {
                if let Some(dimension) = digits.take() {
                    product = Some(product.unwrap_or(1).checked_mul(dimension)?);
                }
                if byte == b']' {
                    total = total.checked_add(product.take().unwrap_or(0))?;
                }
            }
            b'[' | b' ' => {}
            _ => return None,
        }
    }
    (total > 0).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_become_elements() {
        let cases = [
            ("[[64, 128], [10]]", Some(8202)),
            ("[[[1000]]]", Some(1000)),
            ("[[[2,3],[4]]]", Some(10)),
            ("[[]]", None),
            ("[[x]]", None),
            ("[[64, 128], [10]", None),
            ("[[64, 128], [1", None),
            ("[[99999999999,99999999999]]", None),
        ];
        for (text, wanted) in cases {
            assert_eq!(elements(text), wanted, "{text}");
        }
    }

    #[test]
    fn types_are_named() {
        assert_eq!(
            (first_text("[\"float\"]"), first_text("float"), first_text("[[\"c10::Half\"]]")),
            ("float", "float", "c10::Half")
        );
    }
}
