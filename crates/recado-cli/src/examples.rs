//! Examples at the end of each command's help. `pages/examples.txt` has them as they are printed.

use clap::Command;

const PAGE: &str = include_str!("../pages/examples.txt");

/// Adds the examples of a command, which has this name, and of those below it.
pub fn add_examples(command: Command, name: &str) -> Command {
    let own = PAGE.split("\n## ").find_map(|part| part.strip_prefix(name)?.strip_prefix('\n'));
    let command = match own {
        Some(examples) => command.after_help(examples.trim_end()),
        None => command,
    };
    command.mut_subcommands(|below| {
        let name = format!("{name} {}", below.get_name());
        add_examples(below, &name)
    })
}
