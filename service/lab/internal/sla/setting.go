package sla

import (
	"fmt"
	"time"

	"github.com/weir-go/weir/service/lab/internal/dist"
)

// A Setting has the parameters of the upstream and of the tuned limits.
type Setting struct {
	Concurrency int              // calls that the upstream processes at once, in [1, 10,000]
	Work        dist.ServiceTime // of a call
	Timeout     time.Duration    // of a call, including its wait

	Rate  float64       // of the tuned limits, requests a second, in [MinRate, MaxRate]
	Burst int           // of the tuned limits, in [1, 10,000]
	Wait  time.Duration // the longest for a token, at least MinWait
}

// Tuned returns a setting with an upstream that can bear the agreed rate: it processes 435
// calls a second.
func Tuned() Setting {
	return Setting{
		Concurrency: 10, Work: dist.ServiceTime{Mean: 23 * time.Millisecond, Distribution: "normal", CV: 0.13}, Timeout: 500 * time.Millisecond,
		Rate: 425, Burst: 10, Wait: 75 * time.Millisecond,
	}
}

// Source returns the setting of the source: a call takes 20 ms plus the absolute value of
// a normal variable with a standard deviation of 5 ms, so that the upstream processes 417
// calls a second, less than the agreed rate.
func Source() Setting {
	s := Tuned()
	s.Work = dist.HalfNormal(20*time.Millisecond, 5*time.Millisecond)
	return s
}

// Bounds of a Setting.
const (
	MinWait        = time.Millisecond
	maxConcurrency = 10_000
	maxBurst       = 10_000
)

// Capacity returns the highest throughput of the upstream, in calls a second.
func (s Setting) Capacity() float64 { return float64(s.Concurrency) / s.Work.Mean.Seconds() }

// validate returns an error about the first field that is not valid, or nil.
func (s Setting) validate() error {
	if err := s.Work.Validate(); err != nil {
		return fmt.Errorf("sla: Work: %w", err)
	}
	switch {
	case s.Concurrency < 1 || s.Concurrency > maxConcurrency:
		return fmt.Errorf("sla: Concurrency = %d: must be in [1, %d]", s.Concurrency, maxConcurrency)
	case s.Work.Mean < time.Microsecond:
		return fmt.Errorf("sla: Work: mean = %v: must be >= 1µs", s.Work.Mean)
	case s.Timeout <= 0 || s.Timeout > MaxTime:
		return fmt.Errorf("sla: Timeout = %v: must be in (0s, %v]", s.Timeout, MaxTime)
	case !(s.Rate >= MinRate && s.Rate <= MaxRate):
		return fmt.Errorf("sla: Rate = %v: must be in [%v, %d]", s.Rate, MinRate, MaxRate)
	case s.Burst < 1 || s.Burst > maxBurst:
		return fmt.Errorf("sla: Burst = %d: must be in [1, %d]", s.Burst, maxBurst)
	case s.Wait < MinWait || s.Wait > MaxTime:
		return fmt.Errorf("sla: Wait = %v: must be in [%v, %v]", s.Wait, MinWait, MaxTime)
	}
	return nil
}
