//! `recado dlq export` and `recado dlq import`.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use recado_client::Client;
use recado_wire::archive::{ExportFormat, ExportQuery, IMPORT_LINES_MAX, ImportAnswer, ImportResult};

use super::Filters;
use crate::cli::{Done, ServerArgs, Stop};
use crate::screen::{Screen, clean};

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
pub struct ExportArgs {
    /// How.
    #[arg(long, value_enum, default_value_t = FormatArg::Ndjson)]
    format: FormatArg,
    /// Where to; standard output when left out.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    filters: Filters,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Args)]
pub struct ImportArgs {
    /// A file of the archive, or what `recado dlq export` wrote.
    file: PathBuf,
    /// Print JSON, one answer a request.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

pub async fn export(args: ExportArgs, screen: &mut Screen) -> Done {
    let query = ExportQuery {
        format: Some(match args.format {
            FormatArg::Ndjson => ExportFormat::Ndjson,
            FormatArg::Csv => ExportFormat::Csv,
        }),
        filter: args.filters.into(),
    };
    let mut export = args.server.client()?.export_dead_letters(&query).await?;
    let Some(path) = &args.out else {
        while let Some(piece) = export.next().await? {
            if screen.is_terminal() {
                let lines = String::from_utf8_lossy(&piece)
                    .split('\n')
                    .map(|line| clean(line).into_owned())
                    .collect::<Vec<_>>();
                screen.text(&lines.join("\n"))?;
            } else {
                screen.bytes(&piece)?;
            }
        }
        return Ok(());
    };
    let cannot = |error: std::io::Error| Stop::Failed(format!("cannot write {}: {error}", path.display()));
    let mut file = File::create(path).map_err(cannot)?;
    let mut bytes = 0;
    while let Some(piece) = export.next().await? {
        bytes += piece.len();
        file.write_all(&piece).map_err(cannot)?;
    }
    file.sync_all().map_err(cannot)?;
    screen.line(format_args!("{} holds {bytes} bytes", path.display()))?;
    Ok(())
}

pub async fn import(args: ImportArgs, screen: &mut Screen) -> Done {
    let client = args.server.client()?;
    let mut sum = Sum::default();
    let mut batch = Batch::default();
    let cannot = |error: std::io::Error| cannot_read(&args.file, &error);
    let file = File::open(&args.file).map_err(cannot)?;
    for line in BufReader::new(file).split(b'\n') {
        let line = line.map_err(cannot)?;
        if line.trim_ascii().is_empty() {
            continue;
        }
        if batch.lines == IMPORT_LINES_MAX || batch.bytes.len() + line.len() >= BATCH_MAX_BYTES {
            sum.add(send(&client, &mut batch).await?, args.json, screen)?;
        }
        batch.push(&line);
    }
    if batch.lines > 0 {
        sum.add(send(&client, &mut batch).await?, args.json, screen)?;
    }
    if !args.json {
        let left = match sum.known {
            0 => String::new(),
            known => format!("; {known} left alone: already here, sent or given up"),
        };
        screen.line(format_args!("{} came back{left}", sum.imported))?;
    }
    if sum.refused == 0 {
        return Ok(());
    }
    let more = sum.refused - sum.named.len() as u64;
    let more = if more > 0 { format!("\nand {more} more") } else { String::new() };
    Err(Stop::Failed(format!("{} lines were refused:\n{}{more}", sum.refused, sum.named.join("\n"))))
}

fn cannot_read(path: &Path, error: &std::io::Error) -> Stop {
    Stop::Failed(format!("cannot read {}: {error}", path.display()))
}

#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    lines: usize,
}

impl Batch {
    fn push(&mut self, line: &[u8]) {
        self.bytes.extend_from_slice(line);
        self.bytes.push(b'\n');
        self.lines += 1;
    }
}

async fn send(client: &Client, batch: &mut Batch) -> Result<ImportAnswer, Stop> {
    Ok(client.import_dead_letters(std::mem::take(batch).bytes).await?)
}

/// What became of all lines so far.
#[derive(Default)]
struct Sum {
    /// Lines that were looked at before this batch.
    seen: u64,
    imported: u64,
    known: u64,
    refused: u64,
    named: Vec<String>,
}

impl Sum {
    fn add(&mut self, answer: ImportAnswer, as_json: bool, screen: &mut Screen) -> std::io::Result<()> {
        if as_json {
            screen.json(&answer)?;
        }
        self.imported += answer.imported;
        self.known += answer.known;
        self.refused += answer.refused;
        let refused = answer.items.iter().filter(|item| item.result == ImportResult::Refused);
        for item in refused.take(REFUSED_SHOWN_MAX.saturating_sub(self.named.len())) {
            let why = item.error.as_ref().map(|problem| problem.detail.as_str()).unwrap_or_default();
            let within = format!("line {} ", item.index + 1);
            let why = why.strip_prefix(&within).unwrap_or(why);
            self.named.push(format!("line {} {why}", self.seen + item.index + 1));
        }
        self.seen += answer.items.len() as u64;
        Ok(())
    }
}
