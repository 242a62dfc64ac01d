//! Text in languages that a reader's program obeys: HTML, SVG, the XML of JUnit, Markdown, style sheets.
//!
//! A [`Markup`] holds only literals of this program and text that was escaped for its language. Nothing else can be put into
//! one: its only constructors are the macros below, which escape every value according to the place where it stands
//! ([`places`]), and [`Literal`]. So a page that takes markup shows text of a record as text.

mod address;
mod escaped;
mod page;
mod places;

use std::fmt::{self, Write as _};
use std::marker::PhantomData;

pub(crate) use address::Address;
pub(crate) use escaped::{Sign, words};
pub(crate) use page::Page;
pub(crate) use places::{ADDRESS, Begin, Places, TAG, TEXT, VALUE, places};

/// Text of a language, escaped where it is from data.
pub(crate) struct Markup<L> {
    text: String,
    language: PhantomData<L>,
}

/// A language that has a way to write any text.
pub(crate) trait Language {
    /// Writes a text so that it means nothing in this language.
    ///
    /// # Errors
    /// Those of the formatter.
    fn escape(text: &str, to: &mut fmt::Formatter<'_>) -> fmt::Result;
}

/// Names of the languages.
pub(crate) mod language {
    pub(crate) enum Html {}
    pub(crate) enum Svg {}
    pub(crate) enum Junit {}
    pub(crate) enum Markdown {}
    /// What stands inside of a tag: attributes.
    pub(crate) enum Tag {}
    pub(crate) enum Css {}
    /// JSON inside of a script element.
    pub(crate) enum Json {}
}

/// Elements of a page.
pub(crate) type Html = Markup<language::Html>;
/// Elements of a picture.
pub(crate) type Svg = Markup<language::Svg>;
/// A JUnit document.
pub(crate) type Junit = Markup<language::Junit>;
/// Markdown in GitHub's dialect.
pub(crate) type Markdown = Markup<language::Markdown>;
/// Attributes of an element, with a space before each.
pub(crate) type Attributes = Markup<language::Tag>;
/// Rules of a style sheet.
pub(crate) type Css = Markup<language::Css>;
/// A value for the page's script.
pub(crate) type Json = Markup<language::Json>;

/// A text of this program, as it is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Literal(pub(crate) &'static str);

/// What can stand at a place of a language's text.
pub(crate) trait Part<L, const PLACE: u8> {
    /// Writes it, escaped for the place.
    ///
    /// # Errors
    /// Those of the formatter.
    fn write(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result;
}

/// A part as an argument of `format_args!`.
pub(crate) struct Shown<'p, L, const PLACE: u8, P: ?Sized>(&'p P, PhantomData<L>);

impl<'p, L, const PLACE: u8, P: Part<L, PLACE> + ?Sized> Shown<'p, L, PLACE, P> {
    pub(crate) fn new(part: &'p P) -> Self {
        Self(part, PhantomData)
    }
}

impl<L, const PLACE: u8, P: Part<L, PLACE> + ?Sized> fmt::Display for Shown<'_, L, PLACE, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(f)
    }
}

impl<L> Markup<L> {
    pub(crate) const fn new() -> Self {
        Self { text: String::new(), language: PhantomData }
    }

    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self { text: String::with_capacity(bytes), language: PhantomData }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Bytes of it.
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// Adds a text of this program.
    pub(crate) fn literal(&mut self, literal: &'static str) {
        self.text.push_str(literal);
    }

    /// Adds the arguments of a macro, which have been checked there.
    pub(crate) fn put(&mut self, arguments: fmt::Arguments<'_>) {
        // Writing to a String does not fail.
        let _ = self.text.write_fmt(arguments);
    }

