//! The style sheet of pages without a script: the index and the fleet.

/// One set of variables each for light and dark pages.
pub(crate) const CSS: &str = "
:root{color-scheme:light dark;--page:#fbfbfa;--card:#fff;--ink:#222;--quiet:#666;--line:#e2e2e2;--blue:#0072b2;
--worse:#b34700;--better:#007a59;--warn:#ffecb3;--warn-ink:#7a3f00}
@media (prefers-color-scheme:dark){:root{--page:#16181d;--card:#1d2026;--ink:#e8e8e8;--quiet:#aaacb2;--line:#343740;
--blue:#56b4e9;--worse:#ff9d5c;--better:#4fd1a5;--warn:#4a380e;--warn-ink:#ffd58a}}
*{box-sizing:border-box}
body{margin:0 auto;padding:24px;max-width:1240px;background:var(--page);color:var(--ink);
font:15px/1.45 system-ui,-apple-system,\"Segoe UI\",\"DejaVu Sans\",sans-serif}
h1{font-size:24px;margin:0 0 4px}h2{font-size:18px;margin:32px 0 4px}h3{font-size:15px;margin:20px 0 8px}
p{margin:4px 0}a{color:var(--blue)}.quiet{color:var(--quiet)}
.banner{background:var(--warn);color:var(--warn-ink);padding:8px 12px;border-radius:6px;margin:8px 0;font-weight:600}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;background:var(--card);border:1px solid var(--line);border-radius:6px}
th,td{text-align:left;padding:5px 10px;border-bottom:1px solid var(--line);white-space:nowrap;vertical-align:top}
th{color:var(--quiet);font-weight:600;font-size:13px}tr:last-child td{border-bottom:0}
td.long{white-space:normal;min-width:220px}th.number,.number{text-align:right;font-variant-numeric:tabular-nums}
.changes{list-style:none;margin:0;padding:0}
.changes li{background:var(--card);border:1px solid var(--line);border-left:4px solid var(--worse);border-radius:6px;
padding:8px 12px;margin:8px 0;color:var(--ink)}.changes li.better{border-left-color:var(--better)}
.changes ul{margin:4px 0;padding-left:20px}.changes ul li{border:0;padding:0;margin:0;background:none}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(380px,100%),1fr));gap:12px}
.card{background:var(--card);border:1px solid var(--line);border-radius:6px;padding:10px 12px;margin:0}
.card figcaption{font-weight:600;margin-bottom:2px;overflow-wrap:anywhere}.card figcaption span{font-weight:400;color:var(--quiet);display:block;font-size:13px}
svg{display:block;width:100%;height:auto}.spark{width:120px;height:24px}
.axis{stroke:var(--line)}.line{fill:none;stroke:var(--blue);stroke-width:1.5}.dot{fill:var(--blue)}
.bar{stroke:var(--blue);stroke-width:1;opacity:.55}.level{stroke:var(--ink);stroke-width:1.5;opacity:.75}
.mark{stroke-width:1.5;stroke-dasharray:4 3}.mark.worse{stroke:var(--worse)}.mark.better{stroke:var(--better)}
text{fill:var(--quiet);font-size:11px}text.worse,.worse{fill:var(--worse);color:var(--worse)}text.better,.better{fill:var(--better);color:var(--better)}
text.size{font-weight:700}
summary{cursor:pointer;margin:16px 0 8px}
@media print{body{max-width:none;padding:0}.card{break-inside:avoid}}
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_style_sheet_loads_nothing() {
        assert!(!CSS.contains("url(") && !CSS.contains("@import") && !CSS.contains("</"));
    }
}
