package token

import (
	"net/http"
	"sync/atomic"
)

// A Guard has the Set in force, and lets everything pass while there is none. It
// is safe for concurrent use.
type Guard struct{ set atomic.Pointer[Set] }

// Use puts a Set into force, from the next request on. Nil is none.
func (g *Guard) Use(s *Set) { g.set.Store(s) }

// Authorize returns nil if the request may do this to the key, or to all keys
// at once if that is empty; or the error of Set.Authorize.
func (g *Guard) Authorize(r *http.Request, a Action, key string) error {
	s := g.set.Load()
	if s == nil {
		return nil
	}
	return s.Authorize(r.Header.Get("Authorization"), a, key)
}
