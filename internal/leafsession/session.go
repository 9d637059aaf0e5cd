// Package leafsession exchanges the reports of a leaf for assignments with its upstream: it says when an exchange is due,
// and until when the assignments of the last answer are valid.
package leafsession

import (
	"hash/fnv"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/leaf"
)

// Bounds of the time between exchanges.
const (
	minInterval = 100 * time.Millisecond
	maxInterval = 5 * time.Second
)

// The exchanges that are early, because a key is urgent: at most earlyBurst at once and one
// a second more.
const earlyBurst = 10

// A Session is the leaf's side of its exchanges with one upstream. One exchange is under way
// at a time: Begin and Exchange, then Answered or Failed. It is not safe for concurrent use.
type Session struct {
	cfg   leaf.Config
	lease leaf.Lease

	ttl       time.Duration // of the last answer
	next      time.Duration // when the next regular exchange is due
	begun     time.Duration // the last exchange
	flying    bool          // an exchange is under way
	full      bool          // the last pass was full
	more      bool          // the last exchange had no room for all reports
	failures  int           // in a row
	failedAt  time.Duration // the first of them
	early     float64       // exchanges that may be early
	jitter    float64       // in [0.5, 1): spreads the attempts of leaves
	connected bool          // there has been an exchange
}

// firstTTL is the time to live of assignments before the first answer.
const firstTTL = 30 * time.Second

// NewSession returns a Session that has not been connected yet.
func NewSession(cfg leaf.Config) *Session {
	h := fnv.New32a()
	_, _ = h.Write([]byte(cfg.Name))
	return &Session{
		cfg: cfg.WithDefaults(), lease: leaf.Lease{Away: weir.Never}, ttl: firstTTL, early: earlyBurst,
		jitter: .5 + float64(h.Sum32()>>8)/(1<<25),
	}
}

// Lease returns the lease of the leaf.
func (s *Session) Lease() leaf.Lease { return s.lease }

// Due returns when the next exchange is due: weir.Never while one is under way, and while a
// leaf without keys has nothing to tell, unless Config.Idle is set. urgent tells that a key is to be reported early.
func (s *Session) Due(urgent bool, keys int) time.Duration {
	switch {
	case s.flying || keys == 0 && !urgent && !s.cfg.Idle:
		return weir.Never
	case !s.connected:
		return 0
	case s.failures == 0 && s.more:
		return s.begun
	case s.failures == 0 && urgent:
		return min(s.next, s.begun+s.spacing())
	}
	return s.next
}

// spacing returns the time from the last exchange to one that is early.
func (s *Session) spacing() time.Duration {
	if s.early >= 1 {
		return minInterval
	}
	return time.Second
}

// Begin starts an exchange. The owner has its Keys fill the Pass by Collect.
func (s *Session) Begin(now time.Duration, p *leaf.Pass) {
	now = max(now, s.begun)
	s.early = min(earlyBurst, s.early+(now-s.begun).Seconds())
	s.full = !s.connected || now >= s.next || s.more && s.full
	if !s.full && !s.more {
		s.early = max(s.early-1, 0)
	}
	*p = leaf.Pass{Reports: p.Reports[:0], Now: now, TTL: s.ttl, Full: s.full, Most: s.cfg.MaxReports}
	s.begun, s.flying, s.connected = now, true, true
}

// Exchange returns what the leaf tells its upstream, with the reports of a Pass. held is the
// number of keys with a live assignment.
func (s *Session) Exchange(p *leaf.Pass, held int) *leaf.Exchange {
	s.more = p.More
	return &leaf.Exchange{Leaf: s.cfg.Name, Held: held, Share: s.cfg.Share, Reports: p.Reports}
}

// Answered takes in an answer, and returns the lease from now on.
func (s *Session) Answered(a *leaf.Answer) leaf.Lease {
	s.flying, s.failures = false, 0
	s.ttl = max(millis(a.TTLMS), minInterval)
	interval := min(max(millis(a.NextMS), minInterval), maxInterval)
	if s.full || s.next <= s.begun {
		s.next = s.begun + interval
	} else {
		s.next = min(s.next, s.begun+interval)
	}
	if a.Resync {
		s.more, s.full = true, true
	}
	// From the beginning of the exchange: the upstream counts from a later instant.
	s.lease = leaf.Lease{Until: s.begun + s.ttl, Away: s.next + s.cfg.Overdue}
	s.lease.Free = s.lease.Away + s.ttl
	return s.lease
}

func millis(ms int64) time.Duration {
	return time.Duration(min(max(ms, 0), 1<<40)) * time.Millisecond
}

// Failed notes that an exchange has had no answer, and returns the lease from now on. The
// next attempts are later and later, up to 5 seconds.
func (s *Session) Failed(now time.Duration) leaf.Lease {
	now = max(now, s.begun)
	if s.failures++; s.failures == 1 {
		s.failedAt = now
		s.lease.Free = max(s.lease.Until, now+s.ttl)
	}
	s.flying, s.full, s.more = false, false, false
	backoff := min(minInterval<<min(s.failures, 10), maxInterval)
	s.next = now + time.Duration(s.jitter*float64(backoff))
	s.lease.Away = min(s.lease.Away, s.failedAt)
	return s.lease
}

// Leave returns an Exchange that gives all assignments back.
func (s *Session) Leave() *leaf.Exchange { return &leaf.Exchange{Leaf: s.cfg.Name, Leave: true} }
