//! Names in tables: long ones are cut. Compilers write a line of types where a person looks for a word.

/// Characters that fit into a table.
const LONGEST: usize = 96;
/// Of the characters that fit, those of the name's end.
const AT_THE_END: usize = 30;

/// The name without the type that it returns and without its arguments; what is left is cut in the middle.
pub(super) fn short(name: &str) -> String {
    let name = name.strip_prefix("void ").unwrap_or(name);
    let name = name.get(..arguments(name).unwrap_or(name.len())).unwrap_or(name).trim_end();
    let length = name.chars().count();
    if length <= LONGEST {
        return name.to_owned();
    }
    let begin: String = name.chars().take(LONGEST - AT_THE_END - 3).collect();
    let end: String = name.chars().skip(length - AT_THE_END).collect();
    format!("{begin}...{end}")
}

/// Where the list of arguments begins: the first bracket outside of template arguments that opens no name of a namespace.
fn arguments(name: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (at, letter) in name.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            '(' if depth == 0 && at > 0 && !name[at..].starts_with("(anonymous namespace)") => return Some(at),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_keep_what_tells_them_apart() {
        for (name, wanted) in [
            ("sgemm_128x64", "sgemm_128x64"),
            ("void k<float, 2>(int, std::array<char*, 1ul>)", "k<float, 2>"),
            ("void (anonymous namespace)::softmax<8>(float*)", "(anonymous namespace)::softmax<8>"),
            ("void at::f<at::g(int)::{lambda(float)#1}, int>(int)", "at::f<at::g(int)::{lambda(float)#1}, int>"),
            ("", ""),
            ("(odd", "(odd"),
        ] {
            assert_eq!(short(name), wanted, "{name}");
        }
        let long = format!("void at::native::elementwise<{}, CUDAFunctor_add<float> >(int)", "x".repeat(300));
        let shortened = short(&long);
        assert_eq!(shortened.chars().count(), LONGEST);
        assert!(
            shortened.starts_with("at::native::elementwise<xx") && shortened.ends_with("CUDAFunctor_add<float> >"),
            "{shortened}"
        );
        assert_eq!(short(&"ü".repeat(200)).chars().count(), LONGEST);
    }
}
