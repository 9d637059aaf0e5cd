package decider

import "time"

// A Quota is a rate and a burst that a request brings. Quotas with the same Interval and
// Limit are the same.
type Quota struct {
	Count  int           // tokens, > 0; with a Unit >= 0
	Period time.Duration // > 0
	Burst  int           // the capacity of the bucket; if zero, Count
	// Unit is set for the limit of a descriptor, to one of config.RateUnits. Such a limit
	// denies also under rules in shadow mode, and denies everything if Count is zero. If
	// config.Rules.Overrides is FixedWindow, it counts in windows of Unit; Period and Burst
	// are ignored.
	Unit time.Duration
}

// MaxOwnRefill bounds the time in which the bucket of a Quota refills.
const MaxOwnRefill = 10 * 365 * 24 * time.Hour

// Limit returns the capacity of the bucket.
func (q *Quota) Limit() int {
	if q.Burst == 0 {
		return q.Count
	}
	return q.Burst
}

// Empty reports whether it is the limit of a descriptor that denies everything.
func (q *Quota) Empty() bool { return q.Unit > 0 && q.Count == 0 }

// Interval returns the time between two tokens, rounded down to nanoseconds, or ErrQuota.
func (q *Quota) Interval() (time.Duration, error) {
	if q.Count <= 0 || q.Period < time.Duration(q.Count) || q.Burst < 0 {
		return 0, ErrQuota
	}
	interval := q.Period / time.Duration(q.Count)
	if time.Duration(q.Limit()) > MaxOwnRefill/interval {
		return 0, ErrQuota
	}
	return interval, nil
}
