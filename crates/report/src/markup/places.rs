//! Where the values of a literal stand, found while the program is compiled.

/// Between elements, or in a language without elements.
pub(crate) const TEXT: u8 = 0;
/// Inside of a tag, where attributes stand.
pub(crate) const TAG: u8 = 1;
/// Inside of the quotes of an attribute.
pub(crate) const VALUE: u8 = 2;
/// At the begin of an attribute, or of a part of Markdown, that a reader's program follows.
pub(crate) const ADDRESS: u8 = 3;

/// The place of each value.
pub(crate) type Places = [u8; 16];

/// What a literal begins in, by the name of its language.
pub(crate) struct Begin;

#[expect(non_upper_case_globals, reason = "the names of languages")]
impl Begin {
    pub(crate) const Html: Reading = Reading::Text;
    pub(crate) const Svg: Reading = Reading::Text;
    pub(crate) const Junit: Reading = Reading::Text;
    pub(crate) const Tag: Reading = Reading::Tag;
    pub(crate) const Markdown: Reading = Reading::Plain;
    pub(crate) const Css: Reading = Reading::Plain;
    pub(crate) const Json: Reading = Reading::Plain;
}

/// What is being read.
#[derive(Clone, Copy)]
pub(crate) enum Reading {
    /// Between elements.
    Text,
    /// Inside of a tag, behind the name of its element.
    Tag,
    /// The value of an attribute.
    Value,
    /// A language without tags.
    Plain,
}

/// Attributes that a browser follows or loads.
const FOLLOWED: [&[u8]; 4] = [b"href", b"src", b"data", b"xlink:href"];
/// Elements and attributes that no value may stand in: it would be a rule or a program there, or lead away.
const REFUSED: [&[u8]; 11] = [
    b"style",
    b"script",
    b"content",
    b"http-equiv",
    b"action",
    b"formaction",
    b"srcdoc",
    b"srcset",
    b"poster",
    b"ping",
    b"background",
];

/// The place of each `{}` of a literal.
///
/// # Panics
/// In a constant, so that it does not compile: when a value has a name (`{name}` would not be escaped), or a place where
/// escaped text can mean something.
pub(crate) const fn places(literal: &str, begin: Reading) -> Places {
    let text = literal.as_bytes();
    let (mut places, mut number, mut at) = ([TEXT; 16], 0, 0);
    let mut reading = begin;
    // Where the name of the element, of the attribute, and where the attribute's value begin.
    let (mut element, mut attribute, mut value) = ([0, 0], [0, 0], 0);
    while at < text.len() {
        let byte = text[at];
        if byte == b'{' && at + 1 < text.len() && text[at + 1] == b'{' {
            at += 2;
            continue;
        }
        if byte == b'{' {
            assert!(number < places.len(), "too many values");
            assert!(!is_any(text, element, &REFUSED), "a value in an element that is a program");
            places[number] = match reading {
                Reading::Text => TEXT,
                Reading::Tag => {
                    assert!(
                        at == 0 || !matches!(text[at - 1], b'<' | b'/' | b'='),
                        "a value without quotes, or a name"
                    );
                    TAG
                }
                Reading::Value => value_place(text, attribute, value, at),
                Reading::Plain => plain_place(text, at),
            };
            number += 1;
            at = end_of_value(text, at);
            continue;
        }
        match (reading, byte) {
            (Reading::Text, b'<') => {
                assert!(at + 1 < text.len() && text[at + 1] != b'{', "the name of an element is a literal");
                element = [at + 1, name_end(text, at + 1)];
                reading = Reading::Tag;
            }
            (Reading::Tag, b'>') => reading = Reading::Text,
            (Reading::Text, b'>') => panic!("a tag that ends without a begin"),
            (Reading::Tag, b' ' | b'\n') => attribute = [at + 1, name_end(text, at + 1)],
            (Reading::Tag, b'"') => {
                value = at + 1;
                reading = Reading::Value;
            }
            (Reading::Tag, b'\'') => panic!("quotes are double"),
            (Reading::Value, b'"') => reading = Reading::Tag,
            _ => {}
        }
        at += 1;
    }
    assert!(same(reading, begin), "a tag that is left open");
    places
}

/// `==` of a type cannot be called in a constant.
const fn same(a: Reading, b: Reading) -> bool {
    a as u8 == b as u8
}

