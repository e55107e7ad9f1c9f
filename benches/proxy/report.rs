//! What was measured, as a table of ratios.

use std::fmt;
use std::time::Duration;

use comfy_table::{CellAlignment, Table};

/// One visit of one target.
pub struct Cell {
    /// Time of each request on one connection.
    pub alone: Vec<Duration>,
    /// CPU time of the proxy per request, with many connections.
    pub cpu: Option<Duration>,
}

/// All visits, by shape and target. The first target is the backend itself, the second the bare proxy.
pub struct Report {
    shapes: Vec<&'static str>,
    targets: Vec<&'static str>,
    cells: Vec<Vec<Vec<Cell>>>,
    resident: Vec<Option<u64>>,
}

/// Figures of one target for one shape, over all rounds.
#[derive(Clone, Copy)]
struct Figures {
    p50: Duration,
    p99: Duration,
    cpu: Option<Duration>,
}

impl Report {
    /// An empty report.
    pub fn new(shapes: Vec<&'static str>, targets: Vec<&'static str>) -> Self {
        let row = || targets.iter().map(|_| Vec::new()).collect();
        Self {
            cells: shapes.iter().map(|_| row()).collect(),
            resident: vec![None; targets.len()],
            shapes,
            targets,
        }
    }

    /// Adds a visit.
    pub fn add(&mut self, shape: usize, target: usize, cell: Cell) {
        if let Some(cells) = self
            .cells
            .get_mut(shape)
            .and_then(|row| row.get_mut(target))
        {
            cells.push(cell);
        }
    }

    /// Sets the memory of a target at the end, in KiB.
    pub fn resident(&mut self, target: usize, kib: u64) {
        if let Some(resident) = self.resident.get_mut(target) {
            *resident = Some(kib);
        }
    }
}

/// Of times pooled over the rounds for latency, and the median round for CPU.
fn figures(cells: &[Cell]) -> Option<Figures> {
    let mut times: Vec<_> = cells.iter().flat_map(|cell| &cell.alone).copied().collect();
    let mut cpu: Vec<_> = cells.iter().filter_map(|cell| cell.cpu).collect();
    times.sort_unstable();
    cpu.sort_unstable();
    Some(Figures {
        p50: *times.get(times.len() / 2)?,
        p99: *times.get(times.len() * 99 / 100)?,
        cpu: cpu.get(cpu.len() / 2).copied(),
    })
}

fn micros(time: Duration) -> String {
    format!("{:.0}", time.as_secs_f64() * 1e6)
}

fn ratio(time: Duration, base: Duration) -> String {
    if base.is_zero() {
        return "-".to_owned();
    }
    format!("{:.2}x", time.as_secs_f64() / base.as_secs_f64())
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (shape, row) in self.shapes.iter().zip(&self.cells) {
            let figures: Vec<_> = row.iter().map(|cells| figures(cells)).collect();
            let [Some(direct), Some(bare), ..] = figures.as_slice() else {
                continue;
            };
            writeln!(f, "\n{shape}")?;
            let mut table = Table::new();
            table.load_style(comfy_table::presets::ASCII_MARKDOWN);
            table.set_header([
                "",
                "p50 us",
                "p99 us",
                "added p50",
                "added p99",
                "over bare p50",
                "of bare p50",
                "of bare p99",
                "CPU us",
                "of bare CPU",
                "RSS MiB",
            ]);
            for ((name, figures), resident) in self.targets.iter().zip(&figures).zip(&self.resident)
            {
                let Some(figures) = figures else { continue };
                let added = |time: Duration, base: Duration| time.saturating_sub(base);
                let (p50, p99) = (
                    added(figures.p50, direct.p50),
                    added(figures.p99, direct.p99),
                );
                table.add_row([
                    (*name).to_owned(),
                    micros(figures.p50),
                    micros(figures.p99),
                    micros(p50),
                    micros(p99),
                    micros(added(figures.p50, bare.p50)),
                    ratio(p50, added(bare.p50, direct.p50)),
                    ratio(p99, added(bare.p99, direct.p99)),
                    figures.cpu.map_or_else(|| "-".to_owned(), micros),
                    figures
                        .cpu
                        .zip(bare.cpu)
                        .map_or_else(|| "-".to_owned(), |(cpu, base)| ratio(cpu, base)),
                    resident.map_or_else(|| "-".to_owned(), |kib| format!("{}", kib / 1024)),
                ]);
            }
            for column in table.column_iter_mut().skip(1) {
                column.set_cell_alignment(CellAlignment::Right);
            }
            writeln!(f, "{table}")?;
        }
        writeln!(
            f,
            "\nTimes: one connection, added = over direct. CPU: of the proxy's process, per request, {} connections.",
            crate::MANY
        )
    }
}
