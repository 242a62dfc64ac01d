//! The licences of what is built into the binary: most ask that a copy of their text goes with it. Texts come from the packages of
//! the registry; equal ones are written once, below the names of all packages that have them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use super::sbom::{built_in, metadata, text};

/// What the names of files with licences begin with.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"];

/// The folder of the fonts that reports embed, and their licences.
const FONTS: (&str, [(&str, &str); 2]) =
    ("crates/report/fonts", [("OFL.txt", "the font Arimo"), ("DejaVu.txt", "the font DejaVu Sans Mono")]);

/// All licences of the binary, as one text.
///
/// # Errors
/// What cargo says, or a file that cannot be read.
pub(super) fn document(root: &Path, targets: &[&str]) -> Result<String, String> {
    let metadata = metadata(root, targets)?;
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    // Packages without a source are those of this repository.
    for package in built_in(&metadata)?.into_iter().filter(|package| !package["source"].is_null()) {
        let folder = Path::new(text(package, "manifest_path")).parent().unwrap_or(root);
        for licence in licences(folder)? {
            texts.entry(licence).or_default().insert(name(package));
        }
        // Without a file, its manifest still names the licence.
        texts.entry(String::new()).or_default().insert(name(package));
    }
    let (folder, fonts) = FONTS;
    for (file, what) in fonts {
        let path = root.join(folder).join(file);
        let read = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        texts.entry(read).or_default().insert(what.to_owned());
    }
    Ok(written(&texts))
}

fn name(package: &Value) -> String {
    format!("{} {} ({})", text(package, "name"), text(package, "version"), text(package, "license"))
}

/// The texts of the licences in the folder of a package.
fn licences(folder: &Path) -> Result<Vec<String>, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let is_licence = |name: &str| NAMES.iter().any(|begin| name.to_uppercase().starts_with(begin));
    let paths = entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| path.is_file());
    let named = |path: &std::path::PathBuf| path.file_name().is_some_and(|name| is_licence(&name.to_string_lossy()));
    let read = |path: std::path::PathBuf| {
        let bytes = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(String::from_utf8_lossy(&bytes).replace("\r\n", "\n").trim().to_owned())
    };
    paths.filter(named).map(read).collect()
}

fn written(texts: &BTreeMap<String, BTreeSet<String>>) -> String {
    let mut document = "Rankmark's binary contains the packages and fonts below. Their licences follow.\n".to_owned();
    for (text, names) in texts {
        document += &format!("\n{}\n", "-".repeat(80));
        for name in names {
            document += &format!("{name}\n");
        }
        if !text.is_empty() {
            document += &format!("\n{text}\n");
        }
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The document of this repository names each package, and the texts of known licences are there.
    #[test]
    fn every_package_is_named_and_has_its_text() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let document = document(root, &["x86_64-unknown-linux-gnu"]).unwrap();
        for name in
            ["\nserde_json 1.", "\nlibc 0.", "\nkrilla 0.", "\nthe font Arimo\n", "\nthe font DejaVu Sans Mono\n"]
        {
            assert!(document.contains(name), "{name}");
        }
        for text in ["Permission is hereby granted, free of charge", "Apache License", "SIL OPEN FONT LICENSE"] {
            assert!(document.contains(text), "{text}");
        }
        // Only tests need these, or they are crates of this repository.
        assert!(!document.contains("\nproptest ") && !document.contains("\nrankmark"), "{document}");
    }

    #[test]
    fn equal_texts_are_written_once() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let texts = BTreeMap::from([("MIT text".to_owned(), names(&["a 1 (MIT)", "b 2 (MIT)"]))]);
        let document = written(&texts);
        assert!(document.contains("\na 1 (MIT)\nb 2 (MIT)\n\nMIT text\n"), "{document}");
    }
}
