package limits

import (
	"time"

	"github.com/weir-go/weir/service/internal/proxyrule"
	"github.com/weir-go/weir/service/internal/settings"
)

// A Report describes a limit on requests in flight, and its queue.
type Report struct {
	Limit    proxyrule.Limit `json:"limit"` // as set
	LimitNow int             `json:"limit_now"`
	Inflight int             `json:"inflight"` // units, at most LimitNow unless that has fallen
	// Exchanges is the number of requests in flight. It is more than Inflight in shadow mode,
	// and less if requests with a unit wait for that of the total.
	Exchanges int               `json:"exchanges"`
	Waiting   int               `json:"waiting"`
	Queue     int               `json:"queue"`                // 0: none waits
	MaxWait   settings.Duration `json:"max_wait"`             // 0: as long as the client waits
	SlowStart settings.Duration `json:"slow_start,omitempty"` // idle time; 0: none
	UsualMS   float64           `json:"usual_ms"`             // upper bound of the duration of ordinary work; 0: not known
}

// Report describes a limit. The lock of the settings is held.
func (l *Limiter) Report() *Report {
	st := l.State()
	return &Report{
		Limit: l.now.Limit, LimitNow: st.Limit, Inflight: st.Inflight, Exchanges: l.CountForwards(), Waiting: st.Waiting, Queue: l.Queue(), MaxWait: l.now.MaxWait,
		SlowStart: l.now.SlowStart, UsualMS: float64(l.longestOf(func(p *pool) time.Duration { return p.Usual() })) / float64(time.Millisecond),
	}
}
