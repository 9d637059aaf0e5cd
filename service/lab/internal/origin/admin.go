package origin

import (
	"fmt"
	"time"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/service/internal/settings"
)

// A Change is the body of POST /-/set. Absent settings do not change, except that a
// distribution without a CV removes the CV.
//
// New values of workers and queue apply at once, the others to all work that begins
// later. Work in progress is not affected, even if there are more such requests than workers.
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
	c, s := o.config(), o.Stats()
	return Settings{
		Workers: c.Workers, ServiceTime: settings.Duration(c.ServiceTime.Mean),
		Distribution: c.ServiceTime.Name(), CV: c.ServiceTime.Spread(), Queue: c.Queue,
		FailureRate: c.FailureRate, CancelAbandoned: c.CancelAbandoned,
		Inflight: s.Inflight, Waiting: s.Waiting,
	}
}

func (o *Origin) config() Config {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.cfg
}

// Set applies a change. If it is not valid, Set returns an error that wraps a *FieldError,
// and changes nothing.
func (o *Origin) Set(c Change) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	to := o.cfg
	to.Workers = settings.Or(c.Workers, to.Workers)
	to.Queue = settings.Or(c.Queue, to.Queue)
	to.FailureRate = settings.Or(c.FailureRate, to.FailureRate)
	to.CancelAbandoned = settings.Or(c.CancelAbandoned, to.CancelAbandoned)
	st := &to.ServiceTime
	st.Mean = time.Duration(settings.Or(c.ServiceTime, settings.Duration(st.Mean)))
	st.Distribution = settings.Or(c.Distribution, st.Distribution)
	if c.Distribution != nil && !st.Spreads() {
		st.CV = 0
	}
	st.CV = settings.Or(c.CV, st.CV)
	if err := to.Validate(); err != nil {
		return fmt.Errorf("origin: %w", err)
	}
	o.cfg = to
	o.workers.SetQueue(settings.OrNone(to.Queue), -1)
	o.workers.SetAlgorithm(limit.Fixed(to.Workers))
	return nil
}
