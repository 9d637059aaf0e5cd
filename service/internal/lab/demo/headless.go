package demo

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/weir-go/weir/service/internal/lab/origin"
	"github.com/weir-go/weir/service/internal/lab/trace"
)

// A Result has the measurements of the second half of an experiment, in its units.
// Quantiles without requests are absent.
type Result struct {
	Name       string             `json:"name"`
	Title      string             `json:"title"`
	Source     string             `json:"source"`             // the result of marselester/capacity
	Offered    float64            `json:"offered_rps"`        // requests by the client
	Goodput    float64            `json:"goodput_rps"`        // answered with success within the time-out of the client
	Throughput float64            `json:"throughput_rps"`     // finished by the origin, including abandoned requests
	P50        *float64           `json:"p50_seconds"`        // of successes, at the client
	P99        *float64           `json:"p99_seconds"`        //
	OriginP50  *float64           `json:"origin_p50_seconds"` // of all requests that the origin finished
	OriginP99  *float64           `json:"origin_p99_seconds"` //
	Limit      *int               `json:"limit"`              // at the end; absent without a proxy
	ByStatus   map[string]float64 `json:"by_status_rps"`
}

// Report is the result of RunAll.
type Report struct {
	Speed       float64  `json:"speed"`
	Seconds     float64  `json:"duration_seconds"` // of each experiment, in its units
	Experiments []Result `json:"experiments"`
}

// RunAll runs the experiments side by side on separate servers, each for duration in
// its units. If ctx ends first, it returns the error of ctx.
func RunAll(ctx context.Context, times float64, duration time.Duration) (Report, error) {
	report := Report{Speed: times, Seconds: duration.Seconds(), Experiments: make([]Result, len(Experiments))}
	errs := make([]error, len(Experiments))
	var wg sync.WaitGroup
	for i, e := range Experiments {
		wg.Go(func() {
			report.Experiments[i], errs[i] = runOne(ctx, speed(times), e, duration)
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return Report{}, err
		}
	}
	return report, nil
}

func runOne(ctx context.Context, s speed, e Experiment, duration time.Duration) (Result, error) {
	t := &tally{byStatus: map[string]int{}}
	r, err := newRig(s, e.Setup, t)
	if err != nil {
		return Result{}, fmt.Errorf("experiment %s: %w", e.Name, err)
	}
	defer r.close()
	half := s.real(duration) / 2
	if err := sleep(ctx, half); err != nil {
		return Result{}, err
	}
	t.start()
	began := time.Now()
	if err := sleep(ctx, half); err != nil {
		return Result{}, err
	}
	result := t.result(s, time.Since(began))
	result.Name, result.Title, result.Source = e.Name, e.Setup.String(), e.Source
	if e.Proxy != Off {
		limit := r.proxy.Stats().Limit
		result.Limit = &limit
	}
	return result, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// A tally counts the events of a rig, once started.
type tally struct {
	mu        sync.Mutex
	on        bool
	byStatus  map[string]int
	successes []time.Duration // at the client
	origin    []time.Duration
}

func (t *tally) start() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.on = true
}

func (t *tally) answered(r trace.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.on {
		return
	}
	t.byStatus[r.Label()]++
	if r.Success() {
		t.successes = append(t.successes, r.Latency())
	}
}

func (t *tally) served(d origin.Done) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.on && d.Status == 200 {
		t.origin = append(t.origin, d.End-d.Start)
	}
}

func (t *tally) result(s speed, over time.Duration) Result {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.on = false
	seconds := s.own(over).Seconds()
	r := Result{
		Goodput:    float64(len(t.successes)) / seconds,
		Throughput: float64(len(t.origin)) / seconds,
		ByStatus:   map[string]float64{},
	}
	for status, n := range t.byStatus {
		r.ByStatus[status] = float64(n) / seconds
		r.Offered += float64(n) / seconds
	}
	slices.Sort(t.successes)
	slices.Sort(t.origin)
	r.P50, r.P99 = quantile(s, t.successes, .5), quantile(s, t.successes, .99)
	r.OriginP50, r.OriginP99 = quantile(s, t.origin, .5), quantile(s, t.origin, .99)
	return r
}

// quantile returns the nearest-rank quantile of sorted real durations, in seconds of
// the experiment, or nil if there are none.
func quantile(s speed, sorted []time.Duration, q float64) *float64 {
	if len(sorted) == 0 {
		return nil
	}
	rank := max(int(math.Ceil(q*float64(len(sorted))))-1, 0)
	v := s.own(sorted[rank]).Seconds()
	return &v
}

// Table writes the report beside the results of the source.
func (r Report) Table(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "experiment\tthe source saw\tgoodput\torigin\tp50\tp99\torigin p99\tlimit\n")
	for _, e := range r.Experiments {
		limit := "–"
		if e.Limit != nil {
			limit = fmt.Sprint(*e.Limit)
		}
		fmt.Fprintf(tw, "%s\t%s\t%.2f rps\t%.2f rps\t%s\t%s\t%s\t%s\n", e.Title, e.Source,
			e.Goodput, e.Throughput, inSeconds(e.P50), inSeconds(e.P99), inSeconds(e.OriginP99), limit)
	}
	fmt.Fprintf(tw, "\nThe client: %v rps, %d workers, %v time-out. Each experiment ran for %v s at speed %v; the figures are of\n"+
		"its second half, in its own units. p50 and p99 are of successes, as the client saw them.\n",
		Rate, ClientWorkers, ClientTimeout, r.Seconds, r.Speed)
	return tw.Flush()
}

func inSeconds(v *float64) string {
	if v == nil {
		return "–"
	}
	return fmt.Sprintf("%.2f s", *v)
}
