//! Figs. 3, 8 and 9 of the paper.

use crate::Reproduction;
use crate::paper::{self, CORES};
use crate::published::{self, Fault};
use curve::{Curve, Point, Provenance, Series, Unit};
use model::laws::{self, CriticalSections};
use model::{Handover, Variant};
use report::{Cell, Column, Table};
use topology::Range;

/// Fig. 3 recomputed: the share of an operation in its critical sections, as printed and as its own row gives it.
pub(crate) fn fig3(variant: Variant) -> anyhow::Result<Reproduction> {
    let rows = published::critical_sections()?;
    let claims = published::claims()?;
    let ticket = Handover::Ticket { waiter_cost: paper::waiter_cost(variant)?.likely };
    let mut table = Table::new([
        Column::text("benchmark", "benchmark"),
        Column::text("inputs", "read as"),
        Column::text("lock", "lock").detail(),
        Column::number("operation_cycles", "operation cycles"),
        Column::number("acquires_per_operation", "acquires each"),
        Column::number("critical_section_cycles", "section cycles"),
        Column::number("think_cycles", "think cycles"),
        Column::percent("printed_share", "printed %"),
        Column::percent("share", "computed %"),
        Column::number("amdahl_limit", "Amdahl's limit").detail(),
        Column::number("model_peak_cores", "model: peak cores"),
        Column::text("faults", "faults"),
    ]);
    for row in &rows {
        let acquires = row.acquires_per_operation;
        let section = row.critical_section_cycles;
        let think = row.operation_cycles / acquires - section;
        let share = acquires * section / row.operation_cycles;
        table.row([
            Cell::from(row.benchmark.as_str()),
            Cell::from("as printed"),
            Cell::from(row.lock.as_str()),
            Cell::from(row.operation_cycles),
            Cell::from(acquires),
            Cell::from(section),
            Cell::from(think),
            Cell::from(row.printed_percent_in_critical_section / 100.0),
            Cell::from(share),
            Cell::from(1.0 / share),
            Cell::from(peak_cores(think, section, ticket, variant)?),
            Cell::from(faults_of(&row.benchmark)),
        ]);
    }
    for benchmark in paper::benchmarks(&rows, &claims)?.iter().filter(|b| b.inputs == "5,000 an acquisition")
    {
        let (think, section) = (benchmark.think_cycles, benchmark.section_cycles());
        table.row([
            Cell::from(benchmark.name.as_str()),
            Cell::from(benchmark.inputs),
            Cell::Missing,
            Cell::Missing,
            Cell::Missing,
            Cell::from(section),
            Cell::from(think),
            Cell::Missing,
            Cell::from(benchmark.share()),
            Cell::from(1.0 / benchmark.share()),
            Cell::from(peak_cores(think, section, ticket, variant)?),
            Cell::from("1"),
        ]);
    }
    Ok(Reproduction {
        variant: None,
        title: "Fig. 3: critical sections of the paper's benchmarks on one core",
        table,
        plots: Vec::new(),
        notes: vec![format!("Peak of a ticket lock with the section of one core; {}", form(variant)?)],
        faults: [1, 2, 3, 4, 5, 7].map(Fault).to_vec(),
        scores: Vec::new(),
    })
}

fn faults_of(benchmark: &str) -> &'static str {
    match benchmark {
        "FOPS" => "2, 5, 7",
        "MEMPOP" => "3, 7",
        "PFIND" => "1, 7",
        _ => "",
    }
}

fn peak_cores(think: f64, section: f64, ticket: Handover, variant: Variant) -> anyhow::Result<Option<u32>> {
    let curve = paper::lock(think, section, ticket, variant).curve("", 1..=CORES)?;
    Ok(curve.peak().map(|peak| peak.cores))
}

/// Fig. 8: one section, think times from the least to the greatest, doubling.
pub(crate) fn fig8(variant: Variant) -> anyhow::Result<Reproduction> {
    let claims = published::claims()?;
    let section = paper::number(&claims, "FIG8", "section_cycles")?;
    let least = paper::number(&claims, "FIG8", "think_cycles_min")?;
    let most = paper::number(&claims, "FIG8", "think_cycles_max")?;
    let sweep = doubling(least, most).map(|think| Load {
        label: format!("think time {think:.0} cycles"),
        think,
        section,
    });
    sweep_of_loads(
        "Fig. 8: ticket lock, critical section of 400 cycles, by think time",
        sweep.collect(),
        variant,
        vec![format!("Section {section:.0} cycles; think times doubled from {least:.0} to {most:.0}.")],
    )
}

/// Fig. 9: one share of time in the section, sections from the least to the greatest, doubling; Amdahl's law beside.
pub(crate) fn fig9(variant: Variant) -> anyhow::Result<Reproduction> {
    let claims = published::claims()?;
    let share = paper::number(&claims, "FIG9", "section_share")?;
    let least = paper::number(&claims, "FIG9", "section_cycles_min")?;
    let most = paper::number(&claims, "FIG9", "section_cycles_max")?;
    let sweep = doubling(least, most).map(|section| Load {
        label: format!("section {section:.0} cycles"),
        think: section / share - section,
        section,
    });
    let notes = vec![
        format!("Every row spends {:.0} % of one core's time in the section.", 100.0 * share),
        format!(
            "For all of them alike, at {CORES} cores: Amdahl's law gives {:.1} (limit {:.0}), Eyerman and Eeckhout's {:.1}.",
            laws::amdahl(share, CORES),
            1.0 / share,
            critical_sections(share).speedup(CORES)
        ),
    ];
    let title = "Fig. 9: ticket lock, 2 % of the time in the critical section, by its length";
    let mut figure = sweep_of_loads(title, sweep.collect(), variant, notes)?;
    figure.plots[0].curves.extend([
        law("Amdahl", |cores| laws::amdahl(share, cores)),
        law("Eyerman-Eeckhout", |cores| critical_sections(share).speedup(cores)),
    ]);
    Ok(figure)
}

