package token

import (
	"context"
	"crypto/sha256"
	"net/http"
	"slices"
	"sync/atomic"
)

// A Guard authorizes requests by the Set in force. Without a Set, it allows what
// AuthorizeOpen does. It is safe for concurrent use.
type Guard struct {
	set     atomic.Pointer[Set]
	unknown atomic.Uint64 // requests without a known token
}

// Use replaces the Set, from the next request on. Nil removes it. A token continues the
// count of the one with its name.
func (g *Guard) Use(s *Set) {
	if old := g.set.Load(); s != nil && old != nil && old != s {
		for _, t := range s.tokens {
			if i := slices.IndexFunc(old.tokens, func(o *Token) bool { return o.Name == t.Name }); i >= 0 {
				t.uses = old.tokens[i].uses
			}
		}
	}
	g.set.Store(s)
}

// Uses calls yield with the requests of each token; those without a known one have the name
// "".
func (g *Guard) Uses(yield func(name string, requests uint64)) {
	if s := g.set.Load(); s != nil {
		yield("", g.unknown.Load())
		for _, t := range s.tokens {
			yield(t.Name, t.uses.Load())
		}
	}
}

// caller is the context key for the *Token of a request, which is nil if the token
// is unknown.
type caller struct{}

// Handler finds the token of a request, once for all its keys. next must call
// Authorize.
func (g *Guard) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s := g.set.Load(); s != nil {
			t := s.Find(r.Header.Get("Authorization"))
			if t == nil {
				g.unknown.Add(1)
			} else {
				t.uses.Add(1)
			}
			r = r.WithContext(context.WithValue(r.Context(), caller{}, t))
		}
		next.ServeHTTP(w, r)
	})
}

// On reports whether requests need a token.
func (g *Guard) On() bool { return g.set.Load() != nil }

// Authorize is Token.Authorize for the token of a request that came through Handler.
func (g *Guard) Authorize(r *http.Request, a Action, key string) error {
	if g.set.Load() == nil {
		return AuthorizeOpen(r.RemoteAddr, a, key)
	}
	t, _ := r.Context().Value(caller{}).(*Token)
	return t.Authorize(a, key)
}

// Client returns the name of the token of a request that came through Handler; "" if there is none.
func (g *Guard) Client(r *http.Request) string {
	if t, _ := r.Context().Value(caller{}).(*Token); t != nil {
		return t.Name
	}
	return ""
}

// A Session authorizes the requests of a connection, or of a call, for which the client has
// sent its secret once. It must not be used by several goroutines at a time.
type Session struct {
	guard *Guard
	hash  [sha256.Size]byte
	set   *Set // in which token was found
	token *Token
}

// Identify returns the Session of the client with a secret, which may be unknown.
func (g *Guard) Identify(secret string) *Session {
	return &Session{guard: g, hash: sha256.Sum256([]byte(secret))}
}

// isOpen reports whether no Set is in force, so that every client is allowed. If one is, token
// becomes the token in it with the client's secret, or nil.
func (s *Session) isOpen() bool {
	if set := s.guard.set.Load(); set != s.set {
		if s.set, s.token = set, nil; set != nil {
			s.token = set.find(s.hash)
		}
	}
	return s.set == nil
}

// Known reports whether a token has the secret, or every client is allowed.
func (s *Session) Known() bool { return s.isOpen() || s.token != nil }

// Tenant returns the name of the token if it allows the action on some keys only. It returns "" if
// the token allows the action on all keys, or if there is no token.
func (s *Session) Tenant(a Action) string {
	if s.isOpen() || s.token == nil || s.token.Authorize(a, "") == nil {
		return ""
	}
	return s.token.Name
}

// Count counts a request.
func (s *Session) Count() {
	switch {
	case s.isOpen():
	case s.token == nil:
		s.guard.unknown.Add(1)
	default:
		s.token.uses.Add(1)
	}
}

// Authorize is Token.Authorize for the token in the Set in force: a token that a reload
// removes is unknown from then on.
func (s *Session) Authorize(a Action, key string) error {
	if s.isOpen() {
		return nil
	}
	return s.token.Authorize(a, key)
}

// AuthorizeOperator is Token.Authorize for all keys and the token of a request of an operator. It returns the
// name of the token. The secret may also be the password of basic authentication, which browsers ask for.
// Without a Set, it allows none.
func (g *Guard) AuthorizeOperator(r *http.Request, a Action) (name string, err error) {
	authorization := r.Header.Get("Authorization")
	if _, password, ok := r.BasicAuth(); ok {
		authorization = "Bearer " + password
	}
	var t *Token
	if s := g.set.Load(); s != nil {
		t = s.Find(authorization)
	}
	if t == nil {
		return "", ErrUnknown
	}
	return t.Name, t.Authorize(a, "")
}
