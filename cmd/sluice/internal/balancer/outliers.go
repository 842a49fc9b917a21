package balancer

import (
	"sluice/cmd/internal/config"
	"sluice/pool"
	"sluice/pool/outlier"
)

// detection is the search for outliers among the backends of one pool. The zero
// value is none.
type detection struct {
	detector *outlier.Detector // nil: none
	stop     func()            // ends it
}

// use makes what the file says of outliers current. Sessions that fail early are
// counted in any case: who wonders whether to switch it on can see them.
func (d *detection) use(p *pool.Pool, c config.Outliers) {
	p.CountEarly(c.Early)
	switch {
	case !c.Detect:
		if d.detector != nil {
			d.end()
			p.EndEjections("the detection of outliers was switched off")
		}
	case d.detector != nil:
		d.detector.Use(outlierPolicy(c))
	default:
		d.begin(p, outlierPolicy(c))
	}
}

func (d *detection) begin(p *pool.Pool, pol outlier.Policy) {
	d.detector = outlier.New(p, pol)
	d.stop = running(d.detector.Run)
}

// end ends the detection, if there is one. Who is ejected stays so for its time.
func (d *detection) end() {
	if d.detector != nil {
		d.stop()
		*d = detection{}
	}
}

func outlierPolicy(c config.Outliers) outlier.Policy {
	return outlier.Policy{
		Interval: c.Interval, MinSessions: c.MinSessions, FailureShare: c.FailureShare, DialFactor: c.DialFactor,
		MaxEjected: c.MaxEjected, EjectFor: c.EjectFor, EjectMax: c.EjectMax,
	}
}
