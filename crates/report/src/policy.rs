//! The content-security policy of a page: it may load nothing, and run only the style and the scripts that it has in it.

use sha2::{Digest as _, Sha256};

/// The policy for a page of one style and these scripts.
pub(crate) fn policy(style: &str, scripts: &[&str]) -> String {
    let hashes: Vec<String> = scripts.iter().map(|script| source(script)).collect();
    let scripts = if scripts.is_empty() { String::new() } else { format!("script-src {}; ", hashes.join(" ")) };
    format!("default-src 'none'; style-src {}; {scripts}base-uri 'none'; form-action 'none'", source(style))
}

/// `'sha256-...'` of an element's content.
fn source(content: &str) -> String {
    format!("'sha256-{}'", base64(&Sha256::digest(content.as_bytes())))
}

/// The alphabet of RFC 4648.
pub(crate) const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |place: usize| u32::from(chunk.get(place).copied().unwrap_or(0));
        let all = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let letter = ALPHABET[(all >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        let pairs = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (plain, encoded) in pairs {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xfe]), "+//+");
    }

    #[test]
    fn a_policy_names_what_the_page_holds() {
        // The hash of the empty text, from the standard's test vectors.
        let empty = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='";
        let without_scripts = policy("", &[]);
        assert!(without_scripts.contains(empty) && !without_scripts.contains("script-src"), "{without_scripts}");
        let policy = policy("", &[""]);
        assert!(policy.starts_with("default-src 'none'; ") && policy.matches(empty).count() == 2, "{policy}");
        assert!(!policy.contains("unsafe"));
    }
}
