package incident

import (
	"math"
	"slices"
	"time"

	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/lab/internal/changepoint"
	"github.com/weir-go/weir/service/lab/internal/recorded"
)

// data is a recording, prepared. Instants are seconds since the first request came.
type data struct {
	file   *recorded.File
	rs     []recording.Record // that were sent, in the order in which they came
	came   []float64
	length float64
}

func newData(f *recorded.File) *data {
	d := &data{file: f}
	for i := range f.Records {
		if recorded.Sent(&f.Records[i]) {
			d.rs = append(d.rs, f.Records[i])
		}
	}
	return d.part(0, len(d.rs))
}

// part returns the requests from an index to another as a recording of their own.
func (d *data) part(from, to int) *data {
	p := &data{file: d.file, rs: d.rs[from:to]}
	for i := range p.rs {
		p.came = append(p.came, (recorded.Came(&p.rs[i]) - recorded.Came(&p.rs[0])).Seconds())
	}
	if n := len(p.came); n > 0 {
		p.length = p.came[n-1]
	}
	return p
}

// first returns the first request that came at an instant or later.
func (d *data) first(at float64) int {
	i, _ := slices.BinarySearch(d.came, at)
	return i
}

// served reports whether a request was answered in time, and without an error.
func served(r *recording.Record) bool {
	return r.Outcome.Success() || r.Outcome == recording.Allowed
}

// response returns the seconds from the admission of a request to its end.
func response(r *recording.Record) float64 { return max(r.Response().Seconds(), 1e-6) }

// latency returns the seconds from when a request came to its end.
func latency(r *recording.Record) float64 {
	return max((r.End - recorded.Came(r)).Seconds(), 1e-6)
}

// failed reports whether the work of a request ended with an error, or not in time.
func failed(r *recording.Record) bool { return r.Outcome.Worked() && !r.Outcome.Success() }

// A grid divides a recording into spans of equal length.
type grid struct {
	width float64
	n     int
}

func (d *data) grid(width float64) grid {
	return grid{width, max(int(math.Ceil(d.length/width)), 1)}
}

func (g grid) span(at float64) int { return min(max(int(at/g.width), 0), g.n-1) }

// coarse is the grid in which trouble is looked for.
func (d *data) coarse() grid {
	const most = 5000 // spans
	return d.grid(max(min(max(d.length/120, 0.1), 1), d.length/most))
}

// fine is the grid in which a beginning is looked for.
func (d *data) fine() grid { return d.grid(d.coarse().width / 4) }

// A trouble is a time in which requests fared worse than before.
type trouble struct {
	from, to float64 // the first and the last instant
	before   float64 // the beginning of the time that it is compared with
	lost     bool    // fewer of the requests were served, and not only later
	longer   float64 // how many times as long requests took, as a logarithm
}

const (
	lostMore  = 0.03 // of the requests are not served, more than before
	slower130 = 1.3  // times as long as before
	shortest  = 3    // seconds
	lookback  = 60   // seconds that are compared
	chained   = 8    // seconds between changes of one trouble
)

// trouble returns the worst time of the requests for which counts holds; ok is false if there is none.
func (d *data) trouble(counts func(*recording.Record) bool) (worst trouble, ok bool) {
	g := d.coarse()
	lost, all := make([]float64, g.n), make([]float64, g.n)
	times := make([]changepoint.Sample, g.n)
	for i := range d.rs {
		r, k := &d.rs[i], g.span(d.came[i])
		if !counts(r) {
			continue
		}
		all[k]++
		if !served(r) {
			lost[k]++
		}
		if recorded.Known(r) || recorded.Unseen(r) {
			times[k].Add(math.Log(latency(r)))
		}
	}
	shareSeries, timeSeries := changepoint.Shares(lost, all), changepoint.Means(times)
	share, level := make([]float64, g.n), make([]float64, g.n) // of the segment of each span
	borders := map[int]bool{}
	for which, s := range []*changepoint.Series{shareSeries, timeSeries} {
		cuts := s.Segments()
		for i := 1; i < len(cuts); i++ {
			from, to := cuts[i-1], cuts[i]
			borders[from] = true
			k, n := 0.0, 0.0
			for j := from; j < to; j++ {
				k, n = k+lost[j], n+all[j]
			}
			for j := from; j < to; j++ {
				if which == 0 {
					share[j] = k / max(n, 1)
				} else {
					level[j] = s.Mean(from, to)
				}
			}
		}
	}
	var edges []int
	for at := range borders {
		if at > 0 && at < g.n {
			edges = append(edges, at)
		}
	}
	slices.Sort(edges)
	up := func(at int) bool { return share[at] > share[at-1]+1e-9 || level[at] > level[at-1]+1e-9 }
	best := 0.0
	for k := 0; k < len(edges); k++ {
		if !up(edges[k]) {
			continue
		}
		begin := edges[k]
		top := begin // where the chain of rising segments ends
		for k+1 < len(edges) && up(edges[k+1]) && float64(edges[k+1]-top)*g.width <= chained {
			k++
			top = edges[k]
		}
		from := max(begin-int(lookback/g.width), 0)
		if float64(begin-from)*g.width < shortest {
			continue
		}
		base, usual := mean(share[from:begin]), mean(level[from:begin])
		moreLost, longer := share[top]-base, level[top]-usual
		if moreLost < lostMore && longer < math.Log(slower130) {
			continue
		}
		to := top
		for to < g.n && (moreLost >= lostMore && share[to] > base+moreLost/3 || longer >= math.Log(slower130) && level[to] > usual+longer/3) {
			to++
		}
		if float64(to-begin)*g.width < shortest {
			continue
		}
		harm := 0.0
		for j := begin; j < to; j++ {
			harm += 5*max(share[j]-base, 0) + max(level[j]-usual, 0)
		}
		if harm > best {
			best, ok = harm, true
			worst = trouble{float64(begin) * g.width, min(float64(to)*g.width, d.length), float64(from) * g.width, moreLost >= lostMore, longer}
		}
	}
	return worst, ok
}

func mean(xs []float64) (m float64) {
	for _, x := range xs {
		m += x / float64(len(xs))
	}
	return m
}

// at returns an instant on the clock.
func (d *data) at(instant float64) time.Time {
	return d.file.Epoch.Add(recorded.Came(&d.rs[0]) + time.Duration(instant*1e9)).Round(time.Millisecond)
}
