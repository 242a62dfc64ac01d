//! `--only`: one benchmark of a plan, by our name, by its command's, or by the word of other suites.

use record::{About, Plan};
use terms::{Error, normalize};

/// What other suites call a part of what a benchmark measures, the benchmark, and what is to be known of it.
const OTHERS: [(&str, &str, &str); 4] = [
    ("communication", "collective", ""),
    ("hardware_characterization", "hardware", ""),
    ("scaling", "training", "`--only scaling`: efficiencies are those of training cases with several numbers of ranks"),
    (
        "efficiency",
        "training",
        "`--only efficiency`: efficiencies are those of training cases with several numbers of ranks",
    ),
];

/// Help of the option: names of benchmarks, each with that of its command where this is another: `collective (or comm)`.
pub fn help() -> String {
    let word = |about: &'static About| match about.command.as_ref().map(|command| command.name) {
        Some(command) if command != about.name => format!("{} (or {command})", about.name),
        _ => about.name.to_owned(),
    };
    let words: Vec<String> = benchmarks::abouts().into_iter().map(word).collect();
    format!("runs the cases of these benchmarks alone: {}", words.join(", "))
}

/// Benchmarks to keep.
pub struct Only {
    /// The benchmarks.
    pub abouts: Vec<&'static About>,
    notes: Vec<String>,
}

impl Only {
    /// The benchmarks of these words; `all` is each.
    ///
    /// # Errors
    /// A word that means none, with the valid values.
    pub fn named(words: &[String]) -> Result<Self, Error> {
        let mut only = Self { abouts: Vec::new(), notes: Vec::new() };
        for word in words {
            if normalize(word) == "all" {
                only.abouts = benchmarks::abouts();
                continue;
            }
            let (about, note) = one(word)?;
            if only.abouts.iter().all(|known| known.name != about.name) {
                only.abouts.push(about);
            }
            only.notes.extend((!note.is_empty()).then(|| note.to_owned()));
        }
        Ok(only)
    }

    /// Whether cases of this benchmark are kept.
    pub fn keeps(&self, about: &About) -> bool {
        self.abouts.iter().any(|kept| kept.name == about.name)
    }

    /// Keeps the cases of these benchmarks; false where there are none.
    pub fn keep(&self, plan: &mut Plan) -> bool {
        let wanted = |case: &record::Case| self.abouts.iter().any(|about| about.name == case.benchmark);
        let any = plan.cases.iter().any(wanted);
        if any {
            plan.cases.retain(wanted);
            plan.notes.extend(self.notes.iter().cloned());
        }
        any
    }

    /// Says that a plan has none of the cases.
    pub fn missing(&self, plan: &Plan) -> Error {
        let mut there: Vec<&str> = Vec::new();
        for case in &plan.cases {
            if !there.contains(&case.benchmark.as_str()) {
                there.push(&case.benchmark);
            }
        }
        let wanted: Vec<&str> = self.abouts.iter().map(|about| about.name).collect();
        let alone = self.abouts.iter().find_map(|about| about.command.as_ref());
        let what = format!("no case of the plan measures {}: it has {}", wanted.join(", "), there.join(", "));
        Error::new(what)
            .hint(alone.map_or(String::new(), |command| format!("`rankmark {}` measures it alone", command.name)))
    }
}

fn one(word: &str) -> Result<(&'static About, &'static str), Error> {
    let wanted = normalize(word);
    let other = OTHERS.iter().find(|(name, ..)| *name == wanted);
    let name = other.map_or(wanted.as_str(), |(_, name, _)| name);
    let abouts = benchmarks::abouts();
    let is = |about: &&About| {
        about.name == name || about.command.as_ref().is_some_and(|command| normalize(command.name) == name)
    };
    let found = abouts.iter().copied().find(is).or_else(|| {
        // `collectives`, `primitives`.
        let single = name.strip_suffix('s')?;
        abouts.iter().copied().find(|about| about.name == single)
    });
    found.map(|about| (about, other.map_or("", |(.., note)| note))).ok_or_else(|| {
        let commands = abouts.iter().filter_map(|about| Some(about.command.as_ref()?.name));
        let names: Vec<&str> =
            abouts.iter().map(|about| about.name).chain(commands).chain(OTHERS.map(|(name, ..)| name)).collect();
        let mut known: Vec<&str> = vec!["all"];
        names.into_iter().filter(|name| !name.is_empty()).for_each(|name| {
            if !known.contains(&name) {
                known.push(name);
            }
        });
        Error::new(format!("there is no benchmark `{word}`")).hint(terms::suggestion(word, known))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(words: &str) -> Result<Vec<&'static str>, String> {
        let words: Vec<String> = words.split(',').map(str::to_owned).collect();
        let only = Only::named(&words).map_err(|failure| failure.to_string())?;
        Ok(only.abouts.iter().map(|about| about.name).collect())
    }

    #[test]
    fn benchmarks_have_the_names_of_commands_and_of_other_suites() {
        for (words, expected) in [
            ("comm", vec!["collective"]),
            ("collective,comm", vec!["collective"]),
            ("train,Memory", vec!["training", "memory"]),
            ("scaling", vec!["training"]),
            ("primitives", vec!["primitive"]),
        ] {
            assert_eq!(names(words), Ok(expected), "{words}");
        }
        assert_eq!(names("all").unwrap().len(), benchmarks::abouts().len());
        assert!(names("memroy").unwrap_err().contains("did you mean `memory`?"));
        assert!(names("xyz").unwrap_err().contains("valid values: all, collective, "));
    }
}
