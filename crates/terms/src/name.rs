//! Names: hyphens and underscores are the same, and a wrong word is answered with the nearest right one.

/// A closed set of names: every value, and the one spelling of each.
pub trait Named: Sized + Copy + 'static {
    /// What this set is called in messages ("collective", "element type").
    const KIND: &'static str;
    /// Every value, in the order in which help lists them.
    const ALL: &'static [Self];
    /// The one spelling.
    fn name(self) -> &'static str;

    /// Every spelling, in the order of [`Named::ALL`].
    fn names() -> Vec<&'static str> {
        Self::ALL.iter().map(|value| value.name()).collect()
    }

    /// The value of this name; hyphens and underscores are the same, and case does not matter.
    fn from_name(text: &str) -> Option<Self> {
        // Records hold the one spelling: nothing is normalized for it.
        let exact = Self::ALL.iter().copied().find(|value| value.name() == text);
        exact.or_else(|| {
            let wanted = normalize(text);
            Self::ALL.iter().copied().find(|value| normalize(value.name()) == wanted)
        })
    }
}

/// The form in which names are compared: trimmed, lower case, hyphens as underscores.
pub fn normalize(text: &str) -> String {
    text.trim().to_ascii_lowercase().replace('-', "_")
}

/// The candidate nearest to `word` by optimal string alignment (insertions, deletions, substitutions, swaps of
/// neighbours), if it is near enough to be what was meant (at most a third of the word, at least one edit, and less than
/// half of the longer of the two). Else the only one that begins with the word.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = normalize(word);
    // A hostile file may hold a megabyte-long key: no suggestion can be near it.
    if word.len() > 64 {
        return None;
    }
    let limit = (word.chars().count() / 3).max(1);
    // Of one or two letters an edit leaves next to nothing: `x` is not a slip of `y`.
    let near = |(distance, candidate): &(usize, &str)| {
        *distance <= limit && 2 * distance < word.chars().count().max(candidate.chars().count())
    };
    let candidates: Vec<(String, &str)> = candidates.into_iter().map(|name| (normalize(name), name)).collect();
    let slip = candidates
        .iter()
        .map(|(normal, name)| (strsim::osa_distance(&word, normal), *name))
        .filter(near)
        .min_by_key(|(distance, _)| *distance);
    let begun = candidates.iter().filter(|(normal, _)| word.len() > 2 && normal.starts_with(&word));
    let mut begun = begun.map(|(_, name)| *name);
    match (slip, begun.next(), begun.next()) {
        (Some((_, name)), ..) | (None, Some(name), None) => Some(name),
        _ => None,
    }
}

/// The hint that names what was probably meant.
pub fn did_you_mean(near: &str) -> String {
    format!("did you mean `{near}`?")
}

/// The hint for a word outside a set: the nearest word of the set, else all of them.
pub fn suggestion<'a>(word: &str, valid: impl IntoIterator<Item = &'a str>) -> String {
    let valid: Vec<&str> = valid.into_iter().collect();
    match nearest(word, valid.iter().copied()) {
        Some(near) => did_you_mean(near),
        None if valid.is_empty() => "it has none".to_owned(),
        None => format!("valid values: {}", valid.join(", ")),
    }
}

/// Gives a fieldless enum its [`Named`], `Display`, `FromStr` and serde implementations from one list.
#[macro_export]
macro_rules! named {
    ($(#[$meta:meta])* $vis:vis enum $name:ident($kind:literal) { $($(#[$doc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        $vis enum $name { $($(#[$doc])* $variant),+ }

        impl $crate::Named for $name {
            const KIND: &'static str = $kind;
            const ALL: &'static [Self] = &[$(Self::$variant),+];
            fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad($crate::Named::name(*self))
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::UnknownName;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                <Self as $crate::Named>::from_name(text).ok_or_else(|| $crate::UnknownName::new::<Self>(text))
            }
        }

        impl $crate::serde::Serialize for $name {
            fn serialize<S: $crate::serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str($crate::Named::name(*self))
            }
        }

        impl<'de> $crate::serde::Deserialize<'de> for $name {
            fn deserialize<D: $crate::serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str> as $crate::serde::Deserialize>::deserialize(from)?;
                text.parse().map_err($crate::serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use named;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suggestion_names_the_nearest_word_or_all() {
        assert_eq!(suggestion("brodcast", ["broadcast", "reduce"]), "did you mean `broadcast`?");
        assert_eq!(suggestion("x", ["broadcast", "reduce"]), "valid values: broadcast, reduce");
        assert_eq!(suggestion("x", []), "it has none");
    }

    #[test]
    fn nearest_finds_slips_and_not_strangers() {
        let ops = ["all_reduce", "all_gather", "broadcast"];
        assert_eq!(nearest("all-reduce", ops), Some("all_reduce"));
        assert_eq!(nearest("allreduce", ops), Some("all_reduce"));
        assert_eq!(nearest("brodacast", ops), Some("broadcast"));
        assert_eq!(nearest("pipeline", ops), None);
        assert_eq!((nearest("broad", ops), nearest("all", ops), nearest("b", ops)), (Some("broadcast"), None, None));
        let short = ["op", "dp", "i64"];
        assert_eq!((nearest("opp", short), nearest("i4", short)), (Some("op"), Some("i64")));
        assert_eq!((nearest("x", ["y"]), nearest("ab", ["db"]), nearest("xp", short)), (None, None, None));
        assert_eq!(nearest(&"a".repeat(100_000), ops), None);
    }
}
