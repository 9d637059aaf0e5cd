package token

import (
	"context"
	"net/http"
	"sync/atomic"
)

// A Guard has the Set in force, and lets everything pass while there is none. It
// is safe for concurrent use.
type Guard struct{ set atomic.Pointer[Set] }

// Use puts a Set into force, from the next request on. Nil is none.
func (g *Guard) Use(s *Set) { g.set.Store(s) }

// caller is the key of a request's context under which its *Token is, nil if it
// shows none that is known.
type caller struct{}

// Handler finds out who asks, once for each request however many keys it has,
// and leaves it to next to ask Authorize.
func (g *Guard) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s := g.set.Load(); s != nil {
			t := s.Find(r.Header.Get("Authorization"))
			r = r.WithContext(context.WithValue(r.Context(), caller{}, t))
		}
		next.ServeHTTP(w, r)
	})
}

// Authorize returns nil if a request that came through Handler may do this to
// the key, or to all keys at once if that is empty; or ErrUnknown; or what wraps
// ErrForbidden.
func (g *Guard) Authorize(r *http.Request, a Action, key string) error {
	if g.set.Load() == nil {
		return nil
	}
	t, _ := r.Context().Value(caller{}).(*Token)
	return t.Authorize(a, key)
}
