//! Draws one of each, for the eye: `cargo run -p contend-report --example gallery [DIRECTORY]` prints a table and
//! two plots, and leaves `plot.svg`, `ranges.svg` and `page.html` in the directory.

use contend_report::{Better, Column, Page, Plot, RangePlot, Screen, Spread, Table};
use curve::{Curve, Point, Provenance, Unit};
use std::path::Path;

fn curve(label: &str, provenance: Provenance, band: f64, cores: &[u32], value: impl Fn(f64) -> f64) -> Curve {
    let point = |&cores: &u32| {
        let value = value(f64::from(cores));
        Point { cores, value, low: value / (1.0 + band), high: value * (1.0 + band) }
    };
    Curve::new(label, Unit::OperationsPerSecond, provenance)
        .with_points(cores.iter().map(point))
        .expect("the points are distinct and positive")
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let every: Vec<u32> = (1..=64).collect();
    let few = [1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64];
    let curves = [
        curve("glibc rwlock", Provenance::Measured, 0.05, &[1, 2], |n| 2.4e6 / n.powi(3)),
        curve("ticket", Provenance::Predicted, 0.25, &every, |n| 2.0e6 * n / (1.0 + (n / 7.0).powi(3))),
        curve("mcs <queue>", Provenance::Predicted, 0.1, &every, |n| 1.2e7 * n / (n + 6.0)),
        curve("ticket", Provenance::Simulated, 0.03, &few, |n| 1.9e6 * n / (1.0 + (n / 6.5).powi(3))),
        curve("Boyd-Wickizer et al. 2012, figure 8", Provenance::Published, 0.0, &few, |n| {
            2.2e6 * n / (1.0 + (n / 9.0).powi(2))
        }),
    ];
    let title = "Throughput of a short critical section";
    let linear = Plot::new(title, &curves)?.log_cores(false);
    let logarithmic = Plot::new(title, &curves[1..3])?;
    let screen = Screen::stdout();
    println!("{}\n{}", linear.terminal(screen, 20), logarithmic.terminal(screen, 14));

    let mut table = Table::new([
        Column::text("lock", "lock"),
        Column::number("acquires", "acquires"),
        Column::percent("held", "held %"),
        Column::spread("handover_ns", "hand-over ns"),
        Column::text("site", "first caller").detail(),
    ]);
    for (lock, acquires, held) in
        [("cache_lock", 12_345_678_u64, 0.62), ("<b>log</b>\x1b[31m", 1_024, 0.0031)]
    {
        let spread = Spread { low: 81.2, median: 103.7, high: 2_210.0 };
        table.row([
            lock.into(),
            acquires.into(),
            held.into(),
            spread.into(),
            "cache_get+0x41 (cache.c:212)".into(),
        ]);
    }
    println!("{}", table.terminal(screen));

    if let Some(directory) = std::env::args_os().nth(1) {
        let directory = Path::new(&directory);
        std::fs::write(directory.join("plot.svg"), linear.svg())?;
        let mut ranges = RangePlot::new("kccachetest order -th 2", "time s", Better::Lower);
        ranges.row("glibc", Some(Spread { low: 2.9, median: 3.1, high: 3.6 }));
        ranges.row("mcs", Some(Spread { low: 0.41, median: 0.43, high: 0.52 }));
        ranges.row("ticket", None);
        std::fs::write(directory.join("ranges.svg"), ranges.svg())?;
        let page =
            Page::new("A page & its parts").paragraphs("Every part once.").heading("Locks").table(&table);
        std::fs::write(
            directory.join("page.html"),
            page.heading("Curves").plot(&linear).plot(&logarithmic).html(),
        )?;
    }
    Ok(())
}
