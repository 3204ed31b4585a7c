//! SVG plots of curves.

use isopace::{Result, err};
use plotters::prelude::*;
use std::path::Path;

/// One curve: its name and its points.
pub(super) struct Curve {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// Draws curves into an SVG file, with a logarithmic x axis when `log_x`. The file is written beside
/// its place and moved there, so that no half of one is left.
///
/// # Errors
/// `Io` naming the file.
pub(super) fn svg(path: &Path, title: &str, x: &str, y: &str, log_x: bool, curves: &[Curve]) -> Result<()> {
    let all = || curves.iter().flat_map(|c| &c.points);
    let xs = range(all().map(|p| p.0).filter(|x| !log_x || *x > 0.0));
    let ys = 0.0..range(all().map(|p| p.1).chain([0.0])).end * 1.05;
    let mut text = String::new();
    let bad = |e: &dyn std::fmt::Display| err!(Io, "[plot] {}: {e}", path.display());
    {
        let root = SVGBackend::with_string(&mut text, (800, 480)).into_drawing_area();
        root.fill(&WHITE).map_err(|e| bad(&e))?;
        let mut builder = ChartBuilder::on(&root);
        builder.caption(title, ("sans-serif", 18)).margin(12).x_label_area_size(40).y_label_area_size(60);
        macro_rules! draw {
            ($range:expr) => {{
                let mut chart = builder.build_cartesian_2d($range, ys).map_err(|e| bad(&e))?;
                chart.configure_mesh().x_desc(x).y_desc(y).draw().map_err(|e| bad(&e))?;
                for (i, c) in curves.iter().enumerate() {
                    let color = Palette99::pick(i).to_rgba();
                    chart
                        .draw_series(LineSeries::new(c.points.iter().copied(), color.stroke_width(2)))
                        .map_err(|e| bad(&e))?
                        .label(c.name.clone())
                        .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], color));
                }
                chart
                    .configure_series_labels()
                    .background_style(WHITE)
                    .border_style(BLACK)
                    .draw()
                    .map_err(|e| bad(&e))?;
            }};
        }
        if log_x {
            draw!(xs.log_scale());
        } else {
            draw!(xs);
        }
        root.present().map_err(|e| bad(&e))?;
    }
    let part = path.with_extension("svg.part");
    std::fs::write(&part, text).map_err(|e| bad(&e))?;
    std::fs::rename(&part, path).map_err(|e| bad(&e))
}

/// What an axis shows: never empty, since the library looks for marks on one without end.
fn range(values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    let (lo, hi) = values
        .filter(|v| v.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), v| (lo.min(v), hi.max(v)));
    if lo < hi {
        lo..hi
    } else if lo.is_finite() {
        lo..lo + lo.abs() + 1.0
    } else {
        1.0..2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_of_few_points() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let same = vec![(7.0, 3.0), (7.0, 4.0)];
        for points in [vec![], vec![(1.0, 2.0)], same, vec![(1e17, 0.0)], vec![(f64::NAN, f64::INFINITY)]] {
            for log_x in [false, true] {
                let curve = Curve { name: "c".into(), points: points.clone() };
                svg(file.path(), "t", "x", "y", log_x, &[curve]).unwrap();
                assert!(std::fs::read_to_string(file.path()).unwrap().ends_with("</svg>\n"), "{points:?}");
            }
        }
    }
}