/// One lock that all threads contend for.
fn critical_sections(share: f64) -> CriticalSections {
    CriticalSections { sequential: 0.0, critical: share, contention: 1.0 }
}

fn law(name: &str, speedup: impl Fn(u32) -> f64) -> Curve {
    let points = (1..=CORES).map(|cores| Point::exact(cores, speedup(cores)));
    Curve::new(name, Unit::Speedup, Provenance::Predicted)
        .with_points(points)
        .expect("a law is finite, and cores come once")
}

fn doubling(least: f64, most: f64) -> impl Iterator<Item = f64> {
    std::iter::successors(Some(least), |value| Some(value * 2.0)).take_while(move |value| *value <= most)
}

struct Load {
    label: String,
    think: f64,
    section: f64,
}

fn sweep_of_loads(
    title: &'static str,
    loads: Vec<Load>,
    variant: Variant,
    mut notes: Vec<String>,
) -> anyhow::Result<Reproduction> {
    let waiter = paper::waiter_cost(variant)?;
    let mut table = Table::new([
        Column::text("load", "load"),
        Column::number("think_cycles", "think cycles"),
        Column::number("section_cycles", "section cycles"),
        Column::number("peak_cores", "peak cores"),
        Column::spread("peak_speedup", "peak"),
        Column::number("collapse_cores", "under 90 % at"),
        Column::number("speedup_at_16", "at 16").detail(),
        Column::number("speedup_at_32", "at 32").detail(),
        Column::spread("speedup_at_48", "at 48"),
    ]);
    let mut series = Series::new(title);
    for load in loads {
        let curve = banded(&load, waiter, variant)?;
        let spread = |point: Option<Point>| point.map(report::Spread::from);
        let value = |cores| curve.at(cores).map(|point| point.value);
        table.row([
            Cell::from(load.label),
            Cell::from(load.think),
            Cell::from(load.section),
            Cell::from(curve.peak().map(|peak| peak.cores)),
            Cell::from(spread(curve.peak())),
            Cell::from(curve.collapse_cores()),
            Cell::from(value(16)),
            Cell::from(value(32)),
            Cell::from(spread(curve.at(CORES))),
        ]);
        series.curves.push(curve);
    }
    notes.push(form(variant)?);
    Ok(Reproduction {
        variant: None,
        title,
        table,
        plots: vec![series],
        notes,
        faults: [4, 5, 6, 8].map(Fault).to_vec(),
        scores: Vec::new(),
    })
}

/// The curve of a load, its band from the range of c.
fn banded(load: &Load, waiter: Range, variant: Variant) -> anyhow::Result<Curve> {
    let curve = |waiter_cost| {
        paper::lock(load.think, load.section, Handover::Ticket { waiter_cost }, variant)
            .curve(&*load.label, 1..=CORES)
    };
    let (best, likely, worst) = (curve(waiter.low)?, curve(waiter.likely)?, curve(waiter.high)?);
    let points: Vec<_> = (0..likely.points().len())
        .map(|i| Point { low: worst.points()[i].value, high: best.points()[i].value, ..likely.points()[i] })
        .collect();
    Ok(likely.machine("opteron-8x6").with_points(points)?)
}

fn form(variant: Variant) -> anyhow::Result<String> {
    let Range { low, likely, high } = paper::waiter_cost(variant)?;
    Ok(format!(
        "t_k = {}, c = {likely:.0} cycles ({low:.0} to {high:.0}), fitted to {},ticket,{} under this form.",
        variant.form(),
        paper::FITTED.0,
        paper::FITTED.1
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fig3_flags_what_does_not_divide_out() {
        let rows = fig3(Variant::Waiters).unwrap().table.json();
        let row =
            |name: &str| rows.as_array().unwrap().iter().find(|r| r["benchmark"] == name).unwrap().clone();
        let share = |name: &str| row(name)["share"].as_f64().unwrap();
        assert!((share("FOPS") - 0.73).abs() < 0.005);
        assert!((share("PFIND") - 0.0117).abs() < 0.0001, "not the printed 7 %");
        assert!((share("EXIM") - 0.008).abs() < 0.0005);
        assert!(row("PFIND")["faults"].as_str().unwrap().contains('1'));
    }

    #[test]
    fn fig8_peaks_later_the_less_the_lock_is_used() {
        let figure = fig8(Variant::Waiters).unwrap();
        assert_eq!(figure.plots[0].curves.len(), 5);
        let peaks: Vec<_> = figure.plots[0].curves.iter().map(|curve| curve.peak().unwrap().cores).collect();
        assert!(peaks.is_sorted() && peaks[0] < 20 && peaks[4] == CORES, "{peaks:?}");
        assert!(figure.plots[0].curves[0].collapse_cores().is_some());
    }

    #[test]
    fn fig9_collapses_for_short_sections_alone_though_amdahl_sees_no_difference() {
        let figure = fig9(Variant::Waiters).unwrap();
        let (short, long) = (&figure.plots[0].curves[0], &figure.plots[0].curves[6]);
        assert!(short.collapse_cores().is_some());
        assert!(long.collapse_cores().is_none());
        assert_eq!(figure.plots[0].curves.len(), 9);
    }

    #[test]
    fn a_band_holds_its_curve_and_comes_from_c() {
        let figure = fig8(Variant::Formula).unwrap();
        let point = figure.plots[0].curves[0].at(CORES).unwrap();
        assert!(point.low < point.value && point.value < point.high);
    }
}
