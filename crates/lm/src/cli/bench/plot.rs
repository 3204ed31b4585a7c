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
    let (x0, x1) = all().fold((f64::INFINITY, 0f64), |(lo, hi), p| (lo.min(p.0), hi.max(p.0)));
    let y1 = all().fold(0f64, |hi, p| hi.max(p.1)) * 1.05;
    let mut text = String::new();
    let bad = |e: &dyn std::fmt::Display| err!(Io, "[plot] {}: {e}", path.display());
    {
        let root = SVGBackend::with_string(&mut text, (800, 480)).into_drawing_area();
        root.fill(&WHITE).map_err(|e| bad(&e))?;
        let mut builder = ChartBuilder::on(&root);
        builder.caption(title, ("sans-serif", 18)).margin(12).x_label_area_size(40).y_label_area_size(60);
        macro_rules! draw {
            ($range:expr) => {{
                let mut chart = builder.build_cartesian_2d($range, 0.0..y1.max(1e-9)).map_err(|e| bad(&e))?;
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
            draw!((x0.max(1.0)..x1.max(2.0)).log_scale());
        } else {
            draw!(x0..x1.max(x0 + 1.0));
        }
        root.present().map_err(|e| bad(&e))?;
    }
    let part = path.with_extension("svg.part");
    std::fs::write(&part, text).map_err(|e| bad(&e))?;
    std::fs::rename(&part, path).map_err(|e| bad(&e))
}
