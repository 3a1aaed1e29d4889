//! `recado dlq export` and `recado dlq import`.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use recado_client::Client;
use recado_core::words::counted;
use recado_terminal::{Form, Screen, clean};
use recado_wire::dlq::archive::{ExportFormat, ExportQuery, IMPORT_LINES_MAX, ImportResult};

use super::SearchArgs;
use crate::out_file::OutFile;
use crate::{AskArgs, Done, ServerArgs, Stop};

/// Bytes at most that one request brings, well below what a server takes.
const BATCH_MAX_BYTES: usize = 8 << 20;

/// Refused lines that are named.
const REFUSED_SHOWN_MAX: usize = 20;

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FormatArg {
    /// An entry a line; `recado dlq import` takes it back.
    Ndjson,
    /// A row an entry, for spreadsheets.
    Csv,
}

#[derive(Debug, Args)]
pub struct DlqExportArgs {
    /// Format of the file.
    #[arg(long, value_enum, default_value_t = FormatArg::Ndjson)]
    format: FormatArg,
    /// File to write; standard output when left out. An existing file is replaced when the new one is whole,
    /// and only its owner may read it.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    search: SearchArgs,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Args)]
#[command(mut_arg("json", |arg| arg.help("Print JSON, one answer a request")))]
pub struct ImportArgs {
    /// A file of the archive, or what `recado dlq export` wrote.
    file: PathBuf,
    #[command(flatten)]
    ask: AskArgs,
}

pub async fn export(args: DlqExportArgs, screen: &mut Screen) -> Done {
    let query = ExportQuery {
        format: Some(match args.format {
            FormatArg::Ndjson => ExportFormat::Ndjson,
            FormatArg::Csv => ExportFormat::Csv,
        }),
        filter: args.search.into(),
    };
    let mut export = args.server.client()?.export_dead_letters(&query).await?;
    let Some(path) = &args.out else {
        while let Some(piece) = export.next().await? {
            if screen.is_terminal() {
                let lines = String::from_utf8_lossy(&piece)
                    .split('\n')
                    .map(|line| clean(line).into_owned())
                    .collect::<Vec<_>>();
                screen.text(lines.join("\n"))?;
            } else {
                screen.text(&piece)?;
            }
        }
        return Ok(());
    };
    let mut file = OutFile::create(path)?;
    let mut bytes = 0;
    while let Some(piece) = export.next().await? {
        bytes += piece.len();
        file.write(&piece)?;
    }
    file.finish()?;
    screen.line(format_args!("{} holds {bytes} bytes", path.display()))?;
    Ok(())
}

pub async fn import(args: ImportArgs, screen: &mut Screen) -> Done {
    let client = args.ask.client()?;
    let mut import = Import::default();
    let cannot_read =
        |error: std::io::Error| Stop::Failed(format!("cannot read {}: {error}", args.file.display()));
    let file = File::open(&args.file).map_err(cannot_read)?;
    for (number, line) in (1..).zip(BufReader::new(file).split(b'\n')) {
        let line = line.map_err(cannot_read)?;
        if line.trim_ascii().is_empty() {
            continue;
        }
        if import.numbers.len() == IMPORT_LINES_MAX || import.lines.len() + line.len() >= BATCH_MAX_BYTES {
            import.send(&client, &args.ask, screen).await?;
        }
        import.lines.extend_from_slice(&line);
        import.lines.push(b'\n');
        import.numbers.push(number);
    }
    if !import.numbers.is_empty() {
        import.send(&client, &args.ask, screen).await?;
    }
    import.end(args.ask.form.get(), screen)
}

/// An import under way.
#[derive(Default)]
struct Import {
    /// Lines of the next request, and their numbers in the file.
    lines: Vec<u8>,
    numbers: Vec<u64>,
    imported: u64,
    known: u64,
    refused: u64,
    /// The first lines that were refused, and why.
    named: Vec<String>,
}

impl Import {
    async fn send(&mut self, client: &Client, ask: &AskArgs, screen: &mut Screen) -> Done {
        let answer = client.import_dead_letters(std::mem::take(&mut self.lines)).await?;
        ask.show(screen, &answer, |_, _| Ok(()))?;
        self.imported += answer.imported;
        self.known += answer.known;
        self.refused += answer.refused;
        let lines = answer.items.iter().zip(self.numbers.drain(..));
        let refused = lines.filter(|(item, _)| item.result == ImportResult::Refused);
        for (item, number) in refused.take(REFUSED_SHOWN_MAX.saturating_sub(self.named.len())) {
            let why = item.error.as_ref().map(|problem| problem.detail.as_str()).unwrap_or_default();
            let within = format!("line {} ", item.index + 1);
            let why = why.strip_prefix(&within).unwrap_or(why);
            self.named.push(format!("line {number} {why}"));
        }
        Ok(())
    }

    fn end(self, form: Form, screen: &mut Screen) -> Done {
        if form == Form::Text {
            let left = match self.known {
                0 => String::new(),
                known => format!("; {known} left alone: already here, sent or given up"),
            };
            screen.line(format_args!("{} came back{left}", self.imported))?;
        }
        if self.refused == 0 {
            return Ok(());
        }
        let more = match self.refused - self.named.len() as u64 {
            0 => String::new(),
            more => format!("\nand {more} more"),
        };
        let refused = counted(self.refused, "line was", "lines were");
        Err(Stop::Failed(format!("{refused} refused:\n{}{more}", self.named.join("\n"))))
    }
}
