package assign

import (
	"slices"
	"time"

	"github.com/weir-go/weir/internal/heap"
)

// sessions notice when sessions of leaves end, and have the Allocators look at the assignments of
// these leaves. So while a leaf renews its session, its assignments cost nothing. The zero value is not
// usable: see init.
type sessions struct {
	ends heap.Heap[*leafSession]
	lost []*leafSession // of which some assignments are to be looked at
	over []*leafSession // leaves that have no session any more, or had none once: the one that was lost first comes first
}

func (s *sessions) init() {
	s.ends = *heap.New(func(l, m *leafSession) bool { return l.check < m.check }).Track(func(l *leafSession, at int) { l.at = at })
}

// renew renews the session of a leaf.
func (s *sessions) renew(l *leafSession, until time.Duration) {
	if l.session.Renew(until); l.at < 0 {
		l.check = l.session.Until()
		s.ends.Push(l)
	}
}

// remove forgets a leaf that has left.
func (s *sessions) remove(l *leafSession) {
	if l.lost = nil; l.at >= 0 {
		s.ends.Remove(l.at)
	}
}

// look visits assignments of leaves after their sessions have ended.
func (s *sessions) look(now time.Duration) {
	for s.ends.Len() > 0 && s.ends.Min().check <= now {
		l := s.ends.Min()
		if l.check = l.session.Until(); l.check > now {
			s.ends.Fix(0)
			continue
		}
		s.ends.Remove(0)
		s.over = append(s.over, l)
		if l.lost == nil {
			s.lost = append(s.lost, l)
		}
		l.lost = l.keys.all()
	}
	for n := 0; len(s.lost) > 0 && n < lookedEach; n++ {
		end := len(s.lost) - 1
		l := s.lost[end]
		last := len(l.lost) - 1
		if last < 0 {
			l.lost, s.lost[end] = nil, nil
			s.lost = s.lost[:end]
			continue
		}
		h := l.lost[last]
		l.lost[last], l.lost = nil, l.lost[:last]
		if l.keys.get(h.print) == h {
			for p := h.parts; p != nil; p = p.next {
				p.Look(now)
			}
		}
	}
}

// isLost reports whether the session of a leaf has ended without a word, and it still has assignments, or parts of
// limits that are kept for it.
func (l *leafSession) isLost() bool { return l.at < 0 && l.keys.n > 0 && !l.session.Over() }

// firstLost returns the leaf that was lost first; nil if there is none.
func (s *sessions) firstLost() *leafSession {
	for len(s.over) > 0 {
		if l := s.over[0]; l.isLost() {
			return l
		}
		s.over[0] = nil
		s.over = s.over[1:]
	}
	return nil
}

// forgetFound removes leaves that are not lost any more from over.
func (s *sessions) forgetFound() {
	s.over = slices.DeleteFunc(s.over, func(l *leafSession) bool { return !l.isLost() })
}
