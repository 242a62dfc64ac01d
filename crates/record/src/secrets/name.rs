//! Names that say that a value is secret.

/// Whether a variable's name says that its value is secret. Errs on the side of silence: `UCX_IB_PKEY` (a partition
/// number) is the one key that is known to be none.
pub fn smells_like_secret(name: &str) -> bool {
    // Fields that say how tokens are spread over experts.
    let field = name.rsplit('=').next().unwrap_or(name).trim_start_matches('-');
    if ["tokens", "tokens_file", "tokens-file"].contains(&field) {
        return false;
    }
    const WORDS: [&str; 12] = [
        "TOKEN",
        "SECRET",
        "PASSW",
        "CREDENTIAL",
        "PASSPHRASE",
        "PASSCODE",
        "COOKIE",
        "NONCE",
        "PRECONDITION",
        "AUTHORIZATION",
        "BEARER",
        "SIGNATURE",
    ];
    parts(name).any(|part| {
        let keyed = (part.ends_with("KEY") || part.ends_with("KEYS")) && part != "PKEY";
        let named = WORDS.iter().any(|word| part.contains(word)) || part.ends_with("AUTH");
        keyed || named || matches!(part.as_str(), "PASS" | "SIG" | "JWT" | "PAT" | "CREDS")
    })
}

/// The words of a name, in capitals.
fn parts(name: &str) -> impl Iterator<Item = String> {
    let name = name.to_ascii_uppercase();
    let parts: Vec<String> = name.split(|c: char| !c.is_ascii_alphanumeric()).map(str::to_owned).collect();
    parts.into_iter()
}

/// Whether what is called so is secret. More names than [`smells_like_secret`] refuses: hiding does less harm.
pub(super) fn is_secret(name: &str) -> bool {
    smells_like_secret(name) || parts(name).any(|part| part == "PWD")
}

/// Whether a word is an option that a secret follows.
pub(super) fn is_secret_option(word: &str) -> bool {
    word.starts_with('-') && !word.contains('=') && is_secret(word)
}
