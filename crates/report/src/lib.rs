//! Tables, plots and pages from curves and profiles.
