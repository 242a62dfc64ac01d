//! A whole page. Its head is written here, so that no page is without the policy that forbids it to load anything.

use super::{Css, Html, Json, html};
use crate::policy::policy;

/// A page of one file.
pub(crate) struct Page<'p> {
    /// Title of the page, from data.
    pub(crate) title: &'p str,
    pub(crate) style: Css,
    pub(crate) body: Html,
    /// The program of the page and the values that it reads.
    pub(crate) script: Option<(&'static str, Json)>,
}

impl Page<'_> {
    pub(crate) fn write(self) -> Html {
        let scripts: Vec<&str> = self.script.iter().map(|(script, _)| *script).collect();
        let policy = policy(self.style.as_str(), &scripts);
        let mut out = Html::with_capacity(self.style.len() + self.body.len() + (64 << 10));
        out.literal("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
        // The one value in it is made of hashes.
        out.literal("<meta http-equiv=\"Content-Security-Policy\" content=\"");
        out.text.push_str(&policy);
        out.literal("\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
        out.literal("<meta name=\"generator\" content=\"rankmark\">\n");
        html!(out => "<title>{}</title>\n", self.title);
        out.literal("<style>");
        out.text.push_str(self.style.as_str());
        out.literal("</style>\n</head>\n<body>\n");
        out += self.body;
        if let Some((script, data)) = self.script {
            // Values of JSON have no character that could end the element.
            out.literal("<script type=\"application/json\" id=\"data\">");
            out.text.push_str(data.as_str());
            out.literal("</script>\n<script>");
            out.literal(script);
            out.literal("</script>\n");
        }
        out.literal("</body>\n</html>\n");
        out
    }
}
