//! `--out`: a folder with what every trial was, said and came to, from which a run that was stopped goes on.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::replay::{Approver, Kept, Reading, Trial};
use super::report::Report;
use super::run::{Came, Plan, Readings};
use super::suite::Suite;
use crate::source::Problem;

/// What a run was begun with.
const BEGUN: &str = "run.json";
/// One line per job, written when all of it is done.
const LOG: &str = "trials.jsonl";
/// The last file: where it is, the run is whole.
const REPORT: &str = "report.json";

/// Results by the number of their job.
#[derive(Debug, Default)]
pub struct Log(pub HashMap<usize, Came>);

/// What a run was begun with: it goes on with the same, or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begun {
    /// `holdpoint-eval-run/1`.
    schema: String,
    /// Which Holdpoint: another may judge otherwise.
    version: String,
    suite: String,
    /// Of every file of the suite.
    digest: String,
    policy: String,
    database: String,
    /// As they were asked for.
    pub(super) arms: Vec<String>,
    pub(super) reading: String,
    pub(super) approvers: Vec<String>,
    pub(super) streamed: bool,
}

const SCHEMA: &str = "holdpoint-eval-run/1";

impl Begun {
    pub(super) fn new(suite: &Suite, plan: &Plan, approvers: &[Approver]) -> Self {
        let reading = match plan.readings {
            Readings::Both => "both",
            Readings::Only(Reading::Optimistic) => "optimistic",
            Readings::Only(Reading::Pessimistic) => "pessimistic",
        };
        Self {
            schema: SCHEMA.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            suite: suite.name.clone(),
            digest: suite.digest.clone(),
            policy: suite.policy.hash.to_string(),
            database: suite.image.dialect().as_str().to_owned(),
            arms: plan.arms.clone(),
            reading: reading.to_owned(),
            approvers: approvers.iter().map(ToString::to_string).collect(),
            streamed: plan.stream,
        }
    }

    /// What the run of a folder was begun with.
    ///
    /// # Errors
    /// The folder is none of a run.
    pub fn read(folder: &Path) -> Result<Self, Problem> {
        let path = folder.join(BEGUN);
        let shown = path.display();
        let text = fs::read_to_string(&path).map_err(|error| {
            Problem::new(format!("`{shown}` cannot be read: {error}"))
                .help("name a folder that `--out` has made")
        })?;
        let wrong = |what: String| {
            Problem::new(format!("`{shown}` is none that `--out` has made: {what}"))
                .help("name a folder that `--out` of this version of Holdpoint has made")
        };
        let begun: Self = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        if begun.schema != SCHEMA {
            return Err(wrong(format!("its schema is `{}`", begun.schema)));
        }
        Ok(begun)
    }

    /// The options that it was begun with, put into a plan.
    ///
    /// # Errors
    /// They are none of this version.
    pub fn apply(&self, plan: &mut Plan) -> Result<(), Problem> {
        let wrong = |what: &str| Problem::new(format!("`{BEGUN}` has a wrong {what}"));
        plan.arms.clone_from(&self.arms);
        plan.stream = self.streamed;
        plan.readings = match self.reading.as_str() {
            "both" => Readings::Both,
            "optimistic" => Readings::Only(Reading::Optimistic),
            "pessimistic" => Readings::Only(Reading::Pessimistic),
            _ => return Err(wrong("`reading`")),
        };
        let approvers = self.approvers.iter().map(|shown| Approver::shown(shown));
        let approvers: Option<Vec<_>> = approvers.collect();
        plan.approvers = approvers.ok_or_else(|| wrong("approver"))?;
        Ok(())
    }

    /// What of it is otherwise now.
    fn otherwise(&self, now: &Self) -> Option<&'static str> {
        let fields = [
            ("Holdpoint", self.version != now.version),
            ("suite", self.suite != now.suite),
            ("policy", self.policy != now.policy),
            ("suite's files", self.digest != now.digest),
            ("database", self.database != now.database),
            ("options", self != now),
        ];
        fields
            .into_iter()
            .find_map(|(what, differs)| differs.then_some(what))
    }
}

/// Writes into one folder, from every worker.
pub struct Keeper {
    folder: PathBuf,
    /// A folder per approver, where there are several.
    by_approver: bool,
    log: Mutex<File>,
}

impl Keeper {
    /// Makes the folder.
    ///
    /// # Errors
    /// It exists, or cannot be made.
    pub fn create(folder: &Path, begun: &Begun) -> Result<Self, Problem> {
        let shown = folder.display();
        let made = fs::create_dir(folder).and_then(|()| {
            let log = File::create_new(folder.join(LOG))?;
            log.try_lock()?;
            write(&folder.join(BEGUN), begun)?;
            Ok(log)
        });
        match made {
            Ok(log) => Ok(Self::over(folder, begun, log)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let problem = Problem::new(format!("`{shown}` exists already"));
                Err(problem.help(
                    "name a new folder: results of two runs are never mixed; `--resume` goes on with a run that was stopped",
                ))
            }
            Err(error) => Err(Problem::new(format!("`{shown}` cannot be made: {error}"))
                .help("the folder above it must exist and be writable")),
        }
    }

