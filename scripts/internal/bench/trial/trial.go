// Package trial compares a subject with others in the paired way: absolute
// values move by a fifth from one minute to the next, the ratio of two rounds
// that follow each other does not.
//
// Rounds go A B B A, so that what gets slower or faster meanwhile hurts both
// alike; each A B and each B A is a pair. The pairs with several others take
// turns, so that every comparison is spread over the whole time.
package trial

import (
	"context"
	"fmt"
	"math"

	"sluice/scripts/internal/bench/stats"
)

// Sample is what one round has measured, by measure.
type Sample map[string]float64

// Round measures a contestant once.
type Round func(ctx context.Context, contestant string) (Sample, error)

// Opponent is whom the subject is compared with, and how often.
type Opponent struct {
	Name  string
	Pairs int
}

// Paired is the rounds of one comparison: A[i] and B[i] followed each other.
type Paired struct {
	Opponent
	A, B []Sample
	Err  error // what ended it early
}

// Compare measures a against all opponents. A round that fails ends the
// comparison with that opponent, which then has an Err; it ends all of them if a
// itself fails or ctx ends.
func Compare(ctx context.Context, a string, opponents []Opponent, round Round) ([]*Paired, error) {
	var all []*Paired
	for _, o := range opponents {
		all = append(all, &Paired{Opponent: o})
	}
	for more := true; more; {
		more = false
		for _, p := range all {
			if p.Err != nil || len(p.A) >= p.Pairs {
				continue
			}
			if err := p.pair(ctx, a, round); err != nil {
				return nil, err
			}
			more = true
		}
	}
	return all, nil
}

// pair adds a pair, A B if their number is even and B A if it is odd.
func (p *Paired) pair(ctx context.Context, a string, round Round) error {
	order := []string{a, p.Name}
	if len(p.A)%2 == 1 {
		order = []string{p.Name, a}
	}
	got := map[string]Sample{}
	for _, name := range order {
		s, err := round(ctx, name)
		if err == nil {
			err = ctx.Err()
		}
		switch {
		case err == nil:
			got[name] = s
		case name == a || ctx.Err() != nil:
			return fmt.Errorf("round of %s: %w", name, err)
		default:
			p.Err = fmt.Errorf("round of %s: %w", name, err)
			return nil
		}
	}
	p.A = append(p.A, got[a])
	p.B = append(p.B, got[p.Name])
	return nil
}

// Ratio returns the ratios A/B of a measure, and false if there are none.
func (p *Paired) Ratio(measure string) (stats.Interval, bool) {
	ratios := stats.Ratios(Values(p.A, measure), Values(p.B, measure))
	if len(ratios) == 0 {
		return stats.Interval{}, false
	}
	return stats.Bootstrap(ratios), true
}

// Values returns one measure of samples; where a sample lacks it, it is zero.
func Values(samples []Sample, measure string) (values []float64) {
	for _, s := range samples {
		values = append(values, s[measure])
	}
	return values
}

// Median returns the median of one measure over the samples that have it, and
// false if none has.
func Median(samples []Sample, measure string) (float64, bool) {
	var values []float64
	for _, s := range samples {
		if v, ok := s[measure]; ok {
			values = append(values, v)
		}
	}
	m := stats.Median(values)
	return m, !math.IsNaN(m)
}
