package leafsession

import (
	"time"

	"github.com/weir-go/weir/internal/leaf"
)

// A Set is a whole leaf without concurrency: the keys and the session with the upstream.
// A concurrent owner has several Keys, each with its lock, and one Session. It is not
// safe for concurrent use.
//
//	s := leafsession.NewSet(leaf.Config{Name: "pod-7"})
//	d, step := s.Take(now, "user:7", 1, &policy)
//	if now >= s.Due() {
//		answer, err := post(s.Exchange(now))
//		...
//		s.Answered(now, &answer) // or s.Failed(now)
//	}
type Set struct {
	*leaf.Keys
	session *Session
	pass    leaf.Pass
}

// NewSet returns a leaf without keys.
func NewSet(cfg leaf.Config) *Set {
	return &Set{Keys: leaf.NewKeys(cfg), session: NewSession(cfg)}
}

// Due returns when the next exchange is due: weir.Never while one is under way and while
// there is nothing to tell.
func (s *Set) Due() time.Duration { return s.session.Due(s.Urgent(), s.Len()) }

// Exchange returns what the leaf tells its upstream at the instant now. The caller must not
// change it, and must call Answered or Failed before the next Exchange.
func (s *Set) Exchange(now time.Duration) *leaf.Exchange {
	s.session.Begin(now, &s.pass)
	for !s.Collect(&s.pass) {
	}
	return s.session.Exchange(&s.pass, s.Held(now))
}

// Answered takes in the answer to the last Exchange.
func (s *Set) Answered(now time.Duration, a *leaf.Answer) {
	s.Renew(now, s.session.Answered(a))
	s.Apply(now, &s.pass, a)
}

// Failed notes that the last Exchange has had no answer.
func (s *Set) Failed(now time.Duration) {
	s.Renew(now, s.session.Failed(now))
	s.Unsent(&s.pass)
}

// Leave returns an Exchange that gives all assignments back. The leaf must not be used after
// it.
func (s *Set) Leave() *leaf.Exchange { return s.session.Leave() }
