package leafset

import (
	"context"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/leaf"
)

// run exchanges with the upstream until the Set is closed.
func (s *Set) run() {
	defer close(s.finished)
	timer := time.NewTimer(weir.Never)
	defer timer.Stop()
	for {
		// A key that becomes urgent after due was computed sends on wake, which has room.
		due, now := s.due(), s.now()
		if due <= now {
			s.exchange()
			continue
		}
		timer.Reset(due - now)
		select {
		case <-timer.C:
		case <-s.wake:
		case <-s.closing.Done():
			return
		}
	}
}

// due returns when the next exchange is due.
func (s *Set) due() time.Duration {
	if s.closing.Err() != nil {
		return weir.Never
	}
	keys := 0
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		keys += sh.keys.Len()
		sh.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session.Due(s.urgent.Load(), keys)
}

// exchange exchanges once.
func (s *Set) exchange() {
	x := s.collect()
	ctx, stop := context.WithTimeout(s.closing, s.cfg.Timeout)
	defer stop()
	s.sent.Add(1)
	answer, err := s.cfg.Upstream.Exchange(ctx, x)
	if err != nil {
		s.failed.Add(1)
		s.lost()
		return
	}
	s.answered(&answer)
}

// collect returns the exchange of this instant.
func (s *Set) collect() *leaf.Exchange {
	now, held := s.now(), 0
	s.mu.Lock()
	s.session.Begin(now, &s.pass)
	s.mu.Unlock()
	s.urgent.Store(false)
	start := int(s.sent.Load()) // so that each shard is first in turn, if there is no room for all
	for i := range s.shards {
		sh := &s.shards[(start+i)&(len(s.shards)-1)]
		for done := false; !done; {
			sh.mu.Lock()
			done = sh.keys.Collect(&s.pass)
			sh.told = sh.keys.Urgent()
			if sh.told {
				s.urgent.Store(true)
			}
			if done {
				held += sh.keys.Held(now)
			}
			sh.mu.Unlock()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session.Exchange(&s.pass, held)
}

// answered takes in an answer.
func (s *Set) answered(a *leaf.Answer) {
	now := s.now()
	s.mu.Lock()
	lease := s.session.Answered(a)
	s.mu.Unlock()
	s.renew(now, lease, a.Resync)
	for i := range a.Assignments {
		s.change(a.Assignments[i].Key, func(k *leaf.Keys) { k.Assign(now, &a.Assignments[i]) })
	}
	for _, key := range a.Watch {
		s.change(key, func(k *leaf.Keys) { k.Watch(key) })
	}
	for i := range s.pass.Reports {
		if r := &s.pass.Reports[i]; r.Done {
			s.change(r.Key, func(k *leaf.Keys) { k.Ended(s.pass.Now, r.Key) })
		}
	}
}

// lost takes in that an exchange has failed.
func (s *Set) lost() {
	now := s.now()
	s.mu.Lock()
	lease := s.session.Failed(now)
	s.mu.Unlock()
	s.renew(now, lease, false)
	for i := range s.pass.Reports {
		r := &s.pass.Reports[i]
		s.change(r.Key, func(k *leaf.Keys) { k.Return(r) })
	}
}

// renew gives all shards the lease.
func (s *Set) renew(now time.Duration, lease leaf.Lease, resync bool) {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		sh.keys.Renew(now, lease)
		if resync {
			sh.keys.Resync()
		}
		sh.mu.Unlock()
	}
}

// change changes the keys of the shard of a key.
func (s *Set) change(key string, f func(*leaf.Keys)) {
	sh := s.shard(key)
	sh.mu.Lock()
	f(sh.keys)
	tell := sh.tellLocked()
	sh.mu.Unlock()
	if tell {
		s.tell()
	}
}

// Close ends all waits with weir.Closed, and gives the assignments back to the upstream, for
// as long as ctx allows. Decisions after it deny. A second Close does nothing.
func (s *Set) Close(ctx context.Context) error {
	if s.closing.Err() != nil {
		return nil
	}
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		sh.closed = true
		sh.mu.Unlock()
	}
	s.close()
	<-s.finished
	s.mu.Lock()
	x := s.session.Leave()
	s.mu.Unlock()
	if s.sent.Load() == 0 {
		return nil
	}
	_, err := s.cfg.Upstream.Exchange(ctx, x)
	return err
}
