package proxy

import "time"

// patience is a timer that runs while the proxy waits for the origin.
type patience struct {
	timer *time.Timer // nil: unbounded
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
