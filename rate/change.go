package rate

import (
	"time"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/waitq"
)

// SetLimit changes the rate. Tokens stay; calls that wait get another turn, while
// a Reservation keeps its time.
func (l *Limiter) SetLimit(r Limit) { l.SetLimitAt(time.Now(), r) }

// SetLimitAt is SetLimit at the time t. From then on, an earlier time counts
// as t.
func (l *Limiter) SetLimitAt(t time.Time, r Limit) {
	l.change(t, func(s *state) {
		s.quota, s.limit = gcra.PerSecond(float64(r), s.burst), r
	})
}

// SetBurst changes the burst. Tokens stay, up to the new burst. Calls that wait
// for more than that are refused; a Reservation of more stays.
func (l *Limiter) SetBurst(b int) { l.SetBurstAt(time.Now(), b) }

// SetBurstAt is SetBurst at the time t. From then on, an earlier time counts
// as t.
func (l *Limiter) SetBurstAt(t time.Time, b int) {
	l.change(t, func(s *state) {
		s.quota, s.burst = gcra.PerSecond(s.quota.Rate(), b), b
	})
}

// change replaces the state.
//
// No call takes a token from both states. A call that swaps the bucket of the old
// one before it is marked as moved is counted in the new one; a later call finds
// the mark, and waits in reload for the new state.
func (l *Limiter) change(t time.Time, set func(*state)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.state.Load()
	if old == nil {
		old = &state{epoch: waitq.Epoch(), owner: (*owner)(l)}
	}
	now := old.at(t)
	l.queue.Serve(&old.quota, now)
	s := &state{owner: old.owner, epoch: old.epoch, since: now, quota: old.quota, limit: old.limit, burst: old.burst}
	set(s)
	b := gcra.Bucket(old.bucket.Swap(moved))
	s.bucket.Store(uint64(owing(old.quota.Move(b, now, &s.quota))))
	l.state.Store(s)
	l.queue.Change(&old.quota, now, &s.quota, s)
}
