package pool_test

import (
	"fmt"
	"testing"

	"sluice/pool"
)

// BenchmarkAcquire measures one session's pick, reservation and release.
//
// held is how many sessions each backend holds meanwhile: with none, a scan for
// the least busy stops at the first idle backend; with some it sees them all.
func BenchmarkAcquire(b *testing.B) {
	for _, s := range everyStrategy(b) {
		for _, n := range []int{10, 100, 1000} {
			for _, held := range []int{0, 2} {
				p := newPool(b, pool.Config{Strategy: s, Backends: specs(n)})
				hold(b, p, held*n)
				name := fmt.Sprintf("%s/n=%d/held=%d", title(s), n, held)
				b.Run(name+"/serial", func(b *testing.B) {
					b.ReportAllocs()
					var l pool.Lease
					for b.Loop() {
						p.Acquire(&l, pool.Query{})
						l.Release()
					}
				})
				b.Run(name+"/parallel", func(b *testing.B) {
					b.ReportAllocs()
					b.RunParallel(func(pb *testing.PB) {
						var l pool.Lease
						for pb.Next() {
							p.Acquire(&l, pool.Query{})
							l.Release()
						}
					})
				})
			}
		}
	}
}

// BenchmarkRebuild measures what a change of one backend costs, which happens under
// the pool's mutex: picks go on meanwhile, other changes wait. Worst are a thousand
// backends of unequal weights, which make a long schedule.
func BenchmarkRebuild(b *testing.B) {
	for _, s := range everyStrategy(b) {
		for _, weights := range []string{"equal", "unequal", "skewed"} {
			for _, n := range []int{10, 100, 1000} {
				b.Run(fmt.Sprintf("%s/%s/n=%d", title(s), weights, n), func(b *testing.B) {
					ss, states := weighted(weights, n), []pool.Admin{pool.Drain, pool.Ready}
					p := newPool(b, pool.Config{Strategy: s, Backends: ss})
					for i := 0; b.Loop(); i++ {
						p.Patch(ss[n-1].ID, pool.Patch{Admin: &states[i%2]})
					}
				})
			}
		}
	}
}

func weighted(weights string, n int) []pool.Spec {
	ss := specs(n)
	for i := range ss {
		if weights == "unequal" {
			ss[i].Weight = 1000 - i%7
		}
	}
	if weights == "skewed" {
		ss[0].Weight = 1000
	}
	return ss
}
