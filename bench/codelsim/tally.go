package main

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/bench/internal/stat"
)

// A tally records the results of one contender's requests. It is safe for
// concurrent use.
type tally struct {
	mu       sync.Mutex      // guards what follows
	served   int             // done within the row's length
	good     int             // of those, the ones done within patience
	done     []time.Duration // of all that were done: from when they should have begun
	rejected []time.Duration // and of all others
}

// done notes the end of a request that should have begun at an instant.
func (t *tally) end(at, now, length time.Duration, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !ok {
		t.rejected = append(t.rejected, now-at)
		return
	}
	t.done = append(t.done, now-at)
	if now <= length {
		t.served++
		if now-at <= patience {
			t.good++
		}
	}
}

// figures is a line of the table, in the order of headings.
type figures [len(headings)]float64

var headings = [...]string{"in/s", "done/s", "goodput %", "p50 ms", "p95 ms", "p99 ms", "rejected %", "their p99"}

// figures sums up. The goodput is compared with that of a server that is
// never idle while there is work.
func (t *tally) figures(s script) figures {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.Sort(t.done)
	slices.Sort(t.rejected)
	all := len(t.done) + len(t.rejected)
	return figures{
		float64(all) / s.length.Seconds(),
		float64(t.served) / s.length.Seconds(),
		100 * share(t.good, s.best()),
		ms(quantile(t.done, 0.5)), ms(quantile(t.done, 0.95)), ms(quantile(t.done, 0.99)),
		100 * share(len(t.rejected), all),
		ms(quantile(t.rejected, 0.99)),
	}
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

func share(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// quantile returns the q-quantile of sorted durations: the smallest one that at least a
// share q of them does not exceed. It returns 0 if there are none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(int(math.Ceil(q*float64(len(sorted))))-1, 0)]
}

// medians returns the median of each figure.
func medians(runs []figures) (f figures) {
	for i := range f {
		column := make([]float64, len(runs))
		for j, r := range runs {
			column[j] = r[i]
		}
		f[i] = stat.Median(column)
	}
	return f
}
