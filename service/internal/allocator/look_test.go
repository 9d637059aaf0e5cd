package allocator_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/allocator"
)

// If the caller tells when a session ends, Expire does not look at the members of a session that goes on.
func TestLookAtTheEndOfASession(t *testing.T) {
	for name, reserve := range map[string]time.Duration{"kept": 10 * ttl, "not kept": 0} {
		s := newShare(t, allocator.Config{Limit: allocator.Limit{Rate: 100}, TTL: ttl, Silence: 16 * ttl, Looks: true, Reserve: reserve})
		session := &allocator.Session{}
		session.Renew(ttl)
		m := s.member("a")
		m.Session = session
		s.report(0, "a", 1000, 0)
		m.Look(ttl / 2)
		if s.report(ttl/2, "own", 1, 0); m.Rate() != 100 || s.Members() != 2 {
			t.Fatalf("%s: a look while the session goes on ends the assignment", name)
		}
		s.Expire(2 * ttl)
		if s.Members() != 1 || m.Rate() != 100 {
			t.Errorf("%s: before the look: %d members, a rate of %v; one without a session must end", name, s.Members(), m.Rate())
		}
		m.Look(2 * ttl)
		if m.Rate() != 0 || m.Live() != (reserve > 0) {
			t.Errorf("%s: after the end: a rate of %v, live: %v", name, m.Rate(), m.Live())
		}
		m.Look(2 * ttl)
		if s.Expire(11 * ttl); m.Live() {
			t.Errorf("%s: it does not end", name)
		}
	}
}

func TestSilentMemberEndsWithoutALook(t *testing.T) {
	s := newShare(t, allocator.Config{Limit: allocator.Limit{Rate: 100}, TTL: ttl, Silence: 4 * ttl, Looks: true})
	session := &allocator.Session{}
	session.Renew(100 * ttl)
	s.member("a").Session = session
	s.report(0, "a", 1000, 0)
	if s.Expire(4*ttl - 1); s.Members() != 1 {
		t.Error("it ends before the silence")
	}
	if s.Expire(4 * ttl); s.Members() != 0 {
		t.Error("it does not end after the silence")
	}
}
