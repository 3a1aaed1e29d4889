//! The reference page: every section and every key, from the same tables that read them.

use std::fmt::Write as _;

use crate::keys::sections::Settings;
use crate::keys::table::{Row, Section, defaults};

const PREFACE: &str = include_str!("../../pages/reference-preface.md");

/// Writes the page as Markdown.
pub fn page() -> String {
    let mut page = PREFACE.to_owned();
    for section in defaults::<Settings>().rows() {
        let path = match section.key {
            key @ ("notify" | "providers" | "routes" | "environments") => format!("{key}.<name>"),
            key => key.to_owned(),
        };
        let _ = write!(page, "\n## `[{path}]`\n\n{}\n", words(section.doc));
        keys(&mut page, &path, &section.rows);
    }
    page
}

/// A table of keys, then those of the tables below.
fn keys(page: &mut String, path: &str, rows: &[Row]) {
    if rows.is_empty() {
        return;
    }
    page.push_str("\n| key | value | default | |\n|---|---|---|---|\n");
    for row in rows {
        let default = row.value.as_ref().map(|value| format!("`{value}`")).unwrap_or_default();
        let cells = [format!("`{}`", row.key), row.allowed.clone(), default, words(row.doc)];
        let _ = writeln!(page, "| {} |", cells.map(|cell| cell.replace('|', "\\|")).join(" | "));
    }
    let names = |row: &Row| row.rows.iter().map(|row| row.key).collect::<Vec<_>>();
    let tables: Vec<_> = rows.iter().filter(|row| !row.rows.is_empty()).collect();
    // Rows in a row that have the same keys share one table of them.
    for alike in tables.chunk_by(|one, other| names(one) == names(other)) {
        let _ = write!(page, "\n### `{}` in `[{path}]`\n", alike[0].key);
        if alike.len() > 1 {
            let _ = writeln!(page, "\nThe other tables of this section have the same keys.");
        }
        keys(page, path, &alike[0].rows);
    }
}

fn words(doc: &[&str]) -> String {
    doc.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}