    /// Goes on in a folder, with what is done there.
    ///
    /// # Errors
    /// The folder is none of a run, or of another run; another process goes on with it.
    pub fn resume(folder: &Path, now: &Begun) -> Result<(Self, Log), Problem> {
        let begun = Begun::read(folder)?;
        let shown = folder.display();
        if let Some(what) = begun.otherwise(now) {
            let other = format!("the run in `{shown}` was begun otherwise: another {what}");
            return Err(Problem::new(other).help(
                "a report is of one suite, one policy and one Holdpoint: begin anew with `--out`",
            ));
        }
        let failed = |error: io::Error| {
            Problem::new(format!("`{shown}` cannot be gone on with: {error}"))
                .help("is another run at work in it, or can it not be written?")
        };
        let path = folder.join(LOG);
        let file = File::options().read(true).append(true).open(&path);
        let file = file.map_err(failed)?;
        file.try_lock().map_err(|error| failed(error.into()))?;
        let approvers = begun.approvers.len();
        let log = read_log(&file, approvers).map_err(failed)?;
        Ok((Self::over(folder, &begun, file), log))
    }

    fn over(folder: &Path, begun: &Begun, log: File) -> Self {
        Self {
            folder: folder.to_owned(),
            by_approver: begun.approvers.len() > 1,
            log: Mutex::new(log),
        }
    }

    /// Where it writes.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes one trial: `READING/ARM/CASE/`, below the approver's name where there are several.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn trial(&self, trial: &Trial) -> io::Result<()> {
        let reading = match trial.reading {
            Reading::Optimistic => "optimistic",
            Reading::Pessimistic => "pessimistic",
        };
        let mut folder = self.folder.clone();
        if self.by_approver {
            folder.push(trial.approver.folder());
        }
        // The colon of `without:LAYER` is no name for a folder everywhere.
        let arm = trial.arm.replace(':', "-");
        let folder = folder.join(reading).join(arm).join(&trial.case.id);
        fs::create_dir_all(&folder)?;
        write(&folder.join("result.json"), &result(trial))?;
        let Some(kept) = &trial.kept else {
            return Ok(());
        };
        let Kept {
            before,
            after,
            transcript,
            receipts,
        } = kept;
        write(&folder.join("before.json"), before)?;
        write(&folder.join("after.json"), after)?;
        write(&folder.join("receipts.json"), receipts)?;
        let mut lines = io::BufWriter::new(File::create(folder.join("transcript.jsonl"))?);
        for line in transcript {
            writeln!(lines, "{line}")?;
        }
        lines.flush()
    }

    /// Notes that a job is done, after all else of it was written.
    ///
    /// # Errors
    /// The log cannot be written.
    pub fn log(&self, number: usize, came: &Came) -> io::Result<()> {
        let results: Vec<_> = came.iter().map(Line::of).collect();
        let mut line = json!({"job": number, "results": results}).to_string();
        line.push('\n');
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        // One write, so that a line is there or is not.
        log.write_all(line.as_bytes())
    }

    /// Writes the report, which is the last file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn report(self, report: &Report) -> io::Result<()> {
        let new = self.folder.join("report.json.new");
        write(&new, report)?;
        fs::rename(new, self.folder.join(REPORT))
    }
}

/// One result of a job.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Seen(super::record::Seen),
    Inconclusive(String),
}

impl Line {
    fn of(came: &Result<super::record::Seen, String>) -> Self {
        match came {
            Ok(seen) => Self::Seen(seen.clone()),
            Err(why) => Self::Inconclusive(why.clone()),
        }
    }
}

#[derive(Deserialize)]
struct Done {
    job: usize,
    results: Vec<Line>,
}

/// The jobs of a log. What was cut off at its end is cut away, and done again.
fn read_log(file: &File, approvers: usize) -> io::Result<Log> {
    let mut log = Log::default();
    let mut whole = 0;
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") {
        let Ok(done) = serde_json::from_slice::<Done>(&line) else {
            break;
        };
        if done.results.len() != approvers {
            break;
        }
        whole += line.len() as u64;
        let came = done.results.into_iter().map(|line| match line {
            Line::Seen(seen) => Ok(seen),
            Line::Inconclusive(why) => Err(why),
        });
        log.0.insert(done.job, came.collect());
        line.clear();
    }
    file.set_len(whole)?;
    Ok(log)
}

fn result(trial: &Trial) -> Value {
    let case = &trial.case;
    let mut result = json!({
        "case": case.id,
        "kind": case.kind,
        "cluster": case.cluster,
        "arm": trial.arm,
        "reading": trial.reading,
        "approver": trial.approver,
        "meta": case.meta,
    });
    if let Value::Object(fields) = &mut result {
        match &trial.result {
            Ok(graded) => fields.insert("graded".to_owned(), json!(graded)),
            Err(why) => fields.insert("inconclusive".to_owned(), json!(why)),
        };
    }
    result
}

fn write(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    fs::write(path, text)
}
