//! `recado config`.

use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use recado_config::catalogue::Environment;
use recado_config::fault::Warnings;
use recado_config::show::{Style, page};
use recado_config::variables::misspelled;
use recado_config::{Config, Delivery, FILE_NAME, Flags, RouteConfig, reference, template};
use recado_core::words::counted;
use recado_terminal::{Column, Field, Paint, Screen};

use crate::{ConfigArgs, Done, Stop, variables};

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Write a commented recado.toml to start from.
    #[command(
        after_help = "EXAMPLES:\n  recado config init\n  recado config init --output /etc/recado/recado.toml"
    )]
    Init(InitArgs),
    /// Check the configuration and point at every fault.
    #[command(
        after_help = "EXAMPLES:\n  recado config check\n  recado config check --config staging.toml --env production"
    )]
    Check(ConfigArgs),
    /// Show the effective configuration, secrets hidden.
    #[command(
        after_help = "EXAMPLES:\n  recado config show --env production\n  recado config show --default > config.default.toml"
    )]
    Show(ConfigShowArgs),
    /// Print every key with its values, its default and its meaning, as Markdown.
    #[command(after_help = "EXAMPLES:\n  recado config reference > docs/configuration.md")]
    Reference,
}

#[derive(Debug, Args)]
pub struct InitArgs {
    /// File to write.
    #[arg(long, short, default_value = FILE_NAME, value_name = "FILE")]
    output: PathBuf,
    /// Replace a file that is there.
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Args)]
pub struct ConfigShowArgs {
    /// Every default with its explanation, whatever is configured.
    #[arg(long, conflicts_with_all = ["config", "env"])]
    default: bool,
    #[command(flatten)]
    config: ConfigArgs,
}

pub fn run(command: ConfigCommand, screen: &mut Screen) -> Done {
    match command {
        ConfigCommand::Init(args) => init(&args, screen),
        ConfigCommand::Check(args) => check(&args, screen),
        ConfigCommand::Show(args) if args.default => Ok(screen.text(template::default_file())?),
        ConfigCommand::Reference => Ok(screen.text(reference::page())?),
        ConfigCommand::Show(args) => {
            let config = args.config.load_as_written()?;
            Ok(screen.text(page(&config, Style::Effective))?)
        }
    }
}

fn init(args: &InitArgs, screen: &mut Screen) -> Done {
    let path = &args.output;
    let mut open = std::fs::OpenOptions::new();
    // It will hold secrets.
    open.write(true).create(true).truncate(true).create_new(!args.force).mode(0o600);
    let mut file = open.open(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Stop::Failed(format!(
            "{} is there already; replace it with --force, or write elsewhere with --output",
            path.display()
        )),
        _ => Stop::Failed(format!("cannot write {}: {error}", path.display())),
    })?;
    let written = file
        .set_permissions(Permissions::from_mode(0o600))
        .and_then(|()| file.write_all(template::starter_file().as_bytes()));
    written.map_err(|error| Stop::Failed(format!("cannot write {}: {error}", path.display())))?;
    screen.line(format_args!("Wrote {}. Next: recado config check, recado serve.", path.display()))?;
    Ok(())
}

fn check(args: &ConfigArgs, screen: &mut Screen) -> Done {
    let inputs = args.inputs(Flags::default())?;
    let config = Config::load(&inputs)?;
    if !config.warnings.list.is_empty() {
        screen.line(Warnings(&config.warnings))?;
    }
    let mut warnings = config.warnings.list.len() as u64;
    for other in Environment::ALL.into_iter().filter(|other| *other != config.environment) {
        let faults = match Config::check_elsewhere(&inputs, other) {
            Err(faults) => faults,
            Ok(there) => {
                if there.list.len() > config.warnings.list.len() {
                    screen.line(format_args!(
                        "note: {other} has more warnings; see recado config check --env {other}"
                    ))?;
                }
                continue;
            }
        };
        if args.env.is_none() {
            screen.line(Warnings(&faults))?;
            warnings += faults.list.len() as u64;
        }
        screen
            .line(format_args!("note: it does not work in {other}; see recado config check --env {other}"))?;
    }
    for (name, meant) in misspelled(&variables()) {
        screen.line(format_args!("note: nothing reads the variable {name}; did you mean {meant}?"))?;
    }
    let file = config.file.as_deref().unwrap_or("No file, built-in defaults");
    let warnings = match warnings {
        0 => String::new(),
        count => format!(", {}", counted(count, "warning", "warnings")),
    };
    screen.line(format_args!("{file}: no faults{warnings} ({})\n", config.environment))?;
    Ok(screen.table(&config.routes, COLUMNS)?)
}

const COLUMNS: &[Column<RouteConfig>] = &[
    ("route", |route| Field::from(&route.name)),
    ("transport", |route| Field::from(route.kind.as_str())),
    ("provider", |route| Field::from(&route.provider)),
    ("classifier", |route| Field::from(route.classifier_name)),
    ("attempts", |route| Field::from(route.terms.policy.max_attempts)),
    ("state", |route| match &route.delivery {
        Delivery::Missing(what) => Field::painted(what.split("; ").next().unwrap_or_default(), Paint::Warn),
        _ => Field::painted("takes jobs", Paint::Good),
    }),
];
