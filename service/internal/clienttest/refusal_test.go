package client_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/client"
)

// together lets callers ask for keys in one batch, and returns how many requests
// that took, and what each was told.
func together(t *testing.T, s *site, c *client.Client, keys []string) (requests int, decisions []weir.Decision, errs []error) {
	t.Helper()
	var callers sync.WaitGroup
	callers.Go(func() { takes(t, c, "first", 1, 1) })
	synctest.Wait() // it is under way, and all others queue
	before := s.requests("POST /rate")
	decisions, errs = make([]weir.Decision, len(keys)), make([]error, len(keys))
	for i, key := range keys {
		callers.Go(func() { decisions[i], errs[i] = c.Take(t.Context(), key, 1) })
	}
	callers.Wait()
	return s.requests("POST /rate") - before, decisions, errs
}

func isBad(key string) bool { return strings.HasPrefix(key, "bad ") }

// mixed returns a thousand keys, some of them bad, and spread evenly.
func mixed(bad int) (keys []string) {
	for i := range 1000 {
		if (i+1)*bad/1000 > i*bad/1000 {
			keys = append(keys, fmt.Sprint("bad ", i))
		} else {
			keys = append(keys, fmt.Sprint("good ", i))
		}
	}
	return keys
}

// nameless refuses a batch with a bad key, as something that does not say which.
func (s *site) nameless(code int) {
	s.answer(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		time.Sleep(time.Millisecond)
		if bytes.Contains(body, []byte(`"bad `)) {
			status(code, `{"error":"not one of your keys"}`)(w, r)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.api.ServeHTTP(w, r)
	})
}

// A server that refuses a batch for the sake of some keys in it decides all others.
func TestABadKeyIsNotTheOthersTrouble(t *testing.T) {
	for _, tt := range []struct {
		rule   string
		code   int
		refuse func(s *site)
		bad    int
		most   int // requests
	}{
		{"one that is forbidden", 403, nil, 1, 3},
		{"ten that are forbidden", 403, nil, 10, 21},
		{"half of all", 403, nil, 500, 1001},
		{"all", 403, nil, 1000, 1000},
		{"one that is not named", 400, func(s *site) { s.nameless(400) }, 1, 21},
		{"half of all, and not named", 403, func(s *site) { s.nameless(403) }, 500, 1999},
		{"all, and not named", 400, func(s *site) { s.nameless(400) }, 1000, 1999},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, every(1, time.Hour))
				s.slow(time.Millisecond)
				if tt.refuse == nil {
					s.forbid(isBad)
				} else {
					tt.refuse(s)
				}
				c := s.client(client.Config{Away: client.Deny})
				keys := mixed(tt.bad)
				requests, decisions, errs := together(t, s, c, keys)
				for i, key := range keys {
					refused, _ := errs[i].(*client.StatusError)
					if isBad(key) != (refused != nil && refused.Status == tt.code && strings.HasSuffix(refused.Error(), ": not one of your keys")) {
						t.Errorf("%s: %v", key, errs[i])
					}
					check(t, key, decisions[i].OK, !isBad(key))
				}
				if requests > tt.most {
					t.Errorf("%d requests: want at most %d", requests, tt.most)
				}
				st := c.Stats()
				check(t, "failures", st.Failures, 0)
				check(t, "late", st.Late, 0)
			})
		})
	}
}

// A call for a key that was refused within the last second is refused at once.
func TestARefusalIsRemembered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, every(10, time.Hour))
		s.slow(time.Millisecond)
		var allowed atomic.Bool
		s.forbid(func(key string) bool { return isBad(key) && !allowed.Load() })
		c := s.client(client.Config{})
		keys := mixed(10)
		ask := func() (requests, refused int) {
			requests, _, errs := together(t, s, c, keys)
			for _, err := range errs {
				if err != nil {
					refused++
				}
			}
			return requests, refused
		}
		_, refused := ask()
		check(t, "refused", refused, 10)
		requests, refused := ask()
		check(t, "refused again", refused, 10)
		check(t, "requests", requests, 1)
		time.Sleep(time.Second)
		allowed.Store(true)
		_, refused = ask()
		check(t, "refused a second later", refused, 0)
	})
}

// What all of a batch is refused for is told to all at once.
func TestARefusalOfAll(t *testing.T) {
	for _, tt := range []struct {
		rule  string
		fault http.HandlerFunc
		keys  int
	}{
		{"the token is unknown", status(401, `{"error":"who?","key":"0"}`), 1000},
		{"it is not the server", status(404, "not found"), 1000},
		{"all ask for one key", status(403, `{"error":"no"}`), 1},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, every(1, time.Hour))
				s.answer(func(w http.ResponseWriter, r *http.Request) {
					time.Sleep(time.Millisecond)
					if s.requests("POST /rate") < 2 { // the first

						s.api.ServeHTTP(w, r)
						return
					}
					tt.fault(w, r)
				})
				c := s.client(client.Config{})
				keys := make([]string, 1000)
				for i := range keys {
					keys[i] = fmt.Sprint(i % tt.keys)
				}
				requests, _, errs := together(t, s, c, keys)
				check(t, "requests", requests, 1)
				for _, err := range errs {
					if _, ok := err.(*client.StatusError); !ok {
						t.Errorf("%v: want a refusal", err)
					}
				}
			})
		})
	}
}

// A body that is too large is no key's fault, but one ask's alone.
func TestABodyThatIsTooLarge(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, every(1000, time.Hour))
		s.answer(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Millisecond)
			if r.ContentLength > 10_000 {
				status(413, `{"error":"the body is too large"}`)(w, r)
				return
			}
			s.api.ServeHTTP(w, r)
		})
		_, decisions, errs := together(t, s, s.client(client.Config{}), slices.Repeat([]string{"a"}, 1000))
		for i, err := range errs {
			must(t, err)
			check(t, "allowed", decisions[i].OK, true)
		}
	})
}

// Once no call waits any more, no more requests are sent.
func TestARefusalThatNobodyWaitsFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, every(1, time.Hour))
		s.slow(20 * time.Millisecond)
		s.forbid(isBad)
		requests, _, _ := together(t, s, s.client(client.Config{}), mixed(500))
		time.Sleep(time.Second)
		check(t, "requests while they waited", requests, 3)
		check(t, "requests in all", s.requests("POST /rate"), 1+3)
	})
}
