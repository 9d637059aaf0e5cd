package token

import (
	"context"
	"net/http"
	"sync/atomic"
)

// A Guard authorizes requests by the Set in force. Without a Set, it allows all
// requests. It is safe for concurrent use.
type Guard struct{ set atomic.Pointer[Set] }

// Use replaces the Set, from the next request on. Nil removes it.
func (g *Guard) Use(s *Set) { g.set.Store(s) }

// caller is the context key for the *Token of a request, which is nil if the token
// is unknown.
type caller struct{}

// Handler finds the token of a request, once for all its keys. next must call
// Authorize.
func (g *Guard) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s := g.set.Load(); s != nil {
			t := s.Find(r.Header.Get("Authorization"))
			r = r.WithContext(context.WithValue(r.Context(), caller{}, t))
		}
		next.ServeHTTP(w, r)
	})
}

// Authorize is Token.Authorize for the token of a request that came through Handler.
func (g *Guard) Authorize(r *http.Request, a Action, key string) error {
	if g.set.Load() == nil {
		return nil
	}
	t, _ := r.Context().Value(caller{}).(*Token)
	return t.Authorize(a, key)
}

// AuthorizeAdmin authorizes a request of an operator, and returns the status if it is refused.
// The secret may also be the password of basic authentication, which browsers ask for.
// Without a Set, it allows none.
func (g *Guard) AuthorizeAdmin(r *http.Request) (status int, err error) {
	authorization := r.Header.Get("Authorization")
	if _, password, ok := r.BasicAuth(); ok {
		authorization = "Bearer " + password
	}
	var t *Token
	if s := g.set.Load(); s != nil {
		t = s.Find(authorization)
	}
	if t == nil {
		return http.StatusUnauthorized, ErrUnknown
	}
	return http.StatusForbidden, t.Authorize(Admin, "")
}
