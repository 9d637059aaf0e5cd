package origin

import (
	"io"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/service/internal/settings"
)

// A Change is the body of POST /-/set. Absent settings do not change, except that a
// distribution without a CV removes the CV.
//
// New values of workers and queue apply at once; waiting requests keep their places.
// The others apply to all work that begins later, including that of waiting requests.
// Work in progress is not affected, even if there are more such requests than workers.
type Change struct {
	Workers         *int               `json:"workers"`
	ServiceTime     *settings.Duration `json:"service_time"` // mean
	Distribution    *string            `json:"distribution"`
	CV              *float64           `json:"cv"`
	Queue           *int               `json:"queue"`
	FailureRate     *float64           `json:"failure_rate"`
	CancelAbandoned *bool              `json:"cancel_abandoned"`
}

// Settings is the answer of GET /-/set.
type Settings struct {
	Workers         int               `json:"workers"`
	ServiceTime     settings.Duration `json:"service_time"`
	Distribution    string            `json:"distribution"`
	CV              float64           `json:"cv"`
	Queue           int               `json:"queue"`
	FailureRate     float64           `json:"failure_rate"`
	CancelAbandoned bool              `json:"cancel_abandoned"`
	Inflight        int               `json:"inflight"`
	Waiting         int               `json:"waiting"`
}

// Settings returns the settings in force.
func (o *Origin) Settings() Settings {
	o.mu.Lock()
	c := o.cfg
	o.mu.Unlock()
	s := o.Stats()
	return Settings{
		Workers: c.Workers, ServiceTime: settings.Duration(c.ServiceTime.Mean),
		Distribution: c.ServiceTime.Name(), CV: c.ServiceTime.Spread(), Queue: c.Queue,
		FailureRate: c.FailureRate, CancelAbandoned: c.CancelAbandoned,
		Inflight: s.Inflight, Waiting: s.Waiting,
	}
}

// Set applies a change. If it is not valid, Set returns a *FieldError and changes
// nothing.
func (o *Origin) Set(c Change) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	to := o.cfg
	set(&to.Workers, c.Workers)
	set(&to.Queue, c.Queue)
	set(&to.FailureRate, c.FailureRate)
	set(&to.CancelAbandoned, c.CancelAbandoned)
	set(&to.ServiceTime.Distribution, c.Distribution)
	if c.Distribution != nil && !to.ServiceTime.Spreads() {
		to.ServiceTime.CV = 0
	}
	set(&to.ServiceTime.CV, c.CV)
	if c.ServiceTime != nil {
		to.ServiceTime.Mean = time.Duration(*c.ServiceTime)
	}
	if err := to.Validate(); err != nil {
		return err
	}
	o.cfg = to
	o.workers.SetQueue(orNone(to.Queue), -1)
	o.workers.SetAlgorithm(limit.Fixed(to.Workers))
	return nil
}

func set[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}

func (o *Origin) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("/-/set", settings.Handler(func() any { return o.Settings() }, o.Set))
	mux.HandleFunc("GET /-/health", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "healthy\n")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.metrics.registry, promhttp.HandlerOpts{}))
	return mux
}
