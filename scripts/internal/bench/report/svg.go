package report

import "io"

// SVG writes a chart.
func (r *Report) SVG(w io.Writer) error { return nil }
