//! `holdpoint eval world`.

use std::path::{Path, PathBuf};

use super::{Failure, eval, print};
use crate::eval::inspect::{Inspection, Looked, Shown, inspect};
use crate::eval::suite::{WORLD, load_world};

/// A world to start from, file by file.
const STARTER: [(&str, &str); 3] = [
    (
        WORLD,
        include_str!("../../evalsets/templates/world/world.yaml"),
    ),
    (
        "schema.sql",
        include_str!("../../evalsets/templates/world/schema.sql"),
    ),
    (
        "fixtures.sql",
        include_str!("../../evalsets/templates/world/fixtures.sql"),
    ),
];

/// Arguments of `holdpoint eval world`.
#[derive(Debug, clap::Args)]
pub struct World {
    /// A folder with a `world.yaml`, or with a suite.
    folder: PathBuf,
    /// Write a world to start from into the folder, which must not be there yet.
    #[arg(long, conflicts_with_all = ["database", "json"])]
    init: bool,
    /// Look at it on the database server whose URL this environment variable holds, in place of SQLite.
    #[arg(long, value_name = "VARIABLE")]
    database: Option<String>,
    /// Print what was found as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) fn run(args: &World) -> Result<(), Failure> {
    if args.init {
        return init(&args.folder);
    }
    let database = eval::database(args.database.as_deref())?;
    let world = load_world(&args.folder, database)?;
    let found = inspect(&world)?;
    if args.json {
        let json = serde_json::to_string_pretty(&found);
        print(json.map_err(|error| Failure::Failed(format!("error: {error}")))?);
        return Ok(());
    }
    print(format!("world {}: {}", world.name, world.about));
    show(&found);
    Ok(())
}

fn show(found: &Inspection) {
    print(format!(
        "on {}: every statement can run, the judge cannot write, and the start state comes back ({})",
        found.database.as_str(),
        found.start.get(..12).unwrap_or_default()
    ));
    let tables: Vec<_> = found
        .tables
        .iter()
        .map(|(name, rows)| format!("{name} ({rows})"))
        .collect();
    print(format!("tables (rows): {}", tables.join(", ")));
    for tool in &found.tools {
        print(format!("  {}", line(tool)));
    }
    for missing in &found.missing {
        print(format!("missing: {missing}"));
    }
}

fn line(tool: &Looked) -> String {
    let writes = if tool.writes.is_empty() {
        "reads".to_owned()
    } else {
        format!("writes {}", tool.writes.join(", "))
    };
    let example = match &tool.example {
        None => String::new(),
        Some(Shown { ok, changed, text }) => {
            let changed: Vec<_> = changed
                .iter()
                .map(|(table, came, went)| format!("{table} +{came} -{went}"))
                .collect();
            let said = if *ok { "gives" } else { "fails with" };
            let text: String = text.chars().take(80).collect();
            let told = if changed.is_empty() {
                "changes nothing".to_owned()
            } else {
                format!("changes {}", changed.join(", "))
            };
            format!("; its example {told}, and {said}: {text}")
        }
    };
    format!("{}: {writes}{example}", tool.tool)
}

fn init(folder: &Path) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::Input(format!(
            "error: {} cannot be written: {error}",
            folder.display()
        ))
    };
    if let Some(parent) = folder.parent() {
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    std::fs::create_dir(folder).map_err(failed)?;
    for (name, text) in STARTER {
        std::fs::write(folder.join(name), text).map_err(failed)?;
    }
    print(format!(
        "a world is in {0}; look at it with: holdpoint eval world {0}",
        folder.display()
    ));
    Ok(())
}
