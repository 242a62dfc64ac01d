//! Words of traces for operations and element types, as the fields of a case.

use terms::{Collective, Dtype, Named};

use crate::traces::element_bytes;

/// The operation of a case for a word of a trace; else why there is none.
pub(super) fn operation(word: &str) -> Result<Collective, String> {
    match word {
        "send" | "recv" | "isend" | "irecv" | "send_recv" | "SendRecv" | "batch_isend_irecv" => Err(
            "transfers between two ranks (send, recv) are not collectives (hint: `rankmark comm ping_pong` measures them)"
                .to_owned(),
        ),
        "coalesced" => Err("a batch of calls is one call of the trace, which does not say what it holds".to_owned()),
        "unknown" => Err("the trace does not say the operation (hint: PyTorch of 2024 or later writes it)".to_owned()),
        word => {
            Collective::from_name(word).ok_or_else(|| format!("`{}` has no counterpart here", crate::tree::shown(word)))
        }
    }
}

/// The type of a case's elements, and whether the trace says it.
pub(super) struct ElementType {
    pub(super) dtype: Dtype,
    pub(super) is_known: bool,
}

/// The element type of a case for a trace's word; else why there is none. What only moves is bytes, whatever they mean.
pub(super) fn element(op: Collective, word: Option<&str>, bytes: u64) -> Result<ElementType, String> {
    let Some(word) = word else {
        // As in results without a type: reductions are f32, all else is bytes.
        let dtype = if op.reduces() && bytes.is_multiple_of(Dtype::F32.bytes()) { Dtype::F32 } else { Dtype::U8 };
        return Ok(ElementType { dtype, is_known: !op.reduces() });
    };
    let bare = word.trim().trim_start_matches("torch.").trim_start_matches("c10::").to_ascii_lowercase();
    let same = match bare.as_str() {
        "long" | "long int" => Some(Dtype::I64),
        "char" | "signed char" => Some(Dtype::I8),
        "byte" | "unsigned char" | "bool" => Some(Dtype::U8),
        other => Dtype::from_other_name(other).or_else(|| Dtype::from_name(other)),
    };
    let dtype = match same {
        Some(dtype) => dtype,
        None if !op.reduces() && element_bytes(word).is_some() => Dtype::U8,
        None => return Err(format!("element type `{}` has no counterpart here", crate::tree::shown(word))),
    };
    Ok(ElementType { dtype, is_known: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(op: Collective, word: Option<&str>, bytes: u64) -> Result<(&'static str, bool), String> {
        element(op, word, bytes).map(|element| (element.dtype.name(), element.is_known))
    }

    #[test]
    fn element_types_of_tools_are_ours() {
        let cases = [
            ("Float", "f32"),
            ("c10::BFloat16", "bf16"),
            ("Half", "f16"),
            ("torch.float64", "f64"),
            ("Double", "f64"),
            ("Long", "i64"),
            ("Int", "i32"),
            ("Byte", "u8"),
            ("Char", "i8"),
            ("Float8_e4m3fn", "f8e4m3"),
            ("float", "f32"),
        ];
        for (word, wanted) in cases {
            assert_eq!(named(Collective::AllReduce, Some(word), 8), Ok((wanted, true)), "{word}");
        }
    }

    #[test]
    fn what_only_moves_needs_no_type_and_a_sum_does() {
        assert_eq!(named(Collective::AllGather, Some("Short"), 8), Ok(("u8", true)));
        assert!(named(Collective::AllReduce, Some("Short"), 8).unwrap_err().contains("`Short`"));
        assert!(named(Collective::AllGather, Some("ComplexFloat"), 8).is_err());
        assert_eq!(named(Collective::AllReduce, None, 8), Ok(("f32", false)));
        assert_eq!(named(Collective::AllReduce, None, 9), Ok(("u8", false)));
        assert_eq!(named(Collective::Broadcast, None, 8), Ok(("u8", true)));
    }

    #[test]
    fn a_transfer_is_not_a_collective() {
        assert!(operation("send").unwrap_err().contains("ping_pong"));
        assert!(operation("brand_new").unwrap_err().contains("`brand_new` has no counterpart"));
        assert_eq!(operation("all_to_allv"), Ok(Collective::AllToAllV));
    }
}
