package demo

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weir-go/weir/service/lab/internal/load"
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
	Samples    []Sample           `json:"-"` // one for each second, at most history
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
	return runAll(ctx, loopback, times, duration)
}

func runAll(ctx context.Context, n network, times float64, duration time.Duration) (Report, error) {
	report := Report{Speed: times, Seconds: duration.Seconds(), Experiments: make([]Result, len(Experiments))}
	all, ctx := errgroup.WithContext(ctx)
	for i, e := range Experiments {
		all.Go(func() (err error) {
			report.Experiments[i], err = runOne(ctx, n, speed(times), e, duration)
			return err
		})
	}
	return report, all.Wait()
}

func runOne(ctx context.Context, n network, s speed, e Experiment, duration time.Duration) (Result, error) {
	seconds := int(duration / time.Second)
	r, err := newRig(n, s, Source, e.Setup, max(seconds/2, window))
	if err != nil {
		return Result{}, fmt.Errorf("experiment %s: %w", e.Name, err)
	}
	defer r.close()
	result := Result{Name: e.Name, Title: e.Title, Source: e.Source}
	began := time.Now()
	for i := range seconds {
		if err := load.Sleep(ctx, s.real(time.Duration(i+1)*time.Second)-time.Since(began)); err != nil {
			return Result{}, err
		}
		sample := r.sample(e.Setup)
		sample.At = s.own(time.Since(began)).Seconds()
		result.Samples = push(result.Samples, sample)
	}
	c := r.meter.sum(seconds / 2)
	span := s.own(c.span).Seconds()
	result.Goodput, result.Throughput = float64(len(c.successes))/span, float64(len(c.served))/span
	result.P50, result.P99 = s.quantile(c.successes, .5), s.quantile(c.successes, .99)
	result.OriginP50, result.OriginP99 = s.quantile(c.served, .5), s.quantile(c.served, .99)
	result.Offered, result.ByStatus = c.offered(span)
	if e.Proxy != Off {
		result.Limit = new(r.proxy.Stats().Limit)
	}
	return result, nil
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
	fmt.Fprintf(tw, "\nThe client: %v rps, %d workers, %v time-out. Each experiment ran for %v s at speed %v; "+
		"the figures are of\nits second half, in its own units. p50 and p99 are of successes, as the client saw them.\n",
		Source.Rate, Source.Workers, Source.timeout(), r.Seconds, r.Speed)
	return tw.Flush()
}

func inSeconds(v *float64) string {
	if v == nil {
		return "–"
	}
	return fmt.Sprintf("%.2f s", *v)
}