/// The place of a value inside of an attribute's quotes, which begin at `begin`.
const fn value_place(text: &[u8], attribute: [usize; 2], begin: usize, at: usize) -> u8 {
    assert!(attribute[0] < attribute[1], "an attribute without a name");
    let is_event = text[attribute[0]] == b'o' && text[attribute[0] + 1] == b'n';
    assert!(!is_event && !is_any(text, attribute, &REFUSED), "a value in an attribute that is a program");
    if !is_any(text, attribute, &FOLLOWED) {
        return VALUE;
    }
    // A part of the page itself.
    if begin < at && text[begin] == b'#' {
        return VALUE;
    }
    assert!(begin == at, "an address is one value");
    ADDRESS
}

/// The place of a value in a language without tags.
const fn plain_place(text: &[u8], at: usize) -> u8 {
    let mut before = at;
    while before > 0 {
        before -= 1;
        assert!(text[before] != b'`', "code is made by a function of its own");
        if text[before] == b')' {
            return TEXT;
        }
        if before > 0 && text[before] == b'(' && text[before - 1] == b']' {
            return ADDRESS;
        }
    }
    TEXT
}

/// Behind the brace that ends a value, which has no name.
const fn end_of_value(text: &[u8], begin: usize) -> usize {
    let mut at = begin + 1;
    let is_bare = at < text.len() && matches!(text[at], b'}' | b':');
    assert!(is_bare, "a value is an argument: a name inside of braces would not be escaped");
    while text[at] != b'}' {
        assert!(matches!(text[at], b':' | b'.' | b'<' | b'>' | b'0'..=b'9'), "only widths of numbers");
        at += 1;
    }
    at + 1
}

/// Where a name ends.
const fn name_end(text: &[u8], begin: usize) -> usize {
    let mut at = begin;
    while at < text.len() && !matches!(text[at], b' ' | b'\n' | b'=' | b'>' | b'/' | b'{' | b'"') {
        at += 1;
    }
    at
}

const fn is_any(text: &[u8], [begin, end]: [usize; 2], names: &[&[u8]]) -> bool {
    let mut name = 0;
    while name < names.len() {
        let mut at = 0;
        while at < names[name].len() && begin + at < end && text[begin + at].eq_ignore_ascii_case(&names[name][at]) {
            at += 1;
        }
        if at == names[name].len() && begin + at == end {
            return true;
        }
        name += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places_in(literal: &str) -> Vec<u8> {
        let number = literal.replace("{{", "").matches('{').count();
        places(literal, Reading::Text)[..number].to_vec()
    }

    #[test]
    fn each_value_has_its_place() {
        assert_eq!(places_in("<p id=\"a{}\" class=\"{}\"{}>{} {:.1}</p>{{}}{}"), [VALUE, VALUE, TAG, TEXT, TEXT, TEXT]);
        assert_eq!(places_in("<a href=\"#{}{}\">{}</a><a href=\"{}\">"), [VALUE, VALUE, TEXT, ADDRESS]);
        assert_eq!(places_in("<style>a</style><b>{}</b>"), [TEXT]);
        assert_eq!(places(" {} x=\"{}\"", Reading::Tag)[..2], [TAG, VALUE]);
        assert_eq!(places("[{}](charts/{}.png) {}", Reading::Plain)[..3], [TEXT, ADDRESS, TEXT]);
    }

    #[test]
    fn what_cannot_be_safe_does_not_compile() {
        let refused = [
            "{name}",
            "{0}",
            "{:?}",
            "{:width$}",
            "<{}>",
            "</{}>",
            "<p {}=\"a\">{x}",
            "<p id={}>",
            "<p id='{}'>",
            "<p onclick=\"{}\">",
            "<p style=\"a:{}\">",
            "<style>{}</style>",
            "<SCRIPT>{}",
            "<meta content=\"0;url={}\">",
            "<meta http-equiv=\"{}\">",
            "<form action=\"{}\">",
            "<a href=\"a/{}\">",
            "<iframe srcdoc=\"{}\">",
            "<p",
            "{}\">",
        ];
        for literal in refused {
            assert!(std::panic::catch_unwind(|| places_in(literal)).is_err(), "{literal}");
        }
        assert!(std::panic::catch_unwind(|| places("`{}`", Reading::Plain)).is_err(), "code");
    }
}