    /// All parts, with a text of this program between each two.
    pub(crate) fn joined(parts: impl IntoIterator<Item = Self>, between: &'static str) -> Self {
        let mut all = Self::new();
        for (at, part) in parts.into_iter().enumerate() {
            all.literal(if at > 0 { between } else { "" });
            all += part;
        }
        all
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn into_string(self) -> String {
        self.text
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.text.into_bytes()
    }
}

impl<L> Default for Markup<L> {
    fn default() -> Self {
        Self::new()
    }
}

impl<L> Clone for Markup<L> {
    fn clone(&self) -> Self {
        Self { text: self.text.clone(), language: PhantomData }
    }
}

impl<L> PartialEq for Markup<L> {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl<L> fmt::Debug for Markup<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl<L> std::ops::AddAssign for Markup<L> {
    fn add_assign(&mut self, more: Self) {
        self.text.push_str(&more.text);
    }
}

impl<L> FromIterator<Self> for Markup<L> {
    fn from_iter<I: IntoIterator<Item = Self>>(parts: I) -> Self {
        Self::joined(parts, "")
    }
}

impl<L> From<Literal> for Markup<L> {
    fn from(literal: Literal) -> Self {
        Self { text: literal.0.to_owned(), language: PhantomData }
    }
}

/// Adds to markup (`put!(Html: out, "<p>{}</p>", text)`). Each `{}` is a value that is escaped for where it stands; a value of
/// the language itself stands between elements as it is. What could not be safe at its place does not compile: text as the
/// name of an element or an attribute, as an address, as a style. So do names inside of braces: they would not be escaped.
macro_rules! put {
    ($language:ident: $out:expr, $literal:literal $(,)?) => {{
        const _: $crate::markup::Places = $crate::markup::places($literal, $crate::markup::Begin::$language);
        $out.put(format_args!($literal))
    }};
    ($language:ident: $out:expr, $literal:literal $(, $part:expr)* $(,)?) => {{
        const PLACES: $crate::markup::Places =
            $crate::markup::places($literal, $crate::markup::Begin::$language);
        $crate::markup::put!(@ $language, $out, $literal, PLACES, (0), (), $($part,)*)
    }};
    (@ $language:ident, $out:expr, $literal:literal, $places:ident, ($at:expr), ($($done:expr,)*), $part:expr, $($rest:expr,)*) => {
        $crate::markup::put!(
            @ $language, $out, $literal, $places, ($at + 1), (
                $($done,)*
                $crate::markup::Shown::<$crate::markup::language::$language, { $places[$at] }, _>::new(&$part),
            ), $($rest,)*
        )
    };
    (@ $language:ident, $out:expr, $literal:literal, $places:ident, ($at:expr), ($($done:expr,)*),) => {
        $out.put(format_args!($literal $(, $done)*))
    };
}

/// Markup of a language: `markup!(Html, "<p>{}</p>", text)`, as [`put!`] writes it.
macro_rules! markup {
    ($language:ident, $($parts:tt)*) => {{
        let mut made = $crate::markup::Markup::<$crate::markup::language::$language>::new();
        $crate::markup::put!($language: made, $($parts)*);
        made
    }};
}

/// Elements of a page: `html!("<p>{}</p>", text)`, or `html!(out => "<p>{}</p>", text)` at the end of others.
macro_rules! html {
    ($literal:literal $($rest:tt)*) => { $crate::markup::markup!(Html, $literal $($rest)*) };
    ($out:expr => $($parts:tt)*) => { $crate::markup::put!(Html: $out, $($parts)*) };
}

/// Elements of a picture, as [`html!`].
macro_rules! svg {
    ($literal:literal $($rest:tt)*) => { $crate::markup::markup!(Svg, $literal $($rest)*) };
    ($out:expr => $($parts:tt)*) => { $crate::markup::put!(Svg: $out, $($parts)*) };
}

pub(crate) use {html, markup, put, svg};

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "\"><b>&'\u{1}\u{FDD1}##[x]";
    const SHOWN: &str = "&quot;&gt;&lt;b&gt;&amp;&#39;\u{FFFD}\u{FFFD}#&#35;[x]";

    #[test]
    fn text_is_escaped_where_it_stands() {
        let made = html!("<p id=\"{}\"{}>{} {:.1}</p>", HOSTILE, Literal(" hidden"), HOSTILE, 1.25);
        assert_eq!(made.as_str(), format!("<p id=\"{SHOWN}\" hidden>{SHOWN} 1.2</p>"));
        let mut out = html!("<b>{}</b>", made.clone());
        html!(out => "{{{}}}{}", Some(7_u32), None::<Html>);
        assert_eq!(out.into_string(), format!("<b>{}</b>{{7}}", made.as_str()));
    }

    #[test]
    fn each_language_has_its_own_way() {
        assert_eq!(svg!("<title>{}</title>", HOSTILE).as_str(), format!("<title>{SHOWN}</title>"));
        let junit = markup!(Junit, "<failure message=\"{}\"/>", "'a\n\"b\"");
        assert_eq!(junit.as_str(), "<failure message=\"'a&#10;&quot;b&quot;\"/>");
        assert_eq!(markup!(Markdown, "**{}**", "*a*\nb").as_str(), "**\\*a\\* b**");
    }
}
