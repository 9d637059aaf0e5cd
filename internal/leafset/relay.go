package leafset

import (
	"time"

	"github.com/weir-go/weir/internal/leaf"
)

// Pass sets the part of a key that is passed on to leaves of the owner: see leaf.Keys.Pass.
func (s *Set) Pass(key string, p leaf.Passed) {
	s.change(key, func(k *leaf.Keys) { k.Pass(s.now(), key, p) })
}

// Whole returns what may be used of a key, with the part that is passed on: see leaf.Keys.Whole.
func (s *Set) Whole(key string, p *leaf.Policy) (w leaf.Whole) {
	s.change(key, func(k *leaf.Keys) { w = k.Whole(s.now(), key, p) })
	return w
}

// Spend counts tokens that were used of the part of a key that is passed on.
func (s *Set) Spend(key string, n int) {
	s.change(key, func(k *leaf.Keys) { k.Spend(key, n) })
}

// Left returns how long the assignments are still valid; 0 if they have ended.
func (s *Set) Left() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.session.Lease().Until-s.now(), 0)
}
