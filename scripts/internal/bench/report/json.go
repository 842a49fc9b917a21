package report

import (
	"encoding/json"
	"io"
)

// JSON writes all of the report.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
