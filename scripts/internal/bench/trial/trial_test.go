package trial_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"sluice/scripts/internal/bench/trial"
)

// recorder is a Round that notes who was measured.
type recorder struct {
	order []string
	fail  map[string]int // by contestant: from which of its rounds on
	drift float64        // what each round costs more than the one before
}

var errPlanted = errors.New("planted")

func (r *recorder) round(_ context.Context, name string) (trial.Sample, error) {
	r.order = append(r.order, name)
	n := 0
	for _, o := range r.order {
		if o == name {
			n++
		}
	}
	if from, ok := r.fail[name]; ok && n >= from {
		return nil, errPlanted
	}
	cost := map[string]float64{"A": 10, "B": 20, "C": 5}[name]
	return trial.Sample{"cpu": cost * (1 + r.drift*float64(len(r.order)))}, nil
}

func TestOrder(t *testing.T) {
	t.Parallel()
	var r recorder
	all, err := trial.Compare(t.Context(), "A", []trial.Opponent{{Name: "B", Pairs: 4}, {Name: "C", Pairs: 1}}, r.round)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(r.order, ""), "ABACBAABBA"; got != want {
		t.Errorf("got order %s, want %s", got, want)
	}
	for i, want := range []float64{0.5, 2} {
		ratio, ok := all[i].Ratio("cpu")
		if !ok || ratio.Mid != want || ratio.Spread() != 0 {
			t.Errorf("against %s: got %+v, want %v", all[i].Name, ratio, want)
		}
	}
	if _, ok := all[0].Ratio("p99"); ok {
		t.Error("there is a ratio of what was not measured")
	}
}

// A machine that gets slower all the time moves every round, and not the ratio.
func TestDriftCancels(t *testing.T) {
	t.Parallel()
	r := recorder{drift: 0.02}
	all, err := trial.Compare(t.Context(), "A", []trial.Opponent{{Name: "B", Pairs: 20}}, r.round)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := all[0].Ratio("cpu"); got.Mid < 0.498 || got.Mid > 0.502 {
		t.Errorf("got %+v, want 0.5", got)
	}
}

func TestAnOpponentThatFailsIsLeftOut(t *testing.T) {
	t.Parallel()
	r := recorder{fail: map[string]int{"B": 2}}
	all, err := trial.Compare(t.Context(), "A", []trial.Opponent{{Name: "B", Pairs: 4}, {Name: "C", Pairs: 4}}, r.round)
	if err != nil {
		t.Fatal(err)
	}
	if !errors.Is(all[0].Err, errPlanted) || len(all[0].A) != 1 {
		t.Errorf("got %d pairs and %v", len(all[0].A), all[0].Err)
	}
	if all[1].Err != nil || len(all[1].A) != 4 {
		t.Errorf("the other got %d pairs and %v", len(all[1].A), all[1].Err)
	}
}

func TestTheSubjectFailsOrTheTimeIsUp(t *testing.T) {
	t.Parallel()
	r := recorder{fail: map[string]int{"A": 3}}
	if _, err := trial.Compare(t.Context(), "A", []trial.Opponent{{Name: "B", Pairs: 4}}, r.round); !errors.Is(err, errPlanted) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := trial.Compare(ctx, "A", []trial.Opponent{{Name: "B", Pairs: 4}}, new(recorder).round); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestMedianOverTheSamplesThatHaveIt(t *testing.T) {
	t.Parallel()
	samples := []trial.Sample{{"p99": 3}, {"cpu": 1}, {"p99": 5}}
	if got, ok := trial.Median(samples, "p99"); !ok || got != 4 {
		t.Errorf("got %v, %v", got, ok)
	}
	if _, ok := trial.Median(samples, "p50"); ok {
		t.Error("there is a median of nothing")
	}
	if got := trial.Values(samples, "p99"); !slices.Equal(got, []float64{3, 0, 5}) {
		t.Errorf("got %v", got)
	}
}
