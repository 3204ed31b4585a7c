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
    write_whole(path, &text).map_err(|e| bad(&e))
}

/// Replaces a file at once, so that nobody finds a part of it; what is no regular file is written through.
fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    if std::fs::metadata(path).is_ok_and(|m| !m.is_file()) {
        return std::fs::write(path, text);
    }
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.into());
    let mut part = path.clone().into_os_string();
    part.push(format!(".{}.part", std::process::id()));
    let done = std::fs::write(&part, text).and_then(|()| std::fs::rename(&part, &path));
    if done.is_err() {
        // It may not even have been made.
        let _ = std::fs::remove_file(&part);
    }
    done
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

    #[test]
    fn what_stands_at_a_path_is_kept_or_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("a.svg.part"), "mine").unwrap();
        std::os::unix::fs::symlink(at("a.svg"), at("link.svg")).unwrap();
        std::fs::write(at("a.svg"), "old").unwrap();
        write_whole(&at("link.svg"), "new").unwrap();
        assert!(at("link.svg").is_symlink());
        assert_eq!(std::fs::read_to_string(at("a.svg")).unwrap(), "new");
        assert_eq!(std::fs::read_to_string(at("a.svg.part")).unwrap(), "mine");
        // A device is written to, not replaced; a folder is refused, and nothing is left behind.
        write_whole(Path::new("/dev/null"), "x").unwrap();
        assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
        assert!(write_whole(dir.path(), "x").is_err());
        assert!(write_whole(&at("none/b.svg"), "x").is_err());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 3);
    }
}
