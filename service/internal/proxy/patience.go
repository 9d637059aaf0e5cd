package proxy

import "time"

// patience runs while it is the origin's turn: it is over when the origin has
// kept the proxy waiting for too long.
type patience struct {
	timer *time.Timer // nil: endless
	limit time.Duration
}

func newPatience(limit time.Duration) patience {
	if limit < 0 {
		return patience{}
	}
	return patience{time.NewTimer(limit), limit}
}

func (p patience) over() <-chan time.Time {
	if p.timer == nil {
		return nil
	}
	return p.timer.C
}

func (p patience) stop() {
	if p.timer != nil {
		p.timer.Stop()
	}
}

func (p patience) restart() {
	if p.timer != nil {
		p.timer.Reset(p.limit)
	}
}
