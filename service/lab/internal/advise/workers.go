package advise

import (
	"math"
	"slices"

	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/lab/internal/recorded"
	"github.com/weir-go/weir/service/lab/internal/station"
)

const (
	vague     = 1.35 // of a knee that the windows do not tell well: the upper bound over the lower one
	uneven    = 2    // the noise of windows that vary for other reasons than chance
	goodScore = 0.15 // the highest score of a station that tells more than the windows
)

// countWorkers counts the workers by the work of single requests (package station), if the windows tell little: they vary for other
// reasons, as on a busy machine or while a dependency is slow. That changes the throughput of windows, and the work of few requests.
func (f *fitted) countWorkers(records []recording.Record, p part) {
	k := f.interval((*model).knee)
	if f.known && f.noise < uneven && *k.High < vague**k.Low || !f.known && !f.ambiguous() {
		return
	}
	from, to := p.ws[0].from, p.ws[len(p.ws)-1].to
	var own []recording.Record
	for _, r := range records {
		if r.Intended >= from && r.Intended < to && recorded.Sent(&r) {
			own = append(own, r)
		}
	}
	order := station.Admitted(own)
	whole := []station.Part{{From: 0, To: len(own)}}
	all := station.Fitting(own, order, whole, 0, false) // requests that share workers look like contention
	if len(all) == 0 {
		return
	}
	best := all[0]
	n := float64(best.Workers)
	agrees := *k.Low <= n && n <= *k.High && *k.High < 2**k.Low
	if agrees || best.Score() > goodScore {
		return
	}
	mean := station.Alone(best.Pieces(own, order)).Mean().Seconds()
	f.law = &laws[slices.IndexFunc(laws, func(l law) bool { return l.name == "workers" })]
	f.boots = nil
	for _, m := range []float64{n, n - 1, n + 1 + math.Floor(n/20)} { // the steps of Fitting
		if m >= 1 {
			f.boots = append(f.boots, model{service: mean, workers: m, variability: 1})
		}
	}
	f.model, f.known = f.boots[0], true
}
