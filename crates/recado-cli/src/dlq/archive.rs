//! `recado dlq export` and `recado dlq import`.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use recado_client::Client;
use recado_terminal::{Screen, clean};
use recado_wire::archive::{ExportFormat, ExportQuery, IMPORT_LINES_MAX, ImportAnswer, ImportResult};

use super::Filters;
use crate::out_file::OutFile;
use crate::{Done, ServerArgs, Stop};

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
    /// Format of the file.
    #[arg(long, value_enum, default_value_t = FormatArg::Ndjson)]
    format: FormatArg,
    /// File to write; standard output when left out. An existing file is replaced when the new one is whole,
    /// and only its owner may read it.
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
    let client = args.server.client()?;
    let mut sum = Sum::default();
    let mut batch = Batch::default();
    let cannot = |error: std::io::Error| cannot_read(&args.file, &error);
    let file = File::open(&args.file).map_err(cannot)?;
    for (number, line) in (1..).zip(BufReader::new(file).split(b'\n')) {
        let line = line.map_err(cannot)?;
        if line.trim_ascii().is_empty() {
            continue;
        }
        if batch.numbers.len() == IMPORT_LINES_MAX || batch.bytes.len() + line.len() >= BATCH_MAX_BYTES {
            send(&client, std::mem::take(&mut batch), &mut sum, args.json, screen).await?;
        }
        batch.push(number, &line);
    }
    if !batch.numbers.is_empty() {
        send(&client, batch, &mut sum, args.json, screen).await?;
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
    let refused = match sum.refused {
        1 => "1 line was refused".to_owned(),
        count => format!("{count} lines were refused"),
    };
    Err(Stop::Failed(format!("{refused}:\n{}{more}", sum.named.join("\n"))))
}

fn cannot_read(path: &Path, error: &std::io::Error) -> Stop {
    Stop::Failed(format!("cannot read {}: {error}", path.display()))
}

/// Lines on their way, and which lines of the file they are.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    numbers: Vec<u64>,
}

impl Batch {
    fn push(&mut self, number: u64, line: &[u8]) {
        self.bytes.extend_from_slice(line);
        self.bytes.push(b'\n');
        self.numbers.push(number);
    }
}

async fn send(client: &Client, batch: Batch, sum: &mut Sum, as_json: bool, screen: &mut Screen) -> Done {
    let answer = client.import_dead_letters(batch.bytes).await?;
    if as_json {
        screen.json(&answer)?;
    }
    sum.add(&answer, &batch.numbers);
    Ok(())
}

/// Results of all lines so far.
#[derive(Default)]
struct Sum {
    imported: u64,
    known: u64,
    refused: u64,
    named: Vec<String>,
}

impl Sum {
    fn add(&mut self, answer: &ImportAnswer, numbers: &[u64]) {
        self.imported += answer.imported;
        self.known += answer.known;
        self.refused += answer.refused;
        let lines = answer.items.iter().zip(numbers);
        let refused = lines.filter(|(item, _)| item.result == ImportResult::Refused);
        for (item, number) in refused.take(REFUSED_SHOWN_MAX.saturating_sub(self.named.len())) {
            let why = item.error.as_ref().map(|problem| problem.detail.as_str()).unwrap_or_default();
            let within = format!("line {} ", item.index + 1);
            let why = why.strip_prefix(&within).unwrap_or(why);
            self.named.push(format!("line {number} {why}"));
        }
    }
}
