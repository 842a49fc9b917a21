package report

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// panels are what the chart shows, as far as it was measured. Shorter bars are
// better in all of them.
var panels = []struct{ scenario, measure, title string }{
	{"small-50", "cpu_request", "CPU time per small request, 50 clients"},
	{"small-500", "cpu_request", "CPU time per small request, 500 clients"},
	{"short", "cpu_connection", "CPU time per short connection"},
	{"bulk-to-client-2", "cpu_gb", "CPU time per GB, 2 streams"},
	{"idle", "memory", "memory per idle session"},
}

// titles are how the chart calls the contestants that are not Sluice.
var titles = map[string]string{"haproxy": "HAProxy", "nginx": "nginx stream", "plain": "plain Go, io.Copy", "base": "Sluice before"}

// The measures of the chart, in pixels.
const (
	chartWidth = 720
	labelWidth = 170
	barsWidth  = 430
	barHeight  = 18
	barStep    = 24
	panelHead  = 34
	margin     = 16
)

// chartStyle has both colour schemes: the chart has no background of its own.
const chartStyle = `
text { font: 13px system-ui, sans-serif; fill: #1f2328; }
.title { font-weight: 600; }
.foot { font-size: 11px; fill: #59636e; }
.other { fill: #a3adb8; }
.own { fill: #0969da; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .foot { fill: #9198a1; }
  .other { fill: #59636e; }
  .own { fill: #4493f8; }
}
`

// chart is an SVG that is being drawn.
type chart struct {
	body strings.Builder
	y    int
}

// SVG writes a chart of bars, for a page that is light or dark.
func (r *Report) SVG(w io.Writer) error {
	c := &chart{y: margin}
	drawn := 0
	for _, p := range panels {
		for _, s := range r.Scenarios {
			if s.Name == p.scenario && c.panel(s, p.measure, p.title) {
				drawn++
			}
		}
	}
	if drawn == 0 {
		return errors.New("the chart is empty: none of its scenarios was measured")
	}
	c.foot(r)
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">
<title>Sluice and others, measured</title>
<style>%s</style>
%s</svg>
`, chartWidth, c.y, chartWidth, c.y, chartStyle, c.body.String())
	return err
}

// panel draws one measure of a scenario, and says whether there is any.
func (c *chart) panel(s *Scenario, measure, title string) bool {
	most := 0.0
	for _, figures := range s.Figures {
		most = max(most, figures[measure])
	}
	if most == 0 {
		return false
	}
	c.y += panelHead - barStep/2
	c.text("title", margin, c.y, fmt.Sprintf("%s (%s, less is better)", title, Measures[measure].Unit))
	c.y += barStep / 2
	for _, name := range s.shown() {
		v, ok := s.Figures[name][measure]
		if !ok {
			continue
		}
		class := "other"
		if name == s.Subject {
			class = "own"
		}
		c.text("", margin, c.y+barHeight-5, label(name))
		fmt.Fprintf(&c.body, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d" rx="2"/>`+"\n",
			class, margin+labelWidth, c.y, max(v/most*barsWidth, 1), barHeight)
		c.text("", margin+labelWidth+int(v/most*barsWidth)+8, c.y+barHeight-5, figure(v, measure))
		c.y += barStep
	}
	return true
}

// shown returns the contestants in the order of the bars: the subject first.
func (s *Scenario) shown() []string {
	names := []string{s.Subject}
	for _, name := range order {
		if _, ok := s.Figures[name]; ok && name != s.Subject && name != Self {
			names = append(names, name)
		}
	}
	return names
}

func label(name string) string {
	if title, ok := titles[name]; ok {
		return title
	}
	return "Sluice, " + name
}

// foot draws where the figures come from.
func (c *chart) foot(r *Report) {
	m := r.Machine
	lines := []string{fmt.Sprintf("%d cores, %s, %s, %s", m.Cores, m.CPU, m.Kernel, r.Started.UTC().Format("2006-01-02"))}
	var versions []string
	for _, name := range []string{"haproxy", "nginx", "go"} {
		if v, ok := m.Versions[name]; ok {
			versions = append(versions, v)
		}
	}
	lines = append(lines, strings.Join(versions, "; "))
	if r.Mode != "full" {
		lines = append(lines, "A "+r.Mode+" run: not to be quoted.")
	}
	c.y += margin
	for _, line := range lines {
		c.y += 16
		c.text("foot", margin, c.y, line)
	}
	c.y += margin
}

func (c *chart) text(class string, x, y int, text string) {
	var safe strings.Builder
	// A strings.Builder takes everything.
	_ = xml.EscapeText(&safe, []byte(text))
	if class != "" {
		class = fmt.Sprintf(` class="%s"`, class)
	}
	fmt.Fprintf(&c.body, "<text%s x=\"%d\" y=\"%d\">%s</text>\n", class, x, y, safe.String())
}
