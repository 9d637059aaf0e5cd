package advise

import (
	"math"
	"slices"
	"time"

	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/lab/internal/recorded"
	"github.com/weir-go/weir/service/lab/internal/station"
)

// A window is a span of time of a recording. All windows are of one length, several times as long as
// requests take, so that what is in flight at its ends matters little.
type window struct {
	from, to time.Duration
	inflight float64 // requests at work, on average
	arrived  float64 // admitted requests, a second
	done     float64 // requests that have ended their work, a second
	ended    int     // such requests
	response float64 // mean time of the work of the requests that were admitted, in seconds
	spread   float64 // coefficient of variation of that
	began    int     // such requests

	offered  int // requests that came
	rejected int // of these
	lost     int // requests with work that may be going on unseen
}

const (
	fewest     = 8   // windows that a fit needs
	usualCount = 120 // windows of a long recording
	perWindow  = 30  // requests that a window should have
	spans      = 5   // the least length of a window, in times that requests take
)

// windows cuts a recording into windows.
func windows(records []recording.Record) (all []window) {
	var times []time.Duration
	from, to := time.Duration(math.MaxInt64), time.Duration(math.MinInt64)
	for i := range records {
		r := &records[i]
		from, to = min(from, r.Intended), max(to, r.Intended)
		if recorded.Known(r) {
			times = append(times, r.Response())
		}
	}
	if len(times) == 0 || to <= from {
		return nil
	}
	slices.Sort(times)
	whole := to - from
	length := max(spans*times[len(times)/4], time.Duration(float64(perWindow)*float64(whole)/float64(len(times))), whole/usualCount, time.Millisecond)
	n := int(whole / length)
	if n < fewest && whole/fewest > 2*times[len(times)/4] {
		n = fewest
	}
	if n < 1 {
		n = 1
	}
	length = whole / time.Duration(n)
	all = make([]window, n)
	responses := make([][]float64, n)
	for i := range all {
		all[i].from, all[i].to = from+time.Duration(i)*length, from+time.Duration(i+1)*length
	}
	seconds := length.Seconds()
	at := func(t time.Duration) int { return min(max(int((t-from)/length), 0), n-1) }
	for i := range records {
		r := &records[i]
		w := &all[at(r.Intended)]
		w.offered++
		switch {
		case r.Outcome.Rejected():
			w.rejected++
		case recorded.Unseen(r):
			w.lost++
		}
		if !recorded.Known(r) || r.Start > to {
			continue
		}
		k := at(r.Start)
		responses[k] = append(responses[k], r.Response().Seconds())
		all[k].arrived += 1 / seconds
		if r.End < to {
			end := &all[at(r.End)]
			end.done += 1 / seconds
			end.ended++
		}
		for j := k; j < n && all[j].from < r.End; j++ {
			overlap := min(r.End, all[j].to) - max(r.Start, all[j].from)
			all[j].inflight += overlap.Seconds() / seconds
		}
	}
	for i := range all {
		w, rs := &all[i], responses[i]
		w.began = len(rs)
		if w.began == 0 {
			continue
		}
		w.response, w.spread = station.Moments(rs)
	}
	return all
}

// merged joins windows that follow each other and have much the same in flight, until each has enough
// requests: a law is a curve, and what is measured must be less wide than its bends. Of a recording with few
// requests, it joins fewer.
func merged(ws []window) (all []window) {
	for enough := 400; enough > 10; enough /= 2 {
		if all = mergedUpTo(ws, enough); len(all) >= 2*fewest {
			break
		}
	}
	return all
}

func mergedUpTo(ws []window, enough int) (all []window) {
	const alike = 1.4
	for i := range ws {
		w := ws[i]
		if !w.fits() {
			continue
		}
		if len(all) > 0 {
			last := &all[len(all)-1]
			ratio := w.inflight / last.inflight
			if last.to == w.from && min(last.ended, last.began) < enough && ratio < alike && ratio > 1/alike {
				last.join(&w)
				continue
			}
		}
		all = append(all, w)
	}
	return all
}

// join adds the window that follows.
func (w *window) join(next *window) {
	a, b := (w.to - w.from).Seconds(), (next.to - next.from).Seconds()
	mean := func(x, y float64) float64 { return (x*a + y*b) / (a + b) }
	w.inflight, w.arrived, w.done = mean(w.inflight, next.inflight), mean(w.arrived, next.arrived), mean(w.done, next.done)
	m, n := float64(w.began), float64(next.began)
	w.response = (w.response*m + next.response*n) / (m + n)
	w.spread = (w.spread*m + next.spread*n) / (m + n)
	w.ended, w.began, w.lost = w.ended+next.ended, w.began+next.began, w.lost+next.lost
	w.to = next.to
}

// fits reports whether a window can be fitted: enough of its work is seen.
func (w *window) fits() bool {
	return w.ended >= 5 && w.began >= 5 && w.response > 0 && float64(w.lost) <= 0.02*float64(w.began)
}

// A level is the load of a part of a recording.
type level struct {
	offered int           // requests that came
	length  time.Duration // > 0
}

// rate returns the requests a second.
func (l level) rate() float64 { return float64(l.offered) / l.length.Seconds() }

// levels returns the least and the greatest load of the eighths of windows.
func levels(ws []window) (least, most level) {
	for i := range 8 {
		var l level
		for _, w := range ws[i*len(ws)/8 : (i+1)*len(ws)/8] {
			l.offered, l.length = l.offered+w.offered, l.length+w.to-w.from
		}
		if l.length == 0 {
			continue
		}
		if least.length == 0 || l.rate() < least.rate() {
			least = l
		}
		if l.rate() > most.rate() || most.length == 0 {
			most = l
		}
	}
	return least, most
}

// varied reports whether the load grew by a quarter or more, beyond what chance explains: two standard deviations of
// Poisson arrivals at either level.
func varied(least, most level) bool {
	high := float64(most.offered) - 2*math.Sqrt(float64(most.offered))
	low := float64(least.offered) + 2*math.Sqrt(float64(least.offered))
	return high/most.length.Seconds() > 1.25*low/least.length.Seconds()
}
