package client

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir"
)

func TestRefused(t *testing.T) {
	never := weir.Never
	for _, tt := range []struct {
		rule   string
		status int
		body   string
		want   error
	}{
		{"a denial", 429, `{"error":"x","reason":"queue_full","retry_after_ms":1500}`, &weir.Rejection{Reason: weir.QueueFull, RetryAfter: 1500 * time.Millisecond}},
		{"without a time it is not known", 429, `{"reason":"over_rate"}`, &weir.Rejection{Reason: weir.OverRate}},
		{"what is over the burst never comes", 429, `{"reason":"over_burst"}`, &weir.Rejection{Reason: weir.OverBurst, RetryAfter: never}},
		{"a reason of the future", 429, `{"reason":"full_moon"}`, &weir.Rejection{Reason: weir.OverRate}},
		{"a time that is too long", 429, `{"reason":"over_rate","retry_after_ms":9223372036854775807}`, &weir.Rejection{Reason: weir.OverRate, RetryAfter: never}},
		{"a time in the past", 429, `{"reason":"over_rate","retry_after_ms":-5}`, &weir.Rejection{Reason: weir.OverRate}},
		{"draining", 503, `{"reason":"closed"}`, &weir.Rejection{Reason: weir.Closed}},
		{"overloaded", 503, `{"reason":"over_rate"}`, errGarbage},
		{"a 429 of another server", 429, `slow down`, errGarbage},
		{"a 429 of another server in JSON", 429, `{"message":"slow down"}`, errGarbage},
		{"no content", 204, ``, errGarbage},
		{"500", 500, `{"reason":"closed"}`, errGarbage},
		{"what the server says", 400, `{"error":"bad"}`, &StatusError{400, "bad", ""}},
		{"of which key it says it", 403, `{"error":"no","key":"a"}`, &StatusError{403, "no", "a"}},
		{"what something else says", 404, `404 page not found`, &StatusError{404, "404 page not found", ""}},
		{"the beginning of it", 404, strings.Repeat("ä", 1000), &StatusError{404, strings.Repeat("ä", maxMessage/2), ""}},
		{"a letter that is cut", 404, "a" + strings.Repeat("ä", 1000), &StatusError{404, "a" + strings.Repeat("ä", maxMessage/2-1), ""}},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			_, err := new(call).decode(tt.status, []byte(tt.body))
			switch want := tt.want.(type) {
			case *weir.Rejection:
				if got, ok := err.(*weir.Rejection); !ok || *got != *want {
					t.Errorf("got %#v, want %#v", err, want)
				}
			case *StatusError:
				if got, ok := err.(*StatusError); !ok || *got != *want {
					t.Errorf("got %#v, want %#v", err, want)
				}
			default:
				if !errors.Is(err, want) || !away(err) {
					t.Errorf("got %v, want one that is %v", err, want)
				}
			}
		})
	}
}

// Refusals are bounded, and end.
func TestRefusalsAreBounded(t *testing.T) {
	c, err := New(Config{URL: "http://127.0.0.1:1", Away: Deny})
	testrig.Must(t, err)
	defer c.Close()
	b := &c.batcher
	for i := range 2 * maxRefused {
		if b.refuse(string(rune(i+1)), errGarbage); len(b.refused) != i%maxRefused+1 {
			t.Fatalf("%d keys", len(b.refused))
		}
	}
	if err := c.enqueue(newAsk("\x01", 1)); err != nil {
		t.Errorf("%v: want the oldest refusal forgotten", err)
	}
	b.refuse("a key", errGarbage)
	if err := c.enqueue(newAsk("a key", 1)); err != errGarbage {
		t.Errorf("%v: want the refusal", err)
	}
	b.refused["a key"] = refusal{errGarbage, time.Now()}
	if err := c.enqueue(newAsk("a key", 1)); err != nil || len(b.refused) != 0 {
		t.Errorf("%v: a refusal that is over is remembered", err)
	}
}

// What is to be told later is bounded.
func TestReturnsAreBounded(t *testing.T) {
	c := busy(t)
	for range maxReturns + 5 {
		c.settle("a", "id", 0)
	}
	if n, dropped := len(c.returns.queue), c.Stats().Dropped; n != maxReturns || dropped != 5 {
		t.Errorf("%d queued, %d dropped", n, dropped)
	}
}

// busy returns a Client of which all senders are busy until the test ends.
func busy(t *testing.T) *Client {
	c, err := New(Config{URL: "http://127.0.0.1:1", Away: Deny})
	testrig.Must(t, err)
	for range maxSenders {
		c.returns.senders <- struct{}{}
	}
	t.Cleanup(func() {
		c.returns.end()
		c.returns.running.Wait()
	})
	return c
}

// The context of a holder ends before the lease goes back to the server.
func TestHoldersStopFirst(t *testing.T) {
	for rule, end := range map[string]func(*lease){
		"at its release":  func(l *lease) { l.Release(weir.Grant{}, weir.Success) },
		"with the Client": func(l *lease) { l.c.releaseAll() },
	} {
		t.Run(rule, func(t *testing.T) {
			c := busy(t)
			ended := false
			l := &lease{c: c, key: "a", id: "id", n: 1, cancel: func(error) {
				ended = true
				if n := len(c.returns.queue); n != 0 {
					t.Error("it has been given back before")
				}
			}}
			l.hold()
			end(l)
			if n := len(c.returns.queue); !ended || n != 1 {
				t.Errorf("told: %v; given back %d times", ended, n)
			}
		})
	}
}

