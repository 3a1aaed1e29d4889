//! The alerts' rules for Prometheus, as they are unless configured otherwise:
//! `cargo run -p recado-observe --example rules > docs/operating/prometheus-rules.yml`.

use std::io::Write;

fn main() -> std::io::Result<()> {
    let rules = recado_observe::prometheus::prometheus_rules(&recado_observe::AlertConfig::default());
    std::io::stdout().write_all(rules.as_bytes())
}
