package rate

import (
	"sync"
	"time"
)

// Sometimes runs a function on some of the calls of Do: on each that First, Every
// or Interval asks for. The zero Sometimes runs it once. It is safe for
// concurrent use; its fields must not be changed once it is used.
//
//	var often = rate.Sometimes{First: 3, Interval: 10 * time.Second}
//	often.Do(func() { log.Print("retrying") })
type Sometimes struct {
	First    int           // if positive, the number of first calls that run it
	Every    int           // if positive, the first call runs it, and then every Every-th call after the first
	Interval time.Duration // if positive, a call runs it if the last run was at least this long ago

	mu    sync.Mutex // guards what follows; held while f runs
	calls int
	ran   time.Time
}

// Do runs f if one of the fields asks for it; the first call always does.
// Calls at the same time run one after the other, so f should be short, and
// must not call Do itself. A call does not count if f panics.
func (s *Sometimes) Do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls == 0 ||
		s.calls < s.First ||
		s.Every > 0 && s.calls%s.Every == 0 ||
		s.Interval > 0 && time.Since(s.ran) >= s.Interval {
		f()
		if s.Interval > 0 {
			s.ran = time.Now()
		}
	}
	s.calls++
}