// A batch is JSON that says what was asked, whatever the keys.
func FuzzBatch(f *testing.F) {
	for _, key := range []string{"a", `"`, `\`, "a/b", "ключ", "\u2028", "\x7f", "a\x00", "\xff", "</script>"} {
		f.Add(key, 3)
	}
	f.Fuzz(func(t *testing.T, text string, n int) {
		key, err := clean(text, 0)
		if err != nil {
			return
		}
		var got struct {
			Requests []struct {
				Key string
				N   int
			}
		}
		body, err := encode([]*ask{{Key: key, N: n}, {Key: "b", N: 2}})
		testrig.Must(t, err)
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if len(got.Requests) != 2 || got.Requests[0].Key != key || got.Requests[0].N != n || got.Requests[1].Key != "b" {
			t.Errorf("%s: %+v", body, got)
		}
	})
}

// An answer of any kind is an answer or an error, and no number in it is out of
// bounds.
func FuzzAnswers(f *testing.F) {
	for _, body := range []string{
		`{"ok":true,"results":[{"ok":true,"remaining":7,"request_id":"x"},{"ok":false,"reason":"over_rate","rule":"x","retry_after_ms":12}]}`,
		`{"results":[null,{}]}`, `{"results":null}`, `[]`, `null`, `{"results":[{"retry_after_ms":1e3}]}`, `{"results":[{"remaining":-1}]}`,
		`{"request_id":"a","waited_ms":12,"place":3}`, `{"lease_id":"a","token":18446744073709551615,"ttl_ms":9223372036854775807}`,
		`{"error":"x","reason":"closed","retry_after_ms":-1}`, `{"reason":"over_burst"}`,
	} {
		f.Add([]byte(body), 2, 429)
	}
	f.Fuzz(func(t *testing.T, body []byte, asks, status int) {
		asks &= 0xff
		if r, err := (&call{check: func(r *reply) bool { return len(r.Results) == asks }}).decode(200, body); err == nil {
			if len(r.Results) != asks {
				t.Errorf("%d answers to %d asks", len(r.Results), asks)
			}
			for i := range r.Results {
				if d := r.Results[i].decision(); d.RetryAfter < 0 || d.OK && d.RetryAfter != 0 {
					t.Errorf("%+v", d)
				}
			}
		}
		if r, err := (&call{check: isGrant}).decode(200, body); err == nil && (r.ID == "" || r.WaitedMS.duration() < 0) {
			t.Errorf("%+v", r)
		}
		if r, err := (&call{check: isLease}).decode(200, body); err == nil && (r.LeaseID == "" || r.TTLMS.duration() <= 0 || r.WaitedMS.duration() < 0) {
			t.Errorf("%+v", r)
		}
		_, err := new(call).decode(status, body)
		if status == 200 {
			return
		}
		switch err := err.(type) {
		case nil:
			t.Error("no error")
		case *weir.Rejection:
			if err.Reason == 0 || err.RetryAfter < 0 {
				t.Errorf("%+v", err)
			}
		case *StatusError:
			if len(err.message) > maxMessage || status < 300 || status >= 500 {
				t.Errorf("%+v", err)
			}
		}
	})
}

// The Client's own transport speaks HTTP/2, with TLS and without, sends the
// token, and puts the URL's path before those of the wire.
func TestOwnTransport(t *testing.T) {
	for scheme, start := range map[string]func(*httptest.Server){
		"http": func(s *httptest.Server) {
			s.Config.Protocols = new(http.Protocols)
			s.Config.Protocols.SetUnencryptedHTTP2(true)
			s.Start()
		},
		"https": func(s *httptest.Server) {
			s.EnableHTTP2 = true
			s.StartTLS()
		},
	} {
		t.Run(scheme, func(t *testing.T) {
			var proto, token, accept, path string
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				proto, token, accept, path = r.Proto, r.Header.Get("Authorization"), r.Header.Get("Accept"), r.URL.Path
				_, _ = w.Write([]byte(`{"results":[{"ok":true,"remaining":3}]}`))
			}))
			start(s)
			defer s.Close()
			c, err := New(Config{URL: s.URL + "/limits/", Token: "open sesame", Timeout: 10 * time.Second, Away: Deny})
			testrig.Must(t, err)
			defer c.Close()
			if s.Certificate() != nil {
				roots := x509.NewCertPool()
				roots.AddCert(s.Certificate())
				c.http.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: roots}
			}
			d, err := c.Take(t.Context(), "a", 1)
			if err != nil || d.Remaining != 3 {
				t.Errorf("%+v, %v: want 3 remaining", d, err)
			}
			got := [...]string{proto, token, accept, path}
			if want := [...]string{"HTTP/2.0", "Bearer open sesame", "application/json", "/limits/rate"}; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
